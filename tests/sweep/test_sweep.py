import re

import pytest

from labkit.spec import Mistake
from labkit.sweep.loading import load_sweep
from tests.sweep.conftest import SEARCH, Write, made

COMPARE = """
sweep = Sweep(base=pico, scientific={"model.norm": ["rms", "layer"]}, nuisance={"optimizer.lr": log_uniform(1e-3, 1)},
              trials=4, minimize="val/loss", mode="compare", seeds=2)
"""


def changed(old: str, new: str, code: str = SEARCH) -> str:
    assert old in code
    return code.replace(old, new)


def test_a_study_is_named_by_the_sweep_and_by_what_is_searched(write_sweep: Write) -> None:
    names = []
    for index, code in enumerate(
        [
            SEARCH,
            changed("trials=8", "trials=9, sampler='random'"),
            changed("1e-1", "1e-2"),
            changed('"layer"', '"none"'),
        ]
    ):
        [(_, search, _)] = made(write_sweep(code, f"s{index}.py")).searches()
        assert re.fullmatch(rf"sweeps\.s{index}-[0-9a-f]{{8}}", search.name)
        names.append(search.name.partition("-")[2])
    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_another_base_is_another_study(write_sweep: Write) -> None:
    from labkit.study.editions import Asked

    file = write_sweep(SEARCH)
    names = {made(file, asked).searches()[0][1].name for asked in (Asked(), Asked(steps=5), Asked(sets=["clip=0.5"]))}
    assert len(names) == 3


def test_another_constraint_is_another_study_and_so_is_another_value_that_it_reads(write_sweep: Write) -> None:
    code = changed("trials=8", "trials=8, constraints={'small': SMALL}")
    heads = [
        "SMALL = lambda spec: spec.model.d_model < 20",
        "SMALL = lambda spec: spec.model.d_model < 20  # the same",
        "SMALL = lambda spec: spec.model.d_model < 17",
        "LIMIT = 20\nSMALL = lambda spec: spec.model.d_model < LIMIT",
        "LIMIT = 17\nSMALL = lambda spec: spec.model.d_model < LIMIT",
        "KINDS = {'a', 'b', 'c'}\ndef fits(d): return d < 20\ndef SMALL(spec): return fits(spec.model.d_model)",
        "KINDS = {'a', 'b', 'c'}\ndef fits(d): return d < 30\ndef SMALL(spec): return fits(spec.model.d_model)",
    ]
    found = [load_sweep(write_sweep(code, f"s{n}.py", head)).sweep for n, head in enumerate(heads)]
    names = [one.study_name("") for one in found if one is not None]
    assert names[0] == names[1]
    assert len(set(names)) == 6


def test_another_constraint_is_another_study_of_every_arm_of_a_comparison(write_sweep: Write) -> None:
    code = changed("seeds=2", "seeds=2, constraints={'slow': lambda spec: spec.optimizer.lr < 0.1}", COMPARE)
    one, two = (
        {search.name.partition("-")[2] for _, search, _ in made(write_sweep(text, f"{name}.py")).searches()}
        for name, text in (("a", code), ("b", code.replace("< 0.1", "< 0.2")))
    )
    assert not one & two


def test_a_comparison_has_one_study_an_arm_and_the_same_trials_for_each(write_sweep: Write) -> None:
    searches = made(write_sweep(COMPARE)).searches()
    assert [(arm.arm.name, trials) for arm, _, trials in searches] == [("baseline", 4), ("norm=layer", 4)]
    assert len({search.name for _, search, _ in searches}) == 2


def test_a_finite_space_without_nuisance_is_enumerated(write_sweep: Write) -> None:
    code = (
        'sweep = Sweep(base=pico, scientific={"model.norm": ["rms", "layer"], "clip": [0.5, 1.0]}, minimize="val/bpb")'
    )
    [(_, search, trials)] = made(write_sweep(code)).searches()
    assert (search.method.sampler.kind, trials) == ("brute_force", 4)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            changed("model.norm", "model.nrm"),
            r"scientific: model\.nrm: ModelSpec has no field 'nrm'\. Did you mean 'norm'",
        ),
        (changed('"layer"', '"layr"'), r"scientific: model\.norm: unknown Norm kind 'layr'\. Did you mean 'layer'"),
        (changed("1e-3, 1e-1", "1e-1, 1e-3"), r"mine\.py:\d+: log_uniform\(0\.1, 0\.001\): this range is upside down"),
        (changed("optimizer.lr", "model.norm"), r"nuisance: model\.norm is scientific as well; leave it out of one"),
        (changed("1e-3, 1e-1)}", "1e-3, 1e-1), 'optimizer.lrr': [1]}"), r"nuisance: optimizer\.lrr: .*'lrr'"),
        ('sweep = Sweep(base=pico, trials=3, minimize="val/loss")', r"scientific, nuisance: the space is empty; write"),
        (changed("trials=8", "trials=0"), r"trials: expected a number of trials from 1 to 1,000,000, got 0"),
        (
            changed("    trials=8,\n", ""),
            r"trials: this argument is required, for the space has no end; write trials=24",
        ),
        (changed('"val/loss"', '"val/los"'), r"minimize: no metric 'val/los'\. Did you mean 'val/loss'"),
        (changed("minimize", "maximize"), r"maximize: val/loss is better the other way; write minimize='val/loss'"),
        (changed('    minimize="val/loss",\n', ""), r"minimize: nothing decides; write minimize='val/loss'"),
        (changed("trials=8", "trials=8, sampler='tpee'"), r"sampler: unknown Sampler kind 'tpee'\. Did you mean 'tpe'"),
        (
            changed("trials=8", "trials=8, pruner='medan'"),
            r"pruner: unknown Pruner kind 'medan'\. Did you mean 'median'",
        ),
        (
            changed("trials=8", "trials=8, sampler='grid', scientfic={}"),
            r"Sweep: no argument 'scientfic'\. Did you mean",
        ),
        (changed("trials=8", "trials=8, sampler='brute_force'"), r"sampler: 'brute_force' tries every value, and opt"),
        (
            changed("trials=8", "trials=8, pruner='wilcoxon'"),
            r"pruner: 'wilcoxon' looks at the seeds of a trial; write",
        ),
        (changed("trials=8", "trials=8, pruner='asha', seeds=2"), r"pruner: of several seeds only 'wilcoxon' can end"),
        (
            changed("trials=8", "trials=8, pruner='asha', maximize='perf/tokens_per_s'"),
            r"pruner: asha ends trials by one",
        ),
        (
            changed("trials=8", "trials=8, pruner={'kind': 'optuna', 'name': 'ThresholdPruner'}"),
            r"pruner: ThresholdPruner: ",
        ),
        (changed('["rms", "layer"]', '"rms"'), r"model\.norm: 'rms' is one value; write a list"),
        (changed("trials=8", "trials=8, mode='compar'"), r"mode: no mode 'compar'\. Did you mean 'compare'"),
        (
            changed("trials=8", "trials=8, constraints={'x': 3}"),
            r"constraints: 'x': expected a function of the run spec",
        ),
        (
            changed("trials=8", "trials=8, constraints={'x': lambda spec: False}"),
            r"no combination is valid: the constraint 'x' does not",
        ),
        (
            changed("trials=8", "trials=8, constraints={'x': lambda spec: spec.nothing}"),
            r"no combination is valid: the constraint 'x' raised AttributeError: ",
        ),
        (
            changed("trials=8", "trials=8, constraints={'x': lambda spec: print('')}"),
            r"no combination is valid: the constraint 'x' gives None, neither True nor False",
        ),
        *(
            (changed("trials=8", f"trials=8, constraints={given}"), rf"constraints: {told}")
            for given, told in [
                ("None", r"expected \{name: function\}, got None; write constraints=\{'few heads'"),
                ("[]", r"expected \{name: function\}, got \[\]"),
                ("lambda spec: True", r"expected \{name: function\}, got <function"),
                ("{'': lambda spec: True}", r"'' is no name; write what must hold"),
                ("{1: lambda spec: True}", r"1 is no name; write what must hold"),
            ]
        ),
        *(
            (changed('{"optimizer.lr": log_uniform(1e-3, 1e-1)}', given), r"nuisance: expected \{path: choices\}")
            for given in ("None", "5", "[]", "'x'")
        ),
        *(
            (changed('{"model.norm": ["rms", "layer"]}', given), r"scientific: expected \{path: choices\}")
            for given in ("None", "5", "[]", "'x'")
        ),
        *(
            (changed("trials=8", f"trials=8, margin={margin}"), r"margin: expected nats, a number from 0, got")
            for margin in ("float('nan')", "-1", "'x'")
        ),
        (
            changed("trials=8", "trials=8")
            .replace("model.norm", "tokenizer")
            .replace('"rms", "layer"', '"byte", "bpe"'),
            r'scientific: tokenizer: losses per token of two .* do not compare \(val/loss\); write minimize="val/bpb"',
        ),
        *(
            (
                changed("1e-1)}", f"1e-1), '{path}': {values}}}"),
                rf"nuisance: {path}: it changes what is measured .*; leave it out, and set it in the base",
            )
            for path, values in [
                ("data.validation", [0.01, 0.1]),
                ("data", [{"kind": "stdlib"}]),
                ("evaluation.windows", [1, 2]),
                ("evaluation.points", [2, 3]),
            ]
        ),
        (
            "experiment = Experiment(baseline=pico, variants={}, seeds=1, metric='val/loss', match='none',\n"
            "tune=Tune(nuisance={'data.validation': [0.01, 0.1]}, trials=2))",
            r"tune: nuisance: data\.validation: it changes what is measured",
        ),
        (
            "experiment = Experiment(baseline=pico, variants={}, seeds=1, metric='val/loss', match='none',\n"
            "tune=Tune(nuisance={'tokenizer': ['byte', {'kind': 'bpe', 'vocab_size': 300}]}, trials=2))",
            r'tune: nuisance: tokenizer: .*; write metric="val/bpb"',
        ),
        (
            changed(
                '"model.norm": ["rms", "layer"]',
                '"optimizer": ["sgd", {"kind": "adamw", "lr": uniform(0, 1)}]',
            ),
            r"scientific, nuisance: 'adamw' of optimizer gives a value to optimizer\.lr, which has a range of its own",
        ),
        (
            changed('"model.norm": ["rms", "layer"]', '"optimizer": [{"kind": "adamw", "lr": 0.01}, "sgd"]'),
            r"scientific, nuisance: 'adamw' of optimizer gives a value to optimizer\.lr",
        ),
        (
            changed('["rms", "layer"]', "['rms']", COMPARE),
            r"scientific: there is nothing to compare, .* base's own",
        ),
        (
            changed('"model.norm": ["rms", "layer"]', "'optimizer.weight_decay': [1, 1.0]"),
            r"scientific: optimizer\.weight_decay: choice: 1 stands there twice, as 1\.0 too; leave one out",
        ),
        (changed(", seeds=2", "", COMPARE), r"seeds: mode='compare' needs the seeds of its verdict; write seeds=3"),
        (
            changed('["rms", "layer"]', "['rms']", COMPARE).replace("seeds=2", "seeds=0"),
            r"seeds: expected a number from 1",
        ),
        (changed('minimize="val/loss"', 'minimize="params"', COMPARE), r"minimize: mode='compare' decides by one loss"),
        ("swep = 3", r"no 'sweep'; write  sweep = Sweep"),
        (SEARCH.replace("sweep =", "mine ="), r"the sweep must be called 'sweep', not 'mine'"),
        (
            "experiment = Experiment(baseline=pico, variants={}, seeds=1, metric='val/loss', match='none')",
            r"tunes nothing",
        ),
        (
            "experiment = Experiment(baseline=pico, variants={}, seeds=1, metric='val/loss', match='none',\n"
            "tune=Tune(nuisance={'optimizer.lrr': uniform(0, 1)}, trials=2))",
            r"nuisance: optimizer\.lrr: adamw has no field 'lrr'",
        ),
        (
            "experiment = Experiment(baseline=pico, variants={}, seeds=1, metric='val/loss', match='none',\n"
            "tune=Tune(nuisance={}, trials=2))",
            r"tune: nuisance: there is nothing to tune",
        ),
    ],
)
def test_bad_input_is_told_before_anything_starts(write_sweep: Write, code: str, told: str) -> None:
    with pytest.raises(Mistake, match=told):
        made(write_sweep(code))


def test_a_storage_that_cannot_be_reached_is_told_before_anything_starts(write_sweep: Write) -> None:
    with pytest.raises(Mistake, match=r"--storage postgresql://127.0.0.1:1/none: it cannot be used"):
        made(write_sweep(SEARCH), storage="postgresql://me:secret@127.0.0.1:1/none")
