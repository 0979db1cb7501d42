"""The common part of the models in DyNet: parameters, a graph per minibatch, the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import dynet as dy
import numpy as np

from experiments.throughput.peers.samples import Arrays

TABLE = "embed_weight"


class Split(NamedTuple):
    """A weight that this model holds as two: their names, the axis that is cut, and where."""

    names: tuple[str, str]
    axis: int
    at: int


class Learner:
    """A model for one sample, whose minibatches DyNet batches itself."""

    def __init__(self, weights: Arrays, rate: float, splits: Mapping[str, Split] | None = None) -> None:
        self._splits = splits or {}
        self._fixed, self._learnt = dy.ParameterCollection(), dy.ParameterCollection()
        self.table = self._fixed.lookup_parameters_from_numpy(weights[TABLE])
        self.weights: dict[str, Any] = {}
        for name, array in weights.items():
            if name in self._splits:
                split = self._splits[name]
                for part, cut in zip(split.names, np.split(array, [split.at], split.axis)):
                    self.weights[part] = self._learnt.parameters_from_numpy(np.ascontiguousarray(cut))
            elif name != TABLE:
                self.weights[name] = self._learnt.parameters_from_numpy(array)
        self._trainer = dy.SimpleSGDTrainer(self._learnt, learning_rate=rate)
        self._trainer.set_clip_threshold(0)  # it clips unless told otherwise, which no other system does

    def outputs(self, sample: Any) -> list[Any]:
        """Return the model's outputs for one sample, expressions of one shape."""
        raise NotImplementedError

    def loss(self, sample: Any) -> Any:
        """Return the loss of one sample, an expression."""
        raise NotImplementedError

    def word(self, number: int) -> Any:
        """Return the vector of a word, which stays as it is."""
        return dy.lookup(self.table, number, update=False)

    def differentiate(self, samples: Sequence[Any]) -> Arrays:
        """Return the losses of a minibatch and the gradients of their sum."""
        dy.renew_cg()
        losses = [self.loss(sample) for sample in samples]
        dy.esum(losses).backward()
        found = {name: np.array(weight.grad_as_array()) for name, weight in self.weights.items()}
        for weight in self.weights.values():
            weight.scale_gradient(0)  # gradients add up until a step
        for name, split in self._splits.items():
            found[name] = np.concatenate([found.pop(part) for part in split.names], split.axis)
        return {"losses": np.array([loss.value() for loss in losses], dtype=np.float32), **found}

    def step(self, samples: Sequence[Any]) -> None:
        """Learn from one minibatch, by stochastic gradient descent on the mean loss."""
        dy.renew_cg()
        total = dy.esum([self.loss(sample) for sample in samples]) * (1 / len(samples))
        total.forward()
        total.backward()
        self._trainer.update()

    def infer(self, samples: Sequence[Any]) -> np.ndarray:
        """Return the outputs on the host."""
        dy.renew_cg()
        outputs = [output for sample in samples for output in self.outputs(sample)]
        return np.array(dy.concatenate_to_batch(outputs).npvalue())
