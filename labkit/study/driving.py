"""Experiments run from Python: from a notebook's cell, a script, or a prompt.

A run keeps the source that it came from. Of an experiment that a file defines that is the file with the local modules
that it imports, as on the command line. A notebook's cells are no file that a worker could load: there the local
modules are kept that are imported by then, so that everything an experiment is made of has to come from labkit or from
such a module. Specs are data, and travel whole.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from labkit.report import files
from labkit.report.comparison import Comparison
from labkit.report.excerpt import framed
from labkit.report.formats import plural
from labkit.spec import Choice, Mistake, Spec
from labkit.study.arguments import (
    asked_of,
    check_count,
    check_flag,
    folder_of,
    keywords_of,
    refuse,
    refuse_in_worker,
    refuse_unguarded,
    runtime_of,
    texts,
)
from labkit.study.editions import edition
from labkit.study.experiment import Experiment
from labkit.study.finding import project_root
from labkit.study.frames import Results
from labkit.study.loading import RESERVED, Loaded, loaded_from
from labkit.study.names import brief, is_safe
from labkit.study.runner import Options, Runner
from labkit.tracking.console import Console
from labkit.tracking.record import Edition
from labkit.train.run import Runtime


@dataclass(frozen=True)
class Page:
    """A report that was written."""

    path: Path
    comparison: Comparison

    def __repr__(self) -> str:
        return f"Page({str(self.path)!r})"

    def _repr_html_(self) -> str:
        return framed(self.path.read_text(encoding="utf-8"))


class Failed(RuntimeError):
    """Runs that failed, when all others are done; `results` has those."""

    def __init__(self, names: Sequence[str], results: Results) -> None:
        super().__init__(f"{plural(len(names), 'run')} failed, as told above: {', '.join(names)}")
        self.results = results


def run_experiment(
    experiment: Experiment,
    name: str = "",
    *,
    runs: str | Path | None = None,
    baseline: str = "",
    sets: Sequence[str] = (),
    steps: int = 0,
    seeds: int = 0,
    only: Sequence[str] = (),
    workers: int = 0,
    fresh: bool = False,
    runtime: Runtime | None = None,
    **execution: Any,
) -> Results:
    """Train what is missing of an experiment, as `labkit run` does, and give its results, which a notebook shows.

    `name` is what it is called on disk: of an experiment in a file the file's, and needed for one that is in none.
    `runs` is the folder of the runs, the project's unless given; `baseline`, `sets` ("path=value"), `steps`, `seeds`,
    `only`, `workers` and `fresh` are the command's options, and `execution` are those that say how runs are executed:
    `device="cpu"`, `data_parallel=2`, or a `runtime` of them all. Ctrl-C saves the runs. Raises Mistake, and Failed
    where a run failed, when all others are done.
    """
    refuse_in_worker()
    refuse("run", execution.keys() - Runtime.model_fields.keys(), {*keywords_of(run_experiment), *Runtime.model_fields})
    runtime = runtime_of(runtime, execution)
    check_count("workers", workers)
    check_flag("fresh", fresh)
    loaded, title = edition(placed(experiment, name), asked_of(baseline, sets, steps=steps, seeds=seeds))
    refuse_unguarded(loaded.sources.values())
    if experiment.tune is not None:
        file = loaded.file if loaded.is_file else "FILE"
        raise Mistake(f"experiment.run: tune is searched by the command alone: write  labkit run {file}  in a shell")
    command = f"labkit run {loaded.file}" if loaded.is_file else f"experiment.run({name!r}), in Python"
    narrowed = texts("only", only, "theta=1000")
    options = Options(folder_of(runs, loaded.root), runtime, command, narrowed, workers, fresh, "fresh=True")
    _refuse_taken(loaded, options.runs)
    runner = Runner(loaded, title, options, Console())
    outcome = runner.run()
    if outcome.interrupted:
        raise KeyboardInterrupt
    found = Results(files.write(runner.edition))
    if outcome.failed:
        raise Failed([job.name for job in outcome.failed], found)
    return found


def report_experiment(
    experiment: Experiment,
    name: str = "",
    *,
    runs: str | Path | None = None,
    baseline: str = "",
    sets: Sequence[str] = (),
    steps: int = 0,
    **unknown: Any,
) -> Page:
    """Write the report of what is on record of an experiment, finished or not; a notebook shows the page.

    `baseline`, `sets` and `steps` are those of its run. Raises Mistake where nothing has been run.
    """
    refuse("report", unknown, keywords_of(report_experiment))
    loaded, title = edition(placed(experiment, name), asked_of(baseline, sets, steps=steps))
    found = Edition(folder_of(runs, loaded.root).absolute() / loaded.name / title)
    if not found.description():
        others = sorted(path.parent.name for path in found.path.parent.glob("*/experiment.json"))
        hint = f", but of the editions {', '.join(others)}" if others else ""
        remedy = "give what its run was given, such as steps=60" if others else "experiment.run() comes first"
        raise Mistake(f"{loaded.name}: nothing is on record in {found.path}{hint}; {remedy}")
    return Page(found.path / files.PAGE, files.write(found))


def _refuse_taken(loaded: Loaded, runs: Path) -> None:
    """Raise Mistake where an experiment that is in no file would take the place of one that is."""
    for description in sorted((runs / loaded.name).glob("*/experiment.json")) if loaded.called else ():
        file = str(Edition(description.parent).description().get("file", ""))
        if file.endswith(".py"):
            raise Mistake(f"experiment.run: {description.parent} has the runs of {file}; call this one something else")


def placed(experiment: Experiment, name: str = "") -> Loaded:
    """An experiment with its name and the file that defines it, where one does.

    Raises Mistake for one in no file without a name, or whose components are.
    """
    if not isinstance(experiment, Experiment):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Mistake(f"{brief(experiment)} is no experiment; write Experiment(baseline=…, variants=…, …)")
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Mistake(f"experiment.run: {brief(name)} is no name; write a text, as in experiment.run('swiglu')")
    module = _module_of(experiment) if not name else None
    if module is not None:
        return loaded_from(experiment, Path(str(module.__file__)), module.__doc__ or "")
    if not name or not is_safe(name):
        got = f"{brief(name)} is no name for a folder" if name else "it is in no file"
        raise Mistake(f"experiment.run: {got}; call it, as in experiment.run('swiglu'), or write it into a file")
    for path, part in _own_parts(experiment):
        place = f"{path}: {type(part).__name__} is defined in this notebook, which no worker can load"
        raise Mistake(f"{place}; write it into a file, such as experiments/parts.py, and import it from there")
    if name in RESERVED:
        raise Mistake(f"experiment.run: labkit keeps something of its own at runs/{name}; call it something else")
    here = Path.cwd()
    return Loaded(experiment, here / f"{name}.ipynb", project_root(here / "-"), "", "", called=name)


def _module_of(experiment: Experiment) -> ModuleType | None:
    """The module of a file that the experiment is in, the one that is imported before the one that is run."""
    found = [
        module
        for module in list(sys.modules.values())
        if str(getattr(module, "__file__", None) or "").endswith(".py")
        and any(value is experiment for value in list(vars(module).values()))
    ]
    return min(found, key=lambda module: module.__name__ == "__main__", default=None)


def _own_parts(experiment: Experiment) -> Iterator[tuple[str, Choice]]:
    """Components whose class is in no file, with where they stand."""
    if getattr(sys.modules["__main__"], "__file__", None):
        return
    for arm in experiment.arms:
        for path, part in _parts(arm.spec, ""):
            if type(part).__module__ == "__main__":
                yield path, part


def _parts(tree: Any, path: str) -> Iterator[tuple[str, Choice]]:
    if isinstance(tree, Choice):
        yield path, tree
    if isinstance(tree, Spec):
        for name, value in tree:
            yield from _parts(value, f"{path}.{name}" if path else name)
