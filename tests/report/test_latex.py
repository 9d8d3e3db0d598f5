"""The LaTeX table: traced to its records, and safe in whatever users call their arms."""

import re
from dataclasses import replace

from labkit.report.comparison import compare
from labkit.report.latex import latex, tex


def test_the_table_has_a_row_an_arm_with_n_and_verdict(pair) -> None:
    text = latex(compare(pair.edition))
    rows = [line.split(" & ") for line in text.partition("\\midrule\n")[2].partition("\\bottomrule")[0].splitlines()]
    assert [row[0] for row in rows] == ["baseline*", "1e5", "5e5"]
    assert rows[1][1:5] == ["0.17M", "3", "1.9510", "$-$0.0490"]
    assert rows[1][-1] == "WIN \\\\"
    assert {len(row) for row in rows} == {7}
    assert text.count("\\begin{") == text.count("\\end{")


def test_the_caption_has_question_n_method_and_the_hash_of_the_records(pair) -> None:
    first = compare(pair.edition)
    caption = latex(first).partition("\\caption{")[2].partition("\n")[0]
    for words in ("Does theta matter?", "n = 3 seeds", "Dunnett", "$\\sigma$ = 0.0055", first.hash):
        assert words in caption
    pair.run("1e5", 0, 1.5)
    assert compare(pair.edition).hash != first.hash


def test_the_caption_tells_an_edition_that_is_not_the_file_as_it_stands(synthetic) -> None:
    experiment = synthetic()
    experiment.arm("baseline")
    whole = compare(experiment.edition)
    assert "Does theta matter? Difference in" in latex(whole)
    assert "Does theta matter? Edition steps=20. Difference in" in latex(replace(whole, edition="steps=20"))


def test_what_users_write_is_printed_letter_for_letter() -> None:
    assert tex("50% & more_of #1 {x} ~^\\") == (
        "50\\% \\& more\\_of \\#1 \\{x\\} \\textasciitilde{}\\textasciicircum{}\\textbackslash{}"
    )
    assert tex("[-0.1, 2-3] d_ff 8 → 16") == "[$-$0.1, 2-3] d\\_ff 8 $\\to$ 16"


def test_one_seed_leaves_dashes(synthetic) -> None:
    experiment = synthetic(seeds=[0])
    for name in ("baseline", "1e5"):
        experiment.arm(name)
        experiment.run(name, 0)
    assert re.search(r"^1e5 & .* & -- & no verdict: one seed", latex(compare(experiment.edition)), re.MULTILINE)
