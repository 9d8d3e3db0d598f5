from hypothesis import given
from hypothesis import strategies as st

from labkit.data.encoding import Encoder, byte_alphabet

texts = st.lists(st.text(min_size=1).filter(lambda text: text.isprintable()), min_size=1)


@given(texts=texts)
def test_bytes_come_back_as_they_were(texts: list[str]) -> None:
    encoder = Encoder()
    ids, counts = encoder.encode([text.encode() for text in texts])
    assert b"".join(encoder.vocabulary[index] for index in ids).decode() == "".join(texts)
    assert counts.tolist() == [len(text.encode()) for text in texts]


def test_the_end_of_a_document_is_no_byte() -> None:
    assert Encoder().end == 256
    assert Encoder().vocabulary[256] == b""


def test_the_alphabet_is_that_of_gpt2() -> None:
    from tokenizers import pre_tokenizers

    assert set(byte_alphabet()) == set(pre_tokenizers.ByteLevel.alphabet())
    spelled = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str("日 é\n")
    assert bytes(byte_alphabet()[c] for word, _ in spelled for c in word).decode() == "日 é\n"
