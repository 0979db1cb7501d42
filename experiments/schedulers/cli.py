"""The command line: launches, lower bound and planning time by scheduler, beside schedulers of other systems.

Models of the zoo and workloads are captured in inference, one node a cell, with equal calls shared and products not cut
out, and planned with each scheduler in a process of its own; milliseconds are those of planning, the least of three.
Samples a second, of processor time, are medians of six fresh minibatches, in which all schedulers take turns.
Binary trees of two types are ED-Batch's. Random graphs of up to 14 nodes and 3 types are compared with the best of all
schedules. The learned policy is trained on the very graph, with each of its encodings, of which the best counts.

With --layouts: bytes that are gathered by the layout of rows that the library has, and by PQ trees as ED-Batch makes
them, of the same models and workloads, with products cut out. The gain is at most the time that numpy takes for all
gathers of the library, less that for those which remain, over the processor time of a minibatch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.bench.arguments import add_data, again, count, ended, names, whole
from experiments.bench.engines import ENGINES
from experiments.bench.environment import environment, limit_threads
from experiments.tradeoff import WITHOUT
from experiments.workloads import NAMES as WORKLOADS
from experiments.zoo.models import NAMES as MODELS

BATCH_SIZE, SEED, GRAPHS, EPISODES = 32, 0, 10_000, 100
TREES = "two-type trees"
Runs = Callable[[dict[str, Any]], Iterator[tuple[str, list[Any]]]]
"""Yields models and workloads, batched in a way, as what captures minibatches of them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 is success, 1 a failure that is explained, 2 bad arguments, 130 Ctrl-C."""
    options = _parser().parse_args(arguments)
    limit_threads()
    from experiments.data.errors import DataError

    return ended(lambda: _run(options), DataError, OSError, ValueError)


def _run(options: argparse.Namespace) -> list[str]:
    """Measure, print and write."""
    from experiments.bench.files import write_json
    from experiments.bench.page import put
    from experiments.schedulers.measuring import captured, loaded

    chosen = [name for name in options.workloads if name not in WITHOUT[options.engine]]

    def runs(way: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
        yield from captured(options.engine, options.models, options.batch_size, options.seed, way)
        yield from loaded(options.engine, chosen, options.batch_size, options.seed, options.data_dir, way)

    texts, figures = (_layouts if options.layouts else _schedules)(options, runs)
    machine = environment()
    versions = ", ".join(f"{name} {machine[name]}" for name in ("python", "torch", "mxnet", "numpy") if machine[name])
    texts = [f"`{_command(options)}`", "", *texts, "", f"On one core of {machine['cpu']}; {versions}."]
    print("\n".join(texts))
    if options.json:
        write_json(options.json, {**figures, "environment": machine})
    if options.markdown:
        put(options.markdown, options.engine, "\n".join(texts), "layouts" if options.layouts else "schedulers")
    return []


def _schedules(options: argparse.Namespace, runs: Runs) -> tuple[list[str], dict[str, Any]]:
    """Compare schedulers: tables, and the figures in them."""
    from experiments.schedulers import measuring
    from experiments.schedulers.table import graphs, random_graphs

    engine, seed, episodes = options.engine, options.seed, options.episodes
    rows = [measuring.measured(name, each, engine, episodes) for name, each in runs(measuring.WAY)]
    small = measuring.Small(engine)
    rows.append(small.row(TREES, measuring.two_types(_trees(options.data_dir, options.batch_size), seed), episodes))
    found = measuring.excess(small, options.graphs, seed) if options.graphs else []
    texts = [graphs(rows), *(["", random_graphs(found, options.graphs)] if found else ())]
    return texts, {"rows": [asdict(row) for row in rows], "random": [asdict(row) for row in found]}


def _layouts(options: argparse.Namespace, runs: Runs) -> tuple[list[str], dict[str, Any]]:
    """Compare layouts in the same form."""
    from experiments.schedulers.layouts import WAY, measured
    from experiments.schedulers.table import layouts

    rows = [measured(name, each, options.engine) for name, each in runs(WAY)]
    return [layouts(rows)], {"rows": [asdict(row) for row in rows]}


def _trees(folder: str | None, size: int) -> list[object]:
    """Return trees of SST, if it is there, or else random ones."""
    import os
    import random

    from experiments.data import sst

    folder = folder or os.environ.get("GLUONJIT_DATA")
    if folder:
        return [parsed.tree for parsed in sst.read(Path(folder) / "sst" / "dev.txt")[:size]]
    rng = random.Random(SEED)

    def tree(words: int) -> object:
        left = rng.randint(1, words - 1) if words > 1 else 0
        return (tree(left), tree(words - left)) if left else 0

    return [tree(rng.randint(2, 30)) for _ in range(size)]


def _command(options: argparse.Namespace) -> str:
    """Return the command that measures the same again."""
    given = {
        "batch-size": (options.batch_size, BATCH_SIZE),
        "seed": (options.seed, SEED),
        "graphs": (options.graphs, GRAPHS),
        "episodes": (options.episodes, EPISODES),
        "models": (",".join(options.models), ",".join(MODELS)),
        "workloads": (",".join(options.workloads), ",".join(WORKLOADS)),
    }
    return again("schedulers", options.engine, given) + " --layouts" * options.layouts


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.schedulers", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help="whose models are captured")
    parser.add_argument("--models", type=_models, default=MODELS, help="comma-separated, of the zoo")
    parser.add_argument(
        "--workloads", type=_workloads, default=WORKLOADS, help="comma-separated: " + ", ".join(WORKLOADS)
    )
    parser.add_argument("--batch-size", type=count, default=BATCH_SIZE, metavar="N", help="samples of each")
    parser.add_argument("--graphs", type=whole, default=GRAPHS, metavar="N", help="random graphs (0: none)")
    parser.add_argument("--episodes", type=whole, default=EPISODES, metavar="N", help="of the learned policy (0: none)")
    parser.add_argument("--seed", type=whole, default=SEED, help="of samples, parameters and graphs")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="write the tables into this page, at its markers")
    parser.add_argument("--layouts", action="store_true", help="compare layouts of rows, and not schedulers")
    add_data(parser)
    return parser


def _models(text: str) -> tuple[str, ...]:
    return names(text, MODELS, "model")


def _workloads(text: str) -> tuple[str, ...]:
    return names(text, WORKLOADS, "workload") if text else ()
