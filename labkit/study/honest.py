"""What a loss does not tell of a model with the user's own components: whether it reads ahead, and whether they learn.

A model that sees the token which it is to predict wins every comparison. So tokens are changed, and what is predicted
before them has to stay. All weights are moved from their initial values first: of an output that starts at zero nothing
would be seen.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from labkit.model import Transformer
from labkit.spec import Mistake
from labkit.study.own import defined, first_line, is_ours
from labkit.train.run import RunSpec

MOVED = 0.05
"""Standard deviation of what is added to every weight."""


def check_honest(spec: RunSpec, own: Sequence[Any], tokens_BT: Tensor, vocab: int) -> None:
    """Raise Mistake where a prediction depends on later tokens, or where a module of the user's learns nothing.

    `own` are the user's components in the model, `tokens_BT` T + 1 in each row; computed on the CPU, in fp32.
    """
    model = Transformer(spec.model, vocab)
    model.initialize(0)
    with torch.no_grad():
        for stored in model.parameters():
            stored.add_(MOVED * torch.randn_like(stored))
    _check_learning(model, tokens_BT)
    _check_past(model.eval(), own, tokens_BT[:, :-1], vocab)


def _check_learning(model: Transformer, tokens_BT: Tensor) -> None:
    called: dict[nn.Module, None] = {}
    hooks = [module.register_forward_hook(lambda each, *_: called.setdefault(each)) for module in model.modules()]
    model.losses(tokens_BT[:, :-1], tokens_BT[:, 1:]).sum().backward()
    for hook in hooks:
        hook.remove()
    for module in called:
        kept = [stored for stored in module.parameters() if stored.requires_grad]
        if _is_users(module) and kept and all(stored.grad is None for stored in kept):
            name, line = type(module).__name__, first_line(type(module).forward)
            count = sum(stored.numel() for stored in kept)
            raise Mistake(
                f"{line}: {name}.forward leaves all {count} numbers of its parameters without a gradient; use them in "
                f"what it returns, without detach(), or leave them out"
            )


def _is_users(module: nn.Module) -> bool:
    return not is_ours(type(module)) and not type(module).__module__.startswith("torch.")


@torch.no_grad()
def _check_past(model: Transformer, own: Sequence[Any], tokens_BT: Tensor, vocab: int) -> None:
    """Where the same tokens do not give the same twice, nothing is said."""
    at = tokens_BT.shape[1] // 2
    changed_BT = tokens_BT.clone()
    changed_BT[:, at:] = (changed_BT[:, at:] + 1) % vocab
    first, again, changed = (_predicted(model, given_BT)[:, :at] for given_BT in (tokens_BT, tokens_BT, changed_BT))
    if not _are_close(first, again) or _are_close(first, changed):
        return
    names = " or ".join(type(part).__name__ for part in own)
    raise Mistake(
        f"{defined(own[0])}: {names} lets a token see later ones: what is predicted after token {at} of "
        f"{tokens_BT.shape[1]} changed with the tokens behind it. Such a model knows what it is asked for; let every "
        f"token depend on itself and those before it alone"
    )


def _predicted(model: Transformer, tokens_BT: Tensor) -> Tensor:
    torch.manual_seed(0)
    return model(tokens_BT)


def _are_close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)
