"""Running a net's samples eagerly and batched, and comparing values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from operator import add
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.ndarray import NDArray, register

from gluonjit.engines.mxnet.dynamic import disable, enable
from gluonjit.engines.mxnet.following import COUNTERS, is_hybrid
from gluonjit.engines.mxnet.history import has_history
from gluonjit.engines.mxnet.lazy import Lazy
from gluonjit.engines.mxnet.semantics import is_numpy
from gluonjit.engines.mxnet.trace import operator_call
from gluonjit.hybrid.capture.cell import KEY
from gluonjit.hybrid.capture.functions import CellFunction
from gluonjit.hybrid.capture.outlining.outlines import AS_WRITTEN
from gluonjit.hybrid.capture.structure import items_of
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED
from gluonjit.hybrid.verify.comparing import Mode, Runs, compared, run_reusing, run_whole
from gluonjit.hybrid.verify.leftovers import Framework, Leftovers
from gluonjit.hybrid.verify.verification import CallEvent, Log, Loss, RunOutcome, Witness, batched_with, called

_log: Log | None = None


def _unlogged(run: Callable[[], Any]) -> Any:
    global _log
    log, _log = _log, None
    try:
        return run()
    finally:
        _log = log


def _probed(array: Any) -> tuple[Any, Any]:
    """An array plus zeros that get a gradient, and these zeros."""
    if not autograd.is_recording() or np.dtype(array.dtype).kind != "f":
        return array, None
    probe = _unlogged(partial(_like, array, np.zeros(array.shape), True))
    return _unlogged(partial(add, array, probe)), probe


@contextmanager
def observed(log: Log) -> Iterator[None]:
    """Notes every call of a cell, and of an operator outside of cells, on this thread."""
    global _log
    thread = LOCAL.state
    invoke, call, function = register._imperative_invoke, gluon.Block.__call__, CellFunction.__call__

    def on() -> bool:
        state = LOCAL.state
        return _log is not None and state is thread and state.trace is None

    def watched_invoke(handle: int, arrays: Any, keys: Any, vals: Any, out: Any, *rest: Any) -> Any:
        def run() -> Any:
            return invoke(handle, arrays, keys, vals, out, *rest)

        if out is not None or not on():
            return run()
        return log.call(operator_call(handle, len(arrays), keys, vals)[0], arrays, run)

    def watched_call(self: gluon.Block, *args: Any) -> Any:
        if on() and is_hybrid(self):
            return log.call(self.name, args, lambda: call(self, *args))
        return call(self, *args)

    def watched_function(self: CellFunction, *args: Any, **kwargs: Any) -> Any:
        if on():
            return log.call(self.name, (args, tuple(kwargs.values())), lambda: function(self, *args, **kwargs))
        return function(self, *args, **kwargs)

    register._imperative_invoke, gluon.Block.__call__ = watched_invoke, watched_call
    CellFunction.__call__ = watched_function  # type: ignore[method-assign]
    _log = log
    try:
        yield
    finally:
        _log = None
        register._imperative_invoke, gluon.Block.__call__ = invoke, call
        CellFunction.__call__ = function  # type: ignore[method-assign]


def verify(
    net: gluon.Block, samples: Sequence[Any], loss: Loss | None, rtol: float | None, train_mode: bool, options: Any
) -> Report:
    """Implements `gluonjit.verify`."""

    def run(eager: bool, mode: Mode) -> RunOutcome:
        if eager:
            return _run(net, samples, loss, mode, None, True)
        return run_reusing(net.__dict__[KEY], lambda: _run(net, samples, loss, mode, None, False))

    def watched(probing: bool, eager: bool, witness: Witness | None, mode: Mode) -> list[CallEvent]:
        with AS_WRITTEN:
            return _watched(net, samples, loss, mode, probing, eager, witness)

    off = "hybridize(dynamic_batch=False)"
    named = [(f"sample {number}", sample) for number, sample in enumerate(samples)]
    left = Leftovers(_FRAMEWORK, [("net", net), ("loss", loss), *named])
    forget = engine_of("mxnet").clear_caches
    with batched_with(net, KEY, options, enable, disable), _kept_gradients(net, samples):
        promised = net.__dict__[KEY].reuse is not None
        cells: list[Any] = []
        net.apply(lambda block: cells.extend([block.__dict__[KEY]] if KEY in block.__dict__ else []))
        runs = Runs(run, watched, _numbers, lambda probe: probe.grad.asnumpy(), off, left, forget, cells, promised)
        return compared(runs, rtol, train_mode, train_mode)


def _watched(
    net: gluon.Block,
    samples: Sequence[Any],
    loss: Loss | None,
    mode: Mode,
    probing: bool,
    eager: bool,
    witness: Witness | None,
) -> list[CallEvent]:
    log = Log(NDArray, _probed if probing else lambda array: (array, None), witness)
    with observed(log), run_whole(net.__dict__[KEY]):
        _run(net, samples, loss, mode, log, eager)
    return log.events


def _run(
    net: gluon.Block, samples: Sequence[Any], loss: Loss | None, mode: Mode, log: Log | None, eager: bool
) -> RunOutcome:
    LOCAL.state.flush("verify()")
    with UNCAPTURED if eager else nullcontext():
        targets = dict(_gradients(net, samples))
        for array in targets.values():
            array[:] = 0
        with autograd.record(mode.training) if mode.recording else _predicting(mode.training):
            outputs, losses = called(net, samples, loss, NDArray, log, _weighted)
        differentiable = [value for value in losses if isinstance(value, Lazy) or has_history(value)]
        if differentiable and targets and mode.recording:
            autograd.backward(differentiable)
        known = [[array.asnumpy() for array in arrays] for arrays in outputs]
        return RunOutcome(known, {name: array.asnumpy().copy() for name, array in targets.items()})


def _predicting(training: bool) -> Any:
    return autograd.train_mode() if training else autograd.predict_mode()


def _weighted(outputs: Sequence[NDArray]) -> list[NDArray]:
    """Sums with weights that are all different: a plain sum has no gradient through a softmax."""
    return [_unlogged(partial(_weighted_sum, array)) for array in outputs if np.dtype(array.dtype).kind == "f"]


def _weighted_sum(array: NDArray) -> NDArray:
    weights = np.sin(np.arange(1, array.size + 1)).reshape(array.shape)
    return (array * _like(array, weights)).sum()


def _like(array: NDArray, numbers: Any, variable: bool = False) -> NDArray:
    """An array with these numbers and otherwise like another; a `variable` gets a gradient."""
    make = mx.np.array if is_numpy(array) else mx.nd.array
    with UNCAPTURED, autograd.pause():  # it is no part of the program
        made = make(numbers, ctx=array.context, dtype=array.dtype)
        if variable:
            made.attach_grad()
    return made


def _numbers(array: Any) -> Any:
    return array.copy() if isinstance(array, np.ndarray) else array.asnumpy()


def _write(array: Any, numbers: Any) -> None:
    """Puts numbers back where they were written over."""
    if not np.array_equal(_numbers(array), numbers):
        with UNCAPTURED, autograd.pause():
            array[:] = numbers


_FRAMEWORK = Framework(
    NDArray,
    gluon.Block,
    frozenset({*gluon.HybridBlock().__dict__, KEY, *COUNTERS} - {"_children"}),
    gluon.Parameter,
    _numbers,
    _numbers,
    _write,
    lambda: None,  # MXNet does not say where its generators are
    lambda state: None,
)


def _gradients(net: gluon.Block, samples: Sequence[Any]) -> Iterator[tuple[str, NDArray]]:
    """Every array that backward writes to: of parameters, and of inputs with `attach_grad`."""
    for name, parameter in net.collect_params().items():
        if parameter.grad_req != "null" and parameter._data is not None:
            gradients = parameter.list_grad()
            for gradient in gradients:
                yield (name if len(gradients) == 1 else f"{name} on {gradient.context}"), gradient
    for number, sample in enumerate(samples):
        for position, array in enumerate(items_of(sample, NDArray)):
            if array.grad is not None:
                yield f"input {position} of sample {number}", array.grad


@contextmanager
def _kept_gradients(net: gluon.Block, samples: Sequence[Any]) -> Iterator[None]:
    """Saves what backward writes to, and restores it at the end."""
    kept = [(array, array.copy()) for _, array in _gradients(net, samples)]
    try:
        yield
    finally:
        for array, before in kept:
            before.copyto(array)
