"""MLflow as a view of the records: filled in batches by the driver, never from the process that trains.

An edition is an MLflow experiment, a run folder is one flat run in it. Importing this package does not import MLflow.
"""

from labkit.tracking.mlflow.board import Board, Row, publish
from labkit.tracking.mlflow.mirror import Mirror
from labkit.tracking.mlflow.serve import serve, view_url
from labkit.tracking.mlflow.sidecar import pending
from labkit.tracking.mlflow.store import default_uri
from labkit.tracking.mlflow.sync import sync

__all__ = ["Board", "Mirror", "Row", "default_uri", "pending", "publish", "serve", "sync", "view_url"]
