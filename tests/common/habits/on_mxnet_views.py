"""What Gluon's programs write to through views of results, under `record()` and outside of it."""

from __future__ import annotations

from typing import Any

from . import FORMS, habit
from .on_mxnet_writes import written


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
