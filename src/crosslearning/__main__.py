"""The command line as ``python -m crosslearning``."""

import sys

from crosslearning.cli import main

if __name__ == "__main__":
    sys.exit(main())
