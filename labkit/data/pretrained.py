"""A tokenizer that somebody else trained."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from labkit.data.encoding import Encoder, LibraryEncoder
from labkit.data.hub import reason
from labkit.data.tokenizer import END, Tokenizer
from labkit.spec import Mistake, Words

if TYPE_CHECKING:
    import tokenizers


MOST = 2**24
"""Ids that a tokenizer can have: an embedding of more rows would fit no machine, and the library dies of such gaps."""


class Pretrained(Tokenizer):
    """A tokenizer.json, from a file or from the Hugging Face hub.

    Bits per byte need the bytes of each token, so it must keep the text as it is, as byte-level ones do; composing
    characters (NFC) is the one change that is accounted for.
    """

    kind: Literal["pretrained"] = "pretrained"
    path: Words
    """A tokenizer.json or its folder, relative to the experiment's file; or else a name on the hub."""
    end: Words = END
    """The token that ends a document, as it is written in the vocabulary."""
    revision: Words = "main"
    """Branch, tag or commit, for a name on the hub."""

    def size(self, base: Path) -> int:
        return len(self._encoder(base).vocabulary)

    def contents(self, base: Path) -> str:
        return hashlib.sha256(self._file(base).read_bytes()).hexdigest()

    def encoder(self, base: Path, training: Iterable[str]) -> Encoder:
        return self._encoder(base)

    def _encoder(self, base: Path) -> LibraryEncoder:
        file = self._file(base)
        return _loaded(file, file.stat().st_mtime_ns, self.end)

    def _file(self, base: Path) -> Path:
        place = base / Path(self.path).expanduser()
        file = place / "tokenizer.json" if place.is_dir() else place
        if file.is_file() and self.revision != "main":
            raise Mistake(f"tokenizer.revision: {self.revision} changes nothing where {file} is here; leave it out.")
        if file.is_file():
            return file
        if place.is_dir() or self.path.endswith(".json"):
            raise Mistake(f"tokenizer.path: no such file: {file}. Write a path relative to the experiment's file.")
        return _downloaded(self.path, self.revision)


def _downloaded(name: str, revision: str) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(name, "tokenizer.json", revision=revision))
    except (OSError, ValueError) as error:
        raise Mistake(
            f"tokenizer.path: {name!r} is no file here, and the hub does not give its tokenizer.json at {revision!r} "
            f"({reason(error)}). Write the path of a tokenizer.json, or run where the hub can be reached."
        ) from error


@lru_cache(maxsize=4)
def _loaded(file: Path, changed: int, end: str) -> LibraryEncoder:
    from tokenizers import Tokenizer as Library

    try:
        tokenizer = Library.from_file(str(file))
    except Exception as error:  # the library raises Exception itself
        raise Mistake(f"tokenizer.path: {file} is not a tokenizer.json: {reason(error)}.") from error
    _check_ids(file, tokenizer)
    return LibraryEncoder(tokenizer, _end(tokenizer, end))


def _check_ids(file: Path, tokenizer: "tokenizers.Tokenizer") -> None:
    """Raise Mistake for an id that no embedding has a row for."""
    for token, index in tokenizer.get_vocab(with_added_tokens=True).items():
        if index >= MOST:
            raise Mistake(
                f"tokenizer.path: {file} gives the token {token!r} the id {index}, but ids are below {MOST:,}. "
                "Mend the file, or choose another tokenizer."
            )


def _end(tokenizer: "tokenizers.Tokenizer", end: str) -> int:
    index = tokenizer.token_to_id(end)
    if index is None:
        special = sorted(token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special)
        raise Mistake(
            f"tokenizer.end: the tokenizer has no token {end!r} to end a document with. "
            f"Its special tokens: {', '.join(special[:20]) or 'none, so write one of its others'}."
        )
    return index
