"""Progress that nobody looks at."""

from labkit.tracking.progress import Progress


def test_nobody_looking_is_no_error() -> None:
    with Progress().task("counting", 3, "steps") as advance:
        assert advance(1) is None
