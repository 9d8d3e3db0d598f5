"""The run spec says what is computed, and is hashed; the runtime says how it is executed, and is not."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from labkit.data import DataSpec, Tokenizer
from labkit.data.further import Sets
from labkit.fieldtypes import each_once
from labkit.kernels import Kernels
from labkit.model import ModelSpec, costs
from labkit.optim.optimizer import Optimizer
from labkit.optim.schedule import Schedule
from labkit.optim.weights import Precision
from labkit.spec import Choice, Mistake, Number, Size, Spec

Natural = Annotated[int, Field(ge=0, lt=2**63)]
MOST_STEPS = 10**8
"""Of a run: the learning rate of each is held in memory."""

MOST_SIDE_BY_SIDE = 8
"""Each takes two streams of a GPU, of which there are thirty-two."""

MOST_RANKS = 1024
"""Processes that share a batch."""

Positive = Annotated[Number, Field(gt=0)]


def known_device(name: str) -> str:
    """The name of a device. Raises ValueError for what can be none."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise ValueError(f"unknown device {name!r}; write auto, cpu, cuda or cuda:0")
    return name


def number_or_auto(value: Any) -> Any:
    """How many runs go side by side, also as it is typed. Raises ValueError for what is no such number."""
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if number != "auto" and not (type(number) is int and 1 <= number <= MOST_SIDE_BY_SIDE):
        raise ValueError(f"{value!r} is no number of runs; write auto, or 1 to {MOST_SIDE_BY_SIDE}")
    return number


class Seed(Spec):
    """What the randomness of a run is keyed by; a plain number sets all three."""

    data: Natural = 0
    """The order of the training windows."""
    init: Natural = 0
    """The initial values."""
    dropout: Natural = 0
    """Which features dropout leaves out."""

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        return dict.fromkeys(cls.model_fields, value) if isinstance(value, int) else value


class Budget(Choice):
    """How much a run may spend. Runs are whole steps: as many as the budget holds, and at least one."""

    def whole_steps(self, tokens_per_step: int, flops_per_token: float) -> int:
        """How many optimizer steps the budget holds."""
        raise NotImplementedError


class Tokens(Budget):
    """⌊tokens / tokens per step⌋ steps."""

    kind: Literal["tokens"] = "tokens"
    tokens: Annotated[int, Field(gt=0, le=10**18)]

    def whole_steps(self, tokens_per_step: int, flops_per_token: float) -> int:
        return max(1, self.tokens // tokens_per_step)


class Steps(Budget):
    """A number of steps."""

    kind: Literal["steps"] = "steps"
    steps: Annotated[int, Field(gt=0, le=MOST_STEPS)]

    def whole_steps(self, tokens_per_step: int, flops_per_token: float) -> int:
        return self.steps


class Flops(Budget):
    """⌊FLOPs / (tokens per step · FLOPs per token)⌋ steps; forward and backward of products and attention."""

    kind: Literal["flops"] = "flops"
    flops: Annotated[Number, Field(gt=0, le=1e30)]

    def whole_steps(self, tokens_per_step: int, flops_per_token: float) -> int:
        return max(1, int(self.flops / (tokens_per_step * flops_per_token)))


class Evaluation(Spec):
    """What is measured on the validation split: fixed windows on the way, all of it at the end."""

    points: Size = 20
    """Evaluations on the way, evenly spaced, the last at the last step."""
    windows: Annotated[int, Field(gt=0, le=2**31)] = 64
    """How many windows of the training length each of them reads."""
    beyond: Annotated[tuple[Annotated[int, Field(ge=2, le=4096)], ...], AfterValidator(each_once)] = (2, 4)
    """Multiples of the training length whose loss is measured at the end, where the position encoding can."""
    also: Sets = ()
    """Further validation sets by name, {"books": {"kind": "text", "path": "books/*.txt"}}: each is scored as a whole
    at the end, in the run's tokens, and reported uncorrected beside the one that decides."""

    def steps(self, steps: int) -> tuple[int, ...]:
        """After how many steps to evaluate, ascending."""
        points = min(self.points, steps)
        return tuple(steps * point // points for point in range(1, points + 1))


class RunSpec(Spec):
    """All that decides what one run computes."""

    model: ModelSpec
    data: DataSpec
    tokenizer: Tokenizer
    optimizer: Optimizer
    schedule: Schedule
    budget: Budget
    batch_size: Size
    """Sequences of the model's context in one step, over all micro-batches."""
    clip: Positive | None = 1.0
    """The largest global norm of the gradient; none: not clipped."""
    precision: Precision = "fp32"
    """What the model computes in; the weights that the optimizer moves are at least fp32."""
    evaluation: Evaluation = Evaluation()
    seed: Seed = Seed()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        parametrization, optimizer = self.model.parametrization, self.optimizer
        if parametrization.has_rates and not optimizer.has_rates:
            raise ValueError(
                f"optimizer: {optimizer.label} does not say how its learning rate follows the width, which "
                f"{parametrization.label} needs. Give its class  def rate(self, part: Part) -> float, or set "
                f"model.parametrization to 'standard'."
            )
        return self

    @property
    def tokens_per_step(self) -> int:
        return self.batch_size * self.model.context

    def steps(self, vocab_size: int) -> int:
        """How many steps the run takes. Raises Mistake if the schedule does not fit into them."""
        steps = self.budget.whole_steps(self.tokens_per_step, costs(self.model, vocab_size).flops_per_token)
        if steps > MOST_STEPS:
            raise Mistake(
                f"budget: it makes {steps:.3g} steps of {self.tokens_per_step:,} tokens, and a run has at most "
                f"{MOST_STEPS:,}. Write a smaller budget, or a larger batch_size."
            )
        self.schedule.check(steps)
        return steps

    def tokens(self, vocab_size: int) -> int:
        """How many tokens the run trains on."""
        return self.steps(vocab_size) * self.tokens_per_step


class Runtime(Spec):
    """How runs are executed. Micro-batches, threads and the number of GPUs that share a batch change the last digits,
    never what is computed.
    """

    device: Annotated[str, AfterValidator(known_device)] = "auto"
    """auto (CUDA where there is one), cpu, cuda, or cuda:1."""
    mode: Literal["exact", "fast"] = "exact"
    """exact: the same spec on the same machine gives the same bits; fast: attention may not."""
    micro_batch: Size | None = None
    """Sequences that go through the model at once, on each GPU; none: its whole share of the batch."""
    data_parallel: Annotated[int, Field(gt=0, le=MOST_RANKS)] = 1
    """How many processes, each on a GPU of its own, share the batch of every run."""
    activation_checkpointing: bool = False
    """Compute each layer's activations again in the backward pass: the same numbers, less memory."""
    kernels: Kernels = "auto"
    """auto: labkit's Triton kernels on a GPU; triton: also in Triton's interpreter; torch: torch's own operations."""
    capture: Literal["auto", "off"] = "auto"
    """auto: on a GPU a step is captured once and replayed, where it can be; off: it runs as it is written."""
    compile: bool = False
    """torch.compile instead, for comparison."""
    checkpoint_seconds: Annotated[Number, Field(ge=0)] = 30.0
    """Time between checkpoints; more where writing one takes over a twentieth of it."""
    threads: Annotated[int, Field(gt=0, le=4096)] = 1
    """Of the CPU, for one worker."""
    side_by_side: Annotated[int | Literal["auto"], BeforeValidator(number_or_auto)] = "auto"
    """How many runs a worker trains at once, each to the same bits as alone; auto: as many as a GPU is faster with."""

    @model_validator(mode="after")
    def _one_run_at_a_time(self) -> Self:
        if self.data_parallel > 1 and self.side_by_side not in ("auto", 1):
            raise ValueError(
                f"data_parallel: {self.data_parallel} processes train one run at a time, and side_by_side is "
                f"{self.side_by_side}; write 1 or auto there"
            )
        return self

    def share(self, batch_size: int) -> int:
        """Sequences of a batch that each process takes. Raises Mistake if there are not as many for each."""
        if batch_size % self.data_parallel:
            said = f"--data-parallel: {self.data_parallel} does not divide batch_size {batch_size}"
            raise Mistake(f"{said}; write {_divisor(batch_size, self.data_parallel)}")
        return batch_size // self.data_parallel

    def rows(self, batch_size: int) -> int:
        """Sequences in a micro-batch. Raises Mistake if they do not divide a process's share of the batch."""
        share = self.share(batch_size)
        rows = self.micro_batch or share
        if share % rows:
            of = f"{share}, each process's share of batch_size" if self.data_parallel > 1 else "batch_size"
            said = f"--micro-batch: {rows} does not divide {of} {batch_size}"
            raise Mistake(f"{said}; write {_divisor(share, rows)}")
        return rows


def _divisor(of: int, most: int) -> int:
    """The largest one that is no larger than `most`."""
    return max(size for size in range(1, most + 1) if of % size == 0)
