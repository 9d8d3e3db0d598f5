import math

import pytest

from labkit.report import formats


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (formats.value(1.23456), "1.2346"),
        (formats.value(45_213.7), "45213.7"),
        (formats.signed(0.0123), "+0.0123"),
        (formats.signed(-0.0123), "-0.0123"),
        (formats.chosen(0.00162135), "0.00162"),
        (formats.chosen(1732.89), "1730"),
        (formats.chosen(55_240.0), "55200"),
        (formats.chosen(1536), "1536"),
        (formats.figure("val/loss", 4.61057), "4.6106"),
        (formats.figure("perf/tokens_per_s", 5_834_980), "5.83M"),
        (formats.figure("perf/memory_gib", 1.2361), "1.24 GiB"),
        (formats.figure("params", 10_211_328), "10.21M"),
        (formats.figure("flops_per_token", 61_270_016), "6.13e+07"),
        (formats.difference("params", -412_000), "-0.41M"),
        (formats.difference("val/loss", 0.0123), "+0.0123"),
        (formats.interval(-0.015, 0.0096), "[-0.0150, +0.0096]"),
        (formats.count(812), "812"),
        (formats.count(170_432), "0.17M"),
        (formats.count(124_439_808), "124.44M"),
        (formats.count(999_999_999), "1.00B"),
        (formats.count(1.35e9), "1.35B"),
        (formats.rate(812.3), "812"),
        (formats.rate(45_213), "45.2k"),
        (formats.rate(13_000), "13.0k"),
        (formats.rate(1.234e6), "1.23M"),
        (formats.engineering(0.00125), "0.00125"),
        (formats.engineering(5_800_000.0), "5.8M"),
        (formats.scientific(1.24e15), "1.24e+15"),
        (formats.percent(1.331), "+33.1 %"),
        (formats.percent(0.98), "-2.0 %"),
        (formats.duration(8.41), "8.4 s"),
        (formats.duration(59.96), "1 min 00 s"),
        (formats.duration(185), "3 min 05 s"),
        (formats.duration(8040), "2 h 14 min"),
        (formats.size(812), "812 B"),
        (formats.size(6_350_000), "6.3 MB"),
        (formats.seeds([2]), "seed 2"),
        (formats.seeds([2, 0, 1]), "seeds 0, 1 and 2"),
        (formats.listed([]), ""),
        (formats.plural(1, "run"), "1 run"),
        (formats.plural(3, "run"), "3 runs"),
        (formats.finished(0, 9, "run"), ""),
        (formats.finished(1, 9, "run"), "1 of 9 runs is finished already"),
        (formats.finished(2, 9, "run"), "2 of 9 runs are finished already"),
        (formats.finished(1, 1, "run"), "the one run is finished already"),
        (formats.finished(8, 8, "trial"), "all 8 trials are finished already"),
    ],
)
def test_numbers_are_written_the_same_everywhere(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    "write",
    [formats.value, formats.signed, formats.count, formats.rate, formats.scientific, formats.percent, formats.size],
)
def test_what_is_not_known_is_a_dash(write) -> None:
    assert write(math.nan) == formats.NOTHING
    assert formats.interval(math.nan, math.nan) == formats.NOTHING
    assert formats.difference("params", math.nan) == formats.NOTHING
    assert formats.duration(math.nan) == formats.NOTHING


def test_spans_say_the_day_once_in_utc() -> None:
    begun = 1_700_000_000.0
    assert formats.span(begun, begun + 1020) == "2023-11-14 22:13 → 22:30"
    assert formats.span(begun, begun + 86_400) == "2023-11-14 22:13 → 2023-11-15 22:13"
    assert formats.span(begun, math.nan) == "2023-11-14 22:13 →"
    assert formats.span(0.0, math.nan) == "-"
