"""Embeddings with their factor, tied and untied heads with their cap."""

import pytest
import torch

from labkit.components.embedding import Embedding, Head, Tied, Untied
from labkit.components.parameters import draw


def test_a_tied_head_reads_the_embedding_and_has_no_parameters() -> None:
    embedding, head = Embedding().build(11, 4, base=4), Tied().build(11, 4)
    draw(embedding, 0, scale=lambda part: 1.0)
    hidden = torch.randn(2, 3, 4)
    torch.testing.assert_close(head(hidden, embedding.weight), hidden @ embedding.weight.T)
    assert not list(head.parameters())


def test_an_untied_head_has_a_matrix_of_its_own() -> None:
    embedding, head = Embedding().build(11, 4, base=4), Untied().build(11, 4)
    draw(head, 0, scale=lambda part: 1.0)
    hidden = torch.randn(2, 3, 4)
    torch.testing.assert_close(head(hidden, embedding.weight), hidden @ next(head.parameters()).T)
    assert next(head.parameters()).shape == (11, 4)


@pytest.mark.parametrize(("scaled", "factor"), [(False, 1.0), (True, 2.0)])
def test_a_scaled_embedding_is_multiplied_by_the_root_of_the_base_width(scaled: bool, factor: float) -> None:
    embedding = Embedding(scaled=scaled).build(11, 6, base=4)
    draw(embedding, 0, scale=lambda part: 1.0)
    tokens = torch.tensor([[3, 0, 10]])
    torch.testing.assert_close(embedding(tokens), factor * embedding.weight[tokens])


@pytest.mark.parametrize("kind", [Tied, Untied])
def test_a_cap_bends_the_logits_and_leaves_small_ones_alone(kind: type[Head]) -> None:
    free, capped = kind().build(11, 4).double(), kind(softcap=5.0).build(11, 4).double()
    for head in (free, capped):
        draw(head, 0, scale=lambda part: 1.0)
    hidden, weights = torch.randn(2, 3, 4).double() * 10, torch.randn(11, 4).double()
    x = free(hidden, weights)
    bent = capped(hidden, weights)
    torch.testing.assert_close(bent, 5.0 * (torch.exp(2 * x / 5) - 1) / (torch.exp(2 * x / 5) + 1))
    assert bent.abs().max() <= 5.0 < x.abs().max()
