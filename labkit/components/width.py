"""What grows when a model is made wider: the sizes that its components give by hand, along the axes that they name.

Sizes that follow from others (head_dim from d_model, d_ff from its multiplier) need no name: they grow by themselves.
"""

from collections.abc import Collection, Iterator, Set
from enum import Enum
from fractions import Fraction
from typing import Annotated, Any, get_args

from labkit.spec import Mistake, Size, Spec


class Axis(Enum):
    """Along which way of growing a size grows in proportion."""

    WIDTH = "width"
    """Always: d_model, d_ff, the latent vectors of attention."""
    HEAD = "head"
    """Where heads grow in size."""
    HEADS = "heads"
    """Where they grow in number."""


Width = Annotated[Size, Axis.WIDTH]
HeadWidth = Annotated[Size, Axis.HEAD]
HeadCount = Annotated[Size, Axis.HEADS]


def resized(spec: Spec, ratio: Fraction, axes: Set[Axis], under: str = "") -> Iterator[tuple[str, int]]:
    """(path, size) of all that a spec gives by hand along these axes, `ratio` times as large. Raises Mistake."""
    for name in type(spec).model_fields:
        value, path = getattr(spec, name), under + name
        if isinstance(value, Spec):
            yield from resized(value, ratio, axes, f"{path}.")
        elif value is not None and axes & axes_of(type(spec), name):
            if (size := value * ratio).denominator > 1:
                raise Mistake(f"{path} {value} times {ratio} is no whole number; choose another width, or change it")
            yield path, int(size)


def axes_of(cls: type[Spec], name: str) -> set[Axis]:
    """The axes along which a field grows."""
    field = cls.model_fields[name]
    return _axes((field.annotation, *field.metadata))


def _axes(annotations: Collection[Any]) -> set[Axis]:
    """The axes in an annotation, also in that of a size that may be absent."""
    inner = [_axes(get_args(each)) for each in annotations if get_args(each)]
    return {each for each in annotations if isinstance(each, Axis)}.union(*inner)
