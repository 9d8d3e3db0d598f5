"""Qwen 3: Llama with a norm of each head's queries and keys, in which the upper layers may see a window."""

from labkit.interop.architecture import Architecture
from labkit.interop.clauses import Always, Same
from labkit.interop.heads import Heads, UpperWindows
from labkit.interop.llama import ATTENTION_BIAS, COMMON, MODULES
from labkit.interop.tensors import Tensors, modules

QWEN3 = Architecture(
    model_type="qwen3",
    name="Qwen3ForCausalLM",
    prefix="model.",
    head="lm_head",
    clauses=(
        *COMMON,
        Heads(keys_default=32, head_dim_default=128),
        ATTENTION_BIAS,
        Always({"attention.qk_norm.kind": "rms"}),
        Same("rms_norm_eps", "norm.eps", 1e-6, also=("attention.qk_norm.eps",)),
        UpperWindows(),
    ),
    tensors=Tensors(
        modules(
            {
                **MODULES,
                "layers.*.attention.qk_norm.query": "model.layers.*.self_attn.q_norm",
                "layers.*.attention.qk_norm.key": "model.layers.*.self_attn.k_norm",
            }
        )
    ),
)
