"""The description of one operator, and what follows for a call of it on the values of all nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from math import prod
from typing import Any, NamedTuple

from gluonjit.program.axes.values import (
    PREFIX,
    ROWS,
    Labels,
    NotBatchable,
    Operand,
    Shape,
    Shaped,
    Size,
    Vals,
    Values,
    is_sized,
)
from gluonjit.program.axes.writer import Writer


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
    def mine(self) -> Vals:
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

    def check(self, row: Row | None) -> None:
        """Raises NotBatchable where its row refuses it."""
        why = row.refuse(self) if row is not None and row.refuse is not None else None
        if why:
            raise self.refuse(why)

    def again(self, vals: Sequence[Values], changes: Mapping[str, Any] | None = None) -> tuple[int, ...]:
        """Adds the operator with some arguments changed; returns the results' slots."""
        return self.writer.call(self.name, {**self.attrs, **(changes or {})}, vals, len(self.outs))

    def stacked(self, *vals: Values) -> Vals:
        """Values as (nodes, *shape), also those that are the same for all."""
        return [self.writer.each(val) for val in vals]

    def applied(self, function: Callable[..., Any], vals: Sequence[Values], *static: Any) -> Vals:
        """The results, (nodes, *shape), of a function of the values."""
        slots = self.writer.apply(function, vals, *static, outputs=len(self.outs))
        return self.made(slots if len(self.outs) > 1 else [slots])

    def on(self, name: str, attrs: Mapping[str, Any], vals: Sequence[Values], outs: Sequence[Shaped]) -> Application:
        """A call of another operator in the same program."""
        return Application(name, attrs, vals, outs, self.writer)

    def made(self, slots: Sequence[int], axes: int = 0) -> Vals:
        """The results with this many of their first axes as rows."""
        return [
            Values(slot, shape, dtype, prod(shape[:axes]), shape[axes:])
            for slot, (shape, dtype) in zip(slots, self.outs)
        ]

    def once(self) -> Vals:
        """Adds the operator on what is the same for all nodes; returns its results, which are so, too."""
        return [
            Values(slot, shape, dtype, None, shape) for slot, (shape, dtype) in zip(self.again(self.vals), self.outs)
        ]

    def lying(self, slots: Sequence[int], lead: Any, rest: Shape) -> Vals:
        """The results, all as so many rows of one shape."""
        return [Values(slot, shape, dtype, lead, rest) for slot, (shape, dtype) in zip(slots, self.outs)]

    def beside(self, val: Values) -> Values:
        """An operand with axes like the result's, which is packed: its rows beside the result's. Raises NotBatchable.

        What a node has once is repeated for each of its rows.
        """
        writer, shape, axes = self.writer, self.shape, rows_before(self.shape)
        aligned = (*(1,) * (len(shape) - val.rank), *val.shape)
        front, back = aligned[:axes], aligned[axes:]
        lead = prod(shape[:axes])
        if val.packed:
            if front != shape[:axes] and (prod(front) != lead or prod(front[:-1]) != prod(shape[: axes - 1])):
                raise self.refuse("rows of several numbers")
            return writer.form(val, lead, back)
        if val.shared and is_sized(front):
            return writer.each_row(val, front, back)
        if any(size != 1 for size in front):
            raise self.refuse("an operand of a fixed number of rows, where others vary")
        if not val.shared:
            return writer.rows_each(writer.form(val, 1, back), lead)
        return writer.put("shape", val, back)._replace(shape=back, rest=back) if val.rank > len(back) else val

    def refuse(self, why: str) -> NotBatchable:
        """The error that says why the call runs for each sample alone."""
        return NotBatchable(f"{self.name}: {why}")

    @property
    def mixed_rows(self) -> NotBatchable:
        """The error of a call on rows, or on padding, that does not leave these apart."""
        return self.refuse("it mixes the rows of a sample")


SUM, RATIO = "sum", "ratio"


class RowPooling(NamedTuple):
    """A rule for a call on a value whose rows it does not leave apart, by calls on each row.

    outs: the results for a row; hows: of each how one for all rows is made of them: SUM, another one of
    `Writer.gathered`, RATIO for the sum over that of the other result, "" for a row each; changes: to the arguments.
    """

    outs: Sequence[Shaped]
    hows: Sequence[str]
    changes: Mapping[str, Any] = {}


class Row:
    """An operator's description.

    refuse: gives the reason for which a call cannot run for many nodes, if any; code: the operator as instructions on
    rows (see `gluonjit.rows.lowering`), "ADD" of one that adds; fill: the number that changes nothing along axes that
    are not free, for padding there, PREFIX where entries behind others change nothing, or a function of the call;
    after: the number that results have there then, or are to be given if `refill`; pools: gives its `RowPooling`, if
    there is one; work: gives the products of numbers in a call.
    """

    kind, said = "shape", ""  # how operators of the class run, in the table for people
    copies = False  # the entries of an axis that becomes longer are all those of the only one
    ordered = False  # a result of as many entries as the first operand has those, in this order

    refuse: Callable[[Application], str | None] | None = None
    code: Any = None
    fill: Any = None
    after: Any = None
    refill: bool = False
    pools: Callable[[Application], RowPooling | None] | None = None
    work: Callable[[Application], int] | None = None

    def __init__(self, *own: Any, **fields: Any) -> None:
        """Sets fields by their names; own: those of the first class below this one, in order."""
        known = {name for cls in type(self).__mro__[:-1] for name in cls.__annotations__}
        fields.update(zip(type(self).__mro__[-3:][0].__annotations__, own))
        vars(self).update(fields)
        if not fields.keys() <= known or not all(hasattr(self, name) for name in known):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(sorted(known))}")

    def pooling(self, call: Application) -> RowPooling | None:
        """The rule for a call on rows that it does not leave apart, if there is one."""
        return None if self.pools is None else self.pools(call)

    def adds(self, call: Application) -> bool:
        """True if a call adds its operands and does nothing else, of one gives that."""
        idle = {"alpha": 1, "self": 0, "other": 0, "scalar": 0}
        given = call.attrs.items()
        return self.code == "ADD" and all(one.__class__ is Operand or one == idle.get(key, one) for key, one in given)

    def labels(self, call: Application) -> Labels:
        """The labels of all axes."""
        raise NotImplementedError

    def run(self, call: Application, vals: Vals, labels: Labels, shift: int) -> Sequence[int]:
        """Adds the operator where a node's first axis has moved by `shift`; returns the results' slots."""
        return call.again(vals)

    def lift(self, call: Application) -> Vals:
        """Writes down the call for all nodes; returns its results. Raises NotBatchable."""
        labels = self.labels(call)
        axes = self.fold(call, labels)
        vals = [self.cleaned(call, val, each, labels) for val, each in zip(call.vals, labels.ins)]
        vals = [val if val.shared else call.writer.folded(val, axes) for val in vals]
        found = call.made(self.run(call, vals, labels, 1 - axes), axes)
        return found if self.after is None else [self.ended(call, val, labels) for val in found]

    def ended(self, call: Application, val: Values, labels: Labels) -> Values:
        """A result whose padding is `after`, along axes that were filled."""
        mixed = mixed_axes(val, labels.outs[0], labels)
        if not mixed or val.packed:
            return val
        if self.refill:
            return call.writer.filled(val, mixed, self.after)
        return val._replace(fill=(self.after, val.sized(mixed)))

    def cleaned(self, call: Application, val: Values, each: Sequence[Any], labels: Labels) -> Values:
        """A value whose padding changes nothing along axes that are not free. Raises NotBatchable."""
        mixed = mixed_axes(val, each, labels)
        if not mixed or val.packed:
            return val
        fill = self.neutral(call)
        if fill is None:
            raise call.mixed_rows
        return val if fill is PREFIX else call.writer.filled(val, mixed, fill)

    def neutral(self, call: Application) -> Any:
        """The number for padding, None where there is none, or PREFIX."""
        return self.fill(call) if callable(self.fill) else self.fill

    def fold(self, call: Application, labels: Labels) -> int:
        """Number of first axes that are rows: where the fewest operands change their form. Raises NotBatchable."""
        folds = self.folds(call, labels)
        if not folds:
            raise call.mixed_rows
        return min(folds, key=lambda axes: sum(not _lies(val, axes) for val in call.mine))

    def folds(self, call: Application, labels: Labels) -> list[int]:
        """Numbers of first axes of all that differs by node that may be rows: those that are free, and alike."""
        pairs = list(zip(call.vals, labels.ins))
        mine = [*[each for val, each in pairs if not val.shared], *labels.outs]
        others = [each for val, each in pairs if val.shared]
        packed = any(val.packed for val in call.vals)
        found = [] if packed else [0]
        least = max(rows_before(val.shape) for val in call.vals) if packed else 0
        for axes in range(1, min(map(len, mine)) + 1):
            label = mine[0][axes - 1]
            alike = all(each[axes - 1] == label and label not in each[axes:] for each in mine)
            fits = axes == 1 or max(map(len, others), default=0) <= len(mine[0]) - axes + 1
            if label not in labels.free or not alike or not fits or any(label in each for each in others):
                break
            if not packed and any(val.shape[axes - 1].__class__ is Size for val in call.mine):
                break
            found.append(axes)
        if not packed:
            return found
        return [axes for axes in found if axes >= least] if all(val.packed for val in call.mine) else []


def mixed_axes(val: Values, each: Sequence[Any], labels: Labels) -> list[int]:
    """The axes of any size that are not free."""
    return [axis for axis, size in enumerate(val.shape) if is_sized(size) and each[axis] not in labels.free]


def rows_before(shape: Shape) -> int:
    """The number of first axes that are counted as rows: up to the last of any size."""
    return max([axis + 1 for axis, size in enumerate(shape) if size.__class__ is Size], default=0)


def _lies(val: Values, axes: int) -> bool:
    return (val.lead, val.rest) == (prod(val.shape[:axes]), val.shape[axes:])


class By(Row):
    """An operator with a rule of its own: a function of the call that returns its results.

    kind, said: what it is in the table for people; packed: it takes nodes of different numbers of rows; padded: it
    takes padding.
    """

    rule: Callable[[Application], Vals]
    kind: str
    said: str
    packed: bool = False
    padded: bool = False

    def lift(self, call: Application) -> Vals:
        """Writes down the call for all nodes; returns its results. Raises NotBatchable."""
        if (not self.packed and any(val.packed for val in call.vals)) or (
            not self.padded and any(val.padded for val in call.vals)
        ):
            raise call.mixed_rows
        return self.rule(call)


def lifted(call: Application, row: Row | None) -> Vals:
    """The results of a call by the row of its operator. Raises NotBatchable."""
    if row is None:
        raise call.refuse("it has no rule")
    try:
        return row.lift(call)
    except NotBatchable as error:
        raise error if str(error).startswith(call.name) else call.refuse(str(error)) from None


def of_any_rows(vals: Sequence[Values], outputs: Sequence[Shaped]) -> tuple[Vals, list[Shaped]]:
    """Values and results whose first axis is of any number of rows say so by its size."""
    count = next((val.shape[0] for val in vals if val.packed), None)
    if count is None or any(is_sized(val.shape) for val in vals):
        return list(vals), list(outputs)
    sized = [val._replace(shape=(ROWS, *val.shape[1:])) if val.packed else val for val in vals]
    return sized, [((ROWS, *shape[1:]) if shape[:1] == (count,) else shape, dtype) for shape, dtype in outputs]


def rows_by_name(names: str, each: Row) -> dict[str, Row]:
    """The row of each of these operators; "exp=EXP" says that this one is the instruction EXP."""
    found = {}
    for name, _, code in [text.partition("=") for text in names.split()]:
        found[name] = copy(each)
        found[name].code = code or each.code
    return found


def operands(count: int) -> tuple[Operand, ...]:
    """The first operands of a call, as arguments."""
    return tuple(map(Operand, range(count)))
