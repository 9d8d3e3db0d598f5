"""labkit bench, as far as it goes without a GPU."""

import pytest
import torch
from typer.testing import CliRunner

from labkit.cli import app
from labkit.cli.bench import _chosen
from labkit.spec import Mistake


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("what", ["kernels", "attention", "train"])
def test_without_a_gpu_it_says_so(what: str) -> None:
    told = CliRunner().invoke(app, ["bench", what])
    assert told.exit_code == 2
    assert "torch sees none here" in told.output


def test_an_unknown_name_is_met_with_the_nearest() -> None:
    with pytest.raises(Mistake, match=r"--only: there is no '14M'\. Did you mean"):
        _chosen("--only", "124M, 14M", ["124M", "13M"])
    assert _chosen("--only", "", ["124M", "13M"]) == ["124M", "13M"]
