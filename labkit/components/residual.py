"""The residual stream, and where the norms stand around the two branches of a layer.

x is the stream, f a branch, N a norm; l counts the layers from 1, L is their number.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from labkit.components.branches import Branches, Stream
from labkit.components.norm import NoNorm, Norm
from labkit.components.parameters import Part, Role
from labkit.components.place import Place
from labkit.components.scale import BranchScale, Unscaled
from labkit.spec import Choice


class Residual(Choice):
    """Where the norms stand around a layer's branches."""

    norms_at_the_end: ClassVar[bool]
    """Whether the last layer leaves a sum that still has to be normalised before the head."""
    scale: BranchScale = Unscaled()
    """A factor of its own for each branch."""

    @property
    def norms(self) -> tuple[str, ...]:
        """The names of the norms in each layer."""
        return "attention_norm", "feedforward_norm"

    def flow(self, branches: Branches, stream: Stream) -> None:
        """Send the stream through one layer."""
        raise NotImplementedError

    def fault(self, norm: Norm) -> str | None:
        """Why this cannot work with that norm, or None."""
        return None

    def idle_with(self, norm: Norm) -> Mapping[str, str]:
        """Like `idle`, with that norm."""
        return {}

    def shrink(self, part: Part, place: Place) -> float:
        """What this placement multiplies the spread of a matrix's initial values by."""
        return 1.0


class Pre(Residual):
    """x + f(norm(x)): the stream itself is never normalised (arXiv:2002.04745)."""

    kind: Literal["pre"] = "pre"
    norms_at_the_end: ClassVar[bool] = True

    def flow(self, branches: Branches, stream: Stream) -> None:
        for branch in branches.both:
            (normed,) = stream.normed(branch.norm)
            stream.add(branch(normed))


class Post(Residual):
    """norm(x + f(x)): the stream is normalised after each branch (arXiv:1706.03762)."""

    kind: Literal["post"] = "post"
    norms_at_the_end: ClassVar[bool] = False

    def flow(self, branches: Branches, stream: Stream) -> None:
        for branch in branches.both:
            stream.add(branch(stream.read()))
            (stream.value,) = stream.normed(branch.norm)


class Peri(Residual):
    """x + N_out(f(N_in(x))): a norm on each side of the branch, as in Gemma 2 (arXiv:2502.02732)."""

    kind: Literal["peri"] = "peri"
    norms_at_the_end: ClassVar[bool] = True

    @property
    def norms(self) -> tuple[str, ...]:
        return "attention_norm", "attention_out_norm", "feedforward_norm", "feedforward_out_norm"

    def flow(self, branches: Branches, stream: Stream) -> None:
        for branch in branches.both:
            (normed,) = stream.normed(branch.norm)
            (out,) = Stream(branch.transformed(normed)).normed(branch.out_norm)
            stream.add(branch.written(out))


class Reordered(Residual):
    """x + N(f(x)): only what a branch adds is normalised (OLMo 2, arXiv:2501.00656)."""

    kind: Literal["reordered"] = "reordered"
    norms_at_the_end: ClassVar[bool] = True

    def flow(self, branches: Branches, stream: Stream) -> None:
        for branch in branches.both:
            (out,) = Stream(branch.transformed(stream.read())).normed(branch.norm)
            stream.add(branch.written(out))


class Parallel(Residual):
    """x + attention(N(x)) + feedforward(N(x)): both branches read the same sum (GPT-J; PaLM, arXiv:2204.02311)."""

    kind: Literal["parallel"] = "parallel"
    norms_at_the_end: ClassVar[bool] = True
    shared_norm: bool = True
    """One norm for both branches; GPT-NeoX (arXiv:2204.06745) has one for each."""

    @property
    def norms(self) -> tuple[str, ...]:
        return super().norms[:1] if self.shared_norm else super().norms

    def idle_with(self, norm: Norm) -> Mapping[str, str]:
        alike = f"where norm is {norm.label}, of which two are alike; leave it out"
        return {} if norm.is_learned else {"shared_norm": alike}

    def flow(self, branches: Branches, stream: Stream) -> None:
        attention, feedforward = branches.both
        if self.shared_norm:
            first, second = stream.normed(attention.norm, uses=2)
        else:
            (first,), (second,) = stream.normed(attention.norm), stream.normed(feedforward.norm)
        stream.add(attention(first), feedforward(second))


class Deepnorm(Residual):
    """norm(α x + f(x)), α = (2L)^¼; values, outputs and feed-forwards start (8L)^-¼ as large (arXiv:2203.00555)."""

    kind: Literal["deepnorm"] = "deepnorm"
    norms_at_the_end: ClassVar[bool] = False

    def flow(self, branches: Branches, stream: Stream) -> None:
        alpha = (2 * branches.place.n_layers) ** 0.25
        for branch in branches.both:
            out = branch(stream.read())
            stream.value = alpha * stream.value
            stream.add(out)
            (stream.value,) = stream.normed(branch.norm)

    def fault(self, norm: Norm) -> str | None:
        grows = "deepnorm multiplies the stream in every branch, which nothing undoes where norm is none"
        return f"{grows}; write a norm, or residual 'post'" if isinstance(norm, NoNorm) else None

    def shrink(self, part: Part, place: Place) -> float:
        shrunk = part.role in (Role.VALUE, Role.OUTPUT, Role.GATE, Role.UP, Role.DOWN)
        return (8 * place.n_layers) ** -0.25 if shrunk else 1.0
