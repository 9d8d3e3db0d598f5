"""Workers that are killed at random: every trial ends exactly once, in a journal file and on a PostgreSQL server."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.search.worker import made, state_of

WORKERS, TRIALS, KILLS = (4, 200, 6) if os.environ.get("LABKIT_LONG_TESTS") else (2, 20, 1)
"""A process takes a second to begin, and a trial takes PostgreSQL a tenth of one: LABKIT_LONG_TESTS=1 has more."""

ROOT = Path(__file__).parents[2]
BINARIES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL server of the test's own, on a socket; its address."""
    if BINARIES is None or (os.getuid() == 0 and shutil.which("setpriv") is None):
        pytest.skip("no PostgreSQL server is installed")
    folder = Path(os.path.realpath(f"/tmp/labkit-postgres-{os.getpid()}"))
    folder.mkdir()
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    if user:
        shutil.chown(folder, "postgres", "postgres")
    data = folder / "data"
    options = ["-k", str(folder), "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=40"]
    try:
        initdb = [*user, str(BINARIES / "initdb"), "-D", str(data), "-U", "labkit", "-A", "trust", "-N"]
        subprocess.run(initdb, check=True, capture_output=True)
        process = subprocess.Popen(
            [*user, str(BINARIES / "postgres"), "-D", str(data), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not (folder / ".s.PGSQL.5432").exists():
            assert process.poll() is None
            time.sleep(0.05)
        yield f"postgresql://labkit@/postgres?host={folder}"
        process.send_signal(signal.SIGINT)
        process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def hire(address: str, log: Path, trials: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.search.worker", address, str(trials), str(log)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with log.with_suffix(".errors").open("ab") as errors:
        return subprocess.Popen(command, env=environment, cwd=ROOT, stderr=errors)


def killed_at_random(address: str, log: Path, trials: int, kills: int) -> int:
    """Have the trials done by workers of which one is killed now and then; how many were killed."""
    draw = random.Random(0)
    marks = sorted(draw.sample(range(5, trials - 10), kills))
    made(address).close()
    crew = [hire(address, log, trials) for _ in range(WORKERS)]
    while any(worker.poll() is None for worker in crew):
        time.sleep(0.02)
        told = log.read_bytes().count(b"\n") if log.exists() else 0
        if len(marks) > 0 and told >= marks[0]:
            marks.pop(0)
            crew[draw.randrange(WORKERS)].kill()
        for index, worker in enumerate(crew):
            if worker.poll() not in (None, 0):
                worker.wait()
                crew[index] = hire(address, log, trials)
    return kills - len(marks)


@pytest.mark.parametrize("kind", ["journal", "postgresql"])
def test_every_trial_ends_exactly_once_whoever_is_killed(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = str(tmp_path / "a.journal") if kind == "journal" else request.getfixturevalue("server")
    log = tmp_path / "told"
    kills = killed_at_random(address, log, TRIALS, KILLS)
    assert kills == KILLS
    study = made(address)
    trials, studies = study.trials, study.storage.get_all_studies()
    study.close()
    assert Counter(map(state_of, trials)) == {"done": len(trials)}
    assert TRIALS <= len(trials) < TRIALS + WORKERS
    assert [trial.number for trial in trials] == list(range(len(trials)))
    told = Counter(log.read_text().split())
    assert set(told.values()) == {1}
    assert len(trials) - kills <= len(told) <= len(trials)
    assert b"locked" not in log.with_suffix(".errors").read_bytes()
    assert [one.study_name for one in studies] == ["killed"]
