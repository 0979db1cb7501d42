"""Arrays that are captured: what numpy's functions compute of them is captured in its turn, a call of a cell as a node.

A model is a `Model`, whose `WeightArray`s are learned. `array` and `look_up` begin what is captured.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from gluonjit.engines.numpy.operators import OPERATORS
from gluonjit.engines.numpy.program import TracedProgram
from gluonjit.errors import CaptureError
from gluonjit.graph import Kind, Spec, Value, Work, intern_spec, natural_mode
from gluonjit.graph.references import indexed, table_rows
from gluonjit.hybrid import LOCAL, Batch, Options
from gluonjit.hybrid.capture import tables
from gluonjit.hybrid.capture.capturing import (
    Same,
    captured,
    new_record,
    open_batch,
    outermost_batch,
    sampled,
    signature_of,
)
from gluonjit.hybrid.capture.cell import BatchedCell
from gluonjit.hybrid.capture.guards.follower import Follower, follow
from gluonjit.hybrid.capture.guards.objects import FrameworkObjects, Refused
from gluonjit.hybrid.capture.guards.variants import Noted
from gluonjit.hybrid.capture.structure import Kwargs, items_of, map_structure
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import placed as rows_at
from gluonjit.hybrid.run.state import results_of, settle
from gluonjit.program.axes.values import NotBatchable, numbered, placed
from gluonjit.program.trace import TraceBuilder

_NAMES = {"sum": "axis", "mean": "axis", "concatenate": "axis", "stack": "axis", "transpose": "axes"}
"""Arguments after the first that operators know by name."""


class Array(NDArrayOperatorsMixin):
    """Hands numpy's functions that are called on it to the engine, by numpy's own protocols."""

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        return operate(ufunc if method == "__call__" else getattr(ufunc, method), args, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return operate(function, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        return operate(operator.getitem, (self, key), {})

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(numbers_of(self), dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError


class WeightArray(Array):
    """Numbers that are the same for all samples, and that gradients are asked for; not written to while calls wait."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = np.asarray(numbers)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape


class LazyNumbers(Array):
    """An array that is captured, or in a trace: `_v` is its value, and `_c` its numbers once they are there.

    computed: whether gradients would have to go on through it.
    """

    def __init__(self, value: Value, numbers: Any = None, computed: bool = True) -> None:
        self._v, self._c, self.computed = value, numbers, computed

    @property
    def shape(self) -> tuple[int, ...]:
        return self._v.spec.shape

    def __getitem__(self, key: Any) -> Any:
        if LOCAL.state.trace is None and captures():  # rows of an array are no node, but a reference to it
            found = indexed(value_of(open_batch(engine_of("numpy")), self), key, ())
            if found is not None:
                return LazyNumbers(found, computed=self.computed)
        return super().__getitem__(key)


class Table(tables.Table):
    """A weight whose rows are looked up."""

    def __init__(self, *key: Any) -> None:
        super().__init__(*key)
        self.weight = self.weight.numbers

    def look(self, weight: WeightArray) -> Spec:
        return spec_of(weight.shape, str(weight.numbers.dtype))


class Model:
    """A model, whose `forward` takes one sample."""

    options: Options | None = None

    def __call__(self, *args: Any) -> Any:
        state = LOCAL.state
        if state.trace is not None:
            return state.trace.follower.call(state.trace.follower.get(self, "forward"), *args)
        if state.paused or state.inside or self.options is None:
            return self.forward(*args)
        return sampled(outermost_batch(engine_of("numpy"), self.options), self.forward, *args)

    def forward(self, *args: Any) -> Any:
        raise NotImplementedError


def captures() -> bool:
    """True if what is called now is captured."""
    state = LOCAL.state
    return not state.paused and bool(state.inside or state.explicit)


def array(numbers: Any) -> Any:
    """An input of a program: a copy of these numbers."""
    made = np.array(numbers)
    return as_leaf(made, False) if captures() else made


def look_up(table: WeightArray, numbers: Sequence[int]) -> Any:
    """Rows of a table, one or more."""
    if not captures():
        return numbers_of(table)[list(numbers)]
    batch = open_batch(engine_of("numpy"))
    found = Table.of(batch, table)
    found.check("look_up", numbers)
    return LazyNumbers(table_rows(batch.graph, found, found.row, numbers))


class NumpyCell(BatchedCell):
    """A cell: a function of numpy's, or of the program."""


@cache
def cell_of(function: Any) -> NumpyCell:
    """The cell of a function of numpy's."""
    return NumpyCell(function.__name__, Options())


def operate(function: Any, args: Any, kwargs: Kwargs) -> Any:
    """A function of numpy's, called on arrays of ours."""
    if any(items_of(kwargs, Array)):
        raise CaptureError(f"{function.__name__}: captured arrays are not written to, and have no names as arguments")
    if LOCAL.state.trace is not None:
        return LOCAL.state.trace.add(function, args, kwargs)
    if not captures():
        return function(*map_structure(args, numbers_of), **kwargs)
    found = capture(cell_of(function), function, args, kwargs)
    if not isinstance(found, str):
        return found
    if any(items_of(list(args), WeightArray)):
        raise CaptureError(f"{function.__name__} is no operator that weights are learned through: {found}")
    return as_leaf(np.array(function(*map_structure(args, numbers_of), **kwargs)), True)


def capture(cell: NumpyCell, run: Any, args: Any, kwargs: Kwargs) -> Any:
    """A call as one node, or a text that says why it is none."""
    batch = open_batch(engine_of("numpy"))
    values: list[Value] = []

    def known(item: Any) -> Any:
        if item.__class__ is LazyNumbers:
            values.append(value_of(batch, item))
            return values[-1].spec
        if isinstance(item, (np.ndarray, WeightArray)):
            return Same(item)
        return item if isinstance(item, Model) else None

    try:
        key = (cell, *signature_of((args, kwargs), known))
        specs = tuple([value.spec for value in values])
        found: Any = batch.records.get(key)
        if found is None or (found.guards is not None and not found.guards.hold()):
            found = new_record(cell, batch, key, lambda noted: make_kind(cell, run, args, kwargs, specs, noted))
    except Refused as refusal:
        found = str(refusal)
    if isinstance(found, str):
        batch.report.unbatched[cell.name] = found
        return found
    results = captured(batch, found, values)
    return map_structure(found.kind.structure, lambda place: LazyNumbers(results[place]))


def as_leaf(numbers: Any, computed: bool) -> LazyNumbers:
    return LazyNumbers(leaf(open_batch(engine_of("numpy")), numbers, computed), numbers, computed)


def leaf(batch: Batch, numbers: Any, computed: bool) -> Value:
    """The value of an array that was there before: equal numbers are one value."""
    spec = spec_of(numbers.shape, str(numbers.dtype))
    found = batch.graph.add_leaf((spec, computed, numbers.tobytes()), (numbers, computed), spec)
    return Value(found.base, 0, spec, batch.graph, False)


def spec_of(shape: tuple[int, ...], dtype: str) -> Spec:
    return intern_spec(shape, dtype, "cpu", natural_mode(shape))


def value_of(batch: Batch, lazy: LazyNumbers) -> Value:
    """The value of an operand in the open batch; what was computed in another is an input of this one."""
    return lazy._v if lazy._v.graph is batch.graph else leaf(batch, numbers_of(lazy), lazy.computed)


def numbers_of(item: Any) -> Any:
    """The numbers of an array, for which what it waits for runs. Anything else is returned as it is."""
    if item.__class__ is WeightArray:
        return item.numbers
    if item.__class__ is not LazyNumbers:
        return item
    if LOCAL.state.trace is not None:
        raise Refused("it reads an array's numbers")
    if item._c is None:
        settle(item._v)
        session, arena, rows = computed_at(item._v)
        item._c = session.rows(arena, rows).reshape(item.shape)
    return item._c


def computed_at(value: Value) -> tuple[Any, int, Sequence[int]]:
    """The session of a value that has run, its arena there, and its rows: a reference has those of other values."""
    if value.result is None:
        results = results_of(value)
        return results.session, *rows_at(value, results)
    session, arena, row = value.result
    return session, arena, range(row, row + value.spec.rows)


class CallTracer(TraceBuilder):
    """A call on stand-ins for its operands. Shapes come of examples, so that there are no rules for them.

    follower: what sees to the user's code.
    """

    follower: Any = None

    def __init__(self, operands: Sequence[Spec]) -> None:
        super().__init__(operands, "cpu")
        self._places: dict[int, int] = {}

    def stand_in(self, number: int) -> LazyNumbers:
        return LazyNumbers(Value(number, 0, spec_of(*self.shapes[number]), self, False))

    def place(self, item: Any) -> int:
        """The position of an array, which is the same for all nodes if it is no stand-in."""
        if item.__class__ is LazyNumbers:
            position: Any = item._v.rows
            return int(position)
        if id(item) not in self._places:
            weight = item if item.__class__ is WeightArray else WeightArray(item)
            self._places[id(item)] = self.constant(weight, (weight.shape, str(weight.numbers.dtype)))
        return self._places[id(item)]

    def add(self, function: Any, args: Any, kwargs: Kwargs) -> LazyNumbers:
        """Records an operator. Raises Refused."""
        name = function.__name__
        if name not in OPERATORS or OPERATORS[name].run is not function:
            raise Refused(f"there is no row for {name}")
        if not kwargs.keys() <= {"axis", "axes", "keepdims"} or any(item is None for item in (*args, *kwargs.values())):
            raise Refused(f"there is no row for {name} with such arguments")
        arrays: list[Any] = []
        given = numbered(args, (Array, np.ndarray), arrays)
        inputs = list(map(self.place, arrays))
        made = np.asarray(function(*placed(given, [np.ones(*self.shapes[k]) for k in inputs]), **kwargs))
        names = ["0", _NAMES.get(name, "1"), *map(str, range(2, len(given)))]
        attrs = (*zip(names, given), *kwargs.items())
        return self.stand_in(*self.op(name, attrs, inputs, [(made.shape, str(made.dtype))]))


class Objects(FrameworkObjects):
    """The facts that a follower has to know of numpy's objects."""

    def array(self, item: Any) -> bool:
        return isinstance(item, (Array, np.ndarray))

    def own(self, item: Any) -> bool:
        return item.__class__ is LazyNumbers


def make_kind(cell: NumpyCell, run: Any, args: Any, kwargs: Kwargs, specs: Any, noted: Noted) -> Kind | str:
    """Trace a call: its kind, or why it is not one node."""
    trace, places = CallTracer(specs), iter(range(len(specs)))
    args, kwargs = map_structure(
        (args, kwargs), lambda item: trace.stand_in(next(places)) if item.__class__ is LazyNumbers else item
    )
    results: list[int] = []

    def place_of(item: Any) -> int:
        if item.__class__ is not LazyNumbers:
            raise Refused(f"it returns a {type(item).__name__}, which is not computed from its arguments")
        results.append(trace.place(item))
        return len(results) - 1

    try:
        found = follow(trace, Follower(Objects(), (args, kwargs)), run, args, kwargs, noted)
        structure = map_structure(found, place_of)
        done = trace.finish(results)
        outputs, rows = done.outputs()
        program = TracedProgram(done, [output.spec for output in outputs])
    except (Refused, NotBatchable) as refusal:
        return str(refusal)
    work = Work(program.operators)
    return Kind(cell.name, specs, outputs, rows, program, work=work, structure=structure, call=done)
