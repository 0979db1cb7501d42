"""Arrays that programs write to again: a loader's buffers, inputs and targets, states between calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import FORMS, habit


def rows(count: int = 4, width: int = 4) -> Any:
    return np.random.RandomState(2).uniform(-1, 1, (count, 1, width)).astype("float32")


def write(t: Any, buffer: Any, numbers: Any) -> None:
    """The framework's own way of filling a buffer."""
    if t.engine == "torch":
        buffer.copy_(t.F.from_numpy(numbers))
    else:
        buffer[:] = t.mx.nd.array(numbers)


@habit(forms=FORMS)
def a_buffer_is_filled_for_each_sample(t: Any) -> None:
    net, buffer = t.net(), t.array(np.zeros((1, 4)))
    results = []
    for numbers in rows():
        write(t, buffer, numbers)
        results.append(t.call(net, buffer))
    t.see("results", results)


@habit(forms=FORMS)
def a_buffer_is_filled_for_each_minibatch(t: Any) -> None:
    """Samples are rows of it."""
    net, buffer = t.net(), t.array(np.zeros((4, 1, 4)))
    for turn in range(3):
        write(t, buffer, rows() * (turn + 1))
        t.minibatch(net, [buffer[k] for k in range(4)], label=f"{turn}", step=True)


@habit("torch", forms=FORMS)
def a_new_tensor_of_one_numpy_buffer_for_each_sample(t: Any) -> None:
    net, memory, results = t.net(), np.zeros((1, 4), "float32"), []
    for numbers in rows():
        memory[:] = numbers
        results.append(t.call(net, t.F.from_numpy(memory)))
    memory[:] = 0
    t.see("results", results)


@habit(forms=FORMS)
def an_input_is_changed_after_the_call(t: Any) -> None:
    net, (x,) = t.net(), t.inputs(1)
    before = t.call(net, x)
    x *= 2
    after = t.call(net, x)
    x += 1
    t.see("results", [before, after, t.call(net, x)])


@habit()
def a_target_is_changed_after_the_loss(t: Any) -> None:
    net, target, x = t.net(), t.array([[0.5, -0.5]]), t.inputs()[0]
    t.zero(net)
    with t.record():
        losses = []
        for factor in (1, 2, 3):
            losses.append(((t.call(net, x) - target) ** 2).sum())
            with t.pause():
                target *= factor
        total = sum(losses)
    t.backward(total)
    t.see("losses", losses)
    t.see("gradients", t.gradients(net))


def remembering(t: Any, joined: Callable[..., Any] = lambda F, h, hidden: h + 0.5 * hidden) -> Any:
    """A recurrent net that keeps its state on itself."""

    class Net(t.Net):
        def setup(self) -> None:
            self.hidden = None

        def body(self, F: Any, x: Any) -> Any:
            h = self.inner(x)
            self.hidden = h if self.hidden is None else joined(F, h, self.hidden)
            return self.out(self.hidden)

    return Net


@habit(forms=FORMS)
def a_state_is_kept_between_calls(t: Any) -> None:
    """A recurrent net that remembers, and forgets at the start of a minibatch."""
    net = t.net(net=remembering(t))
    for turn in range(2):
        net.hidden = None
        t.minibatch(net, label=f"{turn}", step=True)
    t.see("hidden", net.hidden)


@habit(forms=FORMS)
def a_state_is_detached_between_minibatches(t: Any) -> None:
    net = t.net(net=remembering(t))
    for turn in range(3):
        t.minibatch(net, label=f"{turn}", step=True)
        net.hidden = net.hidden.detach()
    t.see("hidden", net.hidden)


@habit("mxnet", forms=FORMS)
def a_state_without_detach_needs_its_history(t: Any) -> None:
    """Backward goes through the last minibatch a second time, which MXNet refuses, and batches in PyTorch don't."""
    net = t.net(net=remembering(t, lambda F, h, hidden: F.tanh(h * hidden)))
    t.minibatch(net, label="first")
    with t.raises("second"):
        t.minibatch(net, label="second")


@habit()
def a_state_lives_in_a_cell_of_the_users_own_object(t: Any) -> None:
    class Memory:
        def __init__(self) -> None:
            self.slots: dict[str, Any] = {}

        def exchange(self, name: str, value: Any) -> Any:
            old = self.slots.get(name)
            self.slots[name] = value
            return value if old is None else old

    memory = Memory()

    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            return self.out(memory.exchange("h", self.inner(x)))

    net = t.net(net=Net)
    t.minibatch(net, t.inputs(4))
    t.see("memory", memory.slots)


@habit()
def a_running_mean_of_numbers(t: Any) -> None:
    class Net(t.Net):
        def setup(self) -> None:
            self.mean = 0.0

        def body(self, F: Any, x: Any) -> Any:
            h = self.inner(x)
            self.mean = 0.9 * self.mean + 0.1 * t.number(h.sum())
            return self.out(h * (1 + self.mean))

    net = t.net(net=Net)
    t.minibatch(net, step=True)
    t.minibatch(net, label="second")
    t.see("mean", net.mean)


@habit()
def a_running_mean_of_arrays(t: Any) -> None:
    class Net(t.Net):
        def setup(self) -> None:
            self.mean = None

        def body(self, F: Any, x: Any) -> Any:
            h = self.inner(x)
            self.mean = h.detach() if self.mean is None else 0.9 * self.mean + 0.1 * h.detach()
            return self.out(h - self.mean)

    net = t.net(net=Net)
    t.minibatch(net, step=True)
    t.minibatch(net, label="second")
    t.see("mean", net.mean)


@habit()
def a_result_is_written_to_outside_of_recording(t: Any) -> None:
    net, (a, b) = t.net(), t.inputs(2)
    with t.pause():
        h = t.call(net, a)
        row = h[0]
        h += 1
        h[0] = h[0] * 2
        g = t.call(net, b) + h
        h *= 0
    t.see("all", [h, g])
    t.see("size", list(row.shape))


@habit()
def results_are_written_into_a_table(t: Any) -> None:
    net, table = t.net(), t.array(np.zeros((3, 2)))
    with t.pause():
        for number, x in enumerate(t.inputs()):
            table[number] = t.call(net, x)[0]
            table[number] *= 2
    t.see("table", table)


@habit("torch", forms=FORMS)
def a_buffer_of_numpy_is_filled_for_each_sample(t: Any) -> None:
    """`torch.from_numpy` shares memory with what the loader writes to."""
    net, memory = t.net(), np.zeros((1, 4), "float32")
    buffer, results = t.F.from_numpy(memory), []
    for numbers in rows():
        memory[:] = numbers
        results.append(t.call(net, buffer))
    t.see("results", results)
