"""A token store: a corpus cut by a tokenizer, split in two, in one folder that never changes.

store.json       what it holds, with a hash for each file
vocabulary.json  the bytes of each token, in hexadecimal
tokenizer.json   the tokenizer, where it was trained or loaded
train-00000.bin  validation-00000.bin  …
"""

import hashlib
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit.data.encoding import Encoder, LibraryEncoder
from labkit.data.shards import Split
from labkit.spec import Mistake
from labkit.tracking.atomic import Damaged, read_json

VERSION = 1
EMPTY: Mapping[str, Path] = {}


class Store:
    """An open token store. Cheap to open: the tokens are mapped, and only sizes are checked."""

    def __init__(self, path: Path, also: Mapping[str, Path] = EMPTY) -> None:
        """Open a folder that `prepare` made, and further validation sets. Raises Mistake where one is damaged.

        `size` is the number of token ids, `end` the one that ends a document.
        """
        self.path = path
        with intact(path):
            self._about = described(path)
            self.hash: str = self._about["hash"]
            dtype = np.dtype(self._about["dtype"])
            self.train = Split.opened(path, "train", self._about["train"], dtype)
            self.val = Split.opened(path, "validation", self._about["validation"], dtype)
            self.end, self.size = int(self._about["end"]), int(self._about["size"])
        self.also = {name: Whole(folder, name, dtype) for name, folder in also.items()}
        """Further validation sets in the same tokens, by name."""

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    @contextmanager
    def _reading(self, name: str) -> Generator[Path]:
        """One of its files. Raises Mistake where that is damaged."""
        try:
            yield self.path / name
        except Exception as error:  # the tokenizers library raises Exception itself
            raise Mistake(
                f"{self.path / name} cannot be read: {error}. Remove the folder {self.path}: it is made anew."
            ) from error

    def sampled(self, n_tokens: int) -> "Store":
        """The same with the first so many training tokens alone to validate on, the last of which ends a document.

        For measuring speed: a validation split may be too long for that, or too short.
        """
        ids, sample = self.train.read(0, n_tokens), copy(self)
        ids[-1] = self.end
        n_bytes, documents = int(self.token_bytes[ids].sum()), int((ids == self.end).sum())
        sample.val = Split(self.val.name, [ids.astype(self.val.shards[0].dtype)], len(ids), n_bytes, documents)
        return sample

    @property
    def identity(self) -> str:
        """Names all that a run reads: the hash, and those of the further sets where there are any."""
        if not self.also:
            return self.hash
        parts = [self.hash, {name: whole.hash for name, whole in self.also.items()}]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    def facts(self) -> dict[str, Any]:
        """What a run's record says of its data."""
        also = {name: whole.facts() for name, whole in self.also.items()}
        return {
            "store": str(self.path),
            "hash": self.hash,
            **{name: self._about[name] for name in ("corpus", "corpus_version", "tokenizer")},
            "train_tokens": self.train.n_tokens,
            "val_tokens": self.val.n_tokens,
            "train_bytes": self.train.n_bytes,
            "val_bytes": self.val.n_bytes,
            "train_documents": self.train.n_documents,
            "val_documents": self.val.n_documents,
            "duplicates": self._about["duplicates"],
            **({"identity": self.identity, "also": also} if also else {}),
        }

    @cached_property
    def vocabulary(self) -> list[bytes]:
        """The UTF-8 bytes that each token stands for."""
        with self._reading("vocabulary.json") as file:
            return [bytes.fromhex(token) for token in json.loads(file.read_bytes())]

    @cached_property
    def encoder(self) -> Encoder:
        """What cut the corpus, and cuts further text alike."""
        with self._reading("tokenizer.json") as file:
            return LibraryEncoder.read(file, self.end) if file.exists() else Encoder()

    @cached_property
    def token_bytes(self) -> NDArray[np.int64]:
        """(size,): how many UTF-8 bytes each token stands for; 0 for the end token."""
        return lengths_of(self.vocabulary)

    def decode(self, ids: ArrayLike) -> str:
        """The text of tokens; what is no whole character is shown as �."""
        return b"".join(self.vocabulary[index] for index in np.ravel(ids).tolist()).decode(errors="replace")


class Whole:
    """A corpus that is a validation set as a whole."""

    def __init__(self, path: Path, name: str, dtype: np.dtype[Any]) -> None:
        self.path = path
        with intact(path):
            self._about = described(path)
            self.hash = str(self._about["hash"])
            self.split = Split.opened(path, name, self._about["split"], dtype)

    def facts(self) -> dict[str, Any]:
        """What a run's record says of it."""
        named = {name: self._about[name] for name in ("corpus", "corpus_version", "duplicates")}
        counts = {"tokens": self.split.n_tokens, "bytes": self.split.n_bytes, "documents": self.split.n_documents}
        return {"store": str(self.path), "hash": self.hash, **named, **counts}


@contextmanager
def intact(path: Path) -> Generator[None]:
    """Raises Mistake, with what to remove, for a store.json that holds something else than was written."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, Mistake) and not isinstance(error, Damaged):
            raise
        fault = str(error) if isinstance(error, Damaged) else f"{path / 'store.json'} is damaged ({error!r})"
        raise Mistake(f"{fault}. Remove the folder {path} and run again: it is made anew.") from error


def described(path: Path) -> dict[str, Any]:
    """What the store.json in a folder says. Raises Mistake where there is none of this format."""
    about = read_json(path / "store.json")
    if about.get("version") != VERSION:
        raise Mistake(f"{path} is no data store of this labkit. Remove it and run the experiment: it is made anew.")
    return about


def lengths_of(vocabulary: list[bytes]) -> NDArray[np.int64]:
    """The number of bytes of each token."""
    return np.fromiter(map(len, vocabulary), np.int64, len(vocabulary))


def name_of(splits: list[dict[str, Any]], vocabulary: list[bytes]) -> str:
    """Names what a model sees of a store: the tokens of both splits, and what they stand for."""
    tokens = [[split["bytes"], [(shard["tokens"], shard["sha256"]) for shard in split["shards"]]] for split in splits]
    payload = json.dumps([VERSION, tokens, [token.hex() for token in vocabulary]])
    return hashlib.sha256(payload.encode()).hexdigest()[:32]
