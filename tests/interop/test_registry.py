"""Which architecture a spec goes to, and what stands in the way of those that none can express."""

import pytest

from labkit.interop import ARCHITECTURES
from labkit.interop.registry import fitting, named
from labkit.model import ModelSpec
from labkit.spec import Mistake

LLAMA = ModelSpec.from_json(
    {
        "d_model": 32,
        "n_layers": 2,
        "context": 16,
        "norm": "rms",
        "residual": "pre",
        "attention": {"kind": "gqa", "n_heads": 4, "n_kv_heads": 2},
        "feedforward": "swiglu",
        "position": {"kind": "rope", "layout": "interleaved"},
        "head": "tied",
        "init": "normal",
    }
)


@pytest.mark.parametrize(
    ("changes", "model_type"),
    [
        ({}, "llama"),
        ({"position.scaling": {"kind": "ntk", "factor": 4.0}}, "llama"),
        ({"init": "mitchell", "dropout": 0.1, "loss.z": 1e-4}, "llama"),
        ({"parametrization": {"kind": "mup", "base_width": 32}}, "llama"),
        ({"attention.window": 5}, "mistral"),
        ({"attention.bias": True}, "qwen2"),
        ({"attention.qk_norm": "rms"}, "qwen3"),
        ({"attention.qk_norm": "rms", "pattern": ({"attention.window": 5}, {})}, "qwen3"),
        ({"attention.qk_norm": "rms", "attention.qk_norm_over": "all_heads", "residual": "reordered"}, "olmo2"),
    ],
)
def test_the_architecture_is_the_one_that_expresses_the_spec(changes: dict[str, object], model_type: str) -> None:
    assert fitting(LLAMA.patched(changes)).model_type == model_type


@pytest.mark.parametrize(
    ("changes", "way"),
    [
        ({"attention.sinks": True}, "nearest is llama, but\nmodel.attention.sinks: True here, False there"),
        ({"norm": "layer"}, "nearest is llama, but\nmodel.norm: layer here, rms"),
        ({"residual.scale": "rezero"}, "model.residual.scale: rezero"),
        ({"parametrization": {"kind": "mup", "base_width": 16}}, "model.parametrization: mup(base_width=16) here"),
        ({"pattern": ({"position": "none"}, {})}, "model.position: "),
        ({"attention": {"kind": "mla", "n_heads": 4}}, "model.attention: mla"),
        (
            {"feedforward": {"kind": "moe", "n_experts": 4, "top_k": 1}},
            "nearest is llama, but\nmodel.feedforward: moe(n_experts=4, top_k=1) here, swiglu",
        ),
        ({"attention.qk_norm": {"kind": "rms", "eps": 1e-3}}, "nearest is qwen3, but\nmodel.attention.qk_norm.eps: "),
    ],
)
def test_a_spec_that_none_expresses_is_refused_with_what_stands_in_the_way(
    changes: dict[str, object], way: str
) -> None:
    with pytest.raises(Mistake, match="no architecture of transformers") as refused:
        fitting(LLAMA.patched(changes))
    assert way in str(refused.value)


CONFIG = {"model_type": "llama", **ARCHITECTURES["llama"].config(LLAMA), "vocab_size": 10}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("hidden_act", "mish", "hidden_act = 'mish'"),
        ("quantization_config", {"bits": 4}, "quantization_config = {'bits': 4}"),
        ("pretraining_tp", 2, "pretraining_tp = 2"),
        ("tie_word_embeddings", "yes", "tie_word_embeddings = 'yes'"),
        ("rope_parameters", {"rope_type": "dynamic", "factor": 2.0}, "rope_type = 'dynamic'"),
        ("rope_parameters", {"rope_type": "default", "sections": [1, 2]}, "rope_parameters.sections = [1, 2]"),
        ("rope_parameters", {"rope_type": "llama3"}, "rope_parameters.factor is missing"),
        ("rope_parameters", {"rope_type": "llama3", "factor": 8.0}, "rope_parameters.low_freq_factor is missing"),
        ("rope_parameters", {"rope_type": "linear", "factor": None}, "rope_parameters.factor is missing; linear rope"),
        ("rope_parameters", {"rope_type": "yarn"}, "rope_parameters.factor is missing; yarn rope needs it"),
        ("rope_parameters", {"rope_type": "yarn", "factor": None}, "rope_parameters.factor = None needs original_max"),
        (
            "rope_parameters",
            {"rope_theta": -1.0},
            "position.theta: Input should be greater than or equal to 1 (got -1.0)",
        ),
        ("rope_parameters", {"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
        ("num_key_value_heads", 3, "n_kv_heads 3 does not divide n_heads 4"),
        ("num_key_value_heads", 0, "num_key_value_heads = 0 is no count"),
        ("num_attention_heads", "4", "num_attention_heads = '4' is no count"),
        ("head_dim", {}, "head_dim = {} is no count"),
        ("hidden_size", None, "hidden_size = None is no count"),
        ("num_hidden_layers", 1.5, "config.json: num_hidden_layers makes a model that labkit cannot build: n_layers: "),
        ("rms_norm_eps", "1e-6", "config.json: rms_norm_eps makes a model that labkit cannot build: norm.eps: "),
        ("attention_bias", None, "config.json: attention_bias makes a model"),
        ("rope_parameters", "linear", "rope_parameters = 'linear' is no object"),
        ("rope_parameters", {"rope_type": ["yarn"]}, "rope_type = ['yarn']"),
        (
            "rope_parameters",
            {"rope_type": "yarn", "original_max_position_embeddings": 0},
            "rope_parameters.original_max_position_embeddings = 0 is no count",
        ),
        (
            "rope_parameters",
            {"rope_type": "yarn", "factor": 2, "mscale": "x", "mscale_all_dim": 1},
            "rope_parameters.mscale = 'x' is no number above 0",
        ),
    ],
)
def test_a_value_that_labkit_has_no_counterpart_to_is_named(field: str, value: object, said: str) -> None:
    with pytest.raises(Mistake) as refused:
        ARCHITECTURES["llama"].spec({**CONFIG, field: value})
    assert said in str(refused.value)


WRONG = (None, True, "", "4", 0, -1, 1.5, float("nan"), 1e300, 2**70, [], [1], ["full_attention", 5], {}, {"a": 1})


@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_no_value_of_any_field_is_more_than_a_mistake(model_type: str) -> None:
    architecture = ARCHITECTURES[model_type]
    sizes: dict[str, object] = {
        name: value for name, value in CONFIG.items() if name in ("hidden_size", "intermediate_size", "vocab_size")
    }
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 16, "num_key_value_heads": 4}
    sizes |= {"n_embd": 32, "n_layer": 2, "n_positions": 16, "n_head": 4, "rotary_dim": 4}
    known = {name for clause in architecture.clauses for name in clause.fields}
    config = {name: value for name, value in sizes.items() if name in known}
    architecture.spec(config)
    for name in sorted(known):
        for value in WRONG:
            try:
                architecture.spec({**config, name: value})
            except Mistake as mistake:
                assert "config.json" in str(mistake)  # noqa: PT017 (most are refused, and some are as good as null)


def test_a_missing_size_and_an_unknown_architecture_are_named() -> None:
    with pytest.raises(Mistake, match="hidden_size is missing"):
        ARCHITECTURES["llama"].spec({key: value for key, value in CONFIG.items() if key != "hidden_size"})
    for model_type in ("mamba", ["llama"]):
        with pytest.raises(Mistake, match=r"config\.json: model_type = "):
            named({"model_type": model_type})


@pytest.mark.parametrize(("original", "factor"), [(8, 2.0), (16, 1.0)])
def test_yarns_factor_is_the_ratio_of_the_lengths_where_it_is_null(original: int, factor: float) -> None:
    yarn = {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": original}
    spec = ARCHITECTURES["llama"].spec({**CONFIG, "max_position_embeddings": 16, "rope_parameters": yarn})
    assert f"scaling=yarn(factor={factor:g}" in spec.position.label


def test_configs_of_older_versions_are_read_alike() -> None:
    older = {key: value for key, value in CONFIG.items() if key != "rope_parameters"}
    scaling = {"type": "linear", "factor": 2.0}
    old = ARCHITECTURES["llama"].spec({**older, "rope_theta": 5e5, "rope_scaling": scaling, "torch_dtype": "bfloat16"})
    new = ARCHITECTURES["llama"].spec({**CONFIG, "rope_parameters": {**scaling, "rope_theta": 5e5}})
    assert old == new
    assert old.position.label == "rope(theta=500000, scaling=linear(factor=2))"
