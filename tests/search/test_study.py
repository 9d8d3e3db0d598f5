"""The oracle is a plain Optuna study whose sampler is made anew, from (seed, number), before each ask."""

import hashlib
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from labkit.search.lease import Lease
from labkit.search.method import Method
from labkit.search.quiet import quiet
from labkit.search.ranges import integers, log_uniform, uniform
from labkit.search.space import Space
from labkit.search.storage import opened, public
from labkit.search.study import Asked, Search, Study, counted, state_of
from labkit.search.tune import Tune
from labkit.spec import Mistake

SEED = 7
LAYERS = [1, 2, 3]
CONTINUOUS = Space.of("nuisance", {"lr": log_uniform(1e-4, 1e-1), "warmup": uniform(0.0, 0.5), "layers": LAYERS})
CONDITIONAL = Space.of(
    "nuisance",
    {"lr": log_uniform(1e-4, 1e-1), "position": ["none", {"kind": "rope", "theta": log_uniform(1e3, 1e6)}]},
)
FINITE = Space.of("nuisance", {"layers": LAYERS, "heads": integers(1, 3), "norm": ["rms", "layer"]})
POINTS = 9
quiet()


def key(number: int) -> int:
    return int(hashlib.sha256(f"{SEED}:{number}".encode()).hexdigest()[:8], 16)


def loss(params: dict[str, Any], part: float = 1.0) -> float:
    """Lower for a longer training, with one optimum."""
    lr = math.log10(params.get("lr", 1e-2)) + 2.3
    return (
        lr**2 + params.get("warmup", 0.1) + abs(params.get("layers", 2) - 2) + 0.1 * params.get("heads", 1) + 1 / part
    )


def plain(space: Space, trial: optuna.Trial) -> dict[str, Any]:
    """What Optuna's own user would write for each of the spaces."""
    if space is FINITE:
        trial.suggest_categorical("layers", LAYERS)
        trial.suggest_int("heads", 1, 3)
        trial.suggest_categorical("norm", ["rms", "layer"])
        return trial.params
    trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    if space is CONTINUOUS:
        trial.suggest_float("warmup", 0.0, 0.5)
        trial.suggest_categorical("layers", LAYERS)
    elif trial.suggest_categorical("position", ["none", "rope"]) == "rope":
        trial.suggest_float("position.rope.theta", 1e3, 1e6, log=True)
    return trial.params


def by_optuna(
    space: Space, sampler: Callable[[int], Any], trials: int, pruner: Any, first: int
) -> list[tuple[dict[str, Any], str]]:
    study = optuna.create_study(study_name="oracle", pruner=pruner)
    for number in range(trials):
        study.sampler = sampler(number)
        trial = study.ask()
        params, state = plain(space, trial), TrialState.COMPLETE
        for point in range(1, POINTS + 1):
            trial.report(loss(params, point / POINTS), point)
            if first <= point < POINTS and trial.should_prune():
                state = TrialState.PRUNED
                break
        try:
            study.tell(trial, loss(params) if state == TrialState.COMPLETE else None, state)
        except RuntimeError:  # brute force and grid stop the study
            break
    return [(trial.params, trial.state.name) for trial in study.trials]


def made(space: Space, method: Method, file: Path | None, lease: float = 60.0) -> Study:
    """The study in a journal file, or in memory."""
    search = Search("oracle", space, ["minimize"], ["loss"], method, POINTS)
    return Study(search, opened(str(file)) if file else optuna.storages.InMemoryStorage(), lease)


def drive(study: Study, trials: int) -> None:
    while sum(trial.state.is_finished() for trial in study.trials) < trials and not study.exhausted:
        train(study, study.ask())


def train(study: Study, asked: Asked) -> None:
    for point in range(1, POINTS + 1):
        if study.report(asked, loss(asked.params, point / POINTS), point):
            study.tell(asked, "pruned")
            return
    assert study.tell(asked, "done", [loss(asked.params)])


def told(study: Study) -> list[tuple[dict[str, Any], str]]:
    return [(trial.params, trial.state.name) for trial in study.trials]


NEVER = optuna.pruners.NopPruner()
TPE = lambda number: optuna.samplers.TPESampler(seed=key(number))  # noqa: E731
CASES = {
    "tpe": (CONTINUOUS, {"sampler": "tpe"}, TPE, NEVER, 1, 16),
    "tpe conditional": (CONDITIONAL, {"sampler": "tpe"}, TPE, NEVER, 1, 16),
    "random": (CONDITIONAL, {"sampler": "random"}, lambda n: optuna.samplers.RandomSampler(seed=key(n)), NEVER, 1, 8),
    "qmc": (
        CONTINUOUS,
        {"sampler": "qmc"},
        lambda n: optuna.samplers.QMCSampler(
            scramble=True, seed=SEED, independent_sampler=optuna.samplers.RandomSampler(seed=key(n))
        ),
        NEVER,
        1,
        12,
    ),
    "brute force": (
        FINITE,
        {"sampler": "brute_force"},
        lambda n: optuna.samplers.BruteForceSampler(seed=key(n)),
        NEVER,
        1,
        30,
    ),
    "grid": (
        FINITE,
        {"sampler": "grid"},
        lambda n: optuna.samplers.GridSampler(
            {"layers": LAYERS, "heads": [1, 2, 3], "norm": ["rms", "layer"]}, seed=SEED
        ),
        NEVER,
        1,
        30,
    ),
    "optuna": (
        CONTINUOUS,
        {"sampler": {"kind": "optuna", "name": "NSGAIISampler", "arguments": {"population_size": 4}}},
        lambda n: optuna.samplers.NSGAIISampler(population_size=4, seed=key(n)),
        NEVER,
        1,
        12,
    ),
    "median": (
        CONTINUOUS,
        {"pruner": {"kind": "median", "startup": 3}},
        TPE,
        optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=2),
        2,
        16,
    ),
    "asha": (
        CONTINUOUS,
        {"pruner": "asha"},
        TPE,
        optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=3),
        2,
        16,
    ),
    "hyperband": (
        CONTINUOUS,
        {"pruner": "hyperband"},
        TPE,
        optuna.pruners.HyperbandPruner(min_resource=2, max_resource=POINTS, reduction_factor=3),
        2,
        16,
    ),
    "pruner optuna": (
        CONTINUOUS,
        {"pruner": {"kind": "optuna", "name": "PercentilePruner", "arguments": {"percentile": 25.0}}},
        TPE,
        optuna.pruners.PercentilePruner(25.0),
        2,
        12,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")  # of the plain study
def test_what_is_asked_is_what_plain_optuna_asks_interrupted_or_not(case: str, tmp_path: Path) -> None:
    space, fields, sampler, pruner, first, trials = CASES[case]
    method = Method.from_json({"seed": SEED, **fields})
    whole = made(space, method, None)
    drive(whole, trials)
    assert told(whole) == by_optuna(space, sampler, trials, pruner, first)
    if pruner is not NEVER:
        assert {state for _, state in told(whole)} == {"COMPLETE", "PRUNED"}
    for stop in (3, 7, trials):  # each time by another object, which gives back a trial that it had begun
        part = made(space, method, tmp_path / "parts.journal")
        drive(part, stop)
        if stop < trials and not part.exhausted:
            asked = part.ask()
            part.report(asked, loss(asked.params, 1 / POINTS), 1)
            part.give_back(asked)
            assert state_of(part.trials[-1]) == "waiting"
    assert told(part) == told(whole)
    values = [trial.values for trial in part.trials]
    assert values == [trial.values for trial in whole.trials]


def test_a_finite_space_is_enumerated(tmp_path: Path) -> None:
    study = made(FINITE, Method(sampler="brute_force"), tmp_path / "a.journal")  # type: ignore[arg-type]
    drive(study, 100)
    assert len(study.trials) == FINITE.size == 18
    assert {tuple(sorted(trial.params.items())) for trial in study.trials} == {
        tuple(sorted(point.items())) for point in FINITE.points()
    }


def test_only_trials_that_cost_something_or_say_something_count(tmp_path: Path) -> None:
    study = made(CONTINUOUS, Method(), tmp_path / "a.journal")
    for state in ("invalid", "failed", "diverged", "pruned"):
        assert study.tell(study.ask(), state, facts={"why": state})  # type: ignore[arg-type]
    study.tell(study.ask(), "done", [1.0])
    study.ask()
    states = [state_of(trial) for trial in study.trials]
    assert states == ["invalid", "failed", "diverged", "pruned", "done", "running"]
    assert [trial.number for trial in counted(study.trials)] == [2, 3, 4, 5]
    assert study.trials[0].user_attrs["why"] == "invalid"


def test_wilcoxon_looks_at_the_seeds_of_a_trial(tmp_path: Path) -> None:
    study = made(CONTINUOUS, Method(pruner="wilcoxon"), tmp_path / "a.journal")  # type: ignore[arg-type]
    best, worse = study.ask(), None
    for seed in range(6):
        assert not study.report(best, 1 + seed / 100, seed + 1)
    study.tell(best, "done", [1.0])
    worse = study.ask()
    ended = [study.report(worse, 2 + seed / 50, seed + 1) for seed in range(6)]
    assert ended.index(True) >= 2


def test_the_dead_give_their_trials_back_and_the_living_keep_them(tmp_path: Path) -> None:
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from pathlib import Path
from tests.search.test_study import *
made(CONTINUOUS, Method(), Path({str(tmp_path / "a.journal")!r})).ask()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    study = made(CONTINUOUS, Method(), tmp_path / "a.journal")
    mine, params = study.ask(), study.trials[0].params
    assert [state_of(trial) for trial in study.trials] == ["running", "running"]
    assert study.keep() == [0]
    again = study.ask()
    assert (again.number, again.params) == (0, params)
    other = made(CONTINUOUS, Method(), tmp_path / "a.journal")
    assert other.keep() == []
    assert study.tell(again, "done", [1.0])
    assert study.tell(mine, "done", [1.0])


def test_one_who_wakes_after_its_trial_was_given_away_tells_nothing(tmp_path: Path) -> None:
    slow = made(CONTINUOUS, Method(), tmp_path / "a.journal", lease=0.05)
    slow.leases.me = "elsewhere 1 0"
    asleep = slow.ask()
    study = made(CONTINUOUS, Method(), tmp_path / "a.journal", lease=0.05)
    renewed = Lease.of(study.trials[0]).renewed
    while study.keep() != [0]:
        assert renewed
    assert not slow.tell(asleep, "done", [1.0])
    slow.keep()
    again = study.ask()
    assert again.number == 0
    assert not slow.tell(asleep, "done", [1.0])
    assert study.tell(again, "done", [2.0])
    assert [trial.values for trial in study.trials] == [[2.0]]


def test_a_study_of_the_same_name_about_something_else_is_refused(tmp_path: Path) -> None:
    made(CONTINUOUS, Method(), tmp_path / "a.journal").ask()
    with pytest.raises(Mistake, match=r"the study 'oracle' in this storage is about something else \(space differs\)"):
        made(FINITE, Method(), tmp_path / "a.journal")
    optuna.create_study(study_name="oracle", storage=opened(str(tmp_path / "b.journal"))).ask()
    with pytest.raises(Mistake, match="is about something else"):
        made(FINITE, Method(), tmp_path / "b.journal")


def test_half_a_line_of_a_killed_process_is_taken_back(tmp_path: Path) -> None:
    study = made(CONTINUOUS, Method(), tmp_path / "a.journal")
    train(study, study.ask())
    with (tmp_path / "a.journal").open("ab") as file:
        file.write(b'{"op_code": 4, "tri')
    study = made(CONTINUOUS, Method(), tmp_path / "a.journal")
    train(study, study.ask())
    assert len(made(CONTINUOUS, Method(), tmp_path / "a.journal").trials) == 2


@pytest.mark.parametrize(
    "address", ["postgresql://somebody:secret@127.0.0.1:1/none", "nosuchdb://x/y", "/proc/such.journal"]
)
def test_a_storage_that_cannot_be_reached_is_told_without_its_password(address: str) -> None:
    with pytest.raises(Mistake, match=r"--storage .*: it cannot be used: .*Write an URL") as caught:
        opened(address)
    assert "secret" not in str(caught.value).partition("it cannot")[0]


def test_a_damaged_journal_is_to_be_moved_away_and_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    study = made(CONTINUOUS, Method(), path)
    train(study, study.ask())
    sound = path.read_bytes()
    for damaged in (b"garbage\n" + sound, sound + b"\x00garbage\n", b"5\n" + sound):
        path.write_bytes(damaged)
        with pytest.raises(
            Mistake, match=r"a\.journal: this journal of trials is damaged: .*Move the file away"
        ) as caught:
            opened(str(path), own=True)
        assert "--storage" not in str(caught.value)
    with pytest.raises(Mistake, match=r"--storage .*/mistyped/a\.journal: there is no folder .*; make it"):
        opened(str(tmp_path / "mistyped" / "a.journal"))
    assert not (tmp_path / "mistyped").exists()


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
        ("sqlite:///x.db", "sqlite:///x.db"),
        ("postgresql://me:secret@host:5432/db", "postgresql://host:5432/db"),
        ("/tmp/a b.journal", "/tmp/a b.journal"),
    ],
)
def test_an_address_is_written_down_whole_but_for_who_uses_it(address: str, told: str) -> None:
    assert public(address) == told


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"kind": "optuna", "name": "MedianPrunr"}, r"pruner: Optuna has none of the name 'MedianPrunr'.*MedianPruner"),
        ({"kind": "optuna", "name": "PercentilePruner"}, r"pruner: PercentilePruner: .*percentile"),
        ({"kind": "optuna", "name": "PercentilePruner", "arguments": {"percentile": 1e9}}, r"pruner: Percentile.*100"),
    ],
)
def test_a_pruner_that_optuna_cannot_make_is_told_where_it_is_written(fields: Any, told: str) -> None:
    with pytest.raises(Mistake, match=told):
        Tune(nuisance={"optimizer.lr": log_uniform(1e-4, 1e-2)}, trials=2, pruner=fields)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"kind": "optuna", "name": "CmaSampler"}, r"sampler: Optuna has none of the name 'CmaSampler'.*CmaEsSampler"),
        ({"kind": "optuna", "name": "RandomSampler", "arguments": {"sed": 1}}, r"sampler: RandomSampler: .*sed"),
        ("brute_force", r"sampler: 'brute_force' tries every value, and lr has no end of them"),
    ],
)
def test_a_sampler_that_cannot_search_a_space_is_told(fields: Any, told: str) -> None:
    with pytest.raises(Mistake, match=told):
        Method.from_json({"sampler": fields}).sampler.check(CONTINUOUS)
    with pytest.raises(Mistake, match="sampler: a grid has the same parameters everywhere"):
        Method.from_json({"sampler": "grid"}).sampler.check(CONDITIONAL)


def test_optunas_own_tools_read_the_study(tmp_path: Path) -> None:
    study = made(CONDITIONAL, Method(pruner="median"), tmp_path / "a.journal")  # type: ignore[arg-type]
    drive(study, 14)
    read = optuna.load_study(study_name="oracle", storage=opened(str(tmp_path / "a.journal")))
    assert max(optuna.importance.get_param_importances(read).values()) > 0
    for plot in ("optimization_history", "slice", "parallel_coordinate", "param_importances", "intermediate_values"):
        assert getattr(optuna.visualization, f"plot_{plot}")(read).data
