from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from labkit.data import Bpe, Byte, Tokenizer
from labkit.data.encoding import Encoder
from labkit.spec import Mistake, Spec

HERE = Path()


class Holder(Spec):
    tokenizer: Tokenizer


@pytest.fixture
def bpe(poem: str) -> Encoder:
    return Bpe(vocab_size=400).encoder(HERE, [poem])


def test_sizes_are_known_before_there_is_data() -> None:
    assert Byte().size(HERE) == 257
    assert Bpe(vocab_size=8192).size(HERE) == 8192


def test_the_end_token_is_counted_in_the_vocabulary(bpe: Encoder) -> None:
    assert len(bpe.vocabulary) == 400
    assert bpe.end == 399
    assert bpe.vocabulary[399] == b""
    assert all(bpe.vocabulary[:399])


@pytest.mark.parametrize("text", ["the rope", "<|endoftext|>", "ünseen 🎉 \t\r\n  漢", "\x00\x01"])
def test_the_bytes_of_the_tokens_are_those_of_the_text(bpe: Encoder, text: str) -> None:
    ids, counts = bpe.encode([text.encode(), b"and another"])
    tokens = [bpe.vocabulary[index] for index in ids]
    assert b"".join(tokens[: counts[0]]).decode() == text
    assert b"".join(tokens[counts[0] :]) == b"and another"


def test_frequent_words_are_single_tokens(bpe: Encoder) -> None:
    ids, _ = bpe.encode([b" turned slowly"])
    assert len(ids) == 2


def test_training_again_gives_the_same_vocabulary(bpe: Encoder, poem: str) -> None:
    again = Bpe(vocab_size=400).encoder(HERE, [poem])
    assert again.description == bpe.description
    assert np.array_equal(again.encode([poem.encode()])[0], bpe.encode([poem.encode()])[0])


def test_too_little_text_is_refused_with_the_size_it_allows() -> None:
    with pytest.raises(Mistake, match=r"tokenizer\.vocab_size: 500 asked.* Write (\d+) or less") as refusal:
        Bpe(vocab_size=500).encoder(HERE, ["abcabcabd" * 9])
    reached = int(str(refusal.value).split("Write ")[1].split()[0])
    assert len(Bpe(vocab_size=reached).encoder(HERE, ["abcabcabd" * 9]).vocabulary) == reached


def test_a_vocabulary_without_room_for_the_bytes_is_refused() -> None:
    with pytest.raises(ValidationError, match="257"):
        Holder.from_json({"tokenizer": {"kind": "bpe", "vocab_size": 256}})
