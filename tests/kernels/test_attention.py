"""The attention kernels against float64: in Triton's interpreter with small tiles, on a GPU with the real ones."""

import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from labkit.kernels import Rotation, Scores, attend, attend_packed, attention_kernels, using
from labkit.kernels import attention_launch as launch
from labkit.kernels.attention import attention_reference

# NumPy, which the interpreter computes with, warns where a hidden logit overflows before it is masked.
pytestmark = [pytest.mark.filterwarnings("ignore::RuntimeWarning"), pytest.mark.usefixtures("device", "small_tiles")]

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
TOLERANCES = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}
"""Of ‖x − reference‖ / ‖reference‖, output and gradients alike."""
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not HAS_GPU, reason="there is no CUDA device")]
dtypes = pytest.mark.parametrize(
    "dtype",
    [torch.float32, *(pytest.param(dtype, marks=needs_gpu) for dtype in (torch.float16, torch.bfloat16))],
    ids=str,
)

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "window": {"window": 14},
    "window of itself": {"window": 1},
    "softcap": {"softcap": 2.0},
    "sinks": {"sinks": True},
    "slopes": {"slopes": True},
    "half": {"rotated": 16},
    "half of a part": {"rotated": 8},
    "half of an odd part": {"rotated": 12},
    "interleaved": {"rotated": 16, "interleaved": True},
    "interleaved part": {"rotated": 6, "interleaved": True},
    "all": {"window": 11, "softcap": 2.0, "sinks": True, "slopes": True, "rotated": 16, "interleaved": True},
}
options = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


class Sizes(NamedTuple):
    """Of a small case: two tiles of keys, the last of them cut."""

    batch: int = 2
    length: int = 29
    heads: int = 4
    shared: int = 2
    features: int = 16
    values: int = 16


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles even of short sequences, of different sizes in each kernel."""
    if not HAS_GPU:
        small = launch.Tiles(*(launch.Tile(*rows, 4, 2, span=3) for rows in ((16, 16), (32, 16), (16, 32))))
        monkeypatch.setattr(launch, "tiles", lambda features, x: small if features <= 256 else None)
        monkeypatch.setattr(attention_kernels, "ROOM", type(attention_kernels.ROOM)(32))


def draw(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + math.prod(shape))
    return torch.randn(shape, generator=generator).to(DEVICE, dtype)


def rotation(length: int, rotated: int, interleaved: bool = False) -> Rotation:
    angles = torch.outer(torch.arange(length), 100.0 ** (-torch.arange(0, rotated, 2) / rotated))
    return Rotation(angles.cos().to(DEVICE), angles.sin().to(DEVICE), interleaved)


def described(sizes: Sizes, options: dict[str, Any]) -> tuple[Scores, Rotation | None]:
    """The scores and the rotation that a case asks for."""
    given = dict(options)
    turned = (
        rotation(sizes.length, given.pop("rotated"), given.pop("interleaved", False)) if "rotated" in given else None
    )
    if given.get("sinks"):
        given["sinks"] = draw(sizes.heads).requires_grad_()
    if given.get("slopes"):
        given["slopes"] = draw(sizes.heads).abs().double()
    return Scores(sizes.features**-0.5, **given), turned


def error(found: Tensor, true: Tensor) -> float:
    """‖found − true‖ / ‖true‖; of an element of size 1 where the truth is zero."""
    found, true = found.detach().double(), true.detach().double()
    norm = float(true.norm())
    return float((found - true).norm()) / (norm if norm > 1e-9 else math.sqrt(true.numel()))


def oracle(inputs: list[Tensor], dout: Tensor, scores: Scores, turned: Rotation | None) -> list[Tensor]:
    """Output and gradients of q, k, v (and sinks) in float64."""
    upcast = [x.detach().double().requires_grad_() for x in inputs]
    leaves = list(upcast)
    if scores.sinks is not None:
        leaves.append(scores.sinks.detach().double().requires_grad_())
        scores = scores._replace(sinks=leaves[-1])
    exact = None if turned is None else Rotation(turned.cos.double(), turned.sin.double(), turned.interleaved)
    out = attention_reference(*upcast, scores, exact)
    return [out.detach(), *torch.autograd.grad(out, leaves, dout.double())]


def separate(sizes: Sizes, dtype: torch.dtype) -> list[Tensor]:
    shapes = ((sizes.heads, sizes.features), (sizes.shared, sizes.features), (sizes.shared, sizes.values))
    return [
        draw(sizes.batch, sizes.length, *shape, dtype=dtype, seed=i).requires_grad_() for i, shape in enumerate(shapes)
    ]


def check(inputs: list[Tensor], sizes: Sizes, options: dict[str, Any], dout: Tensor | None = None) -> None:
    """Output and every gradient of separate inputs (B, T, heads, features) are those of float64."""
    scores, turned = described(sizes, options)
    dtype = inputs[0].dtype
    dout = draw(sizes.batch, sizes.length, sizes.heads, sizes.values, dtype=dtype, seed=9) if dout is None else dout
    leaves = [*inputs, *([] if scores.sinks is None else [scores.sinks])]
    out = attend(*inputs, scores, turned)
    found = [out, *torch.autograd.grad(out, leaves, dout)]
    errors = [error(*pair) for pair in zip(found, oracle(inputs, dout, scores, turned), strict=True)]
    assert max(errors) < TOLERANCES[dtype], errors


def packed(sizes: Sizes, dtype: torch.dtype) -> Tensor:
    return draw(
        sizes.batch, sizes.length, (sizes.heads + 2 * sizes.shared) * sizes.features, dtype=dtype
    ).requires_grad_()


def test_the_output_is_contiguous_and_of_the_inputs_precision() -> None:
    sizes = Sizes(values=32)
    out = attend(*separate(sizes, torch.float16), Scores(0.25))
    assert (out.shape, out.dtype, out.is_contiguous()) == ((2, 29, 4, 32), torch.float16, True)
    out = attend_packed(packed(sizes, torch.float16), (4, 2), Scores(0.25))
    assert (out.shape, out.dtype, out.is_contiguous()) == ((2, 29, 64), torch.float16, True)


@options
@dtypes
def test_packed_attention_and_its_one_gradient_are_those_of_float64(
    dtype: torch.dtype, options: dict[str, Any]
) -> None:
    sizes = Sizes()
    scores, turned = described(sizes, options)
    qkv, dout = packed(sizes, dtype), draw(sizes.batch, sizes.length, sizes.heads * sizes.features, dtype=dtype, seed=9)
    out = attend_packed(qkv, (sizes.heads, sizes.shared), scores, turned)
    (gradient,) = torch.autograd.grad(out, [qkv], dout)
    parts = qkv.unflatten(-1, (-1, sizes.features)).split((sizes.heads, sizes.shared, sizes.shared), 2)
    true_out, dq, dk, dv, *_ = oracle(list(parts), dout.unflatten(-1, (sizes.heads, -1)), scores, turned)
    true_gradient = torch.cat((dq, dk, dv), dim=2).flatten(2)
    assert gradient.is_contiguous()
    assert error(out, true_out.flatten(2)) < TOLERANCES[dtype]
    for found, true in zip(gradient.split(16, -1), true_gradient.split(16, -1), strict=True):
        assert error(found, true) < TOLERANCES[dtype]


@pytest.mark.parametrize("name", ["plain", "half of an odd part", "all"])
@pytest.mark.parametrize("dtype", [torch.float16, pytest.param(torch.bfloat16, marks=needs_gpu)], ids=str)
def test_separate_inputs_and_their_gradients_are_those_of_float64(dtype: torch.dtype, name: str) -> None:
    check(separate(Sizes(), dtype), Sizes(), OPTIONS[name])


@pytest.mark.parametrize(
    "sizes",
    [
        Sizes(length=1),
        Sizes(length=32),
        Sizes(batch=1, heads=1, shared=1),
        Sizes(heads=3, shared=1),
        Sizes(features=24, values=40),
        pytest.param(Sizes(4, 1000, 12, 12, 64, 64), marks=needs_gpu),
        pytest.param(Sizes(2, 1153, 8, 2, 32, 32), marks=needs_gpu),
        pytest.param(Sizes(2, 700, 6, 2, 96, 96), marks=needs_gpu),
        pytest.param(Sizes(2, 513, 4, 4, 96, 64), marks=needs_gpu),
        pytest.param(Sizes(2, 900, 8, 2, 128, 128), marks=needs_gpu),
        pytest.param(Sizes(1, 600, 4, 1, 256, 256), marks=needs_gpu),
        pytest.param(Sizes(1, 17, 4, 1, 8, 200), marks=needs_gpu),
    ],
    ids=str,
)
@dtypes
def test_any_length_ratio_of_heads_and_width(dtype: torch.dtype, sizes: Sizes) -> None:
    check(separate(sizes, dtype), sizes, {})


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_GPU, reason="there is no CUDA device")
@options
@dtypes
def test_every_option_at_the_sizes_of_training(dtype: torch.dtype, options: dict[str, Any]) -> None:
    sizes = Sizes(2, 777, 4, 2, 64, 64)
    many = options | ({"window": 300} if options.get("window", 0) > 1 else {})
    many |= {"rotated": 4 * options["rotated"]} if "rotated" in options else {}
    check(separate(sizes, dtype), sizes, many)


def of_heads_first(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def of_a_wider_row(x: Tensor) -> Tensor:
    return torch.cat((x, x), dim=-1)[..., : x.shape[-1]]


def off_by_one_element(x: Tensor) -> Tensor:
    return torch.cat((x.new_zeros(1), x.flatten()))[1:].view_as(x)


def of_features_first(x: Tensor) -> Tensor:
    return x.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0)


@pytest.mark.parametrize("layout", [of_heads_first, of_a_wider_row, off_by_one_element, of_features_first])
def test_any_strides_do(layout: Any) -> None:
    inputs = [layout(x.detach()).requires_grad_() for x in separate(Sizes(), torch.float16)]
    check(inputs, Sizes(), {"rotated": 8})


def test_a_packed_product_may_be_part_of_a_wider_one() -> None:
    sizes = Sizes()
    qkv = packed(sizes, torch.float16)
    for extra in (3, 16):
        wide = torch.cat((qkv, qkv[..., :extra]), dim=-1)[..., : qkv.shape[-1]]
        turned = rotation(sizes.length, 16)
        found = attend_packed(wide, (4, 2), Scores(0.25), turned, overwrite=True)
        assert torch.equal(found, attend_packed(qkv, (4, 2), Scores(0.25), turned))


@pytest.mark.parametrize("expand", [(1, 29, 4, 16), (1, 1, 1, 1)])
def test_an_upstream_gradient_without_strides(expand: tuple[int, ...]) -> None:
    sizes = Sizes()
    check(separate(sizes, torch.float32), sizes, {}, draw(*expand, seed=9).expand(2, 29, 4, 16))


def test_the_future_does_not_change_the_past() -> None:
    inputs = [x.detach() for x in separate(Sizes(), torch.float16)]
    changed = [torch.cat((x[:, :20], -x[:, 20:]), dim=1) for x in inputs]
    before, after = (attend(*some, Scores(0.25)) for some in (inputs, changed))
    assert torch.equal(before[:, :20], after[:, :20])
    assert not torch.equal(before[:, 20:], after[:, 20:])


def test_large_logits_stay_finite() -> None:
    inputs = [x.detach().mul(300).requires_grad_() for x in separate(Sizes(), torch.float32)]
    out = attend(*inputs, Scores(1.0, window=14))
    for x in (out, *torch.autograd.grad(out.sum(), inputs)):
        assert x.isfinite().all()


@pytest.mark.parametrize("name", ["plain", "sinks"])
def test_every_element_is_written(name: str) -> None:
    """Deterministic algorithms fill new memory with NaN."""
    torch.use_deterministic_algorithms(True)
    try:
        check(separate(Sizes(), torch.float16), Sizes(), OPTIONS[name])
    finally:
        torch.use_deterministic_algorithms(False)


def test_inputs_stay_as_they_were() -> None:
    qkv = packed(Sizes(), torch.float16)
    before, turned = qkv.detach().clone(), rotation(29, 16)
    attend_packed(qkv, (4, 2), Scores(0.25), turned).sum().backward()
    attend_packed(qkv, (4, 2), Scores(0.25), turned, overwrite=True).sum().backward()
    assert torch.equal(qkv, before)


def test_overwriting_gives_the_same_bits_and_turns_in_place() -> None:
    leaf, turned = packed(Sizes(), torch.float16), rotation(29, 16)
    dout = draw(2, 29, 64, dtype=torch.float16, seed=9)
    product = leaf * 1
    address = product.data_ptr()
    out = attend_packed(product, (4, 2), Scores(0.25), turned, overwrite=True)
    kept = attend_packed(leaf, (4, 2), Scores(0.25), turned)
    assert product.data_ptr() == address
    assert not torch.equal(product, leaf)
    assert torch.equal(out, kept)
    assert torch.equal(torch.autograd.grad(out, leaf, dout)[0], torch.autograd.grad(kept, leaf, dout)[0])


def test_what_was_overwritten_has_no_gradient_for_later_readers() -> None:
    product = packed(Sizes(), torch.float16) * 1
    out = attend_packed(product, (4, 2), Scores(0.25), rotation(29, 16), overwrite=True)
    with pytest.raises(RuntimeError, match="overwritten"):
        (out.sum() + product.sum()).backward()


def test_what_needs_the_overwritten_values_says_so() -> None:
    product = packed(Sizes(), torch.float16) * 1
    square = product * product
    attend_packed(product, (4, 2), Scores(0.25), rotation(29, 16), overwrite=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()


def test_a_second_derivative_fails_loudly() -> None:
    qkv = packed(Sizes(), torch.float16)
    squares = attend_packed(qkv, (4, 2), Scores(0.25)).square()
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad(squares.sum(), qkv, create_graph=True)


@pytest.mark.parametrize("features", [10, 512])
def test_what_no_kernel_computes_goes_to_the_reference(features: int) -> None:
    inputs, scores = separate(Sizes(features=features), torch.float16), Scores(0.25)
    assert str(features) in (launch.unsupported(*inputs, scores) or "")
    assert torch.equal(attend(*inputs, scores), attention_reference(*inputs, scores))


def test_what_has_no_kernel_goes_to_the_reference() -> None:
    inputs = separate(Sizes(), torch.float32)
    for some in ([x.double() for x in inputs], [x[:, :0] for x in inputs]):
        assert torch.equal(attend(*some, Scores(0.25)), attention_reference(*some, Scores(0.25)))
    with using("torch"):
        assert torch.equal(attend(*inputs, Scores(0.25)), attention_reference(*inputs, Scores(0.25)))
    assert not torch.equal(attend(*inputs, Scores(0.25)), attention_reference(*inputs, Scores(0.25)))


class TestOnAGpu:
    pytestmark = needs_gpu

    @pytest.mark.parametrize("shape", [(32, 1024, 12, 12, 64), (8, 2048, 32, 8, 64), (4, 4096, 32, 8, 128)], ids=str)
    def test_the_same_call_gives_the_same_bits_at_the_sizes_of_training(self, shape: tuple[int, ...]) -> None:
        batch, length, heads, shared, features = shape
        qkv = torch.randn(batch, length, (heads + 2 * shared) * features, device="cuda", dtype=torch.bfloat16)
        qkv.requires_grad_()
        dout, sinks = (
            torch.randn_like(qkv[..., : heads * features]),
            torch.randn(heads, device="cuda", requires_grad=True),
        )

        def once() -> list[Tensor]:
            out = attend_packed(qkv, (heads, shared), Scores(features**-0.5, sinks=sinks), rotation(length, features))
            return [out, *torch.autograd.grad(out, [qkv, sinks], dout)]

        first = once()
        for _ in range(20):
            assert all(torch.equal(a, b) for a, b in zip(first, once(), strict=True))

    @pytest.mark.parametrize("turns", [False, True])
    def test_a_run_that_may_be_fast_attends_by_cudnn_where_that_is_faster(self, turns: bool) -> None:
        qkv = torch.randn(2, 2048, 8 * 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        dout, scores = torch.randn_like(qkv[..., : 4 * 128]), Scores(128**-0.5)
        found: list[list[Tensor]] = []
        for fast in (False, True):
            with using("auto", fast=fast):
                out = attend_packed(qkv * 1, (4, 2), scores, rotation(2048, 128) if turns else None, overwrite=True)
                found.append([out.detach(), *torch.autograd.grad(out, qkv, dout)])
        for own, by_cudnn in zip(*found, strict=True):
            assert 0 < (own - by_cudnn).float().norm() < TOLERANCES[torch.bfloat16] * own.float().norm()

    def test_offsets_past_two_to_the_31(self) -> None:
        sizes, far = Sizes(2, 200, 4, 2, 64, 64), 2**31 + 4096
        width = (sizes.heads + 2 * sizes.shared) * sizes.features
        room = torch.empty(far + sizes.length * width, device="cuda", dtype=torch.bfloat16)
        qkv = room.as_strided((2, sizes.length, width), (far, width, 1))
        qkv.copy_(packed(sizes, torch.bfloat16).detach())
        near = qkv.contiguous()
        turned = rotation(sizes.length, 64)
        with torch.no_grad():
            expected = attend_packed(near, (4, 2), Scores(0.125), turned)
            found = attend_packed(qkv, (4, 2), Scores(0.125), turned, overwrite=True)
        assert torch.equal(found, expected)
        parts = [x.detach().requires_grad_() for x in qkv.unflatten(-1, (-1, 64)).split((4, 2, 2), 2)]
        close = [x.detach().contiguous().requires_grad_() for x in parts]
        dout = draw(2, 200, 4, 64, dtype=torch.bfloat16)
        for a, b in zip(
            *(torch.autograd.grad(attend(*x, Scores(0.125)), x, dout) for x in (parts, close)), strict=True
        ):
            assert torch.equal(a, b)

    def test_more_programs_than_a_second_axis_of_the_grid_has(self) -> None:
        sizes = Sizes(17000, 16, 4, 4, 32, 32)
        inputs = separate(sizes, torch.bfloat16)
        check(inputs, sizes, {"rotated": 32})

    def test_a_new_model_compiles_nothing_new(self) -> None:
        def compiled() -> int:
            return sum(
                len(cache[0])
                for kernel in (
                    attention_kernels.forward_kernel,
                    attention_kernels.query_kernel,
                    attention_kernels.key_kernel,
                )
                for cache in kernel.device_caches.values()
            )

        def run(sizes: Sizes) -> None:
            attend(*separate(sizes, torch.bfloat16), Scores(sizes.features**-0.5)).sum().backward()

        run(Sizes(2, 128, 4, 2, 64, 64))
        before = compiled()
        run(Sizes(3, 77, 5, 5, 64, 64))
        run(Sizes(1, 1, 16, 16, 64, 64))
        run(Sizes(16, 256, 32, 1, 64, 64))
        assert compiled() == before
