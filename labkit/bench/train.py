"""Whole training steps of four Llama-like models in bf16: labkit's, and what else a user could pick.

All that fit into memory together take turns, with the floor among them, so that a clock that drifts hits all alike.
What does not fit comes in another round, with the floor again: contenders are compared by their ratios to it.
"""

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, Literal

import torch

from labkit.bench.case import Told, brief
from labkit.bench.contender import Contender, Labkit
from labkit.bench.floor import Floor, Measured
from labkit.bench.peers import PEERS, Compiled, CompiledCaptured
from labkit.bench.setups import SETUPS
from labkit.train.captured import Captured
from labkit.train.execution import Eager

SETTLING, TURNS = 3, 4
ROOM = 1.25
"""The next contender may take so much more than the largest so far, and a turn than the first steps did."""

Mode = Literal["exact", "fast"]
Wanted = list[tuple[str, Mode | None]]
"""Contenders, each in its mode if it has one."""

OURS: dict[str, Callable[..., Contender]] = {
    "labkit": partial(Labkit, kernels="auto", execution=Captured),
    "labkit-eager": partial(Labkit, kernels="auto", execution=Eager),
    "torch": partial(Labkit, kernels="torch", execution=Captured),
}
"""In a mode: labkit, without a captured step, and captured with torch's operations."""
CONTENDERS = ("labkit", "compile", "compile-captured", "liger", "torch-eager", "torch", "labkit-eager")
"""In the order that they start in: what captures the compiled step comes right after it, the largest late."""
WITH_KERNELS = ("labkit", "labkit-eager", "liger")
"""Compiled once for the sizes of a model, not for each variant: their first step is measured after that."""


@dataclass
class Row:
    """What was measured of one contender on one setup."""

    setup: str
    name: str
    mode: Mode | None
    """None: it knows none."""
    how: str = "eager"
    """captured, compiled or eager: what became of it."""
    first_step: float = 0.0
    """Seconds from the model's building to the end of its first step, in a process that has trained others before."""
    memory: float = 0.0
    """GiB, at the peak, beside what was there before."""
    seconds: float = 0.0
    """Of a step."""
    host: float = 0.0
    """Seconds that the host takes for a step."""
    tokens_per_s: float = 0.0
    tflops: float = 0.0
    """Of forward and backward, causal attention counted once."""
    floor: float = 0.0
    """Seconds, in the same turns."""
    parts: dict[str, float] = field(default_factory=dict[str, float])
    """Of the floor: seconds of products, attention and copies."""
    above_floor: float = 0.0
    """seconds / floor: the median over the turns."""
    beside_best: float | None = None
    """How many times as fast as the fastest peer, by the ratios to the floor; None: no peer was measured."""

    @property
    def label(self) -> str:
        return f"{self.name}, {self.mode}" if self.mode else self.name


class Entry:
    """A contender that is alive, and what was measured of it."""

    def __init__(self, row: Row, contender: Contender) -> None:
        self.row, self.contender = row, contender
        self.times, self.hosts = list[float](), list[float]()
        self.spent, self.before = 0.0, allocated()
        """What went before: seconds, and bytes that are none of its own."""
        self.passing = 0.0
        """GiB that a step takes and gives back; what is captured keeps its own."""

    def start(self, settling: int = SETTLING) -> None:
        """Build it and make its first steps."""
        start = time.perf_counter()
        if self.contender.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        with self.contender.building():
            self.contender.build()
            self.contender.step()
            self.contender.wait()
            self.row.first_step = self.spent + time.perf_counter() - start
            for _ in range(settling):
                self.contender.step()
            self.contender.wait()
            self.row.how = self.contender.how
            self.row.memory = (allocated(at_most=True) - self.before) / 2**30
            if self.row.how != Captured.how:
                self.passing = self.row.memory - (allocated() - self.before) / 2**30

    def turn(self, seconds: float) -> None:
        """As many steps as fit, at least two, after one that is not counted; of that, how long the host took."""
        with self.contender.turn():
            begin = time.perf_counter()
            self.contender.step()
            self.hosts.append(time.perf_counter() - begin)
            self.contender.wait()
            count = max(2, min(200, int(seconds / (time.perf_counter() - begin))))
            begin = time.perf_counter()
            for _ in range(count):
                self.contender.step()
            self.contender.wait()
            self.times.append((time.perf_counter() - begin) / count)

    def finished(self, floors: list[Measured]) -> Row:
        """The row, of all turns."""
        row, setup = self.row, SETUPS[self.row.setup]
        row.seconds, row.host = statistics.median(self.times), statistics.median(self.hosts)
        row.tokens_per_s, row.tflops = setup.tokens / row.seconds, setup.flops / row.seconds / 1e12
        if floors:
            above = (time / floor.total for time, floor in zip(self.times, floors, strict=True))
            row.above_floor = statistics.median(above)
            row.floor = statistics.median(floor.total for floor in floors)
            row.parts = {
                "products": statistics.median(floor.products for floor in floors),
                "attention": statistics.median(floor.attention for floor in floors),
                "copies": statistics.median(floor.copies for floor in floors),
            }
        return row


@dataclass
class Bench:
    """Who is compared, and how."""

    names: list[str]
    modes: list[Mode]
    seconds: float
    """Of a turn."""
    told: Told
    """Hears what happens on the way."""
    device: str = "cuda"
    crowded: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Setup and label of what others left too little memory to, for a turn; it has one more try."""

    def rows(self, setups: list[str]) -> Iterator[Row]:
        """Every setup by every contender; one that fails is left out, and told."""
        self.warm()
        for setup in setups:
            wanted: Wanted = [(name, mode) for name in CONTENDERS if name in self.names for mode in self.modes_of(name)]
            if self.device == "cuda":
                self.load(setup, wanted)
            floor = self.floor(setup)
            rows: list[Row] = []
            while wanted:
                rows += self.together(setup, wanted, floor)
            del floor
            release()
            yield from compared(rows)

    def modes_of(self, name: str) -> Sequence[Mode | None]:
        """labkit's in each of the modes, what is made of it in the last of them."""
        if name not in OURS:
            return (None,)
        return self.modes if name == "labkit" else self.modes[-1:]

    def warm(self) -> None:
        """What a process does once, whatever it compiles."""
        if self.device == "cuda" and {"compile", "compile-captured"} & set(self.names):
            start = time.perf_counter()
            compiled: Any = torch.compile(lambda x: x.square().sum(), dynamic=False)
            compiled(torch.ones(8, device="cuda", requires_grad=True)).backward()
            self.told(f"compiler loaded: {time.perf_counter() - start:.1f} s")

    def load(self, setup: str, wanted: Wanted) -> None:
        """Start, and let go of, all whose kernels serve every variant of these sizes."""
        start = time.perf_counter()
        for name, mode in wanted:
            if name in WITH_KERNELS:
                self.started(setup, name, mode, [], told=ignored, settling=0)
                release()
        self.told(f"{setup}: kernels compiled and loaded: {time.perf_counter() - start:.1f} s")

    def floor(self, setup: str) -> Floor | None:
        if self.device != "cuda":
            return None
        try:
            return Floor(SETUPS[setup])
        except Exception as error:
            self.told(f"{setup}, floor: left out: {brief(error)}")
            return None

    def together(self, setup: str, wanted: Wanted, floor: Floor | None) -> list[Row]:
        """Start as many of the wanted as fit into memory, let them take turns, and let go of them."""
        alive: list[Entry] = []
        while wanted and (fits(alive) or shared(wanted[0][0], alive)):
            try:
                added = self.started(setup, *wanted[0], alive, told=self.told)
            except torch.OutOfMemoryError:  # next time, with more room
                break
            if alive and not turns_fit(alive + added):
                self.told(f"{setup}, {wanted[0][0]}: again in another round: its turns would crowd the others'")
                added.clear()
                break
            alive += added
            del wanted[0]
        floors: list[Measured] = []
        for number in range(1, TURNS + 1):
            floors += [floor.measured()] if floor else []
            alive = [entry for entry in alive if self.turned(entry, wanted)]
            times = [f"{entry.row.label} {1e3 * entry.times[-1]:.2f}" for entry in alive]
            times += [f"floor {1e3 * floors[-1].total:.2f}"] if floors else []
            self.told(f"{setup}, turn {number} of {TURNS}, ms: {'; '.join(times)}")
        rows = [entry.finished(floors) for entry in alive]
        alive.clear()
        release()
        return rows

    def started(
        self, setup: str, name: str, mode: Mode | None, alive: list[Entry], *, told: Told, settling: int = SETTLING
    ) -> list[Entry]:
        """The contender after its first steps; none where it fails.

        Raises OutOfMemoryError if it does not fit beside those that are alive.
        """
        try:
            entry = entered(setup, name, mode, alive, self.device)
            entry.start(settling)
        except torch.OutOfMemoryError as error:
            if alive:
                raise
            told(f"{setup}, {name}: left out: {brief(error)}")
        except Exception as error:
            told(f"{setup}, {name}: left out: {brief(error)}")
        else:
            told(f"{setup}, {entry.row.label}: first step {entry.row.first_step:.2f} s, {entry.row.memory:.1f} GiB")
            return [entry]
        return []

    def turned(self, entry: Entry, wanted: Wanted) -> bool:
        """Whether its turn went well. What lacks memory for one comes first among those wanted next, once."""
        row = entry.row
        try:
            entry.turn(self.seconds)
        except Exception as error:
            again = isinstance(error, torch.OutOfMemoryError) and (row.setup, row.label) not in self.crowded
            if again:
                self.crowded.add((row.setup, row.label))
                wanted.insert(0, (row.name, row.mode))
            self.told(f"{row.setup}, {row.label}: {'again later' if again else 'left out'}: {brief(error)}")
            return False
        return True


def ignored(text: str) -> None:
    """What is no news."""


def entered(setup: str, name: str, mode: Mode | None, alive: list[Entry], device: str) -> Entry:
    """A contender that is not started yet."""
    row = Row(setup, name, mode)
    if name in OURS:
        return Entry(row, OURS[name](SETUPS[setup], device, mode))
    compiled = shared(name, alive)
    if compiled is None:
        return Entry(row, PEERS[name](SETUPS[setup], device))
    entry = Entry(row, CompiledCaptured.of(compiled.contender))
    entry.spent, entry.before = compiled.row.first_step, compiled.before
    return entry


def shared(name: str, alive: list[Entry]) -> Any:
    """The entry whose compiled model another can capture, so that it is compiled once."""
    found = [entry for entry in alive if type(entry.contender) is Compiled]
    return found[0] if found and name == "compile-captured" else None


def fits(alive: list[Entry]) -> bool:
    """Whether there is room for one more."""
    return not alive or free_memory() > ROOM * max(entry.row.memory for entry in alive)


def turns_fit(alive: list[Entry]) -> bool:
    """Whether each has room for its steps beside what the others hold."""
    return free_memory() > ROOM * max(entry.passing for entry in alive)


def free_memory() -> float:
    """GiB on the GPU; on a CPU as much as is wanted."""
    if not torch.cuda.is_available():
        return math.inf
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    return free / 2**30


def allocated(*, at_most: bool = False) -> int:
    """Bytes on the GPU; at most: since that was last reset."""
    if not torch.cuda.is_available():
        return 0
    return torch.cuda.max_memory_allocated() if at_most else torch.cuda.memory_allocated()


def release() -> None:
    """Give back the memory of what is not alive any more, and of what the compiler holds."""
    compiler: Any = sys.modules.get("torch._dynamo")
    if compiler is not None:
        compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def compared(rows: list[Row]) -> list[Row]:
    """With what each is beside the best peer, by the ratios to the floor where that was measured."""
    by = attrgetter("above_floor" if all(row.above_floor for row in rows) else "seconds")
    best = min((by(row) for row in rows if row.name in PEERS), default=None)
    for row in rows:
        row.beside_best = None if best is None else best / by(row)
    return rows


COLUMNS = f"{'tokens/s':>10} {'TFLOP/s':>8} {'a step, ms':>10} {'x floor':>8} {'x best peer':>11}"
HEADER = f"{'model':12} {'':17} {'':8} {COLUMNS} {'first, s':>9} {'host, ms':>9} {'GiB':>6}"


def line(row: Row) -> str:
    """One row of the table."""
    floor = f"{row.above_floor:8.3f}" if row.above_floor else f"{'–':>8}"
    beside = f"{row.beside_best:11.3f}" if row.beside_best else f"{'–':>11}"
    return (
        f"{row.setup:12} {row.label:17} {row.how:8} {row.tokens_per_s:10,.0f} {row.tflops:8.0f} "
        f"{1e3 * row.seconds:10.2f} {floor} {beside} {row.first_step:9.2f} {1e3 * row.host:9.2f} {row.memory:6.1f}"
    )
