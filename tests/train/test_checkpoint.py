"""Checkpoints: what they hold, and that no half of one is ever used."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from labkit.components.parameters import logical
from labkit.optim.optimizer import Optimizer
from labkit.optim.stepper import Stepper
from labkit.optim.weights import Weights
from labkit.train.checkpoint import Cadence, Checkpoints, packed, unpack
from labkit.train.loop import build

IDENTITY = {"spec": "aa", "data": "bb"}
CPU = torch.device("cpu")


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints", IDENTITY)


def saved(checkpoints: Checkpoints, *steps: int) -> None:
    for step in steps:
        checkpoints.save(step, {"x": torch.full((3,), float(step))}, {"seconds": step / 3})


def test_the_latest_checkpoint_comes_back_as_it_was_saved(checkpoints: Checkpoints) -> None:
    saved(checkpoints, 5, 7)
    found = checkpoints.latest()
    assert found is not None
    assert (found.facts["step"], found.facts["seconds"]) == (7, 7 / 3)
    assert torch.equal(found.tensors(CPU)["x"], torch.full((3,), 7.0))


def test_only_the_latest_is_kept(checkpoints: Checkpoints) -> None:
    saved(checkpoints, 99, 100, 1000)
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-000001000"]


def test_a_run_without_checkpoints_has_none(checkpoints: Checkpoints) -> None:
    assert checkpoints.latest() is None


def test_a_checkpoint_of_another_spec_or_other_data_is_not_read(checkpoints: Checkpoints) -> None:
    saved(checkpoints, 3)
    assert Checkpoints(checkpoints.folder, {**IDENTITY, "data": "cc"}).latest() is None


def test_a_torn_checkpoint_is_passed_over(checkpoints: Checkpoints) -> None:
    saved(checkpoints, 3)
    whole = checkpoints.folder / "step-000000003"
    torn = checkpoints.folder / "step-000000009"
    torn.mkdir()
    data = (whole / "state.safetensors").read_bytes()
    (torn / "state.safetensors").write_bytes(data[:-1])
    facts = json.loads((whole / "state.json").read_text()) | {"step": 9}
    (torn / "state.json").write_text(json.dumps(facts))
    found = checkpoints.latest()
    assert found is not None
    assert found.facts["step"] == 3


@pytest.mark.parametrize(
    "content",
    [b"", b'{"version": 1, "iden', b"\x00\xff", b"[]", b"null", b"{}", b'{"version": 1, "step": 9}', None],
    ids=["empty", "truncated", "binary", "list", "null", "no fields", "no identity", "folder"],
)
def test_an_unreadable_checkpoint_is_passed_over_for_the_one_before(
    checkpoints: Checkpoints, content: bytes | None
) -> None:
    saved(checkpoints, 3)
    bad = checkpoints.folder / "step-000000009"
    shutil.copytree(checkpoints.folder / "step-000000003", bad)
    (bad / "state.json").unlink()
    if content is None:
        (bad / "state.json").mkdir()
    else:
        (bad / "state.json").write_bytes(content)
    found = checkpoints.latest()
    assert found is not None
    assert found.facts["step"] == 3
    shutil.rmtree(checkpoints.folder / "step-000000003")
    assert checkpoints.latest() is None
    saved(checkpoints, 9)
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-000000009"]


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 9, None], ids=["empty", "binary", "folder"])
def test_unreadable_tensors_are_passed_over(checkpoints: Checkpoints, content: bytes | None) -> None:
    saved(checkpoints, 3)
    file = checkpoints.folder / "step-000000003" / "state.safetensors"
    file.unlink()
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    assert checkpoints.latest() is None


def test_a_file_in_a_checkpoints_place_gives_way(checkpoints: Checkpoints) -> None:
    checkpoints.folder.mkdir()
    (checkpoints.folder / "step-000000003").write_bytes(b"no folder")
    assert checkpoints.latest() is None
    saved(checkpoints, 3)
    found = checkpoints.latest()
    assert found is not None
    assert found.facts["step"] == 3


def test_what_a_killed_writer_left_is_ignored_and_removed(checkpoints: Checkpoints) -> None:
    (checkpoints.folder / ".fresh-1").mkdir(parents=True)
    assert checkpoints.latest() is None
    saved(checkpoints, 1)
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-000000001"]


STATE = {
    "adamw": {"step", "exp_avg", "exp_avg_sq"},
    "sgd": {"momentum"},
    "lion": {"momentum"},
    "adafactor": {"step", "mean", "row_mean", "column_mean"},
    "muon": {"momentum", "step", "exp_avg", "exp_avg_sq"},
}


def test_the_state_of_every_optimizer_is_known_here() -> None:
    assert set(STATE) == set(Optimizer.variants)


@pytest.mark.parametrize("optimizer", list(STATE))
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
def test_masters_and_optimizer_state_return_to_the_bit(lab, precision: str, optimizer: str) -> None:
    spec = lab.spec.patched({"precision": precision, "optimizer": optimizer})

    def fresh(seed: int) -> tuple[Weights, Stepper]:
        weights = Weights(build(spec.patched({"seed": seed}), 257, CPU), spec.precision)
        return weights, spec.optimizer.build(weights)

    weights, stepped = fresh(0)
    for _ in range(2):
        weights.gradient.normal_()
        stepped.step()
    before = {name: value.clone() for name, value in packed(weights, stepped).items()}
    others, other = fresh(1)
    unpack(before, others, other)
    after = packed(others, other)
    assert set(before) == set(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert {name.split("/")[1] for name in before if name.startswith("optimizer/")} == STATE[optimizer]
    for copy, master in ((copy, others.masters[name]) for name, copy in others.copies.items()):
        assert torch.equal(copy, master.to(copy.dtype))


def test_final_weights_carry_logical_names(lab, checkpoints: Checkpoints) -> None:
    model = build(lab.spec, 257, CPU)
    exact = {name: view.clone() for name, view in logical(model).items()}
    checkpoints.finish(Weights(model, "bf16"), {"step": 12})
    kept = load_file(checkpoints.folder / "final.safetensors")
    assert set(kept) == set(exact)
    assert all(torch.equal(kept[name], view) for name, view in exact.items())
    assert "layers.0.attention.query.weight" in kept
    about = json.loads((checkpoints.folder / "final.json").read_text())
    assert about == {"version": 1, "identity": IDENTITY, "step": 12}


def test_checkpoints_take_at_most_a_twentieth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("labkit.train.checkpoint.time.monotonic", lambda: now)
    cadence = Cadence(30.0)
    now = 29.9
    assert not cadence.is_due()
    now = 30.0
    assert cadence.is_due()
    cadence.wrote(took=3.0)
    now = 89.9
    assert not cadence.is_due()
    now = 90.0
    assert cadence.is_due()


def test_what_is_left_can_be_read_by_whom_the_folder_lets(lab, checkpoints: Checkpoints, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    model = build(lab.spec, 257, CPU)
    checkpoints.finish(Weights(model, "fp32"), {"step": 1})
    checkpoints.save(1, {"x": torch.zeros(1)}, {})
    written = list(checkpoints.folder.rglob("*.safetensors"))
    assert len(written) == 2
    assert {file.stat().st_mode for file in written} == {(tmp_path / "other").stat().st_mode}
