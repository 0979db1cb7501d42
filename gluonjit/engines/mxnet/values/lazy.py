"""The array that a captured call returns: an NDArray whose numbers are computed on demand.

It passes every `isinstance` check and every operator. Shape, dtype and device are known; access to `handle`, that is to
the numbers, runs the pending batch. Slicing along axis 0 makes references to rows, not nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from mxnet.base import MXNetError
from mxnet.context import Context
from mxnet.ndarray import NDArray, empty, op
from mxnet.ndarray.ndarray import indexing_key_expand_implicit_axes

from gluonjit.compiled import FAST
from gluonjit.engines.mxnet.framework.arrays import context_of
from gluonjit.engines.mxnet.framework.indices import Cuts, basic_index, expanded, is_basic
from gluonjit.engines.mxnet.framework.originals import call_operator
from gluonjit.engines.mxnet.framework.semantics import as_captured
from gluonjit.engines.mxnet.run.one_by_one import as_decided
from gluonjit.engines.mxnet.values import references
from gluonjit.engines.mxnet.values.aliases import DETACHED, Owned, ViewCall, is_view, noted, seen
from gluonjit.engines.mxnet.values.computing import concrete, is_there, own, plain, read, waits
from gluonjit.engines.mxnet.values.indexing import coordinates, rows_at
from gluonjit.engines.mxnet.values.lookups import host_numbers
from gluonjit.engines.mxnet.values.operands import value_of
from gluonjit.engines.mxnet.values.recorder import Recorder
from gluonjit.engines.mxnet.values.replacing import before_variable, replaces
from gluonjit.graph import Value
from gluonjit.graph.modes import RECORDING
from gluonjit.graph.slices import sliced
from gluonjit.hybrid.capture.assumed import assumed
from gluonjit.hybrid.capture.capturing import open_batch
from gluonjit.hybrid.capture.outlining.questions import ANSWERS, is_sought
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.places import are_many
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED

_new = object.__new__
_Silent: Any = object if FAST is None else FAST.Silent  # has a __del__ that is no call of Python


class Lazy(_Silent):  # type: ignore[misc]
    """The common part of lazy arrays of both kinds: all but what they are called in their own interface."""

    __slots__: tuple[str, ...] = ()

    _b: Any
    _c: NDArray | None
    _k: Any
    _v: Value

    def __init__(self, handle: Any = None, writable: bool = True) -> None:
        raise TypeError(
            f"{type(self).__name__} is created only by captured calls; use mx.nd.array or mx.np.array for your own"
        )

    if FAST is None:

        def __del__(self) -> None:
            """Nothing to free here: the computed array frees itself."""

    def __hash__(self) -> int:
        own = own_of(self)
        return super().__hash__() if own is None else hash(own)

    def __eq__(self, other: Any) -> Any:
        return is_sought(self, other) or super().__eq__(other)

    @property
    def handle(self) -> Any:
        """The address of the computed array; runs what is pending."""
        return plain(self).handle

    @property
    def writable(self) -> bool:
        """Lazy arrays can be written to, which computes them first."""
        return True

    @property
    def shape(self) -> tuple[int, ...]:
        """Known without computing."""
        return self._v.spec.shape

    @property
    def ndim(self) -> int:
        """Known without computing."""
        return len(self._v.spec.shape)

    @property
    def size(self) -> int:
        """Known without computing."""
        return prod(self._v.spec.shape)

    @property
    def context(self) -> Any:
        """Known without computing. A new object each time: MXNet's is no context manager that can be entered twice."""
        return Context(context_of(self._v.spec.device))

    ctx = context

    @property
    def stype(self) -> str:
        """Captured calls give dense arrays."""
        return "default"

    def __bool__(self) -> bool:
        truth = assumed(self._v, sys._getframe(1)) if self._c is None and self.size == 1 else None
        return super().__bool__() if truth is None else truth

    def asnumpy(self) -> Any:
        """Stands in for NDArray.asnumpy. Reading numbers needs no history, also while recording."""
        return read(self).asnumpy()

    def wait_to_read(self) -> None:
        """Stands in for NDArray.wait_to_read."""
        concrete(self).wait_to_read()

    def copyto(self, other: Any) -> Any:
        """Captures a copy on the same device."""
        if isinstance(other, Context) and other == self.context:
            return self.copy()
        return super().copyto(other)

    def __reduce__(self) -> Any:
        return concrete(self).__reduce__()

    def _rows(self, key: Any, wrapped: Any) -> Any:
        """Rows of the open batch by an index of rows alone, as a view made by `wrapped`; None in other cases."""
        value, state = self._v, LOCAL.state
        batch = state.batch
        if batch is not None and value.graph is batch.graph and (state.mode & RECORDING or not value.taped):
            found = sliced(value, key)
            if found is not None:
                return noted(wrapped(found), self, key)
        return None

    def _cut(self, key: Any, scalar: tuple[int, ...], wrapped: Any, ops: Any) -> Any:
        """Picks by any index: a view where MXNet's is one, and an entry as an array of the shape `scalar`."""
        found = referred(self, key, scalar)
        picked = by_operators(self, key, wrapped, ops) if found is None else wrapped(found)
        return noted(picked, self, key) if picked.__class__ is self.__class__ and is_view(key, self.shape) else picked

    def __getitem__(self, key: Any) -> Any:
        raise NotImplementedError  # each interface has its own

    def __setitem__(self, key: Any, value: Any) -> None:
        if replaces(self, key, value):
            return
        try:
            array = own(self)
        except MXNetError:  # a refusal; MXNet looks at what is to be written before
            with UNCAPTURED, as_captured(0):
                given = value._in_kind(empty(value.shape, dtype=value.dtype)) if isinstance(value, Lazy) else value
                self._in_kind(empty(self.shape, dtype=self.dtype))[key] = given
            raise
        array[key] = value

    @staticmethod
    def _in_kind(computed: NDArray) -> NDArray:
        """A computed array as one of this kind's interface."""
        return computed

    def _slice(self, start: Any, stop: Any) -> Any:
        return self[slice(start, stop)]

    def _at(self, idx: int) -> Any:
        return self[int(idx)]

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Stands in for NDArray.attach_grad; computes the array, which is a leaf of later captures."""
        before_variable(self)
        with UNCAPTURED:  # the array for the gradient is no part of the program
            own(self).attach_grad(grad_req, *(() if stype is None else (stype,)))

    def backward(self, out_grad: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
        """Stands in for NDArray.backward: runs the batch forward, then backward through all of it at once."""
        from mxnet import autograd

        autograd.backward([self], None if out_grad is None else [out_grad], retain_graph, train_mode)


class LazyArray(Lazy, NDArray):  # type: ignore[misc]
    """An NDArray of a captured call. `_v` is its value in a graph, `_c` the computed array once it was read.

    `_b` is the array that it is a view of, if any, and `_k` says which view (see `aliases.noted`).
    """

    __slots__ = ("_b", "_c", "_k", "_v")

    @property
    def dtype(self) -> Any:
        """Known without computing."""
        return np.dtype(self._v.spec.dtype).type

    def __len__(self) -> int:
        return int(self._v.spec.shape[0])

    def __repr__(self) -> str:
        """Returns what MXNet's array of these numbers says; runs what is pending."""
        return repr(plain(self))

    def __getitem__(self, key: Any) -> Any:
        found = self._rows(key, wrap)
        if found is not None:
            return found
        if not LOCAL.state.inside and not waits(self):
            return taken(self, key, wrap)
        return self._cut(_of_integers(key, len(self.shape)), (1,), wrap, op)

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        """Captures NDArray.reshape."""
        if not waits(self):
            computed = concrete(self).reshape(*shape, **kwargs)
            return seen(self, computed, ViewCall("reshape", (computed.shape,)), wrap)
        found = reshaped(self, *shape, **kwargs)
        return noted(found, self, ViewCall("reshape", (found.shape,))) if found.__class__ is LazyArray else found

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Captures NDArray.astype."""
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        return op.Cast(self, dtype=np.dtype(dtype).name)

    def detach(self) -> Any:
        """Captures NDArray.detach."""
        return detached(self, op.BlockGrad, wrap)

    def copy(self) -> Any:
        """Captures NDArray.copy."""
        return op.identity(self)

    @property
    def T(self) -> Any:
        """Captures NDArray.T."""
        return op.transpose(self) if len(self._v.spec.shape) > 1 else self


def own_of(array: Any) -> Any:
    """The program's own array that a lazy one stands for, or None."""
    return array._c if array._c is not None and array._v.base.__class__ is Owned else None


ANSWERS[LazyArray] = NDArray, own_of


def reshaped(array: NDArray, *shape: Any, **kwargs: Any) -> Any:
    """NDArray.reshape as an operator call."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if not shape:
        shape = tuple(kwargs["shape"])
    return op.Reshape(array, shape=shape, reverse=kwargs.get("reverse", False))


def taken(array: Any, key: Any, wrapped: Any) -> Any:
    """`x[key]` of a computed array, as a lazy array made by `wrapped` where it may share memory that is not its own."""
    found = concrete(array)[key]
    return seen(array, found, key, wrapped) if is_view(key, array.shape) else found


def detached(array: Any, operator: Any, wrapped: Any) -> Any:
    """`x.detach()`, captured as `operator` where the array waits."""
    if is_there(array):
        return seen(array, concrete(array).detach(), DETACHED, wrapped)
    state = LOCAL.state
    mode, state.mode = state.mode, state.mode & ~RECORDING  # what it gives is in no computational graph
    try:
        found = operator(array)
    finally:
        state.mode = mode
    return noted(found, array, DETACHED) if isinstance(found, Lazy) else found


def wrap(value: Value, computed: NDArray | None = None) -> LazyArray:
    """A lazy array of this value, whose numbers may exist already: slices of it are references to its rows."""
    array: LazyArray = _new(LazyArray)
    array._v, array._c = value, computed
    array._b = array._k = None
    return array


def _of_integers(key: Any, axes: int) -> Any:
    """An index as NDArray reads it: True is 1 where it stands alone, or among integers for all axes."""
    if isinstance(key, bool):
        return int(key)
    if isinstance(key, tuple) and len(key) == axes and all(isinstance(part, int) for part in key):
        return tuple(map(int, key))
    return key


def by_operators(array: Any, key: Any, wrapped: Any, ops: Any) -> Any:
    """Basic indexing by operators; indexing by arrays as the array's class does it."""
    parts = expanded(key if isinstance(key, tuple) else (key,), len(array.shape))
    if ops is op and any(isinstance(part, bool) for part in parts):
        return plain(array)[key]
    if not is_basic(parts):
        return picked(array, key, wrapped, ops)
    cuts, shape = basic_index(parts, array.shape)
    if 0 in shape:
        return plain(array)[key]
    cut = array if cuts is None else cut_out(array, cuts, wrapped, ops is not op)
    if ops is not op:
        return cut if cut.shape == shape else cut.reshape(shape)
    shape = shape or (1,)
    return cut if cut.shape == shape else op.Reshape(cut, shape=shape)


def referred(lazy: Any, key: Any, scalar: tuple[int, ...]) -> Value | None:
    """Finds the rows of a lazy array's value that an index picks, if it is in the open batch.

    Rows are references, and the rest of an index is one operator: `x[i, 2:5]` is one kind for all i. Entries, of which
    a program may take any, such as the scores of a sample's own tags, are picked by a number that is an operand: one
    kind for all of them.
    """
    value, state = lazy._v, LOCAL.state
    if isinstance(value.graph, Recorder):
        return None
    batch = state.batch or state.open(engine_of("mxnet"))
    if value.graph is not batch.graph:
        value = value_of(batch, lazy)
    if not state.mode & RECORDING and value.taped:  # what is sliced while not recording has no history
        return None
    return references.indexed(value, key, scalar)


def cut_out(lazy: Any, cuts: Cuts, wrapped: Callable[[Value], Any], is_np: bool) -> Any:
    """Cuts out of a lazy array one number or more; its shape may differ from the index's by axes of size 1.

    wrapped: makes a lazy array of a value; is_np: whether it is one of mx.np.
    """
    first, last, step = cuts[0]
    rows = referred(lazy, slice(first, last), ()) if step == 1 and (first, last) != (0, lazy.shape[0]) else None
    if rows is not None:
        lazy, cuts = wrapped(rows), [(0, rows.spec.rows, 1), *cuts[1:]]
    shape = lazy.shape
    if all(cut == (0, extent, 1) for cut, extent in zip(cuts, shape)):
        return lazy
    if all(len(range(extent)[slice(*cut)]) == 1 for cut, extent in zip(cuts, shape)):
        number = int(np.ravel_multi_index([begin for begin, _, _ in cuts], shape))
        if _as_operand(lazy._v, number, rows is not None):
            row = lazy if len(shape) == 2 and shape[0] == 1 else lazy.reshape((1, -1))
            index = host_numbers(open_batch(engine_of("mxnet")), [number], "int32", lazy._v.spec.device)
            return call_operator(is_np, "pick", row, wrapped(index), axis=1)
    begin, end, steps = zip(*cuts)
    return call_operator(is_np, "slice", lazy, begin=begin, end=end, step=steps)


def _as_operand(value: Value, number: int, of_many: bool) -> bool:
    """True if an entry's number becomes an operand: of many rows it is a sample's own more often than not."""
    if isinstance(value.graph, Recorder) or value.spec.dtype == "bool":  # pick takes no truth values
        return False
    return of_many or are_many(value.spec, number)


def picked(array: Any, key: Any, wrapped: Any, ops: Any) -> Any:
    """Indexing by arrays, as NDArray does it: an index array made on the host, then one of these operators."""
    numpy = ops is not op
    key = tuple(map(as_decided, key)) if key.__class__ is tuple else as_decided(key)
    found = rows_at(array, key)
    if found is not None:
        return wrapped(found)
    known = coordinates(array, key)
    if known is not None:
        return ops.gather_nd(array, known.as_np_ndarray() if numpy else known)
    parts = key if isinstance(key, tuple) else (key,)
    indices, new_axes = array._get_index_nd(indexing_key_expand_implicit_axes(parts, array.shape)[0])
    if not isinstance(indices, NDArray):
        if not numpy:
            return NDArray.__getitem__(array, parts)
        with UNCAPTURED:
            indices = ops.stack(*[part.as_np_ndarray() for part in indices])
    gathered = ops.gather_nd(array, indices.as_np_ndarray() if numpy else indices)
    shape = list(gathered.shape)
    for axis in new_axes:
        shape.insert(axis, 1)
    return gathered if len(shape) == len(gathered.shape) else gathered.reshape(tuple(shape))
