"""What follows the width of a model, so that the best learning rate need not.

What grows with the width is not guessed: the model is compared with itself twice as wide, on `meta`. m is how many
times wider than `base_width` the model is. A hidden matrix grows on both sides; a table of vectors, a gain and a bias
only in fan-out; a head, a router and one gate for each head only in fan-in.

                     embeddings, gains, biases    head (also a tied one)    router, head gates    hidden
    initial std                 1                           1                      1 / m           1 / √m
    multiplier                  1                         1 / m                      1               1
    rate of AdamW, Lion         1                           1                      1 / m           1 / m
    rate of SGD                 m                           m                      1 / m             1
    rate of Adafactor           1                           1                        1             1 / √m

Each in multiples of what it is at base width, whatever the init, the optimizer and their options say there. Muon's rate
keeps the spectral norm of its update at √(fan_out / fan_in), whichever way the update is adjusted. AdamW's eps shrinks
as the gradients do, which is 1 / m but for routers (arXiv:2407.05872). Weight decay is independent: lr · λ is that at
base width for every matrix (arXiv:2309.14322, arXiv:2405.13698), so λ is larger where lr is smaller.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal

from torch import nn

from labkit.components.growth import Growth
from labkit.components.parameters import Part, Role, parts_of
from labkit.components.scale import Factor
from labkit.components.width import Axis
from labkit.spec import Choice, Mistake, Size


class Parametrization(Choice):
    """How initial values, multipliers and learning rates follow the width; by default as the other components say."""

    has_rates: ClassVar[bool] = False
    """Whether parameters differ in their learning rate."""

    @property
    def axes(self) -> frozenset[Axis]:
        """What grows with d_model where a model is made wider."""
        return frozenset((Axis.WIDTH, Axis.HEAD))

    def base(self, width: int) -> int:
        """The width at which the other components' word holds."""
        return width

    def head_growth(self, width: int) -> float:
        """How many times more features a head has than at base width."""
        return 1.0

    def readout(self, width: int) -> nn.Module:
        """What the last hidden vectors pass through before the head."""
        return nn.Identity()

    def settle(self, model: nn.Module, width: int, wider: Callable[[], nn.Module]) -> None:
        """Let every part of a model know its growth; `wider` gives the model twice as wide, without memory."""


class Standard(Parametrization):
    """σ and lr are what the init and the optimizer say, at every width (the other column of arXiv:2203.03466)."""

    kind: Literal["standard"] = "standard"


class Mup(Parametrization):
    """Hidden σ ∝ 1/√fan_in and Adam's lr ∝ 1/fan_in, logits ∝ 1/d_model, scores ∝ 1/d (arXiv:2203.03466, Table 8)."""

    kind: Literal["mup"] = "mup"
    has_rates: ClassVar[bool] = True
    base_width: Size = 128
    """The d_model at which it equals `standard`: that at which the learning rate was found."""
    heads: Literal["larger", "more"] = "larger"
    """How attention grows with d_model: the same number of larger heads, or more heads of the same size. Scores of
    larger heads are divided by their features and no longer by the root of them; both agree at base width."""

    @property
    def axes(self) -> frozenset[Axis]:
        return frozenset((Axis.WIDTH, Axis.HEAD if self.heads == "larger" else Axis.HEADS))

    def base(self, width: int) -> int:
        return self.base_width

    def times(self, width: int) -> float:
        """m."""
        return width / self.base_width

    def head_growth(self, width: int) -> float:
        return self.times(width) if self.heads == "larger" else 1.0

    def readout(self, width: int) -> nn.Module:
        return nn.Identity() if width == self.base_width else Factor(self.base_width / width)

    def settle(self, model: nn.Module, width: int, wider: Callable[[], nn.Module]) -> None:
        twice = dict(wider().named_parameters())
        for name, stored in model.named_parameters():
            if name not in twice or len(parts_of(name, twice[name])) != len(parts_of(name, stored)):
                raise Mistake(
                    f"model.parametrization: {name} is built at d_model {width} but not at {2 * width}, so mup cannot "
                    f"tell how it grows. Let its module have the same parameters at every width, or write 'standard'."
                )
            pairs = zip(parts_of(name, stored), parts_of(name, twice[name]), strict=True)
            columns = twice[name].shape[1:].numel() > stored.shape[1:].numel()
            stored.parts = tuple(  # type: ignore[attr-defined]
                replace(part, growth=self.growth(width, part, other, columns)) for part, other in pairs
            )

    def growth(self, width: int, part: Part, wider: Part, has_more_columns: bool) -> Growth:
        """Of a part that has the sizes of `wider` where the model is twice as wide."""
        times, reads_more, writes_more = self.times(width), wider.fan_in > part.fan_in, wider.rows > part.rows
        if part.role is Role.EMBEDDING:
            writes_more = has_more_columns
        elif not part.role.is_matrix:  # a vector turns one number into many, or many into one
            writes_more = writes_more and not reads_more
        return Growth(
            fan_in=times if reads_more else 1.0,
            fan_out=times if writes_more else 1.0,
            divisor=times if part.role is Role.HEAD else 1.0,
        )
