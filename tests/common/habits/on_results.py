"""What calls return: one array at several places, arrays they were given, views of other results."""

from __future__ import annotations

from typing import Any, Callable

from . import FORMS, habit
from .on_arguments import Pair, State


def structure(item: Any, met: dict[int, Any]) -> Any:
    """Nested results with a number for each array, by which those that are one object are seen."""
    if isinstance(item, dict):
        return {key: structure(part, met) for key, part in item.items()}
    if isinstance(item, Pair):
        return [structure(item.left, met), structure(item.right, met)]
    if isinstance(item, (list, tuple)):
        return [structure(part, met) for part in item]
    return met.setdefault(id(item), len(met)) if hasattr(item, "shape") else item


def arrays_of(item: Any) -> list[Any]:
    """The arrays in nested results."""
    if isinstance(item, Pair):
        return arrays_of([item.left, item.right])
    if isinstance(item, (list, tuple, dict)):
        return [found for part in (item.values() if isinstance(item, dict) else item) for found in arrays_of(part)]
    return [item] if hasattr(item, "shape") else []


def returned(t: Any, body: Callable[[Any, Any, Any], Any], write: bool = True) -> None:
    """What a part with this body returns: which results are one array, or an argument; who shows a write to the first.

    And, where gradients are recorded, losses of all results together.
    """

    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return body(self, F, x)

    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            return self.inner(x)

    net, inputs = t.net(Part, Net), t.inputs(3, rows=2)
    results = []
    with t.pause():
        for x in inputs:
            results.append(t.call(net, x))
            t.see("structure", structure(results[-1], {id(x): "given"}))
            if write:
                arrays_of(results[-1])[0][:] = 5
    t.see("numbers", [arrays_of(result) for result in results])
    t.see("inputs", inputs)
    t.zero(net)
    with t.record():
        total = sum((k + 1) * (part * part).sum() for x in inputs for k, part in enumerate(arrays_of(t.call(net, x))))
    t.backward(total)
    t.see("loss", total)
    t.see("gradients", {name: g for name, g in t.gradients(net).items() if name.startswith("part")})


@habit(forms=FORMS)
def one_array_is_returned_twice(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = F.tanh(self.layer(x))
        return h, h

    returned(t, body)


@habit(forms=FORMS)
def one_array_stands_in_nested_lists(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h, other = F.tanh(self.layer(x)), x * 2
        return h, [other, h, [h]], [other]

    returned(t, body)


@habit(forms=FORMS)
def one_array_stands_in_a_dictionary(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = F.tanh(self.layer(x))
        return {"output": h, "state": {"last": h, "count": 2}}

    returned(t, body)


@habit(forms=FORMS)
def one_array_stands_in_a_named_tuple(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = F.tanh(self.layer(x))
        return State(h, h)

    returned(t, body)


@habit(forms=("cell", "whole"))
def one_array_stands_in_a_dataclass(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = F.tanh(self.layer(x))
        return Pair(h, [h])

    returned(t, body)


@habit(forms=FORMS)
def a_result_and_a_view_of_it_are_returned(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = F.tanh(self.layer(x))
        return h, h[1], h.reshape((-1,))

    returned(t, body)


@habit(forms=FORMS)
def a_view_is_returned_before_what_it_shows(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = F.tanh(self.layer(x))
        return h[0], h

    returned(t, body)


@habit(forms=FORMS)
def two_views_of_a_hidden_array_are_returned(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = F.tanh(self.layer(x))
        return h.reshape((-1,)), h[0]

    returned(t, body)


@habit(forms=FORMS)
def rows_apart_are_returned(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = F.tanh(self.layer(x))
        return h[0], h[1]

    returned(t, body)


@habit(forms=FORMS)
def an_argument_is_among_the_results(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        return F.tanh(self.layer(x)), [x]

    returned(t, body)


@habit(forms=FORMS)
def an_argument_is_returned_in_a_dictionary(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        return {"h": self.layer(x), "x": x, "both": [x, x]}

    returned(t, body)


@habit(forms=FORMS)
def an_argument_is_the_result(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            return x if self.out is None else self.out(self.inner(x)), x

    net, inputs = t.net(net=Net), t.inputs()
    found = [t.call(net, x) for x in inputs]
    t.see("the same", [result[1] is x for result, x in zip(found, inputs)])
    t.see("results", found)


@habit(forms=FORMS)
def a_state_is_kept_and_returned(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            self.state = self.inner(x)
            return self.state

    net = t.net(net=Net)
    with t.pause():
        for x in t.inputs():
            found = t.call(net, x)
            found[:] = 2
            t.see("the same", found is net.state)
            t.see("state", net.state)
