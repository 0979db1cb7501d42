"""``python -m gluonjit doctor``: what works here; ``python -m gluonjit rules``: how each operator is batched."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gluonjit import doctor, operators


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
    rules = commands.add_parser(
        "rules",
        help="how each operator of MXNet runs for many samples at once",
        description="Exit code 1 if MXNet cannot be imported, 2 for a kind or an operator that there is not.",
    )
    rules.add_argument("names", nargs="*", metavar="NAME", help="operators, by any of their names (default: all)")
    rules.add_argument("--kind", help="only rules of this kind, such as elementwise, axis, rewritten or alone")
    rules.add_argument("--markdown", action="store_true", help="print the page docs/operators.md")
    chosen = parser.parse_args(arguments)
    if chosen.command == "rules":
        return operators.main(chosen.kind, chosen.names, chosen.markdown)
    return doctor.main()


if __name__ == "__main__":
    sys.exit(main())
