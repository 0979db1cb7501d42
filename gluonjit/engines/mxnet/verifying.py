"""Running a net's samples eagerly and batched, and comparing values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from functools import partial
from operator import add
from sys import _getframe
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.ndarray import NDArray, register

from gluonjit.engines.mxnet.dynamic import KEY, disable, enable, is_hybrid
from gluonjit.engines.mxnet.history import has_history
from gluonjit.engines.mxnet.lazy import Lazy
from gluonjit.engines.mxnet.semantics import is_numpy
from gluonjit.engines.mxnet.trace import operator_call
from gluonjit.errors import ReuseError, VerifyError
from gluonjit.graph import line_of, origin_of
from gluonjit.hybrid import LOCAL, UNCAPTURED, Report, explain
from gluonjit.hybrid.functions import CellFunction
from gluonjit.hybrid.reuse import Recordings
from gluonjit.hybrid.verification import Difference, Event, difference, first_gradient, first_result

Loss = Callable[[Any, Any], Any]


class Outcome(NamedTuple):
    """One run: outputs of each sample, gradients by what they are of."""

    outputs: list[list[Any]]
    gradients: dict[str, Any]


class Log:
    """The calls of a run, as they are made."""

    def __init__(self, probing: bool) -> None:
        self.events: list[Event] = []
        self.sample = 0
        self._open: list[Event] = []
        self._probing = probing

    def call(self, name: str, operands: Any, run: Callable[[], Any]) -> Any:
        """Make a call and note it."""
        addresses = tuple(id(array) for array in arrays_in(operands))
        event = Event(name, self.sample, line_of(origin_of(_getframe(1))), addresses)
        (self._open[-1].inside if self._open else self.events).append(event)
        self._open.append(event)
        try:
            result = run()
            return _mapped(result, lambda array: self._note(event, array))
        finally:
            self._open.pop()

    def _note(self, event: Event, array: Any) -> Any:
        if self._probing and autograd.is_recording() and np.dtype(array.dtype).kind == "f":
            probe = _unlogged(partial(_like, array, np.zeros(array.shape), True))
            array = _unlogged(partial(add, array, probe))
            event.probes.append(probe)
        else:
            event.probes.append(None)
        event.results.append(array)
        return array


_log: Log | None = None


def _unlogged(run: Callable[[], Any]) -> Any:
    global _log
    log, _log = _log, None
    try:
        return run()
    finally:
        _log = log


@contextmanager
def observed(log: Log) -> Iterator[None]:
    """Note every call of a cell, and of an operator outside of cells, on this thread."""
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
    with _batched(net, options), _kept_gradients(net, samples):
        eager = _run(net, samples, loss, train_mode, None, True)
        batched = _run_reusing(net, samples, loss, train_mode)
        report = explain()
        found = _compare(eager, batched, rtol)
        if found is None:
            return report
        what, apart, gradient = found
        logs = [_watched(net, samples, loss, train_mode, gradient, paused) for paused in (True, False)]
        if gradient:
            where = first_gradient(logs[0], logs[1], lambda probe: probe.grad.asnumpy(), rtol)
        else:
            where = first_result(logs[0], logs[1], lambda array: array.asnumpy(), rtol)
    where = where or "no single call differs while calls are watched one by one"
    raise VerifyError(
        f"verify(): batched and eager execution differ by {apart.by:.3g}, at a scale of {apart.scale:.3g}, in {what}: "
        f"{apart}. Of the calls, {where}. With hybridize(dynamic_batch=False) the net runs as it should."
    )


def _run_reusing(net: gluon.Block, samples: Sequence[Any], loss: Loss | None, train_mode: bool) -> Outcome:
    """A batched run; where calls may be reused one in which all of them are, each compared with what it captures."""
    cell = net.__dict__[KEY]
    if cell.reuse is None:
        return _run(net, samples, loss, train_mode, None, False)
    before, cell.recordings = cell.recordings, Recordings(1)
    try:
        _run(net, samples, loss, train_mode, None, False)
        return _run(net, samples, loss, train_mode, None, False)
    except ReuseError as error:
        raise VerifyError(f"verify(): {error}") from error
    finally:
        cell.recordings = before


def _watched(
    net: gluon.Block, samples: Sequence[Any], loss: Loss | None, train_mode: bool, probing: bool, eager: bool
) -> list[Event]:
    log = Log(probing)
    cell = net.__dict__[KEY]
    reuse, cell.reuse = cell.reuse, None  # calls that do not run can't be watched
    try:
        with observed(log):
            _run(net, samples, loss, train_mode, log, eager)
    finally:
        cell.reuse = reuse
    return log.events


def _compare(eager: Outcome, batched: Outcome, rtol: float | None) -> tuple[str, Difference, bool] | None:
    for number, (wanted, found) in enumerate(zip(eager.outputs, batched.outputs)):
        for expected, actual in zip(wanted, found):
            apart = difference(actual, expected, rtol)
            if apart is not None:
                return f"the output of sample {number}", apart, False
    for name, expected in eager.gradients.items():
        apart = difference(batched.gradients[name], expected, rtol)
        if apart is not None:
            return f"the gradient of {name}", apart, True
    return None


def _run(
    net: gluon.Block, samples: Sequence[Any], loss: Loss | None, train_mode: bool, log: Log | None, eager: bool
) -> Outcome:
    LOCAL.state.flush("verify()")
    with UNCAPTURED if eager else nullcontext():
        targets = dict(_gradients(net, samples))
        for array in targets.values():
            array[:] = 0
        outputs, losses = [], []
        with autograd.record(train_mode):
            for number, sample in enumerate(samples):
                if log is not None:
                    log.sample = number
                output = net(*sample) if isinstance(sample, tuple) else net(sample)
                outputs.append(list(arrays_in(output)))
                losses += [loss(output, sample)] if loss is not None else _weighted(outputs[-1])
        differentiable = [value for value in losses if isinstance(value, Lazy) or has_history(value)]
        if differentiable and targets:
            autograd.backward(differentiable)
        known = [[array.asnumpy() for array in arrays] for arrays in outputs]
        return Outcome(known, {name: array.asnumpy().copy() for name, array in targets.items()})


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


def _gradients(net: gluon.Block, samples: Sequence[Any]) -> Iterator[tuple[str, NDArray]]:
    """Every array that backward writes to: of parameters, and of inputs with `attach_grad`."""
    for name, parameter in net.collect_params().items():
        if parameter.grad_req != "null" and parameter._data is not None:
            gradients = parameter.list_grad()
            for gradient in gradients:
                yield (name if len(gradients) == 1 else f"{name} on {gradient.context}"), gradient
    for number, sample in enumerate(samples):
        for position, array in enumerate(arrays_in(sample)):
            if array.grad is not None:
                yield f"input {position} of sample {number}", array.grad


@contextmanager
def _kept_gradients(net: gluon.Block, samples: Sequence[Any]) -> Iterator[None]:
    """What backward writes to is afterwards what it was before."""
    kept = [(array, array.copy()) for _, array in _gradients(net, samples)]
    try:
        yield
    finally:
        for array, before in kept:
            before.copyto(array)


@contextmanager
def _batched(net: gluon.Block, options: dict[str, Any]) -> Iterator[None]:
    """The net with these options, or those it has; afterwards as it was."""
    cell = net.__dict__.get(KEY)
    if cell is not None and not options:
        yield
        return
    enable(net, options)
    try:
        yield
    finally:
        if cell is None:
            disable(net)
        else:
            enable(net, {field.name: getattr(cell.options, field.name) for field in fields(cell.options)})


def arrays_in(item: Any) -> Iterator[NDArray]:
    """Every array in nested lists, tuples and dictionaries."""
    if isinstance(item, NDArray):
        yield item
    elif isinstance(item, dict):
        yield from arrays_in(tuple(item.values()))
    elif isinstance(item, (list, tuple)):
        for part in item:
            yield from arrays_in(part)


def _mapped(item: Any, change: Callable[[Any], Any]) -> Any:
    """Nested results with every array changed."""
    if isinstance(item, NDArray):
        return change(item)
    if isinstance(item, dict):
        return {key: _mapped(part, change) for key, part in item.items()}
    if type(item) in (list, tuple):
        return type(item)(_mapped(part, change) for part in item)
    return item
