"""A third engine, on numpy: forward only, made from docs/extending.md alone. It proves the seam, and is no use besides.

A model is a `Model`, whose numpy arrays are its weights; `array` and `look_up` make what is captured: what is computed
from these, by numpy's own functions, is captured in its turn, a call of a `gluonjit.cell` as one node.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from gluonjit.analysis import Plan
from gluonjit.analysis.plan import Arena, LeafChunk, LookupChunk
from gluonjit.errors import CaptureError
from gluonjit.graph import BatchedProgram, Kind, Spec, Value, Work, intern_spec, natural_mode, outputs_of
from gluonjit.graph.references import indexed, table_rows
from gluonjit.hybrid import LOCAL, Adapter, Batch, Options, Report, Session, register
from gluonjit.hybrid.capture.capturing import (
    Same,
    Signatures,
    captured,
    open_batch,
    outermost_batch,
    sampled,
    signature_of,
)
from gluonjit.hybrid.capture.functions import CellFunction
from gluonjit.hybrid.capture.guards.follower import Follower, follow
from gluonjit.hybrid.capture.guards.objects import FrameworkObjects, Refused
from gluonjit.hybrid.capture.guards.variants import Noted
from gluonjit.hybrid.capture.structure import items_of, map_structure
from gluonjit.hybrid.run.session import rows_of
from gluonjit.hybrid.run.state import settle


class Lazy(NDArrayOperatorsMixin):
    """An array that is captured, or in a trace: `_v` is its value, and `_c` its numbers once they are there."""

    def __init__(self, value: Value, numbers: Any = None) -> None:
        self._v, self._c = value, numbers

    @property
    def shape(self) -> tuple[int, ...]:
        return self._v.spec.shape

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        return operate(ufunc if method == "__call__" else getattr(ufunc, method), args, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return operate(function, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        found = None
        if LOCAL.state.trace is None and captures():  # rows of an array are no node, but a reference to it
            found = indexed(value_of(open_batch(ENGINE), self), key, ())
        return operate(operator.getitem, (self, key), {}) if found is None else Lazy(found)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(numbers_of(self), dtype)


class Model:
    """A model, whose `forward` takes one sample. Its arrays are weights, and are not written to while calls wait."""

    options: Options | None = None

    def __call__(self, *args: Any) -> Any:
        state = LOCAL.state
        if state.trace is not None:
            return state.trace.follower.call(state.trace.follower.get(self, "forward"), *args)
        if state.paused or state.inside or self.options is None:
            return self.forward(*args)
        return sampled(outermost_batch(ENGINE, self.options), self.forward, *args)


def captures() -> bool:
    """True if what is called now is captured."""
    state = LOCAL.state
    return not state.paused and bool(state.inside or state.explicit)


def array(numbers: Any) -> Any:
    """An input of a program: a copy of these numbers."""
    made = np.array(numbers)
    return Lazy(leaf(open_batch(ENGINE), made), made) if captures() else made


def look_up(table: Any, numbers: Sequence[int]) -> Any:
    """Rows of a table, one or more."""
    if not captures():
        return table[list(numbers)]
    if not 0 <= min(numbers) <= max(numbers) < len(table):
        raise IndexError(f"look_up({list(numbers)}) in a table of {len(table)} rows")
    row = intern_spec(table.shape[1:], str(table.dtype), "cpu", "stack")
    return Lazy(table_rows(open_batch(ENGINE).graph, Same(table), row, numbers))


def operate(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A function of numpy's, called on captured arrays."""
    if any(items_of(kwargs, Lazy)):
        raise CaptureError(f"{function.__name__}: captured arrays are not written to, and have no names as arguments")
    if LOCAL.state.trace is not None:
        return LOCAL.state.trace.add(function, args, kwargs)
    if captures():
        cell = OPERATORS.setdefault(function, Signatures(function.__name__))
        found = capture(cell, function, args, kwargs)
        if not isinstance(found, str):
            return found
    return array(function(*map_structure(args, numbers_of), **kwargs))


def capture(cell: Signatures, run: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A call as one node, or a text that says why it is none."""
    batch = open_batch(ENGINE)
    values: list[Value] = []

    def known(item: Any) -> Any:
        if item.__class__ is Lazy:
            values.append(value_of(batch, item))
            return values[-1].spec
        return Same(item) if isinstance(item, np.ndarray) else item if isinstance(item, Model) else None

    try:
        key = (cell, *signature_of((args, kwargs), known))
        specs = tuple([value.spec for value in values])
        found = cell.record(batch, key, lambda noted: make_kind(cell, run, args, kwargs, specs, noted))
    except Refused as refusal:
        found = str(refusal)
    if isinstance(found, str):
        batch.report.unbatched[cell.name] = found
        return found
    results = captured(batch, found, values)
    return map_structure(found.kind.structure, lambda place: Lazy(results[place]))


def leaf(batch: Batch, numbers: Any) -> Value:
    """The value of an array that was there before: equal numbers are one value."""
    spec = spec_of(numbers)
    found = batch.graph.add_leaf((spec, numbers.tobytes()), numbers, spec)
    return Value(found.base, 0, spec, batch.graph, False)


def spec_of(numbers: Any) -> Spec:
    return intern_spec(numbers.shape, str(numbers.dtype), "cpu", natural_mode(numbers.shape))


def value_of(batch: Batch, lazy: Lazy) -> Value:
    """The value of an operand in the open batch; what was computed in another is an input of this one."""
    return lazy._v if lazy._v.graph is batch.graph else leaf(batch, numbers_of(lazy))


def numbers_of(lazy: Any) -> Any:
    """The numbers of an array, for which what it waits for runs. Anything else is returned as it is."""
    if lazy.__class__ is not Lazy:
        return lazy
    if LOCAL.state.trace is not None:
        raise Refused("it reads an array's numbers")
    if lazy._c is None:
        settle(lazy._v)
        found = lazy._v.result  # of a node; what refers to rows of others has none
        lazy._c = (rows_of(lazy._v) if found is None else found[: lazy._v.spec.rows]).reshape(lazy.shape)
    return lazy._c


class Slot(int):
    """The number of a value, among the arguments of a traced call."""


class Many(NamedTuple):
    """A value for all nodes of a step, one after the other along the first axis, among the arguments of a rule."""

    rows: Any


class Op(NamedTuple):
    """A traced call: its rule, its arguments, and how many axes the result has."""

    rule: Callable[..., Any]
    args: Any
    kwargs: dict[str, Any]
    axes: int

    def run(self, values: Sequence[Any], count: int) -> Any:
        """The results of so many nodes."""
        return self.rule(self.axes, count, *given(self.args, [Many(value) for value in values]), **self.kwargs)


def given(args: Any, values: Sequence[Any]) -> Any:
    return map_structure(args, lambda item: values[item] if item.__class__ is Slot else item)


class Trace:
    """What a call does: values by number, operands first. Shapes come of examples, so that there are no rules for them.

    follower: what sees to the user's code.
    """

    def __init__(self, operands: Sequence[Spec]) -> None:
        self.examples = [np.zeros(spec.shape, spec.dtype) for spec in operands]
        self.ops: list[Op] = []
        self.follower: Any = None

    def stand_in(self, number: int) -> Lazy:
        return Lazy(Value(number, 0, spec_of(self.examples[number]), self, False))

    def add(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Lazy:
        rule = RULES.get(function) or (elementwise(function) if isinstance(function, np.ufunc) else None)
        if rule is None or getattr(function, "nout", 1) != 1:
            raise Refused(f"there is no rule for {function.__name__}")
        slots = map_structure(args, lambda item: Slot(item._v.rows) if item.__class__ is Lazy else item)
        found = np.asarray(function(*given(slots, self.examples), **kwargs))
        self.ops.append(Op(rule, slots, kwargs, found.ndim))
        if self.ops[-1].run([example[None] for example in self.examples], 1).shape != (1, *found.shape):
            raise Refused(f"the rule for {function.__name__} does not fit these arguments")
        self.examples.append(found)
        return self.stand_in(len(self.examples) - 1)


class Program(BatchedProgram):
    """A trace, run for any number of nodes."""

    def __init__(self, ops: Sequence[Op], results: Sequence[int]) -> None:
        self.ops, self.results = ops, results

    def __call__(self, operands: Sequence[Any], count: int) -> list[Any]:
        known = list(operands)
        for op in self.ops:
            known.append(op.run(known, count))
        return [known[number] for number in self.results]


def spread(item: Any, count: int, axes: int = 0) -> Any:
    """An argument for all nodes, with at least so many axes a node."""
    rows = item.rows if item.__class__ is Many else np.broadcast_to(item, (count, *np.shape(item)))
    return rows.reshape(count, *[1] * (axes + 1 - rows.ndim), *rows.shape[1:])


def elementwise(function: Any) -> Callable[..., Any]:
    return lambda axes, count, *args, **kwargs: function(
        *[spread(arg, count, axes) if arg.__class__ is Many else arg for arg in args], **kwargs
    )


def matmul(axes: int, count: int, left: Any, right: Any) -> Any:
    if left.__class__ is Many and right.__class__ is not Many and np.ndim(right) == 2:
        return left.rows @ right
    if right.__class__ is Many and left.__class__ is not Many and right.rows.ndim == 2:
        return right.rows @ left.T
    raise Refused("it multiplies matrices that both differ from node to node")


def joining(function: Any) -> Callable[..., Any]:
    def rule(axes: int, count: int, parts: Any, axis: int = 0) -> Any:
        return function([spread(part, count) for part in parts], axis + 1 if axis >= 0 else axis)

    return rule


def total(axes: int, count: int, item: Any, axis: Any = None) -> Any:
    over = range(item.rows.ndim - 1) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return np.sum(item.rows, axis=tuple([each + 1 if each >= 0 else each for each in over]))


RULES: dict[Any, Callable[..., Any]] = {
    np.matmul: matmul,
    np.concatenate: joining(np.concatenate),
    np.stack: joining(np.stack),
    np.sum: total,
    operator.getitem: lambda axes, count, item, key: item.rows[
        (slice(None), *(key if isinstance(key, tuple) else (key,)))
    ],
}


class Objects(FrameworkObjects):
    """What a follower has to know of numpy's objects."""

    def array(self, item: Any) -> bool:
        return isinstance(item, (Lazy, np.ndarray))

    def own(self, item: Any) -> bool:
        return item.__class__ is Lazy


def place_of(item: Any, results: list[int]) -> int:
    """The place of a result among those of its node."""
    if item.__class__ is not Lazy:
        raise Refused(f"it returns a {type(item).__name__}, which is not computed from its arguments")
    results.append(item._v.rows)
    return len(results) - 1


def make_kind(cell: Signatures, run: Any, args: Any, kwargs: dict[str, Any], specs: Any, noted: Noted) -> Kind | str:
    """Trace a call: its kind, or why it is not one node."""
    trace, places = Trace(specs), iter(range(len(specs)))
    args, kwargs = map_structure(
        (args, kwargs), lambda item: trace.stand_in(next(places)) if item.__class__ is Lazy else item
    )
    results: list[int] = []
    try:
        found = follow(trace, Follower(Objects(), (args, kwargs)), run, args, kwargs, noted)
        structure = map_structure(found, lambda item: place_of(item, results))
    except Refused as refusal:
        return str(refusal)
    outputs, rows = outputs_of([spec_of(trace.examples[number]) for number in results])
    program = Program(trace.ops, results)
    return Kind(cell.name, specs, outputs, rows, program, work=Work(len(trace.ops)), structure=structure)


class ToySession(Session):
    """The arrays of one flush."""

    def room(self, arena: Arena) -> Any:
        return np.empty((arena.rows, *arena.spec.row_shape), arena.spec.dtype)

    def put_lookup(self, chunk: LookupChunk) -> None:
        self.put(chunk.place, chunk.table.item[list(chunk.indices)])

    def put_leaves(self, chunk: LeafChunk) -> None:
        row = chunk.leaves[0].spec.row_shape
        self.put(chunk.place, np.concatenate([leaf.payload.reshape(-1, *row) for leaf in chunk.leaves]))

    def launch(self, number: int, operands: Any) -> Any:
        step = self.plan.steps[number]
        given = [
            operands[group][begin:end].reshape(step.count, *spec.shape)
            for (group, begin, end), spec in zip(step.operands(), step.kind.operands)
        ]
        found = step.kind.program(given, step.count)
        return [rows.reshape(self.at(place).shape) for place, rows in zip(step.places, found)]


class ToyEngine(Adapter):
    name = "toy"

    def owns(self, array: Any) -> bool:
        return isinstance(array, (Lazy, np.ndarray))

    def owns_block(self, net: Any) -> bool:
        return isinstance(net, Model)

    def waits(self, args: Sequence[Any]) -> bool:
        return any(lazy._c is None for lazy in items_of(list(args), Lazy))

    def call_cell(self, function: CellFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        cell = function.caches.setdefault(self.name, Signatures(function.name))
        found = capture(cell, function.function, args, kwargs)
        return function.function(*args, **kwargs) if isinstance(found, str) else found

    def hybridize(self, net: Any, dynamic_batch: bool, options: dict[str, Any]) -> None:
        chosen = Options().updated("hybridize()", options)
        self.check("hybridize()", chosen)
        net.options = chosen if dynamic_batch else None

    def session(self, plan: Plan, report: Report, options: Options, samples: int, provenance: Any) -> Session:
        return ToySession(plan, report, options, provenance)

    def clear_caches(self) -> None:
        super().clear_caches()
        OPERATORS.clear()


OPERATORS: dict[Any, Signatures] = {}
ENGINE = ToyEngine()


def install() -> None:
    """Let the library know the engine. One of a framework has its functions patched here, by the second argument."""
    register(ENGINE, [])
