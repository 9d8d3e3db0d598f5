"""How the report tells of matching."""

import pytest

from labkit.report.comparison import compare
from labkit.report.matched import law, moved, summary
from labkit.report.page import Drawings, page
from labkit.spec import Mistake

LAW = "L(N) = 1.69 + 406.4 / N^0.34 (Chinchilla, arXiv:2203.15556)"


def match(percent: float, nats: float, **fields: object) -> dict[str, object]:
    size = {"path": "", "before": 0, "after": 0}
    residual = {"residual_percent": percent, "residual_nats": nats, "law": LAW}
    return {"on": "params", **size, **residual, "written": {"residual_percent": percent}, **fields}


MOVED = {"path": "model.feedforward.d_ff", "before": 896, "after": 1064, "written": {"residual_percent": -9.6}}


@pytest.mark.parametrize(
    ("residuals", "told"),
    [
        ([(0.08, 0.00046)], "params within 0.08 %, worth < .0005 nats"),
        ([(-0.1, 0.000576), (0.02, 0.0001)], "params within 0.1 %, worth < .0006 nats"),
        ([(0.21, 0.0012)], "params within 0.21 %, worth < .002 nats"),
        ([(0.95, 0.0006)], "params within 0.95 %, worth < .0007 nats"),
        ([(1.19, 0.0006)], "params within 1.2 %, worth < .0007 nats"),
        ([(-9.93, 0.0006)], "params within 10 %, worth < .0007 nats"),
        ([(0.0, 0.0)], "params equal"),
        ([], ""),
    ],
)
def test_the_furthest_variant_is_what_is_told(residuals: list[tuple[float, float]], told: str) -> None:
    assert summary([match(*each) for each in residuals]) == told


def test_a_law_is_named_where_something_is_left() -> None:
    assert law([match(0, 0), match(0.1, 0.001)]) == LAW
    assert law([match(0, 0)]) == law([]) == ""


def test_a_moved_size_is_told_with_what_it_made_up_for() -> None:
    path = "model.feedforward.d_ff"
    assert moved(match(-0.15, 0.0009, **MOVED)) == f"{path} 896 → 1064 to match; as written -9.6 % parameters"
    assert moved(match(0.1, 0.001)) == moved(None) == ""


def test_the_comparison_its_page_and_its_markdown_say_what_was_matched(pair) -> None:
    pair.description["match"] = "params"
    pair.arm("1e5", label="1e5, d_ff 1064", matched=match(-0.15, 0.00086, **MOVED))
    pair.arm("5e5", matched=match(0, 0))
    found = compare(pair.edition)
    line = "params within 0.15 %, worth < .0009 nats"
    assert (found.matched, found.law) == (line, LAW)
    assert found.as_json()["matched"] == line
    assert found.as_json()["arms"][1]["matched"]["after"] == 1064
    assert f"**matched** {line} by L(N)" in found.markdown().replace("&lt;", "<")
    assert found.arms[1].title == "1e5, d_ff 1064"
    html = page(found, Drawings.of(found)).replace("&lt;", "<")
    assert f"matched on: {line}" in html
    assert f"worth by {LAW}" in html
    assert "896 → 1064 to match; as written −9.6 % parameters" in html


def test_what_was_not_matched_says_so(pair) -> None:
    found = compare(pair.edition)
    assert found.matched == ""
    assert "matched on: none" in page(found, Drawings.of(found))


def test_a_damaged_match_is_no_comparison(pair) -> None:
    pair.arm("1e5", matched={"on": "params"})
    with pytest.raises(Mistake, match=r"experiment\.json is damaged: arms\.1\.matched\.path"):
        compare(pair.edition)


def test_a_difference_that_the_residual_may_be_worth_is_no_win(pair) -> None:
    found = {}
    for nats in (0.0, 10.0):
        pair.arm("1e5", matched=match(-0.15, nats))
        found[nats] = compare(pair.edition).arms[1]
    assert found[0.0].verdict.word in ("win", "loss")
    assert found[10.0].verdict.word == "unresolved"
    assert found[0.0].difference == found[10.0].difference
