"""From text to tokens and back to bytes: what a tokenizer is once it is trained or loaded."""

import json
import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labkit.data.hub import reason
from labkit.spec import Mistake

if TYPE_CHECKING:
    import tokenizers


class Encoder:
    """Bytes are their own tokens; the base of all encoders."""

    @property
    def vocabulary(self) -> list[bytes]:
        """The UTF-8 bytes that each token stands for; none for tokens that are not text."""
        return [bytes([value]) for value in range(256)] + [b""]

    @property
    def end(self) -> int:
        """The token that ends a document."""
        return 256

    @property
    def description(self) -> bytes:
        """The contents of a tokenizer.json; empty where the kind says all."""
        return b""

    def encode(self, texts: Sequence[bytes]) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
        """The tokens of UTF-8 texts one after another, and the number of each text's."""
        counts = np.fromiter(map(len, texts), np.int64, len(texts))
        return np.frombuffer(b"".join(texts), np.uint8), counts

    def normal(self, text: bytes) -> bytes:
        """The bytes that the tokens of a text stand for."""
        return text


class LibraryEncoder(Encoder):
    """A tokenizer of the tokenizers library, with one of its tokens, or one more, as the end of documents."""

    def __init__(self, tokenizer: "tokenizers.Tokenizer", end: int) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True  # in a text, "<|endoftext|>" is thirteen characters and ends nothing
        self._tokenizer = tokenizer
        self._end = end

    @classmethod
    def read(cls, file: Path, end: int) -> "LibraryEncoder":
        """From a tokenizer.json of a store."""
        from tokenizers import Tokenizer as Library

        return cls(Library.from_file(str(file)), end)

    @property
    def end(self) -> int:
        return self._end

    @property
    def description(self) -> bytes:
        return self._tokenizer.to_str().encode()

    @property
    def vocabulary(self) -> list[bytes]:
        return self._table

    @cached_property
    def _table(self) -> list[bytes]:
        ids: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        written = {token: _bytes_of(token, self._byte_level) for token in ids}
        for added in self._tokenizer.get_added_tokens_decoder().values():
            written[added.content] = b"" if added.special else added.content.encode()
        table = [b""] * max(self._end + 1, *(index + 1 for index in ids.values()))
        for token, index in ids.items():
            table[index] = written[token]
        table[self._end] = b""
        return table

    def encode(self, texts: Sequence[bytes]) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
        ids = self._ids([text.decode() for text in texts])
        counts = np.fromiter(map(len, ids), np.int64, len(ids))
        return np.fromiter(chain.from_iterable(ids), np.uint32, int(counts.sum())), counts

    def _ids(self, texts: list[str]) -> list[list[int]]:
        """The tokens of each text. Raises Mistake where the tokenizer fails on one."""
        try:
            return [one.ids for one in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        except Exception as error:  # the library raises Exception itself
            raise Mistake(
                f"tokenizer.path: this tokenizer cannot encode the text: {reason(error)}. "
                "Mend its tokenizer.json, or choose a byte-level one, which has a token for every text."
            ) from error

    def normal(self, text: bytes) -> bytes:
        """Characters are composed (NFC) where the tokenizer does so; no other change of a text is accounted for."""
        return unicodedata.normalize("NFC", text.decode()).encode() if self._composes else text

    @cached_property
    def _parts(self) -> dict[str, object]:
        return json.loads(self._tokenizer.to_str())

    @property
    def _byte_level(self) -> bool:
        return '"ByteLevel"' in json.dumps([self._parts["pre_tokenizer"], self._parts["decoder"]])

    @property
    def _composes(self) -> bool:
        return self._parts["normalizer"] == {"type": "NFC"}


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable character for each byte: itself where it is one in Latin-1, else the next from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in set(printable)]
    return {chr(value): value for value in printable} | {chr(256 + n): value for n, value in enumerate(others)}


_ALPHABET = byte_alphabet()


def _bytes_of(token: str, byte_level: bool) -> bytes:
    if byte_level:
        return bytes(_ALPHABET[c] for c in token) if _ALPHABET.keys() >= set(token) else token.encode()
    if re.fullmatch("<0x[0-9A-Fa-f]{2}>", token):  # SentencePiece's bytes
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()
