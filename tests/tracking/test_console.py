"""The console: plain in a pipe, live on a terminal."""

import io
import re
import sys

import pytest

from labkit.tracking import console as console_module
from labkit.tracking.console import Console, brief

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Screen(io.StringIO):
    """A terminal that remembers."""

    def isatty(self) -> bool:
        return True


def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Put a terminal in the place of standard error. In the test itself: pytest puts its own after the fixtures."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_INTERACTIVE", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = Screen()
    monkeypatch.setattr(sys, "stderr", shown)
    return shown


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (950, "950"), (4096, "4.1k"), (170_000, "170k"), (1e7, "10.0M"), (999_999, "1.0M")]
)
def test_numbers_are_brief(number: float, text: str) -> None:
    assert brief(number) == text


def test_a_table_is_a_result_and_the_rest_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.say("something [not markup] happened", "red")
    console.table("title", ["arm", "value"], [["a", "1"], ["[b]", "22"]], ["bold"])
    console.document('{"a": 1}')
    out, err = capsys.readouterr()
    assert err == "something [not markup] happened\n"
    lines = out.splitlines()
    assert lines[0] == "title"
    assert lines[3:5] == [" a        1", " [b]     22"]
    assert lines[-1] == '{"a": 1}'
    assert not CONTROL.search(out + err)
    assert all(line == line.rstrip() for line in lines)


def test_a_long_line_is_never_broken(capsys: pytest.CaptureFixture[str]) -> None:
    Console().say("word " * 200 + "end")
    assert capsys.readouterr().err.count("\n") == 1


def test_colour_in_a_pipe_is_no_animation(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    console = Console()
    assert not console.live
    with console.task("reading", 10, "B") as advance, console.gauges() as gauges:
        advance(10)
        gauges.set("one", 1, 2, "half")
    assert "\x1b[?25l" not in capsys.readouterr().err


def test_work_in_a_pipe_is_told_when_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(console_module.time, "monotonic", lambda: now[0])
    console = Console()
    with console.task("reading", 3000, "B") as advance, console.gauges() as gauges:
        for second in range(31):
            now[0] = second
            advance(100)
            gauges.set("a run", second, 30, f"step {second}")
        gauges.drop("a run")
    with console.task("short", 1, "B") as advance:
        advance(1)
    assert capsys.readouterr().err.splitlines() == [
        "reading: 1.1k of 3.0k B",
        "a run  step 10",
        "reading: 2.1k of 3.0k B",
        "a run  step 20",
        "reading: 3.0k of 3.0k B",
        "reading: 3.1k of 3.0k B",
        "a run  step 30",
    ]


def test_bars_on_a_terminal_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screen(monkeypatch)
    console = Console()
    assert console.live
    with console.gauges() as gauges:
        gauges.set("one", 1, 2, "half")
        gauges.set("two", 1, 2, "half")
        gauges.drop("two")
        console.say("said meanwhile")
    assert "said meanwhile" in shown.getvalue()
    assert "half" in shown.getvalue()
    assert "\x1b[2K" in shown.getvalue()


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("TTY_INTERACTIVE", "0")])
def test_a_terminal_that_cannot_redraw_gets_lines(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    screen(monkeypatch)
    monkeypatch.setenv(name, value)
    assert not Console().live
