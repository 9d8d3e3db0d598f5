"""The benchmark of whole steps, on a CPU with a model of a moment: it measures what it says of whom it says."""

import pytest

from labkit.bench import train
from labkit.bench.train import Setup, llama, measured


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(train.SETUPS, "tiny", Setup(llama(32, 1, (2, 1), 64, 16), 50, 2))


@pytest.mark.usefixtures("tiny")
def test_a_row_tells_speed_and_first_step() -> None:
    row = measured("tiny", "torch-eager", 2, device="cpu")
    assert (row.setup, row.name, row.how) == ("tiny", "torch-eager", "eager")
    assert row.tokens_per_s > 0
    assert row.first_step > row.host > 0
    assert "tiny" in train.line(row)


def test_the_four_models_have_the_sizes_that_they_are_called_by() -> None:
    sizes = {name: train.costs(setup.spec, setup.vocab_size).params for name, setup in train.SETUPS.items()}
    wanted = {"launch-bound": 7, "13M": 13, "124M": 124, "1B": 1039}
    assert {name: round(size / 1e6) for name, size in sizes.items()} == wanted
    tokens = {name: setup.tokens for name, setup in train.SETUPS.items()}
    assert tokens == {"launch-bound": 8192, "13M": 32_768, "124M": 32_768, "1B": 16_384}
