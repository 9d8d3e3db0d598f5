"""The table of traps: labkit falls for none, it is known which torch's operations do, and each trap catches."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from labkit.bench import checks, traps
from labkit.bench.operations import EPS, Operation, operations, rms
from labkit.bench.traps import TRAPS, verdict

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the interpreter's numpy, where exp overflows

OPERATIONS = operations()
CPU = torch.device("cpu")


def cases() -> list[Any]:
    """Every trap with every operation, those that need a GPU marked."""
    needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")]
    return [
        pytest.param(name, operation, id=f"{name}-{operation}", marks=needs_gpu if trap.needs_gpu else ())
        for name, trap in TRAPS.items()
        for operation in trap.operations
    ]


def judged(name: str, operation: str, provider: str, device: torch.device) -> tuple[str, str]:
    return verdict(TRAPS[name], operation, OPERATIONS[operation], provider, device)


@pytest.mark.parametrize(("name", "operation"), cases())
def test_labkit_falls_for_no_trap(device: torch.device, name: str, operation: str) -> None:
    found = judged(name, operation, "labkit", device)
    assert found[0] == "passes" or (name == "offsets" and found[1].startswith("needs")), found


TORCH_FALLS = {
    ("bf16-sums", "layer_norm"),  # on a CPU
    ("certainty", "cross_entropy"),  # p - 1 in fp32
    ("llama", "rms_norm"),  # rounds once
}


def test_torch_falls_for_what_it_is_known_to() -> None:
    found = {
        (name, operation): judged(name, operation, "torch", CPU)
        for name, trap in TRAPS.items()
        for operation in trap.operations
        if not trap.needs_gpu
    }
    assert {case for case, (outcome, _) in found.items() if outcome == "falls"} == TORCH_FALLS
    assert {outcome for outcome, _ in found.values()} == {"passes", "falls", "–"}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("provider", ["torch", "liger"])
@pytest.mark.parametrize("name", [name for name, trap in TRAPS.items() if trap.check is not checks.far_offsets])
def test_everybody_s_operations_are_judged(name: str, provider: str) -> None:
    for operation in TRAPS[name].operations:
        outcome, detail = judged(name, operation, provider, torch.device("cuda"))
        assert outcome == "passes" or detail


class Careless(torch.autograd.Function):
    """RMSNorm as it has been written, with one mistake."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, mistake: str) -> Tensor:
        root = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + EPS)
        root = root[:1].expand_as(root) if mistake == "row-scales" else root
        ctx.mistake = mistake
        ctx.save_for_backward(x, gain, root)
        if mistake == "hidden-writes":
            x.data.add_(1)  # which autograd does not count
        return (x.float() * root * gain).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, gain, root = (tensor.detach() for tensor in ctx.saved_tensors)
        n = x.float() * root
        scaled = dy.float() * gain
        dx = root * (scaled - n * (scaled * n).mean(-1, keepdim=True))
        if ctx.mistake == "bf16-sums":
            dgain = torch.zeros_like(gain).bfloat16()
            for row in (dy.float() * n).bfloat16():
                dgain += row
        else:
            dgain = (dy.float() * n).sum(0)
        if ctx.mistake == "same-bits":
            dgain += 1e-3 * torch.rand(())
        if ctx.mistake == "stride-0":
            dx = dx * (dy.stride(-1) == 1)
        return dx.detach().to(x.dtype), dgain.detach().to(gain.dtype), None


@pytest.mark.parametrize("mistake", ["row-scales", "bf16-sums", "same-bits", "hidden-writes", "stride-0", "twice"])
def test_a_norm_with_a_mistake_falls_for_its_trap(mistake: str) -> None:
    made = Operation(OPERATIONS["rms_norm"].inputs, {"careless": careless(mistake), "torch": rms}, 1)
    outcome, detail = verdict(TRAPS[mistake], "rms_norm", made, "careless", CPU)
    assert outcome == "falls", detail


def careless(mistake: str) -> Callable[..., Tensor]:
    return lambda x, gain: Careless.apply(x, gain, mistake)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("ignored", lambda x, t: -x.log_softmax(-1).gather(-1, t.clamp(min=0)[:, None])[:, 0]),
        ("mean", lambda x, t, reduction: -x.log_softmax(-1).gather(-1, t.clamp(min=0)[:, None]).mean()),
        ("smoothing", lambda x, t, smoothing: torch.nn.functional.cross_entropy(x, t, reduction="none")),
        ("certainty", lambda x, t: torch.nn.functional.cross_entropy(x.bfloat16().float(), t, reduction="none")),
    ],
)
def test_a_loss_with_a_mistake_falls_for_its_trap(name: str, way: Callable[..., Tensor]) -> None:
    given = OPERATIONS["cross_entropy"]
    made = given._replace(ways={"careless": way, "torch": given.ways["torch"]})
    outcome, detail = verdict(TRAPS[name], "cross_entropy", made, "careless", CPU)
    assert outcome == "falls", detail


def test_an_error_is_a_refusal_and_a_missing_operation_is_none() -> None:
    def failing(*_: Tensor) -> Tensor:
        raise ValueError("no such width")

    made = OPERATIONS["rms_norm"]._replace(ways={"failing": failing, "torch": rms})
    assert verdict(TRAPS["odd-rows"], "rms_norm", made, "failing", CPU) == ("refuses", "ValueError: no such width")
    assert verdict(TRAPS["odd-rows"], "rms_norm", made, "labkit", CPU) == ("–", "not there")


def test_a_result_that_is_not_finite_or_of_another_shape_is_wrong() -> None:
    for found, text in ((torch.tensor([math.nan]), "not finite"), (torch.ones(2), "shape")):
        with pytest.raises(checks.Fallen, match=text):
            checks.near("it", found, torch.ones(1, dtype=torch.float64))


def test_the_table_prints_a_verdict_of_each() -> None:
    row = traps.Row("offsets", "rms_norm", {"labkit": "passes", "torch": "passes", "liger": "falls"})
    assert traps.line(row).split()[-4:] == ["rms_norm", "passes", "passes", "falls"]
