"""A mixture of experts: each token is computed by the few experts that a router chooses for it.

B batch, T time, D width, N = B · T tokens, E experts, K chosen for each token.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from labkit.components.auxiliary import Auxiliary
from labkit.components.feedforward import FeedForward, Swiglu
from labkit.components.parameters import Linear, Part, Role
from labkit.components.place import Place
from labkit.spec import Count, Number

Weight = Annotated[Number, Field(ge=0)]
MOST = 4096
"""Experts of a layer: each is a module of its own."""


class Moe(FeedForward):
    """Σ p_i · expert_i(x), the top_k of p = softmax(router(x)) (arXiv:2101.03961; shared experts, arXiv:2401.06066)."""

    kind: Literal["moe"] = "moe"
    n_experts: Annotated[int, Field(gt=0, le=MOST)]
    top_k: Count
    """How many of the experts compute each token."""
    n_shared: Annotated[int, Field(ge=0, le=MOST)] = 0
    """Further experts that compute every token."""
    expert: FeedForward = Swiglu()
    """What each expert is; its width is its own."""
    normalized: bool = False
    """Whether the chosen p are divided by their sum, as in Mixtral (arXiv:2401.04088)."""
    balance: Weight = 0.01
    """Times E · Σ (share of choices)_i · (mean p)_i, over each sequence, in the training loss (arXiv:2101.03961)."""
    router_z: Weight = 0.001
    """Times (ln Σ exp(router(x)))², in the training loss (arXiv:2202.08906)."""

    def idle(self) -> Mapping[str, str]:
        every = "where top_k is n_experts, since nothing is left out; leave it out"
        single = "where n_experts is 1, since nothing is chosen; leave it out"
        return (dict.fromkeys(("balance", "normalized"), every) if self.top_k == self.n_experts else {}) | (
            {"router_z": single} if self.n_experts == 1 else {}
        )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.top_k > self.n_experts:
            raise ValueError(f"top_k {self.top_k} is more than n_experts {self.n_experts}; choose at most that many")
        if self.normalized and self.top_k == 1:
            raise ValueError("normalized with top_k 1 makes every weight 1, which teaches the router nothing")
        if type(self.expert) is type(self):
            raise ValueError("expert: a mixture cannot be the expert of a mixture; choose another kind")
        return self

    def fault(self, width: int) -> str | None:
        fault = self.expert.fault(width)
        return fault and f"expert: {fault}"

    def build(self, width: int, place: Place) -> nn.Module:
        return Mixture(self, width, place)


class Router(nn.Module):
    """Scores the experts in fp32 or better."""

    def __init__(self, width: int, n_experts: int) -> None:
        super().__init__()
        self.project = Linear(width, Part(Role.ROUTER, n_experts, width))

    def forward(self, x: Tensor) -> Tensor:
        exact = torch.promote_types(x.dtype, torch.float32)
        return F.linear(x.to(exact), self.project.weight.to(exact))


class Experts(nn.ModuleList):
    """Feed-forwards of which each token meets a share; `active_share` is what costs count them by."""

    def __init__(self, experts: list[nn.Module], share: Fraction) -> None:
        super().__init__(experts)
        self.active_share = share

    def forward(self, x_ND: Tensor, chosen_NK: Tensor) -> Tensor:
        """out_NKD: each token through its chosen experts, one product an expert over its own tokens, in their order."""
        copies_MD = x_ND.repeat_interleave(chosen_NK.shape[1], dim=0)
        order_M = chosen_NK.flatten().argsort(stable=True)
        counts = (chosen_NK.reshape(-1, 1) == torch.arange(len(self), device=x_ND.device)).sum(0).tolist()
        parts = copies_MD[order_M].split(counts)
        out_MD = torch.cat([expert(part) for expert, part in zip(self, parts, strict=True)])
        return out_MD[order_M.argsort()].unflatten(0, chosen_NK.shape)


class Mixture(Auxiliary):
    """Routed and shared experts, side by side."""

    def __init__(self, spec: Moe, width: int, place: Place) -> None:
        super().__init__()
        self.spec = spec
        self.router = Router(width, spec.n_experts)
        experts = [spec.expert.build(width, place) for _ in range(spec.n_experts)]
        self.experts = Experts(experts, Fraction(spec.top_k, spec.n_experts))
        self.shared = nn.ModuleList(spec.expert.build(width, place) for _ in range(spec.n_shared))

    def forward(self, x_BTD: Tensor) -> Tensor:
        scores_BTE = self.router(x_BTD)
        odds_BTE = scores_BTE.softmax(-1)
        weights_BTK, chosen_BTK = odds_BTE.topk(self.spec.top_k, dim=-1)
        if self.training:
            self.left = (self.losses(scores_BTE, odds_BTE, chosen_BTK),)
        if self.spec.normalized:
            weights_BTK = weights_BTK / weights_BTK.sum(-1, keepdim=True)
        out_BTKD = self.experts(x_BTD.flatten(0, 1), chosen_BTK.flatten(0, 1)).view(*chosen_BTK.shape, -1)
        routed_BTD = (out_BTKD * weights_BTK.unsqueeze(-1).to(out_BTKD.dtype)).sum(-2)
        for expert in self.shared:
            routed_BTD = routed_BTD + expert(x_BTD)
        return routed_BTD

    def losses(self, scores_BTE: Tensor, odds_BTE: Tensor, chosen_BTK: Tensor) -> Tensor:
        """Balance over each sequence (1 when even) and router z-loss, each times its weight, per token."""
        n_experts = self.spec.n_experts
        share_BE = F.one_hot(chosen_BTK, n_experts).to(odds_BTE.dtype).mean((1, 2))
        balance_B = n_experts * (share_BE * odds_BTE.mean(1)).sum(-1)
        z_BT = scores_BTE.logsumexp(-1).square()
        return self.spec.balance * balance_B.unsqueeze(1) + self.spec.router_z * z_BT
