"""What is kept of a run, and how it is shown: the record on disk, the user's source, progress, MLflow, the console."""
