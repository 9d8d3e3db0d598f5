from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.data import Stdlib
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
    pieces = texts_of(gathered(tmp_path, [poem, "short\n"]).cut(1e9))
    assert len(pieces) >= 20
    assert "".join(pieces) == poem + "short\n"
    assert all(piece.endswith("\n") for piece in pieces)


def test_cut_documents_are_of_64_kib_where_there_is_enough(tmp_path: Path, poem: str) -> None:
    lengths = gathered(tmp_path, [poem * 150]).cut(1e9).lengths
    assert lengths.max() <= 65536
    assert np.median(lengths) > 65000


def test_many_documents_stay_whole(tmp_path: Path) -> None:
    texts = [f"{n}\n{n}\n" for n in range(20)]
    sides = gathered(tmp_path, texts).split(0.1)
    assert sorted(text for side in sides for text in texts_of(side)) == sorted(texts)


def test_equal_texts_are_cut_from_where_they_stand(tmp_path: Path, poem: str) -> None:
    documents = gathered(tmp_path, ["x" * 99, poem, "x" * 99, "tail\n"]).unique().cut(1e9)
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


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 3000), min_size=1, max_size=40), fraction=st.floats(0.01, 0.5), line=st.booleans()
)
def test_the_fraction_is_met_within_half_a_piece_of_few_documents(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], fraction: float, line: bool
) -> None:
    texts = [f"{n:03}" + "x" * length + "\n" * line for n, length in enumerate(lengths)]
    documents = gathered(tmp_path_factory.mktemp("d"), [*texts, "y" * 800])
    share = fraction * documents.n_bytes
    train, validation = documents.split(fraction)
    assert train.n_bytes + validation.n_bytes == documents.n_bytes
    if len(documents) < 20:
        assert max(validation.lengths.max(), train.lengths.max()) <= max(4, share)
        assert abs(validation.n_bytes - share) <= max(4, train.lengths.max(), validation.lengths.max()) / 2
    else:
        assert share / 2 <= validation.n_bytes <= 2 * share


@pytest.mark.parametrize("text", ["a" * 30_000, "a line of text\n" * 2_000])
@pytest.mark.parametrize("fraction", [0.0005, 0.02, 0.05, 0.3, 0.5])
def test_a_single_document_gives_the_share_that_is_asked(tmp_path: Path, text: str, fraction: float) -> None:
    train, validation = gathered(tmp_path, [text]).split(fraction)
    assert validation.n_bytes / 30_000 == pytest.approx(fraction, abs=0.5 * train.lengths.max() / 30_000)
    assert train.n_bytes + validation.n_bytes == 30_000


def test_many_documents_that_are_longer_than_the_share_are_cut(tmp_path: Path) -> None:
    giants = [f"{n}" + "x" * 2000 for n in range(25)]
    train, validation = gathered(tmp_path, [*giants, "tiny"]).split(0.02)
    assert validation.n_bytes / (train.n_bytes + validation.n_bytes) == pytest.approx(0.02, rel=0.5)


def by_the_old_rule(lengths: list[int], keys: list[int], fraction: float) -> set[int]:
    """Whole documents in the order of their keys, giants passed over, until the fraction is reached."""
    share, reached, chosen = fraction * sum(lengths), 0, set()
    for index in sorted(range(len(keys)), key=lambda n: keys[n]):
        if reached < share and lengths[index] <= share:
            chosen.add(index)
            reached += lengths[index]
    return chosen


def test_the_split_of_the_standard_library_stays_what_it_was(tmp_path: Path) -> None:
    documents = gather(Stdlib().resolve(tmp_path, Progress()).documents(), tmp_path / "text", Progress()).unique()
    keys = documents.keys[:, 0].tolist()
    train, validation = documents.split(0.05)
    assert {keys[n] for n in by_the_old_rule(documents.lengths.tolist(), keys, 0.05)} == set(
        validation.keys[:, 0].tolist()
    )
    assert len(train) + len(validation) == len(documents)


def test_the_split_of_many_documents_never_changes_since_old_runs_were_judged_on_it(tmp_path: Path) -> None:
    texts = [f"document {n} " * (1 + n % 7) for n in range(60)]
    _, validation = gathered(tmp_path, texts).split(0.05)
    assert texts_of(validation) == [texts[n] for n in (21, 39, 47, 56)]


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
