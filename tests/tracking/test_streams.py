"""Standard streams that are closed, full, or read by nobody any more."""

import subprocess
import sys

import pytest

CODE = """
import sys
from labkit.tracking.streams import lenient
output = lenient()
print("a" * 100_000)
print("said", file=sys.stderr)
sys.stdout.flush()
print(f"failure: {output.failure}", file=sys.stderr)
sys.exit(7)
"""


@pytest.mark.parametrize(
    ("redirection", "told"),
    [
        ("> /dev/null", "said\nfailure: \n"),
        (">&-", "said\nfailure: \n"),
        ("> /dev/full", "said\nfailure: No space left on device\n"),
        ("2>&- > /dev/null", ""),
        ("2> /dev/full > /dev/null", ""),
        ("| head -c 1; exit ${PIPESTATUS[0]}", "said\nfailure: \n"),
    ],
)
def test_a_command_keeps_its_exit_code(redirection: str, told: str) -> None:
    script = f'"$0" -c "$1" {redirection}'
    ended = subprocess.run(
        ["bash", "-c", script, sys.executable, CODE], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (7, told)


def test_what_is_written_to_the_descriptor_stands_among_the_errors() -> None:
    code = "from labkit.tracking.streams import lenient\nlenient()\nimport os\nprint('{}')\nos.write(1, b'RAW')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("{}\n", "RAW")
