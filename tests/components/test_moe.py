"""The mixture of experts against a loop over tokens, and its losses against the papers' formulas."""

import pytest
import torch
from pydantic import ValidationError
from torch.utils.flop_counter import FlopCounterMode

from labkit.components.feedforward import FeedForward
from labkit.components.moe import Mixture, Moe
from labkit.components.parameters import draw, logical
from labkit.components.place import Place

PLACE = Place(0, 1, 8)
X = torch.randn(3, 8, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def built(**fields: object) -> Mixture:
    module = Moe.from_json({"n_experts": 6, "top_k": 2, **fields}).build(16, PLACE).double()
    draw(module, 0, scale=lambda part: 0.5)
    return module


def densely(module: Mixture, x: torch.Tensor) -> torch.Tensor:
    """One token at a time: every expert computes it, and the best of them are weighed."""
    out = torch.zeros_like(x)
    router = logical(module)["router.project.weight"]
    for place in [(row, t) for row in range(x.shape[0]) for t in range(x.shape[1])]:
        token = x[place]
        odds = torch.exp(router @ token) / torch.exp(router @ token).sum()
        best = sorted(range(len(odds)), key=lambda e: -odds[e].item())[: module.spec.top_k]
        total = sum(odds[e] for e in best) if module.spec.normalized else 1.0
        out[place] = sum(odds[e] / total * module.experts[e](token) for e in best)
        out[place] += sum(shared(token) for shared in module.shared)
    return out


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"top_k": 1},
        {"normalized": True, "top_k": 3},
        {"n_shared": 2},
        {"expert": {"kind": "gelu", "bias": True}},
        {"top_k": 6},
    ],
)
def test_a_mixture_is_a_loop_over_tokens_and_so_are_its_gradients(fields: dict[str, object]) -> None:
    module, x = built(**fields), X.clone().requires_grad_()
    torch.testing.assert_close(module(x), densely(module, x))
    here = torch.autograd.grad(module(x).square().sum(), [x, *module.experts.parameters()], allow_unused=True)
    there = torch.autograd.grad(densely(module, x).square().sum(), [x, *module.experts.parameters()], allow_unused=True)
    for one, other in zip(here, there, strict=True):
        torch.testing.assert_close(one if one is not None else 0, other if other is not None else torch.zeros_like(one))


def test_only_the_chosen_experts_compute_a_token() -> None:
    module = built(top_k=2, n_shared=1)
    with FlopCounterMode(display=False) as counter:
        module.eval()(X)
    one_expert = 2 * sum(stored.numel() for stored in module.experts[0].parameters())
    router = 2 * 16 * 6
    assert counter.get_total_flops() == 24 * (3 * one_expert + router)


def test_an_expert_that_nobody_chooses_does_nothing_and_harms_nothing() -> None:
    module = built(top_k=1)
    with torch.no_grad():
        logical(module)["router.project.weight"][1:] = 0
        logical(module)["router.project.weight"][0] = X.abs().sum((0, 1))
    x = X.abs()
    torch.testing.assert_close(module(x), densely(module, x))
    module(x).sum().backward()
    assert all(stored.grad.abs().sum() == 0 for stored in module.experts[1].parameters())


def test_the_balance_loss_is_that_of_switch_in_each_sequence() -> None:
    module = built(balance=0.5, router_z=0.0, top_k=1)
    module(X)
    (left,) = module.take()
    router = logical(module)["router.project.weight"]
    for row in range(3):
        odds = torch.softmax(X[row] @ router.T, -1)
        fractions = [(odds.argmax(-1) == e).double().mean() for e in range(6)]
        expected = 0.5 * 6 * sum(fractions[e] * odds[:, e].mean() for e in range(6))
        torch.testing.assert_close(left[row], expected.expand(8))


def test_an_even_router_has_a_balance_loss_of_its_weight_whatever_is_chosen() -> None:
    module = built(balance=0.5, router_z=0.0, top_k=3)
    with torch.no_grad():
        logical(module)["router.project.weight"].zero_()
    module(X)
    torch.testing.assert_close(module.take()[0], torch.full((3, 8), 0.5, dtype=torch.float64))


def test_the_router_z_loss_is_that_of_st_moe() -> None:
    module = built(balance=0.0, router_z=0.25)
    module(X)
    scores = X @ logical(module)["router.project.weight"].T
    torch.testing.assert_close(module.take()[0], 0.25 * torch.log(torch.exp(scores).sum(-1)) ** 2)


def test_a_loss_is_taken_once_and_left_in_training_only() -> None:
    module = built()
    module(X)
    assert [len(module.take()), len(module.take())] == [1, 0]
    module.eval()(X)
    assert module.take() == ()


@pytest.mark.parametrize("at", [1, 5])
def test_the_future_does_not_change_where_a_token_goes(at: int) -> None:
    module, changed = built(), X.clone()
    changed[:, at:] += 1
    torch.testing.assert_close(module(X)[:, :at], module(changed)[:, :at])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"n_experts": 2, "top_k": 3}, "top_k 3 is more than n_experts 2"),
        ({"n_experts": 2, "top_k": 1, "normalized": True}, "normalized with top_k 1"),
        (
            {"n_experts": 2, "top_k": 1, "expert": {"kind": "moe", "n_experts": 2, "top_k": 1}},
            "a mixture cannot be the expert of a mixture",
        ),
    ],
)
def test_a_mixture_that_cannot_work_is_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Moe.from_json(fields)


def test_it_is_a_feed_forward_like_any_other() -> None:
    assert FeedForward.variants["moe"] is Moe
