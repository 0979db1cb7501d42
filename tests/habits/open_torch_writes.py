"""What PyTorch's programs write to: results, views of them, buffers, weights between capture and backward."""

from __future__ import annotations

from typing import Any, Callable

import torch

from . import FORMS, habit


def written(t: Any, write: Callable[[Any, Any], Any], rows: int = 2) -> None:
    """Values and gradients where `write(h, x)` works on a hidden result; it may give what goes on instead of h."""

    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            h = self.inner(x)
            other = write(h, x)
            return self.out(h if other is None else other)

    net = t.net(net=Net)
    given = t.inputs(3, rows=rows)
    for turn in range(2):
        t.minibatch(net, given, label=f"in the net {turn}", step=True)
    plain = t.net()
    t.zero(plain)
    losses = []
    for x in given:
        h = plain.part(x) if t.form != "cell" else plain.part.run(x)
        other = write(h, x)
        losses.append((plain.out(h if other is None else other) ** 2).sum())
    sum(losses).backward()
    t.see("on results", losses)
    t.see("gradients on results", t.gradients(plain))


@habit("torch", forms=FORMS)
def a_running_mean_in_a_buffer(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.register_buffer("mean", torch.zeros(1, 4))
            self.register_buffer("calls", torch.zeros((), dtype=torch.long))

        def body(self, F: Any, x: Any) -> Any:
            h = self.layer(x)
            if self.training:
                self.mean.mul_(0.9).add_(0.1 * h.detach())
                self.calls += 1
            return F.tanh(h - self.mean)

    net = t.net(Part)
    t.minibatch(net, label="first", step=True)
    t.minibatch(net, label="second")
    t.see("buffers", [net.part.mean, int(net.part.calls)])
    net.eval()
    t.minibatch(net, label="evaluation")
    t.see("buffers after", [net.part.mean, int(net.part.calls)])
