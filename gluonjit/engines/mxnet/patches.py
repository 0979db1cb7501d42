"""Patches applied by `import mxnet` if gluonjit is present: one table of all patched MXNet functions.

If the fast path of capture was built, C handles some calls before Python: here it gets the data it needs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import mxnet as mx
from mxnet import autograd, gluon
from mxnet.base import _LIB
from mxnet.gluon.rnn import rnn_layer
from mxnet.gluon.utils import HookHandle
from mxnet.ndarray import NDArray, register
from mxnet.ndarray._internal import NDArrayBase
from mxnet.ndarray.numpy import _api_internal
from mxnet.numpy import ndarray

from gluonjit.compiled import FAST
from gluonjit.engines.mxnet import backward as lazy_backward
from gluonjit.engines.mxnet import changes
from gluonjit.engines.mxnet.capture import calls
from gluonjit.engines.mxnet.capture.cells import looked_up, rebuild, record_again
from gluonjit.engines.mxnet.capture.dynamic import automatic_cell
from gluonjit.engines.mxnet.engine import ENGINE
from gluonjit.engines.mxnet.framework import originals, shared
from gluonjit.engines.mxnet.framework.semantics import note_semantics
from gluonjit.engines.mxnet.tracing.cell import Cell
from gluonjit.engines.mxnet.values.lazy import LazyArray
from gluonjit.engines.mxnet.values.lazy_np import LazyNumpy
from gluonjit.engines.mxnet.values.operands import Empty, laid, value_of
from gluonjit.hybrid.capture.cell import KEY
from gluonjit.hybrid.capture.fast import configure
from gluonjit.hybrid.run.engine import register as register_engine
from gluonjit.hybrid.run.state import compute_what_is_sent


def block_call() -> Any:
    """Stands in the place of gluon.Block.__call__."""
    Cell.enters = staticmethod(calls.OUTERMOST.entered)
    if FAST is None:
        return calls.call
    configure()
    FAST.configure(
        "mxnet",
        Cell=Cell,
        lazy=FAST.LazyKind(LazyArray),
        lazy_np=FAST.LazyKind(LazyNumpy),
        Array=NDArray,
        ndarray=ndarray,
        key=KEY,
        original=originals.original_call,
        value_of=value_of,
        empty=Empty,
        rebuild=rebuild,
        lay=laid,
        again=record_again,
        handle=NDArrayBase.handle,
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
        wait=_address(_LIB.MXNDArrayWaitToRead),
        get_data=_address(_LIB.MXNDArrayGetData),
    )
    LazyArray.__getitem__ = FAST.Hook("item", LazyArray.__getitem__)  # type: ignore[method-assign]
    LazyNumpy.__getitem__ = FAST.Hook("numpy_item", LazyNumpy.__getitem__)  # type: ignore[method-assign]
    return FAST.Hook("call", calls.call)


def hooked_in_c(name: str, function: Any) -> Any:
    """Returns a function that stands in the place of one of MXNet's; C, where it was built, looks at calls before."""
    return function if FAST is None else FAST.Hook(name, function)


def _address(function: Any) -> int | None:
    """The address of a function of MXNet's C interface."""
    return ctypes.cast(function, ctypes.c_void_p).value


Patch = tuple[Any, str, Any]


def wrapped(wrapper: Callable[..., Any], owner: Any, names: str, **options: Any) -> list[Patch]:
    """Patches that put a wrapper around what is there."""
    return [(owner, name, wrapper(getattr(owner, name), **options)) for name in names.split()]


_set_np_shape = changes.noting(mx.util.set_np_shape)
_grad_req = gluon.Parameter.grad_req

PATCHES: list[Patch] = [
    (register, "_imperative_invoke", hooked_in_c("operator", calls.invoke)),
    (register, "_verify_all_legacy_ndarrays", hooked_in_c("verify", register._verify_all_legacy_ndarrays)),
    (gluon.Block, "__call__", block_call()),
    *wrapped(changes.hybridize, gluon.Block, "hybridize"),
    *wrapped(changes.hybridize, gluon.HybridBlock, "hybridize"),
    (register, "_verify_all_np_ndarrays", hooked_in_c("numpy_verify", register._verify_all_np_ndarrays)),
    (NDArray, "__setitem__", changes.setitem),
    (ndarray, "__setitem__", changes.numpy_setitem),
    (NDArray, "_get_index_nd", changes.get_index),
    (_api_internal, "zeros", calls.zeros),
    (_api_internal, "tensordot", calls.tensordot),
    (mx, "set_np_shape", _set_np_shape),
    (mx.util, "set_np_shape", _set_np_shape),
    *wrapped(changes.noting, mx.util, "_set_np_array"),
    *wrapped(changes.noting, mx.util._NumpyArrayScope, "__enter__ __exit__"),
    (NDArray, "reshape", calls.reshape),
    (rnn_layer._RNNLayer, "__call__", calls.call_recurrent),
    *wrapped(shared.noting, mx.ndarray, "from_numpy from_dlpack to_dlpack_for_write"),
    *wrapped(shared.noting, mx.ndarray.ndarray, "from_numpy from_dlpack to_dlpack_for_write"),
    (autograd, "set_recording", changes.set_recording),
    (autograd, "set_training", changes.set_training),
    *wrapped(changes.attaching, NDArray, "attach_grad"),
    *wrapped(changes.attaching, ndarray, "attach_grad"),
    (autograd, "mark_variables", changes.mark_variables),
    (autograd, "backward", lazy_backward.backward),
    (NDArray, "backward", lazy_backward.backward_of_array),
    (autograd, "grad", lazy_backward.grad),
    *wrapped(changes.flushing, gluon.Trainer, "step update"),
    *wrapped(changes.flushing, gluon.Parameter, "set_data"),
    *wrapped(changes.initialising, gluon.Parameter, "_finish_deferred_init _init_impl"),
    *wrapped(changes.replacing, gluon.Parameter, "initialize reset_ctx cast"),
    (gluon.Parameter, "grad_req", _grad_req.setter(changes.replacing(_grad_req.fset))),
    (gluon.ParameterDict, "zero_grad", changes.zero_grad),
    (gluon.HybridBlock, "export", changes.export),
    *wrapped(changes.restructuring, gluon.HybridBlock, "_clear_cached_op", own=True),
    *wrapped(changes.restructuring, gluon.Block, "register_child", own=True),
    *wrapped(changes.restructuring, gluon.Block, "register_forward_hook register_forward_pre_hook"),
    *wrapped(changes.restructuring, HookHandle, "detach"),
]


def install(module: Any = None) -> None:
    """Patches MXNet. Called when its import has finished."""
    compute_what_is_sent()
    if register_engine(ENGINE, PATCHES):
        note_semantics()
