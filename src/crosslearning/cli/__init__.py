"""The command line: parses arguments and prints; computes nothing."""

import os

# Before anything starts a thread pool: waiting OpenMP workers would keep the processors busy.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from crosslearning.cli.app import main

__all__ = ["main"]
