"""Where things stand in MLflow's UI, and how it opens there; addresses below that of the UI itself."""

import base64
import zlib
from urllib.parse import quote

KEY = "labkit"
"""The name of the shared view state, which MLflow keeps as a tag of the experiment."""

WAY = "workflowType=machine_learning"
"""Without it the UI opens on what it has for language models."""


def table(experiment_id: str) -> str:
    """An experiment's runs as a table, as our view state has it.

    MLflow (3.17) takes a shared state only from an address that names it. What opens without one, as from its own list
    of experiments, is what that browser showed last, and at first its usual columns; no tag changes these. So every way
    that we write names the state, and the note above a table leads to it.
    """
    return f"#/experiments/{experiment_id}/runs?{WAY}&viewStateShareKey={KEY}"


def charts(experiment_id: str) -> str:
    """An experiment's curves."""
    return f"{table(experiment_id)}&compareRunsMode=CHART"


def runs_of(experiment_id: str, tag: str, value: str) -> str:
    """The runs that share a tag."""
    wanted = quote(f'tags.`{tag}` = "{value}"')
    return f"#/experiments/{experiment_id}/runs?{WAY}&searchFilter={wanted}"


def run(experiment_id: str, run_id: str) -> str:
    """A run's page."""
    return f"#/experiments/{experiment_id}/runs/{run_id}?{WAY}"


def artifact(experiment_id: str, run_id: str, file: str) -> str:
    """A file of a run's."""
    return f"#/experiments/{experiment_id}/runs/{run_id}/artifacts/{file}?{WAY}"


def shared(state: str) -> dict[str, str]:
    """The tag of an experiment that holds the UI's state."""
    return {f"mlflow.sharedViewState.{KEY}": "deflate;" + base64.b64encode(zlib.compress(state.encode(), 9)).decode()}
