"""Backward of lazy arrays: through the whole batch in one go wherever the program allows it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import mxnet as mx
from mxnet import autograd

from gluonjit.engines.mxnet.engine import ENGINE
from gluonjit.engines.mxnet.hooked import original_backward, original_grad
from gluonjit.engines.mxnet.lazy import LazyArray, concrete
from gluonjit.errors import BackwardWarning
from gluonjit.hybrid import LOCAL, Tape

_ADVICE = (
    "Capture the losses of a minibatch first, then call backward once for their sum: "
    "gluonjit.add_n(losses).backward(), or autograd.backward(losses)."
)


def backward(heads: Any, head_grads: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """mxnet.autograd.backward. Several captured losses are added up first, so that one pass serves all."""
    listed = list(heads) if isinstance(heads, (list, tuple)) else [heads]
    lazy = [head for head in listed if isinstance(head, LazyArray)]
    if not lazy:
        original_backward(heads, head_grads, retain_graph, train_mode)
        return
    if head_grads is None and len(lazy) == len(listed) > 1 and all(head._v.taped for head in lazy):
        listed = [_total(lazy)]
        lazy = [head for head in listed if isinstance(head, LazyArray)]
    for head in lazy:
        concrete(head)
    tapes = _tapes(lazy)
    begin = perf_counter()
    original_backward(listed, head_grads, _retained(lazy, tapes, retain_graph), train_mode)
    for tape in tapes:
        if tape.profile:
            ENGINE.wait()
        tape.report.ms["backward"] += (perf_counter() - begin) * 1e3


def grad(
    heads: Any,
    variables: Any,
    head_grads: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> Any:
    """mxnet.autograd.grad. Keeps the batch's history where other values of the batch may still need it."""
    listed = list(heads) if isinstance(heads, (list, tuple)) else [heads]
    lazy = [head for head in listed if isinstance(head, LazyArray)]
    for head in lazy:
        concrete(head)
    keep = retain_graph if retain_graph is not None else create_graph
    if lazy and not keep:
        retain_graph = _retained(lazy, _tapes(lazy), False)
    return original_grad(heads, variables, head_grads, retain_graph, create_graph, train_mode)


def _total(losses: Sequence[LazyArray]) -> Any:
    with autograd.record():
        return mx.nd.add_n(*[loss if loss.shape == (1,) else loss.sum() for loss in losses])


def _tapes(heads: Sequence[LazyArray]) -> list[Tape]:
    """The flushes that computed these heads."""
    tapes: dict[int, Tape] = {}
    for head in heads:
        result = head._v.result
        if result is not None:
            tapes[id(result[2])] = result[2]
    return list(tapes.values())


def _retained(heads: Sequence[LazyArray], tapes: Sequence[Tape], retain_graph: bool) -> bool:
    """Whether MXNet has to keep the history: others of the batch may need it although this head does not.

    MXNet frees the history of everything that a head was computed from, and the samples of a batch have
    theirs in common.
    """
    for head in heads:
        result = head._v.result
        if result is None:
            continue
        chunk, row, tape = result
        if (id(chunk), row) in tape.done:
            raise mx.base.MXNetError(
                f"backward was called a second time on a value of shape {head.shape} whose history was freed "
                f"by the first call; pass retain_graph=True to the first"
            )
        if not retain_graph:
            tape.done.add((id(chunk), row))
    keep = retain_graph
    for tape in tapes:
        tape.backwards += 1
        if tape.backwards == 2 and tape.samples > 1:
            _warn("backward was called sample by sample: each call goes backward through the whole batch.")
        _count_single(tape)
        keep = keep or len(tape.done) < tape.ends
    return keep


def _count_single(tape: Tape) -> None:
    """Warn where minibatches are captured, run and differentiated one sample at a time."""
    state = LOCAL.state
    if tape.samples != 1 or tape.backwards != 1:
        state.singles = 0
        return
    state.singles += 1
    if state.singles == 2:
        _warn("samples were captured and differentiated one at a time, so that nothing could be batched.")


def _warn(what: str) -> None:
    warnings.warn(f"{what} {_ADVICE}", BackwardWarning, stacklevel=5)
