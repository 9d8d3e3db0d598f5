"""Scores of documents on record."""

from pathlib import Path

import numpy as np
import pytest

from labkit.tracking.documents import DocumentScores, keep, kept
from labkit.tracking.record import Run


def scores(*nats: float) -> DocumentScores:
    return DocumentScores(np.array(nats), np.arange(len(nats)) + 5, np.arange(len(nats)) + 20)


def test_scores_come_back_as_they_were(tmp_path: Path) -> None:
    run = Run(tmp_path)
    keep(run, {"val": scores(0.1, 1 / 3), "books": scores(7.0)})
    found = kept(run)
    assert list(found) == ["val", "books"]
    assert found["val"].nats.tolist() == [0.1, 1 / 3]
    assert found["val"].tokens.tolist() == [5, 6]
    assert found["books"].bytes.tolist() == [20]
    assert [path.name for path in tmp_path.iterdir()] == ["documents.npz"]


def test_equal_scores_give_equal_bytes(tmp_path: Path) -> None:
    runs = [Run(tmp_path / name) for name in "ab"]
    for run in runs:
        keep(run, {"val": scores(0.5, 0.25)})
    assert runs[0].documents.read_bytes() == runs[1].documents.read_bytes()


@pytest.mark.parametrize("damage", ["missing", "empty", "short", "flipped", "text", "another version", "no array"])
def test_what_cannot_be_read_counts_as_none(tmp_path: Path, damage: str) -> None:
    run = Run(tmp_path)
    keep(run, {"val": scores(*np.linspace(0, 1, 50))})
    data = bytearray(run.documents.read_bytes())
    if damage == "missing":
        run.documents.unlink()
    elif damage == "empty":
        run.documents.write_bytes(b"")
    elif damage == "another version":
        np.savez(run.documents, version=np.int64(99))
    elif damage == "no array":
        np.savez(run.documents, **{"version": np.int64(1), "val/nats": np.ones(3)})
    else:
        middle = len(data) // 3
        changed = {"short": data[:middle], "flipped": data[:middle] + b"\xff" * 9 + data[middle + 9 :], "text": b"no"}
        run.documents.write_bytes(changed[damage])
    assert kept(run) == {}
