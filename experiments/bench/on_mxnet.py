"""The ways of running a model on MXNet, each from sample objects to gradients and updated weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

import gluonjit
from experiments.bench.base import BaseSystem, Batched, check_shapes, see_all
from experiments.bench.jit import REPEATABLY


class Program(NamedTuple):
    """A task of systems: a model for one sample, and how it learns.

    output: `output(net, sample)` gives rows of numbers. loss: `loss(net, sample)` gives an array of one.
    parameters: those of a net that are trained, by names that nets of all systems have.
    compile: hybridizes what has one structure whatever the sample.
    """

    output: Callable[[gluon.Block, Any], Any]
    loss: Callable[[gluon.Block, Any], Any]
    parameters: Callable[[gluon.Block], dict[str, gluon.Parameter]]
    optimizer: Callable[[], mx.optimizer.Optimizer]
    compile: Callable[[gluon.Block], None]


class System(BaseSystem):
    """One way of running the model on MXNet."""

    def __init__(self, name: str, net: gluon.Block, program: Program) -> None:
        super().__init__(name)
        self.net = net
        self.program = program
        self.parameters = self.program.parameters(net)
        self.trainer = gluon.Trainer(list(self.parameters.values()), self.program.optimizer(), kvstore=None)

    def differentiate(self, samples: Sequence[Any]) -> list[Any]:
        """Leave the gradient of the summed loss in the parameters; return the losses of the samples."""
        with autograd.record():
            losses = [self.program.loss(self.net, sample) for sample in samples]
            total = gluonjit.add_n(losses)
        total.backward()
        return losses

    def step(self, samples: Sequence[Any]) -> list[Any]:
        """Learn from one minibatch."""
        losses = self.differentiate(samples)
        self.trainer.step(len(samples))
        return losses

    def outputs(self, samples: Sequence[Any]) -> Any:
        """Return the model's outputs for a minibatch, for pairs (n, 5) log-probabilities."""
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
        """Copy the optimizer's state: an array for each parameter it has updated, by its number."""
        return {str(index): state.asnumpy() for index, state in self.trainer._updaters[0].states.items()}

    def set_states(self, states: dict[str, np.ndarray]) -> None:
        """Set the optimizer's state."""
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

    def __init__(self, name: str, net: gluon.Block, program: Program) -> None:
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

    def __init__(self, name: str, net: gluon.Block, program: Program) -> None:
        super().__init__(name, net, program)
        self.program.compile(net)


class Dynamic(System, Batched):
    """The program for one sample, unchanged, batched by gluonjit."""

    def __init__(self, name: str, net: gluon.Block, sharing: bool, program: Program, **options: Any) -> None:
        """Batch a net; `options` are more of `hybridize(dynamic_batch=True)`."""
        super().__init__(name, net, program)
        self.sharing = sharing
        self.options = options
        net.hybridize(dynamic_batch=True, sharing=sharing, **options)

    def meet(self, samples: Sequence[Any], size: int) -> None:
        """See all samples once, if captures are reused."""
        if "reuse" in self.options:
            see_all(samples, size, self.infer, self.differentiate)

    def repeat(self) -> None:
        """Let equal runs give equal bits from here on."""
        self.net.hybridize(dynamic_batch=True, **REPEATABLY)
