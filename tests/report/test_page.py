import re
from html.parser import HTMLParser

from labkit.report.comparison import compare
from labkit.report.page import Drawings, page
from labkit.tracking.atomic import write_json
from labkit.tracking.record import Edition

VOID = {"meta", "br", "path", "use"}


class Balanced(HTMLParser):
    """Fails on a tag that is closed before its children are, and collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.text += data


def read(edition: Edition) -> str:
    comparison = compare(edition)
    return page(comparison, Drawings.of(comparison))


def shown(html: str) -> str:
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    return parser.text


def test_the_page_shows_every_run_and_what_it_was_made_from(pair) -> None:
    text = shown(read(pair.edition))
    for run in pair.edition.runs():
        assert run.record()["fingerprint"] in text
    for fact in (
        "Does theta matter?",
        "labkit run experiments/theta.py",
        "stdlib",
        "d0d0",
        "2.11.0",
        "5.00M",
        "5.0 MB",
    ):
        assert fact in text
    assert "−0.0490" in text
    assert "model.position.theta 10000 → 1e5" in text


def test_only_a_win_or_a_loss_stands_out_and_its_reason_is_on_a_line_of_its_own(level) -> None:
    waiting = read(level(3, {"better": -0.03}, looks=[4, 6]).edition)
    assert '<td class="verdict">no verdict:<br>the look at 4 seeds is not reached: 3 complete</td>' in waiting
    decided = read(level(4, {"better": -0.03}).edition)
    assert '<td class="verdict clear">WIN</td>' in decided


def test_what_is_to_be_typed_is_code_and_negative_numbers_have_a_minus_sign(pair) -> None:
    html = read(pair.edition)
    assert "<code>labkit ui</code>" in html
    assert "`" not in shown(html)
    assert not re.search(r"<dd>[^<]*\s-\d", html)


def test_few_epochs_are_told_in_their_digits(pair) -> None:
    for run in pair.edition.runs():
        run.update(epochs=0.0047)
    assert '<td class="right">0.0047</td>' in read(pair.edition)


def test_the_page_says_from_when_to_when_and_that_the_speed_leaves_out_evaluation(pair) -> None:
    for seed in range(3):
        pair.at("5e5", seed).update(ended=1_700_000_900.0 + seed)
    text = shown(read(pair.edition))
    assert "since 2023-11-14 22:13 UTC" in text
    assert "2023-11-14 22:13 → 22:28" in text
    for run in pair.edition.runs():
        run.update(ended=1_700_000_900.0)
    text = shown(read(pair.edition))
    assert "2023-11-14 22:13 → 22:28 UTC" in text
    assert "leave out its evaluations" in " ".join(text.split())


def test_the_page_says_what_the_curve_and_the_table_are_measured_on(pair) -> None:
    for run in pair.edition.runs():
        write_json(run.path / "spec.json", {"version": 1, "spec": {"evaluation": {"windows": 64}}})
    words = "The curve is measured on 64 fixed windows; the table on the whole validation split."
    assert words in shown(read(pair.edition))


def test_the_page_has_the_verdicts_and_what_they_rest_on(pair) -> None:
    text = " ".join(shown(read(pair.edition)).split())
    assert "3 seeds · σ over seeds 0.0055 (4 degrees of freedom)" in text
    assert "WIN" in text
    assert "What the verdicts rest on" in text
    assert "0.17M params, 0.10M tokens, stdlib: no claim beyond" in text


def test_the_hypothesis_stands_beside_the_answer(pair) -> None:
    card = read(pair.edition).partition('<section class="card answer">')[2].partition("</section>")[0]
    assert "Hypothesis: No." in card
    assert "1e5 is better than the baseline by 0.0490" in card


def test_the_page_needs_nothing_from_elsewhere(pair) -> None:
    html = read(pair.edition)
    assert not re.findall(r"https?:|//|<script|<link|<img|@import|url\((?!#)", html.split("</style>")[1])
    assert not re.findall(r"@import|url\(", html.split("</style>")[0])


def test_what_users_write_is_shown_letter_for_letter(synthetic) -> None:
    experiment = synthetic(question='<script>alert("1")</script> & so?', hypothesis="a < b", seeds=[0])
    for name in ("baseline", "x<y> & 'z'"):
        experiment.arm(name)
        experiment.run(name, 0)
    experiment.at("baseline", 0).update(status="failed", error="<boom>")
    html = read(experiment.edition)
    assert "<script" not in html
    for words in ('<script>alert("1")</script> & so?', "a < b", "x<y> & 'z'", "<boom>"):
        assert words in shown(html)


def test_the_same_records_give_the_same_bytes(pair) -> None:
    first = read(pair.edition)
    assert read(pair.edition) == first


def test_a_half_finished_experiment_has_a_page_that_says_what_became_of_each_run(synthetic) -> None:
    statuses = ["done", "planned", "running", "paused", "diverged", "pruned", "stopped", "failed"]
    experiment = synthetic(seeds=list(range(9)))
    for name in ("baseline", "1e5"):
        experiment.arm(name)
        for seed, status in enumerate(statuses):
            experiment.run(name, seed, status=status, step=40, diverged_at=39, final={})
    text = shown(read(experiment.edition))
    assert all(f"{status} at step 40" in text for status in statuses if status not in ("done", "diverged"))
    assert "diverged at step 39" in text
    assert "8missing" in text


def test_an_experiment_that_has_not_begun_has_a_page(synthetic) -> None:
    experiment = synthetic(question="", hypothesis="")
    experiment.arm("baseline")
    experiment.arm("1e5")
    assert "Nothing to compare yet" in shown(read(experiment.edition))
