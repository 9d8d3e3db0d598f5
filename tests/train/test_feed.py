"""The place that steps read their inputs from."""

from functools import partial
from typing import Any

import torch

from labkit.train import feed as feeding
from labkit.train.feed import Feed, PinnedFeed, feed_on

CPU = torch.device("cpu")


def test_inputs_come_to_the_same_place_one_after_another() -> None:
    feed = feed_on(CPU, rows=2, length=3, beside=2)
    place = feed.tokens_RT.data_ptr()
    for first in (10, 20):
        tokens = torch.arange(first, first + 6).view(2, 3)
        feed.put(tokens, first, 7)
        assert torch.equal(feed.tokens_RT, tokens)
        assert feed.beside.tolist() == [first, 7]
    assert feed.tokens_RT.data_ptr() == place


def test_rows_that_are_not_given_are_padding() -> None:
    feed = Feed(rows=3, length=2, beside=0, device=CPU)
    feed.put(torch.ones(3, 2, dtype=torch.int64))
    feed.put(torch.tensor([[1, 2], [3, 4]]))
    assert feed.tokens_RT.tolist() == [[1, 2], [3, 4], [-100, -100]]


def test_what_is_put_need_not_be_contiguous() -> None:
    feed = Feed(rows=2, length=2, beside=1, device=CPU)
    feed.put(torch.arange(8).view(4, 2)[::2], 5)
    assert feed.tokens_RT.tolist() == [[0, 1], [4, 5]]


def unpinned(empty: Any, shape: torch.Size, *, dtype: torch.dtype, pin_memory: bool) -> torch.Tensor:
    """Without a GPU there is no pinned memory."""
    assert pin_memory
    return empty(shape, dtype=dtype)


class Log:
    """Stands for streams and events: what was done, in order."""

    def __init__(self, monkeypatch) -> None:
        self.done: list[str] = []
        self.stream = "main"
        log = self

        class Event:
            made = 0

            def __init__(self) -> None:
                self.name = ("copied", "taken")[Event.made % 2] + str(Event.made // 2)
                Event.made += 1

            def synchronize(self) -> None:
                log.done.append(f"host waits for {self.name}")

            def wait(self, stream: str = "") -> None:
                log.done.append(f"{stream or log.stream} waits for {self.name}")

            def record(self) -> None:
                log.done.append(f"{log.stream} records {self.name}")

        class Switch:
            def __init__(self, stream: str) -> None:
                self.stream = stream

            def __enter__(self) -> None:
                log.stream = self.stream

            def __exit__(self, *_: object) -> None:
                log.stream = "main"

        monkeypatch.setattr(torch, "empty", partial(unpinned, torch.empty))
        for name, value in {
            "Event": Event,
            "stream": Switch,
            "current_stream": lambda: log.stream,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)
        monkeypatch.setattr(feeding, "stream_beside", lambda _: "side")


def test_inputs_are_copied_ahead_on_a_stream_of_their_own(monkeypatch) -> None:
    """The host waits only for memory that it is about to write to again, the device only for its own input."""
    log = Log(monkeypatch)
    feed = PinnedFeed(rows=1, length=2, beside=0, device=CPU)
    for number in range(8):
        log.done.clear()
        feed.put(torch.tensor([[number, number]]))
        slot = number % 6
        assert log.done == [
            f"host waits for copied{slot}",
            f"side waits for taken{slot}",
            f"side records copied{slot}",
            f"main waits for copied{slot}",
            f"main records taken{slot}",
        ]
        assert feed.tokens_RT.tolist() == [[number, number]]
