import math

import pytest
from scipy import stats

from labkit.report import files
from labkit.report.comparison import Comparison, compare
from labkit.report.files import write
from labkit.report.forest import forest
from labkit.report.latex import latex
from labkit.report.page import Drawings, page
from labkit.report.verdicts import Verdict
from labkit.report.words import shown
from labkit.tracking.atomic import read_json, write_json
from labkit.tracking.record import Edition


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn says nothing here."""
    monkeypatch.setattr(files, "pictures", lambda *_: ())


def verdicts(comparison: Comparison) -> dict[str, str]:
    return {arm.name: arm.verdict.word for arm in comparison.variants}


def test_each_arm_has_its_word(level) -> None:
    found = compare(level(5, {"better": -0.03, "worse": 0.03, "same": 0.0}, noise=0.001).edition)
    assert verdicts(found) == {"better": "win", "worse": "loss", "same": "tie"}
    assert (found.analysis.dof, found.analysis.seeds, found.analysis.looks) == (12, 5, (5,))


def test_an_experiment_of_one_seed_has_no_verdict(level) -> None:
    found = compare(level(1, {"better": -0.03}).edition)
    assert shown(found.variants[0].verdict) == "no verdict: one seed"
    assert found.look == {}


def test_between_looks_there_is_no_verdict_and_it_is_said_when_there_will_be(level) -> None:
    experiment = level(5, {"better": -0.03}, looks=[4, 6, 10])
    (arm,) = compare(experiment.edition).variants
    assert arm.verdict.reason == "the look at 6 seeds is not reached: 5 complete"
    assert arm.difference.has_interval


def test_a_half_finished_experiment_has_no_verdict(level) -> None:
    experiment = level(4, {"better": -0.03, "worse": 0.03})
    experiment.at("worse", 3).update(status="running", step=7, final={})
    found = compare(experiment.edition)
    assert set(verdicts(found).values()) == {"none"}
    assert found.variants[0].verdict.reason == "the look at 4 seeds is not reached: 3 complete"


def test_an_early_look_asks_for_more_and_shows_no_tie(level) -> None:
    gaps = {"better": -0.03, "same": 0.0}
    early = compare(level(4, gaps, looks=[4, 6, 10]).edition)
    assert verdicts(early) == {"better": "win", "same": "unresolved"}
    assert early.header.startswith("baseline 2.0750 · 4 seeds, look 1 of 3")
    once = compare(level(4, gaps).edition)
    assert early.variants[0].difference.low < once.variants[0].difference.low


def test_a_rendered_verdict_enters_the_ledger_once(level) -> None:
    experiment = level(4, {"better": -0.03})
    page = experiment.edition.path / "report.html"
    write(experiment.edition)
    first = page.read_bytes()
    write(experiment.edition)
    assert page.read_bytes() == first
    (look,) = experiment.edition.description()["ledger"]
    assert (look["seeds"], look["verdicts"], look["margin"]) == (4, {"better": "win"}, 0.005)


def test_raising_the_seeds_after_a_verdict_is_a_look(level) -> None:
    experiment = level(4, {"better": -0.03})
    write(experiment.edition)
    again = level(8, {"better": -0.03})
    found = compare(again.edition)
    assert found.analysis.looks == (4, 8)
    assert found.analysis.level > 0.95
    assert dict(found.footing)["looks"] == (
        "at 4 and 8 seeds, not declared: earlier words kept 95 % by themselves; at 4: better win"
    )


def test_declared_looks_keep_their_level_together(level) -> None:
    write(level(4, {"better": -0.03}, looks=[4, 8]).edition)
    told = dict(compare(level(8, {"better": -0.03}, looks=[4, 8]).edition).footing)
    assert told["looks"] == "at 4 and 8 seeds, which together keep 95 %; at 4: better win"


def test_a_verdict_on_another_baseline_is_no_look(level) -> None:
    experiment = level(4, {"better": -0.03})
    write(experiment.edition)
    described = read_json(experiment.edition.path / "experiment.json")
    described["ledger"][0]["baseline"] = "another"
    write_json(experiment.edition.path / "experiment.json", described)
    assert compare(level(8, {"better": -0.03}).edition).analysis.looks == (8,)


def test_a_margin_that_was_another_at_an_earlier_look_is_said(level) -> None:
    write(level(4, {"better": -0.03}, margin=0.001).edition)
    found = compare(level(8, {"better": -0.03}, margin=0.05).edition)
    assert dict(found.footing)["margin"] == "M was 0.001 at an earlier look"
    assert found.variants[0].verdict.negligible


def test_the_margin_of_bits_per_byte_is_worth_the_same_nats(level) -> None:
    found = compare(level(4, {"same": 0.0}, metric="val/bpb", margin=0.006).edition)
    assert found.analysis.metric_margin == pytest.approx(0.004)
    assert found.header.endswith("M ±0.006 nats, ±0.0040")


def test_an_arm_that_diverges_where_the_baseline_did_not_cannot_win(level) -> None:
    experiment = level(5, {"better": -0.03, "same": 0.0})
    experiment.at("better", 2).update(status="diverged", diverged_at=9)
    found = compare(experiment.edition)
    assert shown(found.variants[0].verdict) == "no verdict: 4 of 5 survived: cannot win"
    assert found.analysis.seeds == 5
    experiment.at("baseline", 2).update(status="diverged", diverged_at=9)
    assert verdicts(compare(experiment.edition))["better"] == "win"


def test_an_arm_whose_validation_loss_rises_to_its_end_cannot_win(level) -> None:
    experiment = level(5, {"better": -0.03, "worse": 0.03})
    for name, gap in (("better", -0.03), ("worse", 0.03)):
        for seed in range(5):
            experiment.at(name, seed).append(999, {"val/loss": 1.0 + gap})
            experiment.at(name, seed).append(1000, {"val/loss": 1.02 + gap})
    found = compare(experiment.edition).variants
    assert shown(found[0].verdict) == "no verdict: val/loss rises by 0.0200 to its end: cannot win"
    assert shown(found[1].verdict) == "LOSS"


def test_beyond_four_epochs_a_verdict_is_data_limited(level) -> None:
    experiment = level(5, {"better": -0.03})
    assert shown(compare(experiment.edition).variants[0].verdict) == "WIN"
    for seed in range(5):
        experiment.at("better", seed).update(epochs=4.5)
    assert shown(compare(experiment.edition).variants[0].verdict) == "WIN, data-limited"


def test_an_arm_that_diverges_can_lose(level) -> None:
    experiment = level(5, {"worse": 0.03})
    experiment.at("worse", 2).update(status="diverged", diverged_at=9)
    assert verdicts(compare(experiment.edition)) == {"worse": "loss"}


def test_a_placebo_is_outside_the_family_and_inside_the_noise(level) -> None:
    without = compare(level(5, {"a": 0.0, "b": -0.03}).edition).variants
    found = compare(level(5, {"a": 0.0, "b": -0.03, "placebo": 0.0}).edition)
    assert found.analysis.dof == 12
    assert (without[0].difference.dof, found.variants[0].difference.dof) == (8, 12)
    assert shown(found.variants[2].verdict) == "(0 of 1 outside their own 95 %: as expected)"
    a, placebo = found.variants[0].difference, found.variants[2].difference
    assert placebo.high - placebo.low < a.high - a.low
    assert "placebo" not in found.answer


def test_wherever_a_placebos_interval_stands_it_is_said_to_be_its_own(level) -> None:
    experiment = level(5, {"a": 0.0, "b": -0.03, "placebo": 0.0})
    found = compare(experiment.edition)
    gap, base = found.variants[2].difference, found.analysis.sigma * math.sqrt(2 / 5)
    assert gap.high - gap.mean == pytest.approx(stats.t.ppf(0.975, found.analysis.dof) * base)
    told = "0 of 1 outside their own 95 %: as expected"
    drawing = forest(found.arms, found.metric)[0].caption
    for text in (found.brief_rows()[1][2][-1], found.markdown(), page(found, Drawings([], [], []))):
        assert told in text.replace(":<br>", ": ")
    assert r"freedom), a placebo's its own 95 \%;" in latex(found)
    assert "interval (of a placebo its own 95 %)" in drawing
    early = compare(level(5, {"a": 0.0, "b": -0.03, "placebo": 0.0}, looks=[8]).edition)
    assert early.variants[2].verdict.reason == "its own 95 %; the look at 8 seeds is not reached: 5 complete"


def test_placebos_are_judged_by_their_number_on_record(level) -> None:
    experiment = level(5, {"a": 0.0, "placebo": 0.05, "placebo-2": 0.06})
    assert compare(experiment.edition).variants[1].verdict.reason == "2 of 2 outside their own 95 %: more than expected"
    other = Edition(experiment.edition.path.parent.parent / "other" / "main")
    described = experiment.edition.description()
    looked = {"seeds": 5, "baseline": "b", "margin": 0.005, "verdicts": {}}
    placebos = {f"placebo-{number}": number == 1 for number in range(1, 60)}
    told = "2 of 2 outside their own 95 %, more than expected: the noise is underestimated"
    assert dict(compare(experiment.edition).grounds)["placebos"] == told
    write_json(other.path / "experiment.json", described | {"ledger": [looked | {"placebos": placebos}]})
    found = compare(experiment.edition)
    assert found.variants[1].verdict.reason == "3 of 61 outside their own 95 %: as expected"
    told = "of all experiments here: 3 of 61 outside their own 95 %, as many as expected"
    assert dict(found.grounds)["placebos"] == told


def test_the_placebos_of_other_experiments_are_no_evidence_where_there_is_none(level) -> None:
    experiment = level(5, {"a": 0.0})
    other = Edition(experiment.edition.path.parent.parent / "other" / "main")
    described, looked = experiment.edition.description(), {"seeds": 5, "baseline": "b", "margin": 0.005, "verdicts": {}}
    write_json(other.path / "experiment.json", described | {"ledger": [looked | {"placebos": {"placebo": False}}]})
    told = "none in this experiment; placebo=True adds the baseline under other initial values"
    assert dict(compare(experiment.edition).grounds)["placebos"] == told


def test_a_placebo_without_a_result_is_judged_by_no_other(level) -> None:
    experiment = level(3, {"a": 0.0, "placebo": 0.05})
    experiment.arm("placebo-2", placebo=True)
    experiment.run("placebo-2", 0, status="diverged", final={})
    assert compare(experiment.edition).variants[-1].verdict.reason == "no pair of seeds"


def test_fewer_seeds_than_the_file_has_are_told_as_such(level) -> None:
    told = compare(level(2, {"a": -0.05}, seeds_in_file=4).edition)
    assert "2 of the file's 4 seeds" in told.header
    assert "2 seeds" in compare(level(2, {"a": -0.05}).edition).header


def test_placebos_alone_are_a_check_of_the_noise_that_is_kept(level) -> None:
    experiment = level(5, {"placebo": 0.0})
    write(experiment.edition)
    found = compare(experiment.edition)
    assert found.answer == "Placebos alone: 0 of 1 outside their own 95 %: as expected."
    assert experiment.edition.description()["ledger"][0]["placebos"] == {"placebo": False}
    assert "power" not in dict(found.footing)


def test_a_damaged_neighbour_does_no_harm(level) -> None:
    experiment = level(5, {"a": 0.0, "placebo": 0.0})
    other = experiment.edition.path.parent.parent / "other" / "main"
    other.mkdir(parents=True)
    (other / "experiment.json").write_text("{")
    assert compare(experiment.edition).analysis.placebos == 1


def test_an_unresolved_arm_says_how_many_more_seeds_would_settle_it(level) -> None:
    found = compare(level(5, {"a": 0.004}, noise=0.02).edition)
    (arm,) = found.variants
    assert dict(found.footing)["further"] == "seeds are reckoned from the difference seen so far"
    low, high = arm.verdict.further
    assert 1 <= low < high
    assert shown(arm.verdict) == f"unresolved: {low} to {'over 1000' if high > 1000 else high} more seeds"


@pytest.mark.parametrize(
    ("band", "told"),
    [
        ((100, 100), "100 more seeds"),
        ((100, 340), "100 to 340 more seeds"),
        ((100, 1001), "100 to over 1000 more seeds"),
        ((101, 340), "over 100 more seeds"),
        ((101, 101), "over 100 more seeds"),
    ],
)
def test_seeds_that_nobody_will_add_are_not_counted(level, band: tuple[int, int], told: str) -> None:
    assert shown(Verdict("unresolved", further=band)) == f"unresolved: {told}"
    found = compare(level(5, {"a": 0.004}, noise=5.0).edition)
    assert shown(found.variants[0].verdict) == "unresolved: over 100 more seeds"
    assert "further" not in dict(compare(level(5, {"a": -0.03}).edition).footing)


def test_as_json_carries_the_analysis_and_every_verdict(level) -> None:
    told = compare(level(5, {"a": -0.03, "placebo": 0.0}).edition).as_json()
    assert told["arms"][1]["verdict"]["word"] == "win"
    assert told["arms"][2]["placebo"] is True
    assert told["arms"][1]["second"] is None
    assert {"seeds", "looks", "level", "sigma", "dof", "margin", "resolves", "removed"} <= told["analysis"].keys()
    assert told["header"].startswith("baseline 2.")


def test_what_is_matched_on_nothing_says_in_its_verdict_what_it_has_more_of(pair) -> None:
    pair.arm("1e5", params=226_100, tokens=50_000)
    better = compare(pair.edition).arms[1].verdict
    assert better.unequal == ("+33 % params", "-50 % FLOPs", "-50 % tokens")
    assert shown(better) == "WIN, +33 % params, -50 % FLOPs, -50 % tokens"
    assert "[0.0341, 0.0639], +33 % params" in compare(pair.edition).answer
    matched = {"on": "params", "residual_percent": 0.0, "residual_nats": 0.0, "path": "", "before": 0, "after": 0}
    pair.arm("1e5", matched=matched | {"law": "", "written": {"residual_percent": 0.0}})
    assert compare(pair.edition).arms[1].verdict.unequal == ()


def test_arms_that_were_never_run_are_no_part_of_the_family(level) -> None:
    experiment = level(4, {"a": -0.01}, noise=0.01, seeds_in_file=4)
    for name in ("gelu", "l1norm"):
        experiment.arm(name)
    experiment.arm("placebo", placebo=True)
    found = compare(experiment.edition)
    base, a = (list(arm.finals.values()) for arm in found.arms)
    paired = stats.ttest_rel(a, base)
    gap = found.variants[0].difference
    assert gap.dof == paired.df == 3
    assert [gap.low, gap.high] == pytest.approx(paired.confidence_interval(), rel=1e-6)
    bound, shift = stats.t.ppf(0.975, 3), found.analysis.resolves / gap.error
    assert 1 - stats.nct.cdf(bound, 3, shift) + stats.nct.cdf(-bound, 3, shift) == pytest.approx(0.8, abs=1e-4)
    assert found.header.count("4 seeds") == 1
    assert found.look["seeds"] == 4
    assert found.answer.endswith("95 % interval over 4 paired seeds.")
    assert [(note.kind, note.text) for note in found.notes] == [
        ("not run", "gelu, l1norm, placebo; no part of this comparison.")
    ]


def test_an_arm_whose_only_run_is_planned_or_damaged_is_waited_for(level) -> None:
    experiment = level(4, {"a": -0.01})
    experiment.arm("b")
    run = experiment.run("b", 0, status="planned", final={})
    assert compare(experiment.edition).variants[0].verdict.reason == "the look at 4 seeds is not reached: 0 complete"
    (run.path / "record.json").write_text("{")
    assert [arm.name for arm in compare(experiment.edition).arms] == ["baseline", "a", "b"]
