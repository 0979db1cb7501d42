"""A flush as a node of PyTorch's autograd history."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gluonjit.analysis.plan import Place
from gluonjit.engines.torch.framework.applying import applied
from gluonjit.engines.torch.framework.originals import LEARNING, plain
from gluonjit.engines.torch.run.chunks import Chunk, is_asked_by_name, is_asked_for, keeps_graph
from gluonjit.engines.torch.run.gradients import Tape
from gluonjit.errors import CaptureError


class Flush(torch.autograd.Function):  # type: ignore[misc]
    """A flush as a function of everything that requires gradients; its results are those that can be read."""

    @staticmethod
    def forward(ctx: Any, tape: Tape, results: list[Any], *sources: Any) -> Any:
        """Gives what has been computed already."""
        ctx.tape = tape
        ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *heads: Any) -> Any:
        """Gradients of the sources."""
        if all(head is None for head in heads):  # a backward that began elsewhere in what its sources came from
            return (None,) * len(ctx.needs_input_grad)
        asked = [is_asked_for(node) for node, _ in ctx.next_functions]
        if ctx.tape.has_overwritten and not all(asked):
            asked = [leads(node, k) for node, k in ctx.next_functions]
            if not any(asked):
                return (None,) * len(ctx.needs_input_grad)
        if any(map(_is_batched, heads)):
            return (None, None, *_vector_by_vector(ctx.tape, heads, asked))
        return (None, None, *_gradients(ctx.tape, heads, asked))


def _gradients(tape: Tape, heads: tuple[Any, ...], asked: Sequence[bool], keep: bool | None = None) -> list[Any]:
    """Gradients of the sources, which can be differentiated if gradients are recorded."""
    if not torch.is_grad_enabled():
        with plain():
            return tape.gradients(heads, keeps_graph() if keep is None else keep, asked)
    if tape.observed:
        raise CaptureError(
            "backward(create_graph=True) of a dynamically batched value: gradients of gradients do not "
            "go through hooks of results that their batch has used. Call "
            "gluonjit.hybridize(net, dynamic_batch=False) for this computation."
        )
    return tape.again(tape, heads, asked)


def _is_batched(head: Any) -> bool:
    """True of a gradient that stands for those of several backward passes (`is_grads_batched=True`)."""
    return head is not None and torch._C._functorch.is_legacy_batchedtensor(head)


def _vector_by_vector(tape: Tape, heads: tuple[Any, ...], asked: Sequence[bool]) -> list[Any]:
    """Gradients of the sources for each of several gradients of the results, together as one for PyTorch."""
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    many = [torch._remove_batch_dim(head, level, 1, 0) if _is_batched(head) else None for head in heads]
    size, given = max([len(rows) for rows in many if rows is not None]), tape.given()
    found = []
    for number in range(size):
        tape.give(given)
        each = tuple([head if rows is None else rows[number] for head, rows in zip(heads, many)])
        found.append(_gradients(tape, each, asked, keep=number < size - 1 or keeps_graph()))
    return [None if parts[0] is None else torch._add_batch_dim(torch.stack(parts), 0, level) for parts in zip(*found)]


_OURS = frozenset(f"{name}Backward" for name in ("Pieces", "Taken", "Once"))
_VIEWS = frozenset({"ViewBackward0", "ReshapeAliasBackward0", "UnsqueezeBackward0"})
_DEEPEST = 50


class _Entered(threading.local):
    """The flushes of this thread that have read what has a history of its own, computed eagerly before them."""

    def __init__(self) -> None:
        self.tapes: weakref.WeakSet[Tape] = weakref.WeakSet()


_ENTERED = _Entered()


def is_needed_again(heads: Sequence[Any]) -> bool:
    """True if a backward from these nodes has to leave to a later one what was computed before a flush.

    PyTorch goes from one result of a flush to all of its sources, and forgets their history on the way, also that of
    sources which only another result depends on.
    """
    tapes, nodes = _ENTERED.tapes, list(heads)
    if not tapes:
        return False
    seen = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        tape = getattr(node, "tape", None)
        if isinstance(tape, Tape) and tape in tapes and tape.remaining > len(heads):
            return True
        nodes += [further for further, _ in node.next_functions]
    return False


def leads(node: Any, output: int, depth: int = 0) -> bool:
    """True if the backward under way comes from here to what it was asked for.

    PyTorch says so of all results of a flush if that leads there from any; here the flush is asked from which.
    """
    if not is_asked_for(node):
        return False
    if is_asked_by_name(node) or depth == _DEEPEST:
        return True
    if node.name() == "FlushBackward":
        asked = [leads(further, k, depth + 1) for further, k in node.next_functions]
        return all(asked) or node.tape.leads(output, asked)
    if node.name() in _OURS or node.name() in _VIEWS:
        return any(leads(further, k, depth + 1) for further, k in node.next_functions)
    return True


def joined_history(tape: Tape, chunks: Mapping[Place, Chunk]) -> None:
    """Gives what can be read its history in PyTorch's autograd; inside of `plain`."""
    outputs, sources = tape.begin(chunks), tape.sources()
    if outputs and sources:
        if any(source.grad_fn is not None and source.grad_fn.name() not in _OURS for source in sources):
            _ENTERED.tapes.add(tape)
        with LEARNING:
            for chunk, tensor in zip(outputs, applied(Flush, tape, [chunk.tensor for chunk in outputs], *sources)):
                chunk.tensor = tensor
