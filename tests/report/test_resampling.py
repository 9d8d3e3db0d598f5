"""The interval over documents."""

import math
import time

import numpy as np
import pytest
from scipy import stats

from labkit.report import resampling
from labkit.report.comparison import compare
from labkit.report.resampling import LEVEL, RESAMPLES, grouped, percentile, resamples, worth
from labkit.report.words import shown
from labkit.tracking.documents import DocumentScores, keep

TOKENS = np.array([100, 300, 50, 700, 250, 400, 120, 90, 800, 210] * 5)


def on_record(experiment, arms: dict[str, np.ndarray], tokens: np.ndarray = TOKENS, seeds: int = 5) -> None:
    """Let each arm's runs have scored so many nats more than the baseline on every token of each document."""
    random = np.random.default_rng(3)
    for seed in range(seeds):
        base = random.normal(2.0, 0.3, len(tokens))
        for name, more in arms.items():
            keep(experiment.at(name, seed), {"val": DocumentScores((base + more) * tokens, tokens, 3 * tokens)})


def uneven(mean: float, spread: float) -> np.ndarray:
    """A difference a document that is `mean` on the whole."""
    drawn = np.random.default_rng(1).normal(0, spread, len(TOKENS))
    return drawn + mean - (drawn * TOKENS).sum() / TOKENS.sum()


@pytest.fixture
def told(level):
    """An experiment of two variants, 0.03 better and 0.03 worse over seeds; and how they do over documents."""

    def make(better: float = 0.02, worse: float = 0.02, **fields):
        experiment = level(5, {"better": -0.03, "worse": 0.03}, noise=0.001, **fields)
        arms = {"baseline": np.zeros(len(TOKENS)), "better": uneven(-0.03, better), "worse": uneven(0.03, worse)}
        on_record(experiment, arms)
        return experiment

    return make


def test_the_interval_is_that_of_the_ratio_estimator(told) -> None:
    _, better, _ = compare(told(better=0.1).edition).arms
    low, high = better.second
    per_token = uneven(-0.03, 0.1)
    residuals = (per_token + 0.03) * TOKENS
    error = math.sqrt((residuals**2).sum()) / TOKENS.sum()  # the delta method
    assert (low + high) / 2 == pytest.approx(-0.03, abs=0.1 * error)
    assert (high - low) / 2 == pytest.approx(2.03 * error, rel=0.06)
    assert better.text_error == (high - low) / 2


def test_an_arm_that_is_better_on_every_document_alike_has_an_interval_of_no_width(told) -> None:
    _, better, _ = compare(told(better=0.0).edition).arms
    assert better.second == pytest.approx((-0.03, -0.03), abs=1e-12)


def test_win_and_loss_need_the_documents_too(told) -> None:
    found = compare(told(better=0.02, worse=0.4).edition)
    assert [arm.verdict.word for arm in found.variants] == ["win", "unresolved"]
    assert shown(found.variants[1].verdict) == "unresolved: not clear over documents, which takes more text"
    assert "worse" in found.answer
    assert "more seed" not in found.answer
    row = found.brief_rows()[1][1]
    assert row[3] == f"{found.variants[1].text_error:.4f}"
    assert dict(found.footing)["text"] == "text± is half the 95 % interval over 50 documents"


def test_the_same_records_give_the_same_interval(told) -> None:
    intervals = [[arm.second for arm in compare(told().edition).arms] for _ in range(2)]
    assert intervals[0] == intervals[1]
    assert intervals[0][0] is None


def test_arms_that_share_a_difference_share_an_interval(told) -> None:
    experiment = told()
    on_record(experiment, {"baseline": np.zeros(50), "better": uneven(0.01, 0.1), "worse": uneven(0.01, 0.1)})
    _, better, worse = compare(experiment.edition).arms
    assert better.second == pytest.approx(worse.second, abs=1e-12)


def test_bits_per_byte_are_resampled_over_bytes(told) -> None:
    nats = compare(told().edition).variants[0].second
    bits = compare(told(metric="val/bpb").edition).variants[0].second
    assert bits == pytest.approx([end / 3 / math.log(2) for end in nats], rel=1e-9)


def test_a_run_recorded_before_leaves_its_arm_to_the_seeds_and_this_is_said(told) -> None:
    experiment = told(better=0.4)
    experiment.at("better", 2).documents.unlink()
    found = compare(experiment.edition)
    assert (found.variants[0].second, found.variants[0].verdict.word) == (None, "win")
    assert found.variants[1].second is not None
    assert dict(found.footing)["text"].endswith(
        "none for some: 1 run of better has no losses by document to read; remove their folders, and run it again"
    )


def test_a_metric_that_no_document_has_says_so(told) -> None:
    found = compare(told(metric="val/loss_x2").edition)
    assert {arm.second for arm in found.arms} == {None}
    assert dict(found.footing)["text"] == (
        "no interval over documents, so the words rest on the seeds alone: val/loss_x2 is not kept document by document"
    )


def test_other_documents_than_the_baselines_are_not_compared(told) -> None:
    experiment = told()
    keep(experiment.at("better", 1), {"val": DocumentScores(np.ones(50), TOKENS[::-1], TOKENS)})
    found = compare(experiment.edition)
    assert [arm.second is None for arm in found.arms] == [True, True, False]
    assert dict(found.footing)["text"].endswith("other documents than the baseline's were evaluated")


def test_documents_that_two_tokenizers_cut_are_compared_by_their_bytes(told) -> None:
    experiment = told(metric="val/bpb")
    for seed in range(5):
        there = compare(experiment.edition).variants[0].outcomes[seed].documents["val"]
        other = there.bytes - 2 * (np.arange(50) == 0)
        keep(experiment.at("better", seed), {"val": DocumentScores(there.nats, there.tokens // 2, other)})
    assert compare(experiment.edition).variants[0].second is not None


def test_few_documents_make_a_weak_interval(level) -> None:
    experiment = level(5, {"better": -0.03}, noise=0.001)
    tokens = np.array([900, 100, 100, 100, 100])
    on_record(experiment, {"baseline": np.zeros(5), "better": np.array([-0.03, -0.05, -0.01, -0.02, -0.04])}, tokens)
    found = compare(experiment.edition)
    assert (found.analysis.text.documents, found.analysis.text.worth) == (5, pytest.approx(1300**2 / 850_000))
    assert dict(found.footing)["text"] == (
        "text± is half the 95 % interval over 5 documents (weak: their lengths make them worth 1.99 equal ones)"
    )


def test_a_single_document_has_no_interval(level) -> None:
    experiment = level(5, {"better": -0.03})
    on_record(experiment, {"baseline": np.zeros(1), "better": np.zeros(1)}, np.array([50]))
    found = compare(experiment.edition)
    assert found.variants[0].second is None
    assert dict(found.footing)["text"].endswith("a single document was evaluated")


def test_weights_draw_as_many_documents_as_there_are() -> None:
    weights_RG = np.concatenate(list(resamples(7)))
    assert weights_RG.shape == (RESAMPLES, 7)
    assert (weights_RG.sum(1) == 7).all()
    assert weights_RG.var() == pytest.approx(6 / 7, rel=0.03)


def test_neighbours_are_grouped_where_documents_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "MOST", 4)
    columns_KD = np.stack([np.arange(10.0), np.ones(10)])
    assert grouped(columns_KD).tolist() == [[0 + 1, 2 + 3 + 4, 5 + 6, 7 + 8 + 9], [2, 3, 2, 3]]


@pytest.mark.parametrize(("documents", "sizes"), [(10, 0.0), (10, 1.0), (60, 1.0)])
def test_intervals_cover_the_truth_about_as_often_as_they_say(documents: int, sizes: float) -> None:
    random, covered = np.random.default_rng(0), []
    weights_RG = np.concatenate(list(resamples(documents)))
    for _ in range(400):
        tokens = np.exp(random.normal(0, sizes, documents))
        nats = random.standard_normal(documents) * np.sqrt(tokens)
        tail = percentile(documents, worth(tokens))
        low, high = np.quantile(weights_RG @ nats / (weights_RG @ tokens), [tail, 1 - tail])
        covered.append(low <= 0 <= high)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.04)


def coverage(tokens_D: np.ndarray, *tails: float) -> list[float]:
    """How often the interval of a difference that documents alone move, of truth 0, has it inside; for each tail."""
    documents, below = len(tokens_D), []
    weights_RG = np.concatenate(list(resamples(documents)))
    for seed in range(10):
        nats_DE = np.random.default_rng(seed).standard_normal((documents, 2000)) * tokens_D[:, None]
        below.append((weights_RG @ nats_DE <= 0).mean(axis=0))
    return [float(np.mean(np.abs(np.concatenate(below) - 0.5) <= 0.5 - tail)) for tail in tails]


def test_documents_of_equal_length_are_corrected_for_their_number() -> None:
    tokens = np.full(20, 137.0)
    assert worth(tokens) == pytest.approx(20)
    tail = stats.norm.cdf(-math.sqrt(20 / 19) * stats.t.ppf((1 + LEVEL) / 2, 19))
    assert percentile(20, worth(tokens)) == pytest.approx(tail, rel=1e-9)
    assert coverage(tokens, tail) == pytest.approx([0.95], abs=0.01)


@pytest.mark.parametrize("documents", [10, 40])
def test_one_long_document_widens_the_interval_to_what_it_says(documents: int) -> None:
    tokens = np.r_[0.4 / 0.6 * (documents - 1), np.ones(documents - 1)]
    tails = percentile(documents, documents), percentile(documents, worth(tokens))
    by_number, by_length = coverage(tokens, *tails)
    assert by_length == pytest.approx(0.95, abs=0.01)
    assert abs(by_length - 0.95) < abs(by_number - 0.95) / 2


def test_a_document_that_is_nearly_all_of_the_text_leaves_an_interval() -> None:
    assert 0 <= percentile(3, worth(np.array([1e9, 1.0, 0.0]))) < 0.025


def test_many_documents_take_no_time(level) -> None:
    experiment = level(3, {"a": 0.0, "b": 0.0, "c": 0.0})
    tokens = np.random.default_rng(0).integers(50, 2000, 50_000)
    for name in experiment.arms:
        for seed in range(3):
            keep(experiment.at(name, seed), {"val": DocumentScores(2.0 * tokens, tokens, tokens)})
    began = time.process_time()
    compare(experiment.edition)
    assert time.process_time() - began < 1.5
