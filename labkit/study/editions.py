"""Editions: the same comparison on another baseline, under a name of its own, so that results never mix."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from labkit.faults import explain
from labkit.spec import Mistake, ValidationError
from labkit.study.experiment import Experiment, between
from labkit.study.loading import Loaded, named_baseline
from labkit.study.names import exact, safe
from labkit.train.run import RunSpec, Steps


@dataclass(frozen=True)
class Asked:
    """What the command line changes of an experiment."""

    baseline: str = ""
    sets: Sequence[str] = ()
    """``path=value``, as typed."""
    steps: int = 0
    """A budget of so many steps; 0 leaves the baseline's."""
    seeds: int = 0
    """The first so many seeds; 0 leaves the experiment's. No edition of its own: the runs are the same ones."""


def edition(loaded: Loaded, asked: Asked) -> tuple[Loaded, str]:
    """The experiment as asked and its edition's name, "main" where nothing differs. Raises Mistake."""
    old = loaded.experiment.baseline
    named = named_baseline(asked.baseline, loaded.root) if asked.baseline else old
    new = _set(named, asked)
    words = [asked.baseline.replace(":", ".")] if named != old else []
    words += [f"{path}={exact(value)}" for path, value in _told(between(named, new), new)]
    experiment = loaded.experiment if new == old else _on(loaded, new)
    experiment = experiment.first_seeds(asked.seeds) if asked.seeds else experiment
    whole = len(loaded.experiment.seed_list)
    return replace(loaded, experiment=experiment, seeds_in_file=whole), _edition_name(words)


def _edition_name(words: list[str]) -> str:
    name = safe("+".join(words)) if words else "main"
    return "main-baseline" if words and name == "main" else name


def assignment(text: str) -> tuple[str, Any]:
    """``path=value`` taken apart: the value is JSON, or as Python writes it, or else a plain string.

    Raises Mistake for a value that begins like JSON and is none.
    """
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise Mistake(f"--set {text}: write path=value, such as model.position.theta=5e5")
    try:
        return path.strip(), json.loads(value, object_pairs_hook=_once_each)
    except RecursionError as error:
        raise Mistake(f"--set {path}=…: the value is nested too deeply") from error
    except _Twice as error:
        raise Mistake(f"--set {text}: {error} stands twice in one object; write it once") from error
    except ValueError as error:
        if value.lstrip().startswith(("{", "[", '"')):
            raise Mistake(f"--set {text}: {_broken(value, error)}") from error
        return path.strip(), {"None": None, "True": True, "False": False}.get(value.strip(), value)


class _Twice(ValueError):
    """The name that an object has twice."""


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of its pairs. Raises _Twice."""
    names = [name for name, _ in pairs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise _Twice(repr(twice[0]))
    return dict(pairs)


def _broken(value: str, error: ValueError) -> str:
    """Where a value that begins like JSON is none, and how a text that begins like a list is written."""
    rest = value[getattr(error, "pos", len(value)) :].strip()
    where = f"before {rest[:20]!r}" if rest else "at its end"
    remedy = f"; a text is written {json.dumps(value.strip(), ensure_ascii=False)}" if value.strip()[0] == "[" else ""
    return f"the value begins like JSON and is none, {where}: {getattr(error, 'msg', error)}{remedy}"


def _set(spec: RunSpec, asked: Asked) -> RunSpec:
    changes: dict[str, Any] = {}
    for text in asked.sets:
        path, value = assignment(text)
        if path in changes:
            raise Mistake(f"--set {text}: {path} is set twice")
        if path.partition(".")[0] == "seed":
            raise Mistake(f"--set {text}: the seeds are the experiment's; write --seeds N")
        changes[path] = value
    if asked.steps and any(path.partition(".")[0] == "budget" for path in changes):
        raise Mistake(f"--steps {asked.steps}: the budget is set twice; leave out --steps or --set budget")
    if asked.steps:
        changes["budget"] = {"kind": "steps", "steps": asked.steps}
    try:
        return spec.patched(changes) if changes else spec
    except ValidationError as error:
        raise Mistake(f"--set: {explain(error, RunSpec)}") from error
    except Mistake as error:
        raise Mistake(f"--set {error}") from error


def _told(changes: dict[str, Any], new: RunSpec) -> list[tuple[str, Any]]:
    """The changes by path; a budget of steps in one word, however it was typed."""
    told = {path: value for path, value in changes.items() if path.partition(".")[0] != "budget"}
    if len(told) < len(changes):
        budget = new.budget
        told |= {"steps": budget.steps} if isinstance(budget, Steps) else _below(changes, "budget")
    return sorted(told.items())


def _below(changes: dict[str, Any], name: str) -> dict[str, Any]:
    return {path: value for path, value in changes.items() if path.partition(".")[0] == name}


def _on(loaded: Loaded, baseline: RunSpec) -> Experiment:
    try:
        return loaded.experiment.on(baseline)
    except Mistake as error:
        raise Mistake(f"{loaded.file.name}: {error}") from error
