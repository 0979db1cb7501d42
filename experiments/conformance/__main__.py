"""Run a framework's operators as programs for one sample, and compare them with eager execution."""

import sys

from experiments.conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
