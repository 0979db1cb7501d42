"""From a flushed value to its numbers, and those of lazy tensors for functions without dispatch.

Such are functions that create tensors, and calls within C++.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from math import prod
from typing import Any

import numpy as np
import torch
from torch._C._functorch import peek_interpreter_stack
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from gluonjit.engines.torch.framework.originals import above, plain
from gluonjit.engines.torch.run.program import program_of
from gluonjit.engines.torch.values.lazy import LazyTensor
from gluonjit.engines.torch.values.operands import current, is_input, share
from gluonjit.errors import CaptureError
from gluonjit.graph import Value
from gluonjit.hybrid.capture.structure import Args, Kwargs, map_structure
from gluonjit.hybrid.choose.pacing import turn_eager
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED, results_of, rows_of
from gluonjit.hybrid.run.state import settle as run

_ATEN = torch.ops.aten


def outside_of_transforms() -> Any:
    """Returns a context in which no transform of torch.func is active."""
    return nullcontext() if peek_interpreter_stack() is None else temporarily_clear_interpreter_stack()


def settle(value: Value, backward: bool = False) -> None:
    """Runs the batch of a value if that has not run."""
    if value.result is None:
        with outside_of_transforms():
            run(value, backward)


def number_of(value: Value) -> tuple[Any] | None:
    """The number of a pending value, whose batch runs; None if it is no result of one row that has one number."""
    settle(value)
    spec = value.spec
    if value.result is None or spec.rows != 1 or prod(spec.row_shape) != 1:
        return None
    return (*value.result.chunk.numbers()[value.result.row],)


def listed_of(value: Value) -> tuple[Any] | None:
    """The numbers of a pending value in lists, whose batch runs; None if they are no line, or of many."""
    settle(value)
    found = None if value.result is None else value.result.chunk.listed(value.spec, value.result.row)
    return None if found is None else (found,)


def numbers_of(value: Value) -> Any:
    """A flushed value, with its history where it has one."""
    with outside_of_transforms(), plain(value.taped):
        if value.result is not None:
            return value.result.chunk.value(value.spec, value.result.row)
        found = rows_of(value)
        return found if value.spec.mode == "rows" else found.reshape(value.spec.shape)


def refuse_used(item: Any, call: str) -> None:
    """Raises if the gradient of a computed result is requested that captured calls of the same batch have used.

    Or the call that it is a result of, on its way to another.
    """
    if isinstance(item, LazyTensor) and is_used(current(item)) and not is_input(item):
        eager = "runs eagerly from now on" if turn_eager() else "runs eagerly if no option names a way to batch"
        raise CaptureError(
            f"{call}: captured calls have already used this result of shape {tuple(item.shape)}. To autograd its "
            "batch is one function, inside of which the result has no gradient of its own. Call retain_grad() or "
            "register_hook() where the result is made, before anything is computed from it. Such a model "
            f"{eager}."
        )


def is_used(value: Value) -> bool:
    """True if steps of the flush that computed a value, with its history, have read it."""
    if not value.taped:
        return False
    if value.result is not None:
        chunk, row = value.result
        numbers = range(row, row + value.spec.rows)
        found: bool = chunk.plan.reads(chunk.place.arena, chunk.place.begin + np.array(numbers))
        return found or not chunk.readers.taken.isdisjoint(numbers) or is_used_inside(value)
    if value.graph is None or isinstance(value.graph.owner, Batch):
        return False
    results, rows = results_of(value), value.row_list()
    session = results.session
    return any(session.plan.reads(int(results.arena[row]), results.position[[row]]) for row in rows)


def is_used_inside(value: Value) -> bool:
    """True if the call that a result is of computes another of its results from it."""
    place, plan = value.result.chunk.place, value.result.chunk.plan
    for step in plan.steps:
        if place in step.places:
            trace = program_of(step.kind).trace
            own = trace.results[step.places.index(place)]
            through = {own}
            for op in trace.ops:
                if not through.isdisjoint(op.inputs):
                    through.update(op.outputs)
            return not through.isdisjoint({*trace.results} - {own})
    return False


_SPARSE = [f"sparse_{name}_tensor" for name in "coo csr csc bsr bsc compressed".split()]
KEEPING = ("as_tensor", "asarray", *_SPARSE)
"""Functions of torch that ask no class of their arguments, and whose results have the history of these."""
_COPIES = {_ATEN.detach, _ATEN._to_copy, _ATEN.clone, _ATEN.alias}
_COPIES |= {_ATEN._local_scalar_dense, _ATEN.copy_, _ATEN.lift_fresh}


def computed(item: Any, lending: bool = False) -> Any:
    """Lazy tensors in nested arguments as computed ones; lending: with memory that is given to others."""

    def of(part: Any) -> Any:
        if part.__class__ is not LazyTensor:
            return part
        found = engine_of("torch").lent(part) if lending else share(part)  # type: ignore[attr-defined]
        if part.__dict__:
            found.__dict__ = part.__dict__  # what the program attaches to one is attached to the other
        return found

    return map_structure(item, of)


def found_for(name: str, find: Callable[[Any], Any], args: Args, kwargs: Kwargs) -> tuple[Any, Any]:
    """Arguments with computed tensors as `find` gives them; the batch knows meanwhile for which function it runs."""
    batch = LOCAL.state.batch
    if batch is None:
        return find(args), find(kwargs)
    batch.caller = name
    try:
        return find(args), find(kwargs)
    finally:
        batch.caller = ""


def run_computed(function: Callable[..., Any], first: Any, args: Args, kwargs: Kwargs) -> Any:
    """Calls a function on computed tensors, as without batching."""
    given, named = computed((args, kwargs))
    with UNCAPTURED:
        return function(first, *given, **named)


def of_computed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function so that it is given computed tensors, whose memory its result may have."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*computed(args, True), **computed(kwargs, True))

    return call


def is_inference(input: Any) -> bool:
    """torch.is_inference, which PyTorch answers of a stand-in's own memory."""
    return bool(input.is_inference())


def read_by(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Runs an operator that C++ calls on lazy tensors, as `torch.tensor([x])` does, on their numbers.

    Autograd has been passed by then, and is begun again. Raises CaptureError if gradients would get lost: of views.
    """
    given, named = found_for(func.overloadpacket.__name__, computed, args, kwargs)
    tensors = [item for item in (*given, *named.values()) if isinstance(item, torch.Tensor)]
    learns = torch.is_grad_enabled() and func.overloadpacket not in _COPIES and any(t.requires_grad for t in tensors)
    if learns and (func.is_view or func._schema.is_mutable):
        raise CaptureError(
            f"{func} was called on a result whose gradient is recorded, and this function of PyTorch does not "
            "dispatch to tensor subclasses. Call it by its full name (torch.NAME) after `import gluonjit`, or on "
            "`tensor.detach()`."
        )
    if named.get("device") is not None and named["device"].type == "meta":  # that of the stand-ins
        named["device"] = tensors[0].device
    with above() if learns else nullcontext():
        return func(*given, **named)
