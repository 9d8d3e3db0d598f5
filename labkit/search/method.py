"""How a space is searched: who chooses, who ends early, and the seed that the choices follow from."""

from typing import Annotated

from pydantic import Field

from labkit.search.pruners import Never, Pruner
from labkit.search.samplers import Sampler, Tpe
from labkit.spec import Spec


class Method(Spec):
    """How a space is searched."""

    sampler: Sampler = Tpe()
    pruner: Pruner = Never()
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """What every choice of the sampler follows from, with the trial's number."""
