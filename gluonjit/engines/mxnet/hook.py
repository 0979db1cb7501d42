"""Patches applied by `import mxnet` if gluonjit is present: one table of all patched MXNet functions.

If the fast path of capture was built, C handles some calls before Python: here it gets the data it needs.
"""

from __future__ import annotations

import ctypes
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
from gluonjit.engines.mxnet import calls, changes, hooked, shared
from gluonjit.engines.mxnet.cell import Cell
from gluonjit.engines.mxnet.cells import looked_up, rebuild, record_again
from gluonjit.engines.mxnet.dynamic import automatic_cell
from gluonjit.engines.mxnet.engine import ENGINE
from gluonjit.engines.mxnet.lazy import LazyArray
from gluonjit.engines.mxnet.lazy_np import LazyNumpy
from gluonjit.engines.mxnet.operands import Empty, value_of
from gluonjit.engines.mxnet.semantics import note_semantics
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
        LazyArray=LazyArray,
        LazyNumpy=LazyNumpy,
        NDArray=NDArray,
        ndarray=ndarray,
        key=KEY,
        original=hooked.original_call,
        value_of=value_of,
        empty=Empty,
        rebuild=rebuild,
        again=record_again,
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
        wait=_address(_LIB.MXNDArrayWaitToRead),
        get_data=_address(_LIB.MXNDArrayGetData),
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


_from_numpy = shared.noting(hooked.original_from_numpy)
_from_dlpack = shared.noting(hooked.original_from_dlpack)
_set_np_shape = changes.noting(hooked.original_set_np_shape)

PATCHES: list[tuple[Any, str, Any]] = [
    (register, "_imperative_invoke", operator_call()),
    (register, "_verify_all_legacy_ndarrays", verify()),
    (gluon.Block, "__call__", block_call()),
    (gluon.Block, "hybridize", changes.hybridize(hooked.original_block_hybridize)),
    (gluon.HybridBlock, "hybridize", changes.hybridize(hooked.original_hybrid_hybridize)),
    (register, "_verify_all_np_ndarrays", verify_numpy()),
    (NDArray, "__setitem__", changes.setitem),
    (ndarray, "__setitem__", changes.numpy_setitem),
    (NDArray, "_get_index_nd", changes.get_index),
    (_api_internal, "zeros", calls.zeros),
    (_api_internal, "tensordot", calls.tensordot),
    (mx, "set_np_shape", _set_np_shape),
    (mx.util, "set_np_shape", _set_np_shape),
    (mx.util, "_set_np_array", changes.noting(hooked.original_set_np_array)),
    (mx.util._NumpyArrayScope, "__enter__", changes.noting(hooked.original_enter_np_array)),
    (mx.util._NumpyArrayScope, "__exit__", changes.noting(hooked.original_exit_np_array)),
    (NDArray, "reshape", calls.reshape),
    (rnn_layer._RNNLayer, "__call__", calls.call_recurrent),
    (mx.ndarray, "from_numpy", _from_numpy),
    (mx.ndarray.ndarray, "from_numpy", _from_numpy),
    (mx.ndarray, "from_dlpack", _from_dlpack),
    (mx.ndarray.ndarray, "from_dlpack", _from_dlpack),
    (mx.ndarray.ndarray, "to_dlpack_for_write", shared.noting(hooked.original_to_dlpack)),
    (mx.ndarray, "to_dlpack_for_write", shared.noting(hooked.original_to_dlpack)),
    (autograd, "set_recording", changes.set_recording),
    (autograd, "set_training", changes.set_training),
    (NDArray, "attach_grad", changes.attaching(hooked.original_attach_grad)),
    (ndarray, "attach_grad", changes.attaching(hooked.original_numpy_attach_grad)),
    (autograd, "mark_variables", changes.mark_variables),
    (autograd, "backward", lazy_backward.backward),
    (NDArray, "backward", lazy_backward.backward_of_array),
    (autograd, "grad", lazy_backward.grad),
    (gluon.Trainer, "step", changes.flushing(hooked.original_trainer_step, "Trainer.step")),
    (gluon.Trainer, "update", changes.flushing(hooked.original_trainer_update, "Trainer.update")),
    (gluon.Parameter, "set_data", changes.flushing(hooked.original_set_data, "Parameter.set_data")),
    (gluon.Parameter, "_finish_deferred_init", changes.initialising(hooked.original_finish_deferred)),
    (gluon.Parameter, "_init_impl", changes.uncaptured(hooked.original_init_impl)),
    (gluon.Parameter, "initialize", changes.replacing(hooked.original_initialize, "Parameter.initialize")),
    (gluon.Parameter, "reset_ctx", changes.replacing(hooked.original_reset_ctx, "Parameter.reset_ctx")),
    (gluon.Parameter, "cast", changes.replacing(hooked.original_cast, "Parameter.cast")),
    (
        gluon.Parameter,
        "grad_req",
        hooked.original_grad_req.setter(changes.replacing(hooked.original_grad_req.fset, "grad_req")),
    ),
    (gluon.ParameterDict, "zero_grad", changes.zero_grad),
    (gluon.HybridBlock, "export", changes.export),
    (gluon.HybridBlock, "_clear_cached_op", changes.restructuring(hooked.original_clear_cached_op, own=True)),
    (gluon.Block, "register_child", changes.forgetting(hooked.original_register_child)),
    (gluon.Block, "register_forward_hook", changes.restructuring(hooked.original_register_hook)),
    (gluon.Block, "register_forward_pre_hook", changes.restructuring(hooked.original_register_pre_hook)),
    (HookHandle, "detach", changes.restructuring(hooked.original_detach_hook)),
]


def install(module: Any = None) -> None:
    """Patches MXNet. Called when its import has finished."""
    compute_what_is_sent()
    if register_engine(ENGINE, PATCHES):
        note_semantics()
