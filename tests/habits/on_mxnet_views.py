"""What Gluon's programs write to through views of results, under `record()` and outside of it."""

from __future__ import annotations

from typing import Any, Callable

from mxnet import autograd, nd

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
def a_reshaped_view_is_written_to(t: Any) -> None:
    def write(h: Any, x: Any) -> None:
        h.reshape((-1,))[1] = 7

    written(t, write)


@habit("mxnet", forms=FORMS)
def a_row_is_taken_and_written_to(t: Any) -> None:
    """Slices along axis 0 are views, of results too."""

    def write(h: Any, x: Any) -> None:
        row, rows = h[0], h[0:2]
        row[:] = 7
        rows[1] = row * 2

    written(t, write)


@habit("mxnet", forms=FORMS)
def a_row_taken_before_sees_the_write(t: Any) -> None:
    net = t.net()
    h = t.call(net, t.inputs(rows=2)[0])
    row, rows = h[0], h[0:2]
    h += 1
    t.see("added", [row, rows, h])
    h[:] = 3
    t.see("set", [row, rows, h])
    row *= 2
    t.see("through the row", [row, rows, h])
