"""Variants with another tokenizer: a token is another amount of text to them, so bytes or FLOPs have to be equal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labkit.report.formats import count, scientific
from labkit.spec import Mistake
from labkit.study.counting import Counted, place


@dataclass(frozen=True)
class Density:
    """How much text the tokens of a training split hold."""

    tokens: int
    bytes: int

    def bytes_of(self, tokens: float) -> float:
        return tokens * self.bytes / self.tokens

    def tokens_of(self, n_bytes: float) -> float:
        return n_bytes * self.tokens / self.bytes


def check_tokenizers(arms: Sequence[Counted], texts: Mapping[str, Density], tolerance: float) -> None:
    """Refuse variants that read neither as many bytes as the baseline nor spend as many FLOPs, within the tolerance.

    `texts` has the training split of each arm that is to be run, by the arm's name; the others are not looked at.
    Raises Mistake, naming the variant and the budget to write.
    """
    baseline, *variants = arms
    there = texts.get(baseline.arm.name)
    for variant in variants:
        here = texts.get(variant.arm.name)
        if there is None or here is None or variant.arm.spec.tokenizer == baseline.arm.spec.tokenizer:
            continue
        wanted, read = there.bytes_of(baseline.tokens), here.bytes_of(variant.tokens)
        if min(abs(read / wanted - 1), abs(variant.flops / baseline.flops - 1)) > tolerance:
            raise Mistake(_unequal(baseline, variant, wanted, read, here))


def _unequal(baseline: Counted, variant: Counted, wanted: float, read: float, here: Density) -> str:
    step = variant.arm.spec.tokens_per_step
    tokens = max(1, round(here.tokens_of(wanted) / step)) * step
    return (
        f"{place(variant.arm)}: tokenizer: it is trained on {count(read)} bytes with {scientific(variant.flops)} "
        f"FLOPs, the baseline on {count(wanted)} with {scientific(baseline.flops)}; tokenizers compare at equal bytes "
        f"or equal FLOPs only. Give the variant  'budget': {{'kind': 'tokens', 'tokens': {tokens}}}, which is as many "
        f"bytes, or write match='flops'"
    )
