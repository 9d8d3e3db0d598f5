"""Who chooses the next trial: Optuna's samplers as specs. Each is made anew for every trial, from (seed, its number).

So what a trial asks for depends on the study alone, and not on how often the sweep was interrupted.
"""

import hashlib
import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from labkit.faults import closest
from labkit.search.quiet import unwarned
from labkit.search.ranges import LogUniform, Range, Value
from labkit.search.space import Space
from labkit.spec import Choice, Mistake, Size

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


def seed_of(seed: int, number: int) -> int:
    """The first four bytes of SHA-256("seed:number")."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{number}".encode()).digest()[:4], "big")


class Sampler(Choice):
    """What chooses the next trial of a search."""

    def check(self, space: Space) -> None:
        """Raise Mistake for a space that it cannot search."""

    def build(self, space: Space, seed: int, number: int) -> "BaseSampler":
        """The sampler of one trial."""
        raise NotImplementedError


class Tpe(Sampler):
    """Tree-structured Parzen estimator: argmax l(x) / g(x), densities of good and bad trials (arXiv:2304.11127)."""

    kind: Literal["tpe"] = "tpe"
    startup: Size = 10
    """Trials that are drawn at random first."""
    candidates: Size = 24
    """Of which the best is taken."""

    def build(self, space: Space, seed: int, number: int) -> "BaseSampler":
        from optuna.samplers import TPESampler

        return TPESampler(n_startup_trials=self.startup, n_ei_candidates=self.candidates, seed=seed_of(seed, number))


class Random(Sampler):
    """Every trial on its own: x ~ U(space) (Bergstra and Bengio 2012)."""

    kind: Literal["random"] = "random"

    def build(self, space: Space, seed: int, number: int) -> "BaseSampler":
        from optuna.samplers import RandomSampler

        return RandomSampler(seed=seed_of(seed, number))


class Qmc(Sampler):
    """Quasi-random points: the scrambled sequence of Sobol or Halton, of low discrepancy (arXiv:1706.03200).

    What comes with a choice is drawn at random.
    """

    kind: Literal["qmc"] = "qmc"
    sequence: Literal["sobol", "halton"] = "sobol"

    def build(self, space: Space, seed: int, number: int) -> "BaseSampler":
        from optuna.samplers import QMCSampler, RandomSampler

        return QMCSampler(
            qmc_type=self.sequence,
            scramble=True,
            seed=seed,  # the sequence is one thing: its scrambling stays
            independent_sampler=RandomSampler(seed=seed_of(seed, number)),
            warn_asynchronous_seeding=False,
            warn_independent_sampling=False,
        )


class BruteForce(Sampler):
    """Every combination once, in random order: x ~ U(space ∖ tried), with whatever comes with a choice."""

    kind: Literal["brute_force"] = "brute_force"

    def check(self, space: Space) -> None:
        _finite(space, "brute_force")

    def build(self, space: Space, seed: int, number: int) -> "BaseSampler":
        from optuna.samplers import BruteForceSampler

        return BruteForceSampler(seed=seed_of(seed, number))


class Grid(Sampler):
    """Every point of a grid once: v₁ × v₂ × …, of a range without steps `points` that are evenly spaced."""

    kind: Literal["grid"] = "grid"
    points: Annotated[int, Field(ge=2, le=1000)] = 5

    def check(self, space: Space) -> None:
        if space.is_conditional:
            raise Mistake("sampler: a grid has the same parameters everywhere; write 'brute_force' or 'tpe'")

    def build(self, space: Space, seed: int, number: int) -> "BaseSampler":
        from optuna.samplers import GridSampler

        return GridSampler(self.axes(space), seed=seed)  # the grid's order is one thing: it stays

    def axes(self, space: Space) -> dict[str, list[Value]]:
        """Name -> the values on the grid."""
        return {name: self._axis(below) for name, below in space.every.items()}

    def _axis(self, below: Range) -> list[Value]:
        if below.count is not None:
            return list(below.values)
        low, high = below.values
        shares = [index / (self.points - 1) for index in range(self.points)]
        if isinstance(below, LogUniform):
            inner = [low * (high / low) ** share for share in shares[1:-1]]
        else:
            inner = [low + (high - low) * share for share in shares[1:-1]]
        return [low, *inner, high]


class Optuna(Sampler):
    """Any other sampler of Optuna, x ~ its own law, by the name of its class and its arguments (arXiv:1907.10902)."""

    kind: Literal["optuna"] = "optuna"
    name: str
    """Such as "CmaEsSampler"."""
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])

    def check(self, space: Space) -> None:
        self.build(space, 0, 0)

    def build(self, space: Space, seed: int, number: int) -> "BaseSampler":
        from optuna import samplers

        return named(samplers, "Sampler", self.name, self.arguments, seed_of(seed, number))


def named(module: Any, ending: str, name: str, arguments: dict[str, Any], seed: int | None = None) -> Any:
    """A class of one of Optuna's modules, made with arguments. Raises Mistake."""
    known = [one for one in dir(module) if one.endswith(ending) and not one.startswith("Base")]
    if name not in known:
        raise Mistake(f"{ending.lower()}: Optuna has none of the name {name!r}.{closest(name, known)}")
    made, given = getattr(module, name), dict(arguments)
    if seed is not None and "seed" in inspect.signature(made).parameters:
        given.setdefault("seed", seed)
    try:
        with unwarned():
            return made(**given)
    except (TypeError, ValueError, ImportError) as error:
        raise Mistake(f"{ending.lower()}: {name}: {str(error).splitlines()[0]}") from error


def _finite(space: Space, kind: str) -> None:
    name = next((name for name, below in space.every.items() if below.count is None), "")
    if name:
        raise Mistake(f"sampler: {kind!r} tries every value, and {name} has no end of them; write choice([...]) there")
