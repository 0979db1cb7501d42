"""Throughput on PyTorch: per-sample modules, gluonjit, and other ways in PyTorch, all in this process."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from experiments.bench.base import BaseSystem, MissingSystem
from experiments.bench.environment import threads
from experiments.bench.model import HEAD_SIZE, MEMORY_SIZE
from experiments.data import corpus, tagged
from experiments.data import phrases as treebank
from experiments.data.arrays import maker
from experiments.data.errors import DataError
from experiments.data.trees import CLASSES
from experiments.throughput import ABLATED, DYNAMIC, RATE, SYSTEMS, counts, synthetic
from experiments.throughput.floor import SHAPES, gflops
from experiments.throughput.peers import with_torch
from experiments.torch import phrases, relatedness, tagger, weights
from experiments.torch.systems import Dynamic, PerSample, Program, by_hand, make_net

IN_PROCESS = tuple(with_torch.MODULES)
WIDTH, TOKEN_WIDTH, TAGGER_SIZE = 300, 50, 128


@dataclass(frozen=True)
class Task:
    """One workload: samples, a net with the weights that all systems begin with, and its sizes."""

    name: str
    note: str
    samples: Sequence[Any]
    family: str
    net: nn.Module
    loss: Callable[[nn.Module, Any], Any]
    sizes: counts.Sizes
    systems: tuple[str, ...] = SYSTEMS["torch"]

    @property
    def program(self) -> Program:
        """Returns the program that systems run."""
        return Program(self.family, self.loss, partial(torch.optim.SGD, lr=RATE))

    def twin(self) -> nn.Module:
        """Return a net with the weights that all systems begin with."""
        return copy.deepcopy(self.net)

    def products(self, samples: Sequence[Any], shared: bool) -> list[counts.Product]:
        """Return the model's products for some samples, each done on its own or equal ones once."""
        return counts.FAMILIES[self.family](self.sizes, samples, shared)

    def weights(self) -> dict[str, np.ndarray]:
        """Return the weights that all systems begin with, word vectors included, by the names that peers use."""
        return weights.weights_of(self.net, self.family)


def load(name: str, data_dir: str | None, seed: int, limit: int | None, hidden: int | None = None) -> Task:
    """Return a workload; with `limit`, of its first samples alone. Raises DataError if files are missing.

    hidden: the size of a Tree-LSTM for pairs, where it is not the usual one.
    """
    torch.set_num_threads(threads())
    if name not in LOADERS:
        raise DataError(Path(name), None, f"no such workload on torch; the workloads are {', '.join(LOADERS)}")
    loader = LOADERS[name]
    return loader(name, data_dir, seed, limit) if hidden is None else _pairs(name, data_dir, seed, limit, hidden)


def _pairs(name: str, data_dir: str | None, seed: int, limit: int | None, hidden: int = MEMORY_SIZE) -> Task:
    """Pairs of sentences with dependency trees."""
    data = name.split("-", 1)[1]
    if data == "synthetic":
        samples, vectors, note = synthetic.pairs(seed, maker("torch"), limit)
    else:
        found = corpus.load(data, data_dir, seed, limit, "torch")
        samples, vectors, note = found.train, found.vectors, found.note
    sizes = counts.Sizes(vectors.shape[1], hidden, CLASSES, HEAD_SIZE)
    return Task(name, note, samples, "pairs", make_net(vectors, seed, hidden), relatedness.loss, sizes)


def _phrases(name: str, data_dir: str | None, seed: int, limit: int | None) -> Task:
    """Sentences with binary trees."""
    samples, words = treebank.load(data_dir, limit, maker("torch"), plain=True)
    torch.manual_seed(seed)
    net = phrases.BinaryTreeLSTM(words, CLASSES, WIDTH, MEMORY_SIZE)
    sizes = counts.Sizes(WIDTH, MEMORY_SIZE, CLASSES)
    return Task(name, treebank.NOTE, samples, "phrases", net, phrases.loss, sizes)


def _tagged(name: str, data_dir: str | None, seed: int, limit: int | None) -> Task:
    """Sentences with a tag for each character."""
    sentences, numbers = tagged.read(data_dir, plain=True)
    samples = [numbers.sample(sentence, maker("torch")) for sentence in sentences[:limit]]
    torch.manual_seed(seed)
    net = tagger.Tagger(len(numbers.vocab), len(numbers.tags), TOKEN_WIDTH, TAGGER_SIZE)
    sizes = counts.Sizes(TOKEN_WIDTH, TAGGER_SIZE, len(numbers.tags))
    note = f"{tagged.NOTE}; word vectors are random and kept fixed"
    return Task(name, note, samples, "tagged", net, tagger.loss, sizes)


LOADERS: Mapping[str, Callable[[str, str | None, int, int | None], Task]] = {
    "treelstm-sick": _pairs,
    "treelstm-builtin": _pairs,
    "treelstm-synthetic": _pairs,
    "bintree-sst": _phrases,
    "bilstm": _tagged,
}


def make_systems(
    task: Task, names: Sequence[str], switches: Sequence[str], peers: Sequence[str]
) -> tuple[list[BaseSystem], dict[str, str]]:
    """Build systems, and peers of this process; by name, why one cannot be."""
    program = task.program
    makers: list[tuple[str, Callable[[], BaseSystem]]] = []
    for name in names:
        if name == "imperative":
            makers.append((name, partial(PerSample, name, task.twin(), program)))
        else:
            for sharing in (True, False):
                makers.append((name, partial(Dynamic, name, task.twin(), program, sharing, **DYNAMIC[name])))
    for switch in switches:
        name = ABLATED + switch
        makers.append((name, partial(Dynamic, name, task.twin(), program, True, without=(switch,))))
    for name in peers:
        makers.append((name, partial(by_hand, name, task.weights(), program, task.samples)))
    systems: list[BaseSystem] = []
    missing: dict[str, str] = {}
    for name, make in makers:
        try:
            systems.append(make())
        except MissingSystem as error:
            missing[name] = f"{name}: {error}"
    return systems, missing


def gemm_rates() -> dict[str, float]:
    """Return GFLOP/s of products by PyTorch's layer and by `mm`."""
    rates: dict[str, float] = {}
    with torch.no_grad():
        for shape in SHAPES:
            rows, width, out = shape
            x, weight = torch.randn(rows, width), torch.randn(out, width)
            products = {"linear": partial(functional.linear, x, weight), "mm": partial(torch.mm, x, weight.T)}
            rates.update(gflops(products, shape, lambda: None))
    return rates
