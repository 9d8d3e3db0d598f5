"""The best trial as an experiment file that runs."""

import pprint
from pathlib import Path
from typing import Any

from labkit.spec import Mistake, Spec
from labkit.study.experiment import Arm, between, unseeded
from labkit.sweep.loading import LoadedSweep, load_sweep
from labkit.sweep.runner import Searched
from labkit.sweep.sweep import Sweep
from labkit.sweep.trials import beside

TEMPLATE = '''"""The best of {file}: {told}.

Question    Does the best of the sweep beat its base on other seeds?
"""

from labkit import Experiment

from {module} import sweep

baseline = {base}

experiment = Experiment(
    baseline=baseline,
    variants={{"best": {changes}}},
    seeds=[1, 2, 3],
    metric="{metric}",
    match="none",
)
'''


def write_best(found: LoadedSweep, searched: Searched, into: Path) -> None:
    """Write the best trial of a search into a new file. Raises Mistake where there is none, or no room for it."""
    sweep, branch = found.sweep, searched.branches[0]
    if sweep is None or not branch.alone:
        raise Mistake(
            "--best: a comparison has a best setting for every arm, and its report has all; it is for searches"
        )
    if into.suffix != ".py" or into.exists():
        raise Mistake(f"--best {into}: {'it is there already' if into.exists() else 'write the name of a .py file'}")
    best = branch.best
    if best is None:
        raise Mistake("--best: no trial has come to its end yet")
    parts = found.loaded.file.relative_to(found.loaded.root).with_suffix("").parts
    if not all(part.isidentifier() for part in parts):
        raise Mistake(f"--best: {found.loaded.file.name} cannot be imported under its name; rename it")
    into.parent.mkdir(parents=True, exist_ok=True)
    base, changes = branch.arm.spec, branch.changes(best)
    trained = beside(base, Arm("best", base.patched(changes), changes), found.loaded.experiment, found.loaded.base)
    told = f"trial {best.number} of {len(branch.known)}, {sweep.objectives[0].key} {best.values[0]:.4f}"
    into.write_text(
        TEMPLATE.format(
            file="/".join(parts) + ".py",
            told=told,
            module=".".join(parts),
            base=f"sweep.base.patched({_literal(_changed(found, sweep))})" if _changed(found, sweep) else "sweep.base",
            changes=_literal({path: _plain(value) for path, value in between(base, trained.arm.spec).items()}),
            metric=sweep.metric,
        )
    )


def _changed(found: LoadedSweep, sweep: Sweep) -> dict[str, Any]:
    """What --baseline and --set have changed of the file's own base."""
    written = load_sweep(found.loaded.file).sweep
    changes = between(unseeded(written.base), unseeded(sweep.base)) if written is not None else {}
    return {path: _plain(value) for path, value in changes.items()}


def _plain(value: Any) -> Any:
    return value.as_json() if isinstance(value, Spec) else value


def _literal(value: Any) -> str:
    lines = pprint.pformat(value, width=100, sort_dicts=False).splitlines()
    return "\n        ".join(lines)
