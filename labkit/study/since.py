"""What became of an experiment's file since it was run; reading the file imports torch."""

from collections.abc import Iterator
from pathlib import Path

from labkit.report.formats import listed
from labkit.spec import Mistake
from labkit.study.loading import load, short
from labkit.study.matching import matched
from labkit.tracking.progress import Progress
from labkit.tracking.record import Edition


def since(edition: Edition, file: Path, progress: Progress) -> str:
    """How the variants of a file differ from those on record, in a line; empty where they do not."""
    try:
        told = "; ".join(_differences(edition, file, progress))
    except Mistake as error:
        told = f"it cannot be read now: {error}"
    return f"{short(file.absolute())} has changed since it was run: {told}" if told else ""


def _differences(edition: Edition, file: Path, progress: Progress) -> Iterator[str]:
    """Of another edition than main the names alone: what was asked for it is not in the file."""
    loaded = load(file)
    recorded = {arm["name"]: arm["fingerprint"] for arm in edition.description()["arms"]}
    now = {arm.arm.name: arm.arm.fingerprint for arm in matched(loaded.experiment, loaded.base, progress)}
    as_written = edition.edition == "main" and loaded.experiment.tune is None
    new = [name for name in now if name not in recorded]
    other = [name for name in now if as_written and recorded.get(name, now[name]) != now[name]]
    gone = [name for name in recorded if name not in now]
    if new:
        yield f"{listed(new)} {'has' if len(new) == 1 else 'have'} not been run"
    if other:
        yield f"{listed(other)} {'is' if len(other) == 1 else 'are'} written otherwise"
    if gone:
        yield f"{listed(gone)} {'is' if len(gone) == 1 else 'are'} no longer in it"
