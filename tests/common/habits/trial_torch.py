"""Trials on PyTorch."""

from __future__ import annotations

import contextlib
from typing import Any, Callable

import numpy as np

from . import forms
from .forms import WIDTH
from .trial import Trial, start_numbers


class TorchTrial(Trial):
    """A trial on PyTorch."""

    engine = "torch"

    def __init__(self, *args: Any) -> None:
        import torch

        self.F, self.error = torch, RuntimeError
        torch.default_generator.manual_seed(0)  # no other device takes part
        super().__init__(*args)

    def classes(self, form: str) -> tuple[Any, Any]:
        return forms.torch_classes(form)

    def array(self, numbers: Any, dtype: str = "float32") -> Any:
        return self.F.tensor(np.asarray(numbers, dtype=dtype))

    def weights(self, net: Any) -> dict[str, Any]:
        return dict(net.named_parameters())

    def fill(self, net: Any) -> None:
        weights = self.weights(net)
        with self.F.no_grad():
            for weight, start in zip(weights.values(), start_numbers([*weights], [w.shape for w in weights.values()])):
                weight.copy_(self.F.from_numpy(start))

    def arrays(self, net: Any) -> dict[str, Any]:
        return dict(net.named_parameters())

    def freeze_one(self, weight: Any, frozen: bool) -> None:
        weight.requires_grad_(not frozen)

    def optimizer(self, net: Any, kind: str) -> Callable[[], Any]:
        optim = self.F.optim
        if kind == "adam":
            return optim.Adam(net.parameters(), lr=0.05).step  # type: ignore[no-any-return]
        return optim.SGD(net.parameters(), lr=0.05, momentum=0.9).step  # type: ignore[no-any-return]

    def new_dense(self) -> Any:
        return self.F.nn.Linear(WIDTH, WIDTH)

    def dropout(self, rate: float) -> Any:
        return self.F.nn.Dropout(rate)

    def mode(self, net: Any, training: bool) -> None:
        net.train(training)

    def pause(self) -> Any:
        return self.F.no_grad()

    def number(self, array: Any) -> float:
        return array.item()  # type: ignore[no-any-return]

    def record(self) -> Any:
        return contextlib.nullcontext()

    def zero(self, net: Any) -> None:
        net.zero_grad(set_to_none=True)

    def gradients(self, net: Any) -> dict[str, Any]:
        return {name: weight.grad for name, weight in self.weights(net).items()}

    def step(self, net: Any, rate: float = 0.1) -> None:
        with self.F.no_grad():
            for weight in net.parameters():
                if weight.grad is not None:
                    weight -= rate * weight.grad
