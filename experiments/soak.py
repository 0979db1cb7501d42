"""Memory over many minibatches of random trees: ``python -m experiments.soak --minibatches 5000``.

Every minibatch has its own structure. After a warm-up the process should not grow, and no cache should exceed its
bound. Ctrl-C ends the run early; the measurements so far are still printed and written.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from tqdm import tqdm

import gluonjit
from experiments.bench.arguments import count, whole
from experiments.bench.files import write_json

VOCABULARY = 500
BOUNDS = {
    "mxnet.operators": 4096,
    "mxnet.reused": 100_000,
    "mxnet.reused_bytes": 256_000_000,
    "mxnet.cells": 4096,
    "mxnet.shapes": 10_001,
    "mxnet.specs": 100_001,
}
"""The most entries that a cache may hold."""


def caches() -> dict[str, int]:
    """Entries in each cache of the engine that runs; another one may be there too."""
    return {name: entries for name, entries in gluonjit.cache_info().items() if name in BOUNDS}


class Cell(gluon.HybridBlock):
    """A node of a tree: its word and any number of children."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.word = gluon.nn.Dense(units, in_units=units)
        self.child = gluon.nn.Dense(units, use_bias=False, in_units=units)

    def hybrid_forward(self, F: Any, word: Any, *children: Any) -> Any:
        """The node's state."""
        total = self.word(word)
        return F.tanh(total + self.child(F.add_n(*children)) if children else total)


class TreeModel(gluon.Block):
    """One tree at a time."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.embed = gluon.nn.Embedding(VOCABULARY, units)
        self.cell = Cell(units)
        self.head = gluon.nn.Dense(1, in_units=units)

    def forward(self, tokens: Any, tree: Any) -> Any:
        """The tree's score."""
        return self.head(self._encode(tree, self.embed(tokens)))

    def _encode(self, node: Any, words: Any) -> Any:
        index, children = node
        return self.cell(words[index : index + 1], *[self._encode(child, words) for child in children])


def random_tree(random: np.random.RandomState, most: int = 12) -> tuple[Any, Any]:
    """Tokens and a tree over them, of any shape."""
    size = int(random.randint(1, most + 1))
    nodes: list[tuple[int, list[Any]]] = [(index, []) for index in range(size)]
    for index in range(1, size):
        nodes[int(random.randint(0, index))][1].append(nodes[index])
    return mx.nd.array(random.randint(0, VOCABULARY, size)), nodes[0]


class Soak:
    """A model in training, and the memory of its process."""

    def __init__(self, seed: int, batch_size: int = 8, units: int = 16) -> None:
        mx.random.seed(seed)
        self.random = np.random.RandomState(seed)
        self.batch_size = batch_size
        self.net = TreeModel(units)
        self.net.initialize()
        self.net.hybridize(dynamic_batch=True, granularity="batched")
        self.trainer = gluon.Trainer(self.net.collect_params(), "adam", {"learning_rate": 1e-3})
        self.loss = gluon.loss.L2Loss()

    def step(self) -> float:
        """Train on a fresh minibatch; returns its mean loss."""
        samples = [(*random_tree(self.random), mx.nd.array([[self.random.uniform()]])) for _ in range(self.batch_size)]
        with autograd.record():
            total = gluonjit.add_n([self.loss(self.net(tokens, tree), label) for tokens, tree, label in samples])
        total.backward()
        self.trainer.step(self.batch_size)
        return float(total.asscalar()) / self.batch_size


def resident() -> int:
    """Bytes of memory that the process holds now (its peak, where the system does not say)."""
    gc.collect()
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def measure(minibatches: int, warm_up: int, seed: int, every: int = 100) -> dict[str, Any]:
    """Train, and look at memory and caches after the warm-up, every so often, and at the end."""
    soak = Soak(seed)
    found: dict[str, Any] = {"minibatches": 0, "warm_up": warm_up, "seed": seed, "samples": [], "interrupted": False}
    try:
        progress = tqdm(range(1, minibatches + 1), desc="soak", unit="minibatch")
        for number in progress:
            loss = soak.step()
            found["minibatches"] = number
            if number == warm_up:
                found["bytes_after_warm_up"] = resident()
            if number % every == 0 or number == minibatches:
                found["samples"].append({"minibatch": number, "bytes": resident(), **caches()})
                progress.set_postfix_str(f"loss {loss:.4f}, {resident() / 1e6:.1f} MB")
    except KeyboardInterrupt:
        found["interrupted"] = True
    mx.nd.waitall()
    found["bytes_at_the_end"] = resident()
    found["caches"] = caches()
    found["bounds"] = BOUNDS
    begin = found.get("bytes_after_warm_up")
    found["growth_percent"] = None if begin is None else round(100.0 * (found["bytes_at_the_end"] / begin - 1.0), 3)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 1 where memory grew by 1 % or more, or a cache is over its bound."""
    parser = argparse.ArgumentParser(prog="python -m experiments.soak", description=__doc__)
    parser.add_argument("--minibatches", type=count, default=5000)
    parser.add_argument("--warm-up", type=count, default=500, help="minibatches before the first look at memory")
    parser.add_argument("--seed", type=whole, default=0)
    parser.add_argument("--json", type=Path, help="write the measurements to this file")
    chosen = parser.parse_args(arguments)
    found = measure(chosen.minibatches, chosen.warm_up, chosen.seed)
    if chosen.json:
        write_json(chosen.json, found)
    growth = found["growth_percent"]
    told = "no figure: it ended before the warm-up did" if growth is None else f"{growth:.3f} %"
    print(f"\n{found['minibatches']} minibatches, growth after {chosen.warm_up}: {told}")
    over = [name for name, entries in found["caches"].items() if entries > BOUNDS.get(name, 0)]
    print(f"caches: {found['caches']}; over their bounds: {', '.join(over) or 'none'}")
    return int(bool(over) or (growth is not None and growth >= 1.0))


if __name__ == "__main__":
    sys.exit(main())
