"""Run the measurement."""

import sys

from experiments.tradeoff.cli import main

if __name__ == "__main__":
    sys.exit(main())
