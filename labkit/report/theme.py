"""Colours of the report: the baseline in ink, the variants in hues that the colour-blind can tell apart.

After Okabe & Ito (https://jfly.uni-koeln.de/color/) without their yellow, which white ground swallows; lighter on dark.
"""

from dataclasses import dataclass

INK = "#1f2329"
MUTED = "#68707b"
GRID = "#e3e6ea"
GROUND = "#ffffff"

_HUES = (  # name, on light ground, on dark ground
    ("hue-1", "#0072b2", "#58b0ee"),
    ("hue-2", "#d55e00", "#ff8a3d"),
    ("hue-3", "#009e73", "#2fcb9c"),
    ("hue-4", "#b0508a", "#e59bc8"),
    ("hue-5", "#d08f00", "#f2bd42"),
    ("hue-6", "#4f9dcc", "#a8dcfb"),
    ("hue-7", "#7b5b3a", "#c8a27c"),
)
LIGHT = {"ink": INK, "muted": MUTED, "grid": GRID, "ground": GROUND} | {name: light for name, light, _ in _HUES}
DARK = {"ink": "#e8eaed", "muted": "#98a1ad", "grid": "#31363e", "ground": "#1a1d22"} | {
    name: dark for name, _, dark in _HUES
}
"""Name -> colour; the drawings are made in the light ones."""

_DASHES = ((), (5.0, 2.0), (1.5, 1.5))


@dataclass(frozen=True)
class Stroke:
    """How an arm's line is drawn."""

    color: str
    """The name of a colour."""
    dashes: tuple[float, ...]
    """On and off lengths in points; empty for a solid line."""

    @property
    def light(self) -> str:
        return LIGHT[self.color]


def stroke(index: int) -> Stroke:
    """The stroke of an arm by its place, the baseline's being 0; beyond seven variants the hues come again, dashed."""
    if index == 0:
        return Stroke("ink", ())
    turn, hue = divmod(index - 1, len(_HUES))
    return Stroke(_HUES[hue][0], _DASHES[turn % len(_DASHES)])


def variables(colors: dict[str, str]) -> str:
    """The colours as CSS custom properties."""
    return " ".join(f"--{name}: {color};" for name, color in colors.items())


def themed(svg: str) -> str:
    """A drawing in the light colours with each replaced by its custom property, so that it follows the page."""
    for name, color in LIGHT.items():
        svg = svg.replace(color, f"var(--{name})")
    return svg
