"""Running a net's samples eagerly and batched, and comparing values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from operator import add
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.ndarray import NDArray, register

from gluonjit.engines.mxnet.capture.dynamic import disable, enable
from gluonjit.engines.mxnet.framework.blocks import blocks_of
from gluonjit.engines.mxnet.framework.originals import operator_handle
from gluonjit.engines.mxnet.framework.semantics import POOLING, in_training, is_numpy
from gluonjit.engines.mxnet.run.inference import operator_call
from gluonjit.engines.mxnet.run.results import has_history
from gluonjit.engines.mxnet.tracing.following import COUNTERS, is_hybrid
from gluonjit.engines.mxnet.values.lazy import Lazy
from gluonjit.hybrid.capture.structure import items_of
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED
from gluonjit.hybrid.verify.comparing import Mode
from gluonjit.hybrid.verify.leftovers import Framework
from gluonjit.hybrid.verify.verification import Log, Loss, Patch, RunOutcome, called, swapped
from gluonjit.hybrid.verify.verifying import Verifying
from gluonjit.replaced import KEY


def _predicting(training: bool) -> Any:
    return autograd.train_mode() if training else autograd.predict_mode()


def _right_gradients() -> AbstractContextManager[None]:
    """Returns a context in which MXNet pools as in training."""
    invoke = register._imperative_invoke

    def pooling(handle: int, *args: Any) -> Any:
        with in_training(handle in handles):
            return invoke(handle, *args)

    handles = {operator_handle(name) for name in POOLING}
    return swapped([(register, "_imperative_invoke", pooling)])


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


class _Verifying(Verifying):
    """MXNet's."""

    engine, off = "mxnet", "hybridize(dynamic_batch=False)"
    framework = _FRAMEWORK
    enable, disable = staticmethod(enable), staticmethod(disable)
    parts = staticmethod(blocks_of)

    def run(
        self, net: gluon.Block, samples: Sequence[Any], loss: Loss | None, log: Log | None, eager: bool, mode: Mode
    ) -> RunOutcome:
        LOCAL.state.flush("verify()")
        with UNCAPTURED if eager else nullcontext(), _right_gradients() if eager else nullcontext():
            targets = dict(_gradients(net, samples))
            for array in targets.values():
                array[:] = 0
            with autograd.record(mode.training) if mode.recording else _predicting(mode.training):
                outputs, losses = called(net, samples, loss, NDArray, log, self._weighted)
            differentiable = [value for value in losses if isinstance(value, Lazy) or has_history(value)]
            if differentiable and targets and mode.recording:
                autograd.backward(differentiable)
            known = [[array.asnumpy() for array in arrays] for arrays in outputs]
            return RunOutcome(known, {name: array.asnumpy().copy() for name, array in targets.items()})

    def _weighted(self, outputs: Sequence[NDArray]) -> list[NDArray]:
        """Sums with weights that are all different: a plain sum has no gradient through a softmax."""
        return [self.unlogged(partial(_weighted_sum, array)) for array in outputs if np.dtype(array.dtype).kind == "f"]

    def watching(self, log: Log, on: Callable[[], bool]) -> list[Patch]:
        """Logs calls of HybridBlocks, and of operators outside of them."""
        invoke, call = register._imperative_invoke, gluon.Block.__call__

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

        return [(register, "_imperative_invoke", watched_invoke), (gluon.Block, "__call__", watched_call)]

    @contextmanager
    def kept_gradients(self, net: gluon.Block, samples: Sequence[Any]) -> Iterator[None]:
        kept = [(array, array.copy()) for _, array in _gradients(net, samples)]
        try:
            yield
        finally:
            for array, before in kept:
                before.copyto(array)

    def probed(self, array: Any) -> tuple[Any, Any]:
        if not autograd.is_recording() or np.dtype(array.dtype).kind != "f":
            return array, None
        probe = self.unlogged(partial(_like, array, np.zeros(array.shape), True))
        return self.unlogged(partial(add, array, probe)), probe

    def gradient(self, probe: Any) -> Any:
        return probe.grad.asnumpy()


verify = _Verifying().verify
