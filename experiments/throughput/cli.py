"""Measure all systems and peers side by side in one run: from sample objects to updated weights, or to numbers."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import gluonjit
from experiments.bench.arguments import add_data, count, counts, ended, names, seconds, whole
from experiments.bench.engines import ENGINES
from experiments.bench.environment import limit_threads
from experiments.throughput import PEERS, SYSTEMS, WORKLOADS
from experiments.zoo.models import NAMES

SWITCHES = tuple(gluonjit.Options.SWITCHES)
PAIRS = tuple([name for name in WORKLOADS if name.startswith("treelstm-")])
MODELS = tuple([f"zoo/{name}" for name in NAMES])
REPEATS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 a failure that is explained, 2 bad arguments, 130 an interruption."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    options = parser.parse_args(given)
    _check(parser, options)
    limit_threads(options.threads)
    command = shlex.join(["python", "-m", "experiments.throughput", *given])
    from experiments.bench.agreement import Disagreement
    from experiments.data.errors import DataError
    from experiments.throughput.peers.environments import PeerError

    def run() -> list[str]:
        (_compare if options.against else _bench)(options, command)
        return []

    return ended(run, DataError, Disagreement, PeerError, OSError)


def _bench(options: argparse.Namespace, command: str) -> None:
    """Measure systems and peers."""
    from experiments.throughput.bench import Wanted, bench

    wanted = Wanted(
        options.workload,
        options.batch_size,
        options.systems,
        options.peers,
        options.ablations,
        options.repeats or REPEATS,
        options.seconds,
        options.seed,
        options.limit,
        options.data_dir,
        options.json,
        options.plot,
        command,
        options.engine,
        options.hidden,
    )
    bench(wanted)


def _compare(options: argparse.Namespace, command: str) -> None:
    """Measure this checkout and another one."""
    from experiments.throughput.against.compare import TURNS, Wanted, compare

    wanted = Wanted(
        options.against,
        options.engine,
        options.workload,
        options.systems[0] if options.systems else "dynamic",
        options.batch_size,
        options.repeats or TURNS,
        options.seconds,
        options.seed,
        options.limit,
        options.data_dir,
        options.json,
        command,
    )
    compare(wanted)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.throughput", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0])
    parser.add_argument(
        "--workload",
        choices=(*WORKLOADS, *MODELS),
        required=True,
        metavar="NAME",
        help=f"{', '.join(WORKLOADS)}, or with --against a model of the zoo: {', '.join(MODELS)}",
    )
    parser.add_argument("--batch-size", type=_counts, default=(256,), metavar="N,N,...")
    parser.add_argument("--hidden", type=count, metavar="N", help="size of the Tree-LSTM for pairs (150)")
    parser.add_argument("--threads", type=count, help="threads per operator (OMP_NUM_THREADS, or 1)")
    _list(parser, "--systems", _all(SYSTEMS), "system", None, "those that the workload has")
    _list(parser, "--peers", _all(PEERS), "peer", (), "none")
    parser.add_argument(
        "--ablations",
        type=lambda text: SWITCHES if text == "all" else names(text, SWITCHES, "optimization"),
        default=(),
        metavar="all|NAME,...",
        help=f"optimizations to turn off, each in a separate system: {', '.join(SWITCHES)}",
    )
    parser.add_argument("--against", metavar="CHECKOUT", help="measure this checkout and that one in turns")
    parser.add_argument("--repeats", type=count, help=f"turns ({REPEATS}, and 15 with --against)")
    parser.add_argument("--seconds", type=seconds, default=1.0, help="approximate duration of each measurement")
    add_data(parser)
    parser.add_argument("--seed", type=whole, default=0)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the rows to this file")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="write the plot to this file")
    return parser


def _all(by_engine: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the names of all engines, each once."""
    return tuple(dict.fromkeys(name for found in by_engine.values() for name in found))


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that the engine lacks, or that cannot be combined."""
    if options.hidden and (options.against or options.workload not in PAIRS):
        parser.error(f"--hidden is for {', '.join(PAIRS)}, and cannot be combined with --against")
    if options.workload in MODELS and not options.against:
        parser.error(
            f"{options.workload} is measured with --against; python -m experiments.programs has it beside eager"
        )
    if options.against and (options.peers or options.ablations or options.plot or len(options.systems or ()) > 1):
        parser.error(
            "--against measures one system, of --systems or `dynamic`: it cannot be combined with --peers, "
            "--ablations or --plot"
        )
    for what, asked, known in (("system", options.systems or (), SYSTEMS), ("peer", options.peers, PEERS)):
        for name in asked:
            if name not in known[options.engine]:
                there = ", ".join(known[options.engine])
                parser.error(f"no {what} is called {name!r} on {options.engine}; the {what}s are {there}")


def _list(
    parser: argparse.ArgumentParser,
    option: str,
    known: Sequence[str],
    what: str,
    default: Sequence[str] | None,
    without: str,
) -> None:
    """Add an option that takes names."""
    text = f"comma-separated: {', '.join(known)}; default: {without}"
    parser.add_argument(option, type=partial(names, known=known, what=what), default=default, help=text)


def _counts(text: str) -> tuple[int, ...]:
    """Read a comma-separated list of different numbers."""
    found = counts(text)
    if len(set(found)) != len(found):
        raise argparse.ArgumentTypeError(f"a batch size is named twice in {text}")
    return found
