"""Replacements of the MXNet functions that make calls: operators and blocks."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np
from mxnet import autograd, gluon
from mxnet.context import current_context
from mxnet.gluon.block import _check_all_np_ndarrays
from mxnet.ndarray import NDArray
from mxnet.ndarray.numpy import _internal as npi
from mxnet.numpy import ndarray
from mxnet.util import is_np_array

from gluonjit.engines.mxnet.capture.cells import as_node, asked_for, capture_cell, eagerly
from gluonjit.engines.mxnet.capture.dynamic import automatic_cell
from gluonjit.engines.mxnet.capture.ops import capture_op, is_pending, wrapped
from gluonjit.engines.mxnet.capture.outlining import KNOWN
from gluonjit.engines.mxnet.capture.reuse import REUSING
from gluonjit.engines.mxnet.framework import originals
from gluonjit.engines.mxnet.framework.arrays import sent
from gluonjit.engines.mxnet.framework.blocks import arrays_of
from gluonjit.engines.mxnet.run.inference import operator_call
from gluonjit.engines.mxnet.tracing.cell import Cell
from gluonjit.engines.mxnet.tracing.following import called
from gluonjit.engines.mxnet.values import weights
from gluonjit.engines.mxnet.values.computing import own
from gluonjit.engines.mxnet.values.lazy import Lazy, reshaped, wrap
from gluonjit.engines.mxnet.values.lazy_np import wrap_np
from gluonjit.engines.mxnet.values.operands import Empty, leaf, owned
from gluonjit.engines.mxnet.values.replacing import becomes, before_write, is_replaceable
from gluonjit.hybrid.capture.arguments import returned
from gluonjit.hybrid.capture.capturing import outermost_batch, sampled
from gluonjit.hybrid.capture.guards.objects import Eagerly
from gluonjit.hybrid.capture.lengths.joining import joins
from gluonjit.hybrid.capture.outermost import OutermostCalls
from gluonjit.hybrid.capture.outlining.outlines import place
from gluonjit.hybrid.capture.reuse.cache import refuse
from gluonjit.hybrid.capture.reuse.reusing import reused
from gluonjit.hybrid.capture.structure import Args
from gluonjit.hybrid.choose.pacing import captures_whole, note_loop
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.replaced import KEY

_HybridBlock = gluon.HybridBlock


def invoke(handle: int, arrays: Any, keys: Any, vals: Any, out: Any, is_np: bool, as_list: bool) -> Any:
    """mxnet.ndarray.register._imperative_invoke: every operator call of the program passes here."""
    state = LOCAL.state
    if state.paused:
        return originals.invoke_original(handle, arrays, keys, vals, out, is_np, as_list)
    if out is not None:
        name, _ = operator_call(handle, 0, (), ())
        if name.endswith("update"):  # an optimizer's, which writes to its state too
            _written(arrays)
        elif isinstance(out, Lazy) and is_replaceable(out, arrays):
            found = capture_op(handle, arrays, keys, vals, is_np, as_list)
            if isinstance(found, Lazy) and found._c is None and found._v.spec is out._v.spec:
                becomes(out, found._v)
                return out
        return originals.invoke_original(handle, arrays, keys, vals, _written(out), is_np, as_list)
    if state.trace is not None:
        name, attrs = operator_call(handle, len(arrays), keys, vals)
        return wrapped(state.trace.record_in(state.mode, name, attrs, arrays), is_np, as_list)
    if state.inside or is_pending(arrays):
        return capture_op(handle, arrays, keys, vals, is_np, as_list)
    return originals.invoke_original(handle, arrays, keys, vals, out, is_np, as_list)


def array(source: Any, ctx: Any = None, dtype: Any = None) -> Any:
    """mx.nd.array: in a sample the host's numbers go where the array has them, in a third of the time."""
    if LOCAL.state.inside and not isinstance(source, NDArray) and (dtype is None or np.dtype(dtype).kind in "fiu"):
        try:
            numbers = np.asarray(source, np.float32 if dtype is None else dtype)
        except (TypeError, ValueError, OverflowError):  # of which MXNet makes its own error
            numbers = None
        if numbers is not None and numbers.size and numbers.shape:
            return sent(numbers, current_context() if ctx is None else ctx)
    return originals.original_array(source, ctx, dtype)


def _written(out: Any) -> Any:
    """Arrays that an operator writes to: what waits and has read them runs first."""
    if isinstance(out, (list, tuple)):
        return [_written(array) for array in out]
    if isinstance(out, Lazy):
        out = own(out)
    before_write(out)
    refuse("it writes to an array")
    return out


def call(self: gluon.Block, *args: Any) -> Any:
    """gluon.Block.__call__, with no frames of its own beside MXNet's: recursion may go as deep as without it."""
    state = LOCAL.state
    cell: Cell | None = None
    if state.trace is None and not state.paused:
        cell = self.__dict__.get(KEY)
        if cell is None:
            if state.batch is not None and isinstance(self, _HybridBlock):
                cell = automatic_cell(self, args)
        elif not state.inside:
            if cell.asked:
                return eagerly(cell, partial(originals.original_call, self), args, cell.asked[0])
            if cell.chooses and (cell.paces.named or not state.explicit):
                return OUTERMOST.paced(originals.original_call, _outermost, self, cell, args, _NO_NAMES)
            return _outermost(self, cell, args, _NO_NAMES)
        if cell is not None and cell.is_node:
            return _node(self, cell, args)
    elif state.trace is not None and state.trace.follower is not None:
        if not (self._forward_hooks or self._forward_pre_hooks):
            out = called(state.trace.follower, self, args)
            after_forward(self, args, out)
            return out
    if cell is not None:  # not one node: what it calls is captured. Its arrays become lazy, so that slices are rows
        state.inside += 1
    try:
        given = args if cell is None else tuple(map(_lazy, args))
        for hook in self._forward_pre_hooks.values():
            hook(self, given)
        out = self.forward(*given)
        if cell is not None:
            out = _own_of(out, args, given)
        after_forward(self, given, out)
        return out
    finally:
        if cell is not None:
            state.inside -= 1


def _lazy(arg: Any) -> Any:
    kind = arg.__class__
    batch = LOCAL.state.batch
    if (kind is not NDArray and kind is not ndarray) or batch is None:
        return arg
    try:
        value = owned(leaf(batch, arg), arg)
    except Empty:
        return arg
    if kind is NDArray:
        return wrap(value, arg)
    found = wrap_np(value, arg)
    found.__dict__ = arg.__dict__  # type: ignore[misc]  # what the program has set, and sets
    return found


class _Outermost(OutermostCalls):
    """MXNet's."""

    engine = "mxnet"
    known = KNOWN
    records = staticmethod(autograd.is_recording)
    lazy = staticmethod(_lazy)

    def opened(self, owner: gluon.Block, cell: Cell) -> Batch:
        batch = outermost_batch(engine_of(self.engine), cell.options)
        batch.asking = cell
        _note_parameters(batch, owner)
        return batch

    def look(self, arg: Any) -> Hashable:
        return (arg.shape, arg.dtype, arg.stype) if isinstance(arg, NDArray) else None


def whole(cell: Cell, block: gluon.Block, args: Args) -> Any:
    """Captures an outermost call as one node, or says why what it calls is captured instead.

    What it calls runs together whatever the lengths. If that is operators, not blocks, to capture one takes as long as
    eager takes to run it. Where calls of any length are one kind as a whole, or a minibatch has several calls of one
    shape, these run together, and nothing in them is captured. `analysis/pace.py` decides by what both take.
    """
    sized = all([isinstance(arg, NDArray) for arg in args])  # a list of another length is another structure
    if not captures_whole(joins(cell) if sized else None):
        note_loop()
        return "what it calls is captured"
    if block._forward_hooks or block._forward_pre_hooks:
        return "it has hooks"
    found = as_node(cell, block, None, args)
    if not isinstance(found, str):
        note_loop()
    return found


OUTERMOST = _Outermost()
_NO_NAMES: dict[str, Any] = {}  # that blocks are called with


def _outermost(block: gluon.Block, cell: Cell, args: Args, _: dict[str, Any]) -> Any:
    """A call inside of no other: a node, or else a sample, which may be captured again by what it was before."""
    batch = outermost_batch(engine_of("mxnet"), cell.options)
    batch.asking = cell
    if cell.is_node and not asked_for(block, batch):
        return _node(block, cell, args)
    key = None if cell.reuse is None else cell.reuse(*args)
    _note_parameters(batch, block)
    if key is None:
        found = whole(cell, block, args)
        if found.__class__ is Eagerly:
            return eagerly(cell, partial(originals.original_call, block), args, found)
        return sampled(batch, _sample, batch, block, args) if found.__class__ is str else found
    run = partial(_sample, batch, block, args)
    return sampled(batch, reused, REUSING, batch, block, cell.recordings, args, key, run)


def _sample(batch: Batch, block: gluon.Block, args: Args) -> Any:
    """Returns what an outermost block gives, whose arrays are lazy there."""
    place(batch, block, KNOWN)
    given = tuple(map(_lazy, args))
    for hook in block._forward_pre_hooks.values():
        hook(block, given)
    out = _own_of(block.forward(*given), args, given)
    after_forward(block, given, out)
    return out


def _own_of(out: Any, args: Args, given: tuple[Any, ...]) -> Any:
    """Returns a block's result with the program's own arrays in the places of those that stood for its arguments."""
    if isinstance(out, Lazy) and out._c is None:  # computed, and no stand-in
        return out
    return returned(out, {id(lazy): arg for arg, lazy in zip(args, given) if lazy is not arg})


def after_forward(block: gluon.Block, args: Args, out: Any) -> None:
    """Does what MXNet does with the result of a block's forward."""
    for hook in block._forward_hooks.values():
        hook(block, args, out)
    if is_np_array():
        _check_all_np_ndarrays(out)


def _node(block: gluon.Block, cell: Cell, args: Args) -> Any:
    """The call of a cell, and its hooks."""
    for hook in block._forward_pre_hooks.values():
        hook(block, args)
    out = capture_cell(cell, block, None, args)
    after_forward(block, args, out)
    return out


def _note_parameters(batch: Any, block: gluon.Block) -> None:
    """Lets the batch know the arrays of this block's parameters, once."""
    if id(block) in batch.noted:
        return
    batch.noted[id(block)] = block
    for _, array in arrays_of(block):
        batch.parameters[id(array)] = array


def call_recurrent(self: Any, inputs: Any, states: Any = None, *args: Any, **kwargs: Any) -> Any:
    """_RNNLayer.__call__, which notes on the layer whether there are states: as one node it always has some."""
    state = LOCAL.state
    batched = KEY in self.__dict__ or state.batch is not None
    if states is not None or not batched or state.trace is not None or not isinstance(inputs, NDArray):
        return originals.original_call_recurrent(self, inputs, states, *args, **kwargs)
    size = inputs.shape[self._layout.find("N")]
    begin = self.begin_state(size, ctx=inputs.context, dtype=inputs.dtype)
    return originals.original_call_recurrent(self, inputs, begin, *args, **kwargs)[0]


def reshape(self: NDArray, *shape: Any, **kwargs: Any) -> Any:
    """NDArray.reshape, which is no operator call: a cell that reshapes its weights does so in its program."""
    if LOCAL.state.trace is not None and self.__class__ is NDArray:
        return reshaped(self, *shape, **kwargs)
    return weights.reshape(self, *shape, **kwargs)


def zeros(shape: Any, dtype: Any, ctx: Any) -> Any:
    """mx.np.zeros, which does not pass `invoke`: where calls are captured its operator does."""
    if not _captures(()):
        return originals.original_zeros(shape, dtype, ctx)
    return npi.zeros(shape=shape, ctx=ctx, dtype=dtype or "float32")


def tensordot(a: Any, b: Any, axes: Any) -> Any:
    """mx.np.tensordot, which does not pass `invoke` either."""
    if not _captures((a, b)):
        return originals.original_tensordot(a, b, axes)
    if isinstance(axes, int):
        return npi.tensordot_int_axes(a, b, axes=axes)
    left, right = [(part,) if isinstance(part, int) else tuple(part) for part in axes]
    return npi.tensordot(a, b, a_axes_summed=left, b_axes_summed=right)


def _captures(arrays: Any) -> bool:
    state = LOCAL.state
    return not state.paused and bool(state.trace is not None or state.inside or is_pending(arrays))
