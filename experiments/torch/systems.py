"""The ways of running a model on PyTorch, each from sample objects to gradients and updated weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import gluonjit
from experiments.bench.base import BaseSystem, Batched, MissingSystem, check_shapes, see_all
from experiments.bench.jit import REPEATABLY
from experiments.bench.model import L2, LEARNING_RATE, MEMORY_SIZE, draw
from experiments.throughput.peers import samples as plain
from experiments.throughput.peers import with_torch
from experiments.torch import relatedness, weights

Optimizer = Any
"""A `torch.optim.Optimizer`."""


class Program(NamedTuple):
    """A task of systems: the family of the model, the loss of a sample by a net, and how they learn."""

    family: str
    loss: Callable[[nn.Module, Any], Tensor]
    optimizer: Callable[[Sequence[Tensor]], Optimizer]


def pairs_program() -> Program:
    """Return the program of the experiment. L2 is part of the gradient, as with Tai et al."""

    def adagrad(parameters: Sequence[Tensor]) -> Optimizer:
        return torch.optim.Adagrad(parameters, lr=LEARNING_RATE, weight_decay=L2, eps=1e-7)

    return Program("pairs", relatedness.loss, adagrad)


class _Learning(BaseSystem):
    """The common part of systems on PyTorch: parameters by name, and an optimizer."""

    def __init__(self, name: str, program: Program, parameters: dict[str, Tensor]) -> None:
        super().__init__(name)
        self.program = program
        self.parameters = parameters
        self.optimizer = program.optimizer(list(parameters.values()))
        self._cuda = next(iter(parameters.values())).is_cuda

    def differentiate(self, samples: Sequence[Any], scale: float) -> Sequence[Tensor]:
        """Leave `scale` times the gradient of the summed loss in the parameters; return the losses of the samples."""
        raise NotImplementedError

    def step(self, samples: Sequence[Any]) -> Sequence[Tensor]:
        """Learn from one minibatch, by its mean loss."""
        losses = self.differentiate(samples, 1 / len(samples))
        self.optimizer.step()
        return losses

    def total(self, losses: Sequence[Tensor]) -> float:
        """Return the sum of the losses of a minibatch, which waits for them."""
        return float(torch.stack(tuple(losses)).detach().sum())

    def results(self, samples: Sequence[Any]) -> dict[str, np.ndarray]:
        """Return the losses of a minibatch and the gradient of each parameter."""
        found = {"losses": torch.stack(tuple(self.differentiate(samples, 1.0)))}
        for name, parameter in self.parameters.items():
            found[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        return {name: array.detach().cpu().numpy().copy() for name, array in found.items()}

    def weights(self) -> dict[str, np.ndarray]:
        """Copy the trained weights."""
        return {name: parameter.detach().cpu().numpy().copy() for name, parameter in self.parameters.items()}

    def set_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Set the trained weights."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(torch.from_numpy(weights[name]))

    def states(self) -> dict[str, np.ndarray]:
        """Copy the optimizer's state of each parameter, by its number and name."""
        return {name: state.detach().cpu().numpy().copy() for name, state in self._states().items()}

    def set_states(self, states: dict[str, np.ndarray]) -> None:
        """Set the optimizer's state."""
        mine = self._states()
        check_shapes(states, {name: tuple(state.shape) for name, state in mine.items()})
        with torch.no_grad():
            for name, state in mine.items():
                state.copy_(torch.from_numpy(np.asarray(states[name])))

    def _states(self) -> dict[str, Tensor]:
        return {
            f"{number}.{what}": state
            for number, parameter in enumerate(self.parameters.values())
            for what, state in self.optimizer.state[parameter].items()
        }

    def wait(self) -> None:
        """Wait until everything has run."""
        if self._cuda:
            torch.cuda.synchronize()


class PerSample(_Learning):
    """A program for one sample, run a sample at a time, gradients added up."""

    one_by_one = True

    def __init__(self, name: str, net: nn.Module, program: Program) -> None:
        super().__init__(name, program, dict(weights.parameters(net, program.family)))
        self.net = net

    def differentiate(self, samples: Sequence[Any], scale: float) -> Sequence[Tensor]:
        """Differentiate each sample's loss on its own."""
        self.optimizer.zero_grad()
        losses = []
        for sample in samples:
            loss = self.program.loss(self.net, sample)
            (loss * scale).backward()
            losses.append(loss.detach())  # without its graph
        return losses

    def outputs(self, samples: Sequence[Any]) -> Tensor:
        """Return the model's outputs for a minibatch, for pairs (n, 5) log-probabilities."""
        found = [self.net(sample) for sample in samples]
        return torch.stack(found) if found[0].dim() == 1 else torch.cat(found)

    def infer(self, samples: Sequence[Any]) -> np.ndarray:
        """Return the outputs on the host."""
        with torch.no_grad():
            return self.outputs(samples).cpu().numpy()


class Dynamic(PerSample, Batched):
    """The same program, unchanged, batched by gluonjit."""

    one_by_one = False

    def __init__(self, name: str, net: nn.Module, program: Program, sharing: bool, **options: Any) -> None:
        """Batch a net; `options` are more of `gluonjit.hybridize`. Raises MissingSystem if it cannot be."""
        super().__init__(name, net, program)
        self.sharing = sharing
        self.options = options
        _batch(net, sharing=sharing, **options)

    def differentiate(self, samples: Sequence[Any], scale: float) -> Sequence[Tensor]:
        """Differentiate the sum of the losses."""
        self.optimizer.zero_grad()
        losses = [self.program.loss(self.net, sample) for sample in samples]
        total = gluonjit.add_n(losses)
        (total if scale == 1 else total * scale).backward()
        return losses

    def meet(self, samples: Sequence[Any], size: int) -> None:
        """See all samples once, if captures are reused."""
        if "reuse" in self.options:
            see_all(samples, size, self.infer, lambda part: self.differentiate(part, 1.0))

    def repeat(self) -> None:
        """Let equal runs give equal bits from here on."""
        _batch(self.net, **REPEATABLY)


def _batch(net: nn.Module, **options: Any) -> None:
    """Batch a net; this is the only change to it. Raises MissingSystem if that is not to be had."""
    try:
        gluonjit.hybridize(net, dynamic_batch=True, **options)
    except (gluonjit.errors.EngineError, gluonjit.errors.OptionError) as error:
        raise MissingSystem(str(error)) from error


class ByHand(_Learning):
    """A program for a whole minibatch, as an expert writes it; `foreign` where autograd has no part in it."""

    def __init__(self, name: str, model: Any, program: Program, as_plain: Mapping[int, Any]) -> None:
        """Run a model of `with_torch`; `as_plain` has by the identity of each sample the same in plain arrays."""
        super().__init__(name, program, model.weights)
        self.model = model
        self._plain = as_plain
        self.foreign = name in FOREIGN

    def differentiate(self, samples: Sequence[Any], scale: float) -> Sequence[Tensor]:
        """Differentiate the losses of all samples together."""
        with torch.no_grad():
            losses, found = self.model.gradients(self._of(samples))
            for name, parameter in self.parameters.items():
                parameter.grad = found[name] if scale == 1 else found[name] * scale
        return list(losses.unbind())

    def infer(self, samples: Sequence[Any]) -> np.ndarray:
        """Return the outputs on the host."""
        with torch.no_grad():
            return np.asarray(self.model.infer(self._of(samples)))

    def notes(self) -> dict[str, int]:
        """Return the model's counts."""
        return self.model.notes() if hasattr(self.model, "notes") else {}

    def _of(self, samples: Sequence[Any]) -> list[Any]:
        try:
            return [self._plain[id(sample)] for sample in samples]
        except KeyError:
            self._plain = {**self._plain, **plain_of(self.program.family, samples)}
        return [self._plain[id(sample)] for sample in samples]


FOREIGN = (with_torch.OWN_BACKWARD, "torch-compile")  # whose sigmoid and tanh are not those of PyTorch


def plain_of(family: str, samples: Sequence[Any]) -> dict[int, Any]:
    """Return samples as plain arrays, by the identity of each, which must stay alive."""
    found = plain.FAMILIES[family]
    return {id(sample): one for sample, one in zip(samples, found.read(found.write(samples)))}


def by_hand(
    name: str, given: Mapping[str, np.ndarray], program: Program, samples: Sequence[Any], device: str = "cpu"
) -> ByHand:
    """Build a system of `with_torch` by its name. Raises MissingSystem if there is none for the family."""
    if program.family not in with_torch.MODULES[name]:
        raise MissingSystem(f"{name} has no model of {program.family}")
    model = with_torch.model(name, program.family)(dict(given), 0.0, device)
    return ByHand(name, model, program, plain_of(program.family, samples) if samples else {})


MODES = {
    "handbatched": "torch-handbatched",
    "ownbwd": with_torch.OWN_BACKWARD,
    "compile": "torch-compile",
    "fold": "torchfold",
}


def make_net(vectors: np.ndarray, seed: int, size: int = MEMORY_SIZE) -> nn.Module:
    """Build the net for pairs; equal seeds give equal weights on all engines."""
    net = relatedness.Relatedness(vectors.shape[0], vectors.shape[1], size)
    shapes = {name: tuple(one.shape) for name, one in weights.parameters(net, "pairs").items()}
    drawn = {name: array.astype(np.float32) for name, array in draw(shapes, seed).items()}
    weights.set_weights(net, "pairs", {**drawn, "embed_weight": vectors})
    return net


def make_system(name: str, vectors: np.ndarray, seed: int, sharing: bool = True) -> BaseSystem:
    """Build a system by its name; equal seeds give equal weights in all of them, on all engines."""
    net, program = make_net(vectors, seed), pairs_program()
    if name == "imperative":
        return PerSample(name, net, program)
    if name == "dynamic":
        return Dynamic(name, net, program, sharing)
    system = by_hand(MODES[name], weights.weights_of(net, "pairs"), program, ())
    system.name = name
    return system
