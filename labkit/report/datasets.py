"""Runs that were trained on other data than the rest, and so are compared with nothing."""

from collections.abc import Iterator, Sequence

from labkit.report.arms import Arm, Outcome

PLACES = ("data", "tokenizer")
"""What an arm may declare to have of its own."""


def elsewhere(arms: Sequence[Arm]) -> tuple[Outcome, ...]:
    """The runs of other data than the latest finished run of the arms that declare the same data."""
    groups: dict[tuple[tuple[str, str], ...], list[Outcome]] = {}
    for arm in arms:
        groups.setdefault(tuple(_declared(arm)), []).extend(arm.outcomes)
    return tuple(run for runs in groups.values() for run in _others(runs))


def _declared(arm: Arm) -> Iterator[tuple[str, str]]:
    yield from ((path, to) for path, (_, to) in arm.changes.items() if path.partition(".")[0] in PLACES)


def _others(runs: Sequence[Outcome]) -> Iterator[Outcome]:
    finished = [run for run in runs if run.status in ("done", "diverged") and run.data_hash]
    if finished:
        latest = max(finished, key=lambda run: run.started).data_hash
        yield from (run for run in finished if run.data_hash != latest)
