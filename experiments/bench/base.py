"""The part of the ways of running the model that is common to the engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from experiments.bench.jit import Figures, last_figures, profiled


def check_shapes(arrays: dict[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Arrays as they are, if they have these names and shapes. Raises ValueError."""
    if arrays.keys() != shapes.keys():
        other = sorted(arrays.keys() ^ shapes.keys())
        raise ValueError(f"it holds {len(arrays)} arrays, not {len(shapes)}: {other[0]!r:.60} is there or not")
    for name, array in arrays.items():
        if array.shape != tuple(shapes[name]):
            raise ValueError(f"{name} has shape {array.shape}, not {tuple(shapes[name])}")
    return arrays


class MissingSystem(Exception):
    """A system cannot be made here; the message says why."""


def see_all(samples: Sequence[Any], size: int, *phases: Callable[[Sequence[Any]], Any]) -> None:
    """Let a system see all samples, as in an epoch before, after one in which it is chosen how it runs."""
    for _ in range(2):
        for first in range(0, len(samples), size):
            for phase in phases:
                phase(samples[first : first + size])


class BaseSystem:
    """One way of running the model: from sample objects to gradients, new weights, or numbers on the host."""

    sharing: bool | None = None  # whether equal work is done once; None if there is no such choice
    one_by_one = False  # whether a minibatch takes as long as its samples, so that few of them tell the speed
    foreign = False  # whether functions are computed in another way than the engine does, and round otherwise

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def label(self) -> str:
        """The name in tables: `dynamic, no sharing` is a row of its own."""
        return f"{self.name}, no sharing" if self.sharing is False else self.name

    def step(self, samples: Sequence[Any]) -> Any:
        """Learn from one minibatch; returns its losses."""
        raise NotImplementedError

    def total(self, losses: Any) -> float:
        """Return the sum of the losses of a minibatch, which waits for them."""
        raise NotImplementedError

    def infer(self, samples: Sequence[Any]) -> np.ndarray:
        """Return the outputs on the host."""
        raise NotImplementedError

    def results(self, samples: Sequence[Any]) -> dict[str, np.ndarray]:
        """Return the losses of a minibatch and the gradient of each parameter."""
        raise NotImplementedError

    def weights(self) -> dict[str, np.ndarray]:
        """Copy the trained weights."""
        raise NotImplementedError

    def set_weights(self, weights: dict[str, np.ndarray]) -> None:
        """Set the trained weights."""
        raise NotImplementedError

    def states(self) -> dict[str, np.ndarray]:
        """Copy the optimizer's state, as float32 arrays by name."""
        raise NotImplementedError

    def set_states(self, states: dict[str, np.ndarray]) -> None:
        """Set the optimizer's state; raises ValueError if it belongs to another optimizer."""
        raise NotImplementedError

    def meet(self, samples: Sequence[Any], size: int) -> None:
        """See all samples, as in epochs before, where that changes how they are run."""

    def wait(self) -> None:
        """Wait until everything has run."""

    def repeat(self) -> None:
        """Let equal runs give equal bits from here on."""

    def scores(self, samples: Sequence[Any]) -> np.ndarray:
        """Return the expected relatedness of each pair."""
        probabilities = np.exp(self.infer(samples))
        return probabilities @ np.arange(1, probabilities.shape[1] + 1)

    def timed(self, phase: str, samples: Sequence[Any]) -> float:
        """Run one minibatch and return its seconds, the engine's work included."""
        run = {"train": self.step, "inference": self.infer}[phase]
        self.wait()
        began = perf_counter()
        run(samples)
        self.wait()
        return perf_counter() - began

    def figures(self) -> Figures | None:
        """Return the figures of the last minibatch, if the system has any."""
        return None

    def notes(self) -> dict[str, int]:
        """Return other figures of the system."""
        return {}

    def profile(self, phase: str, samples: Sequence[Any]) -> Figures | None:
        """Run one minibatch with its parts timed separately; return its figures, if the system has any."""
        return None


class Batched(BaseSystem):
    """A system that gluonjit batches; `options` are additional options."""

    options: Mapping[str, Any]

    def figures(self) -> Figures:
        """Return the figures of the last minibatch."""
        return last_figures()

    def profile(self, phase: str, samples: Sequence[Any]) -> Figures:
        """Run one minibatch with a wait after each part, and return its figures."""
        with profiled(bool(self.sharing), **self.options):
            self.timed(phase, samples)
        return self.figures()
