"""The command line: count, compare with the committed table, and write it where requested.

The programs are the zoo's models, the examples of the README, the habits of the tests and, where it is there, the
folder `../shared/programs`. Each runs batched by force (granularity "cell", scheduler "depth"), a few samples at a
time; what is counted is the third minibatch, of a habit all of it. Fewer nodes, more launches or a new reason for no
node fail, unless the row is written with what they are for: `--write --because REASON`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from experiments.bench.arguments import ended, names
from experiments.bench.environment import limit_threads
from experiments.coverage.collection import SOURCES, collection
from experiments.coverage.counting import Counts, measure
from experiments.coverage.table import PATH, faults, read, updated, write


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 is success, 1 a program that is worse than its row, 2 bad arguments, 130 Ctrl-C."""
    options = _parser().parse_args(arguments)
    limit_threads()
    return ended(lambda: _run(options), OSError, ValueError)


def _run(options: argparse.Namespace) -> list[str]:
    rows = read() if PATH.exists() else {}
    counted: dict[str, Counts] = {}
    for source in options.sources:
        for program in collection(source):
            if options.match in program.name:
                counted[program.name] = now = measure(program)
                if not options.quiet:
                    print(f"{program.name:60s} {now.calls:6d} calls {now.nodes:6d} nodes {now.launches:6d} launches")
                    sys.stdout.flush()
    found = list(faults(rows, counted))
    known = [line for line in found if line.split(": ")[0] in rows]
    if options.write and (options.because or not known):
        write(updated(rows, counted, options.because))
        return []
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.coverage", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--sources",
        type=lambda text: names(text, SOURCES, "source"),
        default=SOURCES,
        help=f"comma-separated: {', '.join(SOURCES)} (default: all)",
    )
    parser.add_argument("--match", default="", metavar="TEXT", help="only programs whose name contains this")
    parser.add_argument("--write", action="store_true", help="write the counts into the table")
    parser.add_argument("--because", default="", metavar="REASON", help="why rows are worse now than before")
    parser.add_argument("--quiet", action="store_true", help="print faults alone")
    return parser
