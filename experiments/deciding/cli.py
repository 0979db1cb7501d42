"""The command line: models that decide, eagerly and by `gluonjit.map`, compared and then timed in turns.

Where a model has it, all samples run to the last step with masks, too, as is usual today. One thread; pin it to one
core.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.bench.arguments import again, count, ended, names, whole
from experiments.bench.engines import ENGINES
from experiments.bench.environment import environment, limit_threads

BATCH_SIZE, HIDDEN, IN_FLIGHT, SEED = 64, 128, 64, 0


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
    from experiments.deciding.measure import Setting, Timed, measure
    from experiments.deciding.programs import NAMES
    from experiments.deciding.table import draw, line, table

    engine, found = engine_of("zoo", options.engine), list[Timed]()
    setting = Setting(options.engine, options.batch_size, options.hidden, options.in_flight, options.seed)
    for name in options.models or NAMES:
        found += measure(engine, name, setting)
        print(line(*found[-2:]), flush=True)
    text = table(found, _command(options))
    print(f"\n{text}")
    if options.json:
        figures = [timed.to_json() for timed in found]
        write_json(options.json, {**vars(setting), "environment": environment(), "rows": figures})
    if options.markdown:
        put(options.markdown, options.engine, text, "deciding")
    if options.plot:
        draw(found[0].apart, found[0].full, options.in_flight, options.plot)
    return [fault for timed in found for fault in timed.faults()]


def _command(options: argparse.Namespace) -> str:
    """The command that makes this table again."""
    given: dict[str, tuple[Any, Any]] = {
        "models": (",".join(options.models), ""),
        "batch-size": (options.batch_size, BATCH_SIZE),
        "hidden": (options.hidden, HIDDEN),
        "in-flight": (options.in_flight, IN_FLIGHT),
        "seed": (options.seed, SEED),
    }
    return again("deciding", options.engine, given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.deciding",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[1], help="whose models are run")
    parser.add_argument("--models", type=_models, default=(), metavar="A,B", help="all, if none is named")
    parser.add_argument("--batch-size", type=count, default=BATCH_SIZE, metavar="N", help="samples of a minibatch")
    parser.add_argument("--hidden", type=count, default=HIDDEN, metavar="N", help="size of states")
    parser.add_argument("--in-flight", type=count, default=IN_FLIGHT, metavar="N", help="samples under way, of many")
    parser.add_argument("--seed", type=whole, default=SEED, help="of samples and parameters")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="write the table into this page, at its markers")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="draw batch sizes of the first model, in training")
    return parser


def _models(text: str) -> tuple[str, ...]:
    from experiments.deciding.programs import NAMES  # needs numpy

    return names(text, NAMES, "model")
