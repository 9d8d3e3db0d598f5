"""Who trains: all with AdamW on fp32 masters, clipped to a norm of 1, computing in bf16, with a tied head."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from labkit.bench.setups import BATCHES, Setup
from labkit.kernels import Kernels
from labkit.model import Transformer
from labkit.optim.optimizer import Adamw
from labkit.optim.weights import Weights
from labkit.train.captured import Captured
from labkit.train.device import settings
from labkit.train.execution import Eager
from labkit.train.run import Runtime
from labkit.train.step import Step

LR, BETAS, DECAY, CLIP = 6e-4, (0.9, 0.95), 0.1, 1.0
FASTEST = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Of torch's attentions, by their speed in training."""
STEPS = 100_000


class Contender:
    """One way to train a setup, from nothing to a step that can be made again and again."""

    how = "eager"
    """Or compiled, or captured: what became of it."""

    def __init__(self, setup: Setup, device: str) -> None:
        self.setup, self.device, self.steps = setup, device, 0
        self.batches = setup.batches()

    def building(self) -> AbstractContextManager[Any]:
        """What `build` and the first step happen in."""
        raise NotImplementedError

    def turn(self) -> AbstractContextManager[Any]:
        """What later steps happen in."""
        return self.building()

    def build(self) -> None:
        """From nothing; the first step may still have a lot to do."""
        raise NotImplementedError

    def step(self) -> None:
        """Make one more, and do not wait for it."""
        self.steps += 1
        self.take(self.steps - 1, self.batches[self.steps % BATCHES])

    def take(self, number: int, tokens_BT: Tensor) -> None:
        """A step on a batch of T + 1 tokens a row, on the host."""
        raise NotImplementedError

    def wait(self) -> None:
        """For all steps."""
        if self.device == "cuda":
            torch.cuda.current_stream().synchronize()


class Labkit(Contender):
    """labkit's step as a run makes it."""

    def __init__(
        self, setup: Setup, device: str, mode: Literal["exact", "fast"], kernels: Kernels, execution: type[Eager]
    ) -> None:
        super().__init__(setup, device)
        self.runtime, self.execution = Runtime(device=device, kernels=kernels, mode=mode), execution

    def building(self) -> AbstractContextManager[Any]:
        return settings(self.runtime)

    def turn(self) -> AbstractContextManager[Any]:
        """What is captured only needs its stream; to leave the settings takes a while."""
        return torch.cuda.stream(self.stream) if self.how == Captured.how else self.building()

    def build(self) -> None:
        with torch.device(self.device):
            model = Transformer(self.setup.spec, self.setup.sizes.vocab_size)
        model.initialize(0)
        weights = Weights(model, "bf16")
        self.made = Step(
            model,
            weights,
            Adamw(lr=LR, betas=BETAS, weight_decay=DECAY).build(weights),
            factors=[1.0] * STEPS,
            clip=CLIP,
            batch_size=self.setup.batch_size,
            length=self.setup.context,
            rows=self.setup.batch_size,
            dropout_seed=0,
            execution=self.execution(),
        )
        self.made.prepare()
        self.how = self.made.made.how
        self.stream = torch.cuda.current_stream() if self.device == "cuda" else None

    def take(self, number: int, tokens_BT: Tensor) -> None:
        self.made(number, tokens_BT)
        list(self.made.readings())

    def wait(self) -> None:
        list(self.made.readings(0))
        super().wait()


class Plain(Contender):
    """A model of plain PyTorch or a library's, in bf16."""

    stream: Any = None

    def model(self) -> nn.Module:
        """What takes tokens_BT and targets_BT and gives their mean loss."""
        raise NotImplementedError

    def executed(self, model: nn.Module) -> Any:
        """What stands for the model in training."""
        return model

    @contextmanager
    def building(self) -> Generator[None]:
        """On a stream of its own, with the fastest attention that there is."""
        if self.device != "cuda":
            yield
            return
        Plain.stream = Plain.stream or torch.cuda.Stream()
        with torch.cuda.stream(Plain.stream), sdpa_kernel(FASTEST, set_priority=True):
            yield

    def build(self) -> None:
        torch.manual_seed(0)
        with torch.device(self.device):
            model = self.model()
        for weight in model.parameters():  # buffers stay: angles in bf16 would be wrong
            weight.data = weight.data.to(torch.bfloat16)
        self.losses = self.executed(model)
        self.masters = Masters(self.losses)
        on_gpu = self.device == "cuda"
        self.batches = [batch.pin_memory() if on_gpu else batch for batch in self.batches]
        self.tokens_BT = self.batches[0].to(self.device)

    def take(self, number: int, tokens_BT: Tensor) -> None:
        self.tokens_BT.copy_(tokens_BT, non_blocking=True)
        self.passes()

    def passes(self) -> None:
        """Forward, backward and update, on the tokens that lie on the device."""
        self.losses(self.tokens_BT[:, :-1], self.tokens_BT[:, 1:]).backward()
        self.masters.step()


class Masters:
    """AdamW in fp32 for a model in bf16."""

    def __init__(self, model: nn.Module) -> None:
        self.weights = list(model.parameters())
        self.values = [weight.detach().float() for weight in self.weights]
        for value in self.values:
            value.grad = torch.zeros_like(value)
        decays = [value.ndim > 1 for value in self.values]
        groups = [
            {
                "params": [v for v, decay in zip(self.values, decays, strict=True) if decay is of],
                "weight_decay": DECAY * of,
            }
            for of in (True, False)
        ]
        on_gpu = self.values[0].is_cuda
        self.optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, fused=True, capturable=on_gpu)
        self.gradients = [value.grad for value in self.values]

    def step(self) -> None:
        """Clip the gradients, move the masters, round them into the model, and let the gradients go."""
        nn.utils.clip_grad_norm_(self.weights, CLIP, foreach=True)
        _copy_each(self.gradients, [weight.grad for weight in self.weights])
        self.optimizer.step()
        with torch.no_grad():
            _copy_each(self.weights, self.values)
        for weight in self.weights:
            weight.grad = None


_copy_each: Any = vars(torch)["_foreach_copy_"]
