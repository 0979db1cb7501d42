"""The description of one operator, and what follows for a call of it on the values of all nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gluonjit.program.arguments import NotBatchable, Operand
from gluonjit.program.axes.values import ROWS, Labels, Shape, Shaped, Values
from gluonjit.program.axes.writer import Writer, rows_of


class Application:
    """One operator of a trace on batched values.

    attrs: its arguments by name, the operands among them as `Operand`; vals: these, in order; outs: shapes and dtypes
    of one node's results.
    """

    def __init__(
        self, name: str, attrs: Mapping[str, Any], vals: Sequence[Values], outs: Sequence[Shaped], writer: Writer
    ) -> None:
        self.name = name
        self.attrs = attrs
        self.vals = list(vals)
        self.outs = outs
        self.writer = writer

    @property
    def shape(self) -> Shape:
        """The shape of one node's first result."""
        return self.outs[0][0]

    @property
    def mine(self) -> list[Values]:
        """The values that differ by node."""
        return [val for val in self.vals if not val.shared]

    def get(self, key: str, default: Any = None) -> Any:
        """An argument, or its default where none was given."""
        found = self.attrs.get(key)
        return default if found is None else found

    def val(self, key: str) -> Any:
        """The operand that is this argument, None where none was given."""
        place = self.attrs.get(key)
        return None if place is None else self.vals[place]

    def again(self, vals: Sequence[Values], changes: Mapping[str, Any] | None = None) -> tuple[int, ...]:
        """Adds the operator with some arguments changed; returns the results' slots."""
        return self.writer.call(self.name, {**self.attrs, **(changes or {})}, vals, len(self.outs))

    def stacked(self, *vals: Values) -> list[Values]:
        """Values as (nodes, *shape), also those that are the same for all."""
        return [self.writer.each(val) for val in vals]

    def applied(self, function: Callable[..., Any], vals: Sequence[Values], *static: Any) -> list[Values]:
        """The results, (nodes, *shape), of a function of the values."""
        slots = self.writer.apply(function, vals, *static, outputs=len(self.outs))
        return self.made(slots if len(self.outs) > 1 else [slots])

    def on(self, name: str, attrs: Mapping[str, Any], vals: Sequence[Values], outs: Sequence[Shaped]) -> Application:
        """A call of another operator in the same program."""
        return Application(name, attrs, vals, outs, self.writer)

    def made(self, slots: Sequence[int], axes: int = 0) -> list[Values]:
        """The results with this many of their first axes as rows."""
        return [
            Values(slot, shape, dtype, rows_of(shape, axes), shape[axes:])
            for slot, (shape, dtype) in zip(slots, self.outs)
        ]

    def lying(self, slots: Sequence[int], lead: Any, rest: Shape) -> list[Values]:
        """The results, all as so many rows of one shape."""
        return [Values(slot, shape, dtype, lead, rest) for slot, (shape, dtype) in zip(slots, self.outs)]

    def refuse(self, why: str) -> NotBatchable:
        """The error that says why the call runs for each sample alone."""
        return NotBatchable(f"{self.name}: {why}")


class Row:
    """An operator's description.

    refuse: gives the reason for which a call cannot run for many nodes, if any; code: the operator as instructions on
    rows (see `gluonjit.rows.lowering`).
    """

    kind, said = "shape", ""  # how operators of the class run, in the table for people

    def __init__(self, refuse: Callable[[Application], str | None] | None = None, code: Any = None) -> None:
        self.refuse, self.code = refuse, code

    def labels(self, call: Application) -> Labels:
        """The labels of all axes."""
        raise NotImplementedError

    def run(self, call: Application, vals: list[Values], labels: Labels, shift: int) -> Sequence[int]:
        """Adds the operator where a node's first axis has moved by `shift`; returns the results' slots."""
        raise NotImplementedError

    def lift(self, call: Application) -> list[Values]:
        """Writes down the call for all nodes; returns its results. Raises NotBatchable."""
        labels = self.labels(call)
        axes = self.fold(call, labels)
        vals = [val if val.shared else call.writer.folded(val, axes) for val in call.vals]
        return call.made(self.run(call, vals, labels, 1 - axes), axes)

    def fold(self, call: Application, labels: Labels) -> int:
        """Number of first axes that are rows: where the fewest operands change their form. Raises NotBatchable."""
        folds = self.folds(call, labels)
        if not folds:
            raise call.refuse("it mixes the rows of a sample")
        return min(folds, key=lambda axes: sum([not _lies(val, axes) for val in call.mine]))

    def folds(self, call: Application, labels: Labels) -> list[int]:
        """Numbers of first axes of all that differs by node that may be rows: those that are free, and alike."""
        pairs = list(zip(call.vals, labels.ins))
        mine = [*[each for val, each in pairs if not val.shared], *labels.outs]
        others = [each for val, each in pairs if val.shared]
        packed = any([val.packed for val in call.vals])
        found = [] if packed else [0]
        for axes in range(1, min(map(len, mine)) + 1):
            label = mine[0][axes - 1]
            alike = all([each[axes - 1] == label and label not in each[axes:] for each in mine])
            fits = axes == 1 or max(map(len, others), default=0) <= len(mine[0]) - axes + 1
            if label not in labels.free or not alike or not fits or any([label in each for each in others]):
                break
            found.append(axes)
        if not packed:
            return found
        return [1] if 1 in found and all([val.packed for val in call.mine]) else []


def _lies(val: Values, axes: int) -> bool:
    return (val.lead, val.rest) == (rows_of(val.shape, axes), val.shape[axes:])


class By(Row):
    """An operator with a rule of its own: a function of the call that returns its results.

    kind, said: what it is in the table for people; packed: it takes nodes of different numbers of rows.
    """

    def __init__(
        self, rule: Callable[[Application], list[Values]], kind: str, said: str, packed: bool = False, **common: Any
    ) -> None:
        super().__init__(**common)
        self.rule, self.packed = rule, packed
        self.kind, self.said = kind, said

    def lift(self, call: Application) -> list[Values]:
        """Writes down the call for all nodes; returns its results. Raises NotBatchable."""
        if not self.packed and any([val.packed for val in call.vals]):
            raise call.refuse("it mixes the rows of a sample")
        return self.rule(call)


def lifted(call: Application, row: Row | None) -> list[Values]:
    """The results of a call by the row of its operator. Raises NotBatchable."""
    if row is None:
        raise call.refuse("it has no rule")
    try:
        return row.lift(call)
    except NotBatchable as error:
        raise error if str(error).startswith(call.name) else call.refuse(str(error)) from None


def of_any_rows(vals: Sequence[Values], outputs: Sequence[Shaped]) -> tuple[list[Values], list[Shaped]]:
    """Values and results whose first axis is of any number of rows say so by its size."""
    count = next((val.shape[0] for val in vals if val.packed), None)
    if count is None:
        return list(vals), list(outputs)
    sized = [val._replace(shape=(ROWS, *val.shape[1:])) if val.packed else val for val in vals]
    return sized, [((ROWS, *shape[1:]) if shape[:1] == (count,) else shape, dtype) for shape, dtype in outputs]


def operands(count: int) -> tuple[Operand, ...]:
    """The first operands of a call, as arguments."""
    return tuple(map(Operand, range(count)))
