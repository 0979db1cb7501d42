"""The command line: time the models against eager execution, and write their table where requested.

Each model runs eagerly and with `hybridize(dynamic_batch=True)`, which fixes no way to run, in turns on the same fresh
samples, with no decision kept from earlier runs. One thread; pin it to one core, and run nothing else.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.bench.arguments import again, counts, ended, seconds, whole
from experiments.bench.environment import environment, limit_threads
from experiments.programs import LEAST
from experiments.zoo.cli import SEED, add_common
from experiments.zoo.models import NAMES

if TYPE_CHECKING:
    from experiments.programs.measure import Timed

BATCH_SIZES, MINIBATCHES, SECONDS = (1, 8, 32, 128), 200, 8.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 is success, 1 a model that differs from eager or no file, 2 bad arguments, 130 Ctrl-C."""
    options = _parser().parse_args(arguments)
    limit_threads()
    return ended(lambda: _run(options), OSError, ValueError)


def _run(options: argparse.Namespace) -> list[str]:
    """Measure, print and write; returns the faults."""
    from experiments.bench.engines import engine_of
    from experiments.bench.files import write_json
    from experiments.bench.page import put
    from experiments.programs.measure import TOLERANCE, measure
    from experiments.programs.table import line, table

    found: list[Timed] = []
    engine = engine_of("zoo", options.engine)
    for name in options.models:
        for size in options.batch_sizes:
            found += measure(engine, name, size, options.seed, options.minibatches, options.seconds)
            print(line(*found[-2:]), flush=True)
    text = table(found, _command(options))
    print(f"\n{text}")
    if options.json:
        figures = [timed.to_json() for timed in found]
        settings = {key: getattr(options, key) for key in ("engine", "seed", "minibatches", "seconds")}
        write_json(options.json, {**settings, "environment": environment(), "rows": figures})
    if options.markdown:
        put(options.markdown, options.engine, text, "programs")
    return [
        f"{timed.model}, {timed.phase} at {timed.batch_size}: off by {timed.off:.1e} of the largest"
        for timed in found
        if timed.off > TOLERANCE
    ]


def _command(options: argparse.Namespace) -> str:
    """The command that makes this table again."""
    given = {
        "models": (",".join(options.models), ",".join(NAMES)),
        "batch-sizes": (",".join(map(str, options.batch_sizes)), ",".join(map(str, BATCH_SIZES))),
        "minibatches": (options.minibatches, MINIBATCHES),
        "seconds": (options.seconds, SECONDS),
        "seed": (options.seed, SEED),
    }
    return again("programs", options.engine, given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.programs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--batch-sizes", type=counts, default=BATCH_SIZES, metavar="N,N", help="samples per minibatch")
    parser.add_argument("--minibatches", type=_enough, default=MINIBATCHES, metavar="N", help="at most, per phase")
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=SECONDS,
        help=f"per phase, after at least {LEAST} minibatches",
    )
    add_common(parser)
    return parser


def _enough(text: str) -> int:
    return whole(text, LEAST)
