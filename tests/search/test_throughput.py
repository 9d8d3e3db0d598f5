"""16 workers on one journal file, beside as many of bare Optuna's."""

import math
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from labkit.search.method import Method
from labkit.search.quiet import quiet
from labkit.search.ranges import log_uniform, uniform
from labkit.search.space import Space
from labkit.search.storage import opened
from labkit.search.study import Search, Study

WORKERS, EACH = 16, 12
NAMES = [f"x{index}" for index in range(6)]
SPACE = Space.of("nuisance", {"lr": log_uniform(1e-4, 1e-1)} | {name: uniform(0.0, 1.0) for name in NAMES})


def ours(path: Path) -> None:
    study = Study(Search("s", SPACE, ["minimize"], ["loss"], Method()), opened(str(path)))
    for _ in range(EACH):
        study.keep()
        assert len(study.trials) >= 0
        asked = study.ask()
        study.tell(asked, "done", [math.log10(asked.params["lr"]) ** 2 + sum(asked.params[name] for name in NAMES)])


def bare(path: Path) -> None:
    def objective(trial: optuna.Trial) -> float:
        lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        return math.log10(lr) ** 2 + sum(trial.suggest_float(name, 0.0, 1.0) for name in NAMES)

    storage = JournalStorage(JournalFileBackend(str(path)))
    optuna.create_study(study_name="s", storage=storage, load_if_exists=True).optimize(objective, n_trials=EACH)


def rate(work: Callable[[Path], None], path: Path) -> float:
    """Trials a second of all workers together."""
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=work, args=(path,)) for _ in range(WORKERS)]
    begun = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * WORKERS
    return WORKERS * EACH / (time.monotonic() - begun)


@pytest.mark.skipif(not os.environ.get("LABKIT_LONG_TESTS"), reason="a minute: LABKIT_LONG_TESTS=1")
@pytest.mark.filterwarnings("ignore")
def test_many_workers_are_nearly_as_fast_as_bare_optunas(tmp_path: Path) -> None:
    quiet()
    rates = [(rate(ours, tmp_path / f"ours{i}"), rate(bare, tmp_path / f"bare{i}")) for i in range(2)]
    print(rates)
    assert max(mine for mine, _ in rates) >= 0.8 * max(theirs for _, theirs in rates)
