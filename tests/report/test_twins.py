"""Two names of one model: no noise, no part of the others' intervals."""

import numpy as np
import pytest

from labkit.report.comparison import compare
from labkit.tracking.documents import DocumentScores, keep

TOKENS = np.array([10, 20, 30])


def scored(experiment, arms) -> None:
    """Let the runs of each arm have document scores that follow from a number of its own."""
    for name, own in arms.items():
        for seed in range(4):
            keep(experiment.at(name, seed), {"val": DocumentScores((own + seed) * TOKENS / 3, TOKENS, TOKENS)})


def figures(found, name: str) -> tuple[float, ...]:
    """What is said of an arm, and what that rests on."""
    gap, analysis = next(arm.difference for arm in found.arms if arm.name == name), found.analysis
    return gap.mean, gap.low, gap.high, gap.dof, analysis.sigma, analysis.dof, analysis.resolves


def test_copies_of_the_baseline_and_of_a_variant_change_nothing_for_the_others(level) -> None:
    losses, scores = {"real": 0.02, "other": 0.05}, {"baseline": 1, "real": 2, "other": 3}
    experiment = level(4, losses, noise=0.01)
    scored(experiment, scores)
    before = figures(compare(experiment.edition), "real")
    for name, of in {"idle": "baseline", "again": "real"}.items():
        experiment.arm(name)
        for seed in range(4):
            experiment.run(name, seed, final=experiment.at(of, seed).record()["final"])
    after = compare(experiment.edition)
    assert figures(after, "real") != pytest.approx(before)  # as long as the losses are all that is known
    scored(experiment, {**scores, "idle": 1, "again": 2})
    after = compare(experiment.edition)
    assert figures(after, "real") == pytest.approx(before)
    idle, again = (next(arm for arm in after.arms if arm.name == name) for name in ("idle", "again"))
    assert (idle.difference.mean, idle.difference.low, idle.difference.high) == (0.0, 0.0, 0.0)
    assert idle.verdict.reason == "one model with baseline: equal in every digit"
    assert again.verdict.reason == "one model with real: equal in every digit"
    told = [note.text for note in after.notes if note.kind == "same"]
    assert told == [
        "idle came to the digits of baseline: one model under two names, no part of the noise and intervals.",
        "again came to the digits of real: one model under two names, no part of the noise and intervals.",
    ]


def test_equal_losses_over_other_documents_are_two_models(level) -> None:
    experiment = level(4, {"real": 0.02, "idle": 0.0}, noise=0.0)
    scored(experiment, {"baseline": 1, "real": 2, "idle": 3})
    assert [note for note in compare(experiment.edition).notes if note.kind == "same"] == []
