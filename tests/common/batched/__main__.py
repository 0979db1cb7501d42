"""Compare what batches with the committed files, and write them where requested."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[depth]) for depth in (3, 1)]

from frameworks_support import INSTALLED  # noqa: E402

import batched  # noqa: E402
from batched import calls, cases  # noqa: E402


def main() -> int:
    """Run the command; 0 is success, 1 differences that are not written."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.common.batched",
        description=batched.__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--engine", action="append", choices=INSTALLED, help="only this one (default: all)")
    parser.add_argument("--write", action="store_true", help="write what is better, and what is new")
    parser.add_argument("--because", default="", metavar="REASON", help="why something is worse now than before")
    options = parser.parse_args()
    left = False
    for engine in options.engine or INSTALLED:
        for of, now in (
            (cases.committed(engine), import_module(f"batched.cases_{engine}").rows()),
            (calls.committed(engine), calls.rows(engine)),
        ):
            found = of.differences(now)
            for line in [*found.worse, *found.better, *found.new]:
                print(f"{of.path.name}: {line}")
            if options.write and (options.because or not found.worse):
                of.write(now, options.because)
            else:
                left = left or any(found)
    return int(left)


if __name__ == "__main__":
    sys.exit(main())
