"""The one way of losses that arise inside the network: a module leaves them, its layer takes them along to the loss."""

from torch import Tensor, nn


class Auxiliary(nn.Module):
    """A module with a loss of its own: in training, its forward sets `left` to one value per token, left_BT.

    A value may depend on its own sequence only, so that micro-batches change nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left: tuple[Tensor, ...] = ()

    def take(self) -> tuple[Tensor, ...]:
        """What the last forward pass left, once."""
        taken, self.left = self.left, ()
        return taken


def auxiliaries(module: nn.Module) -> list[Auxiliary]:
    """Every module below that has a loss of its own."""
    return [each for each in module.modules() if isinstance(each, Auxiliary)]
