"""What was typed, as the values that the floors below take."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from labkit.spec import Spec
    from labkit.study.editions import Asked
    from labkit.study.loading import Loaded
    from labkit.study.runner import Options
    from labkit.train.run import Runtime

    S = TypeVar("S", bound="Spec")


def experiment_in(file: Path) -> "Loaded":
    from labkit.study.loading import load

    return load(file)


def asked_for(baseline: str, sets: list[str] | None, steps: int | None, seeds: int | None) -> "Asked":
    from labkit.study.editions import Asked

    return Asked(baseline, sets or (), steps or 0, seeds or 0)


def runtime_for(**fields: Any) -> "Runtime":
    """A runtime of its fields, which are the options' names."""
    from labkit.train.run import Runtime

    return checked(Runtime, **fields)


def checked(cls: "type[S]", **fields: Any) -> "S":
    """A spec of what was typed; its fields are the command's options."""
    from labkit.faults import explain
    from labkit.spec import Mistake, ValidationError

    try:
        return cls.from_json(fields)
    except ValidationError as error:
        option, colon, rest = explain(error, cls).partition(":")
        raise Mistake(f"--{option.replace('_', '-')}{colon}{rest}") from error


def as_typed(file: Path, asked: "Asked", command: str = "run", trials: int = 0) -> str:
    """What was typed, as far as it decides what is computed."""
    words = ["labkit", command, str(file), *(["--baseline", asked.baseline] if asked.baseline else [])]
    words += [word for text in asked.sets for word in ("--set", text)]
    words += ["--steps", str(asked.steps)] if asked.steps else []
    words += ["--seeds", str(asked.seeds)] if asked.seeds else []
    words += ["--trials", str(trials)] if trials else []
    return shlex.join(words)


def recorded(folder: Path) -> Any:
    from labkit.study.recorded import recorded_spec

    return recorded_spec(folder)


def prepared(
    file: Path,
    asked: "Asked",
    runtime: "Runtime",
    *,
    runs: Path | None,
    only: list[str] | None,
    workers: int | None,
    fresh: bool = False,
) -> "tuple[Loaded, str, Options]":
    """An experiment's edition, its name, and what its driver is told."""
    from labkit.study.editions import edition
    from labkit.study.runner import Options

    loaded, name = edition(experiment_in(file), asked)
    folder = runs or loaded.root / "runs"
    return loaded, name, Options(folder, runtime, as_typed(file, asked), only or (), workers or 0, fresh)
