"""A chain of one layer's calls, as a stretch of steps, for tests of both engines."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import gluonjit

WAY: dict[str, Any] = {"granularity": "cell", "scheduler": "depth", "sharing": True, "expand": ("Net",)}
WAY["check"] = "never"  # comparisons part stretches
STEPS, SIZE = 6, 4


class Chain:
    """A layer, as often as one likes, on a vector: eagerly and batched, with gradients of the layer's weight."""

    def __init__(self, engine: str, size: int = SIZE, samples: int = 3) -> None:
        self.engine = engine
        framework: Any = import_module(engine)
        if engine == "torch":
            framework.manual_seed(0)
            self.layer = framework.nn.Linear(size, size)
            self.inputs = [framework.randn(size) for _ in range(samples)]
            self.stop: Callable[[Any], Any] = framework.special.erfinv  # no row program does it
        else:
            framework.random.seed(0)
            self.layer = framework.gluon.nn.Dense(size, in_units=size)
            self.layer.initialize()
            self.inputs = [framework.nd.random.normal(shape=(1, size)) for _ in range(samples)]
            self.stop = framework.nd.erf
        self.net = self._net(framework)

    def _net(self, framework: Any) -> Any:
        base = framework.nn.Module if self.engine == "torch" else framework.gluon.Block

        class Net(base):  # type: ignore[misc, valid-type]
            def __init__(self, layer: Any) -> None:
                super().__init__()
                self.layer = layer

            def forward(self, x: Any, steps: int, stop: Any = None) -> Any:
                for step in range(steps):
                    x = self.layer(x)
                    if stop is not None and step == 1:
                        x = stop(x * 0.01)
                return x

        return Net(self.layer)

    def __call__(self, batched: bool, stop: Any = None) -> tuple[list[np.ndarray], np.ndarray, gluonjit.Report | None]:
        """Results, the gradient of the weight, and the report."""
        if self.engine == "torch":
            gluonjit.hybridize(self.net, dynamic_batch=batched, **(WAY if batched else {}))
        else:
            self.net.hybridize(active=batched, dynamic_batch=batched, **(WAY if batched else {}))
        report = None
        recording = import_module("contextlib").nullcontext
        if self.engine == "mxnet":
            recording = import_module("mxnet").autograd.record
        with recording():
            if batched:
                with gluonjit.batching(**WAY) as batch:
                    results = [self.net(x, STEPS, stop) for x in self.inputs]
                    total = sum(result.sum() for result in results)
                report = batch.report
            else:
                results = [self.net(x, STEPS, stop) for x in self.inputs]
                total = sum(result.sum() for result in results)
        if self.engine == "torch":
            self.layer.zero_grad()
            total.backward()
            return [result.detach().numpy() for result in results], self.layer.weight.grad.numpy().copy(), report
        total.backward()
        return [result.asnumpy() for result in results], self.layer.weight.grad().asnumpy(), report


def same(found: tuple[Any, ...], wanted: tuple[Any, ...]) -> None:
    for mine, eager in zip([*found[0], found[1]], [*wanted[0], wanted[1]]):
        assert np.abs(mine - eager).max() <= 1e-5 * np.abs(eager).max()
