"""The console: plain in a pipe, live on a terminal."""

import io
import re
import sys
import threading

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


def test_what_takes_long_is_told_while_it_goes_on_and_what_does_not_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    threads, told = threading.active_count(), threading.Event()
    console = Console()
    with console.slow("quick"):
        pass
    assert (capsys.readouterr().err, threading.active_count()) == ("", threads)
    monkeypatch.setattr(console_module, "PATIENCE", 0.01)
    monkeypatch.setattr(console, "say", lambda text: (Console.say(console, text), told.set()))
    with console.slow("long"):
        assert told.wait(10)
    assert (capsys.readouterr().err, threading.active_count()) == ("long\n", threads)


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
        gauges.show()
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


def test_the_same_is_not_told_twice_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(console_module.time, "monotonic", lambda: now[0])
    gauges = console_module.Gauges(Console())
    for second in range(60):
        now[0] = second
        gauges.set("a run", 0, 1, "starting")
    assert capsys.readouterr().err == "a run  starting\n"


def drawn(written: str) -> list[str]:
    """What a terminal shows at the end of what was written to it."""
    lines, row, column = [""], 0, 0
    for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+", written):
        if token == "\r":
            column = 0
        elif token == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif token.endswith("A"):
            row -= int(token[2:-1] or 1)
        elif token.endswith("K"):
            lines[row] = "" if token == "\x1b[2K" else lines[row][:column]
        elif not token.startswith("\x1b"):
            lines[row] = lines[row].ljust(column)[:column] + token + lines[row][column + len(token) :]
            column += len(token)
    return [line.rstrip() for line in lines if line.strip()]


def test_only_what_was_said_stays_of_a_live_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars come and go while two threads say things."""
    shown = screen(monkeypatch)
    monkeypatch.setenv("COLUMNS", "60")
    console = Console()
    assert console.live
    other = threading.Thread(target=lambda: [console.say(f"other {index}") for index in range(200)])
    with console.gauges() as gauges:
        other.start()
        for index in range(200):
            for bar in range(index % 4):
                gauges.set(f"bar {bar}", index, 200, "a note " * 5)
            gauges.show()
            gauges.drop(f"bar {index % 3}")
            console.say(f"done {index}")
        other.join()
    with console.busy("writing"):
        console.say("said meanwhile")
    with console.task("reading", 3) as advance:
        advance(1)
        console.say("the end")
    assert "━" in shown.getvalue()
    left = drawn(shown.getvalue())
    assert [line for line in left if line.startswith("done")] == [f"done {index}" for index in range(200)]
    assert [line for line in left if line.startswith("other")] == [f"other {index}" for index in range(200)]
    assert left[-2:] == ["said meanwhile", "the end"]
    assert len(left) == 402


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 140])
def test_no_table_is_cut(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    shown = screen(monkeypatch)
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setenv("COLUMNS", str(width))
    columns = ["variant", "Δ val/loss", "95 % interval", "val/loss", "params", "tokens/s"]
    rows = [
        ["baseline (theta=10000)", "-", "-", "2.1000", "170k", "12.8k"],
        ["a-variant", "+0.0100", "[-0.0150, +0.0196]", "2.1100", "171k", "12.9k"],
    ]
    Console().table("title", columns, rows, spare=["params", "tokens/s"])
    left = drawn(shown.getvalue())
    assert max(map(len, left[1:])) <= max(width, 60 * (width < 60))
    text = "\n".join(left)
    said = re.search(r"left out for want of room: (.*)", text)
    gone = said[1].split(", ") if said else []
    assert gone == ["params", "tokens/s"][: len(gone)]
    for index, column in enumerate(columns[1:], 1):
        assert all((row[index] in text) is (column not in gone) for row in rows if row[index] != "-")
    assert width < 140 or not gone


def test_a_bar_gives_way_to_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screen(monkeypatch)
    monkeypatch.setenv("COLUMNS", "38")
    with Console().gauges() as gauges:
        gauges.set("a run", 1, 2, "240/800  loss 2.3140  0:12")
        gauges.show()
    assert "a run 240/800  loss 2.3140  0:12" in shown.getvalue()


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("TTY_INTERACTIVE", "0")])
def test_a_terminal_that_cannot_redraw_gets_lines(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    screen(monkeypatch)
    monkeypatch.setenv(name, value)
    assert not Console().live
