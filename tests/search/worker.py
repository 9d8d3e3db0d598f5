"""A worker on a synthetic objective: python -m tests.search.worker ADDRESS TRIALS LOG."""

import math
import sys
import time
from pathlib import Path

from labkit.search.method import Method
from labkit.search.ranges import log_uniform, uniform
from labkit.search.space import Space
from labkit.search.storage import opened
from labkit.search.study import Search, Study, counted, state_of

__all__ = ["made", "state_of"]

SPACE = Space.of("nuisance", {"lr": log_uniform(1e-4, 1e-1), "warmup": uniform(0.0, 0.5)})
LEASE = 3.0


def made(address: str) -> Study:
    method = Method.from_json({"sampler": "random"})
    return Study(Search("killed", SPACE, ["minimize"], ["loss"], method), opened(address), LEASE)


def work(address: str, trials: int, log: Path) -> None:
    """Take trial after trial until so many have ended."""
    study = made(address)
    while True:
        study.keep()
        known = study.trials
        waiting = any(state_of(trial) == "waiting" for trial in known)
        if not waiting and len(counted(known)) >= trials:
            if all(trial.state.is_finished() for trial in known):
                return
            time.sleep(0.1)
            continue
        asked = study.ask()
        if study.tell(asked, "done", [math.log10(asked.params["lr"]) ** 2 + asked.params["warmup"]]):
            with log.open("a") as file:
                file.write(f"{asked.number}\n")


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
