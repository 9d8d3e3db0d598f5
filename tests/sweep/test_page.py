import json
import re
from pathlib import Path

import pytest

from labkit.sweep.results import search_as_json
from tests.sweep.conftest import SEARCH, Write, labkit, made

pytestmark = pytest.mark.usefixtures("synthetic")


def test_the_page_tells_what_matters_and_is_the_same_every_time(write_sweep: Write) -> None:
    pruned = 'trials=36, pruner={"kind": "median", "startup": 21}'
    file = write_sweep(SEARCH.replace("trials=8", pruned).replace("1e-1", "0.4"))
    _, searched = made(file).run()
    path = searched.edition.path / "report.html"
    page = path.read_text()
    headings = [
        "The best beside the base",
        "<h2>What matters",
        "Each choice at its best",
        "Optuna's views",
        "All trials",
    ]
    for heading in [*headings, "90 % interval", "What pruning saved", "others ahead there", "What diverged or failed"]:
        assert heading in page
    [lr] = re.findall(r"<td>optimizer.lr</td><td>([\d.]+)(?: to [\d.]+)?</td><td>[\d.]+ to ([\d.]+)</td>", page)
    assert float(lr[1]) < 0.2 < float(lr[0])
    assert "optuna-dashboard" in page
    states = re.findall(r'<span class="status (\w+)">\1</span>( at \d+)?</td>', page)
    assert {state: bool(where) for state, where in states} == {"done": False, "pruned": True, "diverged": False}
    assert page.count("<svg") > 4
    note = path.with_name("report.md").read_text()
    assert all(word in note for word in ("**Question** What matters?", "**Answer** Trial", "**What matters** "))
    path.unlink()
    made(file).run()
    assert path.read_text() == page
    told = json.loads(json.dumps(search_as_json(searched, path)))
    best = told["branches"][0]["trials"][told["branches"][0]["best"]]
    assert best["values"][0] < 2.2


def test_a_lower_number_of_trials_is_that_of_the_page_too(
    write_sweep: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_sweep(SEARCH.replace("trials=8", "trials=6"))
    edition = made(file).run()[1].edition
    page, described = edition.path / "report.html", edition.description()
    assert ("6 trials: 6 done" in page.read_text(), described["trials"]) == (True, 6)
    few = "6 finished trials say nothing yet of what matters: from 20 on, 10 a choice"
    assert (few in page.read_text(), f"**What matters** {few}" in page.with_name("report.md").read_text()) == (
        True,
        True,
    )
    assert "90 % interval" not in page.read_text()
    assert ", too few" in page.read_text()
    code, out, _ = labkit(capsys, "sweep", file, "--trials", 4)
    assert (code, "4 trials: 4 done" in out) == (0, True)
    assert "4 trials: 4 done" in page.read_text()
    assert re.search(r"Trial [0-3] of 4 is the best", page.read_text())
    assert edition.description()["trials"] == 4
    told = json.loads(labkit(capsys, "sweep", file, "--trials", 4, "--json")[1])
    assert len(told["branches"][0]["trials"]) == 4
    labkit(capsys, "sweep", file)
    assert "6 trials: 6 done" in page.read_text()


def test_the_page_of_two_objectives_shows_their_front(write_sweep: Write) -> None:
    code = SEARCH.replace('minimize="val/loss"', 'minimize="val/loss", maximize="perf/tokens_per_s"').replace(
        "trials=8", "trials=4"
    )
    _, searched = made(write_sweep(code)).run()
    page = Path(searched.edition.path / "report.html").read_text()
    assert searched.branches[0].best.values[1] > 1e6
    assert re.findall(r"<td class=\"right\">[\d.]+M</td>", page)
    assert "e+0" not in page
    assert "<h2>The Pareto front</h2>" in page
    assert "those that no other beats in both are joined" in page
