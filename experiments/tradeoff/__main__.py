"""Run the measurement."""

import os
import sys

from experiments.tradeoff import processor

if __name__ == "__main__":
    if int(os.environ.get("OMP_NUM_THREADS") or 1) == 1:
        processor.use()
    from experiments.tradeoff.cli import main

    sys.exit(main())
