import time

from labkit.sweep.pool import LOOK, Pool


def test_what_is_under_way_is_looked_at_several_times_while_nothing_ends() -> None:
    looks: list[float] = []
    begun = time.monotonic()
    assert Pool([]).ended(6 * LOOK, lambda: looks.append(time.monotonic())) is None
    took = time.monotonic() - begun
    assert 2 <= len(looks) <= took / LOOK
