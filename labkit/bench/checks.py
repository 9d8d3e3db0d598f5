"""What an operation is put through, one trap at a time. A check raises Fallen where the operation falls for it."""

import gc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labkit.bench.operations import Drawn, Function, Operation

TOLERANCES = {torch.float32: 4e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Of ‖found - exact‖ / ‖exact‖: a few roundings of a result."""


class Fallen(Exception):
    """What is wrong with a result."""


class Skipped(Exception):
    """Why a check could not be made here."""


class Tried(NamedTuple):
    """Somebody's version of an operation, and where it is tried."""

    name: str
    operation: Operation
    way: Function
    provider: str
    device: torch.device

    def draw(self, rows: int, width: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        return self.operation.inputs(Drawn(rows, width, dtype, self.device))

    @property
    def exact(self) -> Function:
        """The truth, of inputs in float64."""
        of_torch = self.operation.way("torch")
        assert of_torch is not None
        return of_torch

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"


Check = Callable[[Tried], None]


def outputs_of(way: Function, inputs: Sequence[Tensor], **options: Any) -> tuple[Tensor, ...]:
    outputs = way(*inputs, **options)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def near(what: str, found: Tensor, exact: Tensor, slack: float = 1.0, kind: torch.dtype | None = None) -> None:
    """Raise Fallen unless the found is finite, of the right shape, and near to what float64 gives, for its kind."""
    if found.shape != exact.shape:
        raise Fallen(f"{what} has the shape {tuple(found.shape)}, not {tuple(exact.shape)}")
    if not found.isfinite().all():
        raise Fallen(f"{what} is not finite")
    if found.numel() == 0:
        return
    found, exact = found.detach(), exact.detach().double()
    error = float((found.double() - exact).norm() / exact.norm().clamp(min=1e-30))
    if error > slack * TOLERANCES[kind or found.dtype]:
        raise Fallen(f"{what} is off by {error:.1e}")


def leaves_of(inputs: Sequence[Tensor], *, exact: bool = False) -> list[Tensor]:
    """The same values, and in float64, to ask for gradients."""
    return [(tensor.detach().double() if exact else tensor.detach()).requires_grad_() for tensor in inputs]


class Compared(NamedTuple):
    """Outputs and gradients, as found and in float64."""

    outputs: tuple[Tensor, ...]
    exact_outputs: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...]
    exact_gradients: tuple[Tensor, ...]


Upstream = Callable[[Tensor], Tensor]
"""The gradient that comes to an output."""


def compared(
    tried: Tried, leaves: list[Tensor], upstream: Upstream = torch.randn_like, only: int | None = None
) -> Compared:
    """Both passes, and the truth, which is computed before anything can be written to; `only` from one output."""
    exact_leaves = [leaf.detach().double().requires_grad_() for leaf in leaves]
    exact, outputs = outputs_of(tried.exact, exact_leaves), outputs_of(tried.way, leaves)
    if only is not None:
        exact, outputs = exact[only : only + 1], outputs[only : only + 1]
    given = [upstream(output.detach()) for output in outputs]
    exact_given = [gradient.double() for gradient in given]
    wanted = torch.autograd.grad(exact, exact_leaves, exact_given, materialize_grads=True)
    kept = tuple(output.detach().clone() for output in outputs)
    return Compared(kept, exact, torch.autograd.grad(outputs, leaves, given, materialize_grads=True), wanted)


def agree(
    tried: Tried, inputs: Sequence[Tensor], upstream: Upstream = torch.randn_like, only: int | None = None
) -> None:
    """Outputs and gradients are those of float64 on the same inputs."""
    found = compared(tried, leaves_of(inputs), upstream, only)
    kind = inputs[0].dtype
    slack = 4 if kind is torch.float32 else 1  # of 2e-7 a gradient sums up several; of 2e-3 the rounding of it is most
    for index, pair in enumerate(zip(found.outputs, found.exact_outputs, strict=True)):
        near(f"output {index}", *pair)
    for index, pair in enumerate(zip(found.gradients, found.exact_gradients, strict=True)):
        near(f"gradient {index}", *pair, slack=slack, kind=kind)


def sizes(*rows_and_widths: tuple[int, int]) -> Check:
    """Inputs of these numbers of rows and widths."""

    def check(tried: Tried) -> None:
        for rows, width in rows_and_widths:
            for dtype in (torch.float32, torch.bfloat16) if tried.on_gpu else (torch.float32,):
                agree(tried, tried.draw(rows, width, dtype))

    return check


def far_offsets(tried: Tried) -> None:
    """2³¹ elements and more: the last rows are right."""
    width, last, matrices = 8192, 64, tried.operation.rowwise
    rows = 2**31 // width + last
    if torch.cuda.mem_get_info()[0] < (needed := 2**32 * (6 + 4 * matrices)):
        raise Skipped(f"needs {needed / 2**30:.0f} GiB")
    inputs = tried.draw(rows, width, torch.bfloat16)
    large, vectors = [matrix.requires_grad_() for matrix in inputs[:matrices]], inputs[matrices:]
    tails = leaves_of([matrix[-last:] for matrix in large], exact=True)
    exact = outputs_of(tried.exact, [*tails, *(vector.double() for vector in vectors)])
    outputs = outputs_of(tried.way, [*large, *vectors])
    upstream = [torch.randn_like(output) for output in outputs]
    ends = [gradient[-last:].double() for gradient in upstream]
    kept = [output[-last:].detach().clone() for output in outputs]
    found = torch.autograd.grad(outputs, large, upstream)
    for index, pair in enumerate(zip(kept, exact, strict=True)):
        near(f"output {index}", *pair)
    for index, (gradient, wanted) in enumerate(zip(found, torch.autograd.grad(exact, tails, ends), strict=True)):
        near(f"gradient {index}", gradient[-last:], wanted, slack=4)


def strides(tried: Tried) -> None:
    """Matrices that are cut out of wider ones, turned, or one row again and again."""
    layouts: list[Callable[[Tensor], Tensor]] = [
        lambda x: torch.cat((x, x, x), -1)[..., 3 : 3 + x.shape[-1]],
        lambda x: x.mT.contiguous().mT,
        lambda x: torch.stack((x, x), -1)[..., 0],
        lambda x: x[:1].expand_as(x),
    ]
    matrices = tried.operation.rowwise
    for layout in layouts:
        inputs = tried.draw(3, 40)
        agree(tried, [*map(layout, inputs[:matrices]), *inputs[matrices:]])


def heads_first(tried: Tried) -> None:
    """Sequences whose heads stand before their tokens, and gradients likewise."""

    def turned(x: Tensor) -> Tensor:
        return torch.randn_like(x.transpose(1, 2).contiguous()).transpose(1, 2)

    agree(tried, [turned(x) for x in tried.draw(32, 16)], turned)


def sums(tried: Tried) -> None:
    """An upstream gradient of stride 0, as a sum gives it."""
    agree(tried, tried.draw(3, 40), lambda output: output.new_ones(()).expand_as(output))


def weight_sums(tried: Tried) -> None:
    """The gradient of a weight adds up as many terms of one sign as bf16 cannot count."""
    inputs = tried.draw(20_000 if tried.on_gpu else 300, 16, torch.bfloat16)
    found = compared(tried, leaves_of(inputs), torch.sign)
    for index, pair in enumerate(zip(found.gradients[1:], found.exact_gradients[1:], strict=True), start=1):
        near(f"gradient {index}", *pair, kind=torch.bfloat16)


def scales_of_rows(tried: Tried) -> None:
    """Rows whose sizes differ by powers of ten: each by itself is right."""
    powers = 10.0 ** torch.arange(-1, 5, device=tried.device)[:, None]
    matrices, inputs = tried.operation.rowwise, tried.draw(6, 40)
    scaled = [x * powers if index < matrices else x for index, x in enumerate(inputs)]
    found = compared(tried, leaves_of(scaled))
    ours = (*found.outputs, *found.gradients[:matrices])
    for one, other in zip(ours, (*found.exact_outputs, *found.exact_gradients[:matrices]), strict=True):
        for index, pair in enumerate(zip(one, other, strict=True)):
            near(f"row {index}", *pair, slack=4)


def both_gradients(tried: Tried) -> None:
    """What comes to the sum and what comes to its norm, together and each by itself."""
    inputs = tried.draw(6, 40)
    for only in (None, 0, 1):
        agree(tried, inputs, only=only)


def hidden_writes(tried: Tried) -> None:
    """Neither what comes in nor what comes back is written to; where autograd is told, it refuses what needs it."""
    inputs = tried.draw(3, 40)
    leaves = leaves_of(inputs)
    given = [leaf * 1 for leaf in leaves]
    squares = [x.square() for x in given]
    exact_leaves = leaves_of(inputs, exact=True)
    outputs = outputs_of(tried.way, given)
    upstream = [torch.randn_like(output) for output in outputs]
    before = [gradient.clone() for gradient in upstream]
    try:
        found = torch.autograd.grad([*outputs, *squares], leaves, [*upstream, *map(torch.ones_like, squares)])
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return
    if not all(map(torch.equal, upstream, before)):
        raise Fallen("the gradient that came in was written to")
    exact = [*outputs_of(tried.exact, exact_leaves), *(x.square() for x in exact_leaves)]
    ones = [torch.ones_like(x) for x in exact_leaves]
    wanted = torch.autograd.grad(exact, exact_leaves, [*(x.double() for x in before), *ones])
    for index, pair in enumerate(zip(found, wanted, strict=True)):
        near(f"the gradient of input {index}, which another operation reads too,", *pair, slack=4)


def same_tensor(tried: Tried) -> None:
    """One tensor in several places counts as often."""
    inputs = tried.draw(3, 40)
    alike = sum(x.shape == inputs[0].shape for x in inputs)

    def shared(way: Function) -> Function:
        return lambda x, *others: way(*(x,) * alike, *others)

    again = tried._replace(
        way=shared(tried.way), operation=tried.operation._replace(ways={"torch": shared(tried.exact)})
    )
    agree(again, [inputs[0], *inputs[alike:]])


def second_derivative(tried: Tried) -> None:
    """A derivative of the gradient is right, or refused; never silently without this operation's part."""

    def twice(way: Function, leaves: list[Tensor]) -> Tensor:
        loss = sum(output.square().sum() for output in outputs_of(way, leaves)) + leaves[0].pow(3).sum()
        (gradient,) = torch.autograd.grad(loss, leaves[0], create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), leaves[0])[0]

    inputs = tried.draw(3, 40)
    try:
        found = twice(tried.way, leaves_of(inputs))
    except (RuntimeError, NotImplementedError):
        return
    near("the second derivative", found, twice(tried.exact, leaves_of(inputs, exact=True)), 10)


def both_passes(tried: Tried, inputs: list[Tensor]) -> list[Tensor]:
    """Outputs and gradients."""
    leaves = leaves_of(inputs)
    outputs = outputs_of(tried.way, leaves)
    generator = torch.Generator(tried.device).manual_seed(1)
    upstream = [
        torch.randn(output.shape, dtype=output.dtype, device=tried.device, generator=generator) for output in outputs
    ]
    return [*(output.detach().clone() for output in outputs), *torch.autograd.grad(outputs, leaves, upstream)]


def same_bits(tried: Tried) -> None:
    """The same call again and again, at the sizes of training, gives the same bits."""
    size = (16_384, 768) if tried.operation.rowwise else (1024, 64)
    inputs = tried.draw(*size, torch.bfloat16) if tried.on_gpu else tried.draw(5, 24)
    if tried.on_gpu and tried.operation.inputs(Drawn(1, 16, torch.float32, tried.device))[0].ndim == 4:
        inputs = [torch.cat([x] * 96) for x in inputs]
    first = both_passes(tried, inputs)
    differing = sum(
        not all(map(torch.equal, first, both_passes(tried, inputs))) for _ in range(10 if tried.on_gpu else 2)
    )
    if differing:
        raise Fallen(f"{differing} of 10 calls differ from the first")


def large_grids(tried: Tried) -> None:
    """More programs than the second and third axis of a grid have."""
    if tried.operation.rowwise:
        agree(tried, tried.draw(70_000, 64))
        return
    inputs = [x.repeat(35_000, 1, 1, 1) for x in tried.draw(16, 16)]
    agree(tried, inputs)


def odd_lengths(tried: Tried) -> None:
    """Sequences that are no multiple of 128."""
    for length in (1000, 1153, 77):
        agree(tried, tried.draw(length, 64, torch.bfloat16))


def casting(rule: str) -> Check:
    """Llama rounds what it has normalised, and then multiplies; Gemma multiplies by 1 + w, and then rounds."""

    def check(tried: Tried) -> None:
        kind = torch.float16
        x, gain = tried.draw(8, 64, kind)
        normed = x.float() * torch.rsqrt(x.float().square().mean(1, keepdim=True) + 1e-6)
        gain = gain.abs() + 0.7
        wanted = normed.to(kind) * gain.to(kind) if rule == "llama" else (normed * (1.0 + gain)).to(kind)
        (found,) = outputs_of(tried.way, [x, gain])
        different = found.ne(wanted).float().mean().item()
        if different > 0.02:
            raise Fallen(f"{different:.0%} of the numbers are rounded otherwise")

    return check


def release() -> None:
    """Between large checks."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
