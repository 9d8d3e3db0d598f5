"""An architecture of transformers: one table of config fields, one of tensors; read and written by the same entries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labkit.faults import explain
from labkit.interop.canonical import differences, resolved
from labkit.interop.clauses import REQUIRED, Clause, Config, Paths
from labkit.interop.tensors import Tensors
from labkit.model import ModelSpec
from labkit.spec import Mistake, ValidationError

WITHOUT_EFFECT = frozenset(
    (
        "_name_or_path",
        "architectures",
        "attn_implementation",
        "bos_token_id",
        "cache_implementation",
        "chunk_size_feed_forward",
        "classifier_dropout",
        "dtype",
        "eos_token_id",
        "gradient_checkpointing",
        "id2label",
        "is_decoder",
        "is_encoder_decoder",
        "label2id",
        "model_type",
        "n_ctx",
        "output_attentions",
        "output_hidden_states",
        "pad_token_id",
        "problem_type",
        "return_dict",
        "summary_activation",
        "summary_first_dropout",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
        "task_specific_params",
        "tokenizer_class",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "vocab_size",
    )
)
"""Fields of a config that say nothing of what tokens are mapped to which logits, or that are read elsewhere."""


@dataclass(frozen=True)
class Architecture:
    """What transformers calls a model type."""

    model_type: str
    name: str
    """The class that computes logits."""
    prefix: str
    """What stands before the names of the tensors that are not the head's; some files leave it out."""
    head: str
    """The head's module."""
    clauses: tuple[Clause, ...]
    tensors: Tensors
    buffers: str = r"rotary_emb\.inv_freq$"
    """Names of tensors that are computed from the config, and lie in older files."""

    def spec(self, given: Mapping[str, Any]) -> ModelSpec:
        """The spec of a config.json. Raises Mistake for a field or a value that labkit has no counterpart to."""
        defaults = {name: value for clause in self.clauses for name, value in clause.fields.items()}
        for name, value in given.items():
            if name not in defaults and name not in WITHOUT_EFFECT:
                raise Mistake(
                    f"config.json: {name} = {value!r} is no field that labkit knows of {self.model_type}. "
                    f"Remove it from config.json if it changes nothing."
                )
        config = Config(given, defaults)
        paths: Paths = {}
        origins: dict[str, str] = {}
        for clause in self.clauses:
            read = clause.read(config)
            paths |= read
            origins |= dict.fromkeys(read, " or ".join(name for name in clause.fields if name in given))
        try:
            return ModelSpec.from_json(_tree(paths))
        except ValidationError as error:
            at = [".".join(map(str, detail["loc"])) for detail in error.errors()]
            said = ", ".join(dict.fromkeys(origins[path] for path in at if origins.get(path)))
            place = f"config.json: {said}" if said else "config.json"
            raise Mistake(f"{place} makes a model that labkit cannot build: {explain(error, ModelSpec)}") from error

    def config(self, spec: ModelSpec) -> dict[str, Any]:
        """The fields for a spec, as far as the architecture has them. Raises Mistake where it cannot be that size."""
        layers = resolved(spec)
        return {name: value for clause in self.clauses for name, value in clause.write(layers).items()}

    def faults(self, spec: ModelSpec) -> dict[str, tuple[str, str]]:
        """Where the spec and the nearest that the architecture can express differ; empty: it can express this one.

        Raises Mistake where there is none near.
        """
        config = self.config(spec)
        needed = {name for clause in self.clauses for name, default in clause.fields.items() if default is REQUIRED}
        stand_ins = dict.fromkeys(needed - config.keys(), spec.d_model)  # sizes of a component that is not theirs
        return differences(spec, self.spec(stand_ins | config))


def _tree(paths: Paths) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in paths.items():
        *parents, last = path.split(".")
        at = tree
        for step in parents:
            at = at.setdefault(step, {})
        at[last] = value
    return tree
