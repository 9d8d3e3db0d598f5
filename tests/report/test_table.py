from labkit.report.comparison import compare
from labkit.report.table import escaped


def test_markdown_holds_question_answer_table_notes_and_command(pair) -> None:
    pair.at("1e5", 1).update(status="diverged", diverged_at=37)
    text = compare(pair.edition).markdown()
    lines = text.splitlines()
    assert lines[0] == "# theta"
    assert "**Question** Does theta matter?" in lines
    columns = "| variant | Δ val/loss | 95 % simultaneous | text± | verdict | val/loss | spread | bits/byte |"
    assert f"{columns} params | tokens/s | runs |" in lines
    assert any(line.startswith("| 5e5 | +0.0000 |") for line in lines)
    assert any(line.startswith("- **diverged** 1e5: 2 of 3 survived") for line in lines)
    assert lines[-1] == "    labkit run experiments/theta.py"


def test_names_cannot_break_the_markdown(synthetic) -> None:
    experiment = synthetic(question="Is <b>\nit `so` & __thus__?", seeds=[0])
    experiment.arm("baseline")
    experiment.arm("a|b*c")
    table = [line for line in compare(experiment.edition).markdown().splitlines() if line.startswith("|")]
    assert table[-1].startswith("| a\\|b\\*c |")
    assert "**Question** Is &lt;b&gt; it \\`so\\` &amp; \\_\\_thus\\_\\_?" in compare(experiment.edition).markdown()


def test_escaping_leaves_ordinary_names_readable() -> None:
    assert escaped("model.position.rope_theta = 1e5, [-0.1, +0.2]") == "model.position.rope_theta = 1e5, [-0.1, +0.2]"


def test_a_label_that_says_more_stands_beside_the_name(synthetic) -> None:
    experiment = synthetic()
    experiment.arm("baseline", label="theta=10000")
    assert compare(experiment.edition).rows()[1][0][0] == "baseline (theta=10000)"
