"""Captures of a whole call as one node: of a cell, or of a single operator, PyTorch's or our own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from types import FunctionType
from typing import Any

import torch

from gluonjit.compiled import FAST
from gluonjit.engines.torch.capture.records import ASKED, NotOneNode, looks_of, record_of, wanted_by
from gluonjit.engines.torch.framework.arrays import spec_of
from gluonjit.engines.torch.framework.buffers import WeightView, in_weight, passes_as_constant
from gluonjit.engines.torch.framework.originals import autocast
from gluonjit.engines.torch.framework.structure import Written
from gluonjit.engines.torch.tracing.cell import Call, Cell
from gluonjit.engines.torch.tracing.kinds import difference
from gluonjit.engines.torch.tracing.returned import EXPANDS
from gluonjit.engines.torch.tracing.view_steps import show
from gluonjit.engines.torch.values.known import known, may_be_known
from gluonjit.engines.torch.values.lazy import LazyTensor, as_known, noted, take_anew, wrap
from gluonjit.engines.torch.values.lookups import Table, look_up
from gluonjit.engines.torch.values.operands import NotAnOperand, current, leaf, value_of
from gluonjit.engines.torch.values.opkinds import laid, laid_out
from gluonjit.engines.torch.values.pending_statistics import WAITING, PendingStatistic
from gluonjit.graph import Record, Spec, Value
from gluonjit.hybrid.capture import capturing
from gluonjit.hybrid.capture.arguments import LentArguments
from gluonjit.hybrid.capture.capturing import captured
from gluonjit.hybrid.capture.guards.objects import OWN_ARRAY, Eagerly
from gluonjit.hybrid.capture.guards.owners import is_user_class
from gluonjit.hybrid.capture.guards.variants import AGAIN, Noted, retrace
from gluonjit.hybrid.capture.structure import Args, Constant, Kwargs, Repeated, ResultPlace, items_of, map_structure
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL

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

_COPYING = {torch.Tensor.contiguous}
"""Functions that give what they are given, or a copy of it, which the look of a captured value does not tell."""
_MOST = 4096
_NO_NAMES: dict[str, Any] = {}
_NO_MODES: dict[tuple[int, int], str] = {}
_operators: OrderedDict[Any, Cell] = OrderedDict()
DOORS: dict[Any, tuple[Any, int]] = {}
"""Functions of which C captures calls by itself: their cell, and the sort of their door (see `doors`)."""


_AUTOCAST = [name for name in ("cpu", "cuda", "xpu", "mps") if torch.amp.is_autocast_available(name)]


def casts() -> tuple[Any, ...]:
    """The dtypes that torch.autocast casts to, by the kind of device, where it is on."""
    return tuple([(name, torch.get_autocast_dtype(name)) for name in _AUTOCAST if torch.is_autocast_enabled(name)])


def open_batch(options: Options | None = None) -> Batch:
    """The open batch of this thread, with room for one more node."""
    return capturing.open_batch(engine_of("torch"), options)


def capture(cell: Cell, owner: Any, run: Callable[..., Any], args: Args, kwargs: Kwargs, batch: Batch) -> Any:
    """Captures `run(*args, **kwargs)` as one node of the batch. Raises NotOneNode where that cannot be.

    `owner` is the module whose parameters it may use, or None.
    """
    begin = 0.0 if LOCAL.state.inside else perf_counter()
    learning = torch.is_grad_enabled()
    if cell.lookup is not None and len(args) == 1 and not kwargs:
        found = captured_lookup(cell, batch, args[0], learning)
        if found is not None:
            return found
    if FAST is not None:
        found = FAST.capture(cell, owner, args, kwargs)
        if found is not None:
            if begin:
                batch.end_call(cell, begin)
            return found
    if not cell.operator:
        take_anew((*args, *kwargs.values()))
    called = args, kwargs
    args, kwargs = map_structure(called, lambda arg: in_weight(cell, batch, arg))
    laid_in = cell.laid  # which the cell forgets, with all it has traced, where its module is no longer what it was
    key, values, given = _signature(cell, owner, args, kwargs, batch, learning)
    record = batch.records.get(key)
    if record is None or (record.guards is not None and not record.guards.hold()):
        made = record_of(Call(cell, owner, run, args, kwargs, values, batch, Noted()), key)
        if cell.lookup is not None and len(args) == 1:
            found = captured_lookup(cell, batch, args[0], learning)
            if found is not None:
                return found
        if not isinstance(made, Record):
            anew = run in _COPYING
            if FAST is not None and cell.operator and made.__class__ is int:
                FAST.keep(cell, owner, *called, key, values[0].spec if anew else made)
            if cell.operator:
                same = [not anew and tensor.__class__ is LazyTensor for tensor in given]
                given = [tensor if itself else value for tensor, itself, value in zip(given, same, values)]
            return rebuild(made, (), given)
        record = made
    elif not cell.operator and AGAIN.due():
        call = Call(cell, owner, run, args, kwargs, values, batch, Noted())
        retrace(cell, wanted_by(call, key), record, batch, partial(difference, call))
    laid_values: Sequence[Value] = values
    if laid_in is not None or cell.laid is not None or record.kind.apart:
        laid_values = [lay(batch, value, spec) for value, spec in zip(values, record.kind.operands)]
        if cell.laid is None and record.kind.apart and laid_values != values:
            cell.laid = {}
    structure = record.kind.structure
    shows = not cell.operator or _shows(structure)  # what a cell returns of its arguments are these themselves
    if FAST is not None and not (shows and cell.operator):
        FAST.keep(cell, owner, *called, key, record)
    found = rebuild(structure, captured(batch, record, laid_values), given if shows else values)
    if begin:
        batch.end_call(cell, begin)
    return found


def _signature(
    cell: Cell, owner: Any, args: Args, kwargs: Kwargs, batch: Batch, learning: bool
) -> tuple[tuple[Any, ...], list[Value], list[Any]]:
    """Returns what must be equal for calls to be of one record, and the values of a call's tensors, and these."""
    signature: list[Any] = [cell, learning, casts() if autocast() else False]
    if owner is not None:
        signature.append(batch.changes)
    values: list[Value] = []
    given: list[Any] = []
    _flatten_each(args, owner, batch, signature, values, given)
    for name, arg in kwargs.items():
        signature.append(name)
        _flatten(arg, owner, batch, signature, values, given)
    taped = any([value.taped for value in values])
    signature.append(taped and learning)
    return tuple(signature), values, given


LAID_OUT = Cell(laid_out.__name__, Options(), operator=True)


def lay(batch: Batch, value: Value, spec: Spec) -> Value:
    """Returns a value as one of this spec, which has its shape; computed where its rows lie otherwise.

    That is captured in this batch even where it is full: if it ran now, it would leave behind the operands before.
    """
    found = laid(batch, value, spec)
    if found is not None:
        return found
    return current(capture(LAID_OUT, None, laid_out, (wrap(value), spec.mode), _NO_NAMES, batch))


def leaf_laid(batch: Batch, tensor: Any, modes: dict[tuple[int, int], str], place: int) -> tuple[Value, Spec]:
    """Returns the value of an argument, as it lies in the mode for its place, and its natural spec: that of signatures.

    Raises NotAnOperand.
    """
    mode = modes.get((place, tensor.dim()), "")
    value = value_of(batch, tensor, mode)
    return value, spec_of(tensor) if mode else value.spec


def without_history(value: Value) -> Value:
    """Returns the same value, of which no gradients are asked."""
    return Value(value.rows, value.depth, value.spec, value.graph, False, value)


def _shows(structure: Any) -> bool:
    """True if a call gives a view of an argument."""
    return any(place < 0 or (place.view[0] or 0) < 0 for place in items_of(structure, ResultPlace))


def rebuild(structure: Any, results: tuple[Value, ...], given: Sequence[Any]) -> Any:
    """Makes what a call returns, of the results of its node and its arguments, or their values; sets what it sets."""
    if structure is None:
        return wrap(results[0])
    if structure is tuple:
        return tuple([wrap(value) for value in results])
    made: dict[int, Any] = {}
    views: list[tuple[Any, int, Any]] = []

    def part(place: Any) -> Any:
        if place.__class__ is Constant:
            return place.value
        if place < 0:
            itself = wrap(given[~place]) if given[~place].__class__ is Value else given[~place]
            there = itself._c if itself.__class__ is LazyTensor else itself
            lies = place.__class__ is not ResultPlace or there is None or there.is_contiguous()
            return itself if lies else itself.contiguous()
        if place.__class__ is Repeated:
            return made[place]
        base, steps, learns = place.view if place.__class__ is ResultPlace else (None, (), True)
        if steps and steps[-1].func is EXPANDS:
            steps = (*steps[:-1], steps[-1]._replace(kwargs=(("size", results[place].spec.shape),)))
        result = None
        if base is not None and base < 0 and given[~base].__class__ is not LazyTensor:
            with suppress(RuntimeError):  # `reshape` copies what does not lie as the traced argument did
                result = show(given[~base], steps)
        if result is None:
            result = wrap(results[place] if learns else without_history(results[place]))
            if base is not None and (base >= 0 or given[~base].__class__ is LazyTensor):
                views.append((result, base, steps))
        made[int(place)] = result
        return result

    found = map_structure(structure, part)
    for view, base, steps in views:
        if base >= 0 and base not in made:  # of what is expanded, which is no part of the result
            made[base] = wrap(results[base])
        noted(view, made[base] if base >= 0 else given[~base], steps[0])
        for step in steps[1:]:
            view._k = (view._k, step)
    return found.set() if found.__class__ is Written else found


def _flatten_each(
    args: Iterable[Any], owner: Any, batch: Batch, signature: list[Any], values: list[Value], given: list[Any]
) -> None:
    """Appends the values and constants of arguments, of which most are values of the open batch."""
    graph = batch.graph
    for arg in args:
        if arg.__class__ is LazyTensor and current(arg).graph is graph:
            values.append(arg._v)
            given.append(arg)
            signature.append(arg._v.spec)
        else:
            _flatten(arg, owner, batch, signature, values, given)


def _flatten(arg: Any, owner: Any, batch: Batch, signature: list[Any], values: list[Value], given: list[Any]) -> None:
    """Appends an argument's values, with the tensors that they are of, and plain constants.

    Raises NotOneNode where it holds something else.
    """
    kind = arg.__class__
    if kind is tuple or kind is list or kind is torch.Size:
        signature.append(kind)
        _flatten_each(arg, owner, batch, signature, values, given)
        signature.append(None)
    elif arg is owner:
        signature.append(arg)
    elif isinstance(arg, torch.Tensor):
        if kind is PendingStatistic:
            raise NotOneNode(WAITING)
        if kind is not LazyTensor and kind is not torch.Tensor and is_user_class(kind):
            raise NotOneNode(Eagerly(OWN_ARRAY.format(kind.__name__)))
        if kind is not LazyTensor and passes_as_constant(batch, arg):
            signature.append(("constant", id(arg)))
            return
        existing = kind is torch.Tensor or (kind is LazyTensor and current(arg).graph is None)
        modes = signature[0].laid if existing else None
        try:
            value, spec = leaf_laid(batch, arg, modes or _NO_MODES, len(values))
        except NotAnOperand as unfit:
            raise NotOneNode(str(unfit)) from None
        values.append(value)
        given.append(arg)
        signature.append(spec)
    elif kind is WeightView:
        signature.append(("constant", id(arg.weight), *arg.look))
    elif kind is slice:
        signature.append(slice)
        _flatten_each((arg.start, arg.stop, arg.step), owner, batch, signature, values, given)
    elif isinstance(arg, _CONSTANTS):
        signature.append((kind, arg if arg or kind is not float else str(arg)))  # 0.0 == -0.0
    elif isinstance(arg, tuple) and hasattr(kind, "_make"):
        signature.append(kind)
        _flatten_each(arg, owner, batch, signature, values, given)
    elif isinstance(arg, dict) and all(isinstance(name, str) for name in arg):
        signature.append((kind, *arg))
        _flatten_each(arg.values(), owner, batch, signature, values, given)
    else:
        why = f"an argument is a {kind.__name__}, which is neither a tensor nor a plain constant"
        if not issubclass(kind, dict):  # whether one of these is depends on its keys
            batch.foreign[kind] = why
        raise NotOneNode(why)


def foreign(batch: Batch, args: Args) -> str:
    """Says why calls with these arguments are no node, where their classes say so; "" where they may be."""
    for arg in args:
        why = batch.foreign.get(arg.__class__)
        if why is not None:
            return why
    return ""


def captured_lookup(cell: Cell, batch: Batch, indices: Any, learning: bool) -> Any:
    """A call that is nothing but a look-up, by integers that are known: those on a device are not waited for."""
    if indices.__class__ is LazyTensor:
        indices = known(indices)
    if not isinstance(indices, torch.Tensor) or not indices.is_cpu:
        return None
    weight, attrs, module = cell.lookup
    taped = learning and weight.requires_grad
    if batch.own.looked.get(cell) != batch.changes:  # once a batch, and when something has changed
        owner = module()
        if owner is not None and looks_of(cell, owner, batch) != cell.seen:
            cell.clear()
            batch.changes += 1
            return None
        batch.own.looked[cell] = batch.changes
    table = batch.tables[cell, learning, batch.changes] = Table.of(batch, weight, attrs, taped, 1)
    value = look_up(batch, indices, table)
    return None if value is None else wrap(value)


def expand(cell: Cell, run: Callable[..., Any], args: Any, kwargs: Any, reason: str, batch: Batch) -> Any:
    """Runs the call itself and captures the operators and inner cells it calls."""
    state = LOCAL.state
    lent = LentArguments(args, as_lazy)
    state.inside += 1
    try:
        out = lent.returned(run(*lent.args, **kwargs))
        if reason not in ASKED:  # noted when it has run: an error says by itself what is wrong
            batch.report.unbatched[cell.name] = reason
        return out
    finally:
        state.inside -= 1
        lent.give_back()


def as_lazy(arg: Any) -> Any:
    """An argument of a program that is captured: tensors are lazy there, so that slices of them are rows."""
    if arg.__class__ is not torch.Tensor or (batch := LOCAL.state.batch) is None:
        return arg
    if may_be_known(arg):
        found: Any = as_known(arg)
    else:
        try:
            value = leaf(batch, arg)
        except NotAnOperand:
            return arg
        found = wrap(value)
        found._c = arg
    found.__dict__ = arg.__dict__  # what the program attaches to one is attached to the other
    return found


def captured_operator(func: Any, args: Args) -> Any:
    """A call of a function as one node. Raises NotOneNode where that cannot be."""
    cell = cell_of(func, func.__name__)
    found = FAST.capture(cell, None, args, _NO_NAMES) if FAST is not None and LOCAL.state.inside else None
    return capture(cell, None, func, args, _NO_NAMES, open_batch()) if found is None else found


def cell_of(func: Any, name: str, viewing: bool = True) -> Cell:
    """The cell of a function; viewing: whether who captures its calls sees to views that they give."""
    cell = _operators.get(func)
    if cell is None:
        cell = _operators[func] = Cell(name, Options(), operator=True)
        cell.viewing = viewing
        while len(_operators) > _MOST:
            DOORS.pop(_operators.popitem(last=False)[0], None)
    return cell
