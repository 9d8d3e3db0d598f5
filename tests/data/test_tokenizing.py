import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from labkit.data import Bpe, Byte, DataSpec, Text, prepare, tokenizing
from labkit.data.documents import Documents
from labkit.data.encoding import Encoder
from labkit.data.gather import gather
from labkit.data.tokenizing import tokenize
from labkit.tracking.progress import Progress

SCRIPT = """
import resource, sys
from pathlib import Path
from labkit.data import Byte, DataSpec, Text, prepare
prepare(DataSpec(corpus=Text(path=sys.argv[1])), Byte(), Path())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def peak_mib(folder: Path, mib: int) -> float:
    """The memory at its highest in a process that prepares so much text."""
    line = "the rope turned slowly under a lamp of frost "
    with (folder / f"{mib}.txt").open("w") as file:
        for n in range(mib * 1024):
            file.write(f"{n:09} {line * 23}"[:1023] + "\n")
    command = [sys.executable, "-c", SCRIPT, str(folder / f"{mib}.txt")]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_memory_is_flat_in_the_size_of_the_corpus(tmp_path: Path) -> None:
    assert peak_mib(tmp_path, 50) - peak_mib(tmp_path, 15) < 12


def documents(folder: Path, poem: str, count: int) -> Documents:
    draw = random.Random(1)
    words = poem.split()
    return gather(((" ".join(draw.choices(words, k=600)),) for _ in range(count)), folder / "text", Progress())


def fastest(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(4):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def test_writing_a_split_costs_little_more_than_the_library_itself(tmp_path: Path, poem: str) -> None:
    from tokenizers import Tokenizer as Library

    texts = documents(tmp_path, poem, 600)
    encoder = Bpe(vocab_size=600).encoder(tmp_path, [poem])
    library = Library.from_str(encoder.description.decode())
    strings = [piece.decode() for piece, _ in texts.pieces()]
    alone = fastest(lambda: library.encode_batch_fast(strings))
    whole = fastest(lambda: tokenize(texts, encoder, tmp_path, "train", Progress()))
    assert whole < 1.5 * alone  # 1.05 to 1.2 where nothing else runs


def test_bytes_are_written_at_a_hundred_times_the_speed(tmp_path: Path, poem: str) -> None:
    texts = documents(tmp_path, poem, 1000)
    seconds = fastest(lambda: tokenize(texts, Encoder(), tmp_path, "train", Progress()))
    assert texts.n_bytes / seconds > 15e6


@pytest.mark.parametrize("tokenizer", [Byte(), Bpe(vocab_size=300)])
def test_batches_leave_no_seam(
    tmp_path: Path, poem: str, monkeypatch: pytest.MonkeyPatch, tokenizer: Byte | Bpe
) -> None:
    texts = documents(tmp_path, poem, 40)
    encoder = tokenizer.encoder(tmp_path, [poem])
    at_once = tokenize(texts, encoder, tmp_path, "once", Progress())
    monkeypatch.setattr(tokenizing, "BATCH", 5000)
    in_parts = tokenize(texts, encoder, tmp_path, "parts", Progress())
    assert [shard["sha256"] for shard in at_once["shards"]] == [shard["sha256"] for shard in in_parts["shards"]]


def test_a_long_document_is_one_document(tmp_path: Path, poem: str) -> None:
    long = gather([(poem * 40,), ("short",)], tmp_path / "text", Progress())
    assert len(list(long.pieces())) > 2
    split = tokenize(long, Encoder(), tmp_path, "train", Progress())
    ids = np.fromfile(tmp_path / "train-00000.bin", "<u2")
    assert (split["documents"], split["tokens"]) == (2, len(ids))
    assert np.flatnonzero(ids == 256).tolist() == [len(poem.encode()) * 40, len(ids) - 1]


def test_progress_counts_the_bytes_of_the_corpus(tmp_path: Path, poem: str) -> None:
    from contextlib import contextmanager

    done: dict[str, list[float]] = {}

    class Counting(Progress):
        @contextmanager
        def task(self, description: str, total: float | None = None, unit: str = ""):
            done[description] = [total or 0.0, 0.0]

            def advance(n: float) -> None:
                done[description][1] += n

            yield advance

    (tmp_path / "a.txt").write_text(poem)
    prepare(DataSpec(corpus=Text(path="a.txt"), validation=0.2), Bpe(vocab_size=300), tmp_path, Counting())
    bars = {name: bar for name, bar in done.items() if name != "reading the corpus"}
    assert len(bars) == 4
    assert all(total == reached > 0 for total, reached in bars.values())
