"""The same text with and without a cache, alone and among others."""

from typing import Any

import pytest
import torch

from labkit.components import Attention, Position
from labkit.generate.decoding import Continuation, Row, batches, generate
from labkit.generate.sampling import Sampling
from labkit.spec import Choice

END, NEVER = 10, -1
GREEDY = Sampling(tokens=64, temperature=0)
PROMPTS = [(1, 2, 3, 4, 5, 6, 7), (3,), (), (2, 4), (9, 8, 7, 6), tuple(range(10)) * 2]
REQUIRED = {"n_heads": 4, "n_kv_heads": 2}


def kinds(family: type[Choice]) -> list[dict[str, Any]]:
    return [
        {"kind": kind, **{name: REQUIRED[name] for name, field in variant.model_fields.items() if field.is_required()}}
        for kind, variant in sorted(family.variants.items())
    ]


EVERY = [
    *({"attention": attention} for attention in kinds(Attention)),
    *({"position": position} for position in kinds(Position)),
    {"attention.window": 3},
    {"attention.window": 1},
    {"pattern": ({"attention.window": 4}, {"position": "none"})},
    {"feedforward": {"kind": "moe", "n_experts": 4, "top_k": 2}},
]


@pytest.mark.parametrize("changes", EVERY, ids=str)
def test_greedy_generation_gives_the_same_64_tokens_with_and_without_a_cache(make, changes) -> None:
    model = make(changes)
    with_cache, without = (generate(model, [(5, 3, 8)], GREEDY, end=NEVER, cached=cached) for cached in (True, False))
    assert with_cache == without
    assert len(with_cache[0].tokens) == 64


@pytest.mark.parametrize("changes", EVERY, ids=str)
def test_prompts_of_unequal_length_give_what_each_gives_alone(make, changes) -> None:
    model, sampling = make(changes), Sampling(tokens=20, temperature=2.0, top_k=9, top_p=0.97, seed=3)
    together = generate(model, PROMPTS, sampling, end=END)
    assert together == [generate(model, [prompt], sampling, end=END)[0] for prompt in PROMPTS]
    assert len({each.tokens for each in together}) > 3


def test_the_same_seed_gives_the_same_text_and_another_seed_another(make) -> None:
    model = make()
    texts = [generate(model, [(1, 2)], Sampling(tokens=20, seed=seed), end=END)[0].tokens for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_the_end_token_ends_a_row_and_not_the_others(make) -> None:
    model = make()
    rows = generate(model, [(first,) for first in range(10)], Sampling(tokens=12, temperature=1.5), end=END)
    assert {row.ended for row in rows} == {True, False}
    assert all(END not in row.tokens for row in rows)
    assert all(row.ended or len(row.tokens) == 12 for row in rows)


def test_an_empty_prompt_goes_on_from_the_end_token(make) -> None:
    model = make()
    assert generate(model, [()], GREEDY, end=END) == generate(model, [(END,)], GREEDY, end=END)


def test_no_prompts_give_nothing(make) -> None:
    assert generate(make(), [], GREEDY, end=END) == []


def test_batches_hold_prompts_whose_lengths_differ_by_less_than_is_written() -> None:
    rows = [Row((1,) * length, GREEDY, END) for length in (40, 3, 1, 12, 11, 30)]
    lengths = [[len(row.prompt) for row in batch] for batch in batches(rows, 10)]
    assert lengths == [[1, 3, 11], [12], [30, 40]]


def test_each_token_is_the_most_probable_one(make) -> None:
    model, text = make(), [4, 1]
    with torch.no_grad():
        for _ in range(15):
            text.append(int(model(torch.tensor([text]))[0, -1].argmax()))
    expected = text[2 : text.index(END)] if END in text else text[2:]
    [found] = generate(model, [(4, 1)], Sampling(tokens=15, temperature=0), end=END)
    assert found == Continuation(tuple(expected), END in text)
