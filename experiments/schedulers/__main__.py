"""Compare the schedulers."""

import sys

from experiments.schedulers.cli import main

if __name__ == "__main__":
    sys.exit(main())
