"""What is tuned away before arms are compared: each at its own best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from labkit.faults import closest, explain
from labkit.search.measured import check_measured
from labkit.search.method import Method
from labkit.search.space import Space
from labkit.spec import Mistake, Spec, ValidationError, shown

SEED = 1_000_000
"""Of the runs that tune: the seeds of a verdict are others, so that a lucky trial does not win it."""

WORDS = ("nuisance", "trials", "sampler", "pruner", "seed")


@dataclass(frozen=True, kw_only=True)
class Tune:
    """So many trials for each arm: ``Tune(nuisance={"optimizer.lr": log_uniform(1e-4, 1e-2)}, trials=12)``.

    Raises Mistake, naming the argument, the value and the remedy.
    """

    nuisance: Mapping[str, Any]
    """Path -> range or list of what is tuned for each arm on its own."""
    trials: int
    """Of every arm."""
    sampler: Any = "tpe"
    """A Sampler: its short form, its fields, or itself."""
    pruner: Any = "none"
    """A Pruner, alike."""
    seed: int = 0
    """What the sampler's choices follow from."""

    def __new__(cls, *unnamed: Any, **fields: Any) -> Self:
        """Refuse what is missing or misspelled in the words of the rest."""
        example = "write Tune(nuisance={'optimizer.lr': log_uniform(1e-4, 1e-2)}, trials=12)"
        if unnamed:
            raise Mistake(f"tune: Tune({shown(unnamed[0])}, ...): name every argument: {example}")
        for name in fields.keys() - set(WORDS):
            raise Mistake(f"tune: no argument {name!r}.{closest(name, WORDS)}")
        for name in WORDS[:2]:
            if name not in fields:
                raise Mistake(f"tune: {name}: this argument is required; {example}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        if not self.space.ranges:
            raise Mistake("tune: nuisance: there is nothing to tune; write a range, or leave tune= out")
        check_measured("tune: nuisance", self.space.ranges)
        check_trials(self.trials, "tune: trials")
        if self.method.pruner.over_seeds:
            raise Mistake("tune: pruner: 'wilcoxon' looks at seeds, and a trial that tunes has one; write 'median'")
        self.method.sampler.check(self.space)
        self.method.pruner.check()

    @property
    def space(self) -> Space:
        return Space.of("nuisance", self.nuisance)

    @property
    def method(self) -> Method:
        return method(self.sampler, self.pruner, self.seed)


def method(sampler: Any, pruner: Any, seed: Any) -> Method:
    """How a space is searched, from what a user wrote. Raises Mistake."""
    try:
        return Method.model_validate({"sampler": sampler, "pruner": pruner, "seed": seed})
    except ValidationError as error:
        raise Mistake(explain(error, Method)) from error


MOST_TRIALS = 10**6
"""Of one study: more are a slip of the keyboard."""


def check_trials(trials: Any, place: str) -> None:
    """Raise Mistake for what is no number of trials."""
    if type(trials) is not int or not 1 <= trials <= MOST_TRIALS:
        wanted = f"expected a number of trials from 1 to {MOST_TRIALS:,}"
        raise Mistake(f"{place}: {wanted}, got {shown(trials)}; write trials=24")


def check_tuned(tune: Any, arms: Sequence[Spec], seeds: Sequence[int], metric: str) -> None:
    """Raise Mistake for what cannot be tuned in every arm, or would be tuned on a seed of the verdict."""
    if tune is None:
        return
    if not isinstance(tune, Tune):
        raise Mistake(f"tune: expected Tune(nuisance=..., trials=...), got {shown(tune)}")
    check_measured("tune: nuisance", tune.space.ranges, [metric], "metric")
    if SEED in seeds:
        raise Mistake(f"seeds: {SEED} is the seed that is tuned on; choose others")
    for arm in arms:
        tune.space.check("nuisance", arm)
