"""Qwen 2: Llama with biases on queries, keys and values, in which the upper layers may see a window."""

from labkit.interop.architecture import Architecture
from labkit.interop.clauses import Always
from labkit.interop.heads import Heads, UpperWindows
from labkit.interop.llama import COMMON, MODULES
from labkit.interop.tensors import Tensors, modules

QWEN2 = Architecture(
    model_type="qwen2",
    name="Qwen2ForCausalLM",
    prefix="model.",
    head="lm_head",
    clauses=(*COMMON, Heads(keys_default=32), Always({"attention.bias": True}), UpperWindows()),
    tensors=Tensors(modules(MODULES)),
)
