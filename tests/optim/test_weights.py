"""Precisions, masters and the flat gradient."""

import pytest
import torch
from torch import nn

from labkit.components.parameters import Linear, Part, Role, bias, gain
from labkit.optim.optimizer import Sgd
from labkit.optim.weights import Precision, Weights, groups


class Net(nn.Module):
    """A packed matrix, a gain and a bias; a gain in the shape of a matrix, an embedding in the shape of a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.project = Linear(4, Part(Role.GATE, 3, 4, "gate"), Part(Role.UP, 3, 4, "up"))
        self.gain, self.bias = gain(6), bias(6)
        self.square_gain = nn.Parameter(torch.ones(2, 2))
        self.square_gain.parts = (Part(Role.GAIN, 2, 1),)  # type: ignore[attr-defined]
        self.row = nn.Parameter(torch.ones(5))
        self.row.parts = (Part(Role.EMBEDDING, 5, 1),)  # type: ignore[attr-defined]
        nn.init.normal_(self.project.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.project(x) * self.gain.to(x.dtype) + self.bias.to(x.dtype)
        return y.float().sum() + self.square_gain.sum() + self.row.float().sum()


def test_decay_is_told_by_roles_and_never_by_shape() -> None:
    assert {weight.name for weight in Weights(Net(), "fp32") if weight.is_matrix} == {"project.weight", "row"}


def test_groups_are_named_and_only_matrices_decay() -> None:
    decayed, kept = groups(Weights(Net(), "fp32"), Sgd(lr=0.5), weight_decay=0.3)
    assert [name for name, _ in decayed["params"]] == ["row", "project.weight"]
    assert [name for name, _ in kept["params"]] == ["gain", "bias", "square_gain"]
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.3, 0.0)
    assert decayed["lr"] == kept["lr"] == 0.5


def test_logical_parameters_are_views_of_masters_and_of_the_gradient() -> None:
    weights = Weights(Net(), "bf16")
    weights.gradient.copy_(torch.arange(weights.gradient.numel()))
    gate, up = {weight.name: weight for weight in weights}["project.weight"].logical()
    assert [(piece.name, piece.parts[0].role) for piece in (gate, up)] == [
        ("project.weight/gate", Role.GATE),
        ("project.weight/up", Role.UP),
    ]
    whole = weights.masters["project.weight"]
    for piece, rows in ((gate, slice(0, 3)), (up, slice(3, 6))):
        assert torch.equal(piece.value.grad, whole.grad[rows])
        piece.value.fill_(7.0)
    weights.forget_gradients()
    assert whole.eq(7.0).all()
    assert up.value.grad.eq(0).all()


def test_what_is_one_logical_parameter_is_its_own_piece() -> None:
    gain = {weight.name: weight for weight in Weights(Net(), "fp32")}["gain"]
    assert list(gain.logical()) == [gain]


@pytest.mark.parametrize(
    ("precision", "matrix", "vector"),
    [
        ("fp32", torch.float32, torch.float32),
        ("bf16", torch.bfloat16, torch.float32),
        ("fp64", torch.float64, torch.float64),
    ],
)
def test_matrices_compute_in_the_precision_and_vectors_never_below_fp32(
    precision: Precision, matrix: torch.dtype, vector: torch.dtype
) -> None:
    net = Net()
    weights = Weights(net, precision)
    assert (net.project.weight.dtype, net.row.dtype) == (matrix, matrix)
    assert (net.gain.dtype, net.bias.dtype, net.square_gain.dtype) == (vector, vector, vector)
    assert {master.dtype for master in weights.masters.values()} == {vector}


def test_parameters_keep_their_parts() -> None:
    net = Net()
    Weights(net, "bf16")
    assert [part.name for part in net.project.weight.parts] == ["gate", "up"]  # type: ignore[union-attr]


def test_masters_of_bf16_keep_what_rounding_takes_from_the_copies() -> None:
    net = Net()
    drawn = net.project.weight.detach().clone()
    master = Weights(net, "bf16").masters["project.weight"]
    assert torch.equal(master, drawn)
    assert not torch.equal(net.project.weight.float(), drawn)


def test_stepped_masters_reach_the_copies_when_published() -> None:
    net = Net()
    weights = Weights(net, "bf16")
    weights.masters["project.weight"].add_(1.0)
    weights.publish()
    assert torch.equal(net.project.weight, weights.masters["project.weight"].bfloat16())


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
def test_gradients_add_up_in_one_tensor_of_the_masters_precision(precision: Precision) -> None:
    net = Net()
    weights = Weights(net, precision)
    x = torch.ones(1, 4, dtype=net.project.weight.dtype)
    for _ in range(3):
        net(x).backward()
    assert weights.gradient.dtype == weights.masters["gain"].dtype
    assert weights.gradient.numel() == sum(stored.numel() for stored in net.parameters())
    assert torch.equal(weights.masters["project.weight"].grad, torch.full((6, 4), 3.0, dtype=weights.gradient.dtype))
    parts = [master.grad.flatten() for master in weights.masters.values()]  # type: ignore[union-attr]
    assert torch.equal(weights.gradient, torch.cat(parts))
    weights.forget_gradients()
    assert weights.norm() == 0


def test_small_gradients_are_not_lost_beside_large_ones_in_bf16() -> None:
    net = Net()
    weights = Weights(net, "bf16")
    (net.project.weight.sum() * 1.0).backward()
    for _ in range(4):
        (net.project.weight.sum() * 2**-9).backward()
    assert weights.masters["project.weight"].grad[0, 0] == 1 + 2**-7  # type: ignore[index]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
def test_replaced_gradients_are_those_that_arrive_and_else_zero(precision: Precision) -> None:
    net = Net()
    weights = Weights(net, precision)
    weights.gradient.fill_(torch.nan)
    with weights.replaced():
        net.project.weight.float().sum().backward()
        (2 * net.project.weight.float()).sum().backward()
    rows = {name: master.grad.unique().tolist() for name, master in weights.masters.items()}  # type: ignore[union-attr]
    assert rows == {"project.weight": [3.0], "gain": [0.0], "bias": [0.0], "square_gain": [0.0], "row": [0.0]}
    net.gain.sum().backward()
    net.gain.sum().backward()
    assert weights.masters["gain"].grad.unique().tolist() == [2.0]  # type: ignore[union-attr]
