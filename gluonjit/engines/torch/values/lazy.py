"""The tensor that a captured call returns: its numbers are computed on demand.

It is a torch.Tensor. Shape, dtype and device are known; requests for numbers run the pending batch. Operators on it are
captured. Slicing along axis 0 makes references to rows, not nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from math import prod
from typing import Any

import torch

from gluonjit.compiled import FAST
from gluonjit.engines.torch.framework.arrays import (
    FLOATS,
    LEARNABLE,
    WHOLE,
    device_named,
    dtype_named,
    meta_of,
    spec_of,
)
from gluonjit.engines.torch.framework.originals import make_subclass, overridden
from gluonjit.engines.torch.tracing.view_steps import CopyStep
from gluonjit.engines.torch.values.operands import concrete, current, in_memory, leaf, takes_number, write_number
from gluonjit.graph import Value
from gluonjit.graph.references import indexed, row
from gluonjit.graph.slices import Key, sliced
from gluonjit.hybrid.capture.assumed import assumed
from gluonjit.hybrid.capture.guards.owners import USER, owner_of
from gluonjit.hybrid.capture.outlining.questions import ANSWERS, is_sought, note_question
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL

_SCALAR: tuple[int, ...] = ()
_ITEM = torch.Tensor.__getitem__
UNSEEN = object()
"""As `_n`: no value of the view has been found yet."""


def _engine() -> Any:
    return engine_of("torch")


def _asked(lazy: LazyTensor, lent: bool = False) -> Any:
    """Notes in the middle of samples that a program reads numbers; returns these where inputs alone decide them."""
    state = LOCAL.state
    batch = state.batch
    if batch is not None and (state.inside or state.explicit) and state.trace is None and not state.paused:
        current(lazy)
        if lazy._c is None:
            lazy._c = in_memory(lazy)
        waiting = waits(lazy)
        found = _engine().decided(lazy) if waiting and not lent else None
        batch.report.reads["flushed" if waiting and found is None else "answered"] += 1
        return found
    return None


def own_of(lazy: LazyTensor) -> Any:
    """The program's own tensor that a lazy one stands for, or None."""
    return lazy._c if lazy._c is not None and lazy._v.base is lazy._c else None


def _note_asked(lazy: LazyTensor, question: str) -> None:
    """Notes that the program asks a tensor what depends on how it came about."""
    frame = sys._getframe(2)
    if own_of(lazy) is None and owner_of(frame.f_code, frame.f_globals) == USER:
        note_question(f"{question} of a tensor")


def _asking(method: Any) -> Any:
    """Stands in for a method that looks at a tensor's memory."""

    @wraps(method)
    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        _note_asked(self, f"{method.__name__}()")
        return _engine().call_operator(method, (self, *args), kwargs)

    return ask


def _read(lazy: LazyTensor) -> Any:
    """The computed tensor, of which a program reads numbers."""
    found = _asked(lazy)
    return concrete(lazy) if found is None else found


def _reading(name: str, find: Callable[[Any], Any] = _read) -> Any:
    """Stands in for a method that reads numbers, of the computed tensor that `find` gives."""

    @wraps(getattr(torch.Tensor, name))
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(find(self), name)(*args, **kwargs)

    return read


def _reading_result(name: str, given: Callable[[Any], Any], find: str = "number_of") -> Any:
    """The same of a method that needs no tensor of a result: `given` what the engine finds, in a tuple, or None."""

    @wraps(getattr(torch.Tensor, name))
    def read(self: Any) -> Any:
        if given is bool and self._c is None:
            value = current(self)
            truth = assumed(value, sys._getframe(1)) if self._c is None else None
            if truth is not None:
                return truth
        has_waited = FAST is not None and FAST.waited(self) is not None
        found, state = None if has_waited else _asked(self), LOCAL.state
        if found is None and self._c is None and state.trace is None and state.recorded is None:
            numbers = getattr(_engine(), find)(current(self))
            if numbers is not None:
                return given(*numbers)
        return getattr(concrete(self) if found is None else found, name)()

    return read


def put_item(lazy: LazyTensor, key: Any, value: Any) -> None:
    """Writes. Numbers that a program writes one by one to what it has made do not go through PyTorch.

    After `tensor[key] += other` its own rows are written back, which changes nothing.
    """
    if value.__class__ is LazyTensor and value._b is lazy and key.__class__ in (int, slice) and value._k == key:
        return
    if takes_number(lazy, key, value) and not overridden():
        write_number(lazy, key, value)
    else:
        torch.Tensor.__setitem__(lazy, key, value)


class _NoItems:
    """A base of lazy tensors whose `[]` is PyTorch's; its counterpart in C has one of its own."""

    __slots__ = ()
    __setitem__ = put_item


_Items: Any = _NoItems if FAST is None else FAST.Items


class LazyTensor(_Items, torch.Tensor):  # type: ignore[misc]
    """A tensor of a captured call. `_v` is its value in a graph, `_c` the computed tensor once it was read.

    Of a view `_b` is the tensor that it is a view of, itself no view, `_k` which view (see `aliases`), and `_n` how
    often `_b` had been written to when `_v` was found. Of another tensor `_n` counts the writes to it.
    """

    __slots__ = ("_b", "_c", "_k", "_n", "_v")

    _b: Any
    _c: Any
    _k: Any
    _n: Any
    _v: Value

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Every operator and method that is not answered below."""
        if func is _ITEM and args[0].__class__ is LazyTensor:
            return item_of(*args)
        return _engine().call_operator(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs for PyTorch's C++, for functions that do not dispatch on classes: `torch.tensor([x])`."""
        return _engine().read_by(func, args, kwargs or {})

    @property
    def shape(self) -> Any:
        """Known without computing."""
        return torch.Size(self._v.spec.shape)

    @property
    def dtype(self) -> Any:
        """Known without computing."""
        return dtype_named(self._v.spec.dtype)

    @property
    def device(self) -> Any:
        """Known without computing."""
        return device_named(self._v.spec.device)

    @property
    def ndim(self) -> int:
        """Known without computing."""
        return len(self._v.spec.shape)

    @property
    def is_cuda(self) -> bool:
        """Known without computing."""
        return self._v.spec.device.startswith("cuda")

    is_meta = False
    is_sparse = False
    is_quantized = False
    is_nested = False
    is_mkldnn = False
    layout = torch.strided
    names = None

    @property
    def requires_grad(self) -> bool:
        """True if gradients go through it; known without computing."""
        value = current(self)
        if self._c is not None:
            return bool(self._c.requires_grad)
        return value.taped and value.spec.dtype in LEARNABLE

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Stands in for torch.Tensor.requires_grad_; computes the tensor, which is a leaf of later captures."""
        if not (requires_grad or self.requires_grad):
            return self
        computed, batch = concrete(self), LOCAL.state.batch
        if computed.requires_grad is requires_grad:  # until then all results of a call seem to, if one does
            return self
        if batch is not None and self._v.graph is not batch.graph:
            batch = None  # else an input, for which nothing had to run
        if requires_grad and self._b is not None:  # a view by its memory alone: one taken anew would not learn
            if batch is None:
                self._c = computed = _engine().opened(self)
            self._b = self._k = self._n = None
        computed.requires_grad_(requires_grad)
        if batch is not None:
            self._v = leaf(batch, computed)
        elif requires_grad:  # what is computed from it comes from this tensor, and not from the batch that gave it
            self._v = Value(0, 0, spec_of(computed), None, False, computed)
        return self

    @property
    def is_leaf(self) -> bool:
        """True if it has no history."""
        return not self.requires_grad or bool(concrete(self).is_leaf)

    @property
    def grad_fn(self) -> Any:
        """The history; computes the tensor if there is one."""
        return concrete(self).grad_fn if self.requires_grad else None

    @property
    def grad(self) -> Any:
        """The gradient, where `retain_grad` asked for it."""
        return concrete(self).grad

    @grad.setter
    def grad(self, value: Any) -> None:
        concrete(self).grad = value

    @property
    def data(self) -> Any:
        """The tensor without history; what is written to it shows here, as eagerly."""
        found = self._without_history("data")
        return _engine().opened(self).data if found is None else found

    @data.setter
    def data(self, value: Any) -> None:
        engine_of("torch").put_data(self, value)  # type: ignore[attr-defined]

    def detach(self) -> Any:
        """Stands in for torch.Tensor.detach; in an open batch a node only once more is asked than how it looks."""
        found = self._without_history("detach")
        return torch.Tensor.detach(self) if found is None else found

    def _without_history(self, name: str) -> Any:
        """A view of a pending tensor that is taken when more is asked of it than how it looks; else None."""
        state = LOCAL.state
        batch = state.batch
        if batch is None or current(self).graph is not batch.graph or state.paused or state.trace is not None:
            return None
        if self._v.taped and name == "detach":
            before = torch.is_grad_enabled()
            torch._C._set_grad_enabled(False)
            try:
                return torch.Tensor.detach(self)
            finally:
                torch._C._set_grad_enabled(before)
        step = _engine().detaching(self, name)
        found = noted(wrap(self._v), self, step)
        if found._v.taped:
            found._n = UNSEEN
        return found

    def expand_as(self, other: Any) -> Any:
        """Stands in for torch.Tensor.expand_as, of which PyTorch's parser would ask both tensors."""
        like = isinstance(other, torch.Tensor) and other.dim()
        return self.expand(*other.shape) if like else torch.Tensor.expand_as(self, other)

    def view_as(self, other: Any) -> Any:
        """Stands in for torch.Tensor.view_as."""
        like = isinstance(other, torch.Tensor) and other.dim()
        return self.view(*other.shape) if like else torch.Tensor.view_as(self, other)

    def size(self, dim: int | None = None) -> Any:
        """Stands in for torch.Tensor.size."""
        shape = self._v.spec.shape
        return torch.Size(shape) if dim is None else shape[dim]

    def dim(self) -> int:
        """Stands in for torch.Tensor.dim."""
        return len(self._v.spec.shape)

    ndimension = dim

    def numel(self) -> int:
        """Stands in for torch.Tensor.numel."""
        return prod(self._v.spec.shape)

    nelement = numel

    def is_floating_point(self) -> bool:
        """Stands in for torch.Tensor.is_floating_point."""
        return self._v.spec.dtype in FLOATS

    def is_inference(self) -> bool:
        """Stands in for torch.Tensor.is_inference: whether eager execution would have made it in inference mode."""
        value = current(self)
        if self._c is not None and value.base is self._c:  # an input
            return bool(self._c.is_inference())
        return torch.is_inference_mode_enabled() and not value.taped

    @property
    def _version(self) -> Any:
        """Counts the writes to an input; of another tensor, those to where it is."""
        _note_asked(self, "_version")
        return concrete(self)._version

    stride = _asking(torch.Tensor.stride)
    storage_offset = _asking(torch.Tensor.storage_offset)
    is_contiguous = _asking(torch.Tensor.is_contiguous)

    def get_device(self) -> int:
        """Stands in for torch.Tensor.get_device."""
        index = self.device.index
        return -1 if index is None else int(index)

    def __len__(self) -> int:
        if not self._v.spec.shape:
            raise TypeError("len() of a 0-d tensor")
        return self._v.spec.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self._v.spec.shape:
            raise TypeError("iteration over a 0-d tensor")
        if current(self).graph is None:  # its numbers are there: as eagerly
            there = known_here(self)
            return iter(self.unbind(0) if there is None else [as_known(part) for part in there.unbind(0)])
        return iter([self[k] for k in range(self._v.spec.shape[0])])

    item, __bool__ = _reading_result("item", lambda number: number), _reading_result("__bool__", bool)
    tolist, __float__ = _reading_result("tolist", lambda listed: listed, "listed_of"), _reading("__float__")
    __int__, __index__ = _reading("__int__"), _reading("__index__")

    def numpy(self, *, force: bool = False) -> Any:
        """Stands in for torch.Tensor.numpy."""
        _asked(self, True)
        return _engine().lent(self).numpy(force=force)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        _asked(self, True)
        computed = _engine().lent(self)
        numbers = computed.__array__() if dtype is None else computed.__array__(dtype)
        return numbers.copy() if copy else numbers

    __repr__, __format__ = _reading("__repr__", concrete), _reading("__format__", concrete)
    __reduce_ex__ = _reading("__reduce_ex__", lambda lazy: _engine().lent(lazy))  # a copy by `copy` has its memory
    __deepcopy__ = _reading("__deepcopy__", concrete)

    def __hash__(self) -> int:
        own = own_of(self)
        return object.__hash__(self) if own is None else hash(own)

    def __dir__(self) -> Any:
        own = own_of(self)
        return dir(concrete(self) if own is None else own)

    def __eq__(self, other: Any) -> Any:
        return is_sought(self, other) or self._equal(other)

    _equal = torch.Tensor.__eq__

    def set_(self, *args: Any, **kwargs: Any) -> Any:
        """Stands in for torch.Tensor.set_, which does not dispatch."""
        return _engine().call_operator(torch.Tensor.set_, (self, *args), kwargs)

    def backward(
        self, gradient: Any = None, retain_graph: Any = None, create_graph: Any = False, inputs: Any = None
    ) -> None:
        """Stands in for torch.Tensor.backward: runs the batch forward, then backward through all of it at once."""
        torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def item_of(lazy: LazyTensor, key: Any) -> Any:
    """Returns `lazy[key]`: rows of captured values are references. The class has no such method in Python.

    With one PyTorch would take a tensor for a sequence, and one without axes, in a list, for one that has no length.
    """
    value, state = current(lazy), LOCAL.state
    batch = state.batch
    if value.graph is None and (key.__class__ is int or key.__class__ is slice):
        there = known_here(lazy)
        if there is not None:
            return as_known(there[key])
    if batch is not None and value.graph is batch.graph and not state.paused and state.trace is None:
        if torch.is_grad_enabled() or not value.taped:  # else what is sliced has no history
            kind = key.__class__
            try:
                found = sliced(value, key)
                if found is None:
                    found = row(value, key, _SCALAR) if kind is int else indexed(value, key, _SCALAR)
            except IndexError as error:
                raise _engine().refused(_ITEM, (lazy, key), error) from error
            if found is not None:
                return noted(wrap(found), lazy, key if kind is int or kind is slice else Key(key))
    return _engine().call_operator(_ITEM, (lazy, key), {})


def wrap(value: Value) -> LazyTensor:
    """A lazy tensor of this value."""
    tensor: LazyTensor = make_subclass(LazyTensor, meta_of(value.spec))
    tensor._v = value
    tensor._c = tensor._b = tensor._k = tensor._n = None
    return tensor


ANSWERS[LazyTensor] = torch.Tensor, own_of
make = wrap
if FAST is not None:  # takes one that has ended if there is one of this look
    wrap = FAST.tensor


def as_known(tensor: Any) -> LazyTensor:
    """A tensor of integers that is there, as what a program that is captured works on."""
    found = wrap(Value(0, 0, spec_of(tensor), None, False, tensor))
    found._c = tensor
    return found


def known_here(lazy: LazyTensor) -> Any:
    """The tensor of integers that a lazy one stands for, where a program that is captured asks for parts of it."""
    state = LOCAL.state
    if not state.inside or state.paused or state.trace is not None:
        return None
    if lazy._c.__class__ is not torch.Tensor or lazy._b is not None:
        return None
    return lazy._c if lazy._v.spec.dtype in WHOLE and lazy._v.spec.device == "cpu" else None


def noted(view: LazyTensor, tensor: LazyTensor, key: Any) -> LazyTensor:
    """The view, which knows from now on what it is a view of: this key, or this step, of a tensor."""
    last = tensor._k[1] if tensor._k.__class__ is tuple else tensor._k
    if last.__class__ is CopyStep and tensor._b is not None:
        _engine().unlink(tensor)
    base = tensor._b
    view._b, view._k = (tensor, key) if base is None else (base, (tensor._k, key))
    view._n = view._b._n
    return view


def waits(item: Any) -> bool:
    """True if an argument is, or holds, a lazy tensor whose batch has not run."""
    if item.__class__ is LazyTensor:
        base = item._b
        if base is not None and base._n is not item._n:
            item = base
        if item._c is not None:
            return False
        value = item._v
        return value.result is None and value.graph is not None and isinstance(value.graph.owner, Batch)
    if isinstance(item, (list, tuple)):
        return any(waits(part) for part in item)
    return isinstance(item, dict) and any(waits(part) for part in item.values())


def take_anew(given: Iterable[Any]) -> None:
    """Takes views anew of what has been written to, where a call begins that is given them.

    That captures nodes, and may run the batch that they fill: the values of no operand are known yet.
    """
    for item in given:
        if item.__class__ is LazyTensor:
            if item._b is not None:
                current(item)
        elif isinstance(item, (list, tuple)):
            take_anew(item)
        elif isinstance(item, dict):
            take_anew(item.values())
        elif item.__class__ is slice:
            take_anew((item.start, item.stop, item.step))
