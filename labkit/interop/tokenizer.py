"""A tokenizer as files that transformers' AutoTokenizer loads, with the same ids."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.data.encoding import byte_alphabet
from labkit.data.pretrained import Pretrained
from labkit.data.tokenizer import END, Byte, Tokenizer
from labkit.spec import Mistake
from labkit.tracking.record import write_bytes, write_json

if TYPE_CHECKING:
    import tokenizers


def write_tokenizer(tokenizer: Tokenizer, base: Path, store: Path, context: int, target: Path) -> int:
    """Write tokenizer.json and tokenizer_config.json; gives the id of the token that ends a document.

    A tokenizer that was trained is read from the run's data store. Raises Mistake where that is gone.
    """
    description, end_id = _description(tokenizer, base, store)
    end = tokenizer.end if isinstance(tokenizer, Pretrained) else END
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": end,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # in a text, "<|endoftext|>" is thirteen characters and ends nothing
    }
    write_bytes(target / "tokenizer.json", description)
    write_json(target / "tokenizer_config.json", settings)
    return end_id


def _description(tokenizer: Tokenizer, base: Path, store: Path) -> tuple[bytes, int]:
    if isinstance(tokenizer, Byte):
        return byte_tokenizer().to_str().encode(), 256
    if isinstance(tokenizer, Pretrained):
        encoder = tokenizer.encoder(base, ())
        return encoder.description, encoder.end
    try:
        description = (store / "tokenizer.json").read_bytes()
    except OSError as error:
        kind = tokenizer.as_json()["kind"]
        raise Mistake(
            f"{store}: the run's data store, which holds its {kind} tokenizer, is gone ({error}). "
            f"Run the experiment with --fresh, so that the data is prepared again, and export that run."
        ) from error
    return description, tokenizer.size(base) - 1  # the last id, as `Bpe.encoder` makes it


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
