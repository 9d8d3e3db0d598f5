"""Where the norms stand, against the formulas written out."""

import pytest
import torch
from torch import nn

from labkit.components.branches import Branches, Stream, scales
from labkit.components.norm import Rms
from labkit.components.parameters import Part, Role
from labkit.components.place import Place
from labkit.components.residual import Deepnorm, Parallel, Peri, Post, Pre, Reordered, Residual
from labkit.components.scale import BranchScale, Depth, Layerscale, Rezero, Unscaled

PLACE = Place(2, 8, 8)
X = torch.randn(2, 3, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def layer(residual: Residual) -> Branches:
    norms = {name: Rms().build(16, PLACE) for name in residual.norms}
    branches = Branches(
        PLACE, norms, nn.Linear(16, 16), nn.Linear(16, 16), scales(residual.scale, 16, PLACE), dropout=0.0
    ).double()
    for name, stored in branches.named_parameters():
        if "norm" in name:
            nn.init.uniform_(stored, 0.5, 2.0)
    return branches


def through(residual: Residual, branches: Branches) -> torch.Tensor:
    stream = Stream(X)
    residual.flow(branches, stream)
    return stream.read()


def test_pre_adds_the_branch_of_the_norm() -> None:
    b = layer(Pre())
    y = X + b.attention(b.attention_norm(X))
    torch.testing.assert_close(through(Pre(), b), y + b.feedforward(b.feedforward_norm(y)))


def test_post_norms_the_sum() -> None:
    b = layer(Post())
    y = b.attention_norm(X + b.attention(X))
    torch.testing.assert_close(through(Post(), b), b.feedforward_norm(y + b.feedforward(y)))


def test_peri_norms_both_sides_of_the_branch() -> None:
    b = layer(Peri())
    y = X + b.attention_out_norm(b.attention(b.attention_norm(X)))
    expected = y + b.feedforward_out_norm(b.feedforward(b.feedforward_norm(y)))
    torch.testing.assert_close(through(Peri(), b), expected)


def test_reordered_norms_what_is_added() -> None:
    b = layer(Reordered())
    y = X + b.attention_norm(b.attention(X))
    torch.testing.assert_close(through(Reordered(), b), y + b.feedforward_norm(b.feedforward(y)))


@pytest.mark.parametrize("shared", [True, False])
def test_parallel_branches_read_the_same_sum(shared: bool) -> None:
    residual = Parallel(shared_norm=shared)
    b = layer(residual)
    second = b.attention_norm if shared else b.feedforward_norm
    expected = X + b.attention(b.attention_norm(X)) + b.feedforward(second(X))
    torch.testing.assert_close(through(residual, b), expected)
    assert hasattr(b, "feedforward_norm") != shared


def test_deepnorm_weighs_the_stream_and_shrinks_what_the_paper_names() -> None:
    b, alpha = layer(Deepnorm()), 16**0.25
    y = b.attention_norm(alpha * X + b.attention(X))
    torch.testing.assert_close(through(Deepnorm(), b), b.feedforward_norm(alpha * y + b.feedforward(y)))
    shrunk = {role for role in Role if Deepnorm().shrink(Part(role, 4, 4), PLACE) == 64**-0.25}
    assert shrunk == {Role.VALUE, Role.OUTPUT, Role.GATE, Role.UP, Role.DOWN}
    assert {Deepnorm().shrink(Part(role, 4, 4), PLACE) for role in set(Role) - shrunk} == {1.0}


@pytest.mark.parametrize("first", [Pre(), Post(), Peri(), Reordered(), Parallel(), Deepnorm()])
@pytest.mark.parametrize("second", [Pre(), Post(), Peri(), Reordered(), Parallel(), Deepnorm()])
def test_any_placement_takes_over_from_any_other(first: Residual, second: Residual) -> None:
    a, b = layer(first), layer(second)
    waiting, settled = Stream(X), Stream(X)
    first.flow(a, waiting)
    first.flow(a, settled)
    settled.read()
    second.flow(b, waiting)
    second.flow(b, settled)
    torch.testing.assert_close(waiting.read(), settled.read())


@pytest.mark.parametrize(
    ("scale", "factor"), [(Unscaled(), 1.0), (Layerscale(start=0.3), 0.3), (Rezero(), 0.0), (Layerscale(), 0.1)]
)
@pytest.mark.parametrize("residual", [Pre, Peri, Reordered, Parallel, Post, Deepnorm])
def test_a_scale_multiplies_what_a_branch_adds(residual: type[Residual], scale: BranchScale, factor: float) -> None:
    spec = residual(scale=scale)
    b, written = layer(spec), []
    for branch in ("attention", "feedforward"):
        b.get_submodule(f"{branch}_scale").register_forward_hook(lambda _, given, out: written.append((given[0], out)))
    through(spec, b)
    assert len(written) == 2
    for given, out in written:
        torch.testing.assert_close(out, factor * given)


def test_a_layer_scale_has_a_gain_for_each_feature_and_rezero_one_for_the_branch() -> None:
    sizes = {s.kind: [p.numel() for p in s.build(16, PLACE).parameters()] for s in (Layerscale(), Rezero(), Depth())}
    assert sizes == {"layerscale": [16], "rezero": [1], "depth": []}


def test_depth_divides_what_the_norm_gives_by_the_root_of_the_layer() -> None:
    spec = Pre(scale=Depth())
    b = layer(spec)
    y = X + b.attention(b.attention_norm(X) / 3**0.5)
    torch.testing.assert_close(through(spec, b), y + b.feedforward(b.feedforward_norm(y) / 3**0.5))


def test_any_module_serves_as_a_norm() -> None:
    stream = Stream(torch.ones(4), torch.ones(4))
    (normed,) = stream.normed(nn.Identity())
    assert (stream.value.tolist(), normed.tolist(), stream.pending) == ([2.0] * 4, [2.0] * 4, ())
