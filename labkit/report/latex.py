"""The table as LaTeX: booktabs, with n, method and hash in the caption, so that it can be traced to its records."""

import re
from collections.abc import Iterator
from importlib.metadata import version

from labkit.report.arms import LONG, Arm
from labkit.report.comparison import Comparison
from labkit.report.formats import NOTHING, count, interval, plural, signed, value
from labkit.report.words import shown

HEADERS = ("variant", "parameters", "n", "{metric}", "$\\Delta$", "95\\,\\% interval", "verdict")

_SPECIAL = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"},
    **{"<": "$<$", ">": "$>$", "→": "$\\to$", "·": "$\\cdot$", "×": "$\\times$", "±": "$\\pm$", "−": "$-$"},
    **{
        "σ": "$\\sigma$",
        "Δ": "$\\Delta$",
        "≥": "$\\geq$",
        "≤": "$\\leq$",
        "²": "$^2$",
        "∞": "$\\infty$",
        "√": "$\\surd$",
    },
}


def latex(comparison: Comparison) -> str:
    """A table environment; it needs the package booktabs."""
    head = " & ".join(header.format(metric=tex(comparison.metric)) for header in HEADERS)
    return "\n".join(
        [
            f"% {comparison.command} (labkit {version('labkit-lm')}, {comparison.hash})",
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{_caption(comparison)}}}",
            f"\\label{{tab:{re.sub(r'[^A-Za-z0-9-]+', '-', comparison.title)}}}",
            "\\begin{tabular}{lrrrrrl}",
            "\\toprule",
            f"{head} \\\\",
            "\\midrule",
            *(f"{' & '.join(_row(arm))} \\\\" for arm in comparison.arms),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    )


def tex(text: str) -> str:
    """A text as LaTeX prints it, with the minus sign that fits its numbers."""
    escaped = "".join(_SPECIAL.get(letter, letter) for letter in text)
    return re.sub(r"(?<![\w)\]-])-(?=\d)", "$-$", escaped)


def _row(arm: Arm) -> Iterator[str]:
    gap = arm.difference
    yield tex(arm.title if not arm.is_baseline else f"{arm.title if len(arm.label) <= LONG else arm.name}*")
    yield tex(count(arm.params))
    yield str(len(arm.finals))
    yield from (_number(text) for text in (value(arm.mean), signed(gap.mean), interval(gap.low, gap.high)))
    yield "" if arm.is_baseline else tex(shown(arm.verdict))


def _number(text: str) -> str:
    return "--" if text == NOTHING else tex(text)


def _caption(comparison: Comparison) -> str:
    """Question, n, method, scope and hash."""
    analysis = comparison.analysis
    placebo = any(arm.placebo and arm.difference.has_interval for arm in comparison.arms)
    own = ", a placebo's its own 95 %" if placebo else ""
    said = [
        comparison.question or comparison.title,
        *([] if comparison.edition == "main" else [f"Edition {comparison.edition}"]),
        f"Difference in {comparison.metric} to the baseline (*), paired over n = {plural(analysis.seeds, 'seed')}; "
        f"simultaneous 95 % intervals (Dunnett, arm + seed, σ = {value(analysis.sigma)} with {analysis.dof} degrees of "
        f"freedom){own}; tie margin ±{analysis.margin:g} nats",
        f"Matched: {comparison.matched or comparison.match}",
        f"{count(comparison.baseline.params)} parameters, {count(comparison.baseline.tokens)} tokens",
        f"Records {comparison.hash}",
    ]
    return " ".join(f"{tex(part)}{'' if part.endswith(('.', '?', '!')) else '.'}" for part in said)
