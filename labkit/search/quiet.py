"""Keeping Optuna's own remarks from the user: which of its parts are new, and every trial's value."""

import warnings
from collections.abc import Generator
from contextlib import contextmanager


def quiet() -> None:
    """Keep Optuna from logging each trial; what goes wrong is raised all the same."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)


@contextmanager
def unwarned() -> Generator[None]:
    """Use what Optuna calls experimental."""
    from optuna.exceptions import ExperimentalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield
