"""What is asked of an experiment from Python, argument by argument, checked before anything starts."""

import ast
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from types import FrameType
from typing import Any

from labkit.faults import closest, explain
from labkit.spec import Mistake, ValidationError
from labkit.study.editions import Asked
from labkit.study.names import brief
from labkit.train.run import Runtime

MOST = {"seeds": 1000}
"""As on the command line."""


def runtime_of(runtime: Any, execution: Mapping[str, Any]) -> Runtime:
    """What is asked of the execution, a field a word. Raises Mistake for a word that has no such value."""
    if runtime is not None and not isinstance(runtime, Runtime):
        raise Mistake(f"experiment.run: runtime={brief(runtime)}: write its fields as they are, such as device='cpu'")
    try:
        return (runtime or Runtime()).patched(execution)
    except ValidationError as error:
        raise Mistake(f"experiment.run: {explain(error, Runtime)}") from error


def keywords_of(function: Callable[..., Any]) -> list[str]:
    """What a function takes by name."""
    return [name for name, each in signature(function).parameters.items() if each.kind is each.KEYWORD_ONLY]


def refuse(method: str, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Raise Mistake for a word that a method of an experiment does not take."""
    for word in sorted(unknown):
        raise Mistake(f"experiment.{method}: no argument {word!r}.{closest(word, known)}")


def asked_of(baseline: Any, sets: Any, **counts: int) -> Asked:
    """The edition that is asked for. Raises Mistake for what is none."""
    if not isinstance(baseline, str):
        raise Mistake(f"baseline={brief(baseline)}: write its name as a text, such as baseline='mini'")
    for word, count in counts.items():
        check_count(word, count)
    return Asked(baseline, texts("sets", sets, "model.norm=layer"), **counts)


def check_count(word: str, count: Any) -> None:
    """Raise Mistake for what is no count; 0 leaves the word out."""
    if type(count) is not int or not 0 <= count <= MOST.get(word, sys.maxsize):
        upto = f" to {MOST[word]}" if word in MOST else ""
        raise Mistake(f"{word}={brief(count)}: write a whole number from 1{upto}, such as {word}=2, or leave it out")


def check_flag(word: str, flag: Any) -> None:
    """Raise Mistake for what is neither True nor False."""
    if not isinstance(flag, bool):
        raise Mistake(f"{word}={brief(flag)}: write {word}=True, or leave it out")


def texts(word: str, given: Any, example: str) -> Sequence[str]:
    """A list of texts. Raises Mistake for anything else: a single one would be taken letter by letter."""
    several = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
    found: list[Any] = list(given) if several else []
    if not several or not all(isinstance(text, str) and text for text in found):
        like = given if isinstance(given, str) and given else example
        raise Mistake(f"{word}={brief(found if several else given)}: write a list of texts, such as {word}=[{like!r}]")
    return found


def folder_of(runs: Any, root: Path) -> Path:
    """Where the runs lie. Raises Mistake for what is no folder's name."""
    if runs is not None and not isinstance(runs, str | Path):
        raise Mistake(f"runs={brief(runs)}: expected a folder, such as runs='runs'")
    return Path(runs) if runs else root / "runs"


def refuse_in_worker() -> None:
    """Raise Mistake where a worker loads a script that runs its experiment as it is loaded."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    if main is not None and main.name == "labkit.worker":
        raise Mistake(_guard("experiment.run() stands where a worker runs it too"))


def refuse_unguarded(sources: Collection[Path]) -> None:
    """Raise Mistake where the script that is being run is of the sources, and would run again as a worker loads it."""
    frame: FrameType | None = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame is not None and (frame.f_code.co_name, frame.f_globals.get("__name__")) != ("<module>", "__main__"):
        frame = frame.f_back
    if frame is None or (file := Path(frame.f_code.co_filename).resolve()) not in sources:
        return  # a cell, a prompt, or a script that no worker loads
    for statement in ast.parse(file.read_bytes()).body:
        is_here = statement.lineno <= frame.f_lineno <= (statement.end_lineno or 0)
        if is_here and not (isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)):
            raise Mistake(_guard(f"{file}:{frame.f_lineno}: workers load this file, and would run it again"))


def _guard(said: str) -> str:
    return f"{said}; put it under  if __name__ == '__main__':"
