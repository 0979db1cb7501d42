"""Time captured calls against eager ones."""

import sys

from experiments.host.cli import main

if __name__ == "__main__":
    sys.exit(main())
