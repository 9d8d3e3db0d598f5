import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from labkit.report import frame, plots
from labkit.report.comparison import compare
from labkit.report.curves import Curve
from labkit.report.forest import forest
from labkit.report.plots import panels
from labkit.report.theme import DARK, LIGHT, stroke


def drawings(experiment) -> dict[str, str]:
    arms = compare(experiment.edition).arms
    return {plot.name: plot.svg for plot in [*forest(arms, "val/loss"), *panels(arms)]}


def test_every_plot_that_the_records_allow_is_drawn(pair) -> None:
    assert list(drawings(pair)) == ["forest", "seeds", "val", "end", "train", "position", "gap", "beyond"]


def test_what_a_longer_context_changes_is_drawn_where_it_was_measured(pair) -> None:
    for name in pair.arms:
        for seed in range(3):
            losses = {"1": [4.0, 3.0, 3.0], "2": [4.0, 3.0, 2.5]}
            pair.at(name, seed).update(beyond={"edges": [1, 2, 4, 8], "loss": losses})
    assert list(drawings(pair))[-1] == "longer"


def test_what_has_no_records_is_not_drawn(synthetic) -> None:
    experiment = synthetic()
    experiment.arm("baseline")
    experiment.arm("1e5")
    assert drawings(experiment) == {}


def test_one_seed_of_a_running_experiment_draws_its_curves(synthetic) -> None:
    experiment = synthetic()
    for name in ("baseline", "1e5"):
        experiment.arm(name)
        experiment.run(name, 0, status="running", by_position={"edges": [], "loss": []}, final={})
    assert list(drawings(experiment)) == ["val", "end", "train"]


def test_drawings_are_well_formed_and_their_words_are_text(pair) -> None:
    found = drawings(pair)
    for svg in found.values():
        tree = ElementTree.fromstring(svg.replace("<svg", '<svg xmlns:xlink="x"', 1))
        assert tree.findall(".//text")
    assert "Δ val/loss to the baseline" in found["forest"]


def test_the_page_shows_the_axes_alone_and_the_file_its_title_and_the_names_as_well(pair) -> None:
    for plot in panels(compare(pair.edition).arms):
        root = ElementTree.fromstring(plot.svg.replace("<svg", '<svg xmlns:xlink="x"', 1))
        assert {child.tag for child in root} <= {"g", "defs"}
        assert len(root.findall("g")) == 1
        for words in (plot.title, "baseline", "1e5", "5e5"):
            assert f">{words}</text>" in plot.file
            assert f">{words}</text>" not in plot.svg


@pytest.mark.parametrize(("name", "rows"), [("1e5", 1), ("twenty-four letters long", 2), ("x" * 99, 3)])
def test_names_under_a_drawing_have_room_beside_each_other(synthetic, name, rows) -> None:
    experiment = synthetic(seeds=[0])
    for arm in ("baseline", name, "5e5"):
        experiment.arm(arm)
        experiment.run(arm, 0)
    drawing = next(plot for plot in panels(compare(experiment.edition).arms) if plot.name == "val")
    widest = max(text.get_window_extent().x1 for text in drawing.figure.texts)
    assert widest < drawing.figure.bbox.x1
    assert frame.below(compare(experiment.edition).arms) == pytest.approx(rows * frame.LINE)


def test_colours_are_the_page_s_and_follow_it_into_the_dark(pair) -> None:
    for svg in drawings(pair).values():
        assert set(re.findall(r"var\(--([\w-]+)\)", svg)) <= set(LIGHT) == set(DARK)
        assert not re.findall(r"(?:fill|stroke): (?:#\w+|black)", svg)


def test_no_two_drawings_share_an_id(pair) -> None:
    ids = [name for svg in drawings(pair).values() for name in re.findall(r'id="([^"]+)"', svg)]
    assert len(ids) == len(set(ids))


def test_names_of_any_script_and_sign_are_drawn_without_a_warning(synthetic) -> None:
    experiment = synthetic(seeds=[0])
    for name in ("baseline", "位置 <$theta_1$> & \\frac"):
        experiment.arm(name)
        experiment.run("baseline" if name == "baseline" else name, 0)
    assert "位置 &lt;$theta_1$&gt; &amp; \\frac" in drawings(experiment)["forest"]


def test_a_diverged_run_ends_in_a_cross_inside_the_frame(pair) -> None:
    calm = drawings(pair)["val"]
    run = pair.at("1e5", 1)
    run.append(50, {"val/loss": 1e6})
    run.update(status="diverged")
    wild = drawings(pair)["val"]
    assert wild != calm
    ticks = [re.findall(r">([\d.−]+)</text>", svg) for svg in (calm, wild)]
    assert ticks[0] == ticks[1]


@pytest.mark.parametrize("count", [7, 14, 21])
def test_strokes_tell_that_many_variants_apart(count) -> None:
    strokes = {stroke(index) for index in range(count + 1)}
    assert len(strokes) == count + 1


def test_the_end_of_training_holds_its_curves_whole() -> None:
    axes = Figure().add_axes((0, 0, 1, 1))
    x = np.array([0.0, 70.0, 90.0, 100.0])
    steep, flat = np.array([9.0, 6.0, 2.0, 1.0]), np.full(4, 1.5)
    plots._frame(axes, [Curve(x, steep, steep - 0.1, steep + 0.1), Curve(x, flat, flat, flat)], 0.75)
    low, high = axes.get_ylim()
    assert high > np.interp(75, x, steep + 0.1)
    assert low < 0.9
