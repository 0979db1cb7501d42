"""Questions of arrays that are not about their numbers: who one is, of which class, what is kept beside it."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, Callable

from . import habit

Asked = Callable[[Any, Any, Any], Any]
BOTH: dict[str, Asked] = {
    "whether it is an input": lambda self, x, h: h if x is self.first else h * 2,
    "whether it is not an input": lambda self, x, h: h if x is not self.first else h * 2,
    "whether two are one": lambda self, x, h: h if self.again(x) is self.first else h * 2,
    "whether it is itself": lambda self, x, h: h if h is self.same(h) else h * 2,
    "whether it is nothing": lambda self, x, h: h if x is None else h * 2,
    "its id as a key": lambda self, x, h: h * self.by_id.get(id(x), 3.0),
    "its id": lambda self, x, h: h if id(x) == id(self.first) else h * 2,
    "its class": lambda self, x, h: h if type(h) is self.kind else h * 2,
    "its class as a key": lambda self, x, h: h * {self.kind: 2.0}.get(type(x), 3.0),
    "its class by name": lambda self, x, h: h * len(type(h).__name__),
    "its class by attribute": lambda self, x, h: h if h.__class__ is self.kind else h * 2,
    "whether it is an array": lambda self, x, h: h if isinstance(x, self.kind) else h * 2,
    "the class of the model": lambda self, x, h: h if type(self) is self.own else h * 2,
    "whether it has an attribute": lambda self, x, h: h if hasattr(x, "mask") else h * 2,
    "an attribute that it has not": lambda self, x, h: h * getattr(x, "scale", 2.0),
    "a tag on a weight": lambda self, x, h: h * getattr(self.layer.weight, "factor", 2.0),
    "whether a weight is shared": lambda self, x, h: h if self.layer.weight is self.layer.bias else h * 2,
    "operator.is_": lambda self, x, h: h if operator.is_(x, self.first) else h * 2,
    "operator.is_not": lambda self, x, h: h if operator.is_not(x, self.first) else h * 2,
    "its id by map": lambda self, x, h: h if set(map(id, [x])) & set(self.by_id) else h * 2,
    "its class by map": lambda self, x, h: h * {self.kind: 2.0}.get(next(map(type, [h])), 3.0),
    "operator.is_ by filter": lambda self, x, h: h * (1 + len([*filter(partial(operator.is_, x), [self.first])])),
    "its place in a list": lambda self, x, h: h if _taken(x, [self.first]) else h * 2,
    "its dtype": lambda self, x, h: h * (2.0 if x.dtype == self.first.dtype else 3.0),
    "its shape": lambda self, x, h: h * x.shape[-1],
}
TORCH: dict[str, Asked] = {
    "its version": lambda self, x, h: h * (1 + x._version),
    "its strides": lambda self, x, h: h * x.stride()[0],
    "whether it is contiguous": lambda self, x, h: h if x.is_contiguous() else h * 2,
    "its offset": lambda self, x, h: h * (1 + x.storage_offset()),
    "its memory": lambda self, x, h: h if x.data_ptr() == self.first.data_ptr() else h * 2,
    "an attribute that it has": lambda self, x, h: h * x.scale,
    "its dictionary": lambda self, x, h: h * len(x.__dict__),
    "its entries": lambda self, x, h: h if "mask" in dir(x) else h * 2,
    "its variables": lambda self, x, h: h * len(vars(x)),
    "an attribute that is set": lambda self, x, h: setattr(x, "seen", getattr(x, "seen", 1) + 1) or h * x.seen,
    "an attribute of a result": lambda self, x, h: setattr(h, "factor", 3.0) or h * h.factor,
}


def _taken(x: Any, others: list[Any]) -> bool:
    """True if a list has an array, and others do not compare."""
    try:
        others.remove(x)
    except Exception:  # of numbers that are no truth value
        return False
    return True


def ask(t: Any, question: Asked) -> None:
    """Two minibatches with the inputs that a table of the model knows; what is kept beside one changes between them."""

    class Part(t.Part):
        def again(self, x: Any) -> Any:
            return x

        same = again

        def body(self, F: Any, x: Any) -> Any:
            return question(self, x, F.tanh(self.layer(x)))

    t.minibatch(t.net(), label="a net that asks nothing")
    net = t.net(Part)
    inputs = t.inputs(3, rows=2)
    if t.engine == "torch":
        inputs[2] = t.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]).t()
        for k, x in enumerate(inputs):
            x.scale = float(k)
    net.part.__dict__.update(first=inputs[1], own=type(net.part), kind=type(inputs[0]))
    net.part.__dict__["by_id"] = {id(x): float(k) for k, x in enumerate(inputs)}
    t.minibatch(net, inputs, label="first")
    if t.engine == "torch":
        inputs[0].mask = True
        inputs[0].scale = 5.0
        inputs[1].add_(1.0)
    t.minibatch(net, inputs, label="second")
    net.part.__dict__["first"] = inputs[0]
    t.minibatch(net, inputs, label="third")
    results = [t.call(net, x) for x in inputs]
    t.see("what is kept beside inputs", [dict(vars(x)) for x in inputs] if t.engine == "torch" else results)


def _put(name: str, question: Asked, engine: str) -> None:
    def run(t: Any) -> None:
        ask(t, question)

    def by_operator(t: Any) -> None:
        ask(t, question)

    words = name.replace(" ", "_")
    run.__name__, by_operator.__name__ = f"asking_{words}", f"asking_by_operator_{words}"
    habit(engine, forms=("module", "cell", "whole"))(run)
    habit(engine, forms=("whole",), granularity="op")(by_operator)


for _name, _question in BOTH.items():
    _put(_name, _question, "both")
for _name, _question in TORCH.items():
    _put(_name, _question, "torch")


@habit("torch", forms=("module", "cell", "whole"))
def an_input_of_a_class_of_the_programs_own(t: Any) -> None:
    import torch

    class Doubled(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = super().__torch_function__(func, types, args, kwargs or {})
            return result * 2 if func is torch.tanh else result

    net = t.net()
    t.minibatch(net, label="plain")
    with torch.no_grad():
        results = [t.call(net, x.as_subclass(Doubled)) for x in t.inputs()]
        t.see("class", [type(result).__name__ for result in results])
        t.see("results", [result.as_subclass(torch.Tensor) for result in results])


@habit(forms=("module", "cell", "whole"))
def an_attribute_that_counts_its_reads(t: Any) -> None:
    class Ticks:
        count = 0

        def __get__(self, instance: Any, owner: Any = None) -> float:
            self.count += 1
            return float(self.count)

    class Part(t.Part):
        tick = Ticks()

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * self.tick

    class Net(t.Net):
        tick = Ticks()

        def body(self, F: Any, *args: Any) -> Any:
            return self.out(self.inner(*args)) * self.tick

    net = t.net(Part, Net)
    t.minibatch(net, label="first")
    t.minibatch(net, label="second")
    t.see("reads", [vars(kind)["tick"].count for kind in (Part, Net)])
