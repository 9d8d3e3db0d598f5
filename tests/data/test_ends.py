"""Where documents begin and end."""

import numpy as np
import pytest

from labkit.data import Split, bounds, spans

END = 9


def split(*shards: list[int]) -> Split:
    arrays = [np.array(shard, dtype=np.uint16) for shard in shards]
    return Split("validation", arrays, sum(map(len, arrays)), 0, 0)


def test_every_document_runs_up_to_its_end_token_also_across_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.data.ends.CHUNK", 2)
    found = bounds(split([1, 2, END, 3, 4], [5, END, END, 6, END]), END)
    assert found.tolist() == [[0, 3], [3, 7], [7, 8], [8, 10]]


def test_a_split_of_nothing_but_text_has_no_whole_document() -> None:
    assert bounds(split([1, 2, 3]), END).shape == (0, 2)
    assert spans(split([1, 2, 3]), END, 2, 4).tolist() == []


def test_spans_lie_within_documents_and_do_not_overlap() -> None:
    tokens = split([*[1] * 4, END, *[2] * 3, END, *[3] * 12, END, 4, END])
    assert spans(tokens, END, 4, 100).tolist() == [0, 9, 13, 17]
    for start in spans(tokens, END, 3, 100):
        assert END not in tokens.read(start, start + 3)


def test_a_limit_spreads_the_spans_evenly() -> None:
    tokens = split([*[1] * 40, END])
    assert spans(tokens, END, 4, 5).tolist() == [0, 8, 16, 24, 32]
