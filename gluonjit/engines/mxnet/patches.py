"""Patches applied by `import mxnet` if gluonjit is present: one table of all patched MXNet functions.

If the fast path of capture was built, C handles some calls before Python: here it gets the data it needs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from inspect import signature
from typing import Any

import mxnet as mx
import numpy as np
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
from gluonjit.engines.mxnet.capture import calls
from gluonjit.engines.mxnet.capture.cells import looked_up, rebuild, record_again
from gluonjit.engines.mxnet.capture.dynamic import automatic_cell, disable, enable, restructured
from gluonjit.engines.mxnet.engine import ENGINE
from gluonjit.engines.mxnet.framework import originals, shared
from gluonjit.engines.mxnet.framework.blocks import blocks_of
from gluonjit.engines.mxnet.framework.semantics import note_semantics
from gluonjit.engines.mxnet.tracing.cell import Cell
from gluonjit.engines.mxnet.values.computing import concrete, in_own_memory, plain
from gluonjit.engines.mxnet.values.lazy import Lazy, LazyArray
from gluonjit.engines.mxnet.values.lazy_np import LazyNumpy
from gluonjit.engines.mxnet.values.operands import Empty, laid, value_of
from gluonjit.engines.mxnet.values.replacing import before_variable, before_write
from gluonjit.engines.mxnet.values.weights import getitem
from gluonjit.errors import OptionError
from gluonjit.graph.modes import is_recorded, is_training, mode_of
from gluonjit.hybrid.capture import entrances
from gluonjit.hybrid.capture.fast import configure
from gluonjit.hybrid.capture.outlining.questions import answer
from gluonjit.hybrid.capture.reuse.cache import refuse
from gluonjit.hybrid.choose.pacing import close
from gluonjit.hybrid.explain.minibatch import MINIBATCH
from gluonjit.hybrid.options import refuse_without_switch
from gluonjit.hybrid.run.engine import register as register_engine
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED, compute_what_is_sent, preceded
from gluonjit.replaced import KEY

_ALL = slice(None)


def set_recording(is_recording: bool) -> bool:
    before: bool = originals.original_set_recording(is_recording)
    LOCAL.state.mode = mode_of(is_recording, is_training(LOCAL.state.mode))
    return before


def set_training(train_mode: bool) -> bool:
    before: bool = originals.original_set_training(train_mode)
    LOCAL.state.mode = mode_of(is_recorded(LOCAL.state.mode), train_mode)
    return before


def mark_variables(variables: Any, gradients: Any, grad_reqs: Any = "write") -> None:
    """autograd.mark_variables: results have memory of their own before they are variables, or gradients of some."""
    listed = [variables] if isinstance(variables, NDArray) else variables
    for array in listed:
        before_variable(array)
    marked = in_own_memory(listed)
    given = in_own_memory([gradients] if isinstance(gradients, NDArray) else gradients)
    originals.original_mark_variables(marked, given, grad_reqs)


def attaching(original: Any) -> Any:
    return preceded(original, before_variable)


def get_index(self: NDArray, key: tuple[Any, ...]) -> Any:
    """NDArray._get_index_nd: the arrays of an index are no part of the captured program."""
    parts = tuple([concrete(part) if isinstance(part, Lazy) else part for part in key])
    with UNCAPTURED:
        return originals.original_get_index(self, parts)


def setitem(self: NDArray, key: Any, value: Any) -> None:
    if isinstance(value, LazyArray):  # MXNet asks for the very type of the array written to
        value = plain(value)
    _write(originals.original_setitem, self, key, value)


def numpy_setitem(self: ndarray, key: Any, value: Any) -> None:
    _write(originals.original_numpy_setitem, self, key, value)


def _write(original: Any, array: Any, key: Any, value: Any) -> None:
    """A call that fills an array with another one's numbers runs each time; numbers of the host are the program's."""
    before_write(array)
    if isinstance(value, NDArray):
        refuse("it writes to an array")
    whole = key.__class__ is slice and key == _ALL and value.__class__ is np.ndarray and LOCAL.state.inside
    if whole and value.size and value.shape == array.shape:
        array._sync_copyfrom(value)  # as MXNet does in the end, also for each `mx.np.array([k])`
    else:
        original(array, key, value)


def zero_grad(self: gluon.ParameterDict) -> None:
    for parameter in self.values():
        for gradient in parameter._grad or ():
            before_write(gradient)
    originals.original_zero_grad(self)


def export(self: gluon.HybridBlock, *args: Any, **kwargs: Any) -> Any:
    if KEY in self.__dict__ and not self._cached_graph:
        raise RuntimeError(
            f"export() of {self.name}: MXNet creates no graph under hybridize(dynamic_batch=True). Call "
            "hybridize() and the block once, then export()."
        )
    return originals.original_export(self, *args, **kwargs)


def _is_part(block: gluon.Block, name: str) -> bool:
    return isinstance(block.__dict__.get(name), (gluon.Block, gluon.Parameter, gluon.ParameterDict))


_FLAGS = set(signature(gluon.HybridBlock.hybridize).parameters)


def hybridize(original: Any) -> Any:
    @wraps(original)
    def hybridize(self: gluon.Block, active: bool = True, *args: Any, **kwargs: Any) -> None:
        dynamic = kwargs.pop("dynamic_batch", None)
        if dynamic is None:
            others = {name: value for name, value in kwargs.items() if name not in _FLAGS}
            refuse_without_switch("hybridize", others, bool(kwargs.get("backend") or args))
            disable(self)
            original(self, active, *args, **kwargs)
        elif not isinstance(dynamic, bool):
            raise OptionError(f"hybridize(): dynamic_batch={dynamic!r}, but it must be True or False")
        elif dynamic and active:
            enable(self, kwargs)
            if not isinstance(self, gluon.HybridBlock):
                entrances.install(self, _is_part, gluon.Block)
            answer(blocks_of(self))
        else:
            disable(self)
            if kwargs or args or not active:
                original(self, active, *args, **kwargs)

    return hybridize


def flushing(original: Any) -> Any:
    """Wraps a function so that everything pending runs before it."""
    name = original.__qualname__

    def flush(owner: Any) -> None:
        state = LOCAL.state
        if not state.paused and state.trace is None:
            state.flush(name)
            state.singles = 0
            if not state.inside:
                MINIBATCH.end()
            if name.startswith("Trainer"):
                close()

    return preceded(original, flush)


def replacing(original: Any) -> Any:
    """A method of a Parameter that puts other arrays in the place of those it has, if it has any."""

    def look(parameter: Any) -> None:
        state = LOCAL.state
        if parameter._data is not None:
            Cell.forget_recordings()
        if parameter._data is not None and state.batch is not None and not state.paused:
            state.flush(original.__qualname__)
            for batch in state.explicit:
                batch.noted.clear()
                batch.parameters.clear()

    return preceded(original, look)


def restructuring(original: Any, own: bool = False) -> Any:
    """A function that changes blocks: `own` says that it is a method of one, which may call other functions then."""

    def forget(block: Any) -> None:
        if own:
            Cell.forget_recordings()
        restructured(block if own else None)

    return preceded(original, forget)


def initialising(original: Any) -> Any:
    """A function that runs the program's initializers: once for all calls, so that they are no part of a trace."""

    @wraps(original)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        follower = getattr(LOCAL.state.trace, "follower", None)
        with UNCAPTURED, nullcontext() if follower is None else follower.suspended():
            return original(self, *args, **kwargs)

    return wrapper


def noting(original: Any) -> Any:
    """A function that changes MXNet's semantics of arrays on this thread."""

    @wraps(original)
    def wrapper(*args: Any) -> Any:
        result = original(*args)
        note_semantics()
        return result

    return wrapper


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


_set_np_shape = noting(mx.util.set_np_shape)
_grad_req = gluon.Parameter.grad_req

PATCHES: list[Patch] = [
    (register, "_imperative_invoke", hooked_in_c("operator", calls.invoke)),
    (register, "_verify_all_legacy_ndarrays", hooked_in_c("verify", register._verify_all_legacy_ndarrays)),
    (gluon.Block, "__call__", block_call()),
    *wrapped(hybridize, gluon.Block, "hybridize"),
    *wrapped(hybridize, gluon.HybridBlock, "hybridize"),
    (register, "_verify_all_np_ndarrays", hooked_in_c("numpy_verify", register._verify_all_np_ndarrays)),
    (NDArray, "__setitem__", setitem),
    (NDArray, "__getitem__", getitem),
    (ndarray, "__setitem__", numpy_setitem),
    (NDArray, "_get_index_nd", get_index),
    (_api_internal, "zeros", calls.zeros),
    (_api_internal, "tensordot", calls.tensordot),
    (mx, "set_np_shape", _set_np_shape),
    (mx.util, "set_np_shape", _set_np_shape),
    *wrapped(noting, mx.util, "_set_np_array"),
    *wrapped(noting, mx.util._NumpyArrayScope, "__enter__ __exit__"),
    (NDArray, "reshape", calls.reshape),
    (mx.nd.utils, "_array", calls.array),
    (rnn_layer._RNNLayer, "__call__", calls.call_recurrent),
    *wrapped(shared.noting, mx.ndarray, "from_numpy from_dlpack to_dlpack_for_write"),
    *wrapped(shared.noting, mx.ndarray.ndarray, "from_numpy from_dlpack to_dlpack_for_write"),
    (autograd, "set_recording", set_recording),
    (autograd, "set_training", set_training),
    *wrapped(attaching, NDArray, "attach_grad"),
    *wrapped(attaching, ndarray, "attach_grad"),
    (autograd, "mark_variables", mark_variables),
    (autograd, "backward", lazy_backward.backward),
    (NDArray, "backward", lazy_backward.backward_of_array),
    (autograd, "grad", lazy_backward.grad),
    *wrapped(flushing, gluon.Trainer, "step update"),
    *wrapped(flushing, gluon.Parameter, "set_data"),
    *wrapped(initialising, gluon.Parameter, "_finish_deferred_init _init_impl"),
    *wrapped(replacing, gluon.Parameter, "initialize reset_ctx cast"),
    (gluon.Parameter, "grad_req", _grad_req.setter(replacing(_grad_req.fset))),
    (gluon.ParameterDict, "zero_grad", zero_grad),
    (gluon.HybridBlock, "export", export),
    *wrapped(restructuring, gluon.HybridBlock, "_clear_cached_op", own=True),
    *wrapped(restructuring, gluon.Block, "register_child", own=True),
    *wrapped(restructuring, gluon.Block, "register_forward_hook register_forward_pre_hook"),
    *wrapped(restructuring, HookHandle, "detach"),
]


def install(module: Any = None) -> None:
    """Patches MXNet. Called when its import has finished."""
    compute_what_is_sent()
    if register_engine(ENGINE, PATCHES):
        note_semantics()
