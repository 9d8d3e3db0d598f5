"""Times on a GPU: work that is replayed from a CUDA graph, so that no host stands in its way."""

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Work = Callable[[], Any]

COLD = 300 << 20
"""Bytes to touch between two uses of a buffer, several times the cache of any GPU so far."""
MOVED = 2 << 30
"""Bytes that a replay should at least move, so that its start counts for nothing."""
LONG = 256 << 20
"""Bytes that one copy reads and writes: a longer one is slower when it is replayed."""


def replayed(work: Work, *, seconds: float = 0.02) -> float:
    """Seconds that the work takes on the GPU, when it is replayed: the median of several replays."""
    graph = captured(work)
    graph.replay()
    once = timed(graph.replay)
    times = [timed(graph.replay) for _ in range(max(5, min(100, int(seconds / once))))]
    del graph
    return statistics.median(times)


def captured(work: Work) -> torch.cuda.CUDAGraph:
    """A graph of the work, which runs three times before."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.autograd.set_multithreading_enabled(False):
        for _ in range(3):
            work()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            work()
    torch.cuda.synchronize()
    return graph


def launched(work: Work, before: Work = lambda: None, *, times: int = 10) -> float:
    """Seconds of long work as it is launched; what has to be done `before` each time is not counted."""
    for _ in range(2):
        before()
        work()
    found: list[float] = []
    for _ in range(times):
        before()
        found.append(timed(work))
    return statistics.median(found)


def alternated(works: dict[str, Work], *, turns: int = 5, times: int = 10) -> dict[str, float]:
    """Seconds of each of several long works, which take turns in changing order.

    A GPU at the limit of its power has another clock after products than after copies, and keeps it for milliseconds.
    So a work is repeated in its turn, and counted once the clock is the one that it has in its own company.
    """
    order, found = list(works), {name: list[float]() for name in works}
    for turn in range(turns):
        random.Random(turn).shuffle(order)
        for name in order:
            repeated = [timed(works[name]) for _ in range(times)]
            found[name] += repeated[times // 2 :]
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def timed(work: Work) -> float:
    """Seconds that work takes on the GPU, from its launch on."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def called(work: Work, *, times: int = 50) -> float:
    """Seconds that one call takes on the host, while the GPU has less to do than it: the least of several rounds."""
    work()
    rounds: list[float] = []
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            work()
        rounds.append((time.perf_counter() - begin) / times)
        torch.cuda.synchronize()
    return min(rounds)


def rounds(size: int) -> int:
    """How often work that moves so many bytes is repeated in a replay."""
    return max(1, MOVED // size)


def copied(sizes: list[int]) -> float:
    """Seconds for copies that together read and write so many bytes each, out of a cold cache."""
    sets = max(1, -(-COLD // sum(sizes)))
    pairs: list[tuple[Tensor, Tensor]] = []
    for size in sizes * sets:
        source, target = (torch.randint(0, 255, (size // 2,), dtype=torch.uint8, device="cuda") for _ in range(2))
        pairs += zip(source.split(LONG // 2), target.split(LONG // 2), strict=True)
    turns = rounds(sets * sum(sizes))

    def work() -> None:
        for source, target in pairs * turns:
            target.copy_(source)

    return replayed(work) / (sets * turns)


def peak(work: Work) -> int:
    """Bytes that the work takes at its peak, beyond what is there before."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def differentiated(
    function: Callable[..., tuple[Tensor, ...]], sets: list[list[Tensor]], upstream: list[list[Tensor]]
) -> tuple[float, float]:
    """Seconds of the forward pass, and of both, over several sets of inputs in turn."""

    def forward() -> list[tuple[Tensor, ...]]:
        return [function(*inputs) for inputs in sets]

    def both() -> None:
        for outputs, inputs, gradients in zip(forward(), sets, upstream, strict=True):
            needed = [tensor for tensor in inputs if tensor.requires_grad]
            torch.autograd.grad(outputs, needed, gradients, allow_unused=True)

    return replayed(forward) / len(sets), replayed(both) / len(sets)
