"""Lines of JSON between processes."""

import pytest

from labkit.train.wires import told


@pytest.mark.parametrize("line", ["", "{", '{"run": "/runs/a', "{not json}\n", "[1]\n", "12\n", b"\xff\xfe\n"])
def test_what_is_no_object_tells_nothing(line: str | bytes) -> None:
    assert told(line) == {}


def test_an_object_is_told_from_text_or_bytes() -> None:
    assert told('{"room": 1}\n') == told(b'{"room": 1}') == {"room": 1}
