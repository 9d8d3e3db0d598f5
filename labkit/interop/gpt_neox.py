"""GPT-NeoX: both branches read the same sum, each through a norm of its own; a part of each head turns."""

from labkit.interop.architecture import Architecture
from labkit.interop.clauses import PLAIN, TIED, Always, OneOf, Same
from labkit.interop.heads import Heads
from labkit.interop.llama import NORMAL, SIZES
from labkit.interop.rope import Rotation
from labkit.interop.tensors import ByHead, Modules, Tensors, modules

PARALLEL = {"residual.kind": "parallel", "residual.shared_norm": False}
ATTENTION = "layers.*.attention"

GPT_NEOX = Architecture(
    model_type="gpt_neox",
    name="GPTNeoXForCausalLM",
    prefix="gpt_neox.",
    head="embed_out",
    clauses=(
        *SIZES,
        Heads(keys="", head_dim=""),
        Always({"norm.kind": "layer", "feedforward.bias": True}),
        Same("layer_norm_eps", "norm.eps", 1e-5),
        OneOf("hidden_act", PLAIN, "gelu"),
        OneOf("use_parallel_residual", {True: PARALLEL, False: {"residual.kind": "pre"}}, True),
        Same("attention_bias", "attention.output_bias", True, also=("attention.bias",)),
        Same("attention_dropout", "dropout.attention", 0.0),
        Same("hidden_dropout", "dropout.residual", 0.0, also=("dropout.embedding",)),
        OneOf("tie_word_embeddings", TIED, False),
        Rotation(theta="rotary_emb_base", share="rotary_pct", is_partial=True, share_default=0.25),
        *NORMAL,
    ),
    tensors=Tensors(
        (
            *modules(
                {
                    "embedding": "gpt_neox.embed_in",
                    "layers.*.attention_norm": "gpt_neox.layers.*.input_layernorm",
                    "layers.*.feedforward_norm": "gpt_neox.layers.*.post_attention_layernorm",
                    "layers.*.attention.output": "gpt_neox.layers.*.attention.dense",
                    "layers.*.feedforward.up": "gpt_neox.layers.*.mlp.dense_h_to_4h",
                    "layers.*.feedforward.down": "gpt_neox.layers.*.mlp.dense_4h_to_h",
                    "norm": "gpt_neox.final_layer_norm",
                    "head.project": "embed_out",
                }
            ),
            Modules(
                "gpt_neox.layers.*.attention.query_key_value",
                (f"{ATTENTION}.query", f"{ATTENTION}.key", f"{ATTENTION}.value"),
                ByHead(),
            ),
        )
    ),
    buffers=r"rotary_emb\.inv_freq$|\.attention\.(masked_)?bias$",
)
