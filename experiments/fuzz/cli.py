"""The command line. Nothing heavy is imported before it is understood."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.bench.arguments import count, whole
from experiments.bench.engines import ENGINES
from experiments.bench.environment import limit_threads
from experiments.bench.files import write_json
from experiments.fuzz import HABITS

PLANTS = (
    *("wrong-row", "dropped-gradient", "stale-parameter", "wrong-share", "wrong-order", "swapped-samples"),
    *("stale-state", "lost-effect", "missed-write", "stale-weight", "shared-buffer"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases; 0 is no failure, 1 failures, 2 bad arguments, 130 an interruption without failures."""
    options = _parser().parse_args(arguments)
    limit_threads()
    from experiments.fuzz.loop import Setting, fuzz

    numbers = range(options.cases) if options.case is None else [options.case]

    def on_hang(findings: Any) -> None:
        if options.json:
            write_json(options.json, findings.as_json())
        show(findings.failures[-1])
        _print(findings)
        sys.stdout.flush()
        os._exit(1)

    def show(failure: Any) -> None:
        print(f"case {failure.case} of seed {options.seed}: {failure.kind} differ: {failure.message}")
        print(f"--- a program to paste ---\n{failure.program}--- end of the program ---", flush=True)

    setting = Setting(
        options.seed,
        numbers,
        options.plant,
        options.shrink,
        engine=options.engine,
        without=tuple(options.without_habits or ()),
        turns=options.turns,
        side=options.map,
    )
    findings = fuzz(setting, on_hang, show)
    if options.json:
        write_json(options.json, findings.as_json())
    _print(findings)
    if findings.failures:
        return 1
    return 130 if findings.interrupted else 0


def _print(findings: Any) -> None:
    counts = findings.counts
    share = counts.nodes_batched / counts.nodes if counts.nodes else 0.0
    print(
        f"{findings.cases} cases{', then interrupted' if findings.interrupted else ''}: "
        f"{len(findings.failures)} failures, {findings.discarded} discarded, {len(counts.operators)} operators, "
        f"{counts.nodes} nodes, {share:.0%} of them in batches"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.fuzz", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="mxnet")
    parser.add_argument("--cases", type=count, default=1000, metavar="N", help="run the cases 0 to N - 1")
    parser.add_argument("--seed", type=whole, default=0, metavar="S")
    parser.add_argument("--case", type=whole, metavar="K", help="run only this case of the seed")
    parser.add_argument(
        "--without-habits", nargs="+", choices=HABITS, metavar="NAME", help="leave out habits: " + ", ".join(HABITS)
    )
    parser.add_argument("--turns", action="store_true", help="run every other minibatch eagerly, whatever is faster")
    parser.add_argument("--map", action="store_true", help="samples run by gluonjit.map, and read values")
    parser.add_argument("--plant", choices=PLANTS, metavar="NAME", help="build in a fault: " + ", ".join(PLANTS))
    parser.add_argument(
        "--shrink", type=whole, default=20, metavar="SECONDS", help="time to shrink one failure (default 20)"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the findings to this file")
    return parser
