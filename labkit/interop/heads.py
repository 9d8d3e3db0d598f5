"""How many heads there are and how wide they are, and which layers see how far."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labkit.interop.clauses import REQUIRED, Clause, Config, Layers, Paths
from labkit.spec import Mistake


@dataclass(frozen=True)
class Heads(Clause):
    """Attention's heads; names of fields that an architecture does not have are empty."""

    width: str = "hidden_size"
    queries: str = "num_attention_heads"
    keys: str = "num_key_value_heads"
    head_dim: str = "head_dim"
    keys_default: int | None = None
    head_dim_default: int | None = None
    divides: bool = False
    """Whether transformers wants d_model to be a multiple of the heads, even where head_dim is given."""

    @property
    def fields(self) -> Mapping[str, Any]:
        optional = {self.queries: REQUIRED, self.keys: self.keys_default, self.head_dim: self.head_dim_default}
        return {name: default for name, default in optional.items() if name}

    def read(self, config: Config) -> Paths:
        width, queries = config.size(self.width), config.size(self.queries)
        keys = (self.keys and config.size_if_any(self.keys)) or queries
        head_dim = self.head_dim and config.size_if_any(self.head_dim)
        paths: Paths = {"attention.kind": "mha", "attention.n_heads": queries}
        if keys != queries:
            paths |= {"attention.kind": "gqa", "attention.n_kv_heads": keys}
        if head_dim and head_dim * queries != width:
            paths["attention.head_dim"] = head_dim
        return paths

    def write(self, layers: Layers) -> dict[str, Any]:
        attention, width = layers[0].attention, layers[0].d_model
        if self.divides and width % attention.n_heads:
            raise Mistake(f"attention.n_heads: {attention.n_heads} does not divide d_model {width}")
        head_dim = attention.width_of_head(width)
        written = {self.queries: attention.n_heads, self.keys: attention.kv_heads, self.head_dim: head_dim}
        return {name: value for name, value in written.items() if name}


@dataclass(frozen=True)
class Windows(Clause):
    """``layer_types``, a word a layer: those that slide see ``sliding_window`` tokens."""

    window_default: int | None = 4096

    @property
    def fields(self) -> Mapping[str, Any]:
        return {"sliding_window": self.window_default, "layer_types": None}

    def read(self, config: Config) -> Paths:
        window = config.size_if_any("sliding_window")
        return pattern([window if slides else None for slides in self.sliding(config)])

    def sliding(self, config: Config) -> list[bool]:
        """Whether each layer slides."""
        words = {"full_attention": False, "sliding_attention": True}
        types = config["layer_types"]
        if types is None:
            return self.unsaid(config)
        layers = config.size("num_hidden_layers")
        if not isinstance(types, list):
            raise Mistake(f"config.json: layer_types = {types!r} is no list; write a word for each of {layers} layers")
        if unknown := [word for word in types if word not in list(words)]:
            raise Mistake(f"config.json: layer_types has {unknown[0]!r}, labkit knows {' and '.join(words)}")
        if len(types) != layers:
            raise Mistake(f"config.json: layer_types has {len(types)} entries for {layers} layers")
        return [words[word] for word in types]

    def unsaid(self, config: Config) -> list[bool]:
        """Which layers slide where the config does not say it: every other one, the first among them (Gemma 2)."""
        return [layer % 2 == 0 for layer in range(config.size("num_hidden_layers"))]

    def write(self, layers: Layers) -> dict[str, Any]:
        windows = [layer.attention.window for layer in layers]
        types = ["full_attention" if window is None else "sliding_attention" for window in windows]
        widest = max((each for each in windows if each), default=self.window_default)
        return {"layer_types": types, "sliding_window": widest}


@dataclass(frozen=True)
class UpperWindows(Windows):
    """Qwen's: with ``use_sliding_window``, the layers from ``max_window_layers`` on slide, unless layer_types says."""

    max_default: int = 28
    """Of ``max_window_layers``."""

    @property
    def fields(self) -> Mapping[str, Any]:
        return {**super().fields, "use_sliding_window": False, "max_window_layers": self.max_default}

    def read(self, config: Config) -> Paths:
        if config["use_sliding_window"]:
            return super().read(config)
        if any(self.sliding(config)):
            raise Mistake("config.json: use_sliding_window = False, but layer_types has 'sliding_attention'")
        return {}

    def unsaid(self, config: Config) -> list[bool]:
        first = config["max_window_layers"]
        if type(first) is not int:
            raise Mistake(f"config.json: max_window_layers = {first!r} is no whole number; write one")
        slides = config["use_sliding_window"] and config["sliding_window"] is not None
        return [slides and layer >= first for layer in range(config.size("num_hidden_layers"))]

    def write(self, layers: Layers) -> dict[str, Any]:
        written = super().write(layers)
        slides = "sliding_attention" in written["layer_types"]
        return {**written, "use_sliding_window": slides, "max_window_layers": len(layers)}


def pattern(windows: list[int | None]) -> Paths:
    """The window of every layer as a spec has it: one for all, or the shortest cycle of them."""
    if len(set(windows)) == 1:
        return {"attention.window": windows[0]}
    n_layers = len(windows)
    period = next(p for p in range(2, n_layers + 1) if all(windows[i] == windows[i % p] for i in range(n_layers)))
    return {"pattern": [{} if window is None else {"attention.window": window} for window in windows[:period]]}
