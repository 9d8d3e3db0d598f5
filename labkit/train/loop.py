"""One run from its folder to its result: build, resume, step, evaluate, checkpoint, and put it on record."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch

from labkit.data import Batches, Store
from labkit.model import Transformer, costs
from labkit.optim.schedule import length
from labkit.optim.weights import Weights
from labkit.tracking import documents
from labkit.tracking.record import Run
from labkit.train.alike import digest
from labkit.train.buffers import buffers
from labkit.train.captured import Captured
from labkit.train.checkpoint import Cadence, Checkpoint, Checkpoints, packed, unpack
from labkit.train.clock import Clock
from labkit.train.curves import Curves, Speed
from labkit.train.device import peak_flops, promised, reseed, settings
from labkit.train.distributed import ALONE, Group
from labkit.train.evaluate import Evaluator
from labkit.train.execution import Compiled, Eager
from labkit.train.facts import at_the_start
from labkit.train.footprint import Footprint
from labkit.train.run import RunSpec, Runtime
from labkit.train.step import Step
from labkit.train.turns import Turn, Turns, finished
from labkit.train.watch import Watch

ShouldStop = Callable[[], bool]

PARTED = (
    "data parallel: buffers that training changes are of each process's own rows, and those of the first are evaluated "
    "and saved: not bit for bit the same where it is resumed"
)


def train(run: Run, spec: RunSpec, runtime: Runtime, store: Store, should_stop: ShouldStop) -> str:
    """Train a run to its end, or until `should_stop` says so between two steps: done, diverged, paused or pruned.

    Goes on from the run's last checkpoint, in exact mode to the same bits.
    Raises Mistake for a runtime that does not fit the spec or the machine.
    """
    with settings(runtime):
        return finished(training(run, spec, runtime, store, should_stop, company=Company(), group=ALONE))


@dataclass
class Company:
    """How many runs train side by side, this one among them."""

    now: int = 1
    most: int = 1
    """Since this one began, in this process."""

    def is_of(self, count: int) -> None:
        self.now, self.most = count, max(self.most, count)


def training(
    run: Run,
    spec: RunSpec,
    runtime: Runtime,
    store: Store,
    should_stop: ShouldStop,
    *,
    company: Company,
    group: Group,
) -> Turns[str]:
    """The same in turns of one step or less, between which other runs may have theirs, in lanes of their own.

    Of a group it is number 0, which has the others make their shares of the steps.
    """
    runtime.rows(spec.batch_size)
    assert group.size == runtime.data_parallel
    with promised(runtime) as device:
        places = run, spec, runtime, store
        return (yield from Session(*places, device=device, company=company, group=group).train(should_stop))


class Diverged(Exception):
    """Training has left what can be called training, at a step."""

    def __init__(self, step: int, why: str) -> None:
        super().__init__(step, why)
        self.step, self.why = step, why


class Maker:
    """What makes the steps of a run, or a process's share of them. `done` counts those made, or still under way."""

    def __init__(
        self, run: Run, spec: RunSpec, runtime: Runtime, store: Store, *, device: torch.device, group: Group
    ) -> None:
        self.spec, self.device, self.group = spec, device, group
        vocab_size, self.execution = store.size, execution_of(runtime, device)
        self.done, self.steps = 0, spec.steps(vocab_size)
        self.factors = [spec.schedule.factor(step, self.steps) for step in range(self.steps)]
        reseed(device, spec.seed.init)
        self.model = build(spec, vocab_size, device)
        self.model.checkpointing = runtime.activation_checkpointing
        self.weights = Weights(self.model, spec.precision)
        self.optimizer = spec.optimizer.build(self.weights)
        self.step = Step(
            self.model,
            self.weights,
            self.optimizer,
            factors=self.factors,
            clip=spec.clip,
            batch_size=spec.batch_size,
            length=spec.model.context,
            rows=runtime.rows(spec.batch_size),
            dropout_seed=spec.seed.dropout,
            execution=self.execution,
            group=group,
        )
        self.batches = Batches(store.train, spec.model.context, spec.batch_size, spec.seed.data)
        self.checkpoints = Checkpoints(run.checkpoints, {"spec": spec.fingerprint, "data": store.hash})

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on from there."""
        unpack(checkpoint.tensors(self.device), self.weights, self.optimizer)
        self.done = checkpoint.facts["step"]

    def holds(self) -> str:
        """A text for what every process of the group has to have alike: the weights."""
        return digest(self.weights.masters)

    def keeps(self) -> str:
        """A text for the model's buffers."""
        return digest(buffers(self.model))

    def holds_at_first(self) -> str:
        """The same before the first step, with what is no weight, and may follow a process's own rows later."""
        return digest(self.weights.masters | dict(self.model.named_buffers()))

    def make_step(self) -> None:
        """One more."""
        reseed(self.device, self.spec.seed.dropout, self.done, *self.group.key)
        self.step(self.done, torch.from_numpy(self.batches.train(self.done, self.group.rank, self.group.size)))
        self.done += 1


class Session(Maker):
    """One stretch of a run, in one process, which keeps the record."""

    def __init__(
        self,
        run: Run,
        spec: RunSpec,
        runtime: Runtime,
        store: Store,
        *,
        device: torch.device,
        company: Company,
        group: Group,
    ) -> None:
        self.run, self.runtime, self.store = run, runtime, store
        self.company, self.footprint = company, Footprint(device)
        with self.footprint.counted():
            super().__init__(run, spec, runtime, store, device=device, group=group)
            self.observe()

    def observe(self) -> None:
        """What looks at the steps."""
        run, spec, runtime, store, device = self.run, self.spec, self.runtime, self.store, self.device
        rows = runtime.rows(spec.batch_size)
        self.evaluator = Evaluator(self.model, spec, store, rows=rows, device=device, execution=self.execution)
        self.cadence = Cadence(runtime.checkpoint_seconds)
        self.watch = Watch(length(spec.schedule.warmup, self.steps))
        flops, peak = costs(spec.model, store.size).flops_per_token, peak_flops(device, spec.precision)
        self.speed = Speed(spec.tokens_per_step, flops, peak and self.group.size * peak)
        self.clock = Clock()
        rates = [spec.optimizer.lr * factor for factor in self.factors]
        self.curves = Curves(run.append, self.steps, rates, self.clock, self.speed)

    def train(self, should_stop: ShouldStop) -> Turns[str]:
        """Begin or go on; gives the status, which is on record by then."""
        with self.footprint.counted():
            self.begin()
        status = yield from self.trained(should_stop)
        self.group.end()
        return status

    def trained(self, should_stop: ShouldStop) -> Turns[str]:
        """The steps, and what comes after them."""
        try:
            yield from self.turn()
            return self.end() if (yield from self.advance(should_stop)) else self.stop()
        except Diverged as diverged:
            return self.diverge(diverged.step, diverged.why)

    def begin(self) -> None:
        """Get the steps ready, go back to the last checkpoint, if there is one, and say on record what runs where."""
        found = self.checkpoints.latest()
        self.group.begin(self.run.path, found and found.facts["step"], self.device)
        self.step.prepare()
        if found:
            self.resume(found)
            self.clock.restore(found.facts["clock"])
            self.watch.restore(found.facts["watch"])
            self.curves.restore(found.facts["curves"])
        self.group.ready(self.step.made.how, self.holds_at_first)
        facts = at_the_start(
            self.run.record(),
            self.spec,
            self.runtime,
            self.store,
            model=self.model,
            device=self.device,
            made=self.step.made,
            step=self.done,
            beside=self.company.most,
        )
        self.notes: list[str] = facts["notes"]
        self.run.update(**facts, step=self.done, steps=self.steps, tokens=self.steps * self.spec.tokens_per_step)
        how = f"{facts['device']}, {facts['mode']}, {facts['execution']}"
        print(f"{how}: from step {self.done} of {self.steps}", *facts["notes"], sep="\n")

    def turn(self, tokens: int = 0) -> Turns[None]:
        """End a turn, and rest where that is asked."""
        if (yield self.said(tokens)):
            self.read(lag=0)
            with self.clock.stopped():
                yield self.said()
            self.step.rest()

    def said(self, tokens: int = 0) -> Turn:
        is_captured = self.step.made.how == Captured.how
        return Turn(tokens, self.step.sent.oldest, is_captured, self.footprint.most)

    def advance(self, should_stop: ShouldStop) -> Turns[bool]:
        """Step until the end (True), or until told to stop (False). Raises Diverged."""
        points, first = frozenset(self.spec.evaluation.steps(self.steps)), self.done
        while self.done < self.steps:
            if should_stop():
                return False
            with self.footprint.counted() if self.done == first else nullcontext():
                self.make_step()
            yield from self.turn(self.spec.tokens_per_step)
            if self.done in points:
                self.evaluate()
                yield from self.turn()
            if self.cadence.is_due(beside=self.company.now - 1):
                self.save()
                yield from self.turn()
        return True

    def make_step(self) -> None:
        """One more step, and the readings of one some steps before. Raises Diverged."""
        self.group.go(self.done)
        super().make_step()
        self.read()

    def read(self, lag: int | None = None) -> None:
        """Take the readings that have arrived to the curves, up to the step that diverged."""
        for reading in self.step.readings(lag):
            if self.watch.sees_divergence(reading):
                raise Diverged(reading.step, self.watch.why)
            self.clock.tick(reading.seconds)
            self.curves.take(reading, self.surroundings)

    def surroundings(self, step: int) -> dict[str, float]:
        return {"perf/memory_gib": self.footprint.gib, "data/epoch": self.batches.epoch(step)}

    @contextmanager
    def apart(self) -> Generator[None]:
        """What happens inside is not training: its time does not count."""
        self.read(lag=0)
        reseed(self.device, self.spec.seed.dropout, self.done, "apart")
        with self.clock.stopped(), self.footprint.counted():
            if not self.group.agree(self.done, self.holds, self.keeps):
                self.note([PARTED])
            yield
        self.step.rest()

    def evaluate(self) -> None:
        with self.apart():
            self.run.append(self.done, self.evaluator.on_the_way())
            self.note(self.evaluator.scorer.notes)
            self.run.update(step=self.done, seconds=self.clock.seconds, notes=self.notes)

    def note(self, said: list[str]) -> None:
        """Let a reader of the record know, once."""
        for new in (line for line in said if line not in self.notes):
            print(new)
            self.notes = [*self.notes, new]

    def save(self) -> None:
        """Write a checkpoint of all that the next step depends on."""
        with self.apart():
            start = time.monotonic()
            facts = {"clock": self.clock.state(), "watch": self.watch.state(), "curves": self.curves.state()}
            self.checkpoints.save(self.done, packed(self.weights, self.optimizer), facts)
            self.cadence.wrote(time.monotonic() - start)
            self.run.update(step=self.done, seconds=self.clock.seconds)

    def stop(self) -> str:
        """Leave before the end: for good where the run's driver has seen enough of it."""
        return self.prune() if self.run.stop_reason == "pruned" else self.pause()

    def prune(self) -> str:
        with self.apart():
            final = {"train/loss": self.watch.mean} if self.watch.recent else {}
            status = self.leave("pruned", final=final | self.pace())
            self.checkpoints.clear()
        return status

    def pause(self) -> str:
        self.save()
        return self.leave("paused")

    def diverge(self, step: int, why: str) -> str:
        self.done = step
        final = {"train/loss": self.watch.mean} if self.watch.recent else {}
        status = self.leave("diverged", final=final | self.pace(), diverged_at=step, diverged_by=why)
        self.checkpoints.clear()
        return status

    def end(self) -> str:
        """Measure the whole validation split and keep the weights."""
        with self.apart():
            found = self.evaluator.at_the_end()
            documents.keep(self.run, found.documents)
            self.checkpoints.finish(self.weights, {"step": self.done, "precision": self.spec.precision})
            final = found.values | {"train/loss": self.watch.mean} | self.pace()
            status = self.leave("done", final=final, by_position=found.by_position, beyond=found.beyond)
            self.checkpoints.clear()
        return status

    def pace(self) -> dict[str, float]:
        speed = self.speed.metrics(self.clock.steps_per_second())
        return speed | {"perf/memory_gib": self.footprint.gib}

    def leave(self, status: str, **facts: object) -> str:
        """Put the end of this session on record."""
        epochs, seconds, most = self.batches.epoch(self.done), self.clock.seconds, self.company.most
        if most > 1:
            self.note(["speed: trained side by side, so that tokens/s are not compared"])
        self.run.update(
            status=status,
            step=self.done,
            seconds=seconds,
            epochs=epochs,
            ended=time.time(),
            notes=self.notes,
            side_by_side=max(most, self.run.record().get("side_by_side", 1)),
            **facts,
        )
        return status


def build(spec: RunSpec, vocab_size: int, device: torch.device) -> Transformer:
    """The model of a run spec with its initial values, in fp32."""
    with device:
        model = Transformer(spec.model, vocab_size)
    model.initialize(spec.seed.init)
    return model


def execution_of(runtime: Runtime, device: torch.device) -> Eager:
    """How a runtime has steps executed on a device: on a CPU there is nothing to capture."""
    if runtime.compile:
        return Compiled()
    return Captured() if device.type == "cuda" and runtime.capture == "auto" else Eager()
