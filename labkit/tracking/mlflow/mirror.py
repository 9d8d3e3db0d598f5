"""MLflow kept up while runs are trained: a thread of the driver's that tells it what is new every few seconds."""

import threading
import time
from collections.abc import Callable

from labkit.tracking.mlflow.sidecar import pending
from labkit.tracking.mlflow.store import on_stderr
from labkit.tracking.mlflow.sync import Session
from labkit.tracking.record import Edition

EVERY = 2.0
"""Seconds between two passes …"""
SELDOM = 20.0
"""… and at most, where a pass is dear."""
SHARE = 0.08
"""Of a core, on average: training has the same cores."""
PATIENCE = 120.0
"""Seconds that the last pass may take, for a server that does not answer."""


class Mirror:
    """Start it before the runs, close it after them. Never raises: `error` is the last failure, said once by `say`."""

    def __init__(self, edition: Edition, uri: str, say: Callable[[str], None] = on_stderr) -> None:
        self.edition, self.uri, self.say = edition, uri, say
        self.error: Exception | None = None
        self._said = False
        self._session: Session | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep_up, name="mlflow", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Tell MLflow the rest. Gives up on a store that does not answer; `labkit sync` fills it later."""
        self._closing.set()
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            self._fail(TimeoutError(f"MLflow took more than {PATIENCE:.0f} s"))

    def _keep_up(self) -> None:
        pause = EVERY
        while not self._closing.wait(pause):
            pause = min(max(EVERY, self._pass() / SHARE), SELDOM)
        self._pass()

    def _pass(self) -> float:
        """Tell what is new; the seconds of a core that it took, importing MLflow and making its store apart."""
        try:
            if self._session is None and pending(self.edition, self.uri):
                self._session = Session(self.edition, self.uri)
            begun = time.thread_time()
            if self._session:
                self._session.push()
            self.error = None
            return time.thread_time() - begun
        except Exception as error:
            self._session = None
            self._fail(error)
            return SELDOM

    def _fail(self, error: Exception) -> None:
        self.error = error
        if not self._said:
            self.say(f"MLflow is not kept up ({error}). The records are complete: `labkit sync` fills it later.")
        self._said = True
