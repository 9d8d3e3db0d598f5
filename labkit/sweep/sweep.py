"""A sweep: a base, what is compared and what is tuned away, and what decides. Validated when it is written down."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

from labkit.faults import closest
from labkit.search.measured import check_measured
from labkit.search.method import Method
from labkit.search.space import TRIES, Changes, Space, digest, refused
from labkit.search.tune import Tune, check_trials, method
from labkit.spec import Mistake
from labkit.study.experiment import MATCH_BY, Experiment, unseeded
from labkit.study.names import brief, exact, safe, tails
from labkit.sweep.constraints import EXAMPLE, Constraints, broken, check_constraints, signature
from labkit.sweep.objectives import Objective, objectives
from labkit.train.run import RunSpec

MODES = ("search", "compare")
WORDS = {
    "base": "base=nano",
    "scientific": "scientific={'model.norm': ['layer', 'rms']}",
    "nuisance": "nuisance={'optimizer.lr': log_uniform(1e-4, 1e-2)}",
    "trials": "trials=24",
    "minimize": "minimize='val/loss'",
    "maximize": "maximize='perf/tokens_per_s'",
    "mode": "mode='search'",
    "sampler": "sampler='tpe'",
    "pruner": "pruner='median'",
    "seed": "seed=0",
    "seeds": "seeds=3",
    "constraints": EXAMPLE,
    "match": "match='params'",
    "match_by": "match_by='model.feedforward.d_ff'",
    "tolerance": "tolerance=0.01",
    "margin": "margin=0.005",
}
"""The arguments, with what to write for each."""

DRAWN = 4 * TRIES
"""Combinations that are looked at before a space is said to hold no valid one."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What is searched, or compared at its best. Raises Mistake, naming the path, the value and the remedy."""

    base: RunSpec
    scientific: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What is compared: path -> list or range. A full spec in a list may hold ranges of its own."""
    nuisance: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What is only tuned: path -> list or range."""
    trials: int | None = None
    """How many: in all, or of each scientific combination; none: all of a finite space."""
    minimize: str | Sequence[str] = ()
    """What decides: "val/loss"; several make a Pareto front."""
    maximize: str | Sequence[str] = ()
    mode: Literal["search", "compare"] = "search"
    """search: one study over everything; compare: each scientific combination at its own best, on fresh seeds."""
    sampler: Any = None
    """Who chooses; none: TPE, or every combination of a finite space without nuisance."""
    pruner: Any = "none"
    seed: int = 0
    """What the sampler's choices follow from."""
    seeds: int | None = None
    """search: of each trial, 1 where nothing is said; compare: of the verdict."""
    constraints: Constraints = field(default_factory=dict[str, Callable[[RunSpec], bool]])
    """Name -> what holds of a run spec that is worth trying; another one costs nothing."""
    match: str = "none"
    match_by: str = MATCH_BY
    tolerance: float = 0.01
    margin: float = 0.005

    def __new__(cls, *unnamed: Any, **fields: Any) -> Self:
        """Refuse what is missing or misspelled in the words of the rest."""
        if unnamed:
            raise Mistake(
                f"Sweep({brief(unnamed[0])}, ...): name every argument: {', '.join(list(WORDS.values())[:5])}"
            )
        for name in fields.keys() - WORDS.keys():
            raise Mistake(f"Sweep: no argument {name!r}.{closest(name, WORDS)}")
        if "base" not in fields:
            raise Mistake(f"base: this argument is required; write {WORDS['base']}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        if not isinstance(self.base, RunSpec):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Mistake(f"base: expected a RunSpec, got {brief(self.base)}")
        if self.mode not in MODES:
            raise Mistake(f"mode: no mode {brief(self.mode)}.{closest(str(self.mode), MODES)}")
        self._check_space()
        self._check_method()
        if self.mode == "compare":
            self._check_compare()
        assert self.experiment

    @cached_property
    def compared(self) -> Space:
        return Space.of("scientific", self.scientific)

    @cached_property
    def tuned(self) -> Space:
        return Space.of("nuisance", self.nuisance)

    @cached_property
    def space(self) -> Space:
        """All of it."""
        return self.compared.joined(self.tuned)

    @cached_property
    def objectives(self) -> Sequence[Objective]:
        return objectives(self.base, self.minimize, self.maximize)

    @property
    def enumerated(self) -> bool:
        """Whether every combination is tried once."""
        return self.mode == "search" and self.sampler is None and not self.nuisance and self.space.size is not None

    @property
    def method(self) -> Method:
        chosen = self.sampler if self.sampler is not None else "brute_force" if self.enumerated else "tpe"
        return method(chosen, self.pruner, self.seed)

    @property
    def budget(self) -> int:
        """How many trials, in all or of each combination."""
        return self.trials or self.space.size or 0

    @property
    def seed_list(self) -> tuple[int, ...]:
        """Of each trial that is searched."""
        return tuple(range(self.seeds or 1))

    @property
    def signature(self) -> dict[str, Any]:
        """What makes a study: trials of another one do not compare."""
        return {
            "space": self.space.as_json(),
            "base": unseeded(self.base).fingerprint,
            "objectives": [[one.key, one.direction] for one in self.objectives],
            "constraints": signature(self.constraints),
            "match": [self.match, self.match_by, self.tolerance] if self.match != "none" else [],
            "mode": self.mode,
            "seeds": list(self.seed_list) if self.mode == "search" else [],
        }

    def study_name(self, name: str) -> str:
        """The sweep's name and a hash of its signature."""
        return f"{name}-{digest(self.signature)}"

    def invalid(self, changes: Changes) -> str:
        """Why a combination is not worth a run; empty where it is."""
        if fault := refused(self.base, changes):
            return fault
        spec = self.base.patched(changes)
        return broken(self.constraints, spec)

    @cached_property
    def experiment(self) -> Experiment:
        """The comparison that this is; of a search only its baseline."""
        if self.mode == "search":
            return Experiment(
                baseline=self.base,
                variants={},
                seeds=list(self.seed_list),
                metric=self.metric,
                match=self.match,
                match_by=self.match_by,
                tolerance=self.tolerance,
                margin=self.margin,
            )
        return Experiment(
            baseline=self.base,
            variants=self._variants(),
            seeds=self.seeds or 1,
            metric=self.metric,
            match=self.match,
            match_by=self.match_by,
            tolerance=self.tolerance,
            margin=self.margin,
            tune=Tune(
                nuisance=self.nuisance,
                trials=self.budget,
                sampler=self.method.sampler,
                pruner=self.method.pruner,
                seed=self.seed,
            ),
        )

    @property
    def metric(self) -> str:
        """The loss that is reported; the first that is an objective."""
        return next((one.key for one in self.objectives if one.key.startswith("val/")), "val/loss")

    def on(self, base: RunSpec) -> "Sweep":
        """The same sweep of another base."""
        return replace(self, base=base)

    def left_out(self) -> dict[str, str]:
        """Of a comparison: the combinations that are invalid -> why."""
        points = [(point, self.compared.changes(point)) for point in self.compared.points()]
        return {named(point): why for point, changes in points if (why := self.invalid(changes))}

    def _variants(self) -> dict[str, Changes]:
        points = [(point, self.compared.changes(point)) for point in self.compared.points()]
        return {safe(named(point)): changes for point, changes in points if not self.invalid(changes)}

    def _check_space(self) -> None:
        check_constraints(self.constraints)
        for path in self.compared.ranges.keys() & self.tuned.ranges.keys():
            raise Mistake(f"nuisance: {path} is scientific as well; leave it out of one of them")
        if not self.space.ranges:
            raise Mistake(f"scientific, nuisance: the space is empty; write {WORDS['scientific']}")
        try:
            self.space.check_apart()
        except Mistake as error:
            raise Mistake(f"scientific, nuisance: {error}") from error
        for what, space in (("scientific", self.compared), ("nuisance", self.tuned)):
            check_measured(what, space.ranges, [one.key for one in self.objectives])
            self.space.check(what, self.base, space.ranges)
        draw, why = random.Random(0), ""
        for _ in range(DRAWN):
            if not (why := self.invalid(self.space.drawn(draw))):
                return
        raise Mistake(f"scientific, nuisance: no combination is valid: {why}")

    def _check_method(self) -> None:
        assert self.objectives
        if self.budget:
            check_trials(self.budget, "trials")
        elif self.trials is None:
            raise Mistake(f"trials: this argument is required, for the space has no end; write {WORDS['trials']}")
        else:
            check_trials(self.trials, "trials")
        if self.seeds is not None and (type(self.seeds) is not int or not 1 <= self.seeds <= 1000):
            raise Mistake(f"seeds: expected a number from 1 to 1000, got {brief(self.seeds)}; write seeds=3")
        self.method.sampler.check(self.space if self.mode == "search" else self.tuned)
        pruner = self.method.pruner
        pruner.check()
        if len(self.objectives) > 1 and (pruner.looks or pruner.over_seeds):
            several = f"there are {len(self.objectives)}"
            raise Mistake(f"pruner: {pruner.label} ends trials by one value, and {several}; write pruner='none'")
        if pruner.over_seeds and len(self.seed_list) < 2:
            raise Mistake("pruner: 'wilcoxon' looks at the seeds of a trial; write seeds=5, or pruner='median'")
        if pruner.looks and len(self.seed_list) > 1 and self.mode == "search":
            raise Mistake("pruner: of several seeds only 'wilcoxon' can end a trial; write it, or seeds=1")
        if pruner.looks and not self.objectives[0].on_the_way:
            raise Mistake(f"pruner: {self.objectives[0].key} is not measured on the way; write pruner='none'")

    def _check_compare(self) -> None:
        if not self.nuisance:
            raise Mistake("nuisance: there is nothing to tune in mode='compare'; write an Experiment, or a range")
        if not self.scientific or self.compared.size is None:
            raise Mistake("scientific: mode='compare' needs a finite list of what is compared; write choice([...])")
        if len(self.objectives) > 1 or not self.objectives[0].is_loss:
            raise Mistake("minimize: mode='compare' decides by one loss; write minimize='val/loss'")
        if self.seeds is None:
            raise Mistake("seeds: mode='compare' needs the seeds of its verdict; write seeds=3")
        if self.trials is None:
            raise Mistake(f"trials: this argument is required, for every combination; write {WORDS['trials']}")
        if len(self.experiment.arms) < 2:
            why = next(iter(self.left_out().values()), "")
            told = f"none but the base's own is valid: {why}" if why else "they are the base's own"
            raise Mistake(f"scientific: there is nothing to compare, for of its values {told}; write another one")


def named(params: Mapping[str, Any]) -> str:
    """``norm=layer,theta=1000``: parameters by the shortest endings of their names."""
    short = tails(params)
    return ",".join(f"{short[name]}={exact(value)}" for name, value in params.items())
