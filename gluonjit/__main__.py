"""``python -m gluonjit``: doctor (what works here), rules, simulate (plans of a trace), calibrate (what work costs)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gluonjit.commands import calibrate, operators, simulate
from gluonjit.install import doctor


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
        help="how each operator of MXNet or PyTorch runs for many samples at once",
        description="Exit code 1 if no engine can be imported, 2 for a kind or an operator that there is not.",
    )
    rules.add_argument("--engine", choices=list(operators.ENGINES), help="whose operators (default: all installed)")
    rules.add_argument("names", nargs="*", metavar="NAME", help="operators, by any of their names (default: all)")
    rules.add_argument("--kind", help="only rules of this kind, such as elementwise, axis, rewritten or alone")
    rules.add_argument(
        "--markdown", action="store_true", help="print the page docs/operators.md, or operators-torch.md"
    )
    simulation = commands.add_parser(
        "simulate",
        help="what flushes of a trace would take, with every scheduler and batch size",
        description="A trace is what batch.save_trace(path) writes; no framework is needed to simulate it. Exit code 1 "
        "for a trace that cannot be used, 2 for bad arguments.",
    )
    simulation.add_argument("trace", metavar="TRACE", help="the file")
    simulation.add_argument(
        "--scheduler", type=_names, default=[], metavar="A,B", help="these schedulers (default: all there are)"
    )
    simulation.add_argument(
        "--batch-size", type=_counts, default=[], metavar="N,M", help="batches of so many samples (default: all)"
    )
    simulation.add_argument("--json", metavar="PATH", help="also write the table to this file")
    simulation.add_argument(
        "--costs", metavar="PATH", help="what work costs, from `calibrate --output PATH` (default: somewhere else)"
    )
    calibrate_ = commands.add_parser(
        "calibrate",
        help="measure what work costs on this machine, for predictions",
        description="Exit code 1 if the engine cannot be used or the file not written, 130 when interrupted.",
    )
    calibrate_.add_argument(
        "--engine", default="mxnet", choices=["mxnet", "torch"], help="what to measure (default: mxnet)"
    )
    calibrate_.add_argument("--seconds", type=_positive, default=60.0, help="about how long (default: 60)")
    calibrate_.add_argument("--output", type=Path, metavar="PATH", help="the file to write (default: in the cache)")
    calibrate_.add_argument("--if-missing", action="store_true", help="do nothing where there is such a file already")
    chosen = parser.parse_args(arguments)
    if chosen.command == "simulate":
        return simulate.main(chosen.trace, chosen.scheduler, chosen.batch_size, chosen.json, chosen.costs)
    if chosen.command == "rules":
        return operators.main(chosen.kind, chosen.names, chosen.markdown, chosen.engine)
    if chosen.command == "calibrate":
        return calibrate.main(chosen.engine, chosen.seconds, chosen.output, chosen.if_missing)
    return doctor.main()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers of at least 1, such as 1,16,256")
    return counts


def _positive(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
