"""The drawings as files of their own, for slides and papers."""

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from labkit.report.drawing import LOOK, Drawing, any_glyph

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 200

PACKING = 3
"""Of zlib's nine levels: three quarters of the time of its usual one, for a sixth more bytes."""


def pictures(drawings: Sequence[Drawing]) -> Iterator[tuple[str, bytes]]:
    """File name and content, SVG and PNG of each; the same bytes for the same records."""
    import matplotlib

    with matplotlib.rc_context(LOOK), any_glyph():
        for drawing in drawings:
            yield f"{drawing.name}.svg", drawing.file.encode()
            yield f"{drawing.name}.png", _png(drawing.figure)


def _png(figure: "Figure") -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    file = io.BytesIO()
    opaque = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])
    opaque.save(file, format="png", dpi=(DPI, DPI), compress_level=PACKING)
    return file.getvalue()
