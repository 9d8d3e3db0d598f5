import hashlib
from pathlib import Path

import numpy as np
import pytest

from labkit.data import Split
from labkit.data.shards import ShardWriter, dtype_for
from labkit.spec import Mistake


def test_ids_are_as_narrow_as_the_vocabulary_allows() -> None:
    assert [dtype_for(size).str for size in (257, 65536, 65537)] == ["<u2", "<u2", "<u4"]


def test_a_hash_stands_for_each_file(tmp_path: Path) -> None:
    with ShardWriter(tmp_path, "train", np.dtype("<u2"), limit=4) as writer:
        writer.append(np.arange(9))
    assert [shard["file"] for shard in writer.shards] == [f"train-0000{n}.bin" for n in range(3)]
    for shard in writer.shards:
        assert shard["sha256"] == hashlib.sha256((tmp_path / shard["file"]).read_bytes()).hexdigest()


def test_a_file_cut_short_is_refused_with_both_sizes(tmp_path: Path) -> None:
    with ShardWriter(tmp_path, "train", np.dtype("<u4")) as writer:
        writer.append(np.arange(9))
    with (tmp_path / "train-00000.bin").open("r+b") as file:
        file.truncate(20)
    with pytest.raises(Mistake, match=r"train-00000.bin has 20 bytes where 36 were written.*Remove the folder"):
        Split.opened(tmp_path, "train", {"shards": writer.shards}, np.dtype("<u4"))
