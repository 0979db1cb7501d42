"""Writes down the operators of programs for children that are no engine's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gluonjit.program.axes.row import Application, Row
from gluonjit.program.axes.shapes import Expand, Reshape
from gluonjit.program.axes.values import Shaped, Values
from gluonjit.program.axes.writer import Writer
from gluonjit.program.children.table import GATHER, RATIO, SPREAD, TOTAL, VIEW, WIDEN
from gluonjit.program.trace import TraceOp


def write(op: TraceOp, vals: Sequence[Values], outs: Sequence[Shaped], writer: Writer) -> list[Values]:
    """The results of an operator of `RULES`. Raises NotBatchable."""
    return RULES[op.name](Application(op.name, dict(op.attrs), vals, outs, writer))


def _spread(call: Application) -> list[Values]:
    """A node's value for each of its children."""
    (val,), writer = call.vals, call.writer
    if val.shared:
        return [val]
    one = writer.whole(val)
    return [one._replace(slot=writer.emit("pick", [one, *writer.owners]))]


def _gathered(call: Application) -> list[Values]:
    """One value for each node of those of its children."""
    (val,), writer = call.vals, call.writer
    if val.shared:
        raise call.refuse("a value that is the same for all children")
    return [writer.gathered(writer.whole(val), call.attrs["how"])]


def _total(call: Application) -> list[Values]:
    """Values of one shape added up, those that are the same for all nodes once."""
    writer, mine, shared = call.writer, call.mine, [val for val in call.vals if val.shared]
    if mine and shared:
        mine = [writer.stack(val) for val in mine]
    sums = [
        _sum(writer, [writer.form(val, vals[0].lead, vals[0].rest) for val in vals]) for vals in (mine, shared) if vals
    ]
    return [sums[0] if len(sums) == 1 else sums[0]._replace(slot=writer.emit("add", sums))]


def _sum(writer: Writer, vals: Sequence[Values]) -> Values:
    return vals[0] if len(vals) == 1 else vals[0]._replace(slot=writer.emit("total", vals))


def _ratio(call: Application) -> list[Values]:
    vals = call.stacked(*call.vals)
    return [vals[0]._replace(slot=call.writer.emit("divide", vals))]


VIEWS: dict[str, Row] = {VIEW: Reshape(), WIDEN: Expand(lambda call: True)}
RULES: dict[str, Callable[[Application], list[Values]]] = {
    SPREAD: _spread,
    GATHER: _gathered,
    TOTAL: _total,
    RATIO: _ratio,
    **{name: row.lift for name, row in VIEWS.items()},
}
"""By operator: what writes it down."""
