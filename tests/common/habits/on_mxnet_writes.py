"""What Gluon's programs write to, under `record()` and outside of it."""

from __future__ import annotations

from typing import Any, Callable

import mxnet as mx
from mxnet import autograd, gluon, nd

from . import FORMS, habit


def written(t: Any, write: Callable[[Any, Any], Any]) -> None:
    """Under record an error, as eagerly, and the next minibatch works; outside of it the value."""

    class Net(t.Net):
        def body(self, F: Any, x: Any, how: bool = True) -> Any:
            h = self.inner(x)
            other = write(h, x) if how else None
            return self.out(h if other is None else other)

    net = t.net(net=Net)
    t.see("outside", [t.call(net, x) for x in t.inputs(rows=2)])
    for turn in range(2):
        t.zero(net)
        with t.raises(f"recorded {turn}"), autograd.record():
            total = sum(t.loss(net, x) for x in t.inputs(rows=2))
            total.backward()
        t.see(f"gradients {turn}", t.gradients(net))
        with autograd.record():
            total = sum(t.loss(net, x, False) for x in t.inputs(rows=2))
        total.backward()
        t.see(f"after {turn}", t.gradients(net))
    h = t.call(net, t.inputs(rows=2)[0], False)
    other = write(h, nd.ones((2, 2)))
    t.see("of a result", h if other is None else other)


@habit("mxnet", forms=FORMS)
def a_column_is_set(t: Any) -> None:
    def write(h: Any, x: Any) -> None:
        h[:, 0] = 5

    written(t, write)


@habit("mxnet", forms=FORMS)
def a_row_is_set(t: Any) -> None:
    def write(h: Any, x: Any) -> None:
        h[0] = x[1]

    written(t, write)


@habit("mxnet", forms=FORMS)
def everything_is_set(t: Any) -> None:
    def write(h: Any, x: Any) -> None:
        h[:] = x * 2

    written(t, write)


@habit("mxnet", forms=FORMS)
def a_number_is_added(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        h += 1
        return h

    written(t, write)


@habit("mxnet", forms=FORMS)
def an_array_is_multiplied(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        h *= x
        h /= 2
        h -= x
        return h

    written(t, write)


@habit("mxnet", forms=FORMS)
def a_column_is_added_to(t: Any) -> None:
    def write(h: Any, x: Any) -> None:
        h[:, 0] += 1

    written(t, write)


@habit("mxnet", forms=FORMS)
def an_operator_writes_over_its_operand(t: Any) -> None:
    def write(h: Any, x: Any) -> None:
        nd.relu(h, out=h)

    written(t, write)


@habit("mxnet", forms=FORMS)
def an_operator_writes_into_a_new_array(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        room = nd.zeros(h.shape)
        nd.broadcast_add(h, x, out=room)
        return room

    written(t, write)


@habit("mxnet", forms=FORMS)
def results_are_copied_into_a_new_array(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        room = nd.zeros(h.shape)
        h.copyto(room)
        room[1] = x[0]
        return room

    written(t, write)


@habit("mxnet", forms=FORMS)
def a_new_array_is_filled_from_rows(t: Any) -> None:
    def write(h: Any, x: Any) -> Any:
        filled = nd.zeros((3, h.shape[1]))
        filled[0] = h[1]
        filled[1:3] = h
        return filled

    written(t, write)


@habit("mxnet", forms=FORMS)
def an_input_is_written_to_in_the_net(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            x[:] = x * 2
            return self.out(self.inner(x))

    net, given = t.net(net=Net), t.inputs()
    t.see("outside", [t.call(net, x) for x in given])
    t.see("inputs", given)
    with t.raises("recorded"), autograd.record():
        total = sum(t.loss(net, x) for x in given)
        total.backward()
        t.see("gradients", t.gradients(net))
    t.see("inputs after", given)


@habit("mxnet", forms=FORMS)
def gradients_go_to_inputs_with_attach_grad(t: Any) -> None:
    net, given = t.net(), t.inputs()
    for x in given:
        x.attach_grad()
    with autograd.record():
        total = sum(t.loss(net, x) for x in given)
    total.backward()
    t.see("gradients", [x.grad for x in given])
    with t.raises("a write to what learns"), autograd.record():
        given[0][:] = 3
        total = t.loss(net, given[0])
        total.backward()
        t.see("gradient", given[0].grad)


@habit("mxnet", forms=FORMS)
def a_result_becomes_a_leaf(t: Any) -> None:
    net = t.net()
    h = t.call(net, t.inputs()[0])
    h.attach_grad()
    with autograd.record():
        total = (h * h).sum() + t.loss(net, t.inputs()[1])
    total.backward()
    t.see("gradients", [h.grad, t.gradients(net)])


@habit("mxnet", forms=FORMS)
def recording_is_paused_inside(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            with autograd.pause():
                gate = F.sigmoid(self.inner(x))
            return self.out(self.inner(x) * gate)

    t.minibatch(t.net(net=Net), step=True)


@habit("mxnet", forms=FORMS)
def modes_are_read_and_switched(t: Any) -> None:
    modes: list[tuple[bool, bool]] = []

    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            modes.append((autograd.is_recording(), autograd.is_training()))
            h = self.inner(x)
            return self.out(h) if autograd.is_training() else self.out(h * 2)

    net, x = t.net(net=Net), t.inputs()[0]
    results = [t.call(net, x)]
    with autograd.record(train_mode=False):
        results.append(t.call(net, x))
    with autograd.record():
        results.append(t.call(net, x))
        with autograd.predict_mode():
            results.append(t.call(net, x))
    with autograd.train_mode():
        results.append(t.call(net, x))
    t.see("results", results)
    t.see("modes", modes)


@habit("mxnet", forms=FORMS)
def gradients_are_asked_for_by_grad(t: Any) -> None:
    net = t.net()
    with autograd.record():
        total = sum(t.loss(net, x) for x in t.inputs())
    t.see("gradients", autograd.grad(total, list(t.arrays(net).values()), retain_graph=True))
    total.backward(nd.array([2.0]))
    t.see("twice", t.gradients(net))


@habit("mxnet", forms=FORMS)
def a_trainer_is_set_up_anew(t: Any) -> None:
    net = t.net()
    for rate in (0.1, 0.5):
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": rate, "wd": 0.01})
        t.minibatch(net, label=f"{rate}")
        trainer.step(3)
        trainer.set_learning_rate(rate / 10)
        t.minibatch(net, label=f"{rate / 10}")
        trainer.step(3)
    t.see("weights", t.values(net))


@habit("mxnet", forms=FORMS)
def a_state_is_set_to_zero_for_each_sample(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            state = nd.zeros((1, 4), ctx=x.context)
            for _ in range(2):
                state = self.inner(x + state)
            return self.out(state)

    t.minibatch(t.net(net=Net), step=True)


@habit("mxnet")
def losses_of_gluon(t: Any) -> None:
    net, label = t.net(), nd.array([1])
    for name, loss in {
        "softmax": gluon.loss.SoftmaxCrossEntropyLoss(),
        "l2": gluon.loss.L2Loss(),
        "huber": gluon.loss.HuberLoss(),
    }.items():
        t.zero(net)
        goal = label if name == "softmax" else nd.ones((1, 2))
        with autograd.record():
            losses = [loss(t.call(net, x), goal) for x in t.inputs()]
            total = nd.concat(*losses, dim=0).mean()
        total.backward()
        t.see(name, [total, *losses])
        t.see(f"gradients of {name}", t.gradients(net))


@habit("mxnet", forms=FORMS)
def an_embedding_is_looked_up_and_written_to(t: Any) -> None:
    class Net(t.Net):
        def setup(self) -> None:
            self.embed = gluon.nn.Embedding(6, 4)

        def body(self, F: Any, words: Any) -> Any:
            return self.out(self.inner(self.embed(words)))

    net, words = t.net(net=Net), [nd.array([1, 2]), nd.array([3]), nd.array([2, 2, 5])]
    for turn in range(2):
        t.minibatch(net, words, label=f"{turn}", step=True)
        table = net.embed.weight.data()
        table[0] = 0
        words[0][:] = nd.array([4, 0])


@habit("mxnet", forms=FORMS)
def arrays_are_compared_and_cast(t: Any) -> None:
    h = t.call(t.net(), t.inputs(rows=2)[0])
    t.see("cast", [h.astype("float16").astype("float32"), (h > 0).astype("int32"), h.astype("float64")])
    t.see("same", [bool((h == h).min().asscalar()), h.context == mx.cpu(), h.dtype.__name__])
    t.see("moved", [h.as_in_context(mx.cpu()), h.copy(), h.T, h.reshape((-1, 1)), h.argmax(axis=1)])
