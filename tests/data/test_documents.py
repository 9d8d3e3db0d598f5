from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.data.documents import Documents
from labkit.data.gather import gather
from labkit.spec import Mistake
from labkit.tracking.progress import Progress


def gathered(folder: Path, texts: list[str]) -> Documents:
    return gather(((text,) for text in texts), folder / "text", Progress())


def texts_of(documents: Documents, limit: int = 1 << 20) -> list[str]:
    whole, parts = [], b""
    for piece, ends in documents.pieces(limit):
        piece.decode()  # no piece ends inside a character
        parts += piece
        if ends:
            whole.append(parts.decode())
            parts = b""
    return whole


@settings(deadline=None, max_examples=40)
@given(texts=st.lists(st.text(st.sampled_from("ab\nä🎈"), min_size=1), min_size=1), limit=st.integers(4, 9))
def test_pieces_make_up_the_documents(tmp_path_factory: pytest.TempPathFactory, texts: list[str], limit: int) -> None:
    documents = gathered(tmp_path_factory.mktemp("d"), texts)
    assert texts_of(documents, limit) == texts
    assert max(len(piece) for piece, _ in documents.pieces(limit)) <= limit


def test_a_document_may_come_in_parts(tmp_path: Path) -> None:
    assert texts_of(gather(iter([("a", "b", ""), ("c",)]), tmp_path / "text", Progress())) == ["ab", "c"]


def test_only_the_first_of_equal_documents_stays(tmp_path: Path) -> None:
    assert texts_of(gathered(tmp_path, ["b", "a", "b", "c", "a", "b"]).unique()) == ["b", "a", "c"]


def test_few_documents_are_cut_at_line_ends(tmp_path: Path, poem: str) -> None:
    pieces = texts_of(gathered(tmp_path, [poem, "short\n"]).cut())
    assert len(pieces) >= 20
    assert "".join(pieces) == poem + "short\n"
    assert all(piece.endswith("\n") for piece in pieces)


def test_cut_documents_are_of_64_kib_where_there_is_enough(tmp_path: Path, poem: str) -> None:
    lengths = gathered(tmp_path, [poem * 150]).cut().lengths
    assert lengths.max() <= 65536
    assert np.median(lengths) > 65000


def test_many_documents_stay_whole(tmp_path: Path) -> None:
    texts = [f"{n}\n{n}\n" for n in range(20)]
    assert texts_of(gathered(tmp_path, texts).cut()) == texts


def test_equal_texts_are_cut_from_where_they_stand(tmp_path: Path, poem: str) -> None:
    documents = gathered(tmp_path, ["x" * 99, poem, "x" * 99, "tail\n"]).unique().cut()
    assert "".join(texts_of(documents)) == "x" * 99 + poem + "tail\n"


@settings(deadline=None, max_examples=60)
@given(lengths=st.lists(st.integers(1, 50), min_size=2, max_size=60), fraction=st.floats(0.01, 0.9))
def test_both_sides_of_the_split_have_documents(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], fraction: float
) -> None:
    texts = [f"{n:03}" + "x" * length for n, length in enumerate(lengths)]
    documents = gathered(tmp_path_factory.mktemp("d"), texts)
    chosen = documents.validation(fraction)
    assert 0 < chosen.sum() < len(texts)
    share = fraction * documents.n_bytes
    assert documents.lengths[chosen].sum() <= max(2 * share, documents.lengths.min())


def test_the_fraction_of_the_bytes_is_reached(tmp_path: Path) -> None:
    documents = gathered(tmp_path, [f"{n}" * (1 + n % 7) for n in range(1000)])
    chosen = documents.validation(0.1)
    assert 0.1 <= documents.lengths[chosen].sum() / documents.n_bytes < 0.102


def test_a_giant_is_never_most_of_the_validation_split(tmp_path: Path) -> None:
    documents = gathered(tmp_path, ["giant" * 1000, *(f"{n} is small" for n in range(30))])
    assert not documents.validation(0.05)[0]


def test_the_split_does_not_depend_on_the_order(tmp_path: Path) -> None:
    def chosen(texts: list[str]) -> set[str]:
        documents = gathered(tmp_path, texts)
        return set(texts_of(documents.where(documents.validation(0.2))))

    texts = [f"document {n}" for n in range(100)]
    assert chosen(texts) == chosen(texts[::-1])


def test_a_sample_is_about_as_large_as_asked(tmp_path: Path) -> None:
    documents = gathered(tmp_path, [f"document {n:04}" for n in range(1000)])
    assert 3000 < documents.sample(3900).n_bytes < 5000
    assert len(documents.sample(10**6)) == 1000


def test_no_text_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=r"data\.corpus: the corpus holds no text"):
        gathered(tmp_path, ["", ""])


def test_half_a_character_is_refused_with_its_document(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=r"document 1 holds '\\ud83d'"):
        gathered(tmp_path, ["fine", "\ud83d"])
