"""Capture of a whole call as one node."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from types import ModuleType
from typing import Any

from mxnet import gluon
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.cell import Cell, Unknown
from gluonjit.engines.mxnet.hooked import current_mode
from gluonjit.engines.mxnet.kinds import current, make_kind
from gluonjit.engines.mxnet.lazy import LazyArray, wrap
from gluonjit.engines.mxnet.lookups import look_up, table_of
from gluonjit.engines.mxnet.operands import value_of
from gluonjit.engines.mxnet.trace import map_structure
from gluonjit.graph import Graph, Record, Rows
from gluonjit.hybrid import LOCAL, Batch, engine_of

_MOST_KINDS = 4096
_CONSTANTS = (type(None), bool, int, float, str, ModuleType, gluon.Block, type)


def capture_cell(cell: Cell, owner: Any, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Capture `run(*args)` as one node; where that cannot be, run it and capture what it calls.

    `owner` is the Block whose parameters it may use, or None.
    """
    state = LOCAL.state
    batch = state.batch
    if batch is None:
        state.mode = current_mode()
        batch = state.open(engine_of("mxnet"), cell.options)
    if batch.room < 0:
        batch.flush("the open batch is full (max_nodes, max_bytes)")
    begin = 0.0 if state.inside else perf_counter()
    graph = batch.graph
    if cell.lookup is not None and len(args) == 1:
        found = _captured_lookup(cell, batch, args[0], state.mode)
        if found is not None:
            return found
    signature: list[Any] = [cell, state.mode]
    rows: list[Rows] = []
    depth = 0
    for arg in args:
        if arg.__class__ is LazyArray:
            value = arg._v
            if value.graph is not graph:
                value = value_of(batch, arg)
            signature.append(value.spec)
            rows.append(value.rows)
            if value.depth > depth:
                depth = value.depth
        elif arg.__class__ is tuple:
            signature.append(tuple)
            for item in arg:
                if item.__class__ is LazyArray and item._v.graph is graph:
                    value = item._v
                    signature.append(value.spec)
                    rows.append(value.rows)
                    if value.depth > depth:
                        depth = value.depth
                else:
                    try:
                        depth = _flatten(item, batch, graph, signature, rows, depth)
                    except Unknown as unknown:
                        return expand(cell, run, args, f"an argument is {unknown}", batch)
            signature.append(None)
        else:
            try:
                depth = _flatten(arg, batch, graph, signature, rows, depth)
            except Unknown as unknown:
                return expand(cell, run, args, f"an argument is {unknown}", batch)
    key = tuple(signature)
    record = batch.records.get(key)
    if record is None:
        made = _record(cell, owner, run, args, batch, key)
        if isinstance(made, str):
            return expand(cell, run, args, made, batch)
        record = made
        if cell.lookup is not None:
            return capture_cell(cell, owner, run, args)
    record.calls += 1
    operands = tuple(rows)
    kind = record.kind
    if kind.pure and batch.sharing:
        values = record.memo.get(operands)
        if values is None:
            values = record.memo[operands] = graph.add_node(record, operands, depth + 1)
            batch.room -= record.share
    else:
        values = graph.add_node(record, operands, depth + 1)
        batch.room -= record.share
    if begin:
        batch.report.ms["capture"] += (perf_counter() - begin) * 1e3
    structure = kind.structure
    if structure is None:
        return wrap(values[0])
    if structure is tuple:
        return tuple([wrap(value) for value in values])
    return map_structure(structure, lambda position: wrap(values[position]))


def _flatten(arg: Any, batch: Batch, graph: Graph, signature: list[Any], rows: list[Rows], depth: int) -> int:
    """Append an argument's part of the signature and its operands; returns the depth so far."""
    kind = arg.__class__
    if kind is LazyArray or isinstance(arg, NDArray):
        value = value_of(batch, arg)
        signature.append(value.spec)
        rows.append(value.rows)
        return value.depth if value.depth > depth else depth
    if kind is tuple or kind is list:
        signature.append(kind)
        for item in arg:
            if item.__class__ is LazyArray and item._v.graph is graph:
                value = item._v
                signature.append(value.spec)
                rows.append(value.rows)
                if value.depth > depth:
                    depth = value.depth
            else:
                depth = _flatten(item, batch, graph, signature, rows, depth)
        signature.append(None)
        return depth
    if isinstance(arg, _CONSTANTS):
        signature.append((kind, arg))
        return depth
    raise Unknown(f"a {kind.__name__}, which is neither an array nor a plain constant")


def _captured_lookup(cell: Cell, batch: Batch, indices: Any, mode: int) -> Any:
    """A call that is nothing but a look-up, by integers that are known."""
    array = indices._c if indices.__class__ is LazyArray else indices
    if not isinstance(array, NDArray):
        return None
    table = batch.tables.get((cell, mode >= 2))
    if table is None:
        parameter, attrs = cell.lookup
        table = table_of(batch, parameter.data(array.context), attrs, mode >= 2)
        batch.tables[(cell, mode >= 2)] = table
    value = look_up(batch, array, table)
    return None if value is None else wrap(value)


def _record(
    cell: Cell, owner: Any, run: Callable[..., Any], args: tuple[Any, ...], batch: Batch, key: tuple[Any, ...]
) -> Record | str:
    """The record of a signature in the open batch, or why a call of this signature is not one node."""
    if batch.options.granularity == "op" and not isinstance(owner, gluon.nn.Embedding):
        return "granularity='op'"
    reason = cell.expanded.get(key)
    if reason is not None:
        return reason
    kind = cell.kinds.get(key)
    cache = batch.report.cache
    if kind is not None and current(kind):
        cache["hits"] += 1
    else:
        cache["misses"] += 1
        made = make_kind(cell, owner, run, args, batch, key)
        if isinstance(made, str):
            cell.expanded[key] = made
            return made
        kind = made
        if len(cell.kinds) >= _MOST_KINDS:
            cell.clear()
        cell.kinds[key] = kind
    share = max(1.0 / batch.options.max_nodes, kind.bytes / batch.options.max_bytes)
    record = batch.records[key] = Record(kind, LOCAL.state.mode, share)
    return record


def expand(cell: Cell, run: Callable[..., Any], args: tuple[Any, ...], reason: str, batch: Batch) -> Any:
    """Run the call itself and capture the operators and inner cells it calls."""
    if reason != "granularity='op'":
        batch.report.unbatched[cell.name] = reason
    state = LOCAL.state
    state.inside += 1
    try:
        return run(*args)
    finally:
        state.inside -= 1
