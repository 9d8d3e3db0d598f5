"""OLMo 2: only what a branch adds is normalised; queries and keys are, over all heads together."""

from labkit.interop.architecture import Architecture
from labkit.interop.clauses import Always, Same
from labkit.interop.heads import Heads
from labkit.interop.llama import ATTENTION_BIAS, COMMON, MODULES
from labkit.interop.tensors import Tensors, modules

OLMO2 = Architecture(
    model_type="olmo2",
    name="Olmo2ForCausalLM",
    prefix="model.",
    head="lm_head",
    clauses=(
        *COMMON,
        Heads(head_dim=""),
        ATTENTION_BIAS,
        Always({"residual.kind": "reordered"}),
        Always({"attention.qk_norm.kind": "rms", "attention.qk_norm_over": "all_heads"}),
        Same("rms_norm_eps", "norm.eps", 1e-5, also=("attention.qk_norm.eps",)),
    ),
    tensors=Tensors(
        modules(
            {
                **MODULES,
                "layers.*.attention.qk_norm.query": "model.layers.*.self_attn.q_norm",
                "layers.*.attention.qk_norm.key": "model.layers.*.self_attn.k_norm",
                "layers.*.attention_norm": "model.layers.*.post_attention_layernorm",
                "layers.*.feedforward_norm": "model.layers.*.post_feedforward_layernorm",
            }
        )
    ),
)
