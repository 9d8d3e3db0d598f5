"""The coordinate check of an experiment's baseline, `standard` beside `mup`: at which widths, and what is shown."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.components.parametrization import Mup, Parametrization, Standard
from labkit.faults import explain
from labkit.model import ModelSpec
from labkit.spec import Mistake, ValidationError
from labkit.tracking.console import Console
from labkit.train.coordinates import TOLERANCE, Effort, Line, lines
from labkit.train.run import RunSpec

VERSION = 1

NARROWEST = 64
"""The least of the widths that are chosen here."""
WIDTHS = 4
"""How many are, each twice the one before."""


@dataclass(frozen=True)
class Checked:
    """What one parametrization does over the widths."""

    parametrization: Parametrization
    widths: tuple[int, ...]
    lines: tuple[Line, ...]

    @property
    def is_flat(self) -> bool:
        return all(line.is_flat for line in self.lines)


def widths_in(text: str) -> tuple[int, ...]:
    """``64,128,256``, ascending. Raises Mistake."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in words) or len(set(words)) < max(2, len(words)):
        raise Mistake(f"--widths {text}: a slope needs two widths or more, each once; write 64,128,256")
    return tuple(sorted(map(int, words)))


def default_widths(model: ModelSpec) -> tuple[int, ...]:
    """Four that double, from the width of the model halved as long as it can be, and is not below 64."""
    width = model.d_model
    while width % 2 == 0 and width // 2 >= NARROWEST and _can_be(model, width // 2):
        width //= 2
    return tuple(width * 2**times for times in range(WIDTHS))


def _can_be(model: ModelSpec, width: int) -> bool:
    try:
        model.at_width(width)
    except Mistake:
        return False
    return True


def check(
    spec: RunSpec, widths: Sequence[int], effort: Effort, done: Callable[[], None] = lambda: None
) -> tuple[Checked, Checked]:
    """`standard`, and the run's own mup or else the one that equals it at the first width. Raises Mistake."""
    own = spec.model.parametrization
    mup = own if isinstance(own, Mup) else Mup(base_width=widths[0])
    grown = [_with(spec, mup).model.at_width(width) for width in widths]
    standard, scaled = (
        [_with(spec.patched({"model": model}), parametrization) for model in grown]
        for parametrization in (Standard(), mup)
    )
    return (
        Checked(Standard(), tuple(widths), tuple(lines(standard, effort, done))),
        Checked(mup, tuple(widths), tuple(lines(scaled, effort, done))),
    )


def _with(spec: RunSpec, parametrization: Parametrization) -> RunSpec:
    try:
        return spec.patched({"model.parametrization": parametrization})
    except ValidationError as error:
        raise Mistake(explain(error, RunSpec)) from error


def show(console: Console, title: str, checked: Sequence[Checked], effort: Effort) -> None:
    """A table for each parametrization, and what it comes to."""
    for each in checked:
        rows = [[line.activation, line.quantity, *map(_short, line.values), _slope(line)] for line in each.lines]
        styles = ["" if line.is_flat else "red" for line in each.lines]
        headers = ["mean |x|", f"in {effort.steps} steps", *map(str, each.widths), "slope"]
        console.table(f"{title}  {each.parametrization.label}", headers, rows, styles, left=2)
    for each in checked:
        console.show(f"{each.parametrization.label}: {_verdict(each)}")


def _verdict(checked: Checked) -> str:
    growing = sorted((line for line in checked.lines if not line.is_flat), key=lambda line: -line.slope)
    if not growing:
        return f"flat: nothing grows faster than width^{TOLERANCE:g}"
    worst, count = growing[0], f"{len(growing)} of {len(checked.lines)}"
    how = "is not finite" if math.isinf(worst.slope) else f"grows as width^{worst.slope:.2f}"
    return f"{count} grow faster than width^{TOLERANCE:g}; the {worst.quantity} of {worst.activation} {how}"


def _short(value: float) -> str:
    return f"{value:.3g}"


def _slope(line: Line) -> str:
    return f"{line.slope:+.2f}{'' if line.is_flat else ' !'}"


def as_json(title: str, checked: Sequence[Checked], effort: Effort) -> dict[str, Any]:
    return {
        "version": VERSION,
        "title": title,
        "steps": effort.steps,
        "seeds": effort.seeds,
        "tolerance": TOLERANCE,
        "parametrizations": [
            {
                "parametrization": each.parametrization.as_json(),
                "widths": list(each.widths),
                "flat": each.is_flat,
                "lines": list(_lines_as_json(each.lines)),
            }
            for each in checked
        ],
    }


def _lines_as_json(found: Sequence[Line]) -> Iterator[dict[str, Any]]:
    """JSON knows no infinity: null stands for it."""
    for line in found:
        values = [value if math.isfinite(value) else None for value in line.values]
        slope = line.slope if math.isfinite(line.slope) else None
        yield {
            "activation": line.activation,
            "quantity": line.quantity,
            "values": values,
            "slope": slope,
            "flat": line.is_flat,
        }
