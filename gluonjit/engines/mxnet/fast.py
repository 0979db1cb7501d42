"""The fast path of capture, where it was built: what C needs to know, and where it stands before Python."""

from __future__ import annotations

import ctypes
from typing import Any

from mxnet import gluon
from mxnet.base import _LIB
from mxnet.ndarray import NDArray
from mxnet.ndarray._internal import NDArrayBase
from mxnet.numpy import ndarray

from gluonjit.compiled import FAST
from gluonjit.engines.mxnet import calls, hooked
from gluonjit.engines.mxnet.cell import KEY, Cell
from gluonjit.engines.mxnet.cells import looked_up, rebuild
from gluonjit.engines.mxnet.dynamic import automatic_cell
from gluonjit.engines.mxnet.lazy import LazyArray
from gluonjit.engines.mxnet.lazy_np import LazyNumpy
from gluonjit.engines.mxnet.operands import ZERO, Empty, value_of
from gluonjit.hybrid.capture.fast import configure


def block_call() -> Any:
    """Stands in the place of gluon.Block.__call__."""
    if FAST is None:
        return calls.call
    configure()
    FAST.configure(
        "mxnet",
        Cell=Cell,
        LazyArray=LazyArray,
        LazyNumpy=LazyNumpy,
        NDArray=NDArray,
        ndarray=ndarray,
        key=KEY,
        original=hooked.original_call,
        value_of=value_of,
        empty=Empty,
        zero=ZERO,
        rebuild=rebuild,
        NDArrayBase=NDArrayBase,
        HybridBlock=gluon.HybridBlock,
        Embedding=gluon.nn.Embedding,
        Block=gluon.Block,
        automatic=automatic_cell,
        after=calls.after_forward,
        look_up=looked_up,
        get_shape=_address(_LIB.MXNDArrayGetShapeEx64),
        get_dtype=_address(_LIB.MXNDArrayGetDType),
        get_context=_address(_LIB.MXNDArrayGetContext),
        copy_out=_address(_LIB.MXNDArraySyncCopyToCPU),
    )
    LazyArray.__getitem__ = FAST.Hook("item", LazyArray.__getitem__)  # type: ignore[method-assign]
    LazyNumpy.__getitem__ = FAST.Hook("numpy_item", LazyNumpy.__getitem__)  # type: ignore[method-assign]
    return FAST.Hook("call", calls.call)


def operator_call() -> Any:
    """Stands in the place of mxnet.ndarray.register._imperative_invoke."""
    return calls.invoke if FAST is None else FAST.Hook("operator", calls.invoke)


def verify() -> Any:
    """Stands in the place of mxnet.ndarray.register._verify_all_legacy_ndarrays."""
    return calls.verify if FAST is None else FAST.Hook("verify", calls.verify)


def verify_numpy() -> Any:
    """Stands in the place of mxnet.ndarray.register._verify_all_np_ndarrays."""
    return calls.verify_numpy if FAST is None else FAST.Hook("numpy_verify", calls.verify_numpy)


def _address(function: Any) -> int | None:
    """The address of a function of MXNet's C interface."""
    return ctypes.cast(function, ctypes.c_void_p).value
