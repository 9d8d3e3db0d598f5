"""The parameters as the optimizer sees them: masters, and one flat gradient.

    fp32, fp64   every parameter is its own master
    bf16         matrices compute in bf16 and have fp32 masters; vectors (gains, biases) stay fp32

Gradients of all micro-batches add up in the masters' precision, in one tensor: its norm is one operation.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from labkit.components.parameters import logical, parts_of

Precision = Literal["fp32", "bf16", "fp64"]
"""What a run computes in; a choice of the run spec, never of the device."""

MASTER = {"fp32": torch.float32, "bf16": torch.float32, "fp64": torch.float64}
COMPUTE = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp64": torch.float64}


class Weights:
    """Puts a model's parameters into a precision, in place; `masters` are what is stepped, saved and restored."""

    def __init__(self, model: nn.Module, precision: Precision) -> None:
        self.model = model
        named = dict(model.named_parameters())
        self.matrices = {name for name, stored in named.items() if is_matrix(name, stored)}
        self.masters = {name: stored.detach().to(MASTER[precision]) for name, stored in named.items()}
        self.gradient = torch.zeros(
            sum(stored.numel() for stored in named.values()),
            dtype=MASTER[precision],
            device=next(iter(named.values())).device,
        )
        self.copies: list[tuple[Tensor, Tensor]] = []
        places = self.gradient.split([stored.numel() for stored in named.values()])
        for (name, stored), place in zip(named.items(), places, strict=True):
            master = self.masters[name]
            master.grad = place.view_as(master)
            self._place(stored, master, COMPUTE[precision] if name in self.matrices else MASTER[precision])

    def _place(self, stored: nn.Parameter, master: Tensor, dtype: torch.dtype) -> None:
        """Let the parameter share its master, or be a copy of it whose gradients are handed over as they arrive."""
        stored.data = master.to(dtype)
        if dtype == master.dtype:
            stored.grad = master.grad
        else:
            stored.register_post_accumulate_grad_hook(_handed_to(master))
            self.copies.append((stored.detach(), master))

    def logical(self) -> dict[str, Tensor]:
        """Views of the masters by the names of the logical parameters."""
        return logical(self.model, self.masters)

    def decayed(self) -> list[Tensor]:
        return [master for name, master in self.masters.items() if name in self.matrices]

    def kept(self) -> list[Tensor]:
        return [master for name, master in self.masters.items() if name not in self.matrices]

    def forget_gradients(self) -> None:
        self.gradient.zero_()

    def norm(self) -> Tensor:
        """The global norm of the gradient, in a fixed order."""
        return torch.linalg.vector_norm(self.gradient)

    def publish(self) -> None:
        """Round the masters into the copies that the model computes with."""
        for copy, master in self.copies:
            copy.copy_(master)


def is_matrix(name: str, stored: nn.Parameter) -> bool:
    """Whether a stored parameter holds matrices, by the roles of its parts."""
    return any(part.role.is_matrix for part in parts_of(name, stored))


def _handed_to(master: Tensor) -> Callable[[Tensor], None]:
    def hand_over(stored: Tensor) -> None:
        assert master.grad is not None
        assert stored.grad is not None
        master.grad.add_(stored.grad)
        stored.grad = None

    return hand_over
