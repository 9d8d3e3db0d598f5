"""The batch sizes that a space lists: each has to be shared, and cut into micro-batches, as runs are executed."""

import random
from collections.abc import Callable
from itertools import islice

from labkit.search.space import TRIES, Changes, Space
from labkit.spec import Mistake
from labkit.train.run import Runtime

PATH = "batch_size"


def check_batches(space: Space, runtime: Runtime, invalid: Callable[[Changes], str]) -> None:
    """Raise Mistake for a batch size that the runtime's processes or micro-batches do not divide.

    One that no valid combination has is no trial, and let pass.
    """
    below = space.ranges.get(PATH)
    if below is None or below.count is None:
        return
    draw = random.Random(0)
    for value in islice((value for value in below.values if _fault(value, runtime)), TRIES):
        if any(not invalid(space.drawn(draw, {PATH: value})) for _ in range(TRIES)):
            raise Mistake(f"{_fault(value, runtime)}, or leave {value} out of the batch sizes to try")


def _fault(size: int, runtime: Runtime) -> str:
    try:
        runtime.rows(size)
    except Mistake as error:
        return str(error)
    return ""
