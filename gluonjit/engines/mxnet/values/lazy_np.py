"""The lazy array of `mx.np`: what captured calls return to programs that use MXNet's numpy interface."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from mxnet.ndarray import NDArray
from mxnet.ndarray.numpy import _internal as npi
from mxnet.numpy import ndarray

from gluonjit.engines.mxnet.framework.originals import call_operator
from gluonjit.engines.mxnet.values.aliases import CLASSIC, NUMPY, ViewCall, noted, seen
from gluonjit.engines.mxnet.values.computing import plain, waits
from gluonjit.engines.mxnet.values.indexing import rows_where
from gluonjit.engines.mxnet.values.lazy import Lazy, LazyArray, detached, own_of, taken, wrap
from gluonjit.graph import Value
from gluonjit.hybrid.capture.outlining.questions import ANSWERS
from gluonjit.hybrid.run.state import LOCAL

_new = object.__new__
_call = partial(call_operator, True)


class LazyNumpy(Lazy, ndarray):  # type: ignore[misc]
    """An mx.np.ndarray of a captured call: `_v`, `_c`, `_b` and `_k` are those of LazyArray."""

    __slots__ = ("_b", "_c", "_k", "_v")

    @property
    def dtype(self) -> Any:
        """Known without computing."""
        return np.dtype(self._v.spec.dtype)

    def __len__(self) -> int:
        if not self._v.spec.shape:
            raise TypeError("len() of unsized object")
        return int(self._v.spec.shape[0])

    def __getitem__(self, key: Any) -> Any:
        found = self._rows(key, wrap_np)
        if found is not None:
            return found
        if not LOCAL.state.inside and not waits(self):
            return plain(self)[key] if _is_mask(key) else taken(self, key, wrap_np)
        if _is_mask(key):  # how many entries it picks depends on its values
            where = rows_where(self, key)
            return plain(self)[key] if where is None else wrap_np(where)
        if not self.shape and key != ():
            raise IndexError("scalar tensor can only accept `()` as index")
        return self._cut(key, (), wrap_np, npi)

    @staticmethod
    def _in_kind(computed: NDArray) -> NDArray:
        return computed.as_np_ndarray()

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        """Captures mx.np.ndarray.astype."""
        if order not in (None, "K", "C") or casting != "unsafe" or not subok:
            return ndarray.astype(self, dtype, order, casting, subok, copy)
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        return _call("Cast", self, dtype=np.dtype(dtype).name)

    def copy(self, order: str = "C") -> Any:
        """Captures mx.np.ndarray.copy."""
        return _call("_np_copy", self) if order == "C" else ndarray.copy(self, order)

    def detach(self) -> Any:
        """Captures mx.np.ndarray.detach."""
        return detached(self, partial(_call, "BlockGrad"), wrap_np)

    def reshape_view(self, *shape: Any, **kwargs: Any) -> Any:
        """Captures mx.np.ndarray.reshape_view."""
        if not waits(self) or kwargs:
            computed = plain(self).reshape_view(*shape, **kwargs)
            return seen(self, computed, ViewCall("reshape_view", (computed.shape,)), wrap_np)
        found = self.reshape(*[tuple(part) if isinstance(part, list) else part for part in shape])
        return noted(found, self, ViewCall("reshape_view", (found.shape,))) if found.__class__ is LazyNumpy else found

    def as_np_ndarray(self) -> Any:
        """This array."""
        return self

    def as_nd_ndarray(self) -> Any:
        """Stands in for mx.np.ndarray.as_nd_ndarray, without computing."""
        waits(self)  # a view is renewed
        computed = None if self._c is None else self._c.as_nd_ndarray()
        return noted(wrap(self._v, computed), self, CLASSIC)


ANSWERS[LazyNumpy] = ndarray, own_of


def wrap_np(value: Value, computed: NDArray | None = None) -> LazyNumpy:
    """A lazy array of this value, whose numbers may exist already."""
    array: LazyNumpy = _new(LazyNumpy)
    array._v = value
    array._c = None if computed is None else computed.as_np_ndarray()
    array._b = array._k = None
    return array


def _as_np_ndarray(self: LazyArray) -> LazyNumpy:
    """Stands in for NDArray.as_np_ndarray, without computing."""
    waits(self)  # a view is renewed
    view = wrap_np(self._v, self._c)
    noted(view, self, NUMPY)
    return view


LazyArray.as_np_ndarray = _as_np_ndarray


def _is_mask(key: Any) -> bool:
    """True if an index is made of truth values."""
    if isinstance(key, (bool, np.bool_)):
        return True
    if isinstance(key, (list, tuple)):
        return any(map(_is_mask, key))
    return isinstance(key, (NDArray, np.ndarray)) and np.dtype(key.dtype) == np.bool_
