"""Count the calls, nodes and launches of all programs, and compare them with the committed table."""

import sys

from experiments.coverage.cli import main

if __name__ == "__main__":
    sys.exit(main())
