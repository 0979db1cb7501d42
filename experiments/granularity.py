"""Counts nodes and launches of the Tree-LSTM at every granularity: one epoch of training pairs in file order.

Nothing is shared or shuffled, and a short last minibatch is kept, so that the counts are comparable with those of other
systems. Cells of the trees are counted separately from the rest.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.bench.arguments import add_data, count, ended, whole
from experiments.bench.environment import environment, limit_threads

WORKLOADS = ("treelstm-sick", "treelstm-builtin")
BY_TREES = "one node per cell, counted on the trees"


class Line(NamedTuple):
    """Nodes and launches of one part of the program over the epoch."""

    granularity: str
    part: str
    nodes: int
    launches: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 is success, 1 a failure that is explained, 2 bad arguments, 130 an interruption."""
    options = _parser().parse_args(arguments)
    limit_threads()
    import gluonjit
    from experiments.data.errors import DataError

    try:
        gluonjit.Options().updated("--scheduler", {"scheduler": options.scheduler})
    except gluonjit.errors.OptionError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return ended(lambda: _run(options), DataError, OSError)


def _run(options: argparse.Namespace) -> list[str]:
    from experiments.bench.files import write_json
    from experiments.workloads import load

    workload = load(options.workload, options.data_dir, options.seed, options.limit)
    size = options.batch_size
    minibatches = [workload.train[at : at + size] for at in range(0, len(workload.train), size)]
    print(f"data: {workload.note}; {len(workload.train)} pairs in {len(minibatches)} minibatches of {size}")
    print(f"scheduler: {options.scheduler}; sharing: off")
    lines = [by_trees(minibatches), *counted(workload, minibatches, options.scheduler)]
    print(f"{'granularity':<12} {'part':<40}{'nodes':>12}{'launches':>10}")
    for line in lines:
        print(f"{line.granularity:<12} {line.part:<40}{line.nodes:>12,}{line.launches:>10,}")
    if options.json:
        write_json(
            options.json,
            {
                "workload": options.workload,
                "pairs": len(workload.train),
                "batch_size": size,
                "scheduler": options.scheduler,
                "rows": [line._asdict() for line in lines],
                "environment": environment(),
            },
        )
    return []


def by_trees(minibatches: Sequence[Sequence[Any]]) -> Line:
    """Count without the library: a node a token, and a launch a depth and number of children."""
    nodes = launches = 0
    for minibatch in minibatches:
        groups = set()
        for pair in minibatch:
            for sentence in (pair.left, pair.right):
                nodes += len(sentence)
                for node in sentence.root:
                    groups.add((node.depth(), len(node.children)))
        launches += len(groups)
    return Line("reference", BY_TREES, nodes, launches)


def counted(workload: Any, minibatches: Sequence[Sequence[Any]], scheduler: str) -> list[Line]:
    """Run the epoch at every granularity that the installed version knows."""
    from mxnet import gluon
    from tqdm import tqdm

    from experiments.tradeoff.configurations import GRANULARITIES, Configuration

    class Trees(gluon.Block):
        """The part of the model that has trees: at op granularity names do not tell it from the rest."""

        def __init__(self, net: gluon.Block) -> None:
            super().__init__()
            self.net = net

        def forward(self, pair: Any) -> Any:
            """Return h of both roots."""
            sides = (pair.left, pair.right)
            return [self.net.tree(side.root, self.net.embed(side.tokens)) for side in sides]

    trees, lines = Trees(workload.net), []
    programs = {"trees": trees, "whole model": lambda pair: [workload.loss_of(pair)]}
    ways = [Configuration(name, scheduler, False) for name in GRANULARITIES]
    for way in [way for way in ways if way.usable]:
        trees.hybridize(dynamic_batch=True, **way.options)
        for part, program in programs.items():
            totals: dict[str, list[int]] = {}
            for minibatch in tqdm(minibatches, desc=f"{way.granularity}, {part}", leave=False, disable=None):
                _add(totals, part, program, minibatch)
            lines += [Line(way.granularity, name, *total) for name, total in totals.items()]
    return lines


def _add(totals: dict[str, list[int]], part: str, program: Any, minibatch: Sequence[Any]) -> None:
    """Run one minibatch and add up what the library reports; cells and the products cut out of them apart."""
    import gluonjit

    results = [program(pair) for pair in minibatch]  # all are kept: what nobody can read does not run
    results[-1][-1].wait_to_read()
    report = gluonjit.explain()
    counts = {part: (report.nodes, report.launches)}
    if part == "trees":
        counts.update(
            (f"trees: {'products with words' if ':' in name else 'cells'}", (row.nodes, row.launches))
            for name, row in report.kinds.items()
            if "childsumcell" in name
        )
    for name, (nodes, launches) in counts.items():
        total = totals.setdefault(name, [0, 0])
        total[0] += nodes
        total[1] += launches


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.granularity", description=__doc__)
    parser.add_argument("--workload", choices=WORKLOADS, default=WORKLOADS[0])
    parser.add_argument("--scheduler", default="depth", help="one of gluonjit's (default: depth)")
    parser.add_argument("--batch-size", type=count, default=256)
    add_data(parser, "sick/ and glove/", "pairs")
    parser.add_argument("--seed", type=whole, default=0)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the counts to this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
