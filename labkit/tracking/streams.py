"""Standard streams that outlive their readers: a command goes on, with its own exit code, when nobody reads them.

A command also runs its users' code and whatever libraries that uses, which write to descriptor 1 as they like: what was
standard output is kept for `sys.stdout` alone.
"""

import io
import os
import sys
from typing import Any


class Lenient(io.FileIO):
    """A descriptor to write to. What cannot be written is dropped; `failure` says why, unless a pipe was closed."""

    failure: str = ""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            pass
        except OSError as error:
            self.failure = os.strerror(error.errno or 0)
        return memoryview(data).nbytes


def lenient() -> Lenient:
    """Put lenient streams in the place of standard output and error; gives the output's descriptor.

    What is written to descriptor 1 from now on goes where errors go.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # it was closed: `>&-`; the lowest free number is taken
            os.open(os.devnull, os.O_RDWR)
    raw = [Lenient(os.dup(1), "w", closefd=False), Lenient(2, "w", closefd=False)]
    os.dup2(2, 1)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            io.BufferedWriter(file),
            encoding=getattr(stream, "encoding", "utf-8"),
            errors="replace",
            line_buffering=name == "stderr" or file.isatty(),
            write_through=name == "stderr",
        )
        for file, stream, name in zip(raw, (sys.stdout, sys.stderr), ("stdout", "stderr"), strict=True)
    )
    return raw[0]
