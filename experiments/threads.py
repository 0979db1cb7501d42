"""How many threads the framework takes."""

from __future__ import annotations

import os
import sys


def limit_threads(wanted: int | None = None) -> None:
    """Let an operator take so many threads; without a number those of OMP_NUM_THREADS, and without that one.

    MXNet's thread pool reads this once: where it has been imported nothing changes.
    """
    if "mxnet" not in sys.modules:
        os.environ["OMP_NUM_THREADS"] = str(wanted or os.environ.get("OMP_NUM_THREADS") or 1)
