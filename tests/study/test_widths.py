"""At which widths a baseline is checked."""

from typing import Any

import pytest

from experiments import baselines
from labkit.components.parametrization import Mup, Standard
from labkit.spec import Mistake
from labkit.study import widths as study
from labkit.study.widths import default_widths, widths_in


@pytest.mark.parametrize(("text", "widths"), [("64,128", (64, 128)), (" 256, 64 ,128", (64, 128, 256))])
def test_widths_are_a_list_of_numbers(text: str, widths: tuple[int, ...]) -> None:
    assert widths_in(text) == widths


@pytest.mark.parametrize("text", ["64", "64,", "", "64,64", "64,abc", "64,-1", "0,64", "64 128", "64,1.5"])
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(Mistake, match="a slope needs two widths or more, each once; write 64,128,256"):
        widths_in(text)


@pytest.mark.parametrize(
    ("name", "widths"),
    [
        ("nano", (64, 128, 256, 512)),
        ("mini", (80, 160, 320, 640)),
        ("small", (96, 192, 384, 768)),
        ("1B", (64, 128, 256, 512)),
    ],
)
def test_unless_given_they_double_from_the_narrowest_that_the_model_can_have(
    name: str, widths: tuple[int, ...]
) -> None:
    assert default_widths(vars(baselines)[name].model) == widths


def test_a_model_that_cannot_be_narrower_is_made_wider() -> None:
    model = baselines.nano.model.patched({"d_model": 256, "attention.head_dim": 6})
    assert default_widths(model) == (256, 512, 1024, 2048)  # three features of a head do not turn in pairs


@pytest.mark.parametrize(
    ("own", "mup"),
    [("standard", Mup(base_width=64)), (Mup(base_width=32, heads="more"), Mup(base_width=32, heads="more"))],
)
def test_standard_is_held_beside_the_runs_own_mup_at_the_same_shapes(
    monkeypatch: pytest.MonkeyPatch, own: Any, mup: Mup
) -> None:
    seen: list[list[Any]] = []
    monkeypatch.setattr(study, "lines", lambda specs, effort, done: seen.append([spec.model for spec in specs]) or [])
    spec = baselines.nano.patched({"model.parametrization": own})
    checked = study.check(spec, (64, 128), effort=None)  # type: ignore[arg-type]
    assert [each.parametrization for each in checked] == [Standard(), mup]
    heads = 8 if mup.heads == "more" else 4
    assert [model.attention.n_heads for model in seen[1]] == [4, heads]
    for plain, scaled in zip(*seen, strict=True):
        assert plain == scaled.patched({"parametrization": Standard()})
