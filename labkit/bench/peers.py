"""Whole training steps without labkit: plain PyTorch, torch.compile, that in a CUDA graph, Hugging Face with Liger."""

import importlib
import importlib.util
from typing import Any

import torch
from torch import Tensor, nn

from labkit.bench.case import liger
from labkit.bench.contender import Contender, Plain
from labkit.bench.llama import Llama


class Missing(Exception):
    """What has to be installed for a contender to take part."""


class Written(Plain):
    """Plain PyTorch as it is written."""

    def model(self) -> nn.Module:
        return Llama(self.setup)


class Compiled(Written):
    """Its forward and backward pass by torch.compile."""

    how = "compiled"

    def executed(self, model: nn.Module) -> Any:
        """As for a variant that was never seen: what was compiled in earlier processes does not count."""
        config: Any = importlib.import_module("torch._inductor.config")
        config.force_disable_caches = True
        return torch.compile(model, dynamic=False)


class CompiledCaptured(Compiled):
    """The whole step of that, with its optimizer, as one CUDA graph."""

    how = "captured"
    is_compiled = False

    def build(self) -> None:
        if not self.is_compiled:
            super().build()
        self.capture()

    @classmethod
    def of(cls, compiled: Compiled) -> "CompiledCaptured":
        """With what another has compiled, on the same weights."""
        made = cls(compiled.setup, compiled.device)
        made.losses, made.masters = compiled.losses, compiled.masters
        made.batches, made.tokens_BT, made.is_compiled = compiled.batches, compiled.tokens_BT, True
        return made

    def capture(self) -> None:
        """After three steps that load what there is to load."""
        stream = torch.cuda.current_stream()
        with torch.autograd.set_multithreading_enabled(False):
            for _ in range(3):
                self.passes()
            stream.synchronize()
            torch.cuda.empty_cache()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"):
                self.passes()

    def take(self, number: int, tokens_BT: Tensor) -> None:
        self.tokens_BT.copy_(tokens_BT, non_blocking=True)
        self.graph.replay()


class HuggingFace(nn.Module):
    """A model of `transformers`, which shifts its labels itself."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        return self.model(input_ids=tokens_BT, labels=tokens_BT, use_cache=False).loss


class Liger(Plain):
    """Hugging Face's Llama with Liger's norms, rotation, gated unit, and head with loss."""

    def model(self) -> nn.Module:
        apply: Any = liger("transformers.apply_liger_kernel_to_llama")
        if apply is None or importlib.util.find_spec("transformers") is None:
            raise Missing("transformers or liger_kernel not installed (pip install transformers liger-kernel)")
        transformers: Any = importlib.import_module("transformers")
        transformers.logging.set_verbosity_error()
        sizes = self.setup.sizes
        config = transformers.LlamaConfig(
            vocab_size=sizes.vocab_size,
            hidden_size=sizes.width,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.shared,
            intermediate_size=sizes.d_ff,
            max_position_embeddings=self.setup.context,
            tie_word_embeddings=True,
            attn_implementation="sdpa",
        )
        model = transformers.LlamaForCausalLM(config)
        apply(rope=True, swiglu=True, rms_norm=True, fused_linear_cross_entropy=True, cross_entropy=False, model=model)
        return HuggingFace(model)


PEERS: dict[str, type[Contender]] = {
    "torch-eager": Written,
    "compile": Compiled,
    "compile-captured": CompiledCaptured,
    "liger": Liger,
}
