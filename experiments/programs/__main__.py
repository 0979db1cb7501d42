"""Time the models against eager execution."""

import sys

from experiments.programs.cli import main

if __name__ == "__main__":
    sys.exit(main())
