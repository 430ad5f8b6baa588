"""``python -m tests.support.command …`` is ``crosslearning …``, of this source tree."""

import sys

from crosslearning.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
