"""From the trace of a cell to its row program, by the classes of its operators and the instructions that these name.

The `code` of an operator's row is the name of an instruction, the number to fill rows with, a function of the call and
its operands (`values`), or another row that says what the operator does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import accumulate
from math import prod
from typing import Any

from gluonjit.graph import Kind, operand_groups
from gluonjit.program.axes.along import Along, Section
from gluonjit.program.axes.elementwise import Loss, Make, Map
from gluonjit.program.axes.products import Contract
from gluonjit.program.axes.row import SUM, Application, Row, rows_before
from gluonjit.program.axes.shapes import Expand, Join, Keep, Permute, Reshape
from gluonjit.program.axes.values import NotBatchable, Operand, Shaped, Size, is_sized
from gluonjit.program.axes.writer import Writer
from gluonjit.program.children.table import GATHER, RATIO, RULES, SPREAD, TOTAL, VIEWS
from gluonjit.program.trace import Trace, TraceOp
from gluonjit.program.work import CallOf
from gluonjit.rows.program import CHILD, NODE, Builder, Instr, NotFusable, RowProgram, Weight
from gluonjit.rows.values import BY_NUMBER, Const, Rows, alike, pair, rows_in


def lowered(kind: Kind, call_of: CallOf) -> RowProgram:
    """The program of the nodes of a kind. Raises NotFusable."""
    if any(not spec.device.startswith("cpu") for spec in kind.operands):
        raise NotFusable("operands that are not in the host's memory")
    builder = Builder()
    source, shapes, listed = _source(kind)
    known: dict[int, Any] = {}
    for number, spec, space, lead in listed:
        width, whole = prod(spec.row_shape), spec.dtype == "int64" and space == NODE and not lead
        if not width or not ((whole and width == 1) or spec.dtype == "float32"):
            raise NotFusable(f"an operand of {spec.dtype}")
        view = builder.operand(space, 2 if whole else width)  # an integer has 64 bits
        known[number] = Rows(builder, shapes[number][0], view, lead)
    for number, value in known.items():
        if shapes[number][1] == "int64":
            known[number] = replace(value, view=value.do("WHOLE", width=1).view, operand=value.view.reg)
    for place, (number, _) in enumerate(source.constants()):
        shape, dtype = shapes[number]
        if dtype != "float32":
            raise NotFusable(f"a constant of {dtype}")
        known[number] = Const(builder, shape, Weight(place, 0, prod(shape[:-1]), 0, (1, *shape)[-1]))
    for op in source.ops:
        inputs, outs = [known.get(number) for number in op.inputs], [shapes[number] for number in op.outputs]
        if None in inputs:
            raise NotFusable(f"{op.name} takes a result that has no instruction")
        known.update(zip(op.outputs, _results(call_of, op, inputs, outs)))
    results = [rows_in(known.get(number)) for number in source.results]
    if any(value.space != _space_of(shapes[number]) for value, number in zip(results, source.results)):
        raise NotFusable("a result is per child, or per row")
    if any(output.spec.rows != 1 and not value.lead for output, value in zip(kind.outputs, results)):
        raise NotFusable("a result of several rows")
    return builder.finish([value.view for value in results])


def _space_of(shaped: Shaped) -> int:
    return CHILD if is_sized(shaped[0]) else NODE


def _source(kind: Kind) -> tuple[Trace, Sequence[Shaped], list[tuple[int, Any, int, bool]]]:
    """The trace, or the program for any number of children, its shapes, and the specs and spaces of its operands.

    Each of their rows is a node's if all operands and results have the same; or else those of one operand, or of
    all that have any number, are its node's children.
    """
    of, trace = kind.program.children, kind.call
    if of is not None:
        specs, owned = of.trace.operands, of.owned()
        groups = operand_groups(specs, False, of.roles)
        listed = [(k, specs[k], CHILD if k in owned else NODE, False) for group in groups for (k,) in group]
        return of.trace, of.trace.shapes, listed
    if kind.program.stages is not None:
        form, one = kind.program.stages.form, {1, Size(0)}
        outer = [form.shapes[number][0] for number in (*range(len(kind.operands)), *trace.results)]
        sizes = [prod([size for size in shape if size.__class__ is Size]) for shape, _ in form.shapes]
        if form.own or not one.issuperset([*sizes, *[prod(shape[: rows_before(shape)]) for shape in outer]]):
            raise NotFusable("operands of several lengths, or not row by row")
        spaces = map(_space_of, form.shapes)
        listed = [(k, spec, space, space == CHILD) for (k, spec), space in zip(enumerate(kind.operands), spaces)]
        return replace(trace, ops=tuple(form.ops)), form.shapes, listed
    specs = [*kind.operands, *[output.spec for output in kind.outputs]]
    leads = {spec.shape[: -len(spec.row_shape) or None] if spec.rows > 1 else () for spec in specs}
    even = kind.poly or (len(leads) == 1 and not kind.children)  # (1, 3) has 3 rows, too, but not those of (3, 3)
    listed = []
    for place in [position for group in kind.groups for role in group for position in role]:
        spec = kind.operands[place]
        many = spec.rows > 1 or bool(kind.children)
        listed.append((place, spec, CHILD if many and not even else NODE, spec.mode == "rows" and (many or kind.poly)))
    return trace, trace.shapes, listed


def _results(call_of: CallOf, op: TraceOp, inputs: list[Any], outs: Sequence[Shaped]) -> list[Any]:
    """The results of an operator."""
    if op.name == TOTAL:
        return [reduce(partial(pair, "ADD"), inputs)]
    if op.name == SPREAD:
        return inputs if isinstance(inputs[0], Const) else [inputs[0].do("SPREAD", space=CHILD)]
    if op.name == GATHER and dict(op.attrs)["how"] in (SUM, "mean"):
        total = rows_in(inputs[0]).gathered()
        return [total if dict(op.attrs)["how"] == SUM else total / Size()]
    if op.name == RATIO:
        return [inputs[0] / inputs[1]]
    if op.name in RULES:
        call_of = _view_of
    row, call = call_of(op, inputs, outs)
    try:
        found = _applied(row, call)
    except (NotBatchable, LookupError, TypeError, ZeroDivisionError) as error:  # of arguments that it does not know
        raise NotFusable(str(error) if isinstance(error, NotBatchable) else f"{call.name} with {error}") from None
    values = found if isinstance(found, list) else [found]
    for value, (_, dtype) in zip(values, outs):
        if isinstance(value, Rows) and value.operand < 0 and dtype != "float32":
            raise NotFusable(f"{call.name} gives {dtype}")
    return [value.shaped(shape) for value, (shape, _) in zip(values, outs)]


def _view_of(op: TraceOp, inputs: Sequence[Any], outs: Sequence[Shaped]) -> tuple[Row | None, Application]:
    return VIEWS.get(op.name), Application(op.name, {}, inputs, outs, Writer(0))


_PLAIN = {
    "alpha": 1,
    "half_to_float": False,
    "temperature": 1,
    "use_length": False,
    "mode": "clip",
}
"""Arguments of operators that name an instruction, as it takes them."""


def _applied(row: Row | None, call: Application) -> Any:
    """The result of an operator by the row of that, or its results."""
    call.check(row)
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
    if row.code not in BY_NUMBER:
        return rows_in(first).do(row.code)
    number = call.get("other", call.get("scalar"))
    if number is None or isinstance(number, Operand):
        raise call.refuse("of one operand")
    return pair(row.code, first, number)


def _made(row: Make, call: Application) -> Any:
    return rows_in(call.vals[0]).filled(float(row.code))


def _along(row: Along, call: Application) -> Any:
    """An instruction along whole rows, or the sum of rows; for what else each row has nothing."""
    a, code, axes = rows_in(call.vals[0]), row.code, row.axes(call)
    axes = tuple(range(a.rank)) if axes is None else axes
    over = a.lead and a.axis in axes
    sizes = [a.shape[axis] for axis in axes if not (a.lead and axis == a.axis)]
    if code in ("SUM", "MEAN") and prod(sizes) in (1, a.width):
        found, count = a if prod(sizes) == 1 else a.total(), prod([a.shape[axis] for axis in axes])
        found = found.gathered() if over else found
        return found / count if code == "MEAN" and count != 1 else found
    if over and a.width == 1 and a.space == CHILD and code in ("SOFTMAX", "LOGSOFTMAX"):
        return a.do("COPY").do(f"SEG{code}")
    if over or prod(sizes) != a.width:
        raise call.refuse("over rows")
    if callable(code):
        return code(call, a, *call.vals[1:])
    return a.pick(call.vals[1]) if code == "PICK" else a.do(code, width=a.width if row.stays else 1)


def _summed(row: Loss, call: Application) -> Any:
    """A loss of each entry, and their mean or sum where that is asked for."""
    a, b = [rows_in(val) for val in call.vals[:2]]
    how = call.get(row.key, row.default)
    if a.shape != b.shape or a.lead != b.lead or (a.lead and how != row.none) or len(call.vals) > 2:
        raise call.refuse("over rows, or with weights")
    found = row.code(call, a, b)
    return found if how == row.none else found.total(row.totals[how][0].code == "MEAN")


def _section(row: Section, call: Application) -> Any:
    """Parts of an axis, one after the other from where the first begins, or the part of each axis."""
    value: Any = call.vals[0]
    begin = row.first(call)
    step = call.get("step", 1)
    if not {None, 1}.issuperset(step if isinstance(step, tuple) else (step,)):
        raise call.refuse("with steps")
    if isinstance(begin, tuple):
        for axis, first in enumerate(begin):
            value = _part(value, axis, first, call.shape[axis])
        return value
    (axis,) = row.axes(call) or (0,)
    counts = [shape[axis] if len(shape) == value.rank else 1 for shape, _ in call.outs]
    if len(counts) > 1 and sum(counts) != value.shape[axis]:
        raise call.refuse("into other parts")
    begins = [begin] if len(counts) == 1 else accumulate(counts, initial=0)
    return [_part(value, axis, first, count) for first, count in zip(begins, counts)]


def _part(value: Any, axis: int, begin: int | None, count: int) -> Any:
    size = value.shape[axis]
    return value if count == size else value.part(axis, slice(begin, None).indices(size)[0], count)


def _joined(row: Join, call: Application) -> Any:
    parts = alike([rows_in(val) for val in call.vals])
    first = parts[0]
    if len(parts) == 1:
        return first
    first.within(row.axis(call))
    if any(part.lead != first.lead for part in parts):
        raise call.refuse("of rows")
    ends = [*accumulate([part.width for part in parts], initial=0)]
    whole = first.builder.register(first.space, ends[-1])
    first.builder.code += [Instr("COPY", whole.part(*each), part.view) for *each, part in zip(ends, ends[1:], parts)]
    return first.by(whole)


def _permuted(row: Permute, call: Application) -> Any:
    value: Any = call.vals[0]
    order = [axis % value.rank for axis in row.order(call, value.rank)] if value.rank else []
    moved = [axis for axis in order if value.shape[axis] != 1 and value.shape[axis].__class__ is not Size]
    if isinstance(value, Const) and order == [1, 0]:
        return replace(value, shape=value.shape[::-1], turned=not value.turned)
    led = isinstance(value, Rows) and value.lead and order[0] and not is_sized(value.shape)
    if moved != sorted(moved) or led:
        raise call.refuse("of rows")
    return value if isinstance(value, Const) else replace(value, shape=call.shape)


def _expanded(row: Expand, call: Application) -> Any:
    a = rows_in(call.vals[0])
    if is_sized(call.shape) and not a.lead:
        a = a.do("SPREAD", space=CHILD).under(call.shape)
    if a.lead and len(call.shape) != a.rank:
        raise call.refuse("of rows")
    width = prod(replace(a, shape=call.shape).inner)
    return a.do("BCASTW", width=width) if a.width == 1 != width else a


def _product(row: Contract, call: Application) -> Any:
    """Rows with a constant matrix, or with one other row, and what is added to that."""
    terms, out = row.terms(call)
    if tuple(row.scales(call)) != (1, 1):
        raise call.refuse("with factors")
    given = sorted(zip(terms, call.vals), key=lambda each: (each[0][:1] == "+", isinstance(each[1], Const)))
    (one, first), (other, second), *plus = given
    gone = [label for label in one if label in other and label not in out]
    a = rows_in(first)
    along = a.lead and one[a.axis] in gone
    if len(gone) != 1 or (a.lead and one[a.axis] not in (*gone, *out[: a.axis + 1])):
        raise call.refuse("over rows, or over several axes")
    if isinstance(second, Const) and not along:
        return a.linear(second, *[val for _, val in plus], down=other.index(gone[0]) == 0)
    b = rows_in(second)
    if along != (b.lead and other[b.axis] in gone) or not (along or a.width == b.width == a.shape[one.index(gone[0])]):
        raise call.refuse("of rows with rows")
    found = a.listed() * b.listed()
    found = (found.gathered() if along else found.total()).shaped(call.shape)
    return found + plus[0][1] if plus else found


_BY_CODE = (_mapped, _summed, _made, _along)
_RULES: dict[type[Row], Callable[[Any, Application], Any]] = {
    Map: _mapped,
    Loss: _summed,
    Make: _made,
    Along: _along,
    Section: _section,
    Join: _joined,
    Reshape: lambda row, call: call.vals[0],
    Keep: lambda row, call: _mapped(row, call) if row.code else call.vals[0],
    Permute: _permuted,
    Expand: _expanded,
    Contract: _product,
}
"""By class: what an operator gives, with an instruction's name or without."""
