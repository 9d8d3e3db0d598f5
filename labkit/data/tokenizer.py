"""How text becomes tokens: a family."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from labkit.data.encoding import Encoder, LibraryEncoder
from labkit.spec import Choice, Mistake

if TYPE_CHECKING:
    import tokenizers


END = "<|endoftext|>"
"""How the token that ends a document is written where a tokenizer has no other way."""


class Tokenizer(Choice):
    """A vocabulary, and the rule that cuts text into it."""

    def size(self, base: Path) -> int:
        """The number of token ids, the end of a document among them: the rows of the embedding."""
        raise NotImplementedError

    def contents(self, base: Path) -> str:
        """Names the contents of the file that it is read from; empty where the spec says all."""
        return ""

    def encoder(self, base: Path, training: Iterable[str]) -> Encoder:
        """Trained on the training split, or loaded. Raises Mistake."""
        raise NotImplementedError


class Byte(Tokenizer):
    """The 256 bytes of UTF-8, and one token that ends a document."""

    kind: Literal["byte"] = "byte"

    def size(self, base: Path) -> int:
        return 257

    def encoder(self, base: Path, training: Iterable[str]) -> Encoder:
        return Encoder()


class Bpe(Tokenizer):
    """Byte pairs merged by how often they meet in the training split, within GPT-2's words (arXiv:1508.07909)."""

    kind: Literal["bpe"] = "bpe"
    vocab_size: Annotated[int, Field(ge=257, le=2**24)]
    """Bytes, merges and the token that ends a document: 256 + merges + 1."""

    def size(self, base: Path) -> int:
        return self.vocab_size

    def encoder(self, base: Path, training: Iterable[str]) -> Encoder:
        tokenizer = _trained(self.vocab_size - 1, training)
        if (reached := tokenizer.get_vocab_size() + 1) < self.vocab_size:
            raise Mistake(
                f"tokenizer.vocab_size: {self.vocab_size} asked, but the training split has only text enough "
                f"for {reached}. Write {reached} or less, or choose a larger corpus."
            )
        tokenizer.add_special_tokens([END])  # no merge spells it, since GPT-2's words end between signs and letters
        return LibraryEncoder(tokenizer, end=self.vocab_size - 1)


def _trained(size: int, texts: Iterable[str]) -> "tokenizers.Tokenizer":
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = Library(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
