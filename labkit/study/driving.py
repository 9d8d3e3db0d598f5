"""Experiments run from Python: from a notebook's cell, a script, or a prompt.

A run keeps the source that it came from. Of an experiment that a file defines that is the file with the local modules
that it imports, as on the command line. A notebook's cells are no file that a worker could load: there the local
modules are kept that are imported by then, so that everything an experiment is made of has to come from labkit or from
such a module. Specs are data, and travel whole.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from labkit.report import files
from labkit.report.comparison import Comparison
from labkit.report.excerpt import framed
from labkit.spec import Choice, Mistake, Spec, ValidationError, closest, explain
from labkit.study.editions import Asked, edition
from labkit.study.experiment import Experiment
from labkit.study.finding import project_root
from labkit.study.frames import Results
from labkit.study.loading import Loaded, loaded_from
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
    `device="cpu"`, `data_parallel=2`, or a `runtime` of them all. Ctrl-C saves the runs. Raises Mistake.
    """
    _refuse_in_worker()
    runtime = _runtime(runtime, execution)
    _check_count("workers", workers)
    loaded, title = edition(placed(experiment, name), _asked(baseline, sets, steps=steps, seeds=seeds))
    if experiment.tune is not None:
        file = loaded.file if loaded.is_file else "FILE"
        raise Mistake(f"experiment.run: tune is searched by the command alone: write  labkit run {file}  in a shell")
    command = f"labkit run {loaded.file}" if loaded.is_file else f"experiment.run({name!r}), in Python"
    options = Options(_folder(runs, loaded), runtime, command, _texts("only", only), workers, fresh, "fresh=True")
    runner = Runner(loaded, title, options, Console())
    if runner.run().interrupted:
        raise KeyboardInterrupt
    return Results(files.write(runner.edition))


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
    _refuse("report", unknown, _words(report_experiment))
    loaded, title = edition(placed(experiment, name), _asked(baseline, sets, steps=steps))
    found = Edition(_folder(runs, loaded).absolute() / loaded.name / title)
    if not found.description():
        others = sorted(path.parent.name for path in found.path.parent.glob("*/experiment.json"))
        hint = f"; there are the editions {', '.join(others)}" if others else ""
        raise Mistake(
            f"{loaded.name}: nothing is on record in {found.path}{hint}; experiment.run() comes first, so asked"
        )
    return Page(found.path / files.PAGE, files.write(found))


def _folder(runs: str | Path | None, loaded: Loaded) -> Path:
    if runs is not None and not isinstance(runs, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Mistake(f"runs={runs!r}: expected a folder, such as runs='runs'")
    return Path(runs) if runs else loaded.root / "runs"


def _runtime(runtime: Runtime | None, execution: Mapping[str, Any]) -> Runtime:
    """What is asked of the execution, a field a word. Raises Mistake for a word that is none, or has no such value."""
    if runtime is not None and not isinstance(runtime, Runtime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Mistake(f"experiment.run: runtime={brief(runtime)}: write its fields as they are, such as device='cpu'")
    _refuse("run", execution.keys() - Runtime.model_fields.keys(), {*_words(run_experiment), *Runtime.model_fields})
    try:
        return (runtime or Runtime()).patched(execution)
    except ValidationError as error:
        raise Mistake(f"experiment.run: {explain(error, Runtime)}") from error


def _words(function: Callable[..., Any]) -> list[str]:
    """What an experiment's method takes by name."""
    return [name for name, each in signature(function).parameters.items() if each.kind is each.KEYWORD_ONLY]


def _refuse(method: str, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Raise Mistake for a word that a method of an experiment does not take."""
    for word in sorted(unknown):
        raise Mistake(f"experiment.{method}: no argument {word!r}.{closest(word, known)}")


def _asked(baseline: str, sets: Sequence[str], **counts: int) -> Asked:
    """The edition that is asked for. Raises Mistake for what is none."""
    if not isinstance(baseline, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Mistake(f"baseline={brief(baseline)}: write its name as a text, such as baseline='mini'")
    for word, count in counts.items():
        _check_count(word, count)
    return Asked(baseline, _texts("sets", sets), **counts)


def _check_count(word: str, count: int) -> None:
    if type(count) is not int or count < 0:
        raise Mistake(f"{word}={brief(count)}: write a whole number from 1, such as {word}=2, or leave it out")


def _texts(word: str, given: Sequence[str]) -> Sequence[str]:
    """A list of texts. Raises Mistake for a single one, which would be taken letter by letter."""
    if isinstance(given, str) or not all(isinstance(text, str) for text in given):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Mistake(f"{word}={given!r}: write a list of texts, such as {word}=[{str(given)!r}]")
    return given


def placed(experiment: Experiment, name: str = "") -> Loaded:
    """An experiment with its name and the file that defines it, where one does.

    Raises Mistake for one in no file without a name, or whose components are.
    """
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


def _refuse_in_worker() -> None:
    """Raise Mistake where a worker loads a script that runs its experiment as it is loaded."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    if main is not None and main.name == "labkit.worker":
        raise Mistake("experiment.run() stands where a worker runs it too; put it under  if __name__ == '__main__':")
