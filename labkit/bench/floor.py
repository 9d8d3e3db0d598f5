"""The least that a training step can take here: its bare products and its attention, replayed alone, and all other
passes at the rate of a copy.

Products: of every matrix y = x Wᵀ, dx = dy W and dW = dyᵀ x. Attention: forward and backward, by whoever is fastest.
Bytes of the other passes, per element in bf16: a norm 10, with the residual sum 16; rotation 8; a gated unit 16 (per
hidden feature); cross-entropy 4 (per logit); AdamW 30 (per parameter).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from labkit.bench.attention import PEER, Shape
from labkit.bench.measure import Work, captured, replayed, timed
from labkit.bench.setups import Setup
from labkit.kernels import Scores, attend_packed

SETS = 4
"""Activations to work on in turn, so that none is in the cache."""
COPIED = 1 << 30
"""Bytes that the copy reads and writes."""


def passes(setup: Setup) -> int:
    """Bytes that a step reads and writes beside its products and its attention."""
    sizes, tokens = setup.sizes, setup.tokens
    stream, turned = tokens * sizes.width, tokens * (sizes.heads + sizes.shared) * sizes.features
    layer = 2 * 16 * stream + 8 * turned + 16 * tokens * sizes.d_ff
    first_norm_has_no_sum = 10 - 16
    last_norm = 16
    ends = (last_norm + first_norm_has_no_sum) * stream + 4 * tokens * sizes.vocab_size
    return sizes.layers * layer + ends + 30 * setup.params


@dataclass(frozen=True)
class Measured:
    """Seconds of a step's parts at one time."""

    products: float
    attention: float
    copies: float
    """Of all bytes of the other passes."""

    @property
    def total(self) -> float:
        return self.products + self.attention + self.copies


class Floor:
    """Measures the floor of a setup again and again, so that it is taken beside each step."""

    def __init__(self, setup: Setup) -> None:
        self.bytes = passes(setup)
        self.works = products(setup), attention(setup), copy()  # whose tensors the graphs work on
        self.graphs = [captured(work) for work in self.works]

    def measured(self, times: int = 3) -> Measured:
        """Each replayed so many times, after one that is not counted."""
        found = [self._replayed(graph, times) for graph in self.graphs]
        return Measured(found[0], found[1], found[2] / COPIED * self.bytes)

    @staticmethod
    def _replayed(graph: torch.cuda.CUDAGraph, times: int) -> float:
        graph.replay()
        return timed(lambda: [graph.replay() for _ in range(times)]) / times


def copy() -> Work:
    """A copy that is long enough for its rate."""
    source = torch.randint(0, 255, (COPIED // 2,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def products(setup: Setup) -> Work:
    """Every product of a step in its order, on random numbers."""
    sizes = setup.sizes
    shapes = [
        (sizes.packed, sizes.width),
        (sizes.width, sizes.heads * sizes.features),
        (2 * sizes.d_ff, sizes.width),
        (sizes.width, sizes.d_ff),
    ]
    layers = [[Product(setup.tokens, *shape) for shape in shapes] for _ in range(min(SETS, sizes.layers))]
    head = Product(setup.tokens, sizes.vocab_size, sizes.width)
    weights = [[random(*shape, std=0.02) for shape in shapes] for _ in range(sizes.layers)]
    gradients = [[torch.empty_like(weight) for weight in layer] for layer in weights]
    of_head = random(sizes.vocab_size, sizes.width, std=0.02)
    of_head_gradient = torch.empty_like(of_head)

    def work() -> None:
        for index, layer in enumerate(weights):
            for product, weight in zip(layers[index % SETS], layer, strict=True):
                product.forward(weight)
        head.forward(of_head)
        head.backward(of_head, of_head_gradient)
        for index in reversed(range(sizes.layers)):
            of_layer = zip(layers[index % SETS], weights[index], gradients[index], strict=True)
            for product, weight, gradient in reversed(list(of_layer)):
                product.backward(weight, gradient)

    return work


class Product:
    """y = x Wᵀ and what goes back through it, the gradient in place of the y."""

    def __init__(self, tokens: int, rows: int, width: int) -> None:
        self.x, self.y = random(tokens, width), random(tokens, rows)
        self.dx = torch.empty_like(self.x)

    def forward(self, weight: Tensor) -> None:
        torch.mm(self.x, weight.T, out=self.y)

    def backward(self, weight: Tensor, gradient: Tensor) -> None:
        torch.mm(self.y, weight, out=self.dx)
        torch.mm(self.y.T, self.x, out=gradient)


def attention(setup: Setup) -> Work:
    """Of all layers, forward, then backward: cuDNN's or labkit's, whichever takes less here."""
    found: dict[float, Work] = {}
    for way in (cudnn, labkit):
        try:
            work = way(setup)
            found[replayed(work)] = work
        except RuntimeError:  # cuDNN is not there, or takes no such shape
            continue
    return found[min(found)]


def labkit(setup: Setup) -> Work:
    """labkit's, on packed heads."""
    sizes = setup.sizes
    attend = partial(attend_packed, heads=(sizes.heads, sizes.shared), scores=Scores(sizes.features**-0.5))
    inputs = [[random(setup.batch_size, setup.context, sizes.packed).requires_grad_()] for _ in range(SETS)]
    return _through(setup, attend, inputs, (setup.batch_size, setup.context, sizes.heads * sizes.features))


def cudnn(setup: Setup) -> Work:
    """cuDNN's, on heads that lie apart."""
    sizes = setup.sizes
    shape = Shape(setup.batch_size, setup.context, sizes.heads, sizes.shared, sizes.features)
    counts = (sizes.heads, sizes.shared, sizes.shared)
    inputs = [
        [random(shape.batch, count, shape.length, shape.features).requires_grad_() for count in counts]
        for _ in range(SETS)
    ]
    of_output = (shape.batch, shape.heads, shape.length, shape.features)
    return _through(setup, partial(PEER["cudnn"], shape), inputs, of_output)


def _through(
    setup: Setup, attend: Callable[..., Tensor], inputs: list[list[Tensor]], of_output: tuple[int, ...]
) -> Work:
    upstream = random(*of_output)

    def work() -> None:
        sets = [inputs[layer % SETS] for layer in range(setup.sizes.layers)]
        outputs = [attend(*some) for some in sets]
        for output, some in zip(reversed(outputs), reversed(sets), strict=True):
            torch.autograd.grad(output, some, upstream)

    return work


def random(*shape: int, std: float = 1.0) -> Tensor:
    """In bf16, never zeros: a product of those is faster."""
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * std
