"""Capture of a whole call as one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from types import FunctionType
from typing import Any
from weakref import WeakSet, ref

import torch

from gluonjit.analysis import Plan
from gluonjit.compiled import FAST
from gluonjit.engines.torch.cell import Cell
from gluonjit.engines.torch.hooked import autocast, current_mode
from gluonjit.engines.torch.kinds import Plain, attributes, make_kind
from gluonjit.engines.torch.lazy import LazyTensor, wrap
from gluonjit.engines.torch.lookups import look_up, table_of
from gluonjit.engines.torch.operands import Unfit, leaf, value_of, version_of
from gluonjit.engines.torch.structure import Constant, map_structure
from gluonjit.errors import CaptureError
from gluonjit.graph import Kind, Record, Value
from gluonjit.hybrid import LOCAL, RUNNING, Batch, Options, Report, engine_of

_MOST_KINDS = 4096
_CONSTANTS = (
    type(None),
    bool,
    int,
    float,
    str,
    type,
    FunctionType,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.nn.Module,
    type(Ellipsis),
)


def casts() -> tuple[Any, ...]:
    """What torch.autocast casts to, by the kind of device, where it is on."""
    return tuple([(name, torch.get_autocast_dtype(name)) for name in _AUTOCAST if torch.is_autocast_enabled(name)])


_AUTOCAST = [name for name in ("cpu", "cuda", "xpu", "mps") if torch.amp.is_autocast_available(name)]

PARTS: WeakSet[Any] = WeakSet()
"""Modules that are part of a cell: a change of one's attributes may change what the cell does."""


class Refusal(Exception):
    """A call that is not one node; the text says why."""


def open_batch(options: Options | None = None) -> Batch:
    """The open batch of this thread, with room for one more node."""
    state = LOCAL.state
    batch = state.batch
    engine = engine_of("torch")
    if batch is None or batch.engine is not engine:
        state.mode = current_mode()
        batch = state.open(engine, options)
    if batch.room < 0:
        batch.flush("the open batch is full (max_nodes, max_bytes)")
    return batch


def capture(
    cell: Cell, owner: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], batch: Batch
) -> Any:
    """Capture `run(*args, **kwargs)` as one node of the batch. Raises Refusal where that cannot be.

    `owner` is the module whose parameters it may use, or None.
    """
    begin = 0.0 if LOCAL.state.inside else perf_counter()
    graph = batch.graph
    learning = torch.is_grad_enabled()
    if cell.lookup is not None and len(args) == 1 and not kwargs:
        found = captured_lookup(cell, batch, args[0], learning)
        if found is not None:
            return found
    if FAST is not None and (owner is None or begin):  # other calls of modules were there already
        found = FAST.capture(cell, owner, args, kwargs)
        if found is not None:
            if begin:
                batch.report.note(cell.name, "capture", begin, perf_counter())
            return found
    signature: list[Any] = [cell, learning, casts() if autocast() else False]
    if owner is not None:
        signature.append(batch.changes)
    values: list[Value] = []
    for arg in args:
        if arg.__class__ is LazyTensor and arg._v.graph is graph:
            values.append(arg._v)
            signature.append(arg._v.spec)
        else:
            _flatten(arg, owner, batch, signature, values)
    for name, arg in kwargs.items():
        signature.append(name)
        _flatten(arg, owner, batch, signature, values)
    taped = False
    depth = 0
    for value in values:
        if value.depth > depth:
            depth = value.depth
        if value.taped:
            taped = True
    signature.append(taped and learning)
    key = tuple(signature)
    record = batch.records.get(key)
    if record is None:
        made = _record(cell, owner, run, args, kwargs, values, batch, key)
        if cell.lookup is not None and len(args) == 1:
            found = captured_lookup(cell, batch, args[0], learning)
            if found is not None:
                return found
        if not isinstance(made, Record):
            return rebuild(made, (), values)
        record = made
    rows = tuple([value.rows for value in values])
    shared = record.kind.pure and batch.sharing
    results = record.memo.get(rows) if shared else None
    if results is None:
        results = graph.add_node(record, rows, depth + 1, 4)
        batch.room -= record.share
        if shared:
            record.memo[rows] = results
    record.calls += 1
    if begin:
        batch.report.note(cell.name, "capture", begin, perf_counter())
    structure = record.kind.structure
    if structure is None:
        return wrap(results[0])
    if structure is tuple:
        return tuple([wrap(value) for value in results])
    return rebuild(structure, results, values)


def rebuild(structure: Any, results: tuple[Value, ...], values: Sequence[Value]) -> Any:
    """What a call returns, of the results of its node and the values of its arguments."""
    return map_structure(structure, lambda place: _result(place, values, results))


def _result(place: Any, values: Sequence[Value], results: tuple[Value, ...]) -> Any:
    if place.__class__ is Constant:
        return place.value
    return wrap(results[place]) if place >= 0 else wrap(values[~place])


def weights_of(kind: Kind) -> list[Any]:
    """The weights that calls of a kind use."""
    products = () if kind.split is None else kind.split.products
    return [*kind.program.consts, *[tensor for _, product in products for tensor in product.program.consts]]


def learns(kind: Kind) -> bool:
    """Whether gradients go to any of the weights that a kind uses."""
    return any(tensor.requires_grad for tensor in weights_of(kind))


def share_of(kind: Kind, batch: Batch) -> float:
    """The part of a batch's room that a node takes."""
    return max(1.0 / batch.options.max_nodes, kind.bytes / batch.options.max_bytes)


def _flatten(arg: Any, owner: Any, batch: Batch, signature: list[Any], values: list[Value]) -> None:
    """Append an argument's values and plain constants. Raises Refusal where it holds something else."""
    kind = arg.__class__
    if kind is tuple or kind is list or kind is torch.Size:
        signature.append(kind)
        graph = batch.graph
        for item in arg:
            if item.__class__ is LazyTensor and item._v.graph is graph:
                values.append(item._v)
                signature.append(item._v.spec)
            else:
                _flatten(item, owner, batch, signature, values)
        signature.append(None)
    elif arg is owner:
        signature.append(arg)
    elif isinstance(arg, torch.Tensor):
        if kind is not LazyTensor and (isinstance(arg, torch.nn.Parameter) or id(arg) in batch.parameters):
            signature.append(("constant", id(arg)))
            return
        try:
            value = value_of(batch, arg)
        except Unfit as unfit:
            raise Refusal(str(unfit)) from None
        values.append(value)
        signature.append(value.spec)
    elif kind is slice:
        signature.append(slice)
        for item in (arg.start, arg.stop, arg.step):
            _flatten(item, owner, batch, signature, values)
    elif isinstance(arg, _CONSTANTS):
        signature.append((kind, arg if arg or kind is not float else str(arg)))  # 0.0 == -0.0
    elif isinstance(arg, tuple) and hasattr(kind, "_make"):
        signature.append(kind)
        for item in arg:
            _flatten(item, owner, batch, signature, values)
    elif isinstance(arg, dict) and all(isinstance(name, str) for name in arg):
        signature.append((kind, *arg))
        for item in arg.values():
            _flatten(item, owner, batch, signature, values)
    else:
        why = f"an argument is a {kind.__name__}, which is neither a tensor nor a plain constant"
        if not issubclass(kind, dict):  # whether one of these is depends on its keys
            batch.foreign[kind] = why
        raise Refusal(why)


def foreign(batch: Batch, args: tuple[Any, ...]) -> str:
    """Why calls with these arguments are no node, where their classes say so; "" where they may be."""
    for arg in args:
        why = batch.foreign.get(arg.__class__)
        if why is not None:
            return why
    return ""


def captured_lookup(cell: Cell, batch: Batch, indices: Any, learning: bool) -> Any:
    """A call that is nothing but a look-up, by integers that are known."""
    if indices.__class__ is LazyTensor:
        indices = indices._c
    if not isinstance(indices, torch.Tensor):
        return None
    weight, attrs, module = cell.lookup
    if batch.noted.get((cell, "look-up")) != batch.changes:  # once a batch, and when something has changed
        owner = module()
        if owner is not None and attributes(owner) != cell.seen:
            cell.clear()
            batch.changes += 1
            return None
        batch.noted[cell, "look-up"] = batch.changes
    table = table_of(batch, weight, attrs, learning and weight.requires_grad)
    batch.tables[cell, learning, batch.changes] = table  # where C finds it
    value = look_up(batch, indices, table)
    return None if value is None else wrap(value)


_ASKED = ("granularity='op'", "expand")


def _asked_for(cell: Cell, owner: Any, batch: Batch) -> str:
    """What has it that calls of this cell are not one node, if something has."""
    if cell.operator:
        return ""
    if batch.setting.granularity == "op" and not isinstance(owner, torch.nn.Embedding):
        return _ASKED[0]
    names = batch.options.expand
    return _ASKED[1] if names and (type(owner).__name__ in names or cell.name in names) else ""


def _record(
    cell: Cell,
    owner: Any,
    run: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    values: list[Value],
    batch: Batch,
    key: tuple[Any, ...],
) -> Record | Any:
    """The record of a signature in the open batch; for a call without tensors what it gives. Raises Refusal."""
    asked = _asked_for(cell, owner, batch)
    if asked:
        raise Refusal(asked)
    looks = () if cell.stateless else _looks(owner, batch)
    if cell.seen is not None and cell.seen != looks:
        cell.clear()
    if cell.never:
        raise Refusal(cell.never)
    training = getattr(owner, "training", None)
    wanted = (batch.options.without, training, *(key if owner is None else (*key[:3], *key[4:])))
    reason = cell.expanded.get(wanted)
    if reason is not None:
        raise Refusal(reason)
    if wanted in cell.plain:
        return cell.plain[wanted]
    kind = cell.kinds.get(wanted)
    cache = batch.report.cache
    if kind is not None:
        cache["hits"] += 1
    else:
        cache["misses"] += 1
        batch.report.missed = cell.name
        if len(cell.kinds) + len(cell.expanded) + len(cell.plain) >= _MOST_KINDS:
            cell.clear()
        cell.seen = looks
        made = _made(cell, owner, run, args, kwargs, values, batch, wanted)
        if not isinstance(made, Kind):
            return made
        kind = cell.kinds[wanted] = made
    if cell.by_number:
        batch.report.by_number[cell.name] = cell.by_number
    taped = key[-1] or (key[1] and learns(kind))
    note_constants(batch, kind)
    record = batch.records[key] = Record(kind, 2 if taped else 0, share_of(kind, batch))
    return record


def _looks(owner: Any, batch: Batch) -> Any:
    """What a module's program may depend on; a change of that is noticed from now on, and counts."""
    key = (id(owner), batch.changes)
    found = batch.looks.get(key)
    if found is None:
        if owner is not None:
            PARTS.update(owner.modules())
        found = batch.looks[key] = attributes(owner)
    return found


VERSIONS = -1  # in `batch.noted`, beside addresses of modules


def note_constants(batch: Batch, kind: Kind) -> None:
    """Remember how often the weights of a kind have been written to."""
    versions = batch.noted.setdefault(VERSIONS, {})
    for tensor in weights_of(kind):
        versions.setdefault(id(tensor), (tensor, version_of(tensor), tensor.data_ptr()))


def check_constants(report: Report, plan: Plan) -> None:
    """Raise where a weight was written to since calls that use it were captured in the batch that is being run."""
    state = LOCAL.state
    used = {id(tensor) for step in plan.steps for tensor in step.kind.program.consts}
    for batch in (*state.explicit, state.batch):
        if batch is not None and batch.report is report:
            for tensor, version, address in batch.noted.pop(VERSIONS, {}).values():
                if id(tensor) in used and (version_of(tensor) != version or tensor.data_ptr() != address):
                    raise CaptureError(
                        f"a weight of shape {tuple(tensor.shape)} was written to after calls that use it were "
                        f"captured and before they ran. Read a result of theirs before (or call batch.flush), which "
                        f"runs them."
                    )


def _made(
    cell: Cell,
    owner: Any,
    run: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    values: list[Value],
    batch: Batch,
    wanted: tuple[Any, ...],
) -> Any:
    try:
        with RUNNING:
            made = make_kind(cell, owner, run, args, kwargs, values, batch)
    except Plain as plain:
        cell.plain[wanted] = plain.structure
        return plain.structure
    if isinstance(made, str):
        cell.expanded[wanted] = made
        raise Refusal(made)
    _note_lookup(cell, made, owner)
    return made


def _note_lookup(cell: Cell, kind: Kind, owner: Any) -> None:
    """Remember a cell that is nothing but a look-up in one of its parameters."""
    trace = kind.program.trace
    if cell.operator or kind.split is not None:
        return
    if len(trace.ops) != 1 or trace.ops[0].name != "embedding.default" or len(trace.consts) != 1:
        return
    (op,) = trace.ops
    if op.inputs == (trace.consts[0][0], 0) and len(trace.operands) == 1 and kind.structure is None:
        attrs = tuple([(name, value) for name, value in op.attrs if name not in ("weight", "indices")])
        cell.lookup = (trace.consts[0][1], attrs, _nothing if owner is None else ref(owner))


def _nothing() -> None:
    """Where no module has the table."""


def expand(cell: Cell, run: Callable[..., Any], args: Any, kwargs: Any, reason: str, batch: Batch) -> Any:
    """Run the call itself and capture the operators and inner cells it calls."""
    state = LOCAL.state
    state.inside += 1
    try:
        out = run(*map_structure(args, as_lazy), **kwargs)
        if reason not in _ASKED:  # noted when it has run: an error says by itself what is wrong
            batch.report.unbatched[cell.name] = reason
        return out
    finally:
        state.inside -= 1


def as_lazy(arg: Any) -> Any:
    """An argument of a program that is captured: tensors are lazy there, so that slices of them are rows."""
    batch = LOCAL.state.batch
    if arg.__class__ is not torch.Tensor or batch is None:
        return arg
    try:
        value = leaf(batch, arg)
    except Unfit:
        return arg
    found = wrap(value)
    found._c = arg
    return found
