"""Capture of a whole call as one node: HybridBlocks, and functions declared with `gluonjit.cell`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from types import ModuleType
from typing import Any
from weakref import WeakSet

from mxnet import gluon
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet import rules
from gluonjit.engines.mxnet.hooked import current_mode
from gluonjit.engines.mxnet.lazy import LazyArray, wrap
from gluonjit.engines.mxnet.lookups import look_up, table_of
from gluonjit.engines.mxnet.operands import value_of
from gluonjit.engines.mxnet.program import build
from gluonjit.engines.mxnet.trace import NeedsValue, Trace, map_structure, tracing
from gluonjit.graph import Graph, Kind, Record, Rows, Spec, Value
from gluonjit.hybrid import Batch, Options, engine_of, LOCAL

_MOST_KINDS = 4096
_CONSTANTS = (type(None), bool, int, float, str, ModuleType, gluon.Block, type)


_cells: WeakSet[Cell] = WeakSet()


def cells_known() -> list[Cell]:
    """Every cell there is."""
    return list(_cells)


class Unknown(Exception):
    """An argument that can be no part of a cell's signature."""


class Cell:
    """What is known of one cell: its options, its kinds by signature, and why some calls are not one node.

    A copy or a pickle of a block gets a cell of its own, with the same options and nothing cached.
    """

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self.options = options
        self.active: bool | None = None  # what HybridBlock's own hybridization was before
        self.kinds: dict[Any, Kind] = {}
        self.expanded: dict[Any, str] = {}
        self.is_node = False
        self.lookup: Any = None
        _cells.add(self)

    def clear(self) -> None:
        """Forget what was traced."""
        self.kinds.clear()
        self.expanded.clear()
        self.lookup = None

    def __reduce__(self) -> Any:
        return _copied, (self.name, self.options, self.active, self.is_node)

    def __deepcopy__(self, memo: Any) -> Cell:
        return _copied(self.name, self.options, self.active, self.is_node)


def _copied(name: str, options: Options, active: bool | None, is_node: bool) -> Cell:
    cell = Cell(name, options)
    cell.active, cell.is_node = active, is_node
    return cell


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
        record = _record(cell, owner, run, args, batch, key)
        if isinstance(record, str):
            return expand(cell, run, args, record, batch)
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
    if kind is not None and _current(kind):
        cache["hits"] += 1
    else:
        cache["misses"] += 1
        made = _make_kind(cell, owner, run, args, batch, key)
        if isinstance(made, str):
            cell.expanded[key] = made
            return made
        kind = made
        if len(cell.kinds) >= _MOST_KINDS:
            cell.kinds.clear()
        cell.kinds[key] = kind
    share = max(1.0 / batch.options.max_nodes, kind.bytes / batch.options.max_bytes)
    record = batch.records[key] = Record(kind, LOCAL.state.mode, share)
    return record


def _current(kind: Kind) -> bool:
    """Whether the parameters still are the arrays that the program was traced with."""
    return all(
        parameter._data is not None and any(array is data for data in parameter._data)
        for parameter, array in kind.program.parameters
    )


def _make_kind(
    cell: Cell, owner: Any, run: Callable[..., Any], args: tuple[Any, ...], batch: Batch, key: tuple[Any, ...]
) -> Kind | str:
    """Trace a call and build its batched program. A string says why the call cannot be one node."""
    if isinstance(owner, gluon.Block) and _hooked(owner):
        return "a block inside it has forward hooks, which must run for each sample"
    values: list[Value] = []
    _visit(args, lambda array: values.append(value_of(batch, array)))
    specs = [value.spec for value in values]
    devices = {str(spec.device) for spec in specs}
    if len(devices) > 1:
        return f"its operands are on several devices: {', '.join(sorted(devices))}"
    trace = Trace(specs, bool(LOCAL.state.mode & 1), lambda array: _is_parameter(owner, batch, array))
    positions = iter(range(len(specs)))
    stand_ins = _substitute(args, lambda array: wrap(_placeholder(trace, next(positions), specs)))
    try:
        with tracing(trace):
            result = run(*stand_ins)
    except NeedsValue:
        return "it reads an array's numbers, or uses an array that is neither an argument nor a parameter"
    except Exception as error:  # the call itself, run next, raises what the user has to see
        return f"tracing it raised {type(error).__name__}: {error}"
    results: list[int] = []
    try:
        structure = map_structure(result, lambda array: _result(trace, array, results))
    except Unknown as unknown:
        return f"it returns {unknown}"
    return _kind_of(cell, owner, trace, results, structure)


def _placeholder(trace: Trace, position: int, specs: Sequence[Spec]) -> Value:
    return trace.placeholder(position, specs[position])


def _result(trace: Trace, array: Any, results: list[int]) -> int:
    """The place of a result among the node's values."""
    if not isinstance(array, LazyArray) or array._v.graph is not trace:
        raise Unknown(f"{type(array).__name__}, which is not computed from its arguments")
    results.append(array._v.rows)  # type: ignore[arg-type]
    return len(results) - 1


def _kind_of(cell: Cell, owner: Any, trace: Trace, results: list[int], structure: Any) -> Kind | str:
    _note_lookup(cell, owner, trace, results)
    poly = any(spec.mode == "rows" and spec.rows > 1 for spec in trace.operands)
    try:
        try:
            program, outputs, rows, pure = build(trace, results, poly)
        except rules.NotBatchable:
            if not poly:
                raise
            poly = False
            program, outputs, rows, pure = build(trace, results, poly)
    except rules.NotBatchable as refusal:
        return str(refusal)
    program.parameters = _parameters(owner, program.consts)
    flat = isinstance(structure, tuple) and list(structure) == list(range(len(results)))
    return Kind(
        name=cell.name,
        operands=trace.operands,
        outputs=outputs,
        rows=rows,
        program=program,
        pure=pure,
        poly=poly,
        structure=None if structure == 0 and len(results) == 1 else tuple if flat else structure,
    )


def _note_lookup(cell: Cell, owner: Any, trace: Trace, results: list[int]) -> None:
    """Remember a cell that is nothing but a look-up in one of its parameters."""
    if len(trace.ops) != 1 or trace.ops[0].name != "Embedding" or len(trace.consts) != 1:
        return
    op = trace.ops[0]
    if op.inputs == (0, trace.consts[0][0]) and results == list(op.outputs) and len(trace.operands) == 1:
        found = _parameters(owner, [trace.consts[0][1]])
        if found and trace.operands[0].shape == trace.shapes[0][0] and len(trace.operands[0].shape) == 1:
            cell.lookup = (found[0][0], op.attrs)


def _parameters(owner: Any, consts: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Which of these arrays are parameters of the owner."""
    if not isinstance(owner, gluon.Block):
        return []
    found = []
    for parameter in owner.collect_params().values():
        for data in parameter._data or ():
            found += [(parameter, array) for array in consts if array is data]
    return found


def _is_parameter(owner: Any, batch: Batch, array: Any) -> bool:
    return id(array) in batch.parameters or bool(_parameters(owner, [array]))


def _hooked(block: gluon.Block) -> bool:
    return any(
        child._forward_hooks or child._forward_pre_hooks or _hooked(child) for child in block._children.values()
    )


def _visit(item: Any, visit: Callable[[Any], Any]) -> None:
    if isinstance(item, NDArray):
        visit(item)
    elif isinstance(item, (list, tuple)):
        for part in item:
            _visit(part, visit)


def _substitute(item: Any, visit: Callable[[Any], Any]) -> Any:
    """Nested arguments with every array replaced."""
    if isinstance(item, NDArray):
        return visit(item)
    if isinstance(item, (list, tuple)):
        parts = [_substitute(part, visit) for part in item]
        return tuple(parts) if isinstance(item, tuple) else parts
    return item


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


def any_lazy(items: Any) -> bool:
    """Whether an array among these arguments waits for its batch."""
    for item in items:
        if item.__class__ is LazyArray:
            if item._c is None:
                return True
        elif isinstance(item, (list, tuple)) and any_lazy(item):
            return True
    return False
