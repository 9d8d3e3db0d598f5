"""Groups of processes: their shares, and what a sum in a captured step leaves as it is."""

import pytest
import torch
from torch import Tensor

from labkit.train.device import settings
from labkit.train.distributed import Group, Ranks, dist, opened
from labkit.train.loop import Company, training
from labkit.train.run import Runtime
from labkit.train.turns import finished


class Counting(Ranks):
    """A group of one that knows how often it was asked for a sum, and where."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        super().__init__(rank, size, opened(size)[0], exact=True)
        self.sums: list[bool] = []

    def sum(self, values: Tensor) -> None:
        self.sums.append(values.is_cuda and torch.cuda.is_current_stream_capturing())
        super().sum(values)


def test_the_shares_of_a_batch_are_its_rows_in_order() -> None:
    assert [Counting(rank, 3).share(6) for rank in range(3)] == [(0, 2), (2, 4), (4, 6)]
    assert Group().share(6) == (0, 6)


def test_random_numbers_of_torchs_own_are_those_of_one_process_in_the_first_only() -> None:
    assert (Group().key, Counting(0, 2).key, Counting(1, 2).key) == ((), (), (1,))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("micro_batch", [None, 2])
def test_a_sum_in_the_captured_step_leaves_a_run_alone_as_it_is(lab, curves, micro_batch: int | None) -> None:
    spec = lab.spec.patched({"precision": "bf16", "budget.steps": 20, "model.dropout": 0.1, "model.d_model": 64})
    runtime, group, run = Runtime(device="cuda", micro_batch=micro_batch), Counting(), lab.plan(spec)
    with settings(runtime) as device:
        group.meet(device)
        finished(training(run, spec, runtime, lab.store, lambda: False, company=Company(), group=group))
    dist.destroy_process_group()
    alone = lab.train(spec, device="cuda", micro_batch=micro_batch)
    assert run.record()["execution"] == "captured"
    assert (group.sums[0], group.sums[-1], sum(group.sums)) == (False, True, 1)
    assert curves(run) == curves(alone)
    final = [(each.checkpoints / "final.safetensors").read_bytes() for each in (run, alone)]
    assert final[0] == final[1]
