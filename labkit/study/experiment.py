"""An experiment: a baseline, its named variants, and the seeds they share.

All of it is validated when it is written down.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from labkit.spec import Mistake, Spec, ValidationError, closest, explain
from labkit.study.names import at, is_safe, named, safe
from labkit.train.run import RunSpec

MATCHES = ("none", "params", "non_embedding", "flops")
Changes = Mapping[str, Any]


@dataclass(frozen=True)
class Vary:
    """One arm for every value at one place."""

    path: str
    values: Sequence[Any]

    def points(self) -> Iterator[Changes]:
        yield from ({self.path: value} for value in self.values)


@dataclass(frozen=True)
class Cross:
    """One arm for every combination of what its parts change."""

    parts: tuple["Vary | Cross", ...]

    def points(self) -> Iterator[Changes]:
        for combination in product(*(list(part.points()) for part in self.parts)):
            yield {path: value for changes in combination for path, value in changes.items()}


def vary(path: str, values: Sequence[Any]) -> Vary:
    """Variants that differ in one place: ``vary("model.position.theta", [1e3, 1e5])`` is theta=1000 and theta=100000.

    A value that the baseline has already gives no arm of its own.
    """
    if isinstance(values, str) or not values:
        raise Mistake(f"vary({path!r}, {values!r}): write a list of the values to try, such as [1e3, 1e5]")
    return Vary(path, tuple(values))


def cross(*parts: Vary | Cross) -> Cross:
    """The product of several `vary`: every combination of their values, the baseline's own left out."""
    if len(parts) < 2 or not all(isinstance(part, Vary | Cross) for part in parts):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Mistake(
            "cross(...): write two or more vary(...), such as cross(vary('model.norm', ['layer']), vary('clip', [0.5]))"
        )
    return Cross(parts)


Variants = Vary | Cross | Mapping[str, Changes | RunSpec]


@dataclass(frozen=True, eq=False)
class Arm:
    """The baseline or one variant: a run spec whose seed is still to be set."""

    name: str
    spec: RunSpec
    changes: Changes
    """What makes it of the baseline: path -> value."""

    @property
    def fingerprint(self) -> str:
        return self.spec.fingerprint

    def seeded(self, seed: int) -> RunSpec:
        """The run spec of one seed."""
        return self.spec.patched({"seed": seed})


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
    """What the variants have in common with the baseline: "none", "params", "non_embedding", "flops"."""

    def __post_init__(self) -> None:
        if not isinstance(self.baseline, RunSpec):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Mistake(f"baseline: expected a RunSpec, got {self.baseline!r}")
        self._check_words()
        assert self.arms

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
            arm = Arm(name, _patched(base, changes, f"variant {name!r}"), changes)
            arms.append(_checked(arm, arms, self.metric))
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
        """The name in tables: a variant's own; of the baseline what stands where the variants differ."""
        label = named(self.values(arm)) if arm.name == "baseline" and self.varied else arm.name
        return label if len(label) <= 40 else arm.name

    def on(self, baseline: RunSpec) -> "Experiment":
        """The same comparison on another baseline; a ready run spec counts as its differences from the old one."""
        variants = self.variants if isinstance(self.variants, Vary | Cross) else dict(self._named())
        return replace(self, baseline=baseline, variants=variants)

    def first_seeds(self, count: int) -> "Experiment":
        """The same comparison over the first `count` seeds, going on upwards where there are fewer."""
        more = range(max(self.seed_list) + 1, max(self.seed_list) + 1 + count)
        return replace(self, seeds=(*self.seed_list, *more)[:count])

    def _named(self) -> Iterator[tuple[str, Changes]]:
        if isinstance(self.variants, Vary | Cross):
            yield from _points(self.variants, unseeded(self.baseline))
            return
        for name, variant in self.variants.items():
            _check_name(name)
            if not isinstance(variant, RunSpec | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise Mistake(f"variant {name!r}: expected changes {{path: value}} or a RunSpec, got {variant!r}")
            ready = isinstance(variant, RunSpec)
            yield name, between(unseeded(self.baseline), unseeded(variant)) if ready else variant

    def _check_words(self) -> None:
        if not isinstance(self.variants, Vary | Cross | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Mistake(f"variants: expected vary(...), cross(...) or a dict, got {self.variants!r}")
        seeds = self.seed_list
        if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise Mistake(f"seeds: expected a positive number or different seeds from 0 up, got {self.seeds!r}")
        known = {"val/loss", "val/bpb", *(f"val/loss_x{times}" for times in self.baseline.evaluation.beyond)}
        if self.metric not in known:
            raise Mistake(f"metric: no metric {self.metric!r}.{closest(self.metric, known)}")
        if self.match not in MATCHES:
            raise Mistake(f"match: {self.match!r} is nothing to match.{closest(self.match, MATCHES)}")


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
        wanted = ", ".join(f"{path} = {value!r}" for path, value in changes.items())
        spec = _patched(base, changes, f"variant {wanted}")
        yield safe(named({path: at(spec, path) for path in changes})), changes


def _patched(base: RunSpec, changes: Changes, place: str) -> RunSpec:
    for path in changes:
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
            raise Mistake(f"variant {arm.name!r}: there are two of this name; give each its own")
        if other.spec == arm.spec != others[0].spec:
            raise Mistake(f"variant {arm.name!r}: it is the same as {other.name!r}; leave one out")
    if metric.startswith("val/loss") and arm.spec.tokenizer != others[0].spec.tokenizer:
        remedy = 'write metric="val/bpb", which is per byte'
        raise Mistake(f"variant {arm.name!r}: tokenizer: losses per token of two tokenizers do not compare; {remedy}")
    return arm


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not is_safe(name) or name == "baseline":
        reason = "the baseline's own" if name == "baseline" else "not safe as a folder's name"
        raise Mistake(f"variant {name!r}: this name is {reason}; write something like {safe(f'my-{name}')!r}")


def _has(spec: RunSpec, path: str) -> bool:
    try:
        at(spec, path)
    except LookupError:
        return False
    return True
