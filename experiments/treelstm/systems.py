"""The ways of running the model that are compared: each from sample objects to gradients and new weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

from experiments.treelstm import jit, optimizer
from experiments.treelstm.base import BaseSystem, check_shapes
from experiments.treelstm.engines import L2, LEARNING_RATE
from experiments.treelstm.handbatched import HandBatched
from experiments.treelstm.model import HybridizedTreeLSTM, Relatedness, TreeLSTM
from experiments.treelstm.plain import PlainCellTreeLSTM, PlainRelatedness, PlainTreeLSTM
from experiments.treelstm.weights import initialize, named_parameters


class Program(NamedTuple):
    """What systems run: a model for one sample, and how it learns.

    output: `output(net, sample)` gives rows of numbers. loss: `loss(net, sample)` gives an array of one.
    parameters: those of a net that are trained, by names that nets of all systems have.
    compile: hybridizes what has one structure whatever the sample.
    """

    output: Callable[[gluon.Block, Any], Any]
    loss: Callable[[gluon.Block, Any], Any]
    parameters: Callable[[gluon.Block], dict[str, gluon.Parameter]]
    optimizer: Callable[[], mx.optimizer.Optimizer]
    compile: Callable[[gluon.Block], None]


def relatedness() -> Program:
    """Return the program of the experiment."""
    divergence = gluon.loss.KLDivLoss()

    def compile_parts(net: gluon.Block) -> None:
        for block in (net.embed, net.head, divergence):
            block.hybridize(static_alloc=True)

    return Program(
        output=lambda net, pair: net(pair),
        loss=lambda net, pair: divergence(net(pair), pair.target),
        parameters=named_parameters,
        optimizer=lambda: optimizer.CoupledAdaGrad(learning_rate=LEARNING_RATE, wd=L2),
        compile=compile_parts,
    )


class System(BaseSystem):
    """One way of running the model on MXNet."""

    def __init__(self, name: str, net: gluon.Block, program: Program | None = None) -> None:
        super().__init__(name)
        self.net = net
        self.program = program or relatedness()
        self.parameters = self.program.parameters(net)
        self.trainer = gluon.Trainer(list(self.parameters.values()), self.program.optimizer(), kvstore=None)

    def differentiate(self, samples: Sequence[Any]) -> list[Any]:
        """Leave the gradient of the summed loss in the parameters; return the losses of the samples."""
        with autograd.record():
            losses = [self.program.loss(self.net, sample) for sample in samples]
            total = jit.add_n(losses)
        total.backward()
        return losses

    def step(self, samples: Sequence[Any]) -> list[Any]:
        """Learn from one minibatch."""
        losses = self.differentiate(samples)
        self.trainer.step(len(samples))
        return losses

    def outputs(self, samples: Sequence[Any]) -> Any:
        """Return what the model gives for a minibatch, for pairs (n, 5) log-probabilities."""
        return mx.nd.concat(*[self.program.output(self.net, sample) for sample in samples], dim=0)

    def infer(self, samples: Sequence[Any]) -> np.ndarray:
        """Return the outputs on the host."""
        return self.outputs(samples).asnumpy()

    def results(self, samples: Sequence[Any]) -> dict[str, np.ndarray]:
        """Return the losses of a minibatch and the gradient of each parameter."""
        losses = self.differentiate(samples)
        found = {"losses": mx.nd.concat(*losses, dim=0).asnumpy()}
        found.update((name, parameter.grad().asnumpy()) for name, parameter in self.parameters.items())
        return found

    def total(self, losses: list[Any]) -> float:
        """Return the sum of the losses of a minibatch, which waits for them."""
        return float(mx.nd.concat(*losses, dim=0).sum().asscalar())

    def weights(self) -> dict[str, np.ndarray]:
        """Copy the trained weights."""
        return {name: parameter.data().asnumpy() for name, parameter in self.parameters.items()}

    def set_weights(self, weights: dict[str, np.ndarray]) -> None:
        """Set the trained weights."""
        for name, parameter in self.parameters.items():
            parameter.set_data(mx.nd.array(weights[name]))

    def states(self) -> dict[str, np.ndarray]:
        """Copy what the optimizer remembers: an array for each parameter that it has met, by its number."""
        return {str(index): state.asnumpy() for index, state in self.trainer._updaters[0].states.items()}

    def set_states(self, states: dict[str, np.ndarray]) -> None:
        """Set what the optimizer remembers."""
        parameters, updater = list(self.parameters.values()), self.trainer._updaters[0]
        known = {str(index): parameter.shape for index, parameter in enumerate(parameters)}
        check_shapes(states, {name: shape for name, shape in known.items() if name in states})
        updater.states = {int(name): mx.nd.array(state) for name, state in states.items()}
        updater.states_synced = dict.fromkeys(updater.states, False)

    def wait(self) -> None:
        """Wait until everything has run."""
        mx.nd.waitall()


class PairByPair(System):
    """A sample at a time, gradients added up: of the eager ways the faster one, as its graphs stay small."""

    one_by_one = True

    def __init__(self, name: str, net: gluon.Block, program: Program | None = None) -> None:
        super().__init__(name, net, program)
        for parameter in self.parameters.values():
            parameter.grad_req = "add"

    def differentiate(self, samples: Sequence[Any]) -> list[Any]:
        """Differentiate each sample's loss on its own."""
        for parameter in self.parameters.values():
            parameter.zero_grad()
        losses = []
        for sample in samples:
            with autograd.record():
                losses.append(self.program.loss(self.net, sample))
            losses[-1].backward()
        return losses


class Hybridized(PairByPair):
    """A sample at a time, each block compiled."""

    def __init__(self, name: str, net: gluon.Block, program: Program | None = None) -> None:
        super().__init__(name, net, program)
        self.program.compile(net)


class ByHand(System):
    """The whole minibatch of pairs at once, by hand-written levels."""

    def __init__(self, name: str, net: gluon.Block, program: Program | None = None) -> None:
        super().__init__(name, net, program)
        self._loss = gluon.loss.KLDivLoss()

    def differentiate(self, samples: Sequence[Any]) -> list[Any]:
        """Differentiate the losses of all pairs together."""
        targets = mx.nd.concat(*[pair.target for pair in samples], dim=0)
        with autograd.record():
            losses = self._loss(self.net(samples), targets)
        losses.backward()
        return [losses]

    def outputs(self, samples: Sequence[Any]) -> Any:
        """Return the (n, 5) log-probabilities of a minibatch."""
        return self.net(samples)


class Dynamic(System):
    """The program for one sample, unchanged, batched by gluonjit."""

    def __init__(
        self, name: str, net: gluon.Block, sharing: bool, program: Program | None = None, **options: Any
    ) -> None:
        """Batch a net; `options` are more of `hybridize(dynamic_batch=True)`."""
        super().__init__(name, net, program)
        self.sharing = sharing
        self._options = options
        jit.batch_dynamically(net, sharing, **options)

    def meet(self, samples: Sequence[Any], size: int) -> None:
        """Where captures are reused: see all samples, as in an epoch before, after one in which it is chosen how."""
        if "reuse" in self._options:
            for _ in range(2):
                for first in range(0, len(samples), size):
                    self.infer(samples[first : first + size])
                    self.differentiate(samples[first : first + size])

    def repeat(self) -> None:
        """Let equal runs give equal bits from here on."""
        jit.batch_repeatably(self.net)

    def figures(self) -> jit.Figures:
        """Return what the last minibatch took."""
        return jit.last_figures()

    def profile(self, phase: str, samples: Sequence[Any]) -> jit.Figures:
        """Run one minibatch with a wait after each part; return what it took."""
        with jit.profiled(bool(self.sharing), **self._options):
            self.timed(phase, samples)
        return self.figures()


KINDS: dict[str, tuple[type[System], type[gluon.Block] | None]] = {
    "imperative": (PairByPair, TreeLSTM),
    "hybridized": (Hybridized, HybridizedTreeLSTM),
    "handbatched": (ByHand, None),
    "dynamic": (Dynamic, TreeLSTM),
    "plain-imperative": (PairByPair, PlainTreeLSTM),
    "plain": (Dynamic, PlainTreeLSTM),
    "plain-cell": (Dynamic, PlainCellTreeLSTM),
}


def make_net(name: str, vectors: np.ndarray, seed: int) -> gluon.Block:
    """Build the net of a system by its name; equal seeds give equal weights in all of them."""
    words, width = vectors.shape
    _, encoder = KINDS[name]
    if encoder is None:
        net = HandBatched(words, in_size=width)
    else:
        whole = PlainRelatedness if issubclass(encoder, PlainTreeLSTM) else Relatedness
        net = whole(words, encoder, in_size=width)
    initialize(net, vectors, seed)
    return net


def make_system(name: str, vectors: np.ndarray, seed: int, sharing: bool = True) -> System:
    """Build a system by its name; equal seeds give equal weights in all of them."""
    kind, net = KINDS[name][0], make_net(name, vectors, seed)
    return kind(name, net, sharing) if issubclass(kind, Dynamic) else kind(name, net)
