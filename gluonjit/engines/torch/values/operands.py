"""Tensors as operands of the open batch: lazy ones by their value, others as leaves."""

from __future__ import annotations

from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd import forward_ad

from gluonjit.compiled import FAST
from gluonjit.engines.torch.framework.arrays import bytes_of, look_of
from gluonjit.engines.torch.framework.copy_on_write import snapshot
from gluonjit.engines.torch.framework.input_version import InputVersion, payload_of, recorded, version_of
from gluonjit.engines.torch.framework.originals import above, plain
from gluonjit.engines.torch.framework.targets import WRITES
from gluonjit.engines.torch.tracing.traced_tensors import TraceTensor
from gluonjit.engines.torch.values.lookups import carried, host_rows
from gluonjit.engines.torch.values.pending_statistics import WAITING, PendingStatistic
from gluonjit.graph import Value, intern_spec
from gluonjit.graph.references import follow
from gluonjit.graph.values import MODES
from gluonjit.hybrid.capture.reuse.cache import refuse
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.trace import NeedsValue


class NotAnOperand(Exception):
    """A tensor that is no operand of a batch; the text says why."""


def value_of(batch: Batch, tensor: Any, mode: str = "") -> Value:
    """The value of a tensor in the batch's graph; in a `mode` one that existed before. Raises NotAnOperand."""
    if tensor.__class__ is torch.Tensor:
        return leaf(batch, tensor, mode)
    if getattr(tensor, "_v", None) is None:
        return leaf(batch, tensor)
    value = current(tensor)
    if value.graph is batch.graph:
        return value
    there = value.graph is None and value.result is None and value.base is tensor._c
    if not there:  # else nothing had to run for it
        batch.carried.add(batch.sample - 1)
        refuse("it uses a result of an earlier batch")
        if tensor._c is None and (
            tensor._b is None or tensor._b._c is None
        ):  # of what is there it shows numbers of now
            found = carried(batch, value)
            if found is not None:
                return found
    return leaf(batch, concrete(tensor), mode)


def is_input(lazy: Any) -> bool:
    """True if this stands for a tensor of the program, or one that is known, unchanged."""
    return lazy._c is not None and lazy._v.base is lazy._c


class MadeHere(list[int]):
    """The `_k` of a lazy tensor that the program has made from nothing, and that is no part of a graph.

    Holds how many more the same function makes if no pending one is written to them; -1 once one was.
    """


def is_made(item: Any) -> bool:
    """True if this is a lazy tensor of floats that the program has made, and that no pending call writes to."""
    return isinstance(item, torch.Tensor) and getattr(item, "_k", None).__class__ is MadeHere  # others have any name


def share(lazy: Any) -> Any:
    """Returns the computed tensor of a lazy one, whose memory others get: if the program made it, it stays plain."""
    if is_made(lazy):
        lazy._v, lazy._k = Value(0, 0, lazy._v.spec, None, False, None), None
    return concrete(lazy)


def current(lazy: Any) -> Value:
    """Returns the value of a lazy tensor; a view of what has been written to since is taken anew."""
    base = lazy._b
    if base is not None and base._n is not lazy._n:
        engine_of("torch").renew(lazy)  # type: ignore[attr-defined]
    return lazy._v  # type: ignore[no-any-return]


def concrete(lazy: Any) -> Any:
    """The computed tensor of a lazy one, with its history; runs what is pending."""
    if lazy._b is not None:
        current(lazy)
    if lazy._c is None:
        if LOCAL.state.trace is not None:
            raise NeedsValue
        lazy._c = in_memory(lazy)
        if lazy._c is None:
            with above():
                lazy._c = engine_of("torch").force(lazy._v)  # type: ignore[attr-defined]
    if LOCAL.state.recorded is not None and (lazy._v.graph is not None or lazy._v.base is not lazy._c):
        refuse("it reads numbers of a tensor, or computes with them at once")  # else it is of numbers that are known
    return lazy._c


def in_memory(lazy: Any) -> Any:
    """Returns the tensor of a view of an existing one, such as an input: nothing runs for it. Else None."""
    base = lazy._b
    if base is None and not lazy._n and lazy._v.depth == 0 and lazy._v.base.__class__ is torch.Tensor:
        return lazy._v.base  # it was made for it
    if base is None or base._c is None:
        return None
    found = base._c
    if (lazy._v.taped or found.requires_grad) and not isinstance(found, torch.nn.Parameter):
        return None
    with plain(), torch.set_grad_enabled(lazy._v.taped):
        try:
            return follow(found, lazy._k)
        except RuntimeError:  # a view of what lies otherwise in eager execution
            return None


def leaf(batch: Batch, tensor: Any, mode: str = "") -> Value:
    """A concrete tensor: equal when it is the same object, or when it is small and has the same numbers.

    It lies as is natural for its shape, or in a `mode`.
    """
    if FAST is not None and tensor.__class__ is torch.Tensor and not mode:
        found: Value | None = FAST.leaf(batch, tensor)
        if found is not None:
            return found
    if tensor.__class__ is torch.Tensor and not tensor.requires_grad and not torch.is_inference_mode_enabled():
        return _leaf(batch, tensor, mode)  # nothing here is captured or recorded
    with plain():
        return _leaf(batch, tensor, mode)


def _leaf(batch: Batch, tensor: Any, mode: str) -> Value:
    place = (id(tensor), mode) if mode else id(tensor)
    known = batch.imports.get(place) or batch.earlier.get(place)
    version = version_of(tensor)
    if known is not None and known[0].version == version and known[0].apart == recorded() and not tensor.is_inference():
        held, value = known
        learns = value.taped == tensor.requires_grad  # or not, as when it was captured
        if learns and (not (held.taped or _shared_outside(tensor)) or _as_captured(held, tensor)):
            if value.graph is batch.graph:
                return value
            if held.raw is not None and not held.apart:
                payload = payload_of(tensor, version, None, held.raw, held.spec)
                found = _by_numbers(batch, payload, tensor)
                batch.imports[place] = (payload, found)
                return found
    value, held = _new_leaf(batch, tensor, version, mode)
    batch.imports[place] = (held, value)
    return value


def _shared_outside(tensor: Any) -> bool:
    """True if numpy, or another library, may write to a tensor's memory, which PyTorch does not count."""
    return tensor.layout is torch.strided and not tensor.untyped_storage().resizable()


def _as_captured(held: InputVersion, tensor: Any) -> bool:
    """True if a tensor has the numbers still that were captured, where these are known."""
    if held.raw is not None:
        return bytes_of(look_of(tensor), tensor) == held.raw
    if held.rows is None:  # of integers, which have been read
        return False
    return held.rows is tensor or bool(torch.equal(held.rows, tensor))


def held_of(batch: Batch, tensor: Any) -> list[InputVersion]:
    """The payloads that a tensor has in a batch, in whatever modes it lies."""
    place, imports = id(tensor), batch.imports
    found = [imports[place, mode][0] for mode in MODES if (place, mode) in imports]
    return [imports[place][0], *found] if place in imports else found


def run_readers(tensor: Any) -> None:
    """Runs pending calls that read an input, or a weight, before it is written to, unless it was copied."""
    batch = LOCAL.state.batch
    if batch is None:
        return
    held = held_of(batch, tensor)
    for each in held:
        each.note_write()
    if any([each.taped or each.rows is tensor for each in held]) or id(tensor) in getattr(batch.own, "versions", ()):
        batch.flush("an input is written to")


def is_number(item: Any) -> bool:
    """True if an argument is a number of Python's."""
    return item.__class__ in (int, float, bool)


def takes_number(lazy: Any, key: Any, number: Any) -> bool:
    """True if a number is written to one that the program has made in a sample, at a place given by numbers."""
    state = LOCAL.state
    if lazy._k.__class__ is not MadeHere or not is_number(number) or not state.inside:
        return False
    if state.trace is not None or state.paused:
        return False
    return all([is_number(part) for part in key]) if key.__class__ is tuple else is_number(key)


def write_number(made: Any, key: Any, number: Any) -> None:
    """Writes a number to a tensor that the program has made, as programs do one by one."""
    refuse(WRITES)
    run_readers(made._c)
    made._c[key] = number
    made._n = (made._n or 0) + 1


def _new_leaf(batch: Batch, tensor: Any, version: int, mode: str) -> tuple[Value, InputVersion]:
    """The value of a tensor, and what is remembered of it."""
    if is_functorch_wrapped_tensor(tensor) or forward_ad._current_level >= 0:
        raise NotAnOperand("an argument is a tensor of torch.func, or forward-mode differentiation is on")
    if tensor.__class__ is PendingStatistic:
        raise NotAnOperand(WAITING)
    if tensor.__class__ is TraceTensor or tensor.layout is not torch.strided:
        raise NotAnOperand(f"an argument is a {type(tensor).__name__}, which has no rows in a batch")
    look = look_of(tensor)
    spec = look.spec
    if look.unfit:
        raise NotAnOperand(f"an argument of shape {spec.shape} and dtype {spec.dtype} has no rows of numbers")
    if mode:
        spec = intern_spec(spec.shape, spec.dtype, spec.device, mode)
    elif look.number is not None:
        if spec.device == "cpu":
            return host_rows(batch, tensor, look.number), payload_of(tensor, version, None)
        if spec.shape:  # not read, which would wait for the device; but of any number, as those of the host
            spec = intern_spec(spec.shape, spec.dtype, spec.device, "rows")
    taped = look.learns and tensor.requires_grad
    key: Any = (id(tensor), version, taped, spec.mode)
    if look.bytes_at is not None and not taped and not recorded():
        raw = bytes_of(look, tensor)  # a copy, so that the program may write to its own
        payload = payload_of(tensor, version, None, raw, spec)
        return _by_numbers(batch, payload, tensor), payload
    elif tensor.is_inference():
        payload = _as_it_is(batch, tensor)
        key = ("copied", id(payload), spec.mode)
    elif spec.bytes <= batch.options.copy_inputs and not (
        taped and (tensor.__class__ is not torch.Tensor or not tensor.is_leaf)
    ):
        payload = payload_of(tensor, version, snapshot(batch, tensor))  # `tensor.data` writes to it uncounted
        payload.taped = taped
        key = ("copied", id(payload), spec.mode)
    else:
        payload = payload_of(tensor, version, tensor)
    base = batch.graph.add_leaf(key, payload, spec, taped).base
    return Value(base, 0, spec, batch.graph, taped, tensor), payload


def _by_numbers(batch: Batch, payload: InputVersion, tensor: Any) -> Value:
    """The value of a small tensor, which is one with others of the same numbers."""
    graph, spec = batch.graph, payload.spec
    assert spec is not None
    known = graph.add_leaf((spec, payload.raw), payload, spec)
    known.payload.share(payload)
    return Value(known.base, 0, spec, graph, False, tensor)


def _as_it_is(batch: Batch, tensor: Any) -> InputVersion:
    """Returns a tensor with its current numbers: PyTorch counts no writes to one made in inference mode."""
    place = ("copied", id(tensor))
    known: InputVersion | None = batch.created.get(place)
    if known is None or not torch.equal(known.rows, tensor):
        known = batch.created[place] = payload_of(tensor, 0, snapshot(batch, tensor))
    return known
