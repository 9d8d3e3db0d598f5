"""A tokenizer as files that transformers' AutoTokenizer loads, with the same ids."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from labkit.data import Store
from labkit.data.encoding import byte_alphabet
from labkit.data.pretrained import Pretrained
from labkit.data.tokenizer import END, Tokenizer
from labkit.spec import Mistake
from labkit.tracking.atomic import write_bytes, write_json

if TYPE_CHECKING:
    import tokenizers

REMEDY = "export the model alone with labkit.interop.export_model"


class Described(NamedTuple):
    """A tokenizer as its files say it."""

    contents: bytes
    """Of tokenizer.json."""
    end: int
    """The token that ends a document."""
    end_text: str
    """How it is written."""


def described_bytes() -> Described:
    """The byte tokenizer, of which a store holds nothing."""
    return Described(byte_tokenizer().to_str().encode(), 256, END)


def described_tokenizer(tokenizer: Tokenizer, store: Store) -> Described:
    """The tokenizer that cut a store. Raises Mistake for one that transformers cannot have."""
    end_text = tokenizer.end if isinstance(tokenizer, Pretrained) else END
    if not store.encoder.description:
        raise Mistake(f"tokenizer: {tokenizer.label} has no tokenizer.json that transformers could load; {REMEDY}")
    return Described(store.encoder.description, store.end, end_text)


def write_tokenizer(described: Described, context: int, target: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json."""
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": described.end_text,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # in a text, "<|endoftext|>" is thirteen characters and ends nothing
    }
    write_bytes(target / "tokenizer.json", described.contents)
    write_json(target / "tokenizer_config.json", settings)


def byte_tokenizer() -> "tokenizers.Tokenizer":
    """Each byte of UTF-8 is its own token, without merges; 256 ends a document."""
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Library

    library: Any = Library(models.BPE(vocab=byte_alphabet(), merges=[]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens([AddedToken(END, special=True, normalized=False)])
    assert json.loads(library.to_str())["added_tokens"][0]["id"] == 256
    return library
