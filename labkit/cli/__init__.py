"""The command line. Each command imports what it needs when it runs, so that `labkit --help` answers at once."""

from labkit.cli import bench as bench
from labkit.cli import check as check  # each adds its commands, in this order
from labkit.cli import experiments as experiments
from labkit.cli import models as models
from labkit.cli import planning as planning
from labkit.cli import reports as reports
from labkit.cli import runs as runs
from labkit.cli import sweeps as sweeps
from labkit.cli.application import app as app
from labkit.cli.application import main as main
