"""Mistral: Llama without biases, in which every layer may see a window."""

from labkit.interop.architecture import Architecture
from labkit.interop.clauses import Same
from labkit.interop.heads import Heads
from labkit.interop.llama import COMMON, MODULES
from labkit.interop.tensors import Tensors, modules

MISTRAL = Architecture(
    model_type="mistral",
    name="MistralForCausalLM",
    prefix="model.",
    head="lm_head",
    clauses=(*COMMON, Heads(keys_default=8), Same("sliding_window", "attention.window", 4096)),
    tensors=Tensors(modules(MODULES)),
)
