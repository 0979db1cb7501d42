"""Constants that a body makes once and keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import FORMS, habit


def cached_positions_outside(t: Any) -> None:
    """A HybridBlock's own body takes no arrays but its arguments': the net around it keeps them."""

    class Net(t.Net):
        def setup(self) -> None:
            self.cache: dict[int, Any] = {}

        def body(self, F: Any, x: Any) -> Any:
            if 1 not in self.cache:
                self.cache[1] = t.array(np.arange(4).reshape(1, 4) / 10)
            return self.out(self.inner(x) + self.cache[1])

    net = t.net(net=Net)
    t.minibatch(net, step=True)
    t.minibatch(net, label="second")
    t.see("cache", net.cache)


@habit(forms=FORMS)
def constants_are_cached_on_self(t: Any) -> None:
    """Positions for a length are made once and kept."""

    class Part(t.Part):
        def setup(self) -> None:
            self.cache: dict[int, Any] = {}

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x) + self.positions(1))

        def positions(self, length: int) -> Any:
            if length not in self.cache:
                self.cache[length] = t.array(np.arange(length * 4).reshape(length, 4) / 10)
            return self.cache[length]

    if t.engine == "mxnet" and t.form == "module":
        return cached_positions_outside(t)
    net = t.net(Part)
    t.minibatch(net, step=True)
    t.minibatch(net, label="second")
    t.see("cache", net.part.cache)
