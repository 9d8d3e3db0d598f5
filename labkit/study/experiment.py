"""An experiment: a baseline, its named variants, and the seeds they share.

All of it is validated when it is written down.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Self

import labkit
from labkit.faults import closest, explain
from labkit.search.tune import Tune, check_tuned
from labkit.spec import Mistake, Spec, ValidationError
from labkit.study.names import at, brief, is_safe, named, renamed, safe
from labkit.study.sizes import by_rule, place_of, sizes_of
from labkit.train.run import RunSpec

if TYPE_CHECKING:
    from labkit.study.driving import Page
    from labkit.study.frames import Results

MATCHES = ("none", "params", "non_embedding", "active_params", "flops")

MOST_SEEDS = MOST_VALUES = 1000
"""Of one experiment, and of one `vary`: more are a slip of the keyboard."""

RESERVED = (
    *("report.html", "report.md", "report.tex", "figures", "board.json"),
    *("experiment.json", "mlflow.json", "mlflow.lock", "superseded"),
)
"""What labkit itself writes beside the variants' folders."""

WORDS = {
    "baseline": "baseline=nano",
    "variants": "variants=vary('model.norm', ['layer'])",
    "seeds": "seeds=3",
    "metric": "metric='val/loss'",
    "match": "match='params'",
}
"""The arguments that every experiment has, with what to write for each."""

MORE_WORDS = {
    "match_by": "match_by='model.feedforward.d_ff'",
    "tolerance": "tolerance=0.01",
    "looks": "looks=(4, 6, 10)",
    "margin": "margin=0.005",
    "placebo": "placebo=True",
    "tune": "tune=Tune(nuisance={'optimizer.lr': log_uniform(1e-4, 1e-2)}, trials=12)",
}
"""Those that it may have."""

SHIFT = 1_000_003
"""From a seed to the initial values of its first placebo: no two seeds of an experiment are so far apart by chance."""

MOST_PLACEBOS = 100

MATCH_BY = "model.feedforward.d_ff"
"""What moves unless an experiment names another size."""

Changes = Mapping[str, Any]


@dataclass(frozen=True)
class Vary:
    """One arm for every value at one place."""

    path: str
    values: Sequence[Any]

    @property
    def paths(self) -> tuple[str, ...]:
        """What it changes."""
        return (self.path,)

    def points(self) -> Iterator[Changes]:
        yield from ({self.path: value} for value in self.values)


@dataclass(frozen=True)
class Cross:
    """One arm for every combination of what its parts change."""

    parts: tuple["Vary | Cross", ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """What it changes."""
        return tuple(path for part in self.parts for path in part.paths)

    def points(self) -> Iterator[Changes]:
        for combination in product(*(list(part.points()) for part in self.parts)):
            yield {path: value for changes in combination for path, value in changes.items()}


def vary(path: str, values: Sequence[Any]) -> Vary:
    """Variants that differ in one place: ``vary("model.position.theta", [1e3, 1e5])`` is theta=1000 and theta=100000.

    A value that the baseline has already gives no arm of its own.
    """
    _check_path(path, f"vary({brief(path)}, ...)")
    if not isinstance(values, list | tuple | range) or not values or values[MOST_VALUES:]:
        raise Mistake(f"vary({path!r}, {brief(values)}): write a list of up to 1000 values to try, such as [1e3, 1e5]")
    return Vary(path, tuple(values))


def cross(*parts: Vary | Cross) -> Cross:
    """The product of several `vary`: every combination of their values, the baseline's own left out."""
    if len(parts) < 2 or not all(isinstance(part, Vary | Cross) for part in parts):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Mistake(
            "cross(...): write two or more vary(...), such as cross(vary('model.norm', ['layer']), vary('clip', [0.5]))"
        )
    paths = [path for part in parts for path in part.paths]
    if twice := next((path for path in paths if paths.count(path) > 1), ""):
        raise Mistake(f"cross(...): {twice} is varied twice; put all its values into one vary({twice!r}, [...])")
    return Cross(parts)


Variants = Vary | Cross | Mapping[str, Changes | RunSpec]


@dataclass(frozen=True, eq=False)
class Arm:
    """The baseline or one variant: a run spec whose seed is still to be set."""

    name: str
    spec: RunSpec
    changes: Changes
    """What makes it of the baseline: path -> value."""
    sized: str = ""
    """The size that matching gave it, in words: "d_ff 208"."""
    shift: int = 0
    """How far its initial values' seed is from the others'; more than 0 only for a placebo."""

    @property
    def fingerprint(self) -> str:
        return self.spec.fingerprint

    @property
    def label(self) -> str:
        """What it is: ``mqa, d_ff 208``."""
        return f"{self.name}, {self.sized}" if self.sized else self.name

    def seeded(self, seed: int) -> RunSpec:
        """The run spec of one seed."""
        if not self.shift:
            return self.spec.patched({"seed": seed})
        return self.spec.patched({"seed": {"data": seed, "init": (seed + self.shift) % 2**63, "dropout": seed}})


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is compared with what. Raises Mistake, naming the arm, the path, the value and the remedy."""

    baseline: RunSpec
    variants: Variants
    """``vary(...)``, ``cross(...)``, or by name either changes {path: value} or a whole run spec."""
    seeds: int | Sequence[int]
    """How many (3 means 0, 1 and 2), or which."""
    metric: str
    """What decides, at the end of a run: "val/loss", "val/bpb"."""
    match: str
    """What the variants share with the baseline: "params", "non_embedding", "active_params", "flops", "none"."""
    match_by: str = MATCH_BY
    """The size that moves until they do; a variant that says it itself is only checked."""
    tolerance: float = 0.01
    """How far what is matched may be off, relative to the baseline's."""
    looks: Sequence[int] = ()
    """At how many seeds a verdict may be given, all arms together; empty for once, at the end."""
    margin: float = 0.005
    """M in nats: a difference that certainly lies within ± M is negligible, and a tie where it may be 0."""
    placebo: bool | int = False
    """How many arms are the baseline again, under other initial values: what they differ by is noise."""
    tune: Tune | None = None
    """What is tuned for each arm on its own first, with other seeds; none: every arm is as it is written."""

    def __new__(cls, *unnamed: Any, **fields: Any) -> Self:
        """Refuse what is missing or misspelled in the words of the rest."""
        if unnamed:
            raise Mistake(f"Experiment({brief(unnamed[0])}, ...): name every argument: {', '.join(WORDS.values())}")
        known = WORDS | MORE_WORDS
        for name in fields.keys() - known.keys():
            raise Mistake(f"Experiment: no argument {name!r}.{closest(name, known)}")
        for name, example in WORDS.items():
            if name not in fields:
                raise Mistake(f"{name}: this argument is required; write {example}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        if not isinstance(self.baseline, RunSpec):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Mistake(f"baseline: expected a RunSpec, got {brief(self.baseline)}")
        self._check_words()
        assert self.arms
        self._check_match_by()
        check_tuned(self.tune, [arm.spec for arm in self.arms], self.seed_list, self.metric)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The baseline first, then the variants in their order."""
        return tuple(arm for arm in self._resolved if arm.name not in self.folded)

    @property
    def folded(self) -> tuple[str, ...]:
        """The variants that turned out to be the baseline itself."""
        base, *variants = self._resolved
        return tuple(arm.name for arm in variants if arm.spec == base.spec)

    @cached_property
    def _resolved(self) -> tuple[Arm, ...]:
        base = unseeded(self.baseline)
        arms = [Arm("baseline", base, {})]
        for name, changes in self._named():
            arm = Arm(name, _patched(base, changes, f"variant {brief(name)}"), changes)
            arms.append(_checked(arm, arms, self.metric))
        for number in range(1, int(self.placebo) + 1):
            name, shift = f"placebo-{number}" if number > 1 else "placebo", SHIFT * number
            arms.append(_checked(Arm(name, base.patched({"seed.init": shift}), {}, shift=shift), arms, self.metric))
        return tuple(arms)

    @property
    def seed_list(self) -> tuple[int, ...]:
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else tuple(self.seeds)

    @property
    def varied(self) -> tuple[str, ...]:
        """Every path that some variant changes."""
        return tuple(dict.fromkeys(path for arm in self.arms for path in arm.changes))

    def values(self, arm: Arm) -> dict[str, Any]:
        """What stands in an arm at each varied path that it has."""
        return {path: at(arm.spec, path) for path in self.varied if _has(arm.spec, path)}

    def label(self, arm: Arm) -> str:
        """The name in tables: a variant's own with the size that it was given to match; of the baseline what stands
        where the variants differ.
        """
        if arm.name != "baseline":
            return arm.label
        told = {path: by_rule(arm.spec, path) if value is None else value for path, value in self.values(arm).items()}
        label = named({path: value for path, value in told.items() if value is not None})
        return label if 0 < len(label) <= 40 else arm.name

    def on(self, baseline: RunSpec) -> "Experiment":
        """The same comparison on another baseline; a ready run spec counts as its differences from the old one."""
        variants = self.variants if isinstance(self.variants, Vary | Cross) else dict(self._named())
        return replace(self, baseline=baseline, variants=variants)

    def first_seeds(self, count: int) -> "Experiment":
        """The same comparison over the first `count` seeds, going on upwards where there are fewer."""
        more = range(max(self.seed_list) + 1, max(self.seed_list) + 1 + count)
        return replace(self, seeds=(*self.seed_list, *more)[:count])

    def run(self, name: str = "", **options: Any) -> "Results":
        """Train what is missing and give the results; `labkit.run_experiment` has the options."""
        return labkit.run_experiment(self, name, **options)

    def report(self, name: str = "", **options: Any) -> "Page":
        """Write the report of what is on record; see `labkit.report_experiment`."""
        return labkit.report_experiment(self, name, **options)

    def _named(self) -> Iterator[tuple[str, Changes]]:
        if isinstance(self.variants, Vary | Cross):
            yield from _points(self.variants, unseeded(self.baseline))
            return
        for name, variant in self.variants.items():
            _check_name(name)
            if not isinstance(variant, RunSpec | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                got = brief(variant)
                raise Mistake(f"variant {brief(name)}: expected changes {{path: value}} or a RunSpec, got {got}")
            ready = isinstance(variant, RunSpec)
            yield name, between(unseeded(self.baseline), unseeded(variant)) if ready else variant

    def _check_words(self) -> None:
        if not isinstance(self.variants, Vary | Cross | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Mistake(f"variants: expected vary(...), cross(...) or a dict, got {brief(self.variants)}")
        _check_seeds(self.seeds)
        _check_statistics(self.looks, self.margin, self.placebo)
        known = {"val/loss", "val/bpb", *(f"val/loss_x{times}" for times in self.baseline.evaluation.beyond)}
        if not isinstance(self.metric, str) or self.metric not in known:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Mistake(f"metric: no metric {brief(self.metric)}.{closest(str(self.metric), known)}")
        if not isinstance(self.match, str) or self.match not in MATCHES:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Mistake(f"match: {brief(self.match)} is nothing to match.{closest(str(self.match), MATCHES)}")
        _check_path(self.match_by, f"match_by={brief(self.match_by)}")
        if type(self.tolerance) not in (int, float) or not 0 <= self.tolerance < 1:
            raise Mistake(
                f"tolerance: expected a share of the baseline's below 1, got {brief(self.tolerance)}; write 0.01"
            )

    def _check_match_by(self) -> None:
        """Raise Mistake for a field that no arm has; the one by default is none that anybody wrote."""
        if self.match_by != MATCH_BY and not any(place_of(arm.spec, self.match_by) for arm in self.arms):
            sizes = [path for path in sizes_of(self.baseline) if path.partition(".")[0] in ("model", "budget")]
            raise Mistake(f"match_by: {brief(self.match_by)} is no size of any arm.{closest(self.match_by, sizes)}")


def unseeded(spec: RunSpec) -> RunSpec:
    """The run spec with seed 0 in all places: what the seeds of an arm share."""
    return spec.patched({"seed": 0})


def between(here: Spec, there: Spec) -> dict[str, Any]:
    """The changes that make `there` of `here`: ``here.patched(between(here, there)) == there``."""
    return dict(_between(here, there, ""))


def _between(here: Any, there: Any, path: str) -> Iterator[tuple[str, Any]]:
    if here == there:
        return
    if isinstance(here, Spec) and type(here) is type(there):
        for name, item in here:
            yield from _between(item, getattr(there, name), f"{path}.{name}" if path else name)
    else:
        yield path, there


def _points(variants: Vary | Cross, base: RunSpec) -> Iterator[tuple[str, Changes]]:
    """Each point with the name that its resolved values give it."""
    for changes in variants.points():
        wanted = ", ".join(f"{path} = {brief(value)}" for path, value in changes.items())
        spec = _patched(base, changes, f"variant {wanted}")
        yield safe(named({path: at(spec, path) for path in changes})), changes


def _patched(base: RunSpec, changes: Changes, place: str) -> RunSpec:
    for path in changes:
        _check_path(path, place)
        if path.partition(".")[0] == "seed":
            raise Mistake(f"{place}: {path}: the seeds are what the arms share; write them under seeds=")
    try:
        return base.patched(changes)
    except ValidationError as error:
        raise Mistake(f"{place}: {explain(error, RunSpec)}") from error
    except Mistake as error:
        raise Mistake(f"{place}: {error}") from error


def _checked(arm: Arm, others: list[Arm], metric: str) -> Arm:
    for other in others:
        if other.name == arm.name:
            raise Mistake(f"variant {brief(arm.name)}: there are two of this name; give each its own")
        if other.name.lower() == arm.name.lower():
            one, two = brief(arm.name), brief(other.name)
            raise Mistake(f"variant {one}: only the case tells it from {two}, which not every disk does; rename one")
        if other.spec == arm.spec != others[0].spec:
            raise Mistake(f"variant {brief(arm.name)}: it is the same as {brief(other.name)}; leave one out")
    if metric.startswith("val/loss") and arm.spec.tokenizer != others[0].spec.tokenizer:
        told = "losses per token of two tokenizers do not compare"
        raise Mistake(f'variant {brief(arm.name)}: tokenizer: {told}; write metric="val/bpb", which is per byte')
    return arm


def _check_name(name: Any) -> None:
    own = isinstance(name, str) and name.lower() in RESERVED
    if not isinstance(name, str) or not is_safe(name) or name == "baseline" or own:
        reason = (
            "the baseline's own" if name == "baseline" else "labkit's own" if own else "not safe as a folder's name"
        )
        example = brief(renamed(str(name)))
        raise Mistake(f"variant {brief(name)}: this name is {reason}; write something like {example}")


def _check_path(path: Any, place: str) -> None:
    if not isinstance(path, str) or not all(step.strip() for step in path.split(".")):
        raise Mistake(f"{place}: {brief(path)} is no path; write one with dots, such as 'model.norm'")


def _check_seeds(seeds: Any) -> None:
    """Raise Mistake for what is neither a number of seeds nor different ones."""
    listed = seeds if isinstance(seeds, list | tuple | range) else ()
    if type(seeds) is int and 1 <= seeds <= MOST_SEEDS:
        return
    whole = all(type(seed) is int and 0 <= seed < 2**63 for seed in listed)
    if whole and 1 <= len(listed) <= MOST_SEEDS and len(set(listed)) == len(listed):
        return
    what = f"a number from 1 to {MOST_SEEDS}, or a list of different whole numbers from 0 to 2**63 - 1"
    raise Mistake(f"seeds: expected {what}, got {brief(seeds)}; write seeds=3, or seeds=[0, 1, 2]")


def _check_statistics(looks: Any, margin: Any, placebo: Any) -> None:
    """Raise Mistake for looks that do not ascend, a margin that is none, or placebos that cannot be counted."""
    listed: list[Any] = [*looks] if isinstance(looks, list | tuple) else [None]
    if not all(type(look) is int and 2 <= look <= MOST_SEEDS for look in listed) or listed != sorted(set(listed)):
        raise Mistake(
            f"looks: expected ascending numbers of seeds, 2 to {MOST_SEEDS}, got {brief(looks)}; write looks=(4, 6, 10)"
        )
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 <= margin < math.inf:
        raise Mistake(f"margin: expected nats, a number from 0, got {brief(margin)}; write margin=0.005")
    if not isinstance(placebo, int) or not 0 <= placebo <= MOST_PLACEBOS:
        what = f"True, False or how many up to {MOST_PLACEBOS}"
        raise Mistake(f"placebo: expected {what}, got {brief(placebo)}; write placebo=True")


def _has(spec: RunSpec, path: str) -> bool:
    try:
        at(spec, path)
    except LookupError:
        return False
    return True
