"""Writes to lazy tensors: a written tensor has a new value from then on, and its views are updated from that.

A write is captured as a node that returns the whole new tensor. If that is impossible, what is pending runs, and
PyTorch does the write, on memory that nothing else uses.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from itertools import permutations
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from gluonjit.compiled import FAST
from gluonjit.engines.torch.capture.cells import DOORS, capture, lay, open_batch
from gluonjit.engines.torch.capture.doors import WRITE
from gluonjit.engines.torch.capture.indexing import opened as opened_key
from gluonjit.engines.torch.capture.making import enter, only_made
from gluonjit.engines.torch.capture.records import NotOneNode, noting
from gluonjit.engines.torch.capture.replacing import replaced, rows_of_key, with_rows
from gluonjit.engines.torch.framework.arrays import spec_of, zeros_of
from gluonjit.engines.torch.framework.originals import plain
from gluonjit.engines.torch.framework.targets import WRITES, is_writing
from gluonjit.engines.torch.run.overwrites import note_write, note_written_result
from gluonjit.engines.torch.run.program import interpret, program_of
from gluonjit.engines.torch.tracing.cell import Cell
from gluonjit.engines.torch.tracing.traced_tensors import TraceTensor
from gluonjit.engines.torch.tracing.view_steps import PathStep, show
from gluonjit.engines.torch.values.aliases import DATA, MOVING, base_of, dummy, moves
from gluonjit.engines.torch.values.lazy import LazyTensor, waits, wrap
from gluonjit.engines.torch.values.lookups import carried
from gluonjit.engines.torch.values.operands import concrete, current, is_input, is_made, is_number, run_readers
from gluonjit.graph import Graph, Kind, Spec, Value
from gluonjit.graph.reading import node_at
from gluonjit.hybrid.capture.reuse.cache import refuse
from gluonjit.hybrid.capture.structure import Args, Kwargs, map_structure
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.trace import NeedsValue

_MOST = 4096
_BY_NUMBERS = {"__setitem__", "index_copy_", "masked_scatter_"}
"""Methods that `replaced` looks at."""
_AT_ONCE = {"detach_", "rename_", "fill_diagonal_", *MOVING}
"""Methods that change more than numbers, or that look at memory, in which a batch has others beside."""


def write(func: Any, name: str, target: Any, args: Args, kwargs: Kwargs) -> Any:
    """Runs or captures a call that writes to a lazy tensor; returns what it gives, mostly the tensor itself."""
    base, path = base_of(target)
    if is_made(base) and LOCAL.state.inside and not (only_made(args) and not waits(kwargs)):
        enter(base)
    batch = LOCAL.state.batch
    at_once = name in _AT_ONCE or any(step.func is DATA for step in path)  # which autograd does not notice
    before = current(base)
    if batch is not None and base._c is None and not at_once and _brought(batch, base):
        try:
            found = _captured(func, name, base, path, target, args, kwargs)
            note_written_result(before)  # if it is one of an earlier flush
            return found
        except NotOneNode as refusal:
            why = refusal.with_traceback(None)  # else it and this frame would hold each other, and the arguments
            base._v = before
        with noting(batch, name, why):
            return write_now(func, target, args, kwargs)
    return write_now(func, target, args, kwargs)


def _brought(batch: Batch, base: Any) -> bool:
    """Makes a result of an earlier flush one of this batch, which a write may replace; False if it cannot be."""
    if base._v.graph is not batch.graph:
        found = carried(batch, base._v)
        if found is None:
            return False
        base._v = found
    return True


def _count(base: Any) -> None:
    base._n = (base._n or 0) + 1


def renew(lazy: Any) -> None:
    """Finds the value of a view anew, of what has been written to since it was taken."""
    base, path = base_of(lazy)
    if base is lazy:
        return
    if base._c is None:
        found = show(base, path)
    else:
        with torch.inference_mode(False):
            found = show(base._c, path)
    if found.__class__ is LazyTensor:
        lazy._v, lazy._c = found._v, found._c
    else:
        lazy._v, lazy._c = _apart(lazy._v, found, is_input(base)), found
    lazy._n = base._n


def _apart(value: Value, computed: Any, of_input: bool = False) -> Value:
    """Returns the value of an existing tensor that is not part of a graph: still that of an input, if it is of one."""
    own = computed if of_input or (value.base is computed and not value.depth) else None
    return Value(value.rows, 0, spec_of(computed), None, bool(computed.requires_grad), own)


# --- as a node -------------------------------------------------------------------------------------------------------

_cells: OrderedDict[Any, tuple[Cell, Callable[..., Any]]] = OrderedDict()


def _captured(
    func: Any,
    name: str,
    base: Any,
    path: tuple[PathStep, ...],
    target: Any,
    args: Args,
    kwargs: Kwargs,
) -> Any:
    """Captures the write as a node that gives all of the base. Raises NotOneNode."""
    by_out = kwargs.get("out") is target
    taped = base._v.taped
    quiet = taped and not torch.is_grad_enabled()
    if name == "__setitem__":
        args = _by_numbers(args)
    batch = open_batch()
    if not (quiet or by_out or kwargs) and current(base).graph is batch.graph:
        value = _of_rows(batch, func, name, base, target, args) if path else replaced(batch, name, base, args)
        if value is not None:
            return _becomes(batch, base, target, value)
    rest = args if by_out else args[1:]
    named = {key: value for key, value in kwargs.items() if not (by_out and key == "out")}
    cell, run = _cell_of(name, func, path, by_out, quiet, taped)
    with torch.set_grad_enabled(quiet or torch.is_grad_enabled()):
        batch = open_batch()
        if current(base).graph is not batch.graph:  # it was full
            raise NotOneNode("the batch was full")
        found = capture(cell, None, run, (base, *rest), named, batch)
    if FAST is not None and func not in DOORS and is_writing(name) and not (path or quiet or name in _BY_NUMBERS):
        DOORS[func] = tuple([_cell_of(name, func, (), False, False, learns)[0] for learns in (False, True)]), WRITE
    return _becomes(batch, base, target, found._v)


def _cell_of(name: str, *key: Any) -> tuple[Cell, Callable[..., Any]]:
    """The cell of a write; `key` has the arguments of `_writer`."""
    known = _cells.get(key)
    if known is None:
        known = _cells[key] = (Cell(name, Options(), operator=True), _writer(*key))
        while len(_cells) > _MOST:
            _cells.popitem(last=False)
    return known


def _of_rows(batch: Batch, func: Any, name: str, base: Any, target: Any, args: Args) -> Value | None:
    """The value of a tensor after a write to a view of some of its rows: a node of these alone, whichever they are."""
    numbers = rows_of_key(base._v, target._k)
    if not numbers:
        return None
    before = current(target)
    row = wrap(before)
    value = replaced(batch, name, row, args)
    if value is None:
        cell, run = _cell_of(name, func, (), False, False, before.taped)
        value = capture(cell, None, run, (row, *args[1:]), {}, batch)._v
    row._v = lay(batch, value, before.spec)
    return with_rows(batch, base._v, 1, numbers, row)


def _becomes(batch: Batch, base: Any, target: Any, value: Value) -> Any:
    """Gives a tensor another value."""
    note_write(batch.graph, base._v, value)
    base._v = value
    _count(base)
    return target


def _by_numbers(args: Args) -> tuple[Any, ...]:
    """Returns the arguments of a write by a key with integers for known tensors.

    Not for masks of bytes, some of which PyTorch refuses.
    """
    parts = args[1] if args[1].__class__ is tuple else (args[1],)
    if any(isinstance(part, torch.Tensor) and part.dtype is torch.uint8 for part in parts):
        return args
    key = opened_key(args[1], args[0].shape)
    return args if key is None else (args[0], key, *args[2:])


def _writer(func: Any, path: tuple[PathStep, ...], by_out: bool, quiet: bool, taped: bool) -> Callable[..., Any]:
    """Makes a function that gives a tensor after a write to a view of it."""

    def write(base: Any, args: Args, kwargs: Kwargs) -> None:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not quiet):
            view = show(base, path)
            if by_out:
                func(*args, **kwargs, out=view)
            else:
                func(view, *args, **kwargs)

    def run(base: TraceTensor, *args: Any, **kwargs: Any) -> Any:
        like = base.recorder.spec_at(base.position)
        with _disable_current_modes(), plain(torch.is_grad_enabled()):  # what PyTorch refuses it refuses here
            given = map_structure((args, kwargs), _stand_in)
            with torch.enable_grad():
                tried = dummy(like, taped)
            write(tried, *given)
        base.outside = False
        before = base.writes
        write(base, args, kwargs)
        if by_out and base.writes == before:  # some give subclasses another tensor, and leave `out` as it was
            raise NeedsValue
        return base

    return run


def _stand_in(item: Any) -> Any:
    if item.__class__ is TraceTensor:
        with torch.enable_grad():
            return dummy(item.recorder.spec_at(item.position), item.recorder.learns_at(item.position) is not False)
    return item


# --- at once ---------------------------------------------------------------------------------------------------------


def write_now(func: Any, target: Any, args: Args, kwargs: Kwargs) -> Any:
    """Writes to computed tensors, by PyTorch itself."""
    base, _ = base_of(target)
    refuse(WRITES)
    numbers = not kwargs and all(map(is_number, args[1:])) and args[0] is target
    if not numbers:
        map_structure((args, kwargs), _waiting)  # what waits runs before there is other memory
    opened(base)
    if target is not base and not _share(target._c, base._c):  # a view that was captured of what was computed already
        renew(target)
    memory = concrete(target)
    name = getattr(func, "__name__", "")
    if name in MOVING:
        moves(target)
    if numbers:
        found = func(memory, *args[1:])
    else:
        found = func(*concrete_items(args), **concrete_items(kwargs))
    _count(base)
    if target is not base:
        target._n = base._n
    if name in _AT_ONCE or tuple(memory.shape) != target._v.spec.shape:  # as `out=` of another size has it
        target._v = _apart(target._v, memory)
        if target is not base:  # by its memory alone
            target._b = target._k = target._n = None
    return target if found is memory else found


def _share(one: Any, other: Any) -> bool:
    return one is not None and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _waiting(item: Any) -> Any:
    if item.__class__ is LazyTensor:
        concrete(item)
    return item


def concrete_items(items: Any) -> Any:
    """Nested arguments with computed tensors in place of lazy ones, also within slices."""
    return map_structure(items, _concrete_item)


def _concrete_item(item: Any) -> Any:
    if item.__class__ is LazyTensor:
        return concrete(item)
    if item.__class__ is slice:
        return slice(*map(_concrete_item, (item.start, item.stop, item.step)))
    return item


def opened(lazy: Any, written: bool = True) -> Any:
    """The computed tensor, in memory that only it and its views share: the program's own where it was given that.

    written: whether it is written to next in a way that autograd notices.
    """
    base, _ = base_of(lazy)
    computed = concrete(base)
    run_readers(computed)
    value = base._v
    if value.graph is not None or value.result is not None:
        if (value.base is not computed or value.depth) and not (computed.requires_grad and computed.is_leaf):
            if written:
                note_written_result(value)
            if computed.retains_grad and not written:
                computed.data = computed.data.clone()  # a copy would retain the part of its gradient that comes later
            elif computed.requires_grad or torch.is_inference_mode_enabled():
                with torch.inference_mode(False), torch.enable_grad():
                    base._c = computed.clone()
            else:
                base._c = computed.clone()
        base._v = _apart(value, base._c)
        _count(base)
    return concrete(lazy)


def lay_eagerly(lazy: Any, path: tuple[PathStep, ...] = ()) -> None:
    """Lets a tensor, and what it is a view of, lie in memory as eagerly, for functions that look at that.

    Where that is no longer known, so that it has the view that these steps lead to.
    """
    base, _ = base_of(lazy)
    copied = base._b is None and getattr(base._k, "func", None) is torch.Tensor.contiguous
    strides = base._k.of(zeros_of(base._v.spec)).stride() if copied else strides_of(base._v)
    computed = opened(base, False)
    if strides is None and path:
        strides = _fitting(computed, path)
    if strides is not None and strides != computed.stride():
        with torch.enable_grad():
            once = computed[tuple([slice(None if stride else 1) for stride in strides])]  # of what is expanded
            room = torch.empty_strided(once.shape, strides, dtype=computed.dtype, device=computed.device)
            base._c = room.copy_(once).expand(computed.shape)
        _count(base)
    if lazy is not base and not _share(lazy._c, base._c):  # a view that was captured of what was computed already
        renew(lazy)


def _fitting(computed: Any, path: tuple[PathStep, ...]) -> tuple[int, ...] | None:
    """The strides of a tensor of this shape that has such a view: its own, where it has."""
    own = sorted(range(computed.dim()), key=lambda axis: -computed.stride(axis))
    for order in (own, *permutations(own)):
        room = torch.empty([computed.shape[axis] for axis in order])
        laid = room.permute([order.index(axis) for axis in range(room.dim())])
        with suppress(RuntimeError), plain():
            show(laid, path)
            return tuple(laid.stride())
    return None


def lent(lazy: Any) -> Any:
    """The computed tensor, in memory that others may write to, and that shows later writes to the tensor.

    Results of equal calls have the same memory otherwise. An input's is the program's.
    """
    base, _ = base_of(lazy)
    computed = concrete(base)
    if base._v.base is not computed or base._v.depth:
        return opened(lazy, False)
    base._v = _apart(base._v, computed)  # what is captured next looks at its numbers again
    _count(base)
    return concrete(lazy)


def put_data(lazy: Any, value: Any) -> None:
    """Lets a tensor have the memory of another from now on; what it was a view of, and its views, keep theirs."""
    computed = opened(lazy, False)
    moves(lazy)
    computed.data = _concrete_item(value)
    if lazy._b is None:
        _count(lazy)
    else:
        lazy._b = lazy._k = lazy._n = None
    lazy._c, lazy._v = computed, _apart(lazy._v, computed)


def strides_of(value: Value) -> tuple[int, ...] | None:
    """Runs what computes a value, on zeros that lie as eagerly, to see how it lies; None of what is not pending.

    In a batch its rows lie one after the other, whatever these strides are.
    """
    graph = value.graph
    if not isinstance(graph, Graph):
        return None
    known: dict[Any, Any] = {}
    wanted = [(value.rows, value.spec)]
    with plain():
        while wanted:
            key: tuple[Any, Spec] = wanted[-1]
            rows, spec = key
            node = None if isinstance(rows, tuple) or key in known else node_at(graph.records, rows)
            if node is None:
                known.setdefault(key, _like(graph, rows, spec))
                wanted.pop()
                continue
            record, number = node
            given = list(zip(record.operands_of(number), record.kind.operands))
            missing = [each for each in given if each not in known]
            wanted += missing
            if not missing:
                known[key] = _result(record.kind, rows - record.base(number), spec, [known[each] for each in given])
        return tuple(known[value.rows, value.spec].stride())


def _like(graph: Graph, rows: Any, spec: Spec) -> Any:
    """Zeros that lie as an input does, or one row after the other."""
    for leaf in graph.leaves.values():
        tensor = getattr(leaf.payload, "tensor", None)
        if (
            leaf.base == rows
            and leaf.spec.shape == spec.shape
            and tensor is not None
            and tuple(tensor.shape) == spec.shape
        ):
            return torch.zeros_like(tensor, device="cpu", requires_grad=False)
    return zeros_of(spec)


def _result(kind: Kind, offset: int, spec: Spec, operands: list[Any]) -> Any:
    numbers = [
        k for k, output in enumerate(kind.outputs) if output.offset == offset and output.spec.shape == spec.shape
    ]
    like = zeros_of(spec)
    if not numbers or kind.split is not None or len(program_of(kind).trace.operands) != len(operands):
        return like
    program = program_of(kind)
    try:
        return interpret(program.trace, operands, program.consts)[numbers[0]]
    except (RuntimeError, IndexError, ValueError):  # of zeros, which are none of the program's numbers
        return like
