"""Trials on MXNet."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from . import forms
from .forms import WIDTH
from .trial import Trial, start_numbers


class MXNetTrial(Trial):
    """A trial on MXNet."""

    engine = "mxnet"

    def __init__(self, *args: Any) -> None:
        import mxnet as mx

        self.mx, self.F, self.error = mx, mx.nd, mx.base.MXNetError
        mx.random.seed(0)
        super().__init__(*args)

    def classes(self, form: str) -> tuple[Any, Any]:
        return forms.mxnet_classes(form)

    def array(self, numbers: Any, dtype: str = "float32") -> Any:
        return self.mx.nd.array(np.asarray(numbers), dtype=dtype)

    def weights(self, net: Any) -> dict[str, Any]:
        return dict(net._collect_params_with_prefix())

    def fill(self, net: Any) -> None:
        net.initialize()
        weights = self.weights(net)
        for weight, start in zip(weights.values(), start_numbers([*weights], [w.shape for w in weights.values()])):
            weight.set_data(self.mx.nd.array(start))

    def arrays(self, net: Any) -> dict[str, Any]:
        return {name: weight.data() for name, weight in self.weights(net).items()}

    def freeze_one(self, weight: Any, frozen: bool) -> None:
        weight.grad_req = "null" if frozen else "write"

    def optimizer(self, net: Any, kind: str) -> Callable[[], Any]:
        options = {"learning_rate": 0.05, **({} if kind == "adam" else {"momentum": 0.9})}
        trainer = self.mx.gluon.Trainer(net.collect_params(), "adam" if kind == "adam" else "sgd", options)
        return lambda: trainer.step(1)

    def new_dense(self) -> Any:
        return self.mx.gluon.nn.Dense(WIDTH, in_units=WIDTH)

    def dropout(self, rate: float) -> Any:
        return self.mx.gluon.nn.Dropout(rate)

    def pause(self) -> Any:
        return self.mx.autograd.pause()

    def number(self, array: Any) -> float:
        return array.asscalar().item()  # type: ignore[no-any-return]

    def record(self) -> Any:
        return self.mx.autograd.record()

    def zero(self, net: Any) -> None:
        for weight in self.weights(net).values():
            if weight.grad_req != "null":
                weight.zero_grad()

    def gradients(self, net: Any) -> dict[str, Any]:
        return {name: weight.grad() for name, weight in self.weights(net).items() if weight.grad_req != "null"}

    def step(self, net: Any, rate: float = 0.1) -> None:
        for weight in self.weights(net).values():
            if weight.grad_req != "null":
                weight.set_data(weight.data() - rate * weight.grad())
