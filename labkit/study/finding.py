"""Experiments that have been run, found by their file, their name or their folder."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from labkit.faults import closest
from labkit.spec import Mistake
from labkit.study.names import safe
from labkit.tracking.record import Edition, Run
from labkit.tracking.source import hashes

TOLD = 3
"""Other editions that are named where one was taken."""

Say = Callable[[str], None]
"""What takes a line for whoever asked."""


def nothing(text: str) -> None:
    """Nobody asked to be told."""


def project_root(file: Path) -> Path:
    """The nearest folder above with pyproject.toml or .git, or with `experiments` or `sweeps`; else the file's."""
    file = file.resolve()
    for folder in file.parents:
        if (folder / "pyproject.toml").exists() or (folder / ".git").exists():
            return folder
    for folder in file.parents:
        if folder.name in ("experiments", "sweeps"):
            return folder.parent
    return file.parent


def experiment_name(file: Path) -> str:
    """A file's dotted path below ``experiments``, or else below its project: ``aa.x`` of ``experiments/aa/x.py``."""
    file = file.resolve()
    steps = file.relative_to(project_root(file)).with_suffix("").parts
    below = steps[steps.index("experiments") + 1 :] if "experiments" in steps[:-1] else steps
    return safe(".".join(below))


def runs_folder(target: str, runs: Path | None) -> Path:
    """The folder given; else `runs` in the project of the file, or in the project that the user stands in."""
    return (runs or project_root(Path(target) if target.endswith(".py") else Path("here")) / "runs").absolute()


def editions_of(target: str, runs: Path | None) -> list[Edition]:
    """Every edition of an experiment, or of all where none is named. Raises Mistake where nothing is found."""
    folder = runs_folder(target, runs)
    everything = [Edition(path.parent) for path in sorted(folder.glob("*/*/experiment.json"))]
    name = experiment_name(Path(target)) if target.endswith(".py") else target
    found = [one for one in everything if not name or name in (one.name, one.title, _named(one), str(one.path))]
    if runs and not folder.is_dir():
        raise Mistake(f"--runs {runs}: there is no such folder; write the one that the experiments were run with")
    if not found:
        raise Mistake(f"{target or folder}: {_missing(name, folder, everything)}")
    return found


def _missing(name: str, folder: Path, everything: Sequence[Edition]) -> str:
    """What was not run, and what was."""
    experiment, at, edition = name.partition("@")
    others = sorted(_named(one) for one in everything if one.name == experiment)
    if at and others:
        return f"the edition {edition!r} of {experiment} has not been run yet; there are: {', '.join(others)}"
    whole, colon, _ = name.partition(":")
    if colon and any(whole in (one.name, one.title, _named(one)) for one in everything):
        return f"this names a variant or a run, and an experiment is asked for; write {whole}"
    known = sorted({one.title for one in everything})
    hint = closest(name, known) if known and name else " Run an experiment first."
    return (
        f"no experiment in {folder} has this name: it has not been run yet.{hint}"
        if name
        else f"no experiment has been run yet.{hint}"
    )


def edition_of(target: str, runs: Path | None, say: Say = nothing) -> Edition:
    """One edition: as named, or "main", or the only one; where another could be meant, `say` gets how it is asked for.

    Raises Mistake where that leaves a choice.
    """
    if not isinstance(target, str) or not target:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Mistake(f"{target!r} names no experiment; write its file or its name, such as 'rope_theta'")
    everything = editions_of(target, runs)
    found = [edition for edition in everything if not _is_search(edition)] or everything
    main = [edition for edition in found if edition.edition == "main"]
    if len(found) > 1 and not main:
        raise Mistake(f"{target}: there are several editions; choose from: {_asked_for(found, runs)}.")
    taken = main[0] if main else found[0]
    if target not in (_named(taken), str(taken.path)):
        _tell(target, taken, [edition for edition in found if edition != taken], runs, say)
    return taken


def _tell(target: str, taken: Edition, others: Sequence[Edition], runs: Path | None, say: Say) -> None:
    """Say what was taken where it is not all that could be meant."""
    if others:
        told = _asked_for(others[:TOLD], runs, len(others) - TOLD)
        say(f"{target}: this is the edition main; there {_is(others)} also {told}")
    elif taken.edition != "main":
        say(f"{target}: this is {taken.title}, the only edition that has been run")


def _asked_for(editions: Sequence[Edition], runs: Path | None, more: int = 0) -> str:
    """What to write for each of some editions, and how many more there are."""
    folder = editions[0].path.parents[1]
    where = "" if folder == runs_folder("", runs) else f" (with --runs {folder})"
    titles = ", ".join(edition.title for edition in editions)
    return f"{titles}{f' and {more} more' if more > 0 else ''}{where}"


def _is(others: Sequence[object]) -> str:
    return "is" if len(others) == 1 else "are"


def _named(edition: Edition) -> str:
    """Its name with its edition, also where that is main."""
    return f"{edition.name}@{edition.edition}"


def _is_search(edition: Edition) -> bool:
    """Whether it holds the trials of a sweep, or those that an experiment was tuned by."""
    with suppress(Mistake):
        return edition.description().get("kind") == "sweep"
    return False


def changed_file(target: str, edition: Edition) -> Path | None:
    """The file of an experiment on record, where a source of its latest run is not what it was; None elsewhere."""
    written = edition.path.parents[2] / edition.description().get("file", "")
    file = Path(target) if target.endswith(".py") else written
    if file.suffix != ".py" or not file.is_file() or experiment_name(file) != edition.name:
        return None
    runs = sorted((run.record() for run in edition.runs()), key=lambda record: record.get("started") or 0.0)
    known = runs[-1].get("sources", {}) if runs else {}
    there = {place: path for place in known if (path := project_root(file) / place).is_file()}
    return file if hashes(there) != known else None


def run_of(target: str, runs: Path | None, say: Say = nothing) -> Run:
    """One run: its folder, or ``experiment:variant:seed`` of those on record. Raises Mistake where there is none."""
    if not target.strip():
        raise Mistake(f"{target!r} names no run; write its folder, or experiment:variant:seed")
    if Path(target).is_dir() or target.count(":") < 2:
        return Run(Path(target).absolute())
    experiment, _, rest = target.partition(":")
    variant, _, seed = rest.rpartition(":")
    edition = edition_of(experiment, runs, say)
    known: dict[str, list[Run]] = {}
    for run in edition.runs():
        known.setdefault(f"{run.path.parent.name}:{run.record().get('seed_index')}", []).append(run)
    if f"{variant}:{seed}" not in known:
        for fault in edition.damaged():
            if f"/{variant}/seed{seed}-" in fault:
                raise Mistake(fault)
        hint = closest(f"{variant}:{seed}", known) if known else " It has no runs yet."
        raise Mistake(f"{target}: {edition.title} has no run {variant}:{seed}.{hint}")
    found = known[f"{variant}:{seed}"]
    if len(found) == 1:
        return found[0]
    taken, *others = _as_it_is_now(found, edition)
    folders = ", ".join(str(run.path) for run in others)
    say(f"{target}: this is {taken.path.name}, of the variant as it was run last; there {_is(others)} also {folders}")
    return taken


def _as_it_is_now(found: Sequence[Run], edition: Edition) -> list[Run]:
    """Runs of one variant and seed: that of the variant as it is described first, then those begun last."""
    now = {arm["fingerprint"] for arm in edition.description().get("arms", [])}
    order = {run: (run.record()["arm"] in now, run.record().get("started") or 0.0) for run in found}
    return sorted(found, key=order.__getitem__, reverse=True)


def latest(target: str, runs: Path | None, say: Say = nothing) -> Edition | None:
    """The edition named; else the one run last, None where there is none."""
    if target:
        return edition_of(target, runs, say)
    described = runs_folder("", runs).glob("*/*/experiment.json")
    return max((Edition(path.parent) for path in described), key=_written, default=None)


def _written(edition: Edition) -> float:
    return (edition.path / "experiment.json").stat().st_mtime
