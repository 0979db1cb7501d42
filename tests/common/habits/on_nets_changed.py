"""Functions, methods and layers put in the place of others."""

from __future__ import annotations

from typing import Any

from . import FORMS, habit


def symbolic(t: Any) -> Any:
    """A HybridBlock's body is given F: its function is one of F and h."""

    class Part(t.Part):
        def setup(self) -> None:
            self.act = lambda F, h: F.tanh(h)

        def body(self, F: Any, x: Any) -> Any:
            return self.act(F, self.layer(x))

    return Part


@habit(forms=FORMS)
def a_function_on_self_is_replaced(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.act = t.F.tanh

        def body(self, F: Any, x: Any) -> Any:
            return self.act(self.layer(x))

    net = t.net(Part) if t.form != "module" or t.engine == "torch" else t.net(symbolic(t))
    t.minibatch(net, label="tanh")
    net.part.act = t.F.relu if t.form != "module" or t.engine == "torch" else (lambda F, h: F.relu(h))
    t.minibatch(net, label="relu")


@habit(forms=FORMS)
def functions_lie_in_a_list(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.acts = [lambda F, h: F.tanh(h), lambda F, h: F.relu(h)]

        def body(self, F: Any, x: Any) -> Any:
            h = self.layer(x)
            for act in self.acts:
                h = act(F, h)
            return h

    net = t.net(Part)
    t.minibatch(net, label="both")
    net.part.acts.reverse()
    t.minibatch(net, label="reversed")
    net.part.acts[1] = lambda F, h: F.sigmoid(h)
    t.minibatch(net, label="another")
    net.part.acts.pop()
    t.minibatch(net, label="one")


def squashing(t: Any) -> Any:
    """A part with a method of the user's."""

    class Part(t.Part):
        def squash(self, F: Any, h: Any) -> Any:
            return F.tanh(h)

        def body(self, F: Any, x: Any) -> Any:
            return self.squash(F, self.layer(x))

    return Part


@habit(forms=FORMS)
def a_method_of_the_object_is_replaced(t: Any) -> None:
    net = t.net(squashing(t))
    t.minibatch(net, label="tanh")
    net.part.squash = lambda F, h: F.sigmoid(h)
    t.minibatch(net, label="sigmoid")
    del net.part.squash
    t.minibatch(net, label="tanh again")


@habit(forms=FORMS)
def a_method_of_the_class_is_replaced(t: Any) -> None:
    Part = squashing(t)
    net = t.net(Part)
    t.minibatch(net, label="tanh")
    Part.squash = lambda self, F, h: F.sigmoid(h)
    t.minibatch(net, label="sigmoid")


@habit(forms=FORMS)
def the_body_itself_is_replaced(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x))

    net = t.net(Part)
    t.minibatch(net, label="tanh")
    Part.body = lambda self, F, x: F.relu(self.layer(x)) + x
    t.minibatch(net, label="relu")


@habit(forms=FORMS)
def a_layer_is_replaced(t: Any) -> None:
    net = t.net()
    t.minibatch(net, label="first")
    net.part.layer = t.dense(seed=3)
    t.minibatch(net, label="second", step=True)
    t.minibatch(net, label="third")


@habit(forms=FORMS)
def a_layer_is_added(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            h = F.tanh(self.layer(x))
            return self.more(h) if hasattr(self, "more") else h

    net = t.net(Part)
    t.minibatch(net, label="without")
    net.part.more = t.dense(seed=3)
    t.minibatch(net, label="with")
