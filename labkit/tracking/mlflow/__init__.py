"""MLflow as a view of the records: filled in batches by the driver, never from the process that trains.

An edition is an MLflow experiment, a run folder is one flat run in it. Importing this package does not import MLflow.
"""

from labkit.tracking.mlflow.board import VERDICTS, Board, Row, publish
from labkit.tracking.mlflow.mirror import Mirror
from labkit.tracking.mlflow.serve import serve, view_url
from labkit.tracking.mlflow.sidecar import charts_page, pending, run_page
from labkit.tracking.mlflow.store import default_uri
from labkit.tracking.mlflow.sync import sync

__all__ = [
    "VERDICTS",
    "Board",
    "Mirror",
    "Row",
    "charts_page",
    "default_uri",
    "pending",
    "publish",
    "run_page",
    "serve",
    "sync",
    "view_url",
]
