"""From the first call of a signature to its kind: trace it, batch it, or say why it cannot be one node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from mxnet import gluon, nd
from mxnet.gluon.utils import _check_all_np_ndarrays
from mxnet.ndarray import NDArray
from mxnet.numpy import ndarray

from gluonjit.engines.mxnet.framework.arrays import spec_of
from gluonjit.engines.mxnet.framework.blocks import arrays_of, blocks_of
from gluonjit.engines.mxnet.framework.semantics import ARRAYS, as_captured
from gluonjit.engines.mxnet.framework.symbols import STATEFUL
from gluonjit.engines.mxnet.lengths.program import JOINER, typed
from gluonjit.engines.mxnet.operators.table import KNOWN, OPERATORS, work_of
from gluonjit.engines.mxnet.run.program import build, build_for_children, current, program_of
from gluonjit.engines.mxnet.tracing.cell import Cell, UnknownArgument
from gluonjit.engines.mxnet.tracing.following import followed
from gluonjit.engines.mxnet.values.lazy import Lazy, wrap
from gluonjit.engines.mxnet.values.lazy_np import LazyNumpy, wrap_np
from gluonjit.engines.mxnet.values.recorder import Recorder, recording
from gluonjit.engines.mxnet.values.references import Copied
from gluonjit.engines.mxnet.values.weights import WeightArgument
from gluonjit.graph import Kind, Spec, Value, family_key, split_kind
from gluonjit.hybrid.capture.cell import product_kind
from gluonjit.hybrid.capture.children import Maker, TracedKind, join
from gluonjit.hybrid.capture.guards.objects import Refused
from gluonjit.hybrid.capture.guards.variants import Noted, first_difference
from gluonjit.hybrid.capture.structure import Args, Repeated, ResultPlace, items_of, map_structure
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED
from gluonjit.program.axes.values import NotBatchable
from gluonjit.program.hoist import cut, uncut
from gluonjit.program.trace import Built, NeedsValue, Trace, TraceOp, join_family

_MOST, _MOST_BYTES = 4096, 4096
_known: dict[tuple[Spec, bytes], NDArray] = {}
"""By their numbers: traces with equal constants are equal. It is not cleared before the traces are."""


def clear_constants() -> None:
    """Forgets all of them."""
    _known.clear()


def array(source_array: Any, ctx: Any = None, dtype: Any = None) -> Any:
    """Stands in for `nd.array`."""
    if isinstance(source_array, NDArray):
        return nd.array(source_array, ctx, dtype)
    return _constant(nd.array, source_array, ctx, dtype)


def full(shape: Any, val: Any, ctx: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Stands in for `nd.full`."""
    if out is not None or isinstance(val, NDArray):
        return nd.full(shape, val, ctx, dtype, out)
    return _constant(nd.full, shape, val, ctx, *(() if dtype is None else (dtype,)))


def _constant(make: Callable[..., NDArray], *args: Any) -> Any:
    """An array that a traced call makes of numbers, as a constant of its program.

    What the numbers come of is part of the call's signature, or noted by the follower.
    """
    trace = LOCAL.state.trace
    with trace.follower.suspended(), UNCAPTURED, as_captured(0):
        made = make(*args)
        spec = spec_of(made)
        if spec.device != trace.device or not 0 < spec.bytes <= _MOST_BYTES:
            raise NeedsValue
        key = spec, made.asnumpy().tobytes()
        if key not in _known:
            if len(_known) >= _MOST:
                raise NeedsValue
            _known[key] = made
    return wrap(trace.placeholder(trace.include(_known[key]), spec))


INSTEAD: dict[Any, Callable[..., Any]] = {nd.array: array, nd.full: full}
"""What a follower calls in place of functions of MXNet."""


def _adopt(built: Built, kinds: Sequence[Kind]) -> None:
    """Makes the program's parameters those of all."""
    built.program.parameters = [pair for kind in kinds for pair in program_of(kind).parameters]


_CHILDREN = Maker(OPERATORS, lambda item: isinstance(item, NDArray), build_for_children, current, _adopt)


class _Found(NamedTuple):
    """The findings of tracing a call: the trace, where the results are in it and in what the call returns."""

    trace: Trace
    structure: Any


class CellCall(NamedTuple):
    """A call that may become a node, the values of its arrays, and what it reads of Python's state."""

    cell: Cell
    values: Sequence[Value]
    batch: Batch
    noted: Noted


def make_kind(call: CellCall, owner: Any, run: Callable[..., Any], args: Args) -> Kind | str:
    """Traces a call and builds its batched program. A string says why the call cannot be one node."""
    cell, values, batch, noted = call
    found = _traced(owner, run, args, values, batch, noted)
    if isinstance(found, str):
        return found
    trace, structure = noted.traced = found
    leaves = [not value.depth and isinstance(value.base, (Value, Copied)) for value in values]
    if noted.steady(gluon.Block):
        _note_lookup(cell, owner, trace)
    sized = typed(trace)
    known = JOINER.of_other_lengths(call, sized, _flat(structure, trace))
    if known is not None:
        return known
    made = _kind_of(cell, owner, batch, args, trace, structure, leaves)
    return made if isinstance(made, str) else JOINER.join(call, made, sized)


def _traced(
    owner: Any, run: Callable[..., Any], args: Args, values: Sequence[Value], batch: Batch, noted: Noted
) -> _Found | str:
    """Traces what a call does, or says why it cannot be one node."""
    inside = blocks_of(owner) if isinstance(owner, gluon.Block) else ()
    if any(block._forward_hooks or block._forward_pre_hooks for block in inside if block is not owner):
        return "a block inside it has forward hooks, which must run for each sample"
    specs = [value.spec for value in values]
    devices = {str(spec.device) for spec in specs}
    if len(devices) > 1:
        return f"its operands are on several devices: {', '.join(sorted(devices))}"
    trace = Recorder(
        specs, LOCAL.state.mode, lambda array: id(array) in batch.parameters or bool(_parameters(owner, [array]))
    )
    placeholders = iter([trace.placeholder(position, spec) for position, spec in enumerate(specs)])

    def stand_in(item: Any) -> Any:
        if item.__class__ is WeightArgument:
            array = item.array
            return trace.stand_in(array, wrap_np if isinstance(array, ndarray) else wrap)
        if not isinstance(item, NDArray):
            return item
        return (wrap_np if isinstance(item, ndarray) else wrap)(next(placeholders))

    try:
        with recording(trace):
            result = followed(trace, owner, run, map_structure(args, stand_in, False), noted, INSTEAD)
        if isinstance(owner, gluon.Block) and LOCAL.state.numpy & ARRAYS:
            _check_all_np_ndarrays(result)
    except Refused as refusal:
        return refusal.args[0]  # type: ignore[no-any-return]
    except NeedsValue:
        return (
            "it reads an array's numbers, writes to an array, or uses one that is neither an argument nor a parameter"
        )
    except RecursionError:  # the program's own depth: says nothing about the cell
        raise
    except Exception as error:  # the call itself, run next, raises what the user has to see
        return f"tracing it raised {type(error).__name__}: {error}"
    results: list[int] = []
    try:
        met: dict[int, int] = {}
        structure = map_structure(result, lambda array: _result(trace, array, results, met), False)
    except UnknownArgument as unknown:
        return f"it returns {unknown}"
    arrays = {id(array): array for array in items_of(result, NDArray)}
    shared = _shared(trace, arrays) if isinstance(owner, gluon.Block) else ""
    if shared:
        return shared
    views = {
        met[k]: ResultPlace.of(met[k], (met[id(one._b)], one._k)) for k, one in arrays.items() if id(one._b) in met
    }
    if views:
        structure = map_structure(structure, lambda at: views.get(at, at) if at.__class__ is int else at, False)
    return _Found(trace.finish(results, noted.asked, whole=True), structure)


def difference(
    owner: Any, run: Callable[..., Any], args: Args, values: Sequence[Value], batch: Batch, before: _Found
) -> str:
    """Says what a call does otherwise than when it was traced; "" where that is the same."""
    found = _traced(owner, run, args, values, batch, Noted())
    if isinstance(found, str):
        return found
    one, other = [
        [*of.trace.listing(), [id(array) for array in of.trace.consts], of.structure] for of in (before, found)
    ]
    return first_difference(one, other)


def _shared(trace: Recorder, arrays: dict[int, Any]) -> str:
    """Says what memory the results of a block share, other than a view and the result that it shows; "" if none."""
    views: dict[int, list[Any]] = {}
    for array in arrays.values():
        base = array if array._b is None else array._b
        if base._v.rows < len(trace.operands):
            return "it returns an argument, or a view of one: a write to the return value is a write to the argument"
        if id(base) not in arrays:
            views.setdefault(id(base), []).append(array._k)
    shown = [keys for keys in views.values() if len(keys) > 1]
    if all(len({key for key in keys if key.__class__ is int}) == len(keys) for keys in shown):
        return ""
    return "its results share memory: a write to one is a write to the other"


def _result(trace: Recorder, array: Any, results: list[int], met: dict[int, int]) -> int:
    """The place of a result among the node's values; for one of mx.np what is left of -1 after it."""
    if not isinstance(array, Lazy) or array._v.graph is not trace:
        raise UnknownArgument(f"{type(array).__name__}, which is not computed from its arguments")
    if id(array) in met:
        return Repeated(met[id(array)])
    results.append(array._v.rows)  # type: ignore[arg-type]
    place = len(results) - 1
    met[id(array)] = place = ~place if isinstance(array, LazyNumpy) else place
    return place


def _kind_of(
    cell: Cell,
    owner: Any,
    batch: Batch,
    args: Args,
    trace: Trace,
    structure: Any,
    leaves: list[bool],
) -> Kind | str:
    parameters = _parameters(owner, trace.consts, batch.noted.values())
    without = batch.options.without
    hoists = "hoisting" not in without and not any(map(_keeps_state, trace.ops))
    pieces = (cut(trace, leaves, OPERATORS.call_of) if hoists else None) or uncut(trace)
    rest = pieces.rest
    try:
        products = [
            (piece.operand, product_kind(cell, piece.trace, without, build, work_of)) for piece in pieces.pieces
        ]
        built = build(rest)
    except NotBatchable as refusal:
        return str(refusal)
    built.program.parameters = parameters
    kind = built.kind(cell.name, rest, work_of, structure=_flat(structure, trace))
    # What a call is given, a list or a tuple, two rows or five, may or may not change what it does: the trace knows.
    specs = [family_key(spec) if kind.poly else spec for spec in rest.operands]
    key = (without, rest.training, kind.poly, *specs, *rest.listing(), *map(id, rest.consts))
    join_family(cell.families, key, kind)
    if "arity" not in without and kind.pure:
        traced = TracedKind(kind, rest, pieces.origins)
        kind = join(_CHILDREN, cell, (without, trace.training, LOCAL.state.numpy), args, trace.operands, traced, batch)
    if rest is not trace:
        kind = split_kind(trace.operands, kind, pieces.kept, products)
    kind.call = trace
    return kind


def _flat(structure: Any, trace: Trace) -> Any:
    """The structure of what a call returns, as a kind has it."""
    if isinstance(structure, int):
        return {0: None, ~0: LazyNumpy}[structure]
    flat = type(structure) is tuple and list(structure) == list(range(len(trace.results)))
    return tuple if flat else structure


def _keeps_state(op: TraceOp) -> bool:
    """True if an operator does more than to give results, so that no trace may lose it."""
    return op.name not in KNOWN or op.name in STATEFUL


def _note_lookup(cell: Cell, owner: Any, trace: Trace) -> None:
    """Remembers a cell that is nothing but a look-up in one of its parameters."""
    if len(trace.ops) != 1 or trace.ops[0].name != "Embedding" or len(trace.consts) != 1:
        return
    op = trace.ops[0]
    if op.inputs == (0, 1) and trace.results == op.outputs and len(trace.operands) == 1:
        found = _parameters(owner, trace.consts)
        if found and trace.operands[0].shape == trace.shapes[0][0] and len(trace.operands[0].shape) == 1:
            cell.lookup = (found[0][0], op.attrs)


def _parameters(owner: Any, consts: Sequence[Any], others: Iterable[gluon.Block] = ()) -> list[tuple[Any, Any]]:
    """Selects those of these arrays that are parameters of the owner, or else of other blocks."""
    found: list[tuple[Any, Any]] = []
    left = {id(array) for array in consts}
    for block in (owner, *others):
        if left and isinstance(block, gluon.Block):
            for parameter, array in arrays_of(block):
                if id(array) in left:
                    left.remove(id(array))
                    found.append((parameter, array))
    return found
