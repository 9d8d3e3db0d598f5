"""The spec of a run on record, and when its own copy of the user's files is run for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labkit.spec import Mistake
from labkit.study.recorded import recorded_spec
from labkit.tracking.record import Run
from labkit.train.run import RunSpec
from tests.specs import TINY

NORM = """
from typing import Literal
from labkit.components.norm import Rms

class Loud(Rms):
    kind: Literal["loud"] = "loud"
"""
FAILING = 'import os\n\nSIZE = os.environ["NO_SUCH_VARIABLE"]\n'

Record = Callable[..., Path]


@pytest.fixture
def record(tmp_path: Path, own_imports: None) -> Record:
    """A run of the tiny spec, or of another tree, with copies of files."""

    def recorded(changes: dict[str, Any], at: str = "run", **files: str) -> Path:
        run = Run(tmp_path / at)
        sources = {f"experiments/{name}.py": text for name, text in files.items()}
        run.create({**RunSpec.from_json(TINY).as_json(), **changes}, {"base": str(tmp_path), "sources": sources})
        (run.source / "experiments").mkdir(parents=True)
        for place, text in sources.items():
            (run.source / place).write_text(text)
        return run.path

    return recorded


def model(**fields: Any) -> dict[str, Any]:
    return {"model": {**RunSpec.from_json(TINY).model.as_json(), **fields}}


def test_no_file_is_run_for_a_spec_of_labkits_own_components(record: Record) -> None:
    assert recorded_spec(record({}, mine=FAILING)) == RunSpec.from_json(TINY)


@pytest.mark.parametrize("fields", [{"norm": "loud"}, {"pattern": [{"norm": "loud"}, {}], "n_layers": 2}])
def test_what_labkit_does_not_define_comes_from_the_files_that_run(record: Record, fields: dict[str, Any]) -> None:
    spec = recorded_spec(record(model(**fields), mine=FAILING, norms=NORM))
    assert spec.model.layers[0].norm.label == "loud"


def test_a_file_that_is_needed_and_fails_says_why_it_is_run(record: Record) -> None:
    folder = record(model(norm="loud"), mine=FAILING + NORM)
    with pytest.raises(Mistake) as caught:
        recorded_spec(folder)
    said = str(caught.value)
    for part in ("mine.py:3: KeyError: 'NO_SUCH_VARIABLE'", "unknown Norm kind 'loud'", "run the command where"):
        assert part in said


def test_a_component_of_an_earlier_file_of_this_process_is_not_taken_for_the_runs(record: Record) -> None:
    recorded_spec(record(model(norm="loud"), mine=NORM))
    later = record(model(norm="loud"), mine=FAILING, at="later")
    with pytest.raises(Mistake, match=r"loud, which labkit does not define"):
        recorded_spec(later)


def test_a_spec_that_no_file_mends_says_its_fault(record: Record) -> None:
    with pytest.raises(Mistake, match=r"spec\.json: model\.norm: unknown Norm kind 'louder'"):
        recorded_spec(record(model(norm="louder"), mine=NORM))
