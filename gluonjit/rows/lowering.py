"""From the trace of a cell to its row program, by the classes of its operators and the instructions that these name.

The option `code` of an operator's row is the name of an instruction, a number to fill rows with, a function of the call
and its operands (`values`), or another row that says what the operator does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import accumulate
from math import prod
from typing import Any

from gluonjit.graph import Kind
from gluonjit.program.axes.along import Along, PerAxis, Reduce, Section
from gluonjit.program.axes.elementwise import Loss, Make, Map
from gluonjit.program.axes.products import Contract
from gluonjit.program.axes.row import Application, Row
from gluonjit.program.axes.shapes import Expand, Join, Keep, Permute, Reshape
from gluonjit.program.trace import ADD_UP, GATHER_UP, OF_CHILD, SPREAD, NotBatchable, Operand, Shaped, TraceOp
from gluonjit.rows.program import CHILD, NODE, WITH_NUMBER, Builder, NotFusable, RowProgram, View, Weight
from gluonjit.rows.values import LIMITS, CellValue, Const, Rows, Whole, alike, pair, rows_in

CallOf = Callable[[TraceOp, Sequence[Any], Sequence[Shaped]], "tuple[Row | None, Application]"]
"""An engine's row of an operator, and its call of some values."""


def lowered(kind: Kind, call_of: CallOf) -> RowProgram:
    """The program of the nodes of a kind. Raises NotFusable."""
    builder = Builder()
    if _sums_rows(kind, call_of):
        return builder.finish([builder.gather_up(_operand(builder, kind.operands[0], CHILD))])
    source, consts, listed = _source(kind)
    heights = {spec.rows for spec in [*kind.operands, *[output.spec for output in kind.outputs]]}
    known: dict[int, Any] = {}
    for number, spec, space in listed:
        lead = spec.mode == "rows" and (kind.poly or (space == NODE and len(heights - {1}) == len(heights) == 1))
        if space == NODE and not lead and spec.rows != 1:
            raise NotFusable("an operand of several rows")
        known[number] = Rows(builder, source.shapes[number][0], _operand(builder, spec, space, not lead), lead)
    for number, value in known.items():
        if source.shapes[number][1] == "int64":
            column = builder.emit("WHOLE", value.view, width=1)
            known[number] = Whole(builder, value.shape, column, value.view.reg)
    for place, number in enumerate(consts):
        shape = source.shapes[number][0]
        rows, columns = prod(shape[:-1]), (1, *shape)[-1]
        known[number] = Const(builder, shape, Weight(place, 0, rows, 0, columns))
    for op in source.ops:
        outs = [source.shapes[number] for number in op.outputs]
        known.update(zip(op.outputs, _results(call_of, op, [known[number] for number in op.inputs], outs)))
    return _finished(builder, [rows_in(known[number]) for number in source.results])


def _source(kind: Kind) -> tuple[Any, list[int], list[tuple[int, Any, int]]]:
    """The trace, or the program for any number of children, its constants, and the specs and spaces of its operands."""
    if kind.program.variadic is None:
        listed = [(place, kind.operands[place], NODE) for group in kind.groups for (place,) in group]
        return kind.call, [place for place, _ in kind.call.constants()], listed
    source, roles = kind.program.variadic
    given = source.operands(kind.operands, roles._replace(roles=kind.children))
    listed = [(place, spec, CHILD if source.spaces[place] == OF_CHILD else NODE) for place, spec in given]
    return source, source.constants(), listed


def _sums_rows(kind: Kind, call_of: CallOf) -> bool:
    """True if all that is done is to add up the rows of the one operand."""
    spec, *others = kind.operands
    if others or kind.poly:
        return False
    if kind.sum_of > 1 and kind.rows > 1:
        raise NotFusable("a sum of arrays of several rows")
    if kind.sum_of > 1 or kind.children:
        return kind.program.variadic is None
    if spec.mode != "rows" or kind.rows != 1 or len(kind.call.ops) != 1 or kind.outputs[0].spec.dtype != spec.dtype:
        return False
    (op,) = kind.call.ops
    row, call = call_of(op, [CellValue(Builder(), spec.shape)], kind.call.shaped_results())
    return isinstance(row, Reduce) and row.code == "SUM" and _axes(row, call) == {0}


def _operand(builder: Builder, spec: Any, space: int, whole: bool = False) -> View:
    width = prod(spec.row_shape)
    if spec.dtype == "int64" and width == 1 and space == NODE and whole:
        return builder.operand(space, 2)  # which has 64 bits
    if spec.dtype != "float32" or not width:
        raise NotFusable(f"an operand of {spec.dtype}")
    return builder.operand(space, width)


def _finished(builder: Builder, results: Sequence[Rows]) -> RowProgram:
    if any([value.space != NODE for value in results]):
        raise NotFusable("a result is per child")
    return builder.finish([value.view for value in results])


def _results(call_of: CallOf, op: TraceOp, inputs: list[Any], outs: Sequence[Shaped]) -> list[Any]:
    """The results of an operator."""
    if op.name == ADD_UP:
        return [reduce(partial(pair, "ADD"), inputs)]
    if op.name in (SPREAD, GATHER_UP):
        (given,) = inputs
        if isinstance(given, Const) and op.name == SPREAD:
            return inputs
        given = rows_in(given)
        if op.name == GATHER_UP and given.space != CHILD:
            raise NotFusable("a sum over children of a value of the node")
        move = given.builder.spread if op.name == SPREAD else given.builder.gather_up
        return [given.by(move(given.view))]
    row, call = call_of(op, inputs, outs)
    try:
        found = _applied(row, call)
    except (NotBatchable, LookupError) as error:
        raise NotFusable(str(error) if isinstance(error, NotBatchable) else f"{call.name} with {error}") from None
    values = found if isinstance(found, list) else [found]
    for value, (_, dtype) in zip(values, outs):
        if isinstance(value, Rows) and dtype != "float32":
            raise NotFusable(f"{call.name} gives {dtype}")
    return [value.shaped(shape) for value, (shape, _) in zip(values, outs)]


_PLAIN = {
    "alpha": 1,
    "rounding_mode": None,
    "half_to_float": False,
    "temperature": 1,
    "use_length": False,
    "mode": "clip",
}
"""Arguments of operators that name an instruction, as it takes them."""


def _applied(row: Row | None, call: Application) -> Any:
    """The result of an operator by the row of that, or its results."""
    why = row.refuse(call) if row is not None and row.refuse is not None else None
    if why:
        raise call.refuse(why)
    if row is not None and isinstance(row.code, Row):
        row = row.code
    code = row.code if row is not None else None
    rule = next((_RULES[each] for each in type(row).__mro__ if each in _RULES), None)
    if code is None and (rule is None or rule in _BY_CODE):
        raise NotFusable(f"{call.name} has no instruction")
    if callable(code) and rule not in (_along, _summed):
        return code(call, rows_in(call.vals[0]), *call.vals[1:])
    for key, plain in _PLAIN.items():
        if code is not None and call.get(key, plain) != plain:
            raise call.refuse(f"{key} of {call.attrs[key]}")
    assert rule is not None
    return rule(row, call)


def _mapped(row: Row, call: Application) -> Any:
    first: Any
    first, *others = call.vals
    if row.code in ("COPY", "STOP"):
        return rows_in(first).stopped() if row.code == "STOP" else first
    if others:
        return reduce(partial(pair, row.code), others, first)
    if row.code not in WITH_NUMBER and row.code not in LIMITS:
        return rows_in(first).do(row.code)
    number = call.get("other", call.get("scalar"))
    if number is None or isinstance(number, Operand):
        raise call.refuse("of one operand")
    return pair(row.code, first, number)


def _made(row: Make, call: Application) -> Any:
    return rows_in(call.vals[0]).filled(row.code)


def _axes(row: Along, call: Application) -> set[int]:
    found = row.axes(call)
    return set(range(call.vals[0].rank) if found is None else found)


def _along(row: Along, call: Application) -> Any:
    """An instruction along whole rows, and for what else each row has nothing."""
    a, axes = rows_in(call.vals[0]), _axes(row, call)
    if (a.lead and 0 in axes) or prod([a.shape[axis] for axis in axes]) != a.view.width:
        raise call.refuse("over rows")
    if callable(row.code):
        return row.code(call, a, *call.vals[1:])
    if row.stays:
        return a.do(row.code)
    if row.code in ("SUM", "MEAN"):
        return a.total(row.code == "MEAN")
    return a.pick(call.vals[1]) if row.code == "PICK" else a.do(row.code, width=1)


def _summed(row: Loss, call: Application) -> Any:
    """A loss of each entry, and their mean or sum where that is asked for."""
    a, b = [rows_in(val) for val in call.vals[:2]]
    how = call.get(row.key, row.default)
    if a.shape != b.shape or a.lead != b.lead or (a.lead and how != row.none) or len(call.vals) > 2:
        raise call.refuse("over rows, or with weights")
    found = row.code(call, a, b)
    return found if how == row.none else found.total(row.totals[how][0].code == "MEAN")


def _section(row: Section, call: Application) -> Any:
    """Parts of an axis, one after the other from where the first begins."""
    (axis,) = row.axes(call) or (0,)
    value: Any = call.vals[0]
    counts = [shape[axis] if len(shape) == value.rank else 1 for shape, _ in call.outs]
    first = next((call.attrs[key] for key in ("start", "begin", "index") if key in call.attrs), None)
    if call.get("step", 1) != 1 or (len(counts) > 1 and sum(counts) != value.shape[axis]):
        raise call.refuse("with steps, or parts of its own")
    begins = accumulate(counts, initial=slice(first, None).indices(value.shape[axis])[0])
    return [_part(value, axis, begin, count) for begin, count in zip(begins, counts)]


def _sliced(row: PerAxis, call: Application) -> Any:
    """A slice of each of the first axes."""
    value: Any = call.vals[0]
    if "begin" not in row.rest or not {None, 1}.issuperset(_listed(call.get("step"))):
        raise call.refuse("has no instruction, or steps")
    for axis, first in enumerate(_listed(call.attrs["begin"])):
        value = _part(value, axis, slice(first, None).indices(value.shape[axis])[0], call.shape[axis])
    return value


def _listed(given: Any) -> Any:
    return given if isinstance(given, tuple) else (given,)


def _part(value: Any, axis: int, begin: int, count: int) -> Any:
    if isinstance(value, Whole):
        raise NotFusable("a part of an integer")
    return value if count == value.shape[axis] else value.part(axis, begin, count)


def _joined(row: Join, call: Application) -> Any:
    parts, axis = alike([rows_in(val) for val in call.vals]), row.axis(call)
    lead = parts[0].lead
    if len(parts) == 1:
        return parts[0]
    if any([part.lead != lead for part in parts]) or (lead and not axis) or prod(call.shape[lead:axis]) != 1:
        raise call.refuse("of rows")
    return parts[0].by(parts[0].builder.concat([part.view for part in parts]))


def _permuted(row: Permute, call: Application) -> Any:
    value: Any = call.vals[0]
    order = [axis % value.rank for axis in row.order(call, value.rank)] if value.rank else []
    moved = [axis for axis in order if value.shape[axis] != 1]
    if isinstance(value, Const) and order == [1, 0]:
        return value.transposed()
    if moved != sorted(moved) or (isinstance(value, Rows) and value.lead and order[0]):
        raise call.refuse("of rows")
    return value


def _expanded(row: Expand, call: Application) -> Any:
    a = rows_in(call.vals[0])
    width = prod(call.shape[a.lead :])
    if a.lead and len(call.shape) != a.rank:
        raise call.refuse("of rows")
    return a.do("BCASTW", width=width) if a.view.width == 1 != width else a


def _product(row: Contract, call: Application) -> Any:
    """Rows with a constant matrix, or with one other row, and what is added to that."""
    terms, out = row.terms(call)
    if tuple(row.scales(call)) != (1, 1):
        raise call.refuse("with factors")
    given = sorted(zip(terms, call.vals), key=lambda each: (each[0][:1] == "+", isinstance(each[1], Const)))
    (one, first), (other, second), *plus = given
    gone = [label for label in one if label in other and label not in out]
    a = rows_in(first)
    if len(gone) != 1 or (a.lead and (one[0] in gone or one[0] != out[:1])):
        raise call.refuse("over rows, or over several axes")
    if isinstance(second, Const):
        return a.linear(second, *[val for _, val in plus], down=other.index(gone[0]) == 0)
    b = rows_in(second)
    if not a.view.width == b.view.width == a.shape[one.index(gone[0])]:
        raise call.refuse("of rows with rows")
    found = (a * b).total()
    return found + plus[0][1] if plus else found


_BY_CODE = (_mapped, _summed, _made, _along)
_RULES: dict[type[Row], Callable[[Any, Application], Any]] = {
    Map: _mapped,
    Loss: _summed,
    Make: _made,
    Along: _along,
    Section: _section,
    PerAxis: _sliced,
    Join: _joined,
    Reshape: lambda row, call: call.vals[0],
    Keep: lambda row, call: _mapped(row, call) if row.code else call.vals[0],
    Permute: _permuted,
    Expand: _expanded,
    Contract: _product,
}
"""By class: what an operator gives, with an instruction's name or without."""
