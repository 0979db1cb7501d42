"""What measuring the trade-off needs of a framework, and the modules that have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol


class Workload(Protocol):
    """A model for one sample, with initialised parameters, and samples to run it on.

    note: what the samples are. loss: `loss(net, sample)` calls the model as a user does and gives the sample's loss.
    """

    @property
    def note(self) -> str: ...
    @property
    def train(self) -> Sequence[Any]: ...
    @property
    def net(self) -> Any: ...
    @property
    def loss(self) -> Callable[[Any, Any], Any]: ...


class Times(NamedTuple):
    """When a minibatch began, was captured, and had run, in seconds of `time.perf_counter`."""

    begin: float
    captured: float
    end: float


class Engine(Protocol):
    """What the module of a framework has."""

    def load(self, name: str, data_dir: str | None, seed: int, limit: int | None) -> Workload:
        """Return a workload; with `limit`, of its first samples alone. Raises DataError where files are missing."""

    def batched(self, net: Any, options: dict[str, Any]) -> Any:
        """Return a net with the same parameters that is batched with these options of gluonjit."""

    def run(self, net: Any, loss: Callable[[Any, Any], Any], samples: Sequence[Any], training: bool) -> Times:
        """Compute the losses of a minibatch, and in training the gradients of their sum."""


MODULES = {"mxnet": "experiments.tradeoff.on_mxnet", "torch": "experiments.tradeoff.on_torch"}
WITHOUT = {"mxnet": (), "torch": ("lattice",)}
"""Workloads that there are on the other engine alone."""


def engine_of(name: str) -> Engine:
    """Return an engine by its name."""
    return import_module(MODULES[name])
