"""labkit: does this change to the transformer help, by how much, and can I believe it?

The public words. They are looked up when they are used, so that `import labkit` imports nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.components import Attention as Attention
    from labkit.components import BranchScale as BranchScale
    from labkit.components import Dropout as Dropout
    from labkit.components import FeedForward as FeedForward
    from labkit.components import Gate as Gate
    from labkit.components import Head as Head
    from labkit.components import Init as Init
    from labkit.components import Linear as Linear
    from labkit.components import Norm as Norm
    from labkit.components import NormModule as NormModule
    from labkit.components import Parametrization as Parametrization
    from labkit.components import Part as Part
    from labkit.components import Place as Place
    from labkit.components import Position as Position
    from labkit.components import Residual as Residual
    from labkit.components import Role as Role
    from labkit.components import RopeScaling as RopeScaling
    from labkit.components import ScoreScale as ScoreScale
    from labkit.components import parameter as parameter
    from labkit.data import Corpus as Corpus
    from labkit.data import DataSpec as DataSpec
    from labkit.data import Tokenizer as Tokenizer
    from labkit.model import ModelSpec as ModelSpec
    from labkit.optim.optimizer import Optimizer as Optimizer
    from labkit.optim.schedule import Schedule as Schedule
    from labkit.search.pruners import Pruner as Pruner
    from labkit.search.ranges import choice as choice
    from labkit.search.ranges import integers as integers
    from labkit.search.ranges import log_uniform as log_uniform
    from labkit.search.ranges import uniform as uniform
    from labkit.search.samplers import Sampler as Sampler
    from labkit.search.tune import Tune as Tune
    from labkit.spec import Choice as Choice
    from labkit.spec import Count as Count
    from labkit.spec import Mistake as Mistake
    from labkit.spec import Number as Number
    from labkit.spec import Spec as Spec
    from labkit.study.driving import report_experiment as report_experiment
    from labkit.study.driving import run_experiment as run_experiment
    from labkit.study.experiment import Experiment as Experiment
    from labkit.study.experiment import cross as cross
    from labkit.study.experiment import vary as vary
    from labkit.study.frames import results as results
    from labkit.sweep.sweep import Sweep as Sweep
    from labkit.train.run import Budget as Budget
    from labkit.train.run import Evaluation as Evaluation
    from labkit.train.run import RunSpec as RunSpec
    from labkit.train.run import Seed as Seed

_HOMES = {
    "labkit.spec": "Spec Choice Number Count Mistake",
    "labkit.components": "Attention BranchScale Dropout FeedForward Gate Head Init Norm Parametrization Position "
    "Residual RopeScaling ScoreScale",
    "labkit.components.place": "Place",
    "labkit.components.parameters": "Linear Part Role parameter",
    "labkit.components.norm": "NormModule",
    "labkit.model": "ModelSpec",
    "labkit.data": "Corpus DataSpec Tokenizer",
    "labkit.optim.optimizer": "Optimizer",
    "labkit.optim.schedule": "Schedule",
    "labkit.search.pruners": "Pruner",
    "labkit.search.ranges": "choice integers log_uniform uniform",
    "labkit.search.samplers": "Sampler",
    "labkit.search.tune": "Tune",
    "labkit.sweep.sweep": "Sweep",
    "labkit.train.run": "Budget Evaluation RunSpec Seed",
    "labkit.study.driving": "report_experiment run_experiment",
    "labkit.study.experiment": "Experiment cross vary",
    "labkit.study.frames": "results",
}
_HOME = {word: home for home, words in _HOMES.items() for word in words.split()}

__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(_HOME)
