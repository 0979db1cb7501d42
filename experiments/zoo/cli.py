"""The command line: run the models, print their table, and write it where requested."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from experiments.bench.arguments import count, ended, names, whole
from experiments.bench.engines import ENGINES
from experiments.bench.environment import environment, limit_threads
from experiments.zoo.models import NAMES

BATCH_SIZE, SEED = 32, 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 is success, 1 a model that is not right or no file, 2 bad arguments, 130 Ctrl-C."""
    options = _parser().parse_args(arguments)
    limit_threads()
    return ended(lambda: _run(options), OSError, ValueError)


def _run(options: argparse.Namespace) -> list[str]:
    """Measure, print and write; returns the faults."""
    from experiments.bench.engines import engine_of
    from experiments.bench.files import write_json
    from experiments.bench.page import put
    from experiments.zoo.measure import measure
    from experiments.zoo.table import table

    engine = engine_of("zoo", options.engine)
    results = [measure(engine, name, options.batch_size, options.seed) for name in options.models]
    text = table(results, _command(options))
    print(text)
    if options.json:
        write_json(
            options.json,
            {
                "engine": options.engine,
                "batch_size": options.batch_size,
                "seed": options.seed,
                "environment": environment(),
                "models": [result.to_json() for result in results],
            },
        )
    if options.markdown:
        put(options.markdown, options.engine, text)
    return [fault for result in results for fault in result.faults()]


def _command(options: argparse.Namespace) -> str:
    """The command that makes this table again."""
    chosen = "" if tuple(options.models) == NAMES else f" --models {','.join(options.models)}"
    engine = "" if options.engine == ENGINES[0] else f" --engine {options.engine}"
    return f"python -m experiments.zoo{engine}{chosen} --batch-size {options.batch_size} --seed {options.seed}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.zoo", description=__doc__)
    parser.add_argument("--batch-size", type=count, default=BATCH_SIZE, metavar="N", help="samples of a model")
    add_common(parser)
    return parser


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every command that makes a table of the models."""
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help="whose models are run")
    parser.add_argument("--models", type=_models, default=NAMES, help="comma-separated: " + ", ".join(NAMES))
    parser.add_argument("--seed", type=whole, default=SEED, help="of samples and parameters")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="write the table into this page, at its markers")


def _models(text: str) -> tuple[str, ...]:
    return names(text, NAMES, "model")
