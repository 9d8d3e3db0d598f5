"""Parameters are short, whole, and comparable."""

from labkit.tracking.mlflow.params import LONGEST, Varied, flat, name, short, text


def test_the_last_steps_that_tell_a_path_from_the_others_are_its_name() -> None:
    paths = ["model.norm.eps", "optimizer.eps", "model.position.theta"]
    assert list(short(dict.fromkeys(paths)).values()) == ["norm.eps", "optimizer.eps", "theta"]


def test_a_path_that_ends_another_stays_whole() -> None:
    assert short({"norm": 0, "model.norm": 0}) == {"norm": "norm", "model.norm": "model.norm"}


def test_values_that_span_a_decade_have_a_logarithm() -> None:
    rates = Varied.of({"arms": [{"varied": {"lr": 1e-3, "depth": 3}}, {"varied": {"lr": 1e-2, "depth": 4}}]})
    assert dict(rates.params({"lr": 1e-3, "depth": 3})) == {"lr": "0.001", "log10_lr": "-3", "depth": "3"}


def test_words_switches_and_zeros_have_none() -> None:
    arms = [{"varied": {"norm": "rms", "bias": True, "decay": 0.0}}, {"varied": {"norm": "layer", "bias": False}}]
    assert Varied.of({"arms": arms}).logarithmic == frozenset()


def test_a_spec_is_flattened_with_each_component_at_its_own_path() -> None:
    tree = {
        "model": {"norm": {"kind": "rms", "eps": 1e-6}, "pattern": [{"kind": "rope"}, {"kind": "none"}]},
        "b": [1, 2],
    }
    assert dict(flat(tree)) == {
        "model.norm": "rms",
        "model.norm.eps": 1e-6,
        "model.pattern.0": "rope",
        "model.pattern.1": "none",
        "b": [1, 2],
    }


def test_a_value_keeps_its_digits() -> None:
    values = [1e4, 0.1234567, 1e-5, None, True, [0.9, 0.95], {"kind": "rms", "eps": 1e-6}]
    assert list(map(text, values)) == ["10000", "0.1234567", "1e-05", "none", "true", "(0.9, 0.95)", "rms(eps=1e-06)"]


def test_a_long_value_is_cut_where_it_can_be_seen() -> None:
    assert text("x" * 9999) == "x" * (LONGEST - 1) + "…"


def test_a_name_holds_only_what_mlflow_takes() -> None:
    assert name("val/loss (x2), 5%") == "val/loss -x2-- 5-"
