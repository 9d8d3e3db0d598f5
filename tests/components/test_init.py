"""The spread of initial values."""

import math

from labkit.components.init import Normal, ScaledResidual
from labkit.components.parameters import Part, Role


def test_normal_gives_every_matrix_one_spread() -> None:
    assert {Normal(std=0.1).scale(Part(role, 4, 4), 12) for role in Role} == {0.1}


def test_scaled_residual_shrinks_what_writes_to_the_stream() -> None:
    spreads = {role: ScaledResidual().scale(Part(role, 4, 4), 8) for role in Role}
    assert spreads[Role.OUTPUT] == spreads[Role.DOWN] == 0.02 / math.sqrt(16)
    assert all(spread == 0.02 for role, spread in spreads.items() if role not in (Role.OUTPUT, Role.DOWN))
