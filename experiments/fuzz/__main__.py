"""Run the fuzzer."""

import sys

from experiments.fuzz.cli import main

if __name__ == "__main__":
    sys.exit(main())
