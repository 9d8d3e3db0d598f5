"""Who ends a trial early: Optuna's pruners as specs. They look at evaluation points, at equal parts of the schedule."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from labkit.search.samplers import named
from labkit.spec import Choice, Number, Size

if TYPE_CHECKING:
    from optuna.pruners import BasePruner

Share = Annotated[Number, Field(ge=0, lt=1)]
Factor = Annotated[int, Field(ge=2, le=64)]


class Pruner(Choice):
    """What ends a trial before its end."""

    minimum: Share = 0.2
    """The part of the schedule before which nothing is ended."""

    @property
    def looks(self) -> bool:
        """Whether it looks at the points of a run."""
        return True

    @property
    def over_seeds(self) -> bool:
        """Whether it looks at the seeds of a trial, one after the other."""
        return False

    def first(self, points: int) -> int:
        """The first of so many points that it may end a run at, from 1."""
        return max(1, math.ceil(self.minimum * points))

    def may_end(self, point: int, points: int) -> bool:
        """Whether a trial may end at a point: never before the minimum, nor at its own end, where nothing is saved."""
        return self.first(points) <= point and (point < points or self.over_seeds)

    def check(self) -> None:
        """Raise Mistake for what Optuna cannot make."""

    def build(self, points: int) -> "BasePruner":
        """The pruner for trials of so many points."""
        raise NotImplementedError


class Never(Pruner):
    """No trial ends before its end: stop = 0."""

    kind: Literal["none"] = "none"

    def idle(self) -> Mapping[str, str]:
        return {"minimum": "where no trial is ended; leave it out"}

    @property
    def looks(self) -> bool:
        return False

    def build(self, points: int) -> "BasePruner":
        from optuna.pruners import NopPruner

        return NopPruner()


class Median(Pruner):
    """Ends what is at its best worse than the others' median at this point: min ℓ > med ℓ' (Vizier, 2017)."""

    kind: Literal["median"] = "median"
    startup: Annotated[int, Field(ge=0, le=10_000)] = 5
    """Trials that go to their end first."""

    def build(self, points: int) -> "BasePruner":
        from optuna.pruners import MedianPruner

        return MedianPruner(n_startup_trials=self.startup, n_warmup_steps=self.first(points))


class Asha(Pruner):
    """Asynchronous successive halving: at rungs r·ηᵏ only the best 1/η go on (arXiv:1810.05934)."""

    kind: Literal["asha"] = "asha"
    factor: Factor = 3

    def build(self, points: int) -> "BasePruner":
        from optuna.pruners import SuccessiveHalvingPruner

        return SuccessiveHalvingPruner(min_resource=self.first(points), reduction_factor=self.factor)


class Hyperband(Pruner):
    """Brackets of successive halving that begin at different rungs, r·ηˢ for s = 0, 1, … (arXiv:1603.06560)."""

    kind: Literal["hyperband"] = "hyperband"
    factor: Factor = 3

    def build(self, points: int) -> "BasePruner":
        from optuna.pruners import HyperbandPruner

        least = min(self.first(points), points)
        return HyperbandPruner(min_resource=least, max_resource=points, reduction_factor=self.factor)


class Wilcoxon(Pruner):
    """Ends a trial over seeds that is worse than the best one in the same seeds: p of signed ranks (Wilcoxon 1945)."""

    kind: Literal["wilcoxon"] = "wilcoxon"
    threshold: Annotated[Number, Field(gt=0, lt=1)] = 0.1
    startup: Size = 2
    """Seeds that every trial has."""

    def idle(self) -> Mapping[str, str]:
        return {"minimum": "where trials are ended between seeds and not within them; leave it out"}

    @property
    def looks(self) -> bool:
        return False

    @property
    def over_seeds(self) -> bool:
        return True

    def build(self, points: int) -> "BasePruner":
        from optuna.pruners import WilcoxonPruner

        return WilcoxonPruner(p_threshold=self.threshold, n_startup_steps=self.startup)


class Named(Pruner):
    """Any other pruner of Optuna by the name of its class and its arguments, stop = its own rule (arXiv:1907.10902)."""

    kind: Literal["optuna"] = "optuna"
    name: str
    """Such as "PercentilePruner"."""
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])

    def check(self) -> None:
        self.build(1)

    def build(self, points: int) -> "BasePruner":
        from optuna import pruners

        return named(pruners, "Pruner", self.name, self.arguments)
