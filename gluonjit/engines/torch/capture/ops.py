"""Captures of single operators: a program's operators on lazy tensors outside of any cell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np
import torch

from gluonjit.engines.torch.capture.cells import capture, cell_of, open_batch
from gluonjit.engines.torch.capture.doors import SORTS, admit
from gluonjit.engines.torch.capture.indexing import index, read_decided, select, select_where
from gluonjit.engines.torch.capture.making import TRIED, derived, enter, is_alone, only_made
from gluonjit.engines.torch.capture.observing import OBSERVING, observe
from gluonjit.engines.torch.capture.records import NotOneNode, noting
from gluonjit.engines.torch.capture.replacing import copied_into
from gluonjit.engines.torch.capture.writes import concrete_items, lay_eagerly, lent, opened, write, write_now
from gluonjit.engines.torch.framework.arrays import FLOATS
from gluonjit.engines.torch.framework.buffers import note_versions, note_written
from gluonjit.engines.torch.framework.copy_on_write import export_tensor
from gluonjit.engines.torch.framework.originals import functions_named
from gluonjit.engines.torch.framework.targets import target_of
from gluonjit.engines.torch.tracing.cell import RAISED, Cell
from gluonjit.engines.torch.tracing.recurrent import WHOLE
from gluonjit.engines.torch.values.aliases import DATA, VIEWING, linked
from gluonjit.engines.torch.values.known import CHEAP, computed
from gluonjit.engines.torch.values.lazy import LazyTensor, take_anew, waits, wrap
from gluonjit.engines.torch.values.lookups import numbers_of
from gluonjit.engines.torch.values.operands import NotAnOperand, concrete, is_made, share, value_of
from gluonjit.engines.torch.values.references import REFERENCES, keep_shown
from gluonjit.engines.torch.values.results import found_for
from gluonjit.graph.entries import is_exact, number_in
from gluonjit.hybrid.capture.assumed import is_caught
from gluonjit.hybrid.capture.structure import Args, Kwargs, map_structure
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.places import FEW_NUMBERS, vary
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.trace import NeedsValue

_EXACT = ("float32", "float64")  # PyTorch reads a number beside others in more digits than they have
_SIGNS = "add sub mul div __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__"
_DETACHING = {torch.detach, torch.Tensor.detach, DATA}


def call_operator(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """A function of PyTorch's that was called on a lazy tensor: captured, or run at once where it cannot be."""
    state = LOCAL.state
    if state.trace is not None:  # a tensor from outside of what is traced
        raise NeedsValue
    if func in OBSERVING and args[0].__class__ is LazyTensor:
        concrete(args[0])
        found = observe(*args, name=func.__name__, **kwargs)
        if found is not NotImplemented:
            return found
    if func in _BY_MEMORY and args[0].__class__ is LazyTensor:
        lay_eagerly(args[0])
        return run_now(func, args, kwargs)
    if state.paused or (func in _RAISING and is_caught(sys._getframe(1), RuntimeError)):
        target = target_of(func, getattr(func, "__name__", ""), args, kwargs)
        if target.__class__ is LazyTensor:
            return write_now(func, target, args, kwargs)
        return _run_at_once(func, args if state.paused or func in VIEWING else read_decided(args), kwargs)
    if kwargs.get("requires_grad"):  # of a tensor that is made: a leaf
        return call_operator(func, args, {**kwargs, "requires_grad": False}).requires_grad_()
    take_anew((*args, *kwargs.values()) if kwargs else args)
    name = getattr(func, "__name__", str(func))
    target = target_of(func, name, args, kwargs)
    if target.__class__ is LazyTensor and func not in AT_ONCE:  # as `share_memory_` is, which writes no number
        return write(func, name, target, args, kwargs)
    if args and is_made(args[0]) and state.inside and func in VIEWING and args[0]._v.spec.dtype in FLOATS:
        enter(args[0], _integers(func, args))
    elif only_made(args) and not waits(kwargs):
        return _of_made(func, args, kwargs)
    if func in AT_ONCE or _fetches(func, args, kwargs) or not (state.inside or waits(args) or waits(kwargs)):
        return _run_at_once(func, read_decided(args) if func in _READING else args, kwargs)
    if target is not None:  # a tensor of the program's own
        TRIED.clear()  # it may have made it where others stayed plain
        note_written(target)
        return run_now(func, read_decided(args), kwargs)
    if func in CHEAP:
        found = computed(func, args, kwargs)
        if found is not None:
            return found
    if func in _DETACHING:  # its result learns as little as one without recording
        with torch.no_grad():
            found = _found(func, name, args, kwargs)
    else:
        found = _found(func, name, args, kwargs)
    return linked(func, args, kwargs, found) if func in VIEWING else found


def _run_at_once(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Runs a function on computed tensors; a view that it gives shows what is written later to what it is of."""
    if args and args[0].__class__ is LazyTensor:
        if func in VIEWING:
            opened(args[0], False)
        elif func in _LENDING:
            lent(args[0])
    return run_now(func, args, kwargs)


def _fetches(func: Any, args: Args, kwargs: Kwargs) -> bool:
    """True if a call brings a result from its device to the host, and so waits for it."""
    if func not in _MOVING or args[0].__class__ is not LazyTensor or args[0]._v.spec.device == "cpu":
        return False
    return func is torch.Tensor.cpu or any(str(part) == "cpu" for part in (*args[1:], kwargs.get("device")))


def _integers(func: Any, args: Args) -> int:
    """The number of integers by which `[]` takes an entry; 0 in other cases."""
    key = args[1] if func is torch.Tensor.__getitem__ and len(args) == 2 else None
    return len(key) if key.__class__ is tuple and all(part.__class__ is int for part in key) else 0


def _of_made(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Runs a function of tensors made by the program at once; one that gives its argument gives the lazy one.

    Those whose memory others have then stay plain.
    """
    if func in AT_ONCE:  # numpy gets it, too, which is not counted
        map_structure(args, lambda item: share(item) if item.__class__ is LazyTensor else item)
    found = run_now(func, args, kwargs)
    lazy = args[0]
    if lazy.__class__ is LazyTensor and found is lazy._c:
        return lazy
    map_structure((args, kwargs), lambda item: share(item) if is_made(item) and not is_alone(item._c) else item)
    return derived(found) if LOCAL.state.inside else found


def _found(func: Any, name: str, args: Args, kwargs: Kwargs) -> Any:
    batch = open_batch()
    try:
        reference = BY_NUMBERS.get(func) or REFERENCES.get(func)
        if reference is not None:
            found = reference(batch, args, kwargs)
            if found is not None:
                if func in SORTS:
                    cell = cell_of(func, name, func in VIEWING)
                    admit(func, cell)
                    keep_shown(func, cell, args, kwargs, found)
                return found
        cell = cell_of(func, name, func in VIEWING)
        kinds = _OPENED.get(func, ())
        if kinds and len(args) == 2:
            pairs = zip(args, reversed(args))
            args = tuple([_opened(cell, arg, other, batch) if arg.__class__ in kinds else arg for arg, other in pairs])
        found = capture(cell, None, WHOLE.get(func, func), args, kwargs, batch)
        if func in SORTS or func not in _OTHER_WAYS:
            admit(func, cell)
        return found
    except NotOneNode as refusal:
        why = refusal.with_traceback(None)  # else it and this frame would hold each other, and the arguments
    fewer = _without_empty(args, kwargs) if func in _JOINING else None
    if fewer is not None:
        found = call_operator(func, fewer, kwargs)
        for one in args[0]:
            if not one.numel() and one.requires_grad:
                found = found + one.sum()  # from which backward gives zeros
        return found
    numbers = _of_python(args, kwargs)
    if numbers is not None:
        return _found(func, name, *numbers)
    with noting(batch, name, why):
        weighty = any(isinstance(item, torch.nn.Parameter) for item in (*args, *kwargs.values()))  # it may write to one
        if func.__class__ is FunctionType and not weighty and not str(why).startswith(RAISED):
            return _parts_of(func)(*args, **kwargs)
        return _run_at_once(func, args if func in VIEWING else read_decided(args), kwargs)


@lru_cache(maxsize=1024)
def _parts_of(func: FunctionType) -> Callable[..., Any]:
    """A function of PyTorch's that is written in Python, without the question whether its arguments are lazy.

    One that leaves the question to a function that it calls, which would call it again, runs at once.
    """
    asked = [name for name in func.__code__.co_names if name.startswith("has_torch_function")]
    if not asked:
        return lambda *args, **kwargs: run_now(func, read_decided(args), kwargs)
    names = {**func.__globals__, **dict.fromkeys(asked, lambda *given: False)}
    found = FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)
    found.__kwdefaults__ = func.__kwdefaults__
    return found


def _without_empty(args: Args, kwargs: Kwargs) -> tuple[Any, ...] | None:
    """The arguments of `cat` without tensors that add nothing, as a program begins with that appends to what it has.

    None where there are none, or where the result would be another without them: of another dtype, or an error.
    """
    try:
        kept = [one for one in args[0] if one.numel()]
        if len(kept) == len(args[0]) or len({one.device for one in args[0]}) > 1:
            return None
        whole, other = [
            torch.cat([torch.empty(one.shape, dtype=one.dtype, device="meta") for one in listed], *args[1:], **kwargs)
            for listed in (args[0], kept)
        ]
    except (AttributeError, IndexError, RuntimeError, TypeError):  # PyTorch itself will say so
        return None
    return (kept, *args[1:]) if (whole.shape, whole.dtype) == (other.shape, other.dtype) else None


def _of_python(args: Args, kwargs: Kwargs) -> Any:
    """Arguments with Python's numbers in place of numpy's, which PyTorch takes for these; None if there are none."""
    found: list[Any] = []

    def plain(item: Any) -> Any:
        if isinstance(item, (np.integer, np.bool_, np.float16, np.float32)):
            found.append(item)
            return item.item()
        return slice(plain(item.start), plain(item.stop), plain(item.step)) if item.__class__ is slice else item

    numbers = map_structure((args, kwargs), plain)
    return numbers if found else None


def _opened(cell: Cell, arg: Any, other: Any, batch: Batch) -> Any:
    """A number beside a tensor, or a weight, as an operand once calls have had many: each would be a kind of its own.

    It is noted for C, which does the same in further calls of this batch.
    """
    known, kind, found = batch.operands.setdefault(cell, {}), arg.__class__, None
    if kind is torch.nn.Parameter:
        place, found = id(arg), known.get(id(arg))
        # A copy of a large one for each sample would take longer than a launch.
        if found is None and arg.numel() <= 16384 and vary(cell, arg.shape, place, batch):
            note_versions(batch, [arg])  # what waits runs before it is written to
            with suppress(NotAnOperand):
                found = known[place] = value_of(batch, arg)
    elif other.__class__ is LazyTensor:
        spec = other._v.spec
        look = spec, kind
        if look not in known and spec.device == "cpu" and spec.dtype in _EXACT and is_exact(arg):
            if vary(cell, (len(spec.shape), kind), arg, batch, FEW_NUMBERS):
                known[look] = numbers_of(batch, spec.dtype)
        found = number_in(batch.graph, known[look], arg) if look in known else None
    return wrap(found) if found else arg


def run_now(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """The function on computed tensors; runs what they wait for."""
    given, named = found_for(getattr(func, "__name__", ""), concrete_items, args, kwargs)
    return func(*given, **named)


BY_NUMBERS: dict[Any, Any] = {
    torch.Tensor.__getitem__: index,
    torch.Tensor.index_select: select,
    torch.index_select: select,
    torch.Tensor.masked_select: select_where,
    torch.masked_select: select_where,
    torch.Tensor.index_copy: copied_into,
    torch.index_copy: copied_into,
}
"""Functions that need no computing, or no numbers in their kinds, where the numbers they are given are known."""
_BY_MEMORY = {getattr(torch, f"as_strided{suffix}") for suffix in ("", "_copy", "_scatter")} | {
    getattr(torch.Tensor, name) for name in "as_strided as_strided_scatter storage_offset stride is_contiguous".split()
}
"""Functions that look at how a tensor lies in memory."""
_LENDING = {getattr(torch.Tensor, name) for name in "storage untyped_storage data_ptr share_memory_".split()}
_LENDING.add(export_tensor)
"""Functions by which others get a tensor's memory."""
_READING = {getattr(torch, name) for name in "equal allclose is_nonzero nonzero unique".split()}
"""Functions that read numbers, and give others no memory."""
AT_ONCE: set[Any] = {
    *OBSERVING,
    *_BY_MEMORY,
    *_LENDING,
    *_READING,
    torch.Tensor.element_size,
    torch.save,
}
"""Functions that read numbers, memory, or attach something to a tensor."""
_RAISING = functions_named(
    "inv inverse cholesky solve tensorinv tensorsolve matrix_power", (torch, torch.linalg, torch.Tensor)
)
"""Functions that raise an error by the numbers they are given: at the call, where the program may catch it."""
_MOVING = {torch.Tensor.cpu, torch.Tensor.to}
_OPENED: dict[Any, tuple[type, ...]] = {
    **dict.fromkeys(functions_named(_SIGNS), (int, float)),
    **dict.fromkeys(functions_named("mm matmul __matmul__"), (torch.nn.Parameter,)),
}
"""Functions that give the same for a number as for a tensor of it, and products, which do with a weight for each sample
what they do with one for all; and the classes of these arguments."""
_JOINING: set[Any] = {torch.cat, torch.concat, torch.concatenate}
_OTHER_WAYS = {*AT_ONCE, *_RAISING, *VIEWING, *_DETACHING, *BY_NUMBERS, *REFERENCES, *WHOLE}
