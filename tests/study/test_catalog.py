"""What an experiment may be made of, told in tables and in JSON."""

import re

import pytest

import labkit
from labkit.spec import Mistake
from labkit.study.catalog import catalog_as_json, show_catalog
from labkit.tracking.console import Console
from labkit.train.run import RunSpec


def told(capsys: pytest.CaptureFixture[str], *names: str) -> str:
    show_catalog(Console(), names)
    return capsys.readouterr().out


def test_every_path_of_a_run_spec_is_a_familys_or_a_field_of_its_own() -> None:
    catalog = catalog_as_json()
    tops = {path.split(".")[0] for family in catalog["families"].values() for path in family["paths"]}
    tops |= {path.split(".")[0] for path in catalog["fields"]}
    assert tops == set(RunSpec.model_fields)
    assert catalog["families"]["Norm"]["paths"][:2] == ["model.norm", "model.attention.qk_norm"]
    assert catalog["families"]["FeedForward"]["paths"] == ["model.feedforward", "model.feedforward.expert"]
    assert {"model.d_model", "model.pattern", "clip", "seed.init"} <= set(catalog["fields"])
    public = [word for word in labkit.__all__ if word in catalog["families"]]
    assert [word for word in public if not catalog["families"][word]["paths"]] == ["Pruner", "Sampler"]  # a sweep's


def test_fields_that_all_of_a_family_have_are_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    listed = told(capsys)
    assert listed.count("qk_norm_over=head|all_heads") == 1
    assert re.search(r"^ gqa .* n_kv_heads$", listed, re.MULTILINE)
    assert re.search(r"^ wsd .* decay=0\.2, final=0, shape=linear\|sqrt$", listed, re.MULTILINE)


@pytest.mark.parametrize("name", ["Position", "position", "model.position"])
def test_a_family_is_found_by_its_name_and_by_its_path(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    listed = told(capsys, name)
    assert re.findall(r"^(\S+)  ", listed, re.MULTILINE)[0] == "Position"
    assert re.search(r"^ theta +10000 +rope, sinusoidal$", listed, re.MULTILINE)
    assert re.search(r"^ rotary\(self, head_dim, place\) +What queries and keys pass through", listed, re.MULTILINE)


def test_what_a_class_of_ones_own_needs_stands_first(capsys: pytest.CaptureFixture[str]) -> None:
    listed = told(capsys, "FeedForward")
    [needed, free] = re.findall(r"^ (\w+)\(self.*$", listed, re.MULTILINE)
    assert (needed, free) == ("build", "fault")
    assert re.search(r"^ build\(self, width, place\) +needed +A module x_BTD -> x_BTD\.$", listed, re.MULTILINE)


def test_a_kind_is_told_alone_with_what_its_fields_mean(capsys: pytest.CaptureFixture[str]) -> None:
    listed = told(capsys, "gelu")
    assert re.search(r"^ multiplier +4 +d_ff = multiplier · d_model", listed, re.MULTILINE)
    assert not re.search(r"^ (moe|swiglu|build)", listed, re.MULTILINE)
    assert list(catalog_as_json(["gelu"])["families"]["FeedForward"]["variants"]) == ["gelu"]


def test_a_kind_of_several_families_is_told_in_each() -> None:
    families = catalog_as_json(["none", "linear"])["families"]
    assert {"Norm", "Position", "Gate", "BranchScale", "RopeScaling", "Schedule"} <= set(families)
    assert set(families["RopeScaling"]["variants"]) == {"none", "linear"}


def test_a_new_default_leaves_what_a_field_means() -> None:
    variants = catalog_as_json(["swiglu", "gelu"])["families"]["FeedForward"]["variants"]
    assert variants["swiglu"]["docs"]["multiplier"] == variants["gelu"]["docs"]["multiplier"]
    assert variants["swiglu"]["fields"]["multiplier"] != variants["gelu"]["fields"]["multiplier"]


def test_fields_without_a_family_are_found_by_their_path_or_a_part_of_it() -> None:
    assert set(catalog_as_json(["loss"])["fields"]) == {"model.loss.z", "model.loss.label_smoothing"}
    assert set(catalog_as_json(["clip"])["fields"]) == {"clip"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("swiglu2", " Did you mean 'swiglu', 'glu' or 'silu'?"),
        ("RMSNorm", " Did you mean 'Norm', 'rms' or 'random'?"),
        ("Attenton", " Did you mean 'Attention'?"),
        ("zzz", ""),
    ],
)
def test_a_name_that_nothing_has_is_refused_with_the_nearest_and_where_all_are(name: str, meant: str) -> None:
    with pytest.raises(Mistake) as refused:
        catalog_as_json([name])
    told = f"{name}: no family, kind or field has this name.{meant} `labkit components` shows all there is."
    assert str(refused.value) == told
