"""What `import mxnet` gets when gluonjit is there: every patch of a function of MXNet, in one table."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import mxnet as mx
from mxnet import autograd, gluon
from mxnet.gluon.block import _check_all_np_ndarrays
from mxnet.gluon.rnn import rnn_layer
from mxnet.gluon.utils import HookHandle
from mxnet.ndarray import NDArray, register
from mxnet.ndarray.numpy import _api_internal
from mxnet.ndarray.numpy import _internal as npi
from mxnet.numpy import ndarray
from mxnet.util import is_np_array

from gluonjit.engines.mxnet import backward as lazy_backward
from gluonjit.engines.mxnet import hooked
from gluonjit.engines.mxnet.cell import Cell
from gluonjit.engines.mxnet.cells import capture_cell
from gluonjit.engines.mxnet.dynamic import KEY, automatic_cell, disable, enable, restructured
from gluonjit.engines.mxnet.engine import ENGINE
from gluonjit.engines.mxnet.lazy import Lazy, LazyArray, concrete, own, plain, reshaped, wrap, wrap_concrete
from gluonjit.engines.mxnet.lazy_np import wrap_np, wrap_np_concrete
from gluonjit.engines.mxnet.operands import Empty, leaf
from gluonjit.engines.mxnet.ops import capture_op, is_pending
from gluonjit.engines.mxnet.semantics import note_semantics
from gluonjit.engines.mxnet.trace import operator_call
from gluonjit.engines.mxnet.writes import before_write
from gluonjit.errors import CaptureError, OptionError
from gluonjit.graph import LIBRARIES, raised_at
from gluonjit.hybrid import LOCAL, Batch
from gluonjit.hybrid import register as register_engine

_HybridBlock = gluon.HybridBlock


def invoke(handle: int, arrays: Any, keys: Any, vals: Any, out: Any, is_np: bool, as_list: bool) -> Any:
    """mxnet.ndarray.register._imperative_invoke: every operator call of the program passes here."""
    state = LOCAL.state
    if state.paused:
        return hooked.original_invoke(handle, arrays, keys, vals, out, is_np, as_list)
    if out is not None:
        if operator_call(handle, 0, (), ())[0].endswith("update"):  # an optimizer's, which writes to its state too
            _written(arrays)
        return hooked.original_invoke(handle, arrays, keys, vals, _written(out), is_np, as_list)
    if state.trace is not None:
        name, attrs = operator_call(handle, len(arrays), keys, vals)
        values = state.trace.op(name, attrs, arrays)
        results = [wrap_np(value) for value in values] if is_np else [wrap(value) for value in values]
        return results if as_list or len(results) > 1 else results[0]
    if state.inside or is_pending(arrays):
        return capture_op(handle, arrays, keys, vals, is_np, as_list)
    return hooked.original_invoke(handle, arrays, keys, vals, out, is_np, as_list)


def verify(op_name: str, func_name: str, arrays: Any, out: Any) -> None:
    """mxnet.ndarray.register._verify_all_legacy_ndarrays, which imports a module in every operator call."""
    for array in arrays:
        kind = array.__class__
        if kind is not NDArray and kind is not LazyArray:
            break
    else:
        if out is None:
            return
    hooked.original_verify(op_name, func_name, arrays, out)


def verify_numpy(op_name: str, func_name: str, arrays: Any, out: Any) -> None:
    """mxnet.ndarray.register._verify_all_np_ndarrays, likewise."""
    for array in arrays:
        if not isinstance(array, ndarray):
            break
    else:
        if out is None:
            return
    hooked.original_verify_numpy(op_name, func_name, arrays, out)


def _written(out: Any) -> Any:
    """Arrays that an operator writes to: what waits and has read them runs first."""
    if isinstance(out, (list, tuple)):
        return [_written(array) for array in out]
    if isinstance(out, Lazy):
        out = own(out)
    before_write(out)
    return out


def call(self: gluon.Block, *args: Any) -> Any:
    """gluon.Block.__call__, with no frames of its own beside MXNet's: recursion may go as deep as without it."""
    state = LOCAL.state
    cell: Cell | None = None
    if state.trace is None and not state.paused:
        cell = self.__dict__.get(KEY)
        if cell is None and state.batch is not None and isinstance(self, _HybridBlock):
            cell = automatic_cell(self, args)
        if cell is not None and cell.is_node:
            if self._forward_hooks or self._forward_pre_hooks:
                return _call_with_hooks(self, cell, args)
            return capture_cell(cell, self, None, args)
    begin = 0.0
    if cell is not None:  # not one node: what it calls is captured. Its arrays become lazy, so that slices are rows
        if not state.inside:
            begin = perf_counter()
            batch = _begin_sample(self, cell)
        args = tuple([_lazy(arg) for arg in args])
        state.inside += 1
    try:
        for hook in self._forward_pre_hooks.values():
            hook(self, args)
        out = self.forward(*args)
        for hook in self._forward_hooks.values():
            hook(self, args, out)
        if is_np_array():
            _check_all_np_ndarrays(out)
        return out
    except CaptureError as error:
        if begin:
            error.args = (f"{error} (In sample {batch.sample - 1}, at {raised_at(error.__traceback__)}.)",)
        raise
    finally:
        if cell is not None:
            state.inside -= 1
            if begin:
                batch.end_sample()
                batch.report.took(f"sample {batch.sample - 1}", "capture", begin, perf_counter())


def _call_with_hooks(block: gluon.Block, cell: Cell, args: tuple[Any, ...]) -> Any:
    for hook in block._forward_pre_hooks.values():
        hook(block, args)
    out = capture_cell(cell, block, None, args)
    for hook in block._forward_hooks.values():
        hook(block, args, out)
    return out


def _begin_sample(block: gluon.Block, cell: Cell) -> Batch:
    """An outermost block is called: its batch is opened, and the arrays of its parameters are known from now on."""
    state = LOCAL.state
    state.mode = hooked.current_mode()
    batch = state.open(ENGINE, cell.options)
    if not batch.explicit and batch.options is not cell.options and batch.options != cell.options:
        batch.flush("another block has other options")
        state.close()
        batch = state.open(ENGINE, cell.options)
    batch.begin_sample()
    _note_parameters(batch, block)
    return batch


def _note_parameters(batch: Any, block: gluon.Block) -> None:
    """Let the batch know the arrays of this block's parameters, once."""
    if id(block) in batch.noted:
        return
    batch.noted[id(block)] = block
    for parameter in block.collect_params().values():
        for array in parameter._data or ():
            batch.parameters[id(array)] = array


def _lazy(arg: Any) -> Any:
    kind = arg.__class__
    batch = LOCAL.state.batch
    if (kind is not NDArray and kind is not ndarray) or batch is None:
        return arg
    try:
        value = leaf(batch, arg)
    except Empty:
        return arg
    return wrap_concrete(value, arg) if kind is NDArray else wrap_np_concrete(value, arg)


def _hybridize(original: Any) -> Any:
    def hybridize(self: gluon.Block, active: bool = True, *args: Any, **kwargs: Any) -> None:
        dynamic = kwargs.pop("dynamic_batch", None)
        if dynamic is None:
            disable(self)
            original(self, active, *args, **kwargs)
        elif not isinstance(dynamic, bool):
            raise OptionError(f"hybridize(): dynamic_batch={dynamic!r}, but it is True or False")
        elif dynamic and active:
            enable(self, kwargs)
        else:
            disable(self)
            if kwargs or args or not active:
                original(self, active, *args, **kwargs)

    hybridize.__doc__ = original.__doc__
    hybridize.__wrapped__ = original  # type: ignore[attr-defined]
    return hybridize


def _set_recording(is_recording: bool) -> bool:
    before: bool = hooked.original_set_recording(is_recording)
    LOCAL.state.mode = 2 * bool(is_recording) + (LOCAL.state.mode & 1)
    return before


def _set_training(train_mode: bool) -> bool:
    before: bool = hooked.original_set_training(train_mode)
    LOCAL.state.mode = (LOCAL.state.mode & 2) + bool(train_mode)
    return before


def _get_index(self: NDArray, key: tuple[Any, ...]) -> Any:
    """NDArray._get_index_nd: the arrays of an index are no part of the captured program."""
    parts = tuple([concrete(part) if isinstance(part, Lazy) else part for part in key])
    state = LOCAL.state
    state.paused += 1
    try:
        return hooked.original_get_index(self, parts)
    finally:
        state.paused -= 1


def _setitem(self: NDArray, key: Any, value: Any) -> None:
    if isinstance(value, LazyArray):  # MXNet asks for the very type of the array written to
        value = plain(value)
    before_write(self)
    hooked.original_setitem(self, key, value)


def _numpy_setitem(self: ndarray, key: Any, value: Any) -> None:
    before_write(self)
    hooked.original_numpy_setitem(self, key, value)


def _zeros(shape: Any, dtype: Any, ctx: Any) -> Any:
    """mx.np.zeros, which does not pass `invoke`: where calls are captured its operator does."""
    if not _captures(()):
        return hooked.original_zeros(shape, dtype, ctx)
    return npi.zeros(shape=shape, ctx=ctx, dtype=dtype or "float32")


def _tensordot(a: Any, b: Any, axes: Any) -> Any:
    """mx.np.tensordot, which does not pass `invoke` either."""
    if not _captures((a, b)):
        return hooked.original_tensordot(a, b, axes)
    if isinstance(axes, int):
        return npi.tensordot_int_axes(a, b, axes=axes)
    left, right = [(part,) if isinstance(part, int) else tuple(part) for part in axes]
    return npi.tensordot(a, b, a_axes_summed=left, b_axes_summed=right)


def _captures(arrays: Any) -> bool:
    state = LOCAL.state
    return not state.paused and bool(state.trace is not None or state.inside or is_pending(arrays))


def _noting(original: Any) -> Any:
    """A function that changes MXNet's semantics of arrays on this thread."""

    def wrapper(*args: Any) -> Any:
        result = original(*args)
        note_semantics()
        return result

    wrapper.__doc__ = original.__doc__
    wrapper.__wrapped__ = original  # type: ignore[attr-defined]
    return wrapper


def _call_recurrent(self: Any, inputs: Any, states: Any = None, *args: Any, **kwargs: Any) -> Any:
    """_RNNLayer.__call__, which notes on the layer whether there are states: as one node it always has some."""
    state = LOCAL.state
    batched = KEY in self.__dict__ or state.batch is not None
    if states is not None or not batched or state.trace is not None or not isinstance(inputs, NDArray):
        return hooked.original_call_recurrent(self, inputs, states, *args, **kwargs)
    size = inputs.shape[self._layout.find("N")]
    begin = self.begin_state(size, ctx=inputs.context, dtype=inputs.dtype)
    return hooked.original_call_recurrent(self, inputs, begin, *args, **kwargs)[0]


def _reshape(self: NDArray, *shape: Any, **kwargs: Any) -> Any:
    """NDArray.reshape, which is no operator call: a cell that reshapes its weights does so in its program."""
    if LOCAL.state.trace is not None and self.__class__ is NDArray:
        return reshaped(self, *shape, **kwargs)
    return hooked.original_reshape(self, *shape, **kwargs)


def _flushing(original: Any, name: str) -> Any:
    """A function before which everything that waits has to run."""

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = LOCAL.state
        if not state.paused and state.trace is None:
            state.flush(name)
            state.singles = 0
        return original(self, *args, **kwargs)

    wrapper.__doc__ = original.__doc__
    wrapper.__wrapped__ = original  # type: ignore[attr-defined]
    return wrapper


def _replacing(original: Any, name: str) -> Any:
    """A method of a Parameter that puts other arrays in the place of those it has, if it has any."""

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = LOCAL.state
        if self._data is not None and state.batch is not None and not state.paused:
            state.flush(name)
            for batch in state.explicit:
                batch.noted.clear()
                batch.parameters.clear()
        return original(self, *args, **kwargs)

    wrapper.__doc__ = original.__doc__
    wrapper.__wrapped__ = original  # type: ignore[attr-defined]
    return wrapper


def _restructuring(original: Any, own: bool = False) -> Any:
    """A function that changes blocks: `own` says that it is a method of the block that changes."""

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        restructured(self if own else None)
        return original(self, *args, **kwargs)

    wrapper.__doc__ = original.__doc__
    wrapper.__wrapped__ = original  # type: ignore[attr-defined]
    return wrapper


def _export(self: gluon.HybridBlock, *args: Any, **kwargs: Any) -> Any:
    if KEY in self.__dict__ and not self._cached_graph:
        raise RuntimeError(
            f"export() of {self.name}: under hybridize(dynamic_batch=True) MXNet makes no graph of it. Call "
            f"hybridize() and the block once, then export()."
        )
    return hooked.original_export(self, *args, **kwargs)


def _zero_grad(self: gluon.ParameterDict) -> None:
    for parameter in self.values():
        for gradient in parameter._grad or ():
            before_write(gradient)
    hooked.original_zero_grad(self)


def _uncaptured(original: Any) -> Any:
    """A function whose operators are never captured."""

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = LOCAL.state
        state.paused += 1
        try:
            return original(self, *args, **kwargs)
        finally:
            state.paused -= 1

    wrapper.__doc__ = original.__doc__
    wrapper.__wrapped__ = original  # type: ignore[attr-defined]
    return wrapper


_set_np_shape = _noting(hooked.original_set_np_shape)

PATCHES: list[tuple[Any, str, Any]] = [
    (register, "_imperative_invoke", invoke),
    (register, "_verify_all_legacy_ndarrays", verify),
    (gluon.Block, "__call__", call),
    (gluon.Block, "hybridize", _hybridize(hooked.original_block_hybridize)),
    (gluon.HybridBlock, "hybridize", _hybridize(hooked.original_hybrid_hybridize)),
    (register, "_verify_all_np_ndarrays", verify_numpy),
    (NDArray, "__setitem__", _setitem),
    (ndarray, "__setitem__", _numpy_setitem),
    (NDArray, "_get_index_nd", _get_index),
    (_api_internal, "zeros", _zeros),
    (_api_internal, "tensordot", _tensordot),
    (mx, "set_np_shape", _set_np_shape),
    (mx.util, "set_np_shape", _set_np_shape),
    (mx.util, "_set_np_array", _noting(hooked.original_set_np_array)),
    (mx.util._NumpyArrayScope, "__enter__", _noting(hooked.original_enter_np_array)),
    (mx.util._NumpyArrayScope, "__exit__", _noting(hooked.original_exit_np_array)),
    (NDArray, "reshape", _reshape),
    (rnn_layer._RNNLayer, "__call__", _call_recurrent),
    (autograd, "set_recording", _set_recording),
    (autograd, "set_training", _set_training),
    (autograd, "backward", lazy_backward.backward),
    (NDArray, "backward", lazy_backward.backward_of_array),
    (autograd, "grad", lazy_backward.grad),
    (gluon.Trainer, "step", _flushing(hooked.original_trainer_step, "Trainer.step")),
    (gluon.Trainer, "update", _flushing(hooked.original_trainer_update, "Trainer.update")),
    (gluon.Parameter, "set_data", _flushing(hooked.original_set_data, "Parameter.set_data")),
    (gluon.Parameter, "_finish_deferred_init", _uncaptured(hooked.original_finish_deferred)),
    (gluon.Parameter, "_init_impl", _uncaptured(hooked.original_init_impl)),
    (gluon.Parameter, "initialize", _replacing(hooked.original_initialize, "Parameter.initialize")),
    (gluon.Parameter, "reset_ctx", _replacing(hooked.original_reset_ctx, "Parameter.reset_ctx")),
    (gluon.Parameter, "cast", _replacing(hooked.original_cast, "Parameter.cast")),
    (
        gluon.Parameter,
        "grad_req",
        hooked.original_grad_req.setter(_replacing(hooked.original_grad_req.fset, "grad_req")),
    ),
    (gluon.ParameterDict, "zero_grad", _zero_grad),
    (gluon.HybridBlock, "export", _export),
    (gluon.HybridBlock, "_clear_cached_op", _restructuring(hooked.original_clear_cached_op, own=True)),
    (gluon.Block, "register_forward_hook", _restructuring(hooked.original_register_hook)),
    (gluon.Block, "register_forward_pre_hook", _restructuring(hooked.original_register_pre_hook)),
    (HookHandle, "detach", _restructuring(hooked.original_detach_hook)),
]

_installed = False


def install(module: Any = None) -> None:
    """Patch MXNet. Called once, when its import has finished."""
    global _installed
    if _installed:
        return
    _installed = True
    LIBRARIES.add("mxnet")
    for owner, name, replacement in PATCHES:
        setattr(owner, name, replacement)
    note_semantics()
    register_engine(ENGINE)
