"""What the models in DyNet share: parameters, a graph a minibatch, the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dynet
import numpy as np

from experiments.throughput.peers.samples import Arrays

TABLE = "embed_weight"


class Learner:
    """A model for one sample, whose minibatches DyNet batches itself."""

    def __init__(self, weights: Arrays, rate: float) -> None:
        self._collection = dynet.ParameterCollection()
        self._fixed = dynet.ParameterCollection()
        self.table = self._fixed.lookup_parameters_from_numpy(weights[TABLE])
        self.weights = {
            name: self._collection.parameters_from_numpy(array) for name, array in weights.items() if name != TABLE
        }
        self._trainer = dynet.SimpleSGDTrainer(self._collection, learning_rate=rate)
        self._trainer.set_clip_threshold(0)  # it clips unless told otherwise, which no other system does

    def output(self, sample: Any) -> Any:
        """Return the model's output for one sample, an expression."""
        raise NotImplementedError

    def loss(self, sample: Any) -> Any:
        """Return the loss of one sample, an expression."""
        raise NotImplementedError

    def differentiate(self, samples: Sequence[Any]) -> Arrays:
        """Return the losses of a minibatch and the gradients of their sum."""
        dynet.renew_cg()
        losses = [self.loss(sample) for sample in samples]
        dynet.esum(losses).backward()
        found = {name: np.array(weight.grad_as_array()) for name, weight in self.weights.items()}
        return {"losses": np.array([loss.value() for loss in losses], dtype=np.float32), **found}

    def step(self, samples: Sequence[Any]) -> None:
        """Learn from one minibatch, by stochastic gradient descent on the mean loss."""
        dynet.renew_cg()
        total = dynet.esum([self.loss(sample) for sample in samples]) * (1 / len(samples))
        total.forward()
        total.backward()
        self._trainer.update()

    def infer(self, samples: Sequence[Any]) -> np.ndarray:
        """Return the outputs on the host."""
        dynet.renew_cg()
        return np.array(dynet.concatenate_to_batch([self.output(sample) for sample in samples]).npvalue())
