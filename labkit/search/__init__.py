"""Searching: what may be chosen, how it is chosen, and a study on disk that asks and is told. Knows nothing of runs."""
