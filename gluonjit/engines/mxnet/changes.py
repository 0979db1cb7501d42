"""Wrappers of MXNet functions that change something: captured calls run before, or are traced anew."""

from __future__ import annotations

from contextlib import nullcontext
from functools import wraps
from inspect import signature
from typing import Any

from mxnet import gluon
from mxnet.ndarray import NDArray
from mxnet.numpy import ndarray

from gluonjit.engines.mxnet.capture.dynamic import disable, enable, restructured
from gluonjit.engines.mxnet.framework import originals
from gluonjit.engines.mxnet.framework.blocks import blocks_of
from gluonjit.engines.mxnet.framework.semantics import note_semantics
from gluonjit.engines.mxnet.tracing.cell import Cell
from gluonjit.engines.mxnet.values.computing import concrete, in_own_memory, plain
from gluonjit.engines.mxnet.values.lazy import Lazy, LazyArray
from gluonjit.engines.mxnet.values.replacing import before_variable, before_write
from gluonjit.errors import OptionError
from gluonjit.graph.modes import is_recorded, is_training, mode_of
from gluonjit.hybrid.capture.cell import KEY
from gluonjit.hybrid.capture.entrances import install
from gluonjit.hybrid.capture.outlining.questions import answer
from gluonjit.hybrid.capture.reuse.cache import refuse
from gluonjit.hybrid.choose.pacing import close
from gluonjit.hybrid.explain.minibatch import MINIBATCH
from gluonjit.hybrid.options import refuse_without_switch
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED, preceded


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
    before_write(self)
    _note_write(value)
    originals.original_setitem(self, key, value)


def numpy_setitem(self: ndarray, key: Any, value: Any) -> None:
    before_write(self)
    _note_write(value)
    originals.original_numpy_setitem(self, key, value)


def _note_write(value: Any) -> None:
    """A call that fills an array with another one's numbers runs each time; numbers of the host are the program's."""
    if isinstance(value, NDArray):
        refuse("it writes to an array")


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
                install(self, KEY, _is_part, gluon.Block)
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
