"""Times flushes that do not wait: ``python -m experiments.ahead --workload treelstm-sick --batch-size 256``.

PyTorch infers minibatches one after the other in one `gluonjit.batching(...)`. Each is read once the next one has been
flushed, with `flush()` and with `flush(wait=False)` in turns, on the same samples and in the same way. Results must be
equal to the last bit. It needs a second core, and a machine that nothing else uses.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import numpy as np

import gluonjit
from experiments.bench.agreement import Disagreement
from experiments.bench.arguments import add_data, count, ended, whole
from experiments.bench.clock import Minibatches
from experiments.bench.engines import engine_of
from experiments.bench.environment import environment, limit_threads
from experiments.bench.files import write_json
from experiments.throughput import SYSTEMS, WORKLOADS

WORKLOADS_OF_TORCH = tuple(name for name in WORKLOADS if name != "lattice")
WARM_UP = 3  # turns
AT_ONCE = 6  # minibatches of a loop
WAY: dict[str, Any] = {"granularity": "cell", "scheduler": "depth", "sharing": True}  # another one rounds otherwise


def loop(system: Any, minibatches: Sequence[Sequence[Any]], wait: bool) -> tuple[float, list[np.ndarray]]:
    """Infer minibatches, reading each when the next one has been flushed; the seconds of one, and the results."""
    import torch

    results, before = [], None
    begin = perf_counter()
    with torch.no_grad(), gluonjit.batching(**WAY) as batch:
        for samples in minibatches:
            found = [system.net(sample) for sample in samples]
            batch.flush(wait=wait)
            if before is not None:
                results.append(torch.cat([result.reshape(-1) for result in before]).numpy())
            before = found
        results.append(torch.cat([result.reshape(-1) for result in before or ()]).numpy())
    return (perf_counter() - begin) / len(minibatches), results


def measure(system: Any, minibatches: Minibatches, turns: int) -> list[tuple[float, float]]:
    """Seconds of a minibatch, waiting and not, of each turn. Raises Disagreement if results are not equal."""
    pairs = []
    for turn in range(WARM_UP + turns):
        drawn, found = minibatches.draw(AT_ONCE), {}
        for wait in (True, False) if turn % 2 else (False, True):
            found[wait] = loop(system, drawn, wait)
        if not all(np.array_equal(mine, other) for mine, other in zip(found[True][1], found[False][1])):
            raise Disagreement("a flush without waiting gives other numbers than one with waiting")
        pairs.append((found[True][0], found[False][0]))
    return pairs[WARM_UP:]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m experiments.ahead", description=__doc__)
    parser.add_argument("--workload", choices=WORKLOADS_OF_TORCH, required=True)
    parser.add_argument("--batch-size", type=count, default=256)
    parser.add_argument("--threads", type=count, help="threads per operator (OMP_NUM_THREADS, or 1)")
    parser.add_argument("--turns", type=count, default=15)
    add_data(parser)
    parser.add_argument("--seed", type=whole, default=0)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the measurements to this file")
    chosen = parser.parse_args(arguments)
    limit_threads(chosen.threads)
    from experiments.data.errors import DataError

    return ended(lambda: _run(chosen), DataError, Disagreement, OSError)


def _run(chosen: argparse.Namespace) -> list[str]:
    engine: Any = engine_of("throughput", "torch")
    task = engine.load(chosen.workload, chosen.data_dir, chosen.seed, chosen.limit)
    (system, _), _ = engine.make_systems(task, (SYSTEMS["torch"][1],), (), ())
    gc.collect()
    gc.freeze()
    pairs = measure(system, Minibatches(task.samples, chosen.batch_size, chosen.seed), chosen.turns)
    ratios = [waiting / ahead for waiting, ahead in pairs]
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else 3 * ratios
    print(
        f"{task.note}\n{chosen.workload}, minibatches of {chosen.batch_size}: "
        f"{1e3 * median(waiting for waiting, _ in pairs):.1f} ms waiting, "
        f"{1e3 * median(ahead for _, ahead in pairs):.1f} ms not; {median(ratios):.3f} times as fast (quartiles "
        f"{low:.3f} to {high:.3f}, {len(pairs)} turns)"
    )
    if chosen.json:
        given = {"workload": chosen.workload, "batch_size": chosen.batch_size, "seed": chosen.seed}
        write_json(chosen.json, {**given, "environment": environment(), "seconds": pairs})
    return []


if __name__ == "__main__":
    sys.exit(main())
