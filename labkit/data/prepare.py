"""From a corpus and a tokenizer to a store: made once, under a lock, and found again by what it is made of."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from labkit.data.cache import appearing, cache_root, locked, writable
from labkit.data.corpus import Corpus, Source
from labkit.data.documents import SPLITTING
from labkit.data.encoding import Encoder
from labkit.data.further import Further, named, prepare_further
from labkit.data.gather import gather
from labkit.data.shards import dtype_for
from labkit.data.stdlib import Stdlib
from labkit.data.store import VERSION, Store, name_of
from labkit.data.tokenizer import Tokenizer
from labkit.data.tokenizing import tokenize, training_texts
from labkit.spec import Mistake, Number, Spec
from labkit.tracking.atomic import write_bytes, write_json
from labkit.tracking.progress import Progress


class DataSpec(Spec):
    """The text that a model is trained and judged on."""

    corpus: Corpus = Stdlib()
    """Where the documents come from."""
    validation: Annotated[Number, Field(ge=1e-4, le=0.5)] = 0.05
    """The fraction of the bytes that is kept from training: whole documents, or pieces of them where they are few."""


@writable()
def prepare(
    data: DataSpec,
    tokenizer: Tokenizer,
    base: Path,
    progress: Progress = Progress(),  # noqa: B008
    also: Sequence[Further] = (),
) -> Store:
    """The store of a corpus and a tokenizer: the one that is there, or made now. Raises Mistake.

    Relative paths in the specs start at the folder `base`. Two processes that want one store make it once; a killed one
    leaves nothing that is taken for a store. Equal contents have an equal `Store.hash`, whatever they are called.
    `also` are further validation sets, which come in the same tokens.
    """
    source = data.corpus.resolve(base, progress)
    path = cache_root() / "stores" / _address(data, tokenizer, source, base)
    if not path.exists():
        with locked(path.with_suffix(".lock"), progress):
            if not path.exists():
                with appearing(path) as fresh:
                    _make(fresh, data, tokenizer, source, base=base, progress=progress)
    return prepare_further(also, Store(path), base, progress)


@writable()
def look(data: DataSpec, base: Path, also: Sequence[Further] = ()) -> None:
    """Raise Mistake where a corpus cannot be there; no text is read or downloaded."""
    data.corpus.look(base)
    for one in also:
        with named(one):
            one.corpus.look(base)


def _address(data: DataSpec, tokenizer: Tokenizer, source: Source, base: Path) -> str:
    parts = [VERSION, SPLITTING, data.fingerprint, source.contents, tokenizer.fingerprint, tokenizer.contents(base)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _make(
    folder: Path, data: DataSpec, tokenizer: Tokenizer, source: Source, *, base: Path, progress: Progress
) -> None:
    """Fill a folder with a store."""
    gathered = gather(source.documents(), folder / "text", progress)
    if data.corpus.resolve(base, progress).contents != source.contents:
        raise Mistake("data.corpus: the corpus changed while it was read. Run again when it stays as it is.")
    unique = gathered.unique()
    n_copies = len(gathered) - len(unique)
    try:
        sides = dict(zip(("train", "validation"), unique.split(data.validation), strict=True))
    except Mistake as mistake:
        left_out = f" {n_copies:,} of its documents were left out, as exact copies of others." if n_copies else ""
        raise Mistake(f"{mistake}{left_out}") from mistake
    encoder = tokenizer.encoder(base, training_texts(sides["train"], progress))
    splits = {name: tokenize(side, encoder, folder, name, progress) for name, side in sides.items()}
    (folder / "text").unlink()
    labels = {"corpus": data.corpus.label, "corpus_version": source.version, "tokenizer": tokenizer.label}
    _describe(folder, encoder, **labels, duplicates=n_copies, **splits)


def _describe(folder: Path, encoder: Encoder, **facts: Any) -> None:
    vocabulary = encoder.vocabulary
    write_json(folder / "vocabulary.json", [token.hex() for token in vocabulary])
    if encoder.description:
        write_bytes(folder / "tokenizer.json", encoder.description)
    about = {
        "version": VERSION,
        "hash": name_of([facts["train"], facts["validation"]], vocabulary),
        "size": len(vocabulary),
        "end": encoder.end,
        "dtype": dtype_for(len(vocabulary)).str,
    }
    write_json(folder / "store.json", about | facts)
