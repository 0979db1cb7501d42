"""What is done to nets between calls: copies, files, layers, hooks, functions, modes."""

from __future__ import annotations

from typing import Any

from . import habit


@habit()
def everything_is_dropped_or_nothing(t: Any) -> None:
    """The rate is changed between minibatches: 0 keeps all, and 1 - 1e-7 nothing, whatever is drawn."""

    class Net(t.Net):
        def setup(self) -> None:
            self.drop = t.dropout(0.0)

        def body(self, F: Any, x: Any) -> Any:
            return self.out(self.drop(self.inner(x)))

    net = t.net(net=Net)
    for rate in (0.0, 1 - 1e-7, 0.0):
        if t.engine == "torch":
            net.drop.p = rate
        else:
            net.drop._rate = rate
        t.mode(net, True)
        t.minibatch(net, label=f"{rate}")
