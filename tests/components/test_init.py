"""The spread of initial values."""

import math

import pytest
import torch
from torch import nn

from labkit.components.init import Mitchell, Normal, ScaledResidual, Xavier, ZeroOutput
from labkit.components.parameters import Linear, Part, Role, draw
from labkit.components.place import Place

PLACE = Place(2, 8, 16)
WRITING = {Role.OUTPUT, Role.DOWN}


def test_normal_gives_every_matrix_one_spread() -> None:
    assert {Normal(std=0.1).scale(Part(role, 4, 4), PLACE, 4) for role in Role} == {0.1}


def test_scaled_residual_shrinks_what_writes_to_the_stream() -> None:
    spreads = {role: ScaledResidual().scale(Part(role, 4, 4), PLACE, 4) for role in Role}
    assert spreads[Role.OUTPUT] == spreads[Role.DOWN] == 0.02 / math.sqrt(16)
    assert all(spread == 0.02 for role, spread in spreads.items() if role not in WRITING)


def test_mitchell_is_that_of_olmo() -> None:
    d_model, d_ff, layer_id = 64, 256, PLACE.layer
    spreads = {
        Role.EMBEDDING: (Part(Role.EMBEDDING, 999, 1), 1 / math.sqrt(d_model)),
        Role.QUERY: (Part(Role.QUERY, 64, d_model), 1 / math.sqrt(d_model)),
        Role.GATE: (Part(Role.GATE, d_ff, d_model), 1 / math.sqrt(d_model)),
        Role.HEAD: (Part(Role.HEAD, 999, d_model), 1 / math.sqrt(d_model)),
        Role.OUTPUT: (Part(Role.OUTPUT, d_model, d_model), 1 / math.sqrt(2 * d_model * (layer_id + 1))),
        Role.DOWN: (Part(Role.DOWN, d_model, d_ff), 1 / math.sqrt(2 * d_ff * (layer_id + 1))),
    }
    for part, expected in spreads.values():
        assert Mitchell().scale(part, PLACE, d_model) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("part", [Part(Role.UP, 96, 32), Part(Role.EMBEDDING, 96, 1), Part(Role.HEAD, 96, 32)])
def test_xavier_is_that_of_torch(part: Part) -> None:
    drawn = nn.init.xavier_normal_(torch.empty(96, 32), generator=torch.Generator().manual_seed(0))
    here = torch.empty(96, 32).normal_(
        0.0, Xavier().scale(part, PLACE, width=32), generator=torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(here, drawn)


def test_zero_output_starts_every_branch_at_nothing() -> None:
    spreads = {role: ZeroOutput(std=0.1).scale(Part(role, 4, 4), PLACE, 4) for role in Role}
    assert {role for role, spread in spreads.items() if spread == 0.0} == WRITING
    assert {spread for role, spread in spreads.items() if role not in WRITING} == {0.1}


def test_a_cutoff_leaves_out_the_tails_and_all_of_them_without_it() -> None:
    for cutoff, beyond in ((2.0, False), (math.inf, True)):
        linear = Linear(256, Part(Role.UP, 256, 256))
        draw(linear, 0, scale=lambda part: 0.1, cutoff=cutoff)
        assert (linear.weight.abs().max() > 0.2 + 1e-6) == beyond
        assert linear.weight.std().item() == pytest.approx(0.1 if beyond else 0.088, rel=0.01)
    assert Mitchell.cutoff == 3.0
