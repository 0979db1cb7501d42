"""The models by level, their functions compiled by `torch.compile` for any number of rows; compilations are counted.

The loop over levels stays in Python: each number of levels would be a separate graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from experiments.throughput.peers.samples import Arrays
from experiments.throughput.peers.with_torch import bylevel

LIMIT = 64  # graphs of one function; PyTorch's own limit of 8 leaves some numbers of rows to run without one


class _Counted(bylevel.ByLevel):
    """Compiles the functions of a model, and counts how often."""

    def __init__(self, weights: Arrays, rate: float, device: str = "cpu") -> None:
        super().__init__(weights, rate, device)
        self.compilations = 0
        torch._dynamo.reset()  # so that another model's graphs are not taken for this one's
        self.run = {
            name: torch.compile(function, dynamic=True, backend=self._compile) for name, function in self.run.items()
        }

    def _compile(self, graph: Any, inputs: Sequence[Any]) -> Any:
        from torch._inductor.compile_fx import compile_fx

        self.compilations += 1
        return compile_fx(graph, inputs)

    def gradients(self, samples: Sequence[Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses of a minibatch and the gradients of their sum."""
        with _any_sizes():
            return super().gradients(samples)

    def outputs(self, samples: Sequence[Any]) -> Tensor:
        """Return the model's outputs for a minibatch."""
        with _any_sizes():
            return super().outputs(samples)

    def notes(self) -> dict[str, int]:
        """Return the number of functions, and of graphs compiled for them."""
        return {"functions": len(self.run), "compilations": self.compilations}


@contextmanager
def _any_sizes() -> Iterator[None]:
    """Let compiled functions take numbers of rows that happen to be equal as any others, and have graphs enough."""
    from torch.fx.experimental import _config

    with _config.patch(use_duck_shape=False), torch._dynamo.config.patch(recompile_limit=LIMIT):
        yield


class Relatedness(_Counted, bylevel.Relatedness):
    """The child-sum Tree-LSTM for pairs."""


class Sentiment(_Counted, bylevel.Sentiment):
    """The binary Tree-LSTM for phrases."""
