"""Further validation sets."""

import json
import math

import numpy as np
import pytest

from labkit.report.comparison import compare
from labkit.tracking.documents import DocumentScores, keep

SIZES = np.arange(50, 80)


@pytest.fixture
def experiment(level):
    """Two variants; on the books the first is as much worse as it is better on the split that decides."""
    made = level(4, {"a": -0.03, "b": 0.01}, noise=0.001)
    for name, more in (("baseline", 0.0), ("a", 0.03), ("b", 0.0)):
        for seed in range(4):
            run = made.at(name, seed)
            final = run.record()["final"]
            loss = 3.0 + 0.1 * seed + more + 0.001 * math.sin(seed * len(name))
            run.update(final={**final, "val/books/loss": loss, "val/books/bpb": loss / 2})
            keep(run, {"val/books": DocumentScores(loss * SIZES, SIZES, SIZES)})
    return made


def test_every_variant_has_its_difference_on_every_further_set(experiment) -> None:
    found = {(one.metric, one.arm): one for one in compare(experiment.edition).others}
    metrics = ("val/books/loss", "val/books/bpb")
    assert list(found) == [(metric, arm) for metric in metrics for arm in ("a", "b")]
    gap = found["val/books/loss", "a"].difference
    assert (gap.mean, gap.n) == (pytest.approx(0.03, abs=0.001), 4)
    assert gap.low < 0.03 < gap.high
    assert found["val/books/bpb", "a"].difference.mean == pytest.approx(0.015, abs=0.001)
    assert found["val/books/loss", "a"].second == pytest.approx((0.03, 0.03), abs=1e-3)


def test_they_decide_nothing_and_are_said_to_be_uncorrected(experiment) -> None:
    found = compare(experiment.edition)
    assert found.variants[0].verdict.word == "win"
    told = dict(found.footing)["also books"]
    assert told.startswith("Δ val/books/loss, 95 % uncorrected: a +0.0")
    assert "; b " in told
    assert told in found.markdown()


def test_where_bits_decide_the_others_are_told_in_bits(experiment) -> None:
    experiment.description["metric"] = "val/bpb"
    experiment.arm("b")
    assert dict(compare(experiment.edition).footing)["also books"].startswith("Δ val/books/bpb, 95 % uncorrected")


def test_as_json_says_so_too(experiment) -> None:
    one = json.loads(json.dumps(compare(experiment.edition).as_json(), allow_nan=False))["others"][0]
    assert (one["set"], one["arm"], one["corrected"]) == ("books", "a", False)
    assert one["difference"]["mean"] == pytest.approx(0.03, abs=0.001)


def test_without_further_sets_nothing_is_said(pair) -> None:
    found = compare(pair.edition)
    assert found.others == ()
    assert not any(name.startswith("also") for name in dict(found.footing))
