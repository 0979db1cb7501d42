"""``python -m gluonjit doctor``: what is installed, what does not work, and what to do about it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gluonjit import doctor


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code of the process."""
    parser = argparse.ArgumentParser(prog="python -m gluonjit", description=__doc__)
    parser.add_argument("--version", action="version", version=f"gluonjit {doctor.gluonjit_version()}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "doctor",
        help="look at the engines, devices, threads and packages here",
        description="Exit code 0 if an engine works or none is installed, 1 if none that is installed works.",
    )
    parser.parse_args(arguments)
    return doctor.main()


if __name__ == "__main__":
    sys.exit(main())
