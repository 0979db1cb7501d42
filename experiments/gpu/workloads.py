"""Workloads to measure: samples on a device, and the model for one of them in each hidden size."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from experiments.data import corpus, tagged
from experiments.data import phrases as treebank
from experiments.data.arrays import maker
from experiments.data.reading import DATA_VARIABLE
from experiments.data.trees import CLASSES
from experiments.gpu import generated
from experiments.throughput.counts import FAMILIES, Product, Sizes
from experiments.torch import phrases, relatedness, tagger
from experiments.torch.systems import Program

WIDTH, TOKEN_WIDTH, HEAD = 300, 50, 50
RATE = 0.01  # of stochastic gradient descent


@dataclass(frozen=True)
class Workload:
    """Samples, and the model for one of them by its hidden size; `sizes` are the model's columns."""

    name: str
    note: str
    samples: Sequence[Any]
    family: str
    build: Callable[[int], nn.Module]
    loss: Callable[[nn.Module, Any], Any]
    sizes: Callable[[int], Sizes]

    @property
    def program(self) -> Program:
        """Returns the program that systems run."""
        return Program(self.family, self.loss, partial(torch.optim.SGD, lr=RATE))

    def net(self, hidden: int, seed: int) -> nn.Module:
        """Return the model with weights drawn from the seed, on the processor."""
        torch.manual_seed(seed)
        return self.build(hidden)

    def products(self, hidden: int, samples: Sequence[Any], shared: bool) -> list[Product]:
        """Return the model's products for some samples, each done on its own or equal ones once."""
        return FAMILIES[self.family](self.sizes(hidden), samples, shared)


def load(name: str, data_dir: str | None, seed: int, limit: int, device: str) -> Workload:
    """Return a workload: its files where they are, else samples generated with the same statistics."""
    folder = data_dir or os.environ.get(DATA_VARIABLE)
    return LOADERS[name](folder, seed, limit, device)


def _pairs(folder: str | None, seed: int, limit: int, device: str) -> Workload:
    there = folder is not None and (Path(folder) / "sick").is_dir()
    found = corpus.load("sick" if there else "builtin", folder, seed, limit, "torch", device)
    vectors = torch.from_numpy(found.vectors)

    def build(hidden: int) -> nn.Module:
        net = relatedness.Relatedness(len(vectors), WIDTH, hidden, HEAD)
        net.embed.weight.data.copy_(vectors)
        return net

    return Workload(
        "treelstm-sick",
        found.note,
        found.train,
        "pairs",
        build,
        relatedness.loss,
        lambda hidden: Sizes(WIDTH, hidden, CLASSES, HEAD),
    )


def _phrases(folder: str | None, seed: int, limit: int, device: str) -> Workload:
    make, words = maker("torch", device), generated.SST.words
    if folder is not None and (Path(folder) / "sst").is_dir():
        samples, words = treebank.load(folder, limit, make, plain=True)
        note = treebank.NOTE
    else:
        samples, note = generated.phrases(seed, limit, make), "GENERATED with the sizes of the treebank's sentences"
    return Workload(
        "bintree-sst",
        note,
        samples,
        "phrases",
        lambda hidden: phrases.BinaryTreeLSTM(words, CLASSES, WIDTH, hidden),
        phrases.loss,
        lambda hidden: Sizes(WIDTH, hidden, CLASSES),
    )


def _tagged(folder: str | None, seed: int, limit: int, device: str) -> Workload:
    make, words, tags = maker("torch", device), generated.RESUME.words, generated.RESUME.classes
    if folder is not None and (Path(folder) / "lattice").is_dir():
        sentences, numbers = tagged.read(folder, plain=True)
        samples = [numbers.sample(sentence, make) for sentence in sentences[:limit]]
        words, tags, note = len(numbers.vocab), len(numbers.tags), tagged.NOTE
    else:
        samples, note = generated.tagged(seed, limit, make), "GENERATED with the sizes of ResumeNER's sentences"
    return Workload(
        "bilstm",
        note,
        samples,
        "tagged",
        lambda hidden: tagger.Tagger(words, tags, TOKEN_WIDTH, hidden),
        tagger.loss,
        lambda hidden: Sizes(TOKEN_WIDTH, hidden, tags),
    )


LOADERS: Mapping[str, Callable[[str | None, int, int, str], Workload]] = {
    "treelstm-sick": _pairs,
    "bintree-sst": _phrases,
    "bilstm": _tagged,
}
