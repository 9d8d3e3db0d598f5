"""Tied and untied heads."""

import torch

from labkit.components.embedding import Tied, TokenEmbedding, Untied
from labkit.components.parameters import draw


def test_a_tied_head_reads_the_embedding_and_has_no_parameters() -> None:
    embedding, head = TokenEmbedding(11, 4), Tied().build(11, 4)
    draw(embedding, 0, scale=lambda part: 1.0)
    hidden = torch.randn(2, 3, 4)
    torch.testing.assert_close(head(hidden, embedding.weight), hidden @ embedding.weight.T)
    assert not list(head.parameters())


def test_an_untied_head_has_a_matrix_of_its_own() -> None:
    embedding, head = TokenEmbedding(11, 4), Untied().build(11, 4)
    draw(head, 0, scale=lambda part: 1.0)
    hidden = torch.randn(2, 3, 4)
    torch.testing.assert_close(head(hidden, embedding.weight), hidden @ next(head.parameters()).T)
    assert next(head.parameters()).shape == (11, 4)
