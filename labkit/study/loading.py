"""Experiment files: found by path, loaded with their project's root importable.

Every mistake in them is told in one message.
"""

import difflib
import importlib
import re
import sys
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from labkit.faults import closest, explain
from labkit.spec import Mistake, Spec, ValidationError
from labkit.study.experiment import Experiment
from labkit.study.finding import experiment_name, project_root
from labkit.tracking import source
from labkit.train.run import RunSpec

RESERVED = ("mlflow.db", "mlflow-artifacts")
BASELINE = "experiments.baselines:nano"
EXAMPLE = "experiment = Experiment(baseline=..., variants=..., seeds=3, metric='val/loss', match='params')"


@dataclass(frozen=True)
class Loaded:
    """An experiment and the file that it comes from."""

    experiment: Experiment
    file: Path
    root: Path
    """The project: what is on sys.path."""
    question: str
    hypothesis: str
    seeds_in_file: int = 0
    """Where the command line may have said fewer."""
    called: str = ""
    """Its name where it is in no file; `file` then only says where it was made."""
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """Arm -> why it gets no verdict, whatever its runs say."""
    tuned: Mapping[str, str] = field(default_factory=dict[str, str])
    """Arm -> the setting that it was found best at."""

    @property
    def name(self) -> str:
        return self.called or experiment_name(self.file)

    @property
    def is_file(self) -> bool:
        return not self.called

    @property
    def sources(self) -> dict[str, Path]:
        """The user's own files that it needs, by their places in a copy: its own, and the local modules that are
        imported by now.
        """
        return source.imported_sources(self.root, *([self.file] if self.is_file else []))

    @property
    def base(self) -> Path:
        """The folder that relative paths in specs start from."""
        return self.file.parent


def load(path: Path) -> Loaded:
    """The experiment in a file. Raises Mistake for all that is wrong with it."""
    module, _ = module_of(path)
    with faults_of(path):
        experiment = _experiment(module, path)
    return loaded_from(experiment, path, module.__doc__ or "")


def loaded_from(experiment: Experiment, path: Path, docstring: str) -> Loaded:
    """An experiment of a file, whose docstring has the question. Raises Mistake for a name that labkit needs."""
    loaded = Loaded(experiment, path.resolve(), project_root(path), *question_of(docstring))
    check_name(loaded.name, path)
    return loaded


def check_name(name: str, path: Path) -> None:
    """Raise Mistake for a name that is labkit's own."""
    if name in RESERVED:
        raise Mistake(f"{path}: labkit keeps something of its own at runs/{name}; give the file another name")


def module_of(path: Path, kind: str = "experiment") -> tuple[ModuleType, Path]:
    """A user's Python file, imported, and its project's root; `kind` is experiment or sweep."""
    if path.is_dir():
        raise Mistake(f"{path}: this is a folder; write a file in it, such as {path / 'rope_theta.py'}")
    if path.suffix != ".py" or not path.is_file():
        raise Mistake(f"{path}: no such {kind} file.{_meant(path, kind)}")
    root = project_root(path)
    with faults_of(path):
        source.check(path, root)
        return source.load(path, root), root


def _meant(path: Path, kind: str) -> str:
    """Which file may be meant by one that is not there, or by a name: of the same folder, else of the project's."""
    root, typed = project_root(path), path.name.removesuffix(".py")
    folders = (f"{kind}s", "experiments", "sweeps")
    of_project = [file for folder in folders for file in sorted((root / folder).rglob("*.py"))]
    names: dict[str, Path] = {}
    for file in filter(_defines, [*sorted(path.absolute().parent.glob("*.py")), *of_project]):
        names.setdefault(file.stem, file)
        names.setdefault(experiment_name(file), file)
    near = difflib.get_close_matches(typed, names, n=1)
    if near:
        return f" Did you mean {short(names[near[0]])}?"
    known = sorted({short(file) for file in names.values()})
    return f" Choose from: {', '.join(known)}." if known else ""


def _defines(file: Path) -> bool:
    """Whether a file has a line that makes an experiment or a sweep, read as text."""
    return re.search(r"^(experiment|sweep)\b.*=", file.read_text(errors="replace"), re.MULTILINE) is not None


def named_baseline(name: str, root: Path) -> RunSpec:
    """A baseline by its name in experiments/baselines.py, or as module:name. Raises Mistake."""
    module_name, _, attribute = name.rpartition(":")
    module_name = module_name or "experiments.baselines"
    place = f"--baseline {name}"
    named = all(word.isidentifier() for word in module_name.split(".")) and attribute.replace("_", "").isalnum()
    if not named or module_name.endswith(".py"):
        raise Mistake(f"{place}: write NAME, of experiments/baselines.py, or module:NAME, such as {BASELINE}")
    with faults_of(root / Path(*module_name.split(".")).with_suffix(".py"), place):
        module = importlib.import_module(module_name)
    known = [key for key, value in vars(module).items() if isinstance(value, RunSpec)]
    if not known:
        raise Mistake(f"{place}: {module_name} holds no run spec; write module:NAME, such as {BASELINE}")
    if attribute not in known:
        raise Mistake(f"{place}: no run spec of this name in {module_name}.{closest(attribute, known)}")
    return vars(module)[attribute]


@contextmanager
def faults_of(file: Path, place: str = "") -> Generator[None]:
    """Turn whatever a user's file raises into one Mistake with the file and the line; what it prints is no result."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Mistake(f"{place or line_of(error, file)}: {said(error)}") from error


def said(error: BaseException) -> str:
    """What an error of a user's file says, on one line where it is not about a spec."""
    if isinstance(error, ValidationError):
        return explain(error, _class_named(error.title))
    if isinstance(error, Mistake):
        return str(error)
    if isinstance(error, SystemExit):
        return f"it leaves with sys.exit({error.code}); take that out"
    text = error.msg if isinstance(error, SyntaxError) else str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def line_of(error: BaseException, file: Path) -> str:
    """``experiments/x.py:12``: the innermost place in the user's own files that the error went through."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{short(Path(error.filename))}:{error.lineno}"
    root = project_root(file)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(root) and not _is_ours(frame.filename):
            return f"{short(Path(frame.filename))}:{frame.lineno}"
    return short(file)


def _is_ours(filename: str) -> bool:
    return Path(filename).is_relative_to(Path(__file__).parents[1]) or "site-packages" in filename


def short(path: Path) -> str:
    """Relative to where the user stands, when it is below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _class_named(title: str) -> type[Spec]:
    """The spec class of a validation error, for what it says of fields."""
    waiting: list[type[Spec]] = [Spec]
    while waiting:
        cls = waiting.pop()
        if cls.__name__ == title:
            return cls
        waiting.extend(cls.__subclasses__())
    return Spec


def _experiment(module: ModuleType, path: Path) -> Experiment:
    found = getattr(module, "experiment", None)
    if isinstance(found, Experiment):
        return found
    if found is None and hasattr(module, "sweep"):
        raise Mistake(f"this is a sweep; write  labkit sweep {path}, with --dry-run for what it will take")
    others = [name for name, value in vars(module).items() if isinstance(value, Experiment)]
    if found is None and others:
        raise Mistake(f"the experiment must be called 'experiment', not {others[0]!r}")
    was = "no 'experiment'" if found is None else f"'experiment' is {found!r}"
    raise Mistake(f"{was}; write  {EXAMPLE}")


def question_of(docstring: str) -> tuple[str, str]:
    """What the docstring says under Question and Hypothesis, each down to the next empty line or word.

    Its first line is the question where no other one is.
    """
    first = docstring.strip().partition("\n")[0].strip()
    return _said_under("Question", docstring) or first, _said_under("Hypothesis", docstring)


def _said_under(word: str, docstring: str) -> str:
    match = re.search(
        rf"^\s*{word}:?\s+(.*(?:\n(?!\s*(?:Question|Hypothesis|Outcome)\b)[ \t]+\S.*)*)", docstring, re.MULTILINE
    )
    return " ".join(match[1].split()) if match else ""
