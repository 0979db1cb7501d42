"""Captures of a whole call as one node."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from types import ModuleType
from typing import Any

from mxnet import gluon
from mxnet.gluon.utils import _check_all_np_ndarrays
from mxnet.ndarray import NDArray
from mxnet.ndarray.sparse import BaseSparseNDArray
from mxnet.numpy import ndarray

from gluonjit.compiled import FAST
from gluonjit.engines.mxnet.framework.semantics import ARRAYS
from gluonjit.engines.mxnet.lengths.program import JOINER
from gluonjit.engines.mxnet.run.program import current
from gluonjit.engines.mxnet.tracing.cell import Cell
from gluonjit.engines.mxnet.tracing.kinds import CellCall, difference, make_kind
from gluonjit.engines.mxnet.tracing.opkinds import known_kind
from gluonjit.engines.mxnet.values.computing import plain, waits
from gluonjit.engines.mxnet.values.lazy import Lazy, LazyArray, wrap
from gluonjit.engines.mxnet.values.lazy_np import LazyNumpy, wrap_np
from gluonjit.engines.mxnet.values.lookups import Table, look_up
from gluonjit.engines.mxnet.values.operands import Empty, laid, value_of
from gluonjit.engines.mxnet.values.weights import WeightArgument
from gluonjit.graph import Kind, Record, Value, is_own
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.capture.capturing import captured, new_record, open_batch, room_of, run_eagerly
from gluonjit.hybrid.capture.guards.objects import OWN_ARRAY, Eagerly
from gluonjit.hybrid.capture.guards.owners import is_user_class
from gluonjit.hybrid.capture.guards.variants import AGAIN, Noted, holding, put_record, retrace
from gluonjit.hybrid.capture.lengths.joining import without_sizes
from gluonjit.hybrid.capture.outlining.free_functions import note_operator
from gluonjit.hybrid.capture.structure import Args, Repeated, ResultPlace, map_structure
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL

_CONSTANTS = (type(None), bool, int, float, str, ModuleType, gluon.Block, type)


def capture_cell(cell: Cell, owner: Any, run: Callable[..., Any] | None, args: Args) -> Any:
    """Captures `run(*args)` as one node; where that cannot be, runs it and captures what it calls.

    `owner` is the Block whose parameters it may use, or None; without `run` it is the owner's `forward`.
    """
    found = as_node(cell, owner, run, args)
    if found.__class__ is Eagerly:
        return eagerly(cell, run or owner.forward, args, found)
    return expand(cell, owner, run, args, found) if found.__class__ is str else found


def eagerly(cell: Cell, run: Callable[..., Any], args: Args, reason: str) -> Any:
    """Makes a call with computed arrays, and captures nothing."""
    given = map_structure(args, lambda item: plain(item) if isinstance(item, Lazy) else item)
    return run_eagerly(cell, reason, run, *given)


def as_node(cell: Cell, owner: Any, run: Callable[..., Any] | None, args: Args) -> Any:
    """Captures `run(*args)` as one node, or says why that cannot be."""
    state = LOCAL.state
    batch = open_batch(engine_of("mxnet"), cell.options)
    begin = 0.0 if state.inside else perf_counter()
    if cell.lookup is not None and len(args) == 1:
        found = _captured_lookup(cell, batch, args[0], state.mode)
        if found is not None:
            return found
    if FAST is not None and begin:
        found = FAST.capture(cell, owner, args, {})
        if found is not None:
            batch.end_call(cell, begin)
            return found
    asked = asked_for(owner, batch)
    if asked and (cell.is_node or run is not None or asked != _ASKED[0]):  # else it is captured whole, or not at all
        return asked
    called = args
    args = map_structure(args, partial(WeightArgument.of, cell, batch), False)
    signature: list[Any] = [cell, state.mode, state.numpy]
    values: list[Value] = []
    for arg in args:
        if not _flatten(arg, owner, batch, signature, values):
            return _unknown(arg)
    key = tuple(signature)
    record = batch.records.get(key)
    if record is None or (record.guards is not None and not record.guards.hold()):
        trace = partial(_traced, partial(CellCall, cell, values, batch), key, owner, run or owner.forward, args)
        made = new_record(cell, batch, key, trace, current)
        if isinstance(made, str):
            return made
        if cell.by_number:
            batch.report.by_number[cell.name] = cell.by_number
        if cell.lookup is not None:
            return as_node(cell, owner, run, called)
        record = made
    elif AGAIN.due():
        compare = partial(difference, owner, run or owner.forward, args, values, batch)
        retrace(cell, (batch.options.without, *key), record, batch, compare)
    if FAST is not None:
        FAST.keep(cell, owner, called, {}, key, record)
    if record.kind.apart:
        values = [laid(batch, value, spec) for value, spec in zip(values, record.kind.operands)]
    found = rebuild(record.kind.structure, captured(batch, record, values))
    if begin:
        batch.end_call(cell, begin)
    return found


def rebuild(structure: Any, values: tuple[Value, ...]) -> Any:
    """Makes what a call returns, of the values of its node."""
    if structure is None:
        return wrap(values[0])
    if structure is tuple:
        return tuple([wrap(value) for value in values])
    if structure is LazyNumpy:
        return wrap_np(values[0])
    made: dict[int, Any] = {}
    views: list[tuple[Any, int, Any]] = []

    def part(place: int) -> Any:
        if place.__class__ is Repeated:
            return made[place]
        found = made[int(place)] = wrap(values[place]) if place >= 0 else wrap_np(values[~place])
        if place.__class__ is ResultPlace:
            views.append((found, *place.view))
        return found

    found = map_structure(structure, part, False)
    for view, base, key in views:
        view._b, view._k = made[base], key
        view._b._k = True
    return found


def _flatten(arg: Any, owner: Any, batch: Batch, signature: list[Any], values: list[Value]) -> bool:
    """Appends an argument's values and plain constants; False where it holds something else."""
    kind = arg.__class__
    if kind is LazyArray and arg._v.graph is batch.graph:
        values.append(arg._v)
        signature.append(arg._v.spec)
    elif kind is tuple or kind is list:
        signature.append(kind)
        if not all([_flatten(item, owner, batch, signature, values) for item in arg]):
            return False
        signature.append(None)
    elif kind is WeightArgument:
        held = id(arg.array) if arg.held is arg.array else arg.held
        signature.append(("constant", held, type(arg.array), arg.array.shape))
    elif arg is owner or kind is ModuleType:
        signature.append(arg)
    elif isinstance(arg, NDArray) and not isinstance(arg, BaseSparseNDArray) and not is_user_class(kind):
        if isinstance(arg, ndarray):
            signature.append(LazyNumpy)
        try:
            value = value_of(batch, arg)
        except Empty:
            return False
        values.append(value)
        signature.append(value.spec)
    elif isinstance(arg, _CONSTANTS):
        signature.append((kind, arg if arg or kind is not float else str(arg)))  # 0.0 == -0.0
    else:
        return False
    return True


def _unknown(arg: Any) -> str:
    if isinstance(arg, NDArray) and is_user_class(type(arg)):
        return Eagerly(OWN_ARRAY.format(type(arg).__name__))
    if isinstance(arg, NDArray) and not isinstance(arg, BaseSparseNDArray):
        return f"an argument of shape {arg.shape} has no elements"
    return f"an argument is a {type(arg).__name__}, which is neither a dense array nor a plain constant"


def _captured_lookup(cell: Cell, batch: Batch, indices: Any, mode: int) -> Any:
    """A call that is nothing but a look-up, by integers that are known."""
    value = looked_up(cell, batch, indices, mode)
    if value is None:
        return None
    return wrap_np(value) if isinstance(indices, ndarray) else wrap(value)


def looked_up(cell: Cell, batch: Batch, indices: Any, mode: int) -> Value | None:
    """The value of such a call; None where the integers are not known."""
    if isinstance(indices, Lazy):
        waits(indices)  # a view is renewed
        indices = indices._c
    if not isinstance(indices, NDArray):
        return None
    place = (cell, is_recorded(mode))
    table = batch.tables.get(place)
    if table is None:
        parameter, attrs = cell.lookup
        table = batch.tables[place] = Table.of(batch, parameter.data(indices.context), attrs, is_recorded(mode), 1)
    return look_up(batch, indices, table)


def _traced(
    call_of: Callable[[Noted], CellCall], key: Any, owner: Any, run: Callable[..., Any], args: Args, noted: Noted
) -> Kind | str:
    """The kind of a call with a new signature, or why it is not one node."""
    call = call_of(noted)
    noted.signature = without_sizes((call.batch.options.without, *key))
    kind = JOINER.derived(call)
    if kind is None:
        call.batch.report.miss(call.cell, owner)
    return make_kind(call, owner, run, args) if kind is None else kind


def recorded(batch: Batch, key: tuple[Any, ...], mode: int) -> Record | None:
    """The record of a signature that was met before, be it of a cell or not; None where that is stale."""
    record = batch.records.get(key)
    if record is not None and (record.guards is None or record.guards.hold()):
        return record
    kind: Kind | None
    variant = None
    if isinstance(key[0], Cell):
        variant = holding(key[0].variants.get((batch.options.without, *key), ()))
        kind = None if variant is None else key[0].kinds.get(variant.key)
        if key[0].by_number:
            batch.report.by_number[key[0].name] = key[0].by_number
    else:
        kind = known_kind(batch, key)
    if kind is None or (isinstance(key[0], Cell) and not current(kind)):
        return None
    batch.report.cache["hits"] += 1
    if variant is not None:
        return put_record(batch.records, key, kind, variant, mode, room_of(kind, batch.options))
    record = batch.records[key] = Record(kind, mode, room_of(kind, batch.options))
    note_operator(batch)
    return record


def record_again(batch: Batch, cell: Cell, owner: Any, key: tuple[Any, ...]) -> tuple[Record, tuple[Any, ...]] | None:
    """The record of a signature that another batch has had, and its key; None where that is not known."""
    record = None if asked_for(owner, batch) else recorded(batch, key, LOCAL.state.mode)
    return None if record is None else (record, key)


_ASKED = ("granularity='op'", "expand")


def asked_for(owner: Any, batch: Batch) -> str:
    """Names what has it that calls of this block are not one node, if something has."""
    if batch.fine and not isinstance(owner, gluon.nn.Embedding):
        return _ASKED[0]
    names = batch.options.expand
    return _ASKED[1] if names and (type(owner).__name__ in names or getattr(owner, "name", None) in names) else ""


def expand(cell: Cell, owner: Any, run: Callable[..., Any] | None, args: Args, reason: str) -> Any:
    """Runs the call itself and captures the operators and inner cells it calls."""
    state = LOCAL.state
    batch: Any = state.batch
    state.inside += 1
    try:
        out = (run or owner.forward)(*args)
        if run is None and state.numpy & ARRAYS:
            _check_all_np_ndarrays(out)
        if reason not in _ASKED:  # noted when it has run: an error says by itself what is wrong
            batch.report.unbatched[cell.name] = reason
            if is_own(owner):
                batch.report.fine.add(cell.name)
        return out
    finally:
        state.inside -= 1
