"""The command line in tests: as a process of its own, and how it has to fail."""

import os
import subprocess
import sys


def shell(*arguments, **environment):
    """Run ``crosslearning`` as a process of its own."""
    code = "import sys; from crosslearning.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def check_failure(message, capsys):
    """Check that a command printed one line, an error, and nothing else."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
