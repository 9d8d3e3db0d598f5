"""The best trial as an experiment file that runs."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labkit.spec import Mistake, Spec, lean
from labkit.study.experiment import Arm, between, unseeded
from labkit.study.finding import project_root
from labkit.sweep.branch import beats, standing
from labkit.sweep.layout import WIDTH, laid
from labkit.sweep.loading import LoadedSweep, load_sweep
from labkit.sweep.runner import Searched
from labkit.sweep.sweep import Sweep
from labkit.sweep.trials import beside

TEMPLATE = '''"""The best of {file}: {told}.

Question    {question}
"""

from labkit import Experiment
from {module} import sweep

experiment = Experiment(
    baseline={base},
    variants={variants},
    seeds=[1, 2, 3],
    metric="{metric}",
    match="none",
)
'''

BETTER = "Does the best of the sweep beat its base on other seeds?"
NOT_BETTER = "Nothing in the sweep beat its base: is that so on other seeds?"


def check_best(found: LoadedSweep, into: Path) -> None:
    """Raise Mistake where the best trial could not be written, or would not run. Nothing stays behind."""
    if found.sweep is None or found.sweep.mode == "compare":
        raise Mistake(
            "--best: a comparison has a best setting for every arm, and its report has all; it is for searches"
        )
    root = found.loaded.root
    example = f"write something like {_shown(root / 'experiments' / 'best.py')}"
    if into.suffix != ".py":
        raise Mistake(f"--best {into}: this is no name of a .py file; {example}")
    if into.exists() or into.is_symlink():
        raise Mistake(f"--best {into}: it is there already; write another name, or move it away")
    there = next(folder for folder in into.absolute().parents if folder.exists())
    if not there.is_dir():
        raise Mistake(f"--best {into}: {there} is no folder; {example}")
    if not into.resolve().is_relative_to(root) or project_root(into) != root:
        raise Mistake(f"--best {into}: it would not run there, for it imports the sweep from {root}; {example}")
    try:
        with tempfile.TemporaryDirectory(dir=there, prefix=".labkit-"):
            pass
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise Mistake(f"--best {into}: cannot write there: {reason}; choose another folder") from error
    if not all(part.isidentifier() for part in _module(found)):
        raise Mistake(f"--best: {found.loaded.file.name} cannot be imported under its name; rename it")


def write_best(found: LoadedSweep, searched: Searched, into: Path) -> str:
    """Write the best trial of a search into a new file, which `check_best` looked at; gives what is to be said of it.

    Raises Mistake where none has come to its end.
    """
    sweep, branch = found.sweep, searched.branches[0]
    best = branch.best
    if sweep is None or best is None:
        raise Mistake("--best: no trial has come to its end yet, so nothing is written")
    into.parent.mkdir(parents=True, exist_ok=True)
    base, changes = branch.arm.spec, branch.changes(best)
    trained = beside(base, Arm("best", base.patched(changes), changes), found.loaded.experiment, found.loaded.base)
    variants = {"best": _written(between(base, trained.arm.spec))}
    trial = f"trial {best.number} of {len(branch.shown)}, {sweep.objectives[0].key} {best.values[0]:.4f}"
    stands, is_better = standing(branch, best, searched.base), beats(branch, best, searched.base)
    into.write_text(
        TEMPLATE.format(
            file="/".join(_module(found)) + ".py",
            told=", ".join(filter(None, (trial, stands))),
            question=BETTER if is_better else NOT_BETTER,
            module=".".join(_module(found)),
            base=_base(_changed(found, sweep)),
            variants=laid(variants, 4, WIDTH - len("    variants=,")),
            metric=sweep.metric,
        )
    )
    if not is_better:
        told = f"nothing beat the base; the best trial ({stands}) is written to {into}"
        return f"{told}, to confirm that on other seeds:  labkit run {into}"
    return f"the best trial{f', {stands},' if stands else ''} is written to {into}; run it:  labkit run {into}"


def _module(found: LoadedSweep) -> tuple[str, ...]:
    return found.loaded.file.relative_to(found.loaded.root).with_suffix("").parts


def _shown(path: Path) -> str:
    """A path from here, where that is shorter."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _base(changes: Mapping[str, Any]) -> str:
    """``sweep.base``, patched by what was changed of it."""
    if not changes:
        return "sweep.base"
    line = f"sweep.base.patched({laid(changes)})"
    if len(f"    baseline={line},") <= WIDTH:
        return line
    return f"sweep.base.patched(\n        {laid(changes, 8, 0)}\n    )"


def _changed(found: LoadedSweep, sweep: Sweep) -> dict[str, Any]:
    """What --baseline and --set have changed of the file's own base."""
    written = load_sweep(found.loaded.file).sweep
    return _written(between(unseeded(written.base), unseeded(sweep.base))) if written is not None else {}


def _written(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {path: _short(lean(value)) if isinstance(value, Spec) else value for path, value in changes.items()}


def _short(value: Any) -> Any:
    """A component as a user writes it: its kind first, and its kind alone where that is all."""
    if isinstance(value, list | tuple):
        return [_short(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    fields = {name: _short(item) for name, item in value.items()}
    if fields.keys() == {"kind"}:
        return fields["kind"]
    return {**({"kind": fields["kind"]} if "kind" in fields else {}), **fields}
