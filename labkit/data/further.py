"""Further validation sets: corpora that a model never trains on, in the tokens of the run's own data."""

import hashlib
import json
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from labkit.data.cache import appearing, cache_root, locked
from labkit.data.corpus import Corpus, Source
from labkit.data.documents import FEW, SPLITTING
from labkit.data.gather import gather
from labkit.data.store import VERSION, Store, name_of
from labkit.data.tokenizing import tokenize
from labkit.spec import Mistake, Spec
from labkit.tracking.atomic import write_json
from labkit.tracking.progress import Progress


def _called(name: str) -> str:
    """The name of a set. Raises ValueError for one that would make two metrics of one name, or be no folder's."""
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", name) or name.startswith(("loss", "bpb")):
        raise ValueError(f"{name!r} is no name of a validation set; write small letters, digits, _ and -: 'books'")
    return name


class Further(Spec):
    """A corpus that is scored as a whole when a run ends."""

    name: Annotated[str, AfterValidator(_called)]
    """What it is called in metrics: val/<name>/loss and val/<name>/bpb."""
    corpus: Corpus
    """Where its documents come from."""


def _listed(value: Any) -> Any:
    """{name: corpus} is the same as [{"name": name, "corpus": corpus}]."""
    if isinstance(value, dict):
        value = [{"name": name, "corpus": corpus} for name, corpus in value.items()]
    return tuple(value) if isinstance(value, list) else value


def _apart(sets: tuple[Further, ...]) -> tuple[Further, ...]:
    """Sets of different names. Raises ValueError."""
    names = [one.name for one in sets]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise ValueError(f"two sets are called {twice!r}; give each its own name")
    return sets


Sets = Annotated[tuple[Further, ...], BeforeValidator(_listed), AfterValidator(_apart)]
"""Validation sets by name."""


def prepare_further(sets: Sequence[Further], store: Store, base: Path, progress: Progress) -> Store:
    """The store with further validation sets, each found or made now. Raises Mistake, naming the set."""
    return Store(store.path, {one.name: _prepared(one, store, base, progress) for one in sets})


def _prepared(one: Further, store: Store, base: Path, progress: Progress) -> Path:
    with named(one):
        source = one.corpus.resolve(base, progress)
        parts = [VERSION, SPLITTING, "whole", one.corpus.fingerprint, source.contents, store.path.name]
        path = cache_root() / "stores" / hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
        if not path.exists():
            with locked(path.with_suffix(".lock"), progress):
                if not path.exists():
                    with appearing(path) as fresh:
                        _make(fresh, one.corpus, source, store, progress)
        return path


@contextmanager
def named(one: Further) -> Generator[None]:
    """A Mistake inside names the set."""
    try:
        yield
    except Mistake as mistake:
        raise Mistake(f"evaluation.also, {one.name}: {mistake}") from mistake


def _make(folder: Path, corpus: Corpus, source: Source, store: Store, progress: Progress) -> None:
    """Fill a folder: few documents are cut into pieces, so that their text can be resampled."""
    gathered = gather(source.documents(), folder / "text", progress)
    unique = gathered.unique()
    documents = unique if len(unique) >= FEW else unique.cut(unique.n_bytes)
    split = tokenize(documents, store.encoder, folder, "validation", progress)
    (folder / "text").unlink()
    about = {
        "version": VERSION,
        "hash": name_of([split], store.vocabulary),
        "corpus": corpus.label,
        "corpus_version": source.version,
        "duplicates": len(gathered) - len(unique),
        "split": split,
    }
    write_json(folder / "store.json", about)
