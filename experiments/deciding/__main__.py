"""Run the models that decide."""

import sys

from experiments.deciding.cli import main

if __name__ == "__main__":
    sys.exit(main())
