"""What the evaluation at the end of a run scores, told apart by what it is scored for: it may outlast the training."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from labkit.data import Store, spans
from labkit.model import costs
from labkit.train.evaluate import multiples
from labkit.train.run import RunSpec


@dataclass(frozen=True)
class Part:
    """One of the things that are scored."""

    name: str
    tokens: int
    work: float
    """The tokens of training length that would take as long."""


def parts(spec: RunSpec, store: Store) -> tuple[Part, ...]:
    """The validation split, what is read in longer contexts, and the further sets, each as a whole."""
    sizes = {"the validation split": store.val.n_tokens}
    further = {f"evaluation.also.{name}": whole.split.n_tokens for name, whole in store.also.items()}
    whole = [Part(name, tokens, tokens) for name, tokens in (sizes | further).items()]
    return (*whole, *_beyond(spec, store))


def _beyond(spec: RunSpec, store: Store) -> Iterator[Part]:
    """The same spans once for every length of the context, each as dear as a token in so long a one."""
    asked, context = multiples(spec, store), spec.model.context
    if not asked:
        return
    longest = math.lcm(*asked)
    spanned = len(spans(store.val, store.end, longest * context, max(1, spec.evaluation.windows // longest)))
    flops = [costs(spec.model.patched({"context": n * context}), store.size).flops_per_token for n in (1, *asked)]
    tokens = spanned * longest * context
    yield Part("evaluation.beyond", len(flops) * tokens, tokens * sum(flops) / flops[0])


def look(spec: RunSpec, store: Store) -> int:
    """The tokens that an evaluation on the way scores."""
    return min(spec.evaluation.windows * spec.model.context, store.val.n_tokens - 1)
