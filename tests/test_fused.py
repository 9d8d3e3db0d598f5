"""With labkit's kernels a model computes what it does with torch's operations: every variant, forward and backward."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

from labkit import kernels
from labkit.components import attention, mixing
from labkit.components.parameters import logical
from labkit.model import ModelSpec, Transformer
from labkit.optim.weights import Weights
from tests.specs import SMALL
from tests.test_conformance import PLACES, randomized, variants

FEW = [
    {},
    {"norm": "layer", "residual": "parallel", "feedforward": {"kind": "gelu", "bias": True}},
    {"norm.casting": "gemma", "residual": "peri", "feedforward": "relu2", "attention.softcap": 4.0},
    {"residual": "post", "position": "alibi", "attention.window": 5, "attention.sinks": True},
    {"attention.qk_norm": "rms", "attention.gate": "head", "feedforward": "geglu", "loss.z": 0.1},
    {"attention": {"kind": "mla", "n_heads": 4}, "residual": "reordered", "loss.label_smoothing": 0.1},
    {"position.layout": "interleaved", "position.fraction": 0.5, "embedding.scaled": True, "head": "untied"},
]

ONE = SMALL.patched({"n_layers": 1})
"""A layer, for what no other layer has a part in: in the interpreter each takes its time."""

WIDER = SMALL.patched({"d_model": 128, "context": 64})
"""With heads of 32 features, which torch's own fused kernels take."""


def held(spec: ModelSpec, device: str, which: kernels.Kernels, recomputing: bool = False) -> dict[str, torch.Tensor]:
    """Losses and gradients, by name."""
    with torch.device(device), kernels.using(which):
        model = Transformer(spec, 11)
        model.checkpointing = recomputing
        losses = losses_of(model, device)
        losses.mean().backward()
    gradients = logical(model, {name: stored.grad for name, stored in model.named_parameters()})
    return {"losses": losses.detach(), **gradients}


def losses_of(model: Transformer, device: str) -> torch.Tensor:
    """With random weights, of random tokens."""
    randomized(model, device).train()
    tokens = torch.randint(11, (2, 17), generator=torch.Generator(device).manual_seed(1))
    return model.losses(tokens[:, :-1], tokens[:, 1:])


def agrees(spec: ModelSpec, device: str, fused: kernels.Kernels) -> None:
    ours, theirs = held(spec, device, fused), held(spec, device, "torch")
    scale = max(gradient.abs().max().item() for name, gradient in theirs.items() if name != "losses")
    for name, wanted in theirs.items():
        size = max(wanted.norm().item(), 1e-3 * scale)
        assert (ours[name] - wanted).norm().item() < 2e-5 * size, name


@pytest.fixture
def interpreter() -> None:
    with kernels.using("triton"):
        if kernels.on_device(torch.device("cpu")) == "torch":
            pytest.skip("Triton's interpreter is not on: there is a GPU, or no Triton")


@pytest.mark.usefixtures("interpreter")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy of what a mask hides
@pytest.mark.parametrize("changes", FEW, ids=str)
def test_a_model_is_the_same_in_the_interpreter(changes: dict[str, object]) -> None:
    agrees(SMALL.patched(changes), "cpu", "triton")


@pytest.mark.usefixtures("interpreter")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        ({}, {"attend_packed": 1}),
        ({"attention.sinks": True, "position": "alibi"}, {"attend_packed": 1}),
        ({"attention.qk_norm": "rms"}, {"attend": 1}),
        ({"attention": {"kind": "differential", "n_heads": 2}}, {"attend": 2}),
        ({"position": "t5"}, {}),
        ({"dropout.attention": 0.1}, {}),
    ],
    ids=str,
)
def test_attention_takes_its_kernel_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], taken: dict[str, int]
) -> None:
    calls: Counter[str] = Counter()
    for module, name in ((attention, "attend_packed"), (mixing, "attend")):
        monkeypatch.setattr(module, name, counted(getattr(module, name), calls, name))
    for which, wanted in (("triton", taken), ("torch", {})):
        calls.clear()
        with kernels.using(which):
            losses_of(Transformer(ONE.patched(changes), 11), "cpu")
        assert calls == wanted, which


@pytest.mark.usefixtures("interpreter")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("changes", FEW[:5:4], ids=str)
def test_recomputing_activations_changes_no_bit(changes: dict[str, object]) -> None:
    kept, recomputed = (held(ONE.patched(changes), "cpu", "triton", recomputing=how) for how in (False, True))
    assert kept.keys() == recomputed.keys()
    for name, value in kept.items():
        assert torch.equal(value, recomputed[name]), name


def counted(function: Callable[..., Any], calls: Counter[str], name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        calls[name] += 1
        return function(*arguments, **options)

    return call


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("changed", list(variants()))
def test_every_variant_is_the_same_on_a_gpu(changed: tuple[type, object]) -> None:
    family, variant = changed
    spec = SMALL.patched({PLACES[family]: variant, "dropout": 0.0})
    agrees(spec, "cuda", "auto")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("changed", list(variants()))
def test_every_variant_recomputes_its_activations_on_a_gpu(changed: tuple[type, object]) -> None:
    family, variant = changed
    spec = SMALL.patched({PLACES[family]: variant})
    kept, recomputed = (held(spec, "cuda", "auto", recomputing=how) for how in (False, True))
    for name, value in kept.items():
        torch.testing.assert_close(recomputed[name], value, rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("which", ["auto", "torch"])
@pytest.mark.parametrize("changed", list(variants()))
def test_every_variant_runs_in_bf16_on_a_gpu_whatever_its_rows_are_a_multiple_of(
    changed: tuple[type, object], which: kernels.Kernels
) -> None:
    """torch's fused attention reads 16 bytes at a time, also of rows that are no multiple of them."""
    family, variant = changed
    spec = WIDER.patched({PLACES[family]: variant, "dropout": 0.0})
    with torch.device("cuda"), kernels.using(which):
        model, tokens = Transformer(spec, 11).train(), torch.randint(11, (2, 65))
        model.initialize(0)
        weights = Weights(model, "bf16")
        with weights.replaced():
            losses = model.losses(tokens[:, :-1], tokens[:, 1:])
            losses.mean().backward()
        assert torch.isfinite(losses).all()
        assert torch.isfinite(weights.gradient).all()


@pytest.mark.usefixtures("interpreter")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("changes", [{}, {"norm": "layer", "head": {"kind": "untied", "bias": True}}], ids=str)
def test_gradients_written_where_they_gather_are_those_handed_over(changes: dict[str, object]) -> None:
    gathered: list[torch.Tensor] = []
    for which in ("triton", "torch"):
        model = Transformer(ONE.patched(changes), 11)
        randomized(model, "cpu").train()
        weights = Weights(model, "fp32")
        tokens = torch.randint(11, (2, 17), generator=torch.Generator().manual_seed(1))
        with kernels.using(which):
            with weights.replaced():
                model.losses(tokens[:, :-1], tokens[:, 1:]).sum().backward()
            model.losses(tokens[:, :-1], tokens[:, 1:]).sum().backward()
        gathered.append(weights.gradient)
    torch.testing.assert_close(*gathered, rtol=2e-4, atol=2e-4)
