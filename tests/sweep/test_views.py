from collections.abc import Iterator
from itertools import combinations

import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from labkit.report.drawing import LOOK
from labkit.sweep.views import BAR, by_optuna, view
from tests.sweep.conftest import Write, made

pytestmark = pytest.mark.usefixtures("synthetic", "no_page")

CODE = """
sweep = Sweep(
    base=pico,
    scientific={
        "model.attention": [
            {"kind": "gqa", "n_heads": 2, "n_kv_heads": 1},
            {"kind": "gqa", "n_heads": 2, "n_kv_heads": 2, "qk_norm": choice(["none", "rms"])},
        ],
        "model.position": ["none", {"kind": "rope", "theta": log_uniform(1e3, 1e6)}],
        "model.n_layers": integers(1, 2),
    },
    nuisance={"optimizer.lr": log_uniform(1e-3, 1e-2), "schedule.warmup": uniform(0.0, 0.4)},
    trials=12,
    minimize="val/loss",
)
"""


def _shown(figure: Figure) -> Iterator[Text]:
    """The texts that are drawn; not those of ticks beyond the ends of an axis."""
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes:
        yield from (axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts)
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks() if axis.get_visible() else ():
                if low <= tick.get_loc() <= high:
                    yield from (label for label in (tick.label1, tick.label2) if label.get_visible())


@pytest.fixture
def drawn(write_sweep: Write) -> dict[str, Figure]:
    _, searched = made(write_sweep(CODE)).run()
    [branch] = searched.branches
    with rc_context(LOOK):
        return {plot.name: view(branch, plot.name) for plot in by_optuna(branch)}


def test_the_plots_have_short_names_and_choices_and_no_text_upon_another(drawn: dict[str, Figure]) -> None:
    names = ["attention", "qk_norm", "position", "theta", "n_layers", "lr", "warmup"]
    slices = [axes for axes in drawn["slice"].axes if axes.get_label() != BAR]
    assert sorted(axes.get_xlabel() for axes in slices) == sorted(names)
    first = drawn["parallel_coordinate"].axes[0]
    assert {label.get_text() for label in first.get_xticklabels()} == {"val/loss", *names}
    for figure in drawn.values():
        texts = [text for text in _shown(figure) if text.get_text()]
        said = {text.get_text().replace("\n", "") for text in texts}
        assert {"gqa(n_kv_heads=1)", "gqa(n_kv_heads=2)", "rope", "none", "rms", "1", "2"} <= said
        assert not any("'" in text or "None" in text or "model." in text for text in said)
        boxes = [text.get_window_extent() for text in texts]
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
