"""What labkit asks of MLflow: an experiment, its runs, batches of points; by run id, never through the active run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.tracking.mlflow.curves import Place, Points, batches
from labkit.tracking.mlflow.facts import Facts
from labkit.tracking.mlflow.store import artifacts, connect

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as Shown

METRICS, WORDS = 1000, 100
"""MLflow's limits on a batch."""


class Remote:
    """One experiment in a store; made if not there, brought back if deleted. Raises Mistake without a store."""

    def __init__(self, uri: str, title: str) -> None:
        self.client = connect(uri)
        self.experiment_id = _experiment(self.client, title, artifacts(uri, title))

    def runs(self) -> "list[Shown]":
        """All runs but the deleted ones."""
        found: list[Shown] = []
        page = self.client.search_runs([self.experiment_id])
        found += page
        while page.token:
            page = self.client.search_runs([self.experiment_id], page_token=page.token)
            found += page
        return found

    def create(self, facts: Facts, origin: Mapping[str, str]) -> str:
        """The id of a new run."""
        tags = {**origin, **facts.tags}
        return self.client.create_run(self.experiment_id, facts.start, tags, facts.name).info.run_id

    def points(self, run_id: str) -> dict[Place, list[float]]:
        """Every value that each place of the run's curves has."""
        found: dict[Place, list[float]] = {}
        for key in self.client.get_run(run_id).data.metrics:
            for metric in self.client.get_metric_history(run_id, key):
                found.setdefault((key, metric.step), []).append(metric.value)
        return found

    def send(self, run_id: str, points: Points) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(key, value, time, step) for (key, step), (time, value) in points.items()]
        for batch in batches(metrics, METRICS):
            self.client.log_batch(run_id, metrics=batch)

    def describe(self, run_id: str, facts: Facts, spec: Path) -> None:
        """Tags, parameters that are not there yet (they cannot change), the dataset, the spec; the status last."""
        from mlflow.entities import Param, RunTag

        run = self.client.get_run(run_id)
        params = [Param(key, value) for key, value in facts.params.items() if key not in run.data.params]
        tags = [RunTag(key, value) for key, value in facts.tags.items() if run.data.tags.get(key) != value]
        for batch in batches(params, WORDS):
            self.client.log_batch(run_id, params=batch)
        for batch in batches(tags, WORDS):
            self.client.log_batch(run_id, tags=batch)
        if facts.dataset and not (run.inputs and run.inputs.dataset_inputs):
            self._log_dataset(run_id, facts.dataset)
        self.client.log_artifact(run_id, str(spec))
        self._set_status(run, facts)

    def annotate(self, tags: Mapping[str, str]) -> bool:
        """Set those of the experiment's tags that differ; whether any did."""
        have = self.client.get_experiment(self.experiment_id).tags
        news = {key: value for key, value in tags.items() if have.get(key) != value}
        for key, value in news.items():
            self.client.set_experiment_tag(self.experiment_id, key, value)
        return bool(news)

    def _log_dataset(self, run_id: str, dataset: Mapping[str, str]) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        context = InputTag("mlflow.data.context", "training")
        self.client.log_inputs(run_id, [DatasetInput(Dataset(**dataset), [context])])

    def _set_status(self, run: "Shown", facts: Facts) -> None:
        if facts.status == "RUNNING":
            self.client.update_run(run.info.run_id, status="RUNNING")
        elif (run.info.status, run.info.end_time) != (facts.status, facts.end):
            self.client.set_terminated(run.info.run_id, facts.status, facts.end)


def _experiment(client: "MlflowClient", title: str, location: str | None) -> str:
    from mlflow.exceptions import MlflowException

    found: Any = client.get_experiment_by_name(title)
    if found is None:
        try:
            return client.create_experiment(title, artifact_location=location)
        except MlflowException:  # another process was faster
            found = client.get_experiment_by_name(title)
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found.experiment_id
