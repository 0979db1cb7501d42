"""Captures of single operators: a program's operators on arrays outside any cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxnet.ndarray import NDArray, register
from mxnet.ndarray.sparse import BaseSparseNDArray

from gluonjit.compiled import FAST
from gluonjit.engines.mxnet.framework.originals import Attrs, invoke_original, original_invoke
from gluonjit.engines.mxnet.framework.symbols import WRITES, read
from gluonjit.engines.mxnet.operators.table import CONSTANT, ROWS_OF
from gluonjit.engines.mxnet.run.inference import infer, operator_call
from gluonjit.engines.mxnet.run.one_by_one import as_decided
from gluonjit.engines.mxnet.tracing.opkinds import ADDITIONS, operator_kind, sum_kind
from gluonjit.engines.mxnet.values.computing import concrete, created, in_own_memory, waits
from gluonjit.engines.mxnet.values.indexing import by_numbers
from gluonjit.engines.mxnet.values.lazy import Lazy, LazyArray, wrap
from gluonjit.engines.mxnet.values.lazy_np import LazyNumpy, wrap_np
from gluonjit.engines.mxnet.values.lookups import Table, look_up
from gluonjit.engines.mxnet.values.operands import (
    Empty,
    laid,
    leaf,
    made_from_nothing,
    unzipped,
    value_of,
    with_operand,
)
from gluonjit.engines.mxnet.values.recorder import WeightPart
from gluonjit.engines.mxnet.values.references import REFERENCES, Copied
from gluonjit.engines.mxnet.values.weights import SHAPING, is_constant, part_of
from gluonjit.graph import Record, Spec, Value
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.capture.capturing import captured, open_batch, room_of
from gluonjit.hybrid.capture.outlining.free_functions import note_operator
from gluonjit.hybrid.capture.reuse.cache import refuse
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL

# Operands that a layer's weights usually are: a concrete array there is the same for all samples.
_WEIGHTS = {
    "FullyConnected": {1, 2},
    "Convolution": {1, 2},
    "Deconvolution": {1, 2},
    "Embedding": {1},
    "LayerNorm": {1, 2},
    "GroupNorm": {1, 2},
    "InstanceNorm": {1, 2},
    "BatchNorm": {1, 2, 3, 4},
    "RNN": {1},
}
_MANY_TERMS = 4
# Of those whose results have a size that only numbers tell: MXNet leaves the gradient of what they read unwritten.
_WITHOUT_GRADIENT = {"_contrib_getnnz", "_npx_nonzero", "_npi_unique", "_npi_bincount", "_npi_diag_indices_from"}


def capture_op(
    handle: int, arrays: Sequence[Any], keys: Sequence[str], vals: Sequence[Any], is_np: bool, as_list: bool
) -> Any:
    """Captures an operator on arrays; what cannot be captured runs at once. C does the same for what it was told of."""
    state = LOCAL.state
    batch = open_batch(engine_of("mxnet"))
    name, attrs = operator_call(handle, len(arrays), keys, vals)
    if not arrays:
        return _created(batch, handle, name, attrs, is_np, as_list)
    numbered = with_operand(batch, name, arrays, attrs, wrap_np if is_np else wrap)
    if numbered is not None:
        return register._imperative_invoke(*numbered, [], [], None, is_np, as_list)
    sparse = next((array for array in arrays if isinstance(array, BaseSparseNDArray)), None)
    if sparse is not None:
        batch.report.alone[name] = (
            f"an operand is a {type(sparse).__name__}, which has no dense rows; x.tostype('default') has"
        )
        refuse(f"{name} runs when it is called")
        return invoke_original(handle, arrays, keys, vals, None, is_np, as_list)
    weights = _weights(batch, name, arrays)
    if len(weights) == len(arrays):
        part = None
        if name in SHAPING and len(arrays) == 1 and not is_np and not as_list:
            part = part_of(arrays[0], (name, attrs), lambda array: _shaped(handle, array, attrs))
        if part is not None:
            return part
        refuse(f"{name} of parameters alone runs when it is called")
        return invoke_original(handle, arrays, keys, vals, None, is_np, as_list)
    found = _looked_up(batch, name, arrays, attrs, weights, state.mode)
    if found is None and not weights:
        found = by_numbers(batch, name, arrays, attrs, wrap)
    if found is not None:
        return wrapped((found,), is_np, as_list)
    try:
        values = [None if k in weights else value_of(batch, array) for k, array in enumerate(arrays)]
        record, results = _results(batch, handle, name, attrs, arrays, values, state.mode)
        if results is None and any(batch.parameters.get(id(array)).__class__ is WeightPart for array in arrays):
            values = [leaf(batch, array) if value is None else value for value, array in zip(values, arrays)]
            record, results = _results(batch, handle, name, attrs, arrays, values, state.mode)
    except Empty:
        results = None
    if results is None:  # a lazy array that is asked for its handle runs, with its history
        refuse(f"{name} runs when it is called")
        if name in WRITES:  # what has read the arrays runs before they change
            batch.flush("an operator that writes into its operands was called")
            arrays = in_own_memory(arrays)
        elif name in _WITHOUT_GRADIENT:
            arrays = [concrete(array) if isinstance(array, Lazy) else array for array in map(as_decided, arrays)]
        else:
            constant = is_recorded(state.mode)
            arrays = [as_decided(array, constant) for array in arrays]
        return invoke_original(handle, arrays, keys, vals, None, is_np, as_list)
    if FAST is not None:
        if record is None:
            kept = _way(results[0], values)
        else:  # None if its nodes take these values converted
            kept = record if len(record.kind.operands) == len(values) - values.count(None) else None
        if kept is not None:
            FAST.keep_operator(handle, arrays, keys, vals, kept)
    return wrapped(results, is_np, as_list)


def _way(found: Value, values: Sequence[Value | None]) -> Any:
    """Says what else makes such a reference: the mode of values that are joined whole, or how all rows of one look."""
    first = values[0]
    if first is None:
        return None
    if found.base.__class__ is tuple:
        return first.spec.mode
    return found.spec if found.base.__class__ is Copied and found.spec.rows == first.spec.rows else None


def wrapped(values: Sequence[Value], is_np: bool, as_list: bool) -> Any:
    """Lazy arrays of an operator's values, as the operator returns its results."""
    of: Any = wrap_np if is_np else wrap
    return [*map(of, values)] if as_list or len(values) > 1 else of(values[0])


def _weights(batch: Batch, name: str, arrays: Sequence[Any]) -> set[int]:
    """Positions of operands that are the same for all samples."""
    usual = _WEIGHTS.get(name, ())
    parameters = batch.parameters
    return {
        k
        for k, array in enumerate(arrays)
        if not isinstance(array, Lazy) and ((id(array) in parameters and is_constant(batch, array)) or k in usual)
    }


def _shaped(handle: int, array: Any, attrs: Attrs) -> Any:
    """The result of an operator without other operands."""
    return register._imperative_invoke(handle, [array], *unzipped(attrs), None, False, False)


def _created(batch: Batch, handle: int, name: str, attrs: Attrs, is_np: bool, as_list: bool) -> Any:
    """An array made from nothing: made once a batch, unless it is drawn at random."""
    if name not in ROWS_OF or ROWS_OF[name].kind != CONSTANT or as_list:
        refuse(f"{name} runs when it is called")
        return original_invoke(handle, [], *unzipped(attrs), None, is_np, as_list)
    key = handle, attrs, is_np, LOCAL.state.numpy
    array = made_from_nothing(batch, key)
    try:
        value = leaf(batch, array)
    except Empty:
        return array
    return (wrap_np if is_np else wrap)(created(value), array)


def _looked_up(
    batch: Batch, name: str, arrays: Sequence[Any], attrs: Attrs, weights: set[int], mode: int
) -> Value | None:
    if name != "Embedding" or weights != {1}:
        return None
    indices = arrays[0]._c if isinstance(arrays[0], Lazy) else arrays[0]
    if indices is None:
        return None
    return look_up(batch, indices, Table.of(batch, arrays[1], attrs, is_recorded(mode), 1))


def _results(
    batch: Batch,
    handle: int,
    name: str,
    attrs: Attrs,
    arrays: Sequence[Any],
    values: Sequence[Value | None],
    mode: int,
) -> tuple[Record | None, Sequence[Value] | None]:
    """The operator's values and their record, which references have none of; no values where it is not captured."""
    operands = [value for value in values if value is not None]
    specs = tuple([value.spec for value in operands])
    held = batch.parameters.get
    sources = tuple([held(id(array), array) if value is None else value.spec for array, value in zip(arrays, values)])
    reference = REFERENCES.get(name)
    if reference is not None and len(operands) == len(values):
        if is_recorded(mode) or not any(value.taped or _learns(value) for value in operands):
            shaped = tuple((spec.shape, spec.dtype) for spec in specs)
            found = reference(operands, read(attrs), infer(name, attrs, shaped)[0][0])
            if found is not None:
                if isinstance(found.base, Value):
                    found.base = Copied(found.base)
                return None, [found]
    if name in ADDITIONS and len(operands) > _MANY_TERMS and len(set(specs)) == 1 and specs[0].mode == "rows":
        return _sum_of(batch, operands, mode)
    signature = (
        handle,
        attrs,
        mode,
        LOCAL.state.numpy,
        *[id(source) if not isinstance(source, Spec) else source for source in sources],
    )
    record = batch.records.get(signature)
    if record is None:
        kind = operator_kind(batch, signature, handle, name, attrs, sources, operands, mode)
        if kind is None:
            return None, None
        record = batch.records[signature] = Record(kind, mode, room_of(kind, batch.options))
        note_operator(batch)
    if record.kind.apart:
        operands = [laid(batch, value, spec) for value, spec in zip(operands, record.kind.operands)]
    return record, captured(batch, record, operands)


def _learns(value: Value) -> bool:
    """True if a value is a variable of the program's, met while nothing was recorded."""
    return isinstance(value.base, NDArray) and value.base.grad is not None


def _sum_of(batch: Batch, operands: Sequence[Value], mode: int) -> tuple[Record, tuple[Value, ...]]:
    """One node that adds up many arrays of equal spec."""
    spec = operands[0].spec
    kind = sum_kind(spec, len(operands))
    record = batch.records.get((kind, mode, "many"))
    if record is None:
        record = batch.records[(kind, mode, "many")] = Record(kind, mode, 1.0 / batch.options.max_nodes)
    rows = tuple([row for value in operands for row in value.row_list()])
    joined = Value(
        rows,
        max([value.depth for value in operands]),
        kind.operands[0],
        batch.graph,
        is_recorded(mode),
        tuple(operands),
    )
    return record, captured(batch, record, [joined])


def is_pending(arrays: Sequence[Any]) -> bool:
    """True if an operator on these arrays must be captured."""
    for array in arrays:
        if (array.__class__ is LazyArray or array.__class__ is LazyNumpy) and waits(array):
            return True
    return False
