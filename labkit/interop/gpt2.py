"""GPT-2: learned positions, layer norm, biases everywhere, matrices that lie as (in, out)."""

from labkit.interop.architecture import Architecture
from labkit.interop.clauses import PLAIN, TIED, Always, Clause, Inner, OneOf, Only, Same
from labkit.interop.heads import Heads
from labkit.interop.tensors import Modules, Tensors, Transposed, modules

SIZES: tuple[Clause, ...] = (
    Same("n_embd", "d_model"),
    Same("n_layer", "n_layers"),
    Same("n_positions", "context"),
    Heads(width="n_embd", queries="n_head", keys="", head_dim=""),
    Inner(),
    Same("layer_norm_epsilon", "norm.eps", 1e-5),
    OneOf("activation_function", PLAIN, "gelu_new"),
)
"""What GPT-J shares."""


def dropouts(rate: float) -> tuple[Clause, ...]:
    """All three, with the default that an architecture has."""
    fields = {"resid_pdrop": "residual", "embd_pdrop": "embedding", "attn_pdrop": "attention"}
    return tuple(Same(field, f"dropout.{name}", rate) for field, name in fields.items())


ATTENTION = "layers.*.attention"
UNSCALED = {"attention.scale.kind": "fixed", "attention.scale.value": 1.0}

GPT2 = Architecture(
    model_type="gpt2",
    name="GPT2LMHeadModel",
    prefix="transformer.",
    head="lm_head",
    clauses=(
        *SIZES,
        *dropouts(0.1),
        Always({"norm.kind": "layer", "residual.kind": "pre", "position.kind": "learned", "feedforward.bias": True}),
        Always({"attention.bias": True, "attention.output_bias": True, "init.kind": "scaled_residual"}),
        Same("initializer_range", "init.std", 0.02),
        OneOf("tie_word_embeddings", TIED, True),
        OneOf("scale_attn_weights", {False: UNSCALED, True: {}}, True),
        Only("scale_attn_by_inverse_layer_idx", False),
        Only("reorder_and_upcast_attn", False),
        Only("add_cross_attention", False),
    ),
    tensors=Tensors(
        (
            *modules({"embedding": "transformer.wte", "position": "transformer.wpe"}),
            *modules({"layers.*.attention_norm": "transformer.h.*.ln_1"}),
            Modules(
                "transformer.h.*.attn.c_attn",
                (f"{ATTENTION}.query", f"{ATTENTION}.key", f"{ATTENTION}.value"),
                Transposed(),
            ),
            Modules("transformer.h.*.attn.c_proj", (f"{ATTENTION}.output",), Transposed()),
            *modules({"layers.*.feedforward_norm": "transformer.h.*.ln_2"}),
            Modules("transformer.h.*.mlp.c_fc", ("layers.*.feedforward.up",), Transposed()),
            Modules("transformer.h.*.mlp.c_proj", ("layers.*.feedforward.down",), Transposed()),
            *modules({"norm": "transformer.ln_f", "head.project": "lm_head"}),
        )
    ),
    buffers=r"\.attn\.(masked_)?bias$",
)
