"""The benchmark of whole steps, on a CPU with a model of a moment: it measures what it says of whom it says."""

import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from labkit.bench import train
from labkit.bench.contender import Masters
from labkit.bench.floor import Measured, passes
from labkit.bench.llama import Llama
from labkit.bench.peers import Missing
from labkit.bench.setups import SETUPS, Setup, Sizes
from labkit.bench.train import Bench, Row, compared
from labkit.model import Transformer

TINY = Setup(Sizes(32, 2, 4, 2, 8, 64, 50), 16, 2)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETUPS, "tiny", TINY)
    monkeypatch.setattr(train, "SETTLING", 1)


@pytest.fixture(scope="module", autouse=True)
def _frozen() -> Iterator[None]:
    """Memory is given back often, and what all tests have imported need not be looked through every time."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def told() -> list[str]:
    return []


def bench(names: list[str], told: list[str]) -> list[Row]:
    return list(Bench(names, ["exact"], 0.01, told.append, device="cpu").rows(["tiny"]))


def test_a_row_tells_speed_first_step_and_the_best_peer(told: list[str]) -> None:
    theirs, ours = bench(["labkit-eager", "torch-eager"], told)
    assert [(row.setup, row.label, row.how) for row in (theirs, ours)] == [
        ("tiny", "torch-eager", "eager"),
        ("tiny", "labkit-eager, exact", "eager"),
    ]
    for row in (ours, theirs):
        assert row.tokens_per_s == pytest.approx(TINY.tokens / row.seconds)
        assert row.first_step > 0
        assert row.label in train.line(row)
    assert theirs.beside_best == 1
    assert ours.beside_best == pytest.approx(theirs.seconds / ours.seconds)


class Steady:
    """A floor that is the same in every turn."""

    def measured(self) -> Measured:
        return Measured(products=0.5e-3, attention=0.25e-3, copies=0.25e-3)


def test_a_step_stands_beside_the_floor_of_its_turns(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "floor", lambda *_: Steady())
    (row,) = bench(["labkit-eager"], told)
    assert (row.floor, row.parts) == (1e-3, {"products": 0.5e-3, "attention": 0.25e-3, "copies": 0.25e-3})
    assert row.above_floor == pytest.approx(row.seconds / 1e-3)
    assert f"{row.above_floor:8.3f}" in train.line(row)
    assert sum("; floor 1.00" in line for line in told) == train.TURNS


def test_what_does_not_fit_comes_in_another_round(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "floor", lambda *_: Steady())
    monkeypatch.setattr(train, "fits", lambda alive: not alive)
    rows = bench(["labkit-eager", "torch-eager"], told)
    best = rows[0].above_floor
    assert [(row.name, row.beside_best) for row in rows] == [
        ("torch-eager", 1.0),
        ("labkit-eager", pytest.approx(best / rows[1].above_floor)),
    ]
    assert [line for line in told if "turn 1" in line and "; floor" in line][1].count("eager") == 1


def test_memory_that_others_fill_is_no_failure(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    build = train.PEERS["torch-eager"].build

    def crowded(self: Any) -> None:
        if any("labkit-eager" in line for line in told) and not any("turn" in line for line in told):
            raise torch.OutOfMemoryError("full")
        build(self)

    monkeypatch.setattr(train, "CONTENDERS", ("labkit-eager", "torch-eager"))
    monkeypatch.setattr(train.PEERS["torch-eager"], "build", crowded)
    assert [row.name for row in bench(["labkit-eager", "torch-eager"], told)] == ["labkit-eager", "torch-eager"]
    assert not any("left out" in line for line in told)


def test_one_whose_turns_would_crowd_the_others_waits_for_another_round(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "turns_fit", lambda alive: len(alive) < 2)
    rows = bench(["labkit-eager", "torch-eager"], told)
    assert sorted(row.name for row in rows) == ["labkit-eager", "torch-eager"]
    assert not any("left out" in line for line in told)
    turns = [line for line in told if f"turn {train.TURNS}" in line]
    assert [line.count("eager") for line in turns] == [1, 1]


def test_a_turn_needs_the_room_that_its_steps_take_and_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: Any = [SimpleNamespace(passing=passing) for passing in (0.0, 22.0)]
    for free, fits in ((26.0, False), (28.0, True)):
        monkeypatch.setattr(train, "free_memory", lambda free=free: free)
        assert train.turns_fit(alive) is fits


def test_contenders_of_another_round_are_compared_by_the_floor() -> None:
    ours, slow, fast = (Row("tiny", name, None, seconds=9.0) for name in ("labkit", "liger", "compile"))
    ours.above_floor, slow.above_floor, fast.above_floor = 1.1, 2.2, 1.32
    assert [row.beside_best for row in compared([ours, slow, fast])] == pytest.approx([1.2, 0.6, 1.0])


def test_one_that_fails_is_left_out_and_told(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise Missing("liger_kernel not installed")

    monkeypatch.setitem(train.PEERS, "liger", failing)
    (row,) = bench(["liger", "torch-eager"], told)
    assert row.name == "torch-eager"
    assert any("tiny, liger: left out: Missing: liger_kernel not installed" in line for line in told)


def test_what_fails_in_its_turn_does_not_end_the_others(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    taken = train.PEERS["torch-eager"].take

    def failing(self: Any, number: int, tokens_BT: torch.Tensor) -> None:
        if number > 3:
            raise RuntimeError("out of luck")
        taken(self, number, tokens_BT)

    monkeypatch.setattr(train.PEERS["torch-eager"], "take", failing)
    (row,) = bench(["torch-eager", "labkit-eager"], told)
    assert row.name == "labkit-eager"
    assert row.beside_best is None
    assert any("torch-eager: left out: RuntimeError: out of luck" in line for line in told)


@pytest.mark.parametrize(("times", "names"), [(1, ["labkit-eager", "torch-eager"]), (2, ["labkit-eager"])])
def test_what_lacks_memory_in_its_turn_has_one_more_try(
    told: list[str], monkeypatch: pytest.MonkeyPatch, times: int, names: list[str]
) -> None:
    taken, full = train.PEERS["torch-eager"].take, [True] * times

    def crowded(self: Any, number: int, tokens_BT: torch.Tensor) -> None:
        if number > 3 and full:
            full.pop()
            raise torch.OutOfMemoryError("full")
        taken(self, number, tokens_BT)

    monkeypatch.setattr(train.PEERS["torch-eager"], "take", crowded)
    assert sorted(row.name for row in bench(["torch-eager", "labkit-eager"], told)) == names
    assert any("torch-eager: again later: OutOfMemoryError: full" in line for line in told)
    assert any("left out" in line for line in told) == (times == 2)


def test_the_plain_model_computes_what_labkit_does() -> None:
    torch.manual_seed(0)
    ours, theirs = Transformer(TINY.spec, 50).double(), Llama(TINY).double()
    ours.initialize(0)
    with torch.no_grad():
        for own, given in zip(theirs.parameters(), ours.parameters(), strict=True):
            own.copy_(given)
    batch = TINY.batches()[0]
    losses = ours.losses(batch[:, :-1], batch[:, 1:])
    loss = theirs(batch[:, :-1], batch[:, 1:])
    torch.testing.assert_close(loss, losses.mean(), rtol=1e-5, atol=0)  # labkit's angles are in fp32
    gradients = [
        torch.autograd.grad(each, model.embedding.weight)[0] for each, model in ((losses.mean(), ours), (loss, theirs))
    ]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-6)


def test_its_masters_move_as_torch_moves_weights_in_fp32() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8, bias=False).bfloat16()
    exact = model.weight.detach().float().requires_grad_()
    optimizer = torch.optim.AdamW([exact], lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    masters = Masters(model)
    for _ in range(3):
        model(torch.randn(4, 8).bfloat16()).square().sum().backward()
        assert model.weight.grad is not None
        exact.grad = model.weight.grad.float()
        torch.nn.utils.clip_grad_norm_([exact], 1.0)
        optimizer.step()
        masters.step()
        torch.testing.assert_close(masters.values[0], exact.detach(), rtol=1e-3, atol=1e-4)
        assert torch.equal(model.weight, masters.values[0].bfloat16())
        assert model.weight.grad is None


def test_the_floor_counts_every_pass_once() -> None:
    stream, turned, hidden, logits = 32 * 32, 32 * 6 * 8, 32 * 64, 32 * 50
    norms, sums = 10 * stream, 4 * 16 * stream
    expected = norms + sums + 2 * 8 * turned + 2 * 16 * hidden + 4 * logits + 30 * TINY.params
    assert passes(TINY) == expected


def test_the_four_models_have_the_sizes_that_they_are_called_by() -> None:
    wanted = {"launch-bound": (7, 8192), "13M": (13, 32_768), "124M": (124, 32_768), "1B": (1039, 16_384)}
    assert {name: (round(SETUPS[name].params / 1e6), SETUPS[name].tokens) for name in wanted} == wanted
