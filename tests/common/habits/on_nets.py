"""What is done to nets between calls: copies, files, layers, hooks, functions, modes."""

from __future__ import annotations

import copy
import os
import pickle
import tempfile
from typing import Any

from . import FORMS, habit


@habit(forms=FORMS)
def layers_share_their_weights(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return self.layer(F.tanh(self.layer(F.tanh(self.layer(x)))))

    t.minibatch(t.net(Part), step=True)


@habit(forms=FORMS)
def a_copy_learns_by_itself(t: Any) -> None:
    net = t.net()
    t.minibatch(net, label="before", step=True)
    other = copy.deepcopy(net)
    if t.engine == "torch":  # the arrays of a copy in MXNet have no gradients
        t.minibatch(other, label="copy", step=True)
    t.minibatch(net, label="first", step=True)
    t.see("copy", [t.call(other, x) for x in t.inputs()])
    t.see("first", [t.call(net, x) for x in t.inputs()])


@habit(forms=FORMS)
def a_copy_is_made_while_a_batch_is_open(t: Any) -> None:
    net = t.net()
    h = t.call(net, t.inputs()[0])
    other = copy.deepcopy(net)
    t.see("both", [h, t.call(other, t.inputs()[0])])


@habit()
def weights_go_through_a_file(t: Any) -> None:
    net = t.net()
    t.minibatch(net, label="before", step=True)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights")
        if t.engine == "torch":
            t.F.save(net.state_dict(), path)
        else:
            net.save_parameters(path)
        t.minibatch(net, label="more", step=True)
        if t.engine == "torch":
            net.load_state_dict(t.F.load(path))
        else:
            net.load_parameters(path)
    t.minibatch(net, label="after")


class Pickled:
    """Something that pickle finds by its name, put on a net."""

    factor = 2.0


@habit()
def weights_are_pickled(t: Any) -> None:
    net = t.net()
    t.minibatch(net, step=True)
    t.see("weights", pickle.loads(pickle.dumps(t.values(net))))
    t.see("other", pickle.loads(pickle.dumps(Pickled())).factor)


@habit(forms=FORMS)
def a_hook_looks_at_results(t: Any) -> None:
    net, seen = t.net(), []
    t.minibatch(net, label="before")
    handle = net.part.layer.register_forward_hook(lambda layer, args, h: seen.append(t.numbers(h).shape))
    t.minibatch(net, label="with")
    (handle.remove if t.engine == "torch" else handle.detach)()
    t.minibatch(net, label="without")
    t.see("seen", seen)


@habit(forms=FORMS)
def a_hook_before_the_call_counts(t: Any) -> None:
    net, seen = t.net(), []
    net.out.register_forward_pre_hook(lambda layer, args: seen.append(len(args)))
    t.minibatch(net)
    t.see("seen", seen)


def dropping(t: Any, rate: float) -> Any:
    """A net with dropout."""

    class Net(t.Net):
        def setup(self) -> None:
            self.drop = t.dropout(rate)

        def body(self, F: Any, x: Any) -> Any:
            return self.out(self.drop(self.inner(x)))

    return Net


@habit()
def training_and_evaluation_alternate(t: Any) -> None:
    """Dropout of nothing: the mode is read, no number is drawn."""
    net = t.net(net=dropping(t, 0.0))
    for turn in range(2):
        t.mode(net, True)
        t.minibatch(net, label=f"training {turn}", step=True)
        t.mode(net, False)
        with t.pause():
            t.see(f"evaluation {turn}", [t.call(net, x) for x in t.inputs()])


@habit()
def dropout_is_off_in_evaluation(t: Any) -> None:
    net = t.net(net=dropping(t, 0.5))
    t.mode(net, False)
    with t.pause():
        t.see("evaluation", [t.call(net, x) for x in t.inputs()])


@habit(forms=FORMS)
def batching_is_switched_off_and_on(t: Any) -> None:
    net = t.net()
    t.minibatch(net, label="on")
    if t.batched:
        import gluonjit

        gluonjit.hybridize(net, dynamic_batch=False)
    t.minibatch(net, label="off", step=True)
    t.hybridize(net)
    t.minibatch(net, label="on again")


@habit(forms=FORMS)
def parts_of_a_net_are_used_by_themselves(t: Any) -> None:
    net = t.net()
    t.zero(net)
    with t.record():
        total = 0
        for x in t.inputs():
            h = net.part.layer(x)
            total = total + net.out(t.F.tanh(h)).sum() + (h * h).sum()
    t.backward(total)
    t.see("gradients", t.gradients(net))
    t.minibatch(net)


@habit(forms=FORMS)
def one_part_lies_in_two_nets(t: Any) -> None:
    net = t.net()
    other = t.Net(net.part)
    t.fill(other)
    t.hybridize(other)
    for model in (net, other):
        t.minibatch(model, label="first", step=True)
    t.minibatch(net, label="second")


@habit(forms=FORMS)
def an_attribute_that_nothing_reads_is_set(t: Any) -> None:
    net = t.net()
    for epoch in range(3):
        net.part.epoch = epoch
        net.part.notes = {"epoch": [epoch]}
        t.minibatch(net, label=f"{epoch}", step=True)
    t.see("notes", [net.part.epoch, net.part.notes])


@habit()
def everything_is_dropped_or_nothing(t: Any) -> None:
    """The rate is changed between minibatches: 0 keeps all, and 1 - 1e-7 nothing, whatever is drawn."""
    net = t.net(net=dropping(t, 0.0))
    for rate in (0.0, 1 - 1e-7, 0.0):
        if t.engine == "torch":
            net.drop.p = rate
        else:
            net.drop._rate = rate
        t.mode(net, True)
        t.minibatch(net, label=f"{rate}")


@habit(forms=("module", "whole"))
def a_method_that_a_decorator_has_renamed(t: Any) -> None:
    """Cells are made from its source."""

    def renamed(name: str) -> Any:
        def rename(method: Any) -> Any:
            method.__name__ = method.__qualname__ = name
            return method

        return rename

    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            h = x
            for _ in range(3):
                h = self.step(F, h, x)
            return h

        @renamed("step (v2)")
        def step(self, F: Any, h: Any, x: Any) -> Any:
            a = self.layer(h)
            b = F.tanh(a + x)
            return b * 2 + F.sigmoid(a)

    class Net(t.Net):
        def body(self, F: Any, *args: Any) -> Any:
            return self.join(F, self.inner(*args))

        @renamed("lambda x: x\n")
        def join(self, F: Any, h: Any) -> Any:
            a = F.tanh(h)
            return self.out(a * h + F.sigmoid(a))

    net = t.net(Part, Net)
    t.minibatch(net, label="first")
    t.minibatch(net, label="again")
