"""Tensors that an operator saves for its backward pass, according to PyTorch's autograd, asked with small ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gluonjit.engines.torch.framework.arrays import LEARNABLE, on_host, zeros_of
from gluonjit.engines.torch.framework.originals import plain
from gluonjit.engines.torch.operators.binding import operator_named
from gluonjit.program.axes.values import placed
from gluonjit.program.trace import Trace, TraceBuilder, TraceOp

Saved = tuple[frozenset[int], frozenset[int]]
"""The numbers of operands and of results that a backward pass needs."""
Write = tuple[int, int, int, set[int], bool]


def saved_values(program: Any, learned: tuple[bool, ...]) -> Saved:
    """The operands and the results, by number, that a program saves for backward where these operands learn."""
    key = learned, tuple([tensor.requires_grad for tensor in program.consts])
    found: Saved | None = program.kept.get(key)
    if found is None:
        found = program.kept[key] = _saved_values(program, learned)
    return found


def _saved_values(program: Any, learned: tuple[bool, ...]) -> Saved:
    trace: Trace = program.trace
    tensors: dict[int, Any] = {}
    saved: set[int] = set()
    with plain(True):
        try:
            for position, spec in enumerate(trace.operands):
                tensors[position] = _leaf(zeros_of(spec), learned[position])
            for position, tensor in trace.constants():
                tensors[position] = _leaf(on_host(tensor), tensor.requires_grad)
            for op in trace.ops:
                saved.update(map(_memory, [tensors[position] for position in saved_by(op, tensors)]))
        except (RuntimeError, ValueError, TypeError, IndexError):  # of numbers that are none of the program's
            return frozenset(), frozenset()
    return (
        frozenset([k for k in range(len(trace.operands)) if _memory(tensors[k]) in saved]),
        frozenset([k for k, position in enumerate(trace.results) if _memory(tensors[position]) in saved]),
    )


def saved_by(op: TraceOp, known: dict[int, Any]) -> set[int]:
    """The positions whose tensors an operator saves; its results are added to `known`."""
    saved: list[int] = []

    def pack(tensor: Any) -> Any:
        saved.append(_memory(tensor))
        return tensor

    inputs = [known[position] for position in op.inputs]
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        found = operator_named(op.name)(**{name: _given(value, inputs) for name, value in op.attrs})
    known.update(zip(op.outputs, found if isinstance(found, (list, tuple)) else (found,)))
    places = {*op.inputs, *op.outputs}
    return {position for position in places if _memory(known[position]) in saved}


def overwritten(
    trace: TraceBuilder,
    likes: Sequence[Any],
    learned: Callable[[int], bool | None],
    writes: Sequence[Write],
) -> bool:
    """True if a trace writes over what an operator before has saved, which PyTorch's backward pass refuses.

    writes: (operators before, operators when it was done, the position written to, those of the same memory, whether
    gradients were recorded).
    """
    if not writes:
        return False
    memory: set[int] = set().union(*[places for _, _, _, places, _ in writes])
    ops = list(enumerate(trace.ops[: writes[-1][1]]))
    users = [(number, op) for number, op in ops if not memory.isdisjoint((*op.inputs, *op.outputs))]

    def lost(among: list[tuple[int, TraceOp]], known_to: Callable[[TraceOp], dict[int, Any]]) -> bool:
        try:
            return any(_loses(number, op, known_to(op), writes) for number, op in among)
        except (RuntimeError, ValueError, TypeError, IndexError):  # of numbers that are none of the program's
            return True

    with plain(True):
        # First as if operators that use the memory were given what learns, each of them alone.
        if not lost(users, lambda op: {position: _leaf(likes[position], None) for position in op.inputs}):
            return False
        begun = (*range(len(trace.operands)), *trace.consts)
        known = {position: _leaf(likes[position], learned(position)) for position in begun}
        return lost(ops, lambda op: known)


def _loses(number: int, op: TraceOp, known: dict[int, Any], writes: Sequence[Write]) -> bool:
    """True if one of these writes goes over what an operator has saved, whose results are added to `known`."""
    kept = saved_by(op, known)
    for _, _, target, *_ in [write for write in writes if write[0] <= number < write[1]]:
        if op.inputs.count(target) == 1:
            kept.discard(target)  # it keeps a copy of what it writes to, but not of other arguments
    return any(_is_lost(number, op, kept, write) for write in writes)


def _is_lost(number: int, op: TraceOp, kept: set[int], write: Write) -> bool:
    before, after, _, places, learning = write
    if number < before:
        return not kept.isdisjoint(places)
    return learning and number < after and not kept.isdisjoint(places.intersection(op.inputs))


def _leaf(like: Any, learned: bool | None) -> Any:
    copy = like.detach().clone()
    return copy.requires_grad_(learned is not False and str(copy.dtype).removeprefix("torch.") in LEARNABLE)


def _given(value: Any, inputs: Sequence[Any]) -> Any:
    return torch.device("cpu") if isinstance(value, torch.device) else placed(value, inputs, list)  # all is asked there


def _memory(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr()) if isinstance(tensor, torch.Tensor) else 0
