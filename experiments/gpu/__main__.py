"""Run the measurement."""

import sys

from experiments.gpu.cli import main

if __name__ == "__main__":
    sys.exit(main())
