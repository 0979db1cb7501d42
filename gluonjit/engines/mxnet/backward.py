"""Backward of lazy arrays: through the whole batch in one pass if the program allows it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from sys import getrefcount
from time import perf_counter
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.framework.arrays import context_of, host_view, sent
from gluonjit.engines.mxnet.framework.originals import original_array_backward, original_backward, original_grad
from gluonjit.engines.mxnet.framework.semantics import as_captured, classic, is_numpy
from gluonjit.engines.mxnet.run.gradients import Pass, Tape
from gluonjit.engines.mxnet.run.recorded import recorded
from gluonjit.engines.mxnet.run.results import Seed, Target, seed_of, tape_of
from gluonjit.engines.mxnet.values.bridge import finish
from gluonjit.engines.mxnet.values.computing import unlinked
from gluonjit.engines.mxnet.values.lazy import Lazy
from gluonjit.graph import Spec
from gluonjit.hybrid.choose.pacing import BACKWARD
from gluonjit.hybrid.explain.minibatch import MINIBATCH
from gluonjit.hybrid.run.batch import RUNNING
from gluonjit.hybrid.run.state import LOCAL, settle


class Passed(NamedTuple):
    """One way back through a batch, the seconds of it that belong to no step, and its end."""

    tape: Tape
    made: Pass
    rest: float
    end: float


def _marking(function: Any) -> Any:
    """A function that is a backward pass: a stretch of training calls has come to its end with it."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if LOCAL.state.batch is not None:
            LOCAL.state.batch.forget_parts()  # what goes backward lets go of their history
        with BACKWARD:
            return function(*args, **kwargs)

    return wrapper


def _listed(heads: Any, head_grads: Any) -> tuple[list[Any], list[Any]]:
    """Heads and their gradients, one for each."""
    listed = list(heads) if isinstance(heads, (list, tuple)) else [heads]
    given = list(head_grads) if isinstance(head_grads, (list, tuple)) else [head_grads] * len(listed)
    return listed, given


@_marking
def backward(heads: Any, head_grads: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """mxnet.autograd.backward. Several captured losses are added up first, so that one pass serves all."""
    listed, given = _listed(heads, head_grads)
    if not any(_in_batch(head) for head in listed):
        original_backward(heads, head_grads, retain_graph, train_mode)
        _finish(False)
        return
    if head_grads is None and len(listed) > 1 and all(_in_batch(head) and head._c is None for head in listed):
        by_device: dict[str, list[Any]] = {}
        for head in listed:
            by_device.setdefault(head._v.spec.device, []).append(head)
        listed = [_total(losses) for losses in by_device.values()]
        given = [None] * len(listed)
    with RUNNING:
        ready, gradients, passes = _through_batches(listed, given, retain_graph, train_mode)
        if ready:
            original_backward(ready, gradients, retain_graph or _have_parts(passes), train_mode)
        if passes:
            _write_statistics(passes)
            _account(passes)
    _finish(True)


@_marking
def backward_of_array(self: NDArray, out_grad: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """mxnet.NDArray.backward."""
    original_array_backward(self, out_grad, retain_graph, train_mode)
    _finish(False)


@_marking
def grad(
    heads: Any,
    variables: Any,
    head_grads: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> Any:
    """mxnet.autograd.grad."""
    listed, given = _listed(heads, head_grads)
    through = any(_in_batch(head) for head in listed)
    if not through:
        found = original_grad(heads, variables, head_grads, retain_graph, create_graph, train_mode)
    elif create_graph:
        found = _twice_differentiable(listed, variables, head_grads, retain_graph, train_mode)
    else:
        ready, gradients, passes = _through_batches(listed, given, bool(retain_graph), train_mode)
        if not ready:
            raise mx.base.MXNetError(
                "autograd.grad of values that do not depend on anything with a gradient: call attach_grad on the "
                "variables before computing the values under autograd.record()"
            )
        kept = bool(retain_graph) or _have_parts(passes)
        found = original_grad(ready, variables, gradients, kept, False, train_mode)
        _write_statistics(passes)
    _finish(through)
    return found


def _twice_differentiable(
    heads: list[Any], variables: Any, head_grads: Any, retain_graph: bool | None, train_mode: bool
) -> Any:
    """Gradients with a history of their own: MXNet's own of what it computes again, one call after the other."""
    captured = {id(head): head for head in heads if _in_batch(head)}
    for head in captured.values():
        settle(head._v, backward=True)
    again = recorded([head._v for head in captured.values()])
    found = {id(head): head._in_kind(own) for head, own in zip(captured.values(), again)}
    given = head_grads if head_grads is None or isinstance(head_grads, (list, tuple)) else [head_grads]
    return original_grad(
        [found.get(id(head), head) for head in heads], variables, given, retain_graph, True, train_mode
    )


def _finish(through: bool) -> None:
    """The pass is over; a minibatch ends where it went `through` a batch, from its own history or by a bridge."""
    if (finish() or through) and not LOCAL.state.inside:
        MINIBATCH.end()


def _in_batch(head: Any) -> bool:
    """True if backward begins in a batch's own history."""
    return isinstance(head, Lazy) and unlinked(head)


def _total(losses: Sequence[Any]) -> Any:
    with autograd.record():
        sums = [loss if loss.shape in ((1,), ()) else loss.sum() for loss in losses]
        return mx.nd.add_n(*[total.as_nd_ndarray().reshape((1,)) if is_numpy(total) else total for total in sums])


def _through_batches(
    heads: Sequence[Any], head_grads: Sequence[Any], retain_graph: bool, train_mode: bool
) -> tuple[list[NDArray], list[NDArray | None], list[Passed]]:
    """Goes backward through every batch that the heads come from, the latest first.

    Returns what MXNet's own backward has to go on with, arrays and their gradients, and what was gone through. What of
    its history is freed there is the program's own, so that it is kept for `retain_graph` alone, or where samples have
    parts of weights in common.
    """
    ready: list[NDArray] = []
    gradients: list[NDArray | None] = []
    waiting: dict[Tape, list[Seed]] = {}
    ends: list[Target] = []
    hold = False
    passes: list[Passed] = []
    for head in heads:
        if _in_batch(head):
            settle(head._v, backward=True)
    begin = perf_counter()
    with as_captured(0):
        for head, gradient in zip(heads, head_grads):
            tape = tape_of(head._v) if _in_batch(head) else None
            if tape is None:
                ready.append(head)
                gradients.append(gradient)
                continue
            hold = _note_head(tape, head, retain_graph) or hold
            start = classic(gradient) if gradient is not None else _ones(head._v.spec)
            waiting.setdefault(tape, []).extend(seed_of(head._v, start))
        direct, learns = list(waiting), bool(ready)
        while waiting:
            tape = max(waiting, key=lambda found: found.number)
            found, made = tape.gradients(waiting.pop(tape), retain_graph, train_mode, hold)
            rest, end = tape.account(made, begin)
            passes.append(Passed(tape, made, rest, end))
            begin = end
            learns = learns or any([target.value is None or not target.reached for target in found])
            reached = [target for target in found if target.reached]
            ends += [target for target in reached if target.value is None]
            for target in reached:
                if target.value is None:
                    continue
                earlier = tape_of(target.value)
                if earlier is not None and not earlier.freed:
                    waiting.setdefault(earlier, []).extend(seed_of(target.value, target.gradient))
        if not learns:
            raise mx.base.MXNetError(
                "Cannot differentiate values that do not depend on anything with a gradient: call attach_grad on an "
                "array, or set the grad_req of a parameter, before computing the values under autograd.record()"
            )
        with as_captured(2):
            for target in ends if len(passes) == 1 else _summed(ends):
                for given, listed in zip(target.begun(), (ready, gradients)):
                    listed.append(given)
    for tape in direct:
        _note_call(tape)
    return ready, gradients, passes


def _have_parts(passes: Sequence[Passed]) -> bool:
    """True if a later pass may go through the history of the parts of weights that this one has gone through."""
    return any([passed.tape.shares_parts() for passed in passes])


def _summed(ends: list[Target]) -> list[Target]:
    """Adds up the gradients of a weight that several batches have used: MXNet takes longer for each."""
    found: list[Target] = []
    sums: dict[int, Any] = {}
    for end in ends:
        view = host_view(end.gradient) if end.again is None else None
        known: Any = None if view is None else sums.setdefault(id(end.array), view)
        if known is view:
            found.append(end)
        else:
            known += view
    return found


def _ones(spec: Spec) -> NDArray:
    """The gradient that a pass begins with: as mx.nd.ones, which takes six times as long."""
    return sent(np.ones((spec.rows, *spec.row_shape), dtype=spec.dtype), context_of(spec.device))


def _write_statistics(passes: Sequence[Passed]) -> None:
    """Writes running statistics, after those of later calls that ran eagerly, as a look was given up."""
    with as_captured(0):
        for passed in passes:
            passed.tape.statistics.write()


def _account(passes: Sequence[Passed]) -> None:
    """Reports the time of what came after the batches, and lets the cost model learn."""
    last = passes[-1]
    end = last.tape.now()
    last.tape.report.took("gradients", "backward", last.end, end)
    for tape, made, rest, _ in passes:
        # Of several batches nobody knows which the gradients afterwards belong to.
        tape.observe(made, rest + end - last.end if len(passes) == 1 else 0.0)


def _note_head(tape: Tape, head: Any, retain_graph: bool) -> bool:
    """Raises where backward has been here before; returns whether to keep the history for an equal head."""
    result = head._v.result
    key = (id(head._v.graph), hash(head._v.rows)) if result is None else (result.arena, result.position)
    if tape.freed or key in tape.done:
        raise mx.base.MXNetError(
            f"backward was called on a value of shape {head.shape} whose history an earlier backward has freed; "
            "pass retain_graph=True to the earlier call"
        )
    if getrefcount(head._v) > 2:  # equal calls have one value, and backward may begin at each
        return True
    if not retain_graph:
        tape.done.add(key)
    return False


def _note_call(tape: Tape) -> None:
    """Warns where minibatches are differentiated, or even captured, one sample at a time."""
    tape.note_pass()
    if tape.samples > 1 and tape.backwards == 2:
        tape.warn("backward was called sample by sample: each call goes backward through the whole batch.")
