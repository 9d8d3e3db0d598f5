"""Llama, and what its descendants share with it."""

from labkit.interop.architecture import Architecture
from labkit.interop.clauses import GATED, TIED, Always, Clause, OneOf, Only, Same
from labkit.interop.heads import Heads
from labkit.interop.rope import Rotation
from labkit.interop.tensors import Tensors, modules

SIZES: tuple[Clause, ...] = (
    Same("hidden_size", "d_model"),
    Same("num_hidden_layers", "n_layers"),
    Same("max_position_embeddings", "context"),
    Same("intermediate_size", "feedforward.d_ff"),
)
NORMAL: tuple[Clause, ...] = (Always({"init.kind": "normal"}), Same("initializer_range", "init.std", 0.02))
ATTENTION_BIAS = Same("attention_bias", "attention.output_bias", False, also=("attention.bias",))
COMMON: tuple[Clause, ...] = (
    *SIZES,
    Always({"norm.kind": "rms", "residual.kind": "pre"}),
    Same("rms_norm_eps", "norm.eps", 1e-6),
    OneOf("hidden_act", GATED, "silu"),
    Same("attention_dropout", "dropout.attention", 0.0),
    OneOf("tie_word_embeddings", TIED, False),
    Rotation(),
    *NORMAL,
)
"""Pre-norm with RMSNorm, gated feed-forward, rotary positions."""

MODULES = {
    "embedding": "model.embed_tokens",
    "layers.*.attention_norm": "model.layers.*.input_layernorm",
    "layers.*.attention.query": "model.layers.*.self_attn.q_proj",
    "layers.*.attention.key": "model.layers.*.self_attn.k_proj",
    "layers.*.attention.value": "model.layers.*.self_attn.v_proj",
    "layers.*.attention.output": "model.layers.*.self_attn.o_proj",
    "layers.*.feedforward_norm": "model.layers.*.post_attention_layernorm",
    "layers.*.feedforward.gate": "model.layers.*.mlp.gate_proj",
    "layers.*.feedforward.up": "model.layers.*.mlp.up_proj",
    "layers.*.feedforward.down": "model.layers.*.mlp.down_proj",
    "norm": "model.norm",
    "head.project": "lm_head",
}

LLAMA = Architecture(
    model_type="llama",
    name="LlamaForCausalLM",
    prefix="model.",
    head="lm_head",
    clauses=(
        *COMMON,
        Heads(divides=True),
        ATTENTION_BIAS,
        Same("mlp_bias", "feedforward.bias", False),
        Only("pretraining_tp", 1),
    ),
    tensors=Tensors(modules(MODULES)),
)
