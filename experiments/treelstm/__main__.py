"""Run the experiment."""

import sys

from experiments.treelstm.cli import main

if __name__ == "__main__":
    sys.exit(main())
