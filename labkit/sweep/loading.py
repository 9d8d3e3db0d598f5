"""Sweep files: found by path, and loaded as experiment files are."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from labkit.spec import Mistake
from labkit.study.editions import Asked, edition
from labkit.study.experiment import Experiment
from labkit.study.loading import Loaded, check_name, faults_of, module_of, question_of
from labkit.sweep.sweep import Sweep

EXAMPLE = "sweep = Sweep(base=..., scientific=..., nuisance=..., trials=24, minimize='val/loss')"


@dataclass(frozen=True)
class LoadedSweep:
    """A sweep, or an experiment that is tuned, and the file that it comes from."""

    loaded: Loaded
    """The comparison that it is; of a search only its baseline."""
    sweep: Sweep | None
    """None for an experiment."""


def load_sweep(path: Path) -> LoadedSweep:
    """The sweep in a file. Raises Mistake for all that is wrong with it."""
    module, root = module_of(path, "sweep")
    with faults_of(path):
        found = _found(module)
    sweep = found if isinstance(found, Sweep) else None
    experiment = found.experiment if isinstance(found, Sweep) else found
    loaded = Loaded(experiment, path.resolve(), root, *question_of(module.__doc__ or ""))
    check_name(loaded.name, path)
    return LoadedSweep(loaded, sweep)


def on_edition(found: LoadedSweep, asked: Asked, trials: int) -> tuple[LoadedSweep, str]:
    """The sweep as asked, and its edition's name. Raises Mistake."""
    loaded, name = edition(found.loaded, asked)
    sweep = found.sweep
    if sweep is not None:
        sweep = replace(sweep, base=loaded.experiment.baseline, trials=trials or sweep.trials)
        seeds = loaded.experiment.seeds
        loaded = replace(loaded, experiment=replace(sweep.experiment, seeds=seeds))
    elif trials and loaded.experiment.tune is not None:
        tune = replace(loaded.experiment.tune, trials=trials)
        loaded = replace(loaded, experiment=replace(loaded.experiment, tune=tune))
    return LoadedSweep(loaded, sweep), name


def _found(module: ModuleType) -> Sweep | Experiment:
    found = getattr(module, "sweep", None)
    if isinstance(found, Sweep):
        return found
    experiment = getattr(module, "experiment", None)
    if isinstance(experiment, Experiment) and experiment.tune is not None:
        return experiment
    others = [name for name, value in vars(module).items() if isinstance(value, Sweep)]
    if found is None and others:
        raise Mistake(f"the sweep must be called 'sweep', not {others[0]!r}")
    if found is None and isinstance(experiment, Experiment):
        raise Mistake("this is an experiment that tunes nothing; write labkit run, or give it tune=Tune(...)")
    was = "no 'sweep'" if found is None else f"'sweep' is {found!r}"
    raise Mistake(f"{was}; write  {EXAMPLE}")
