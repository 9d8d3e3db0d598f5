"""A sampler that is made anew for every trial, so that nothing but the study and the trial's number decides."""

from collections.abc import Callable, Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from labkit.search.quiet import unwarned


class Reseeded(BaseSampler):
    """Hands every question about a trial to the sampler that `build` makes for its number."""

    def __init__(self, build: Callable[[int], BaseSampler]) -> None:
        self.build = build
        self.made: tuple[int, BaseSampler] | None = None
        self.exhausted = False
        """Whether the sampler has said that there is nothing more to try."""

    def of(self, trial: FrozenTrial) -> BaseSampler:
        if self.made is None or self.made[0] != trial.number:
            with unwarned():
                self.made = trial.number, self.build(trial.number)
        return self.made[1]

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self.of(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self.of(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self.of(trial).sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self.of(trial).before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        try:
            self.of(trial).after_trial(study, trial, state, values)
        except RuntimeError:  # `Study.stop`, which only `Study.optimize` allows
            self.exhausted = True
