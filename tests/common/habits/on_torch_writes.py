"""What PyTorch's programs write to: results, views of them, buffers, weights between capture and backward."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn

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
def a_number_is_added_in_place(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        h = h * 1
        h += 1
        h -= x
        h *= 2
        h /= 3
        return h

    written(t, write)


@habit("torch", forms=FORMS)
def rows_are_set_in_place(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        h = h * 2
        h[0] = x[0]
        h[1, 2] = 7
        h[:, 1] += 1
        return h

    written(t, write)


@habit("torch", forms=FORMS)
def a_mask_is_filled_in_place(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        h = h + 0
        h.masked_fill_(x > 0, -1.0)
        h[x < -0.5] = 0.5
        return h

    written(t, write)


@habit("torch", forms=FORMS)
def activations_in_place(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        h = (h * 2).relu_()
        h = nn.functional.relu(h - 0.1, inplace=True)
        return (h + 0).mul_(x).clamp_(-0.5, 0.5).neg_()

    written(t, write)


@habit("torch", forms=FORMS)
def rows_are_added_by_index(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        h = h * 1
        h.index_add_(0, torch.tensor([1, 0, 1]), torch.cat([x, x[:1]]))
        h.scatter_add_(1, torch.tensor([[0, 3], [1, 1]]), x[:, :2])
        return h

    written(t, write)


@habit("torch", forms=FORMS)
def a_new_tensor_is_filled_row_by_row(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        filled = torch.zeros(3, 4)
        filled[0] = h[1]
        filled[1:] = h * 2
        filled[2] += x[0]
        return filled

    written(t, write)


@habit("torch", forms=FORMS)
def results_get_out_of_the_way_by_out(t: Any) -> None:
    """`out=` writes without gradients."""
    net, room = t.net(), torch.zeros(1, 2)
    with torch.no_grad():
        h = t.call(net, t.inputs()[0])
        torch.add(h, 1, out=room)
        g = room * 2
        torch.mul(h, 3, out=room)
    t.see("both", [h, g, room])


@habit("torch", forms=FORMS)
def a_buffer_is_written_to_between_samples(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.register_buffer("scale", torch.ones(4))

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * self.scale

    net, results = t.net(Part), []
    for number, x in enumerate(t.inputs()):
        net.part.scale.fill_(number + 1)
        results.append(t.call(net, x))
    with t.refusable("results"):
        t.see("results", results)
    t.minibatch(net, label="after")


@habit("torch", forms=FORMS)
def batch_norm_counts_its_batches(t: Any) -> None:
    class Net(t.Net):
        def setup(self) -> None:
            self.norm = nn.BatchNorm1d(4)

        def body(self, F: Any, x: Any) -> Any:
            return self.out(self.norm(self.inner(x)))

    net = t.net(net=Net)
    given = [t.inputs(rows=3, seed=k)[0] for k in range(3)]
    t.minibatch(net, given, step=True)
    t.see("statistics", [net.norm.running_mean, net.norm.running_var, int(net.norm.num_batches_tracked)])
    net.eval()
    t.minibatch(net, given, label="evaluation")


@habit("torch", forms=FORMS)
def a_write_through_an_expanded_view_or_a_diagonal(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        h = torch.cat([h, h]) * 1
        h.diagonal().add_(1)
        h.unsqueeze(0)[0, 3] = 0
        h.narrow(0, 1, 1).mul_(5)
        h.narrow(0, 2, 2)[0] += 2
        return h[:2] + h[2:].expand(2, 4)

    written(t, write)


@habit("torch", forms=FORMS)
def data_and_detach_of_results(t: Any) -> None:
    net = t.net()
    h = t.call(net, t.inputs()[0])
    plain = h.detach()
    t.see("learns", [h.requires_grad, plain.requires_grad, h.data.requires_grad])
    t.see("values", [h, plain, h.data])
    g = t.call(net, t.inputs()[0])
    g.detach_()
    t.see("detached", [g.requires_grad, g.grad_fn is None])
    t.see("value", g)


@habit("torch", forms=FORMS)
def data_of_a_result_is_written_to(t: Any) -> None:
    net = t.net()
    h = t.call(net, t.inputs()[0])
    h.data.mul_(2)
    h.data[0, 0] = 3
    t.see("value", h)
    g = t.call(net, t.inputs()[1])
    g.data = torch.ones(1, 2)
    t.see("replaced", g)
