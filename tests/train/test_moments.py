"""Moments on the host; those on a GPU are tested by the speeds of runs there."""

import time

import torch

from labkit.train.moments import moment_on


def test_the_time_between_two_moments_is_the_hosts() -> None:
    before = moment_on(torch.device("cpu"))
    time.sleep(0.02)
    after = moment_on(torch.device("cpu"))
    after.wait()
    assert 0.02 <= after.since(before) < 0.5
