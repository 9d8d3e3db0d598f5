"""Notes: what a reader has to know beside the numbers before believing them."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from labkit.report.arms import Arm, Outcome
from labkit.report.formats import listed, plural, rate, seeds
from labkit.report.twins import twins
from labkit.tracking.record import Edition, divergence

K = TypeVar("K")

TOLERANCE = 0.01
"""Arms whose size or budget is within this of the baseline's count as equal."""

EPOCHS = 4.0
"""Beyond this many passes over the data, repeating it costs quality (Muennighoff et al., arXiv:2305.16264)."""

UNEQUAL_SPEED = 0.1
"""Speeds of arms of equal cost that are this far apart are explained."""

SHOWN = 6
"""How many runs a note names before it only counts."""


@dataclass(frozen=True)
class Note:
    """One thing to know: of what kind, and in words."""

    kind: str
    text: str
    brief: str = ""
    """Of a confound, what a table has room for; empty where it is none."""


def notes(
    arms: Sequence[Arm],
    match: str,
    metric: str,
    *,
    not_run: Sequence[str] = (),
    left_out: Sequence[Outcome] = (),
    damaged: Sequence[str] = (),
    other_data: Sequence[Outcome] = (),
) -> Iterator[Note]:
    """Every note on a comparison: what has no result first, then unequal budgets, then unequal conditions."""
    yield from (Note("damaged", fault) for fault in damaged)
    yield from (Note("damaged", run.garbled) for arm in arms for run in arm.outcomes if run.garbled)
    for arm in arms:
        yield from _diverged(arm)
    for arm in arms:
        yield from _failed(arm)
    yield from _missing(arms, other_data)
    yield from _not_run(not_run)
    yield from _twins(arms)
    yield from _without_metric(arms, metric)
    yield from _unpaired(arms[1:])
    yield from _data_limited(arms)
    yield from _budgets(arms[1:], arms[0], match)
    yield from _conditions(arms)
    yield from _speed(arms)
    yield from _sources(arms)
    yield from _recorded(arms)
    yield from _answered(arms)
    yield from _left_out(left_out)
    yield from _other_data(other_data)


def _diverged(arm: Arm) -> Iterator[Note]:
    if not arm.diverged:
        return
    ended = len(arm.done) + len(arm.diverged)
    where = listed(f"seed {run.seed} {divergence(run.record)}" for run in arm.diverged)
    rest = f"{len(arm.done)} of {ended} survived; mean of survivors" if arm.done else f"none of {ended} survived"
    yield Note("diverged", f"{arm.name}: {rest} (diverged: {where}).")


def _failed(arm: Arm) -> Iterator[Note]:
    for run in arm.outcomes:
        if run.status == "failed":
            error = str(run.record.get("error") or "no error was recorded").strip().splitlines()[-1]
            yield Note("failed", f"{arm.name} seed {run.seed}: {error}")


def _missing(arms: Sequence[Arm], other_data: Sequence[Outcome]) -> Iterator[Note]:
    """Runs without a result that may still come; failures and runs of other data have notes of their own."""
    known = {(run.record["variant"], run.seed) for run in other_data}
    waiting = [text for arm in arms for text in _waiting(arm, known)]
    if waiting:
        total = sum(arm.total for arm in arms)
        yield Note("missing", f"{len(waiting)} of {plural(total, 'run')} have no result yet: {_some(waiting)}.")


def _twins(arms: Sequence[Arm]) -> Iterator[Note]:
    """Arms that are one model under two names."""
    found = twins(arms)
    for name in dict.fromkeys(found.values()):
        same = listed(arms[row].name for row, of in found.items() if of == name)
        text = f"{same} came to the digits of {name}: one model under two names, no part of the noise and intervals"
        yield Note("same", f"{text}.")


def _not_run(names: Sequence[str]) -> Iterator[Note]:
    if names:
        yield Note("not run", f"{_some(names)}; no part of this comparison.")


def _waiting(arm: Arm, known: Collection[tuple[str, int]]) -> Iterator[str]:
    for run in arm.outcomes:
        if run.status not in ("done", "diverged", "failed"):
            step, steps = run.record.get("step", 0), run.record.get("steps", arm.steps)
            yield f"{arm.name} seed {run.seed} ({run.status}, step {step:,} of {steps:,})"
    yield from (f"{arm.name} seed {seed}" for seed in arm.missing if (arm.name, seed) not in known)


def _without_metric(arms: Sequence[Arm], metric: str) -> Iterator[Note]:
    silent = [(arm, run) for arm in arms for run in arm.done if run.seed not in arm.finals]
    if silent:
        yield Note("missing", f"{metric} is not in the record of {_who(silent)}.")


def _unpaired(arms: Sequence[Arm]) -> Iterator[Note]:
    """Arms with the same lack are told of together."""
    apart = [arm for arm in arms if 0 < arm.difference.n < len(arm.finals)]
    for (n, of), names in _alike(apart, lambda arm: (arm.difference.n, len(arm.finals))).items():
        text = f"{listed(names)}: the difference rests on the {plural(n, 'seed')} that the baseline ended too"
        yield Note("missing", f"{text}; the mean is of all {of}.")


def _alike(arms: Sequence[Arm], said: Callable[[Arm], K]) -> dict[K, list[str]]:
    """What is said of arms, with the names of those that it is said of."""
    names: dict[K, list[str]] = {}
    for arm in arms:
        names.setdefault(said(arm), []).append(arm.name)
    return names


def _data_limited(arms: Sequence[Arm]) -> Iterator[Note]:
    beyond = [arm for arm in arms if arm.epochs > EPOCHS]
    if beyond:
        most = max(arm.epochs for arm in beyond)
        who = "every arm" if len(beyond) == len(arms) else listed(arm.name for arm in beyond)
        yield Note(
            "data-limited", f"{most:.1f} epochs over the data, more than {EPOCHS:g} ({who}).", f"{most:.1f} epochs"
        )


SIZES = {"params": "parameters", "flops": "training FLOPs", "tokens": "tokens"}
"""What a budget is made of, and its words."""


def unequal(arm: Arm, baseline: Arm) -> dict[str, float]:
    """The sizes that differ by more than one in a hundred, as ratios to the baseline's."""
    ratios = {name: getattr(arm, name) / getattr(baseline, name) for name in SIZES}
    return {name: ratio for name, ratio in ratios.items() if abs(ratio - 1) > TOLERANCE}


def _budgets(arms: Sequence[Arm], baseline: Arm, match: str) -> Iterator[Note]:
    """Arms that are as far from the baseline are told of together."""
    for apart, names in _alike(arms, lambda arm: _apart(arm, baseline)).items():
        if apart:
            who = f"{listed(names)} {'has' if len(names) == 1 else 'have'}"
            yield Note("budget", f"{who} {apart} than the baseline (matched on: {match}).", f"{listed(names)} {apart}")


def _apart(arm: Arm, baseline: Arm) -> str:
    return listed(_more(SIZES[name], ratio) for name, ratio in unequal(arm, baseline).items())


def _more(words: str, ratio: float) -> str:
    return f"{100 * abs(ratio - 1):.1f} % {'more' if ratio > 1 else 'fewer'} {words}"


_CONDITIONS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "the data": lambda record: record.get("data", {}).get("hash"),
    "the precision": lambda record: record.get("precision"),
    "the mode": lambda record: record.get("mode"),
    "the device": lambda record: record.get("device"),
    "the kernels": lambda record: record.get("kernels"),
    "the execution": lambda record: record.get("execution"),
    "the PyTorch version": lambda record: record.get("versions", {}).get("torch"),
    "the CUDA version": lambda record: record.get("versions", {}).get("cuda"),
    "the Python version": lambda record: record.get("versions", {}).get("python"),
    "labkit's own source": lambda record: _short(record.get("labkit_sources")),
    "the micro-batch": lambda record: record.get("runtime", {}).get("micro_batch"),
    "the data parallelism": lambda record: _processes(record.get("runtime", {})),
    "the labkit version": lambda record: record.get("versions", {}).get("labkit"),
}


def _conditions(arms: Sequence[Arm]) -> Iterator[Note]:
    """What should be equal in all runs and is not; a precision that an arm declares to vary is no surprise."""
    declared = {f"the {path}" for arm in arms for path in arm.changes}
    for what, value_of in _CONDITIONS.items():
        groups = _groups(arms, value_of)
        if len(groups) > 1 and what not in declared:
            yield Note("conditions", f"{what} differs: {_grouped(groups)}.", what.removeprefix("the "))


def unequal_speeds(arms: Sequence[Arm]) -> tuple[Arm, Arm] | None:
    """On a CPU, the slowest and the fastest of equal arms that are not equally fast: speed is no property of theirs."""
    equal = [arm for arm in arms if abs(arm.flops_per_token / arms[0].flops_per_token - 1) <= TOLERANCE]
    timed = [arm for arm in equal if arm.pace > 0]
    if len(timed) < 2 or any(run.record.get("device") != "cpu" for arm in equal for run in arm.done):
        return None
    slow, fast = min(timed, key=lambda arm: arm.pace), max(timed, key=lambda arm: arm.pace)
    return (slow, fast) if fast.pace / slow.pace - 1 > UNEQUAL_SPEED else None


def _speed(arms: Sequence[Arm]) -> Iterator[Note]:
    if found := unequal_speeds(arms):
        slow, fast = found
        both = f"{fast.name} {rate(fast.pace)}, {slow.name} {rate(slow.pace)}"
        text = f"tokens/s of arms of equal cost differ by up to {100 * (fast.pace / slow.pace - 1):.0f} % ({both})"
        yield Note("speed", f"{text}: on a CPU, speed depends on what else ran, so the tables leave it out.")


def _sources(arms: Sequence[Arm]) -> Iterator[Note]:
    files = {file for arm in arms for run in arm.outcomes for file in run.record.get("sources", {})}
    for file in sorted(files):
        groups = _groups(arms, lambda record, file=file: _short(record.get("sources", {}).get(file)))
        if len(groups) > 1:
            yield Note("conditions", f"the source {file} was changed between runs: {_grouped(groups)}.", file)


def _processes(runtime: Mapping[str, Any]) -> int | None:
    """How many shared each batch; None where nothing was trained yet."""
    return runtime.get("data_parallel", 1) if runtime else None


def _short(value: Any) -> str | None:
    """Eight digits of a hash, or of the hash of many."""
    if isinstance(value, str):
        return value[:8]
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8] if value else None


def _recorded(arms: Sequence[Arm]) -> Iterator[Note]:
    """What the runs themselves noted."""
    said: dict[str, _Runs] = {}
    for arm in arms:
        for run in arm.outcomes:
            for text in run.record.get("notes", []):
                said.setdefault(text, []).append((arm, run))
    everyone = sum(len(arm.outcomes) for arm in arms)
    for text, runs in said.items():
        brief = text.partition(":")[0] if len(runs) < everyone else ""
        yield Note("conditions", f"{text} ({_who(runs)}).", brief)


_Runs = list[tuple[Arm, Outcome]]


def _answered(arms: Sequence[Arm]) -> Iterator[Note]:
    """Runs that were made for another comparison, whose luck both then share."""
    for whose, runs in _groups(arms, _origin).items():
        yield Note("shared", f"{_who(runs)}: trained for {whose}, of the same spec, text and sources.")


def _origin(record: Mapping[str, Any]) -> str | None:
    """The title of the edition that a run was trained for, where that was another."""
    path = record.get("answered_from")
    return Edition(Path(path).parents[1]).title if path else None


def _groups(arms: Sequence[Arm], value_of: Callable[[Mapping[str, Any]], Any]) -> dict[str, _Runs]:
    """The runs by a value of their records, the most frequent first; runs that do not have it yet are no part."""
    groups: dict[str, _Runs] = {}
    for arm in arms:
        for run in arm.outcomes:
            if (value := value_of(run.record)) is not None:
                groups.setdefault(str(value), []).append((arm, run))
    return dict(sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])))


def _grouped(groups: Mapping[str, _Runs]) -> str:
    (common, runs), *others = groups.items()
    return "; ".join([f"{common} ({plural(len(runs), 'run')})", *(f"{value} ({_who(who)})" for value, who in others)])


def _who(runs: _Runs) -> str:
    """The runs by name: an arm's name where all of its runs are meant."""
    by_arm: dict[str, tuple[Arm, list[int]]] = {}
    for arm, run in runs:
        by_arm.setdefault(arm.name, (arm, []))[1].append(run.seed)
    names = [
        name if len(found) == len(arm.outcomes) else f"{name} {seeds(found)}" for name, (arm, found) in by_arm.items()
    ]
    return _some(names)


def _some(texts: Sequence[str]) -> str:
    shown = [*texts[:SHOWN], *([f"{len(texts) - SHOWN} more"] if len(texts) > SHOWN else [])]
    return listed(shown) if len(shown) < 3 else ", ".join(shown)


def _left_out(left_out: Sequence[Outcome]) -> Iterator[Note]:
    if left_out:
        names = sorted({run.record["variant"] for run in left_out})
        text = f"{plural(len(left_out), 'recorded run')} of other definitions of {_some(names)}"
        yield Note("left out", f"{text}: not of the variants as they are written now, so not compared.")


def _other_data(runs: Sequence[Outcome]) -> Iterator[Note]:
    if runs:
        names = [f"{run.record['variant']} seed {run.seed} ({run.data_hash[:8]})" for run in runs]
        text = f"{plural(len(runs), 'run')} of other data than the latest: {_some(names)}"
        yield Note("left out", f"{text}; not compared, and the same command trains them anew.")
