"""Writes in PyTorch that show in other tensors: views and their bases, inputs, buffers."""

from __future__ import annotations

from typing import Any

import torch

from . import FORMS, habit
from .on_torch_writes import written


@habit("torch", forms=FORMS)
def a_slice_taken_before_sees_the_write(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        h = h * 1
        first, last = h[0], h[-1]
        h += 1
        h[1] *= 3
        return torch.stack([first, last, h[0] - first])

    written(t, write)


@habit("torch", forms=FORMS)
def a_write_to_a_view_shows_in_its_base(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        h = h * 1
        h.view(2, 2, 2)[0, 1] = 7
        h[0].add_(x[1])
        h.t()[1].mul_(2)
        h.view(-1)[2:4] += 1
        return h

    written(t, write)


@habit("torch", forms=FORMS)
def a_write_to_what_backward_needs_is_refused(t: Any) -> None:
    net = t.net()
    for x in t.inputs(2):
        with t.raises("backward"):
            h = net.part(x) if t.form != "cell" else net.part.run(x)
            loss = net.out(h).exp()
            saved = loss * 1
            total = (loss * saved).sum()
            loss.add_(1)
            total.backward()
    t.minibatch(net, label="after")


@habit("torch", forms=FORMS)
def a_write_to_a_leaf_is_refused(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            x += 1
            return self.out(self.inner(x))

    net, x = t.net(net=Net), t.inputs()[0].requires_grad_()
    with t.raises("the write", "leaf"):
        t.call(net, x)
    t.minibatch(net, label="after", inputs=[x.detach().clone() for _ in range(2)])


@habit("torch", forms=FORMS)
def an_input_is_written_to_by_the_net(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            x.mul_(2)
            return self.out(self.inner(x))

    net, given = t.net(net=Net), t.inputs()
    t.minibatch(net, given, label="first")
    t.minibatch(net, given, label="second")
    t.see("inputs", given)


@habit("torch", forms=FORMS)
def a_detached_result_shares_its_numbers(t: Any) -> None:
    net = t.net()
    with torch.no_grad():
        h = t.call(net, t.inputs()[0])
        plain = h.detach()
        plain.add_(1)
        numpy = h.numpy()
        numpy[0, 0] = 5
    t.see("both", [h, plain])


@habit("torch", forms=FORMS)
def a_running_mean_in_a_buffer_that_is_replaced(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.register_buffer("mean", torch.zeros(1, 4))

        def body(self, F: Any, x: Any) -> Any:
            h = self.layer(x)
            self.mean = 0.9 * self.mean + 0.1 * h.detach()
            return F.tanh(h - self.mean)

    net = t.net(Part)
    t.minibatch(net, label="first", step=True)
    t.minibatch(net, label="second")
    t.see("buffer", net.part.mean)
    t.see("state", list(net.state_dict()))


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
