"""The two layouts of rotary pairs are one model under a permutation, and training never tells them apart."""

import torch

from labkit.components.parameters import logical
from labkit.model import ModelSpec, Transformer
from labkit.optim.optimizer import Adamw
from labkit.optim.weights import Weights

SPEC = ModelSpec(
    d_model=32,
    n_layers=2,
    context=16,
    norm="rms",
    residual="pre",
    attention={"kind": "gqa", "n_heads": 4, "n_kv_heads": 2, "bias": True},
    feedforward="swiglu",
    position={"kind": "rope", "theta": 100.0, "fraction": 0.75},
    head="tied",
    init={"kind": "normal", "std": 0.2},
)
HEAD, TURNED, STEPS = 8, 6, 50


def as_half(values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies with the rows of W_q and W_k of each head from (2i, 2i + 1) to (i, i + d/2); what does not turn stays."""
    order = torch.tensor([*range(0, TURNED, 2), *range(1, TURNED, 2), *range(TURNED, HEAD)])
    return {
        name: value.unflatten(0, (-1, HEAD))[:, order].flatten(0, 1) if ".query." in name or ".key." in name else value
        for name, value in ((name, value.detach().clone()) for name, value in values.items())
    }


def trained(layout: str) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The losses of all steps, and the weights that they lead to; both layouts start from the same function."""
    model = Transformer(SPEC.patched({"position.layout": layout}), 64)
    model.initialize(0)
    if layout == "half":
        with torch.no_grad():
            for view, value in zip(logical(model).values(), as_half(logical(model)).values(), strict=True):
                view.copy_(value)
    weights = Weights(model, "fp64")
    optimizer = Adamw(lr=3e-3).build(weights)
    draw, losses = torch.Generator().manual_seed(1), []
    for _ in range(STEPS):
        x = torch.randint(64, (4, 17), generator=draw)
        weights.forget_gradients()
        loss = model.losses(x[:, :-1], x[:, 1:]).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), weights.logical()


def test_fifty_steps_of_one_layout_are_those_of_the_other_permuted() -> None:
    (half, half_weights), (interleaved, weights) = trained("half"), trained("interleaved")
    assert half.dtype == torch.float64
    torch.testing.assert_close(half, interleaved, rtol=0, atol=1e-6)
    for name, value in as_half(weights).items():
        torch.testing.assert_close(half_weights[name], value, rtol=0, atol=1e-6)
    moved = weights["layers.0.attention.query.weight"]
    assert not torch.allclose(moved, half_weights["layers.0.attention.query.weight"], atol=1e-2)
