"""A flush as a node of PyTorch's autograd history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gluonjit.analysis.plan import Place
from gluonjit.engines.torch.chunks import Chunk, is_asked_for, keeps_graph
from gluonjit.engines.torch.hooked import LEARNING, applied, plain
from gluonjit.engines.torch.tape import Tape
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
        if torch.is_grad_enabled():
            if ctx.tape.again is None or ctx.tape.observed:
                raise CaptureError(
                    "backward(create_graph=True) of a dynamically batched value: gradients of gradients do not "
                    "go through a static plan, nor through hooks of results that their batch has used. Call "
                    "gluonjit.hybridize(net, dynamic_batch=False) for this computation."
                )
            return (None, None, *ctx.tape.again(ctx.tape, heads, asked))
        with plain():
            return (None, None, *ctx.tape.gradients(heads, keeps_graph(), asked))


def joined_history(tape: Tape, chunks: Mapping[Place, Chunk]) -> None:
    """Give what can be read its history in PyTorch's autograd; inside of `plain`."""
    outputs, sources = tape.begin(chunks), tape.sources()
    if outputs and sources:
        with LEARNING:
            for chunk, tensor in zip(outputs, applied(Flush, tape, [chunk.tensor for chunk in outputs], *sources)):
                chunk.tensor = tensor
