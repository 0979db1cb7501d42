"""Turn each mechanism off, and write down which programs fail or take longer."""

import sys

from experiments.mechanisms.cli import main

if __name__ == "__main__":
    sys.exit(main())
