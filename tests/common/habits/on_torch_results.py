"""What PyTorch's programs attach to results and arguments, and what they wrap them in."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.autograd import Variable

from . import FORMS, habit


def attached(t: Any, body: Callable[[Any, Any, Any], Any], read: Callable[[Any, Any], Any]) -> None:
    """What `read` finds of the results and inputs of a part with this body, and losses of the results."""

    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return body(self, F, x)

    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            return self.inner(x)

    net, inputs = t.net(Part, Net), t.inputs(3, rows=2)
    results = [t.call(net, x) for x in inputs]
    t.see("attached", [read(result, x) for result, x in zip(results, inputs)])
    t.zero(net)
    t.backward(sum((k + 1) * (result * result).sum() for k, result in enumerate(results)))
    t.see("results", results)
    t.see("gradients", {name: g for name, g in t.gradients(net).items() if name.startswith("part")})


@habit("torch", forms=FORMS)
def a_result_gets_an_attribute(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = F.tanh(self.layer(x))
        h.weight_of_sample = 3.0
        return h

    attached(t, body, lambda h, x: h.weight_of_sample)


@habit("torch", forms=FORMS)
def a_result_gets_a_tensor_as_an_attribute(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = self.layer(x)
        h.mask = h > 0
        return h

    attached(t, body, lambda h, x: h.mask)


@habit("torch", forms=FORMS)
def a_list_is_attached_and_appended_to(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = self.layer(x)
        h.history = [1, 2]
        h.history.append(h.dim())
        return h

    attached(t, body, lambda h, x: h.history)


@habit("torch", forms=FORMS)
def the_next_module_reads_what_is_attached(t: Any) -> None:
    class Reader(torch.nn.Module):
        def forward(self, h: Any) -> Any:
            return h * h.scale + h.mask

    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            h = F.tanh(self.layer(x))
            h.scale, h.mask = 3.0, h > 0
            return h

    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            return self.reader(self.inner(x))

    net = t.net(Part, Net, hybridize=False)
    net.reader = Reader()
    t.hybridize(net)
    t.minibatch(net, label="first")
    t.minibatch(net, label="second")


@habit("torch", forms=FORMS)
def an_input_gets_an_attribute(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        x.seen = x.dim()
        return self.layer(x)

    attached(t, body, lambda h, x: x.seen)


@habit("torch", forms=FORMS)
def an_attribute_is_taken_away(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = self.layer(x)
        h.tag = 2.0
        h = h * h.tag
        h.other = 1
        del h.other
        return h

    attached(t, body, lambda h, x: (hasattr(h, "tag"), hasattr(h, "other")))


@habit("torch", forms=FORMS)
def a_result_that_was_written_to_has_an_attribute(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = self.layer(x)
        h.tag = 1
        h += x
        return h

    attached(t, body, lambda h, x: h.tag)


@habit("torch", forms=FORMS)
def what_casts_nothing_gives_the_tensor_itself(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = self.layer(x)
        return h if h.float() is h and h.to(h.dtype) is h and h.view(h.shape) is not h else h * 0

    t.minibatch(t.net(), label="a net that asks nothing")  # as what asks who an array is runs eagerly
    attached(t, body, lambda h, x: None)


@habit("torch", forms=FORMS)
def a_variable_that_was_made_is_written_row_by_row(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        out = Variable(torch.zeros(x.size()))
        for k in range(len(x)):
            out[k] = F.sigmoid(self.layer(x[k]))
        return out ** (1 + F.nn.functional.softplus(x))

    attached(t, body, lambda h, x: None)


@habit("torch", forms=FORMS)
def a_variable_around_a_result_has_no_history(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = F.tanh(self.layer(Variable(x)))
        return h * Variable(torch.ones(4)) + Variable(h)

    attached(t, body, lambda h, x: None)
