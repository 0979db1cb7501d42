"""The command line: time captured calls against eager ones, and planning, and write the tables.

Operands are captured before, in the same sample, and all differ; the timed calls are captured, and never run. Each kind
of call runs in turns eagerly and captured, with and without gradients. One thread; pin it to one core, alone on the
machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from unittest.mock import patch

from experiments.bench.arguments import again, count, counts, ended, whole
from experiments.bench.engines import ENGINES, engine_of
from experiments.bench.environment import environment, limit_threads
from experiments.host import MOST_CALLS

if TYPE_CHECKING:
    from experiments.host.launching import Launched, Shared
    from experiments.host.measure import Program, Row
    from experiments.host.planning import Planned
    from experiments.host.sorts import Engine

CALLS, ROUNDS, SAMPLES, SEED = 100, 31, 32, 0  # short rounds: whatever else runs on the machine is in few of them
PLANNED = 5  # rounds of planning, at most: each is the least of three
LAUNCHED, MINIBATCH = 15, 256  # rounds of minibatches, at most, and samples of one
ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 is success, 1 results that differ from eager or no file, 2 bad arguments, 130 Ctrl-C."""
    options = _parser().parse_args(arguments)
    limit_threads()

    def run() -> list[str]:
        with TemporaryDirectory() as empty, patch.dict(os.environ, GLUONJIT_CACHE=empty):
            return _run(options)

    return ended(run, OSError, ValueError)


def _run(options: argparse.Namespace) -> list[str]:
    """Measure, print and write; returns the faults."""
    from experiments.bench.files import write_json
    from experiments.bench.page import put
    from experiments.host.measure import TOLERANCE
    from experiments.host.table import tables

    engine = engine_of("host", options.engine)
    rows = _timed(engine, options)
    plans = _planned(engine, options)
    steps, shares = _launched(engine, options)
    built = _capture()
    text = tables(rows, plans, steps, shares, f"{_command(options)}` (capture: {built})")
    print(f"\n{text}")
    if options.json:
        settings = {key: getattr(options, key) for key in ("engine", "calls", "rounds", "samples", "seed")}
        figures = {
            "rows": [asdict(row) for row in rows],
            "planning": [asdict(each) for each in plans],
            "steps": asdict(steps),
            "minibatches": [asdict(each) for each in shares],
        }
        write_json(options.json, {**settings, "capture": built, "environment": environment(), **figures})
    if options.markdown:
        put(options.markdown, options.engine, text, "host")
    return [f"{row.sort}: off by {row.off:.1e} of the largest" for row in rows if not row.off <= TOLERANCE]


def _timed(engine: Engine, options: argparse.Namespace) -> list[Row]:
    """Time every sort of call, without gradients and with them."""
    from experiments.host.measure import Calls, Replayed, Trees, measure
    from experiments.host.table import line

    nets = engine.calls(False, options.seed), engine.calls(True, options.seed)
    programs: list[Program] = [Calls(engine, nets, sort, options.calls) for sort in engine.SORTS]
    programs += [Trees(engine, options.samples, options.seed), Replayed(engine, 8 * options.samples, options.seed)]
    rows: list[Row] = []
    for program in programs:
        rows += [measure(engine, program, gradients, options.rounds, options.seed) for gradients in (False, True)]
        print(line(*rows[-2:]), flush=True)
    return rows


def _planned(engine: Engine, options: argparse.Namespace) -> list[Planned]:
    """Plan minibatches of several sizes."""
    from experiments.host.planning import plan

    rounds = min(options.rounds, PLANNED)
    return [plan(engine, samples, rounds, options.seed) for samples in options.planned or engine.PLANNED]


def _launched(engine: Engine, options: argparse.Namespace) -> tuple[Launched, list[Shared]]:
    """Launch steps, and run minibatches."""
    from experiments.host.launching import launched, shared

    rounds = min(options.rounds, LAUNCHED)
    steps = launched(engine, rounds, options.seed)
    return steps, shared(options.engine, rounds, options.minibatch, options.seed)


def _capture() -> str:
    """Says how calls are captured here, as `python -m gluonjit doctor` does."""
    done = subprocess.run([sys.executable, "-m", "gluonjit", "doctor"], cwd=ROOT, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    return lines[lines.index("capture") + 1].strip()


def _command(options: argparse.Namespace) -> str:
    """The command that makes these tables again."""
    given = {
        "calls": (options.calls, CALLS),
        "rounds": (options.rounds, ROUNDS),
        "samples": (options.samples, SAMPLES),
        "planned": (",".join(map(str, options.planned or ())), ""),
        "minibatch": (options.minibatch, MINIBATCH),
        "seed": (options.seed, SEED),
    }
    return again("host", options.engine, given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.host",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--engine", choices=ENGINES, required=True)
    parser.add_argument("--calls", type=_calls, default=CALLS, metavar="N", help=f"calls per round ({CALLS})")
    parser.add_argument("--rounds", type=count, default=ROUNDS, metavar="N", help=f"timed rounds ({ROUNDS})")
    parser.add_argument(
        "--samples", type=count, default=SAMPLES, metavar="N", help=f"samples of the TreeModel ({SAMPLES})"
    )
    parser.add_argument(
        "--planned",
        type=counts,
        metavar="N,N",
        help="samples of the TreeModel to plan (default: as many as have about 1,500 and 9,800 nodes)",
    )
    parser.add_argument(
        "--minibatch", type=count, default=MINIBATCH, metavar="N", help=f"pairs per minibatch ({MINIBATCH})"
    )
    parser.add_argument("--seed", type=whole, default=SEED)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write everything to this file")
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="write the tables into this page")
    return parser


def _calls(text: str) -> int:
    number = count(text)
    if number > MOST_CALLS:
        raise argparse.ArgumentTypeError(f"{text} is more than {MOST_CALLS}")
    return number
