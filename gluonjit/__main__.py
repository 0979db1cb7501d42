"""``python -m gluonjit``: doctor (checks the installation), rules, simulate (plans a trace), calibrate, demo."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gluonjit.commands import calibrate, demo, operators, simulate
from gluonjit.install import doctor


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code of the process."""
    chosen = _parser().parse_args(arguments)
    if chosen.command == "simulate":
        return simulate.main(chosen.trace, chosen.scheduler, chosen.batch_size, chosen.json, chosen.costs)
    if chosen.command == "rules":
        return operators.main(chosen.kind, chosen.names, chosen.markdown, chosen.engine)
    if chosen.command == "calibrate":
        return calibrate.main(chosen.engine, chosen.seconds, chosen.output, chosen.if_missing)
    if chosen.command == "demo":
        return demo.main(chosen.samples, chosen.figure)
    return doctor.main()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gluonjit", description=__doc__)
    parser.add_argument("--version", action="version", version=f"gluonjit {doctor.gluonjit_version()}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "doctor",
        help="report the engines, devices, threads and packages of this installation",
        description="Exit code 0 if an engine works or none is installed, 1 if no installed engine works.",
    )
    _add_rules(commands)
    _add_simulate(commands)
    _add_calibrate(commands)
    shown = commands.add_parser("demo", help="run a tree model on numpy, sample by sample and batched")
    shown.add_argument("--samples", type=int, default=32, metavar="N", help="trees of the minibatch (default: 32)")
    shown.add_argument("--figure", default="gluonjit-demo.png", metavar="PATH", help="figure (default: %(default)s)")
    return parser


def _add_rules(commands: Any) -> None:
    rules = commands.add_parser(
        "rules",
        help="list how each operator of MXNet or PyTorch runs for many samples at once",
        description="Exit code 1 if no engine can be imported, 2 for an unknown kind or operator.",
    )
    rules.add_argument(
        "--engine", choices=list(operators.ENGINES), help="engine whose operators are listed (default: all installed)"
    )
    rules.add_argument("names", nargs="*", metavar="NAME", help="operators, by any of their names (default: all)")
    rules.add_argument("--kind", help="only rules of this kind, such as elementwise, axis, rewritten or alone")
    rules.add_argument("--markdown", action="store_true", help="print a page of Markdown, by kind")


def _add_simulate(commands: Any) -> None:
    simulation = commands.add_parser(
        "simulate",
        help="predict the flushes of a trace, with every scheduler and batch size",
        description=(
            "batch.save_trace(path) writes a trace; simulating it needs no framework. Exit code 1 for a trace "
            "that cannot be used, 2 for bad arguments."
        ),
    )
    simulation.add_argument("trace", metavar="TRACE", help="the file")
    simulation.add_argument(
        "--scheduler", type=_names, default=[], metavar="A,B", help="only these schedulers (default: all)"
    )
    simulation.add_argument(
        "--batch-size", type=_counts, default=[], metavar="N,M", help="batches of this many samples (default: all)"
    )
    simulation.add_argument("--json", metavar="PATH", help="also write the table to this file")
    simulation.add_argument(
        "--costs", metavar="PATH", help="costs of a machine, from `calibrate --output PATH` (default: built-in costs)"
    )


def _add_calibrate(commands: Any) -> None:
    calibration = commands.add_parser(
        "calibrate",
        help="measure the costs of this machine, for predictions",
        description="Exit code 1 if the engine cannot be used or the file cannot be written, 130 if interrupted.",
    )
    calibration.add_argument(
        "--engine", default="mxnet", choices=["mxnet", "torch"], help="engine to measure (default: mxnet)"
    )
    calibration.add_argument("--seconds", type=_positive, default=15.0, help="approximate duration (default: 15)")
    calibration.add_argument("--output", type=Path, metavar="PATH", help="the file to write (default: in the cache)")
    calibration.add_argument("--if-missing", action="store_true", help="do nothing if the file already exists")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of integers of at least 1, such as 1,16,256")
    return counts


def _positive(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
