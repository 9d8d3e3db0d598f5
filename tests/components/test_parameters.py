"""Parameters that know what they are."""

import re

import pytest
import torch
from torch import nn

from labkit.components.parameters import Linear, Part, Role, bias, draw, gain, logical, parameter, parts_of
from labkit.spec import Mistake


class Pair(nn.Module):
    """Two matrices packed in one tensor, beside an output."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.packed = Linear(8, *(Part(Role.UP, 16, 8, name) for name in names), has_bias=True)
        self.output = Linear(16, Part(Role.OUTPUT, 8, 16))


def test_packed_matrices_are_views_under_their_own_names() -> None:
    model = Pair("gate", "up")
    views = logical(model)
    assert list(views) == ["gate.weight", "up.weight", "gate.bias", "up.bias", "output.weight"]
    views["up.weight"].fill_(7.0)
    assert (model.packed.weight[16:] == 7.0).all()


def test_a_matrix_draws_the_same_values_whatever_it_is_packed_with() -> None:
    alone, packed = Pair("up"), Pair("gate", "up")
    for model in (alone, packed):
        draw(model, seed=3, scale=lambda part: 0.02)
    assert torch.equal(logical(alone)["up.weight"], logical(packed)["up.weight"])
    assert not torch.equal(logical(packed)["gate.weight"], logical(packed)["up.weight"])


def test_another_seed_draws_other_values() -> None:
    values = []
    for seed in (0, 1):
        model = Pair("up")
        draw(model, seed, scale=lambda part: 0.02)
        values.append(logical(model)["up.weight"].clone())
    assert not torch.equal(*values)


def test_drawn_values_have_the_scale_of_their_part() -> None:
    model = nn.ModuleDict({"wide": Linear(512, Part(Role.UP, 512, 512))})
    draw(model, 0, scale=lambda part: 1 / part.fan_in)
    assert model["wide"].weight.std().item() == pytest.approx(1 / 512, rel=0.01)


def test_vectors_keep_the_values_their_modules_gave_them() -> None:
    model = nn.Module()
    model.gain, model.bias, model.own = gain(4, 0.5), bias(4), nn.Parameter(torch.full((4,), 3.0))
    draw(model, 0, scale=lambda part: 1.0)
    assert [p.tolist() for p in (model.gain, model.bias, model.own)] == [[0.5] * 4, [0.0] * 4, [3.0] * 4]


def test_the_product_is_that_of_torch() -> None:
    linear = Linear(8, Part(Role.UP, 16, 8), has_bias=True)
    draw(linear, 0, scale=lambda part: 1.0)
    x = torch.randn(3, 8)
    torch.testing.assert_close(linear(x), x @ linear.weight.T + linear.bias)


def test_only_matrices_are_drawn_and_decayed() -> None:
    assert {role for role in Role if not role.is_matrix} == {Role.GAIN, Role.BIAS}


def test_a_matrix_without_a_role_is_refused_with_what_to_write() -> None:
    with pytest.raises(Mistake, match=r"^mixer.weight: a matrix of shape \(8, 4\) without a role. ") as refused:
        parts_of("mixer.weight", nn.Linear(4, 8).weight)
    [line] = re.findall(r"labkit's (Linear\(.*?\)\)) or ", str(refused.value))
    written = eval(line, {"Linear": Linear, "Part": Part, "Role": Role})
    assert written.weight.shape == (8, 4)
    assert parts_of("mixer.weight", written.weight) == (Part(Role.UP, 8, 4),)
    with pytest.raises(Mistake, match=r"Make it with labkit's parameter\(value, Part\(Role.UP, 8, 12\)\), so"):
        parts_of("mixer.weight", nn.Conv1d(4, 8, 3).weight)
    assert parts_of("mixer.weight", parameter(torch.ones(4, 4), Part(Role.UP, 4, 4)))
