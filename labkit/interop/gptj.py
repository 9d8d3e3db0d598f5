"""GPT-J: both branches read the same sum through one norm; neighbouring features turn; the head has a bias."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labkit.components.position import Rope
from labkit.interop.architecture import Architecture
from labkit.interop.canonical import fraction_of
from labkit.interop.clauses import Always, Clause, Config, Layers, Only, Paths
from labkit.interop.gpt2 import SIZES, dropouts
from labkit.interop.llama import NORMAL
from labkit.interop.tensors import Tensors, modules
from labkit.spec import Mistake


@dataclass(frozen=True)
class RotaryDim(Clause):
    """How many features of each head turn, of which two neighbours make a pair; all where it is null."""

    @property
    def fields(self) -> Mapping[str, Any]:
        return {"rotary_dim": 64}

    def read(self, config: Config) -> Paths:
        width, n_heads = config.size("n_embd"), config.size("n_head")
        if width % n_heads:
            raise Mistake(f"config.json: n_head = {n_heads} does not divide n_embd {width}; choose a divisor")
        head_dim = width // n_heads
        fraction = fraction_of(config.size_if_any("rotary_dim") or head_dim, head_dim)
        paths = {"position.kind": "rope", "position.layout": "interleaved", "position.theta": 10_000.0}
        return {**paths, "position.fraction": fraction}

    def write(self, layers: Layers) -> dict[str, Any]:
        rope, head_dim = layers[0].position, layers[0].attention.width_of_head(layers[0].d_model)
        return {"rotary_dim": rope.rotated(head_dim)} if isinstance(rope, Rope) else {}


GPTJ = Architecture(
    model_type="gptj",
    name="GPTJForCausalLM",
    prefix="transformer.",
    head="lm_head",
    clauses=(
        *SIZES,
        *dropouts(0.0),
        RotaryDim(),
        Always({"norm.kind": "layer", "residual.kind": "parallel", "residual.shared_norm": True}),
        Always({"feedforward.bias": True, "head.kind": "untied", "head.bias": True}),
        Only("tie_word_embeddings", False),
        Only("rotary", True),
        Only("scale_attn_weights", True),
        *NORMAL,
    ),
    tensors=Tensors(
        modules(
            {
                "embedding": "transformer.wte",
                "layers.*.attention_norm": "transformer.h.*.ln_1",
                "layers.*.attention.query": "transformer.h.*.attn.q_proj",
                "layers.*.attention.key": "transformer.h.*.attn.k_proj",
                "layers.*.attention.value": "transformer.h.*.attn.v_proj",
                "layers.*.attention.output": "transformer.h.*.attn.out_proj",
                "layers.*.feedforward.up": "transformer.h.*.mlp.fc_in",
                "layers.*.feedforward.down": "transformer.h.*.mlp.fc_out",
                "norm": "transformer.ln_f",
                "head.project": "lm_head",
            }
        ),
        turns="interleaved",
    ),
    buffers=r"\.attn\.((masked_)?bias|embed_positions)$",
)
