"""What a run on record was trained with; its own copy of the user's files is run only for what they alone define."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labkit.faults import explain
from labkit.model import Costs, costs
from labkit.spec import Mistake, ValidationError
from labkit.study.loading import faults_of
from labkit.study.own import own_parts
from labkit.tracking import source
from labkit.tracking.record import Run
from labkit.train.run import RunSpec

WHY = "this copy of the run's own file is run because labkit alone cannot read the run's spec"
REMEDY = "run the command where the file runs as it did then: with the environment, files and packages that it needs"


def recorded_spec(folder: Path) -> RunSpec:
    """A run's spec; its own sources are loaded where it has components that labkit does not define.

    Raises Mistake for a folder that holds no run, and where such a component is not to be had.
    """
    run = Run(folder.absolute())
    if not run.record():
        example = "runs/<experiment>/<edition>/<variant>/<run>"
        raise Mistake(f"{folder}: this folder holds no run; write an experiment's file, or {example}")
    place = str(folder / "spec.json")
    with faults_of(folder / "spec.json", place):
        tree = run.spec()
        need = _unknown(tree)
    faults = list(_load(run)) if need else []
    if faults and (need := _unknown(tree, loaded=True)):
        raise Mistake(f"{faults[0]}\n{WHY}: {place}: {need}\n{REMEDY}")
    with faults_of(folder / "spec.json", place):
        return RunSpec.from_json(tree)


def recorded_costs(folder: Path, spec: RunSpec) -> Costs:
    """What the model of a run's spec takes. Raises Mistake where its tokenizer is not there."""
    with faults_of(folder / "spec.json", str(folder / "spec.json")):
        return costs(spec.model, spec.tokenizer.size(Path(Run(folder).record()["base"])))


def _unknown(tree: Any, *, loaded: bool = False) -> str:
    """What a spec needs that labkit does not define, nor `loaded` files; empty where there is nothing."""
    try:
        spec = RunSpec.from_json(tree)
    except ValidationError as error:
        return explain(error, RunSpec)
    missing = [part for part in own_parts(spec) if not (loaded and type(part).__module__ in sys.modules)]
    return ", ".join(f"{part.label}, which labkit does not define" for part in missing)


def _load(run: Run) -> Iterator[str]:
    """Import a run's own files, all that can be; gives what is wrong with the others."""
    for file in run.record().get("sources", {}):
        try:
            with faults_of(run.source / file):
                source.load(run.source / file, run.source)
        except Mistake as fault:
            yield str(fault)
