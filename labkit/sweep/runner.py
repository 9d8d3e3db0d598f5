"""A sweep from what was typed to its outcome: the studies, their trials, and for a comparison the verdict."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from labkit.data import look
from labkit.report import formats
from labkit.report.arms import SPEED
from labkit.search.space import Changes, Space, digest, refused
from labkit.search.storage import check_folder, close, opened, public
from labkit.search.study import Search, Study
from labkit.search.tune import SEED, Tune
from labkit.spec import Mistake
from labkit.study.counting import Counted
from labkit.study.executors import crew_of, slots
from labkit.study.matching import matched
from labkit.study.plan import Planner
from labkit.study.runner import Options, check_writable, say_slow
from labkit.sweep import files
from labkit.sweep.analysis import untried
from labkit.sweep.batches import check_batches
from labkit.sweep.branch import Branch, base_of
from labkit.sweep.constraints import broken
from labkit.sweep.driver import Driver, Outcome
from labkit.sweep.folders import Folders
from labkit.sweep.loading import LoadedSweep
from labkit.sweep.objectives import Direction, Objective, objectives
from labkit.sweep.story import Story
from labkit.sweep.trials import Trials
from labkit.sweep.winners import Winner, winners
from labkit.tracking import mlflow, source
from labkit.tracking.atomic import Damaged
from labkit.tracking.console import Console
from labkit.tracking.record import Edition
from labkit.train.run import Runtime

VARIABLE = "LABKIT_OPTUNA_STORAGE"
JOURNAL = "study.journal"
TUNING = "tuning"
"""The edition of the trials that a comparison tunes by."""


@dataclass(frozen=True)
class Searched:
    """The trials of a sweep as they stand."""

    title: str
    edition: Edition
    branches: Sequence[Branch]
    baseline: Counted
    storage: str
    """Where the studies are, without a password."""
    margin: float
    """M, in nats."""
    combinations: int = 0
    """Of the scientific part of a search's space; 0 where they cannot be counted."""
    untried: int = 0
    """Of these, how many are valid and no trial has come to."""

    @cached_property
    def base(self) -> list[float]:
        """What a search's base came to, by objective; empty where it was not run."""
        return base_of(self.edition, self.branches[0])

    @property
    def winners(self) -> list[Winner]:
        """The best trial of every arm."""
        return winners(self.branches, self.margin)


class SweepRunner:
    """The trials of one sweep in one edition. Making it checks all that can be known before data is read."""

    def __init__(self, found: LoadedSweep, edition: str, options: Options, console: Console, storage: str = "") -> None:
        self.found, self.options, self.console = found, options, console
        self.loaded, self.sweep = found.loaded, found.sweep
        alone = any(one.is_speed for one in self.objectives)
        self.slots = slots(_one_at_a_time(options.runtime) if alone else options.runtime, options.workers)
        tuning = TUNING if edition == "main" else f"{edition}+{TUNING}"
        name = tuning if self.compares else edition
        self.edition = Edition(options.runs.absolute() / self.loaded.name / name)
        self.arms = matched(self.loaded.experiment, self.loaded.base, console)
        for arm in self.arms:
            options.runtime.rows(arm.arm.spec.batch_size)
            self._check_batches(arm)
        check_writable(options.runs)
        given = storage or os.environ.get(VARIABLE, "")
        self.own = not given
        self.address = given or str(self.edition.path / JOURNAL)
        self._check_storage()
        sources = source.imported_sources(self.loaded.root, self.loaded.file)
        self.folders = Folders(
            Planner(self.loaded, self.edition, sources), options.runs.absolute(), console, alone=alone
        )

    def _check_batches(self, arm: Counted) -> None:
        """Raise Mistake for a batch size to be tried of an arm that cannot be shared, or cut, as the runtime asks."""
        base, constraints = arm.arm.spec, self.sweep.constraints if self.sweep is not None else {}

        def invalid(changes: Changes) -> str:
            return refused(base, changes) or broken(constraints, base.patched(changes))

        space = self.tune.space if self.compares or self.sweep is None else self.sweep.space
        check_batches(space, self.options.runtime, invalid)

    def _check_storage(self) -> None:
        """Raise Mistake for a storage that cannot be reached or read; nothing is made."""
        if not self.own:
            check_folder(self.address)
        if "://" in self.address or Path(self.address).exists():
            close(opened(self.address, own=self.own))

    @property
    def compares(self) -> bool:
        return self.sweep is None or self.sweep.mode == "compare"

    @property
    def tune(self) -> Tune:
        assert self.loaded.experiment.tune is not None
        return self.loaded.experiment.tune

    @property
    def objectives(self) -> Sequence[Objective]:
        if self.sweep is not None:
            return self.sweep.objectives
        return objectives(self.loaded.experiment.baseline, self.loaded.experiment.metric, ())

    @property
    def margin(self) -> float:
        return float(self.loaded.experiment.margin)

    @property
    def seeds(self) -> Sequence[int]:
        return (SEED,) if self.compares or self.sweep is None else self.sweep.seed_list

    def searches(self, data: str = "") -> list[tuple[Counted, Search, int]]:
        """Each arm that trials are made of, its search, and how many there are to be."""
        points = self.loaded.experiment.baseline.evaluation.points
        keys = [one.key for one in self.objectives]
        directions: list[Direction] = [one.direction for one in self.objectives]

        def search(name: str, space: Space, method: Any, facts: dict[str, Any]) -> Search:
            facts = {"sweep": self.loaded.name, **facts, "data": data}
            return Search(name, space, directions, keys, method, points, facts)

        if self.sweep is not None and not self.compares:
            signature = {key: value for key, value in self.sweep.signature.items() if key != "space"}
            name, method = self.sweep.study_name(self.loaded.name), self.sweep.method
            return [(self.arms[0], search(name, self.sweep.space, method, signature), self.sweep.budget)]
        space, found = self.tune.space, list[tuple[Counted, Search, int]]()
        for arm in self.arms:
            facts: dict[str, Any] = {"base": arm.arm.fingerprint, "objectives": keys}
            if self.sweep is not None and self.sweep.constraints:
                facts["constraints"] = self.sweep.signature["constraints"]
            name = f"{self.loaded.name}-{digest({**facts, 'space': space.as_json()})}/{arm.arm.name}"
            found.append((arm, search(name, space, self.tune.method, facts), self.tune.trials))
        return found

    def look(self) -> None:
        """Raise Mistake for a corpus of the arms that cannot be there; nothing is read."""
        for arm in self.arms:
            look(arm.arm.spec.data, self.loaded.base, arm.arm.spec.evaluation.also)

    def run(self) -> tuple[Outcome, Searched]:
        """Have every trial that is missing. Raises OSError, naming the runs folder."""
        try:
            return self._run()
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(self.options.runs)) from error

    def _run(self) -> tuple[Outcome, Searched]:
        self._announce()
        base = self.arms[0]
        data = self.folders.store(base).hash
        storage = opened(self.address, own=self.own)
        others = {one.study_name for one in storage.get_all_studies()}
        studies = [(arm, Study(search, storage), trials) for arm, search, trials in self.searches(data)]
        self._say_changed(others, [study for _, study, _ in studies])
        branches = [self._branch(arm, study, trials) for arm, study, trials in studies]
        trials = self._trials(branches)
        outcome = Outcome()
        baseline = None if self.compares else base
        missing = not all(branch.is_over for branch in branches)
        mirror = mlflow.Mirror(self.edition, self.uri, lambda text: self.console.say(text, "yellow"))
        if missing:
            trials.describe(self.folders)
            mirror.start()
            driver = Driver(trials, branches, self.folders, self.slots, self.console)
            outcome = driver.run(baseline)
        else:
            every = sum(branch.trials for branch in branches)
            self.console.say(formats.finished(every, every, "trial"))
        searched = self._searched(branches)
        if retold := not missing and not self._is_told(trials):
            trials.describe(self.folders)
        if missing or retold or not files.are_there(self.edition):
            with self.console.busy("writing the report"):
                files.write(self._story(searched))
        if missing:
            with self.console.busy("telling MLflow the rest"):
                mirror.close()
        elif mlflow.pending(self.edition, self.uri):
            self._sync()
        return outcome, searched

    def _is_told(self, trials: Trials) -> bool:
        """Whether the description of the edition, and so its page, is of as many trials as are asked for."""
        try:
            return self.edition.description().get("trials") == trials.facts["trials"]
        except Damaged:
            return False

    @property
    def compared(self) -> Space:
        """The scientific part of a search's space; empty for a comparison."""
        return self.sweep.compared if self.sweep is not None and not self.compares else Space({})

    def _searched(self, branches: Sequence[Branch]) -> Searched:
        left, compared = untried(branches[0], self.compared), self.compared
        valid = [point for point in left if self.sweep is None or not self.sweep.invalid(compared.changes(point))]
        return Searched(
            self.edition.title,
            self.edition,
            branches,
            self.arms[0],
            public(self.address),
            self.margin,
            combinations=(compared.size or 0) if compared.ranges else 0,
            untried=len(valid),
        )

    def _sync(self) -> None:
        try:
            with self.console.busy("telling MLflow the rest"):
                mlflow.sync(self.edition, self.uri)
        except Exception as error:  # a full disk, a server that is gone: the records are complete without it
            self.console.say(f"MLflow: {error}; `labkit sync` fills it again", "yellow")

    def _story(self, searched: Searched) -> Story:
        return Story(
            title=searched.title,
            edition=searched.edition,
            branches=searched.branches,
            winners=searched.winners,
            compared=self.compared,
            question=self.loaded.question,
            hypothesis=self.loaded.hypothesis,
            command=self.options.command,
            storage=searched.storage,
        )

    @property
    def uri(self) -> str:
        return mlflow.default_uri(self.options.runs)

    def _branch(self, arm: Counted, study: Study, trials: int) -> Branch:
        return Branch(arm.arm, study, study.search.space, self.objectives, trials, alone=not self.compares)

    def _trials(self, branches: Sequence[Branch]) -> Trials:
        facts = {
            "kind": "sweep",
            "storage": public(self.address),
            "trials": sum(branch.trials for branch in branches),
            "studies": [branch.study.search.name for branch in branches],
            "objectives": [[one.key, one.direction] for one in self.objectives],
            "metric": self.loaded.experiment.metric,
            "seeds": list(self.seeds),
            "looks": [],
        }
        constraints = self.sweep.constraints if self.sweep is not None else {}
        base = replace(self.arms[0], match=None)
        return Trials(
            self.edition.title,
            self.loaded.experiment,
            self.loaded.base,
            base,
            self.objectives,
            self.seeds,
            self.options.command,
            facts,
            constraints,
            self.console,
        )

    def _announce(self) -> None:
        self.console.say(f"{self.edition.title}  {self.loaded.question}".rstrip(), "bold")
        searches, base = self.searches(), self.arms[0]
        crew = crew_of(self.slots)
        trials = sum(trials for _, _, trials in searches)
        each = f"{len(searches)} arms of {searches[0][2]} trials" if self.compares else formats.plural(trials, "trial")
        size = f"{formats.count(base.costs.params)} parameters, {formats.count(base.tokens)} tokens each"
        method = searches[0][1].method
        self.console.say(f"{each} by {method.sampler.label}, pruner {method.pruner.label}, {size}, {crew}")
        say_slow(self.console, self.slots, self.arms)
        if self.sweep is not None and self.compares and (left_out := self.sweep.left_out()):
            for name, why in left_out.items():
                self.console.say(f"left out: {name}: {why}", "yellow")

    def _say_changed(self, others: set[str], studies: Sequence[Study]) -> None:
        """Say that a changed space begins a new study, where there is an old one of this sweep."""
        current = {study.search.name for study in studies}
        prefix = f"{self.loaded.name}-"
        old = sorted(name for name in others - current if name.startswith(prefix) and "/taken from" not in name)
        if old and not (current & others):
            new = formats.listed(sorted(current))
            self.console.say(
                f"what is searched has changed: {new} is a new study; {formats.listed(old)} stays as it is", "yellow"
            )


def _one_at_a_time(runtime: Runtime) -> Runtime:
    """For trials that are judged by their speed. Raises Mistake where several are asked for at once."""
    if runtime.side_by_side not in ("auto", 1):
        reason = f"trials are judged by {SPEED}, which is theirs only where they train alone"
        raise Mistake(f"--side-by-side {runtime.side_by_side}: {reason}; leave it out")
    return runtime.patched({"side_by_side": 1})
