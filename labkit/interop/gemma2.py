"""Gemma 2: a norm on each side of a branch, soft caps, scaled embeddings, a window in every other layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labkit.interop.architecture import Architecture
from labkit.interop.clauses import (
    GATED,
    TIED,
    Always,
    Clause,
    Config,
    Layers,
    OneOf,
    Only,
    Paths,
    Same,
    Unread,
    positive,
)
from labkit.interop.heads import Heads, Windows
from labkit.interop.llama import ATTENTION_BIAS, MODULES, NORMAL, SIZES
from labkit.interop.rope import Rotation
from labkit.interop.tensors import Tensors, modules


@dataclass(frozen=True)
class QueryScale(Clause):
    """``query_pre_attn_scalar``: scores are multiplied by its inverse root."""

    @property
    def fields(self) -> Mapping[str, Any]:
        return {"query_pre_attn_scalar": 256}

    def read(self, config: Config) -> Paths:
        scalar = positive("query_pre_attn_scalar", config["query_pre_attn_scalar"])
        return {"attention.scale.kind": "fixed", "attention.scale.value": scalar**-0.5}

    def write(self, layers: Layers) -> dict[str, Any]:
        attention, width = layers[0].attention, layers[0].d_model
        return {"query_pre_attn_scalar": max(1, round(attention.scale.factor(attention.width_of_head(width)) ** -2))}


GEMMA2 = Architecture(
    model_type="gemma2",
    name="Gemma2ForCausalLM",
    prefix="model.",
    head="lm_head",
    clauses=(
        *SIZES,
        Heads(keys_default=4, head_dim_default=256, divides=True),
        ATTENTION_BIAS,
        Always({"norm.kind": "rms", "norm.casting": "gemma", "residual.kind": "peri", "embedding.scaled": True}),
        Same("rms_norm_eps", "norm.eps", 1e-6),
        OneOf("hidden_activation", GATED, "gelu_pytorch_tanh"),
        Unread("hidden_act"),
        Same("attention_dropout", "dropout.attention", 0.0),
        OneOf("tie_word_embeddings", TIED, True),
        Same("final_logit_softcapping", "head.softcap", 30.0),
        Same("attn_logit_softcapping", "attention.softcap", 50.0),
        QueryScale(),
        Windows(),
        Only("use_bidirectional_attention", None),
        Rotation(),
        *NORMAL,
    ),
    tensors=Tensors(
        modules(
            {
                **MODULES,
                "layers.*.attention_out_norm": "model.layers.*.post_attention_layernorm",
                "layers.*.feedforward_norm": "model.layers.*.pre_feedforward_layernorm",
                "layers.*.feedforward_out_norm": "model.layers.*.post_feedforward_layernorm",
            }
        )
    ),
)
