"""What no search may choose: what its losses are measured on. Losses of two validation texts do not compare."""

from collections.abc import Iterable

from labkit.spec import Mistake

TEXT = ("data", "evaluation")
"""The parts of a run spec that say what is measured."""


def check_measured(what: str, paths: Iterable[str], metrics: Iterable[str] = (), word: str = "minimize") -> None:
    """Raise Mistake for a path whose values make losses that do not compare, under any of the metrics."""
    per_token = [metric for metric in metrics if metric.startswith("val/loss")]
    for path in paths:
        part = path.partition(".")[0]
        if part in TEXT:
            reason = f"it changes what is measured ({part}), and losses on two texts do not compare"
            raise Mistake(f"{what}: {path}: {reason}; leave it out, and set it in the base")
        if part == "tokenizer" and per_token:
            reason = f"losses per token of two tokenizers do not compare ({per_token[0]})"
            raise Mistake(f'{what}: {path}: {reason}; write {word}="val/bpb", which is per byte')
