"""Tasks by name: samples, nets with equal weights for all systems, and the data for peers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon

from experiments import workloads
from experiments.bench.model import HEAD_SIZE, MEMORY_SIZE
from experiments.bench.on_mxnet import Program
from experiments.data import corpus
from experiments.data.arrays import maker
from experiments.data.trees import CLASSES
from experiments.throughput import RATE, SYSTEMS, counts, synthetic
from experiments.treelstm.systems import make_net, relatedness
from experiments.workloads.workload import Workload

PER_SAMPLE = ("imperative", "dynamic")

Parameters = dict[str, gluon.Parameter]


@dataclass(frozen=True)
class Task:
    """One workload.

    systems: those that there are. make_net: the net of a system, weights as all have them. program: what it runs.
    family: how samples and weights travel to peers; None if there are no peers.
    count: the products of a model of such `sizes` for some samples, each done on its own or equal ones once.
    """

    name: str
    note: str
    samples: Sequence[Any]
    systems: tuple[str, ...]
    make_net: Callable[[str], gluon.Block]
    program: Callable[[], Program]
    count: Callable[[counts.Sizes, Sequence[Any], bool], list[counts.Product]]
    sizes: counts.Sizes
    family: str | None = None

    def products(self, samples: Sequence[Any], shared: bool) -> list[counts.Product]:
        """Return the model's products for some samples, each done on its own or equal ones once."""
        return self.count(self.sizes, samples, shared)

    def weights(self) -> dict[str, np.ndarray]:
        """Return the weights that all systems begin with, word vectors included, by the names that peers use."""
        net = self.make_net("imperative")
        found = {name: weight.data().asnumpy() for name, weight in self.program().parameters(net).items()}
        return {**found, "embed_weight": net.embed.weight.data().asnumpy()}


def load(
    name: str, data_dir: str | None = None, seed: int = 0, limit: int | None = None, hidden: int | None = None
) -> Task:
    """Return a workload; with `limit`, of its first samples alone. Raises DataError if files are missing.

    hidden: the size of a Tree-LSTM for pairs, where it is not the usual one.
    """
    loader = LOADERS[name]
    return loader(name, data_dir, seed, limit) if hidden is None else _pairs(name, data_dir, seed, limit, hidden)


def _pairs(name: str, data_dir: str | None, seed: int, limit: int | None, hidden: int = MEMORY_SIZE) -> Task:
    """Pairs of sentences with dependency trees."""
    data = name.split("-", 1)[1]
    if data == "synthetic":
        samples, vectors, note = synthetic.pairs(seed, maker("mxnet"), limit)
    else:
        found = corpus.load(data, data_dir, seed, limit)
        samples, vectors, note = found.train, found.vectors, found.note
    return Task(
        name,
        note,
        samples,
        SYSTEMS["mxnet"],
        lambda system: make_net(system, vectors, seed, hidden),
        lambda: relatedness()._replace(optimizer=_optimizer),
        counts.pairs,
        counts.Sizes(vectors.shape[1], hidden, CLASSES, HEAD_SIZE),
        "pairs",
    )


def _optimizer() -> mx.optimizer.Optimizer:
    return mx.optimizer.SGD(learning_rate=RATE)


def _phrases(name: str, data_dir: str | None, seed: int, limit: int | None) -> Task:
    """Sentences with binary trees."""

    def parameters(net: gluon.Block) -> Parameters:
        return {**_dense("leaf", net.leaf.gates), **_dense("compose", net.compose.gates), **_dense("out", net.out)}

    def compiled(net: gluon.Block) -> None:
        _compile(net.embed, net.leaf, net.compose, net.out)

    found = workloads.load("treelstm-sst", data_dir, seed, limit)
    sizes = counts.Sizes(found.net.embed.weight.shape[1], *found.net.out.weight.shape[::-1])
    return _task(name, found, parameters, counts.phrases, sizes, "phrases", compiled)


def _tagged(name: str, data_dir: str | None, seed: int, limit: int | None) -> Task:
    """Sentences with a tag for each character."""

    def compiled(net: gluon.Block) -> None:
        _compile(net.embed, net.ahead, net.back, net.out)

    found = workloads.load("bilstm", data_dir, seed, limit)
    (tags, both), width = found.net.out.scores.weight.shape, found.net.embed.weight.shape[1]
    sizes = counts.Sizes(width, both // 2, tags)
    return _task(name, found, chain_parameters, counts.tagged, sizes, "tagged", compiled)


def chain_parameters(net: gluon.Block) -> Parameters:
    """Return the trained parameters of the BiLSTM tagger by their common names."""
    weights = ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")
    chains = {
        f"{side}_{weight}": getattr(cell, weight)
        for side, cell in (("ahead", net.ahead), ("back", net.back))
        for weight in weights
    }
    return {**chains, **_dense("out", net.out.scores)}


def _lattice(name: str, data_dir: str | None, seed: int, limit: int | None) -> Task:
    """The same with the words of a lexicon as shortcuts."""

    def parameters(net: gluon.Block) -> Parameters:
        fixed = (net.characters.weight, net.words.weight)
        found = net.collect_params().items()
        return {full[len(net.prefix) :]: weight for full, weight in found if all(weight is not one for one in fixed)}

    loaded = workloads.load("lattice", data_dir, seed, limit)
    sizes = counts.Sizes(loaded.net.characters.weight.shape[1], *loaded.net.out.weight.shape[::-1])
    return _task(name, loaded, parameters, counts.lattice, sizes)


def _dense(name: str, layer: gluon.nn.Dense) -> Parameters:
    return {f"{name}_weight": layer.weight, f"{name}_bias": layer.bias}


def _compile(*blocks: gluon.HybridBlock) -> None:
    for block in blocks:
        block.hybridize(static_alloc=True)


def _task(
    name: str,
    found: Workload,
    parameters: Callable[[gluon.Block], Parameters],
    count: Callable[[counts.Sizes, Sequence[Any], bool], list[counts.Product]],
    sizes: counts.Sizes,
    family: str | None = None,
    compiled: Callable[[gluon.Block], None] | None = None,
) -> Task:
    """Make a task of a workload; without `compiled` it has no hybridized system."""
    per_sample = (*PER_SAMPLE, "hybridized") if compiled else PER_SAMPLE
    systems = tuple(name for name in SYSTEMS["mxnet"] if name.split("+")[0] in per_sample)
    program = Program(found.output, found.loss, parameters, _optimizer, compiled or (lambda net: None))
    fixed = "word vectors are random and kept fixed"
    note = found.note if found.note.endswith(fixed) else f"{found.note}; {fixed}"
    return Task(
        name, note, found.train, systems, lambda _: _twin(found.net, parameters), lambda: program, count, sizes, family
    )


def _twin(net: gluon.Block, parameters: Callable[[gluon.Block], Parameters]) -> gluon.Block:
    """Return a copy of a net whose trained parameters have separate gradients; others have none."""
    twin: gluon.Block = copy.deepcopy(net)
    trained = {id(parameter) for parameter in parameters(twin).values()}
    for parameter in twin.collect_params().values():
        parameter.grad_req = "null"
        if id(parameter) in trained:
            parameter.grad_req = "write"
    return twin


LOADERS: Mapping[str, Callable[[str, str | None, int, int | None], Task]] = {
    "treelstm-sick": _pairs,
    "treelstm-builtin": _pairs,
    "treelstm-synthetic": _pairs,
    "bintree-sst": _phrases,
    "bilstm": _tagged,
    "lattice": _lattice,
}
