"""The driver: what an experiment's file asks for, made true.

It plans, shows and logs, and never touches a device.
"""

import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from labkit.data import Store, look
from labkit.data.batches import require_window
from labkit.report import files, formats
from labkit.spec import Mistake
from labkit.study.answered import answering, is_alike
from labkit.study.counting import Counted
from labkit.study.crew import Crew, Event, Turn
from labkit.study.executors import Answer, Slot, crew_of, slots
from labkit.study.experiment import Experiment
from labkit.study.interrupt import counted_interrupts
from labkit.study.loading import Loaded
from labkit.study.matching import matched
from labkit.study.plan import Job, Planner, chosen, jobs_of, need_of
from labkit.study.preparing import prepare_apart
from labkit.study.tokenizers import Density, check_tokenizers
from labkit.study.watch import Watch
from labkit.tracking import mlflow
from labkit.tracking.console import Console
from labkit.tracking.record import FINISHED, Busy, Edition, Run
from labkit.train.run import Runtime


@dataclass(frozen=True)
class Options:
    """How an experiment is run; nothing here changes what is computed."""

    runs: Path
    runtime: Runtime
    command: str
    """What runs it again, for its readers."""
    only: Sequence[str] = ()
    workers: int = 0
    """At most so many; 0: one a GPU, or one a CPU core."""
    fresh: bool = False
    """Run again where a finished run's sources are no longer the ones at hand."""
    asked_anew: str = "--fresh"
    """How whoever runs it asks for that."""


@dataclass
class Outcome:
    """What came of it."""

    failed: list[Job] = field(default_factory=list[Job])
    interrupted: bool = False


class Runner:
    """One experiment in one edition. Making it checks all that can be known before data is read. Raises Mistake."""

    def __init__(self, loaded: Loaded, edition: str, options: Options, console: Console) -> None:
        self.loaded, self.options, self.console = loaded, options, console
        self.slots = slots(options.runtime, options.workers)
        self.edition = Edition(options.runs.absolute() / loaded.name / edition)
        self.arms = matched(self.experiment, loaded.base, console)
        for arm in self.arms:
            options.runtime.rows(arm.arm.spec.batch_size)
        self.jobs = chosen(jobs_of(self.arms, self.experiment.seed_list, self.edition), options.only)
        self.planner = Planner(loaded, self.edition, loaded.sources)
        self.sources = self.planner.hashes()
        self.stores: dict[str, Store] = {}
        self.again: set[Job] = set()
        check_writable(options.runs)

    @property
    def experiment(self) -> Experiment:
        return self.loaded.experiment

    def run(self) -> Outcome:
        """Train what is missing, with MLflow following along. Raises OSError, naming the runs folder."""
        try:
            return self._run()
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(self.options.runs)) from error

    def _run(self) -> Outcome:
        self._announce()
        self.prepare()
        for store in self.stores.values():
            self._say_data(store)
        self.planner.describe(self.arms, self.options.command)
        missing = self._missing()
        answered = self._answer(missing)
        missing = [job for job in missing if job not in answered]
        for job in missing:
            self.planner.plan(job, self.store(job))
        outcome = Outcome()
        uri = mlflow.default_uri(self.options.runs)
        if missing:
            mirror = mlflow.Mirror(self.edition, uri, lambda text: self.console.say(text, "yellow"))
            mirror.start()
            outcome = self._train(missing)
            with self.console.busy("writing the report, telling MLflow the rest"):
                mirror.close()
                files.write(self.edition)
            if mirror.error is not None:
                return outcome
        elif answered or not (self.edition.path / files.PAGE).exists():
            files.write(self.edition)
        if mlflow.pending(self.edition, uri):
            self._sync(uri)
        return outcome

    def _sync(self, uri: str) -> None:
        try:
            with self.console.busy("telling MLflow the rest"):
                mlflow.sync(self.edition, uri)
        except Exception as error:  # a full disk, a server that is gone: the records are complete without it
            self.console.say(f"MLflow: {error}; `labkit sync` fills it again", "yellow")

    def _announce(self) -> None:
        self.console.say(f"{self.edition.title}  {self.loaded.question}".rstrip(), "bold")
        taken = len({job.counted for job in self.jobs})
        arms, seeds = formats.plural(len(self.arms), "arm"), formats.plural(len(self.experiment.seed_list), "seed")
        arms = arms if taken == len(self.arms) else f"{taken} of {arms}"
        base = self.arms[0]
        size = f"{formats.count(base.costs.params)} parameters, {formats.count(base.tokens)} tokens each"
        runs = formats.plural(len(self.jobs), "run")
        self.console.say(f"{runs} of {arms} × {seeds}, {size}, {crew_of(self.slots)}")
        for name in self.experiment.folded:
            self.console.say(f"{name} is the baseline itself: not run twice")
        say_slow(self.console, self.slots, self.arms)

    def look(self) -> None:
        """Raise Mistake for a corpus of the jobs that cannot be there; nothing is read."""
        for spec in {_data_key(job): job.spec for job in self.jobs}.values():
            look(spec.data, self.loaded.base, spec.evaluation.also)

    def prepare(self) -> None:
        """Have every store that the jobs read. Raises Mistake for one that is too short."""
        for job in self.jobs:
            if (key := _data_key(job)) not in self.stores:
                spec = job.counted.arm.spec
                self.stores[key] = prepare_apart(spec, self.loaded.base, self.console)
        for job in self.jobs:
            _check_length(job, self.store(job))
        texts = {job.counted.arm.name: self.store(job).train for job in self.jobs}
        densities = {name: Density(split.n_tokens, split.n_bytes) for name, split in texts.items()}
        check_tokenizers(self.arms, densities, self.experiment.tolerance)

    def _say_data(self, store: Store) -> None:
        facts = store.facts()
        text = (
            f"{facts['corpus']}, {facts['corpus_version']}: {formats.count(facts['train_tokens'])} tokens to train on"
        )
        runs = [job for job in self.jobs if self.store(job) is store]
        epochs = max(job.counted.tokens for job in runs) / facts["train_tokens"]
        self.console.say(f"{text}, gone through {epochs:.2g} times")

    def store(self, job: Job) -> Store:
        """What a job reads, once it is prepared."""
        return self.stores[_data_key(job)]

    def _missing(self) -> list[Job]:
        """The jobs that are not finished, and those that are to be run again; says what is not as it was."""
        needs = {job: need_of(job, self.store(job).identity, self.sources) for job in self.jobs}
        kept = [job for job, need in needs.items() if need in ("finished", "continue", "retry")]
        changed = {job: self.planner.changed(job) for job in kept}
        self._say_changed(changed, needs)
        self._say_superseded([job for job, need in needs.items() if need == "anew"])
        if self.options.fresh:
            self.again = {job for job, files in changed.items() if files and needs[job] in ("finished", "retry")}
        missing = [job for job, need in needs.items() if need != "finished" or job in self.again]
        if finished := formats.finished(len(self.jobs) - len(missing), len(self.jobs), "run"):
            self.console.say(finished)
        return missing

    def answered(self, job: Job) -> Run | None:
        """A run made before, elsewhere, that answers for a job of which nothing is on record."""
        if self.options.fresh or job.run.record():
            return None
        store = self.stores.get(_data_key(job))
        identity, alike = store.identity if store else "", partial(is_alike, runtime=self.slots[0].runtime)
        return answering(job, self.options.runs, identity, self.sources, alike)

    def _answer(self, missing: Sequence[Job]) -> set[Job]:
        """Take over the runs that answer for jobs, and say whose they are."""
        found = {job: other for job in missing if (other := self.answered(job))}
        for job, other in found.items():
            with suppress(Busy), job.run.lock():
                job.run.adopt(other, self.planner.facts(job, self.store(job), other.record().get("sources", {})))
        taken = [job for job in found if job.run.record().get("status") in FINISHED]
        if taken:
            whose = formats.listed(sorted({Edition(found[job].path.parents[1]).title for job in taken}))
            runs = formats.plural(len(taken), "run")
            anew = f"{self.options.asked_anew} trains them here"
            self.console.say(f"{runs} answered by {whose}: the same spec, text and sources; {anew}")
        return set(taken)

    def _say_superseded(self, anew: Sequence[Job]) -> None:
        finished = [job for job in anew if job.run.record().get("status") in FINISHED]
        if finished:
            runs = formats.plural(len(finished), "finished run")
            self.console.say(f"{runs} of other data are trained anew; the old ones move to superseded/", "yellow")

    def _say_changed(self, changed: Mapping[Job, Sequence[str]], needs: Mapping[Job, str]) -> None:
        finished = {file for job, files in changed.items() if needs[job] == "finished" for file in files}
        going_on = {file for job, files in changed.items() if needs[job] != "finished" for file in files}
        if finished and not self.options.fresh:
            files = _named(finished)
            remedy = f"{self.options.asked_anew} runs those again"
            self.console.say(f"{files} changed since runs were finished with it; {remedy}", "yellow")
        if going_on:
            files = _named(going_on)
            remedy = "" if self.options.fresh else f"; {self.options.asked_anew} starts failed ones anew"
            what = "unfinished runs go on with the source that started them"
            self.console.say(f"{files} changed; {what}{remedy}", "yellow")

    def _train(self, missing: Sequence[Job]) -> Outcome:
        outcome, crew = Outcome(), Crew(self.slots, missing, self._turn)
        with counted_interrupts() as interrupts, self.console.gauges() as gauges:
            watch = Watch(self.console, gauges, self.jobs, missing)
            crew.start()
            for event in crew.events():
                if event is not None:
                    self._take(event, watch, outcome)
                watch.tick()
                if interrupts.new:
                    self._heed(crew, outcome)
        return outcome

    def _heed(self, crew: Crew, outcome: Outcome) -> None:
        """The first Ctrl-C lets the workers save their runs, the second does not."""
        if outcome.interrupted:
            crew.kill()
        else:
            self.console.say("interrupted: the runs are being saved; Ctrl-C again kills them", "yellow")
            crew.leave()
        outcome.interrupted = True

    def _take(self, event: Event, watch: Watch, outcome: Outcome) -> None:
        job, answer = event.job, event.answer
        if answer is None:
            watch.start(job)
            return
        if answer.died:
            _bury(job, answer)
        if answer.status == "failed":
            outcome.failed.append(job)
        watch.end(job, answer)

    def _turn(self, job: Job) -> Turn:
        """Look again, for another driver may have been at work, and make the folder ready."""
        if job.run.owned:
            return "elsewhere"
        need = need_of(job, self.store(job).identity, self.sources)
        if need == "finished" and job not in self.again:
            return "over"
        if (need == "anew" or job in self.again) and not self.planner.empty(job):
            return "elsewhere"
        self.again.discard(job)
        self.planner.plan(job, self.store(job))
        job.run.clear_stop()
        return "train"


def _named(files: Iterable[str]) -> str:
    """Files by their paths; many of labkit's own by their number."""
    users = sorted(file for file in files if not file.startswith("labkit/"))
    own = sorted(set(files) - set(users))
    return formats.listed([*users, *(own if len(own) <= 3 else [f"{len(own)} files of labkit"])])


def say_slow(console: Console, slots: Sequence[Slot], arms: Iterable[Counted]) -> None:
    """Say once what takes a CPU long without need."""
    if slots[0].runtime.device == "cpu" and any(arm.arm.spec.precision == "bf16" for arm in arms):
        console.say("bf16 is slow on a CPU; --set precision=fp32 is faster here", "yellow")


def check_writable(runs: Path) -> None:
    """Raise Mistake unless the runs folder can be made and written to; nothing stays behind."""
    there = next(folder for folder in (runs.absolute(), *runs.absolute().parents) if folder.exists())
    try:
        with tempfile.TemporaryDirectory(dir=there, prefix=".labkit-"):
            pass
    except OSError as error:
        raise Mistake(
            f"--runs {runs}: cannot write there: {os.strerror(error.errno or 0)}; choose another folder"
        ) from error


def _check_length(job: Job, store: Store) -> None:
    """Raise Mistake where a split is shorter than one window, with how many copies were left out of its text."""
    facts = store.facts()
    also = [(whole.split, whole.facts()["duplicates"]) for whole in store.also.values()]
    for split, copies in ((store.train, facts["duplicates"]), (store.val, facts["duplicates"]), *also):
        try:
            require_window(split, job.spec.model.context)
        except Mistake as error:
            left_out = "1 exact copy was" if copies == 1 else f"{copies:,} exact copies were"
            told = f" {left_out} left out of the documents." if copies else ""
            raise Mistake(f"{job.counted.arm.name}: {error}{told}") from error


def _bury(job: Job, answer: Answer) -> None:
    """Write the end of a run whose worker could not."""
    with suppress(Busy), job.run.lock():
        with job.run.console_log.open("a") as log:
            log.write(f"{answer.said}\n{answer.error}\n".lstrip())
        job.run.update(status="failed", error=answer.error, ended=time.time())


def _data_key(job: Job) -> str:
    spec = job.counted.arm.spec
    also = " ".join(f"{one.name} {one.fingerprint}" for one in spec.evaluation.also)
    return f"{spec.data.fingerprint} {spec.tokenizer.fingerprint} {also}"
