"""The command line: parses arguments and prints; computes nothing."""

import os
import sys
from collections.abc import Sequence

from crosslearning.extras import missing

# Before anything starts a thread pool: waiting OpenMP workers would keep the CPU busy.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 for an error, 130 for Ctrl-C."""
    try:
        from crosslearning.cli.app import run

        return run(arguments)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("crosslearning"):
            raise  # a broken installation, not a missing extra
        sys.stderr.write(f"Error: {missing('This command', str(error.name))}\n")
        return 2
