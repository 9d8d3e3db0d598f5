"""Numbers as texts, the same everywhere: losses to four decimals, differences signed, intervals in brackets."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime

NOTHING = "-"
"""What stands where there is no number."""


def value(x: float) -> str:
    """A metric: 1.2346; larger ones to six figures."""
    if not math.isfinite(x):
        return NOTHING
    return f"{x:.4f}" if abs(x) < 100 else f"{x:.6g}"


def signed(x: float) -> str:
    """A difference: +0.0123."""
    text = value(x)
    return text if text == NOTHING or text.startswith("-") else f"+{text}"


def chosen(x: float) -> str:
    """A setting to three digits, a whole number as it is: 0.00162, 0.05, 55200, 1e+06; 1536."""
    return str(x) if isinstance(x, int) else f"{float(f'{x:.3g}'):g}"


def figure(key: str, x: float) -> str:
    """A metric as its key asks for: 5.83M tokens a second, 10.21M parameters, 1.24 GiB; others as `value`."""
    return _BY_KEY.get(key.rpartition("/")[2], value)(x)


def difference(key: str, x: float) -> str:
    """A difference of two figures: +0.41M."""
    text = figure(key, abs(x))
    return text if text == NOTHING else f"{'-' if x < 0 else '+'}{text}"


def interval(low: float, high: float) -> str:
    """[-0.0150, -0.0096]"""
    return f"[{signed(low)}, {signed(high)}]" if math.isfinite(low) and math.isfinite(high) else NOTHING


def count(x: float) -> str:
    """A size in two or three decimals of its unit: 812, 0.17M, 124.44M, 1.35B."""
    if not math.isfinite(x):
        return NOTHING
    if abs(x) < 9_995:
        return f"{x:.0f}"
    unit, letter = next((unit, letter) for unit, letter in _UNITS if abs(x) < 999.995 * unit or letter == "T")
    return f"{x / unit:.2f}{letter}"


_UNITS = ((1e6, "M"), (1e9, "B"), (1e12, "T"))


def engineering(x: float) -> str:
    """A round number beside an axis: 812, 45k, 5.8M, 1.5B."""
    unit, letter = next((u, c) for u, c in ((1e9, "B"), (1e6, "M"), (1e3, "k"), (1, "")) if abs(x) >= u or u == 1)
    return f"{x / unit:g}{letter}"


def rate(x: float) -> str:
    """Tokens a second to three figures: 812, 45.2k, 1.23M."""
    if not math.isfinite(x):
        return NOTHING
    unit, letter = next(
        (unit, letter) for unit, letter in ((1, ""), (1e3, "k"), (1e6, "M")) if x < 999.5 * unit or letter == "M"
    )
    return f"{x / unit:#.3g}".rstrip(".") + letter


def gibibytes(x: float) -> str:
    """Memory: 1.24 GiB."""
    return f"{x:.2f} GiB" if math.isfinite(x) else NOTHING


def scientific(x: float) -> str:
    """FLOPs: 1.24e+15."""
    return f"{x:.2e}" if math.isfinite(x) else NOTHING


def percent(ratio: float) -> str:
    """A ratio to the baseline as a signed difference: +33.1 %."""
    return signed_percent(100 * (ratio - 1))


def signed_percent(percent: float) -> str:
    """+33.1 %"""
    return f"{percent:+.1f} %" if math.isfinite(percent) else NOTHING


def duration(seconds: float) -> str:
    """8.4 s, 3 min 05 s, 2 h 14 min."""
    if not math.isfinite(seconds):
        return NOTHING
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def since(begun: float) -> str:
    """From a time (Unix seconds, shown in UTC) on: since 2026-01-31 08:35."""
    return f"since {datetime.fromtimestamp(begun, UTC):%Y-%m-%d %H:%M}"


def span(begun: float, ended: float) -> str:
    """From one time (Unix seconds, shown in UTC) to another: 2026-01-31 08:35 → 08:52."""
    if not (math.isfinite(begun) and begun > 0):
        return NOTHING
    start = datetime.fromtimestamp(begun, UTC)
    if not math.isfinite(ended):
        return f"{start:%Y-%m-%d %H:%M} →"
    end = datetime.fromtimestamp(ended, UTC)
    same_day = start.date() == end.date()
    return f"{start:%Y-%m-%d %H:%M} → {end:{'%H:%M' if same_day else '%Y-%m-%d %H:%M'}}"


def size(n: float) -> str:
    """Bytes in decimal units: 812 B, 6.4 MB, 1.2 GB."""
    if not math.isfinite(n):
        return NOTHING
    unit, name = next((unit, name) for unit, name in _BYTES if n < 999.5 * unit or name == "TB")
    return f"{n / unit:.0f} {name}" if unit == 1 else f"{n / unit:.1f} {name}"


_BYTES = ((1, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"))


_BY_KEY = {
    "tokens_per_s": rate,
    "memory_gib": gibibytes,
    "params": count,
    "flops_per_token": scientific,
}


def seeds(numbers: Iterable[int]) -> str:
    """seed 2; seeds 0, 1 and 2"""
    texts = [str(number) for number in sorted(numbers)]
    return f"seed{'s' if len(texts) > 1 else ''} {listed(texts)}"


def freedom(dof: int) -> str:
    """What a standard deviation rests on: 4 degrees of freedom"""
    return f"{plural(dof, 'degree')} of freedom"


def listed(texts: Iterable[str]) -> str:
    """a, b and c"""
    *most, last = list(texts) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def finished(n: int, of: int, noun: str) -> str:
    """1 of 9 runs is finished already; all 9 runs are; the one run is; empty for none"""
    which = f"the one {noun}" if of == 1 else f"{'all' if n == of else f'{n} of'} {of} {noun}s"
    return f"{which} {'is' if n == 1 else 'are'} finished already" if n else ""


def plural(n: int, noun: str) -> str:
    """1 run, 3 runs"""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
