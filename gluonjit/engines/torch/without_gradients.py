"""Calls without gradients, which run as those with gradients that were traced before: training comes before evaluation.

The operators of a call are the same without gradients, and results too, unless its program asks for the mode. What its
own code asks is noted when it is traced (`Cell.asks_mode`); PyTorch's own code is trusted, as elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from gluonjit.engines.torch.cell import Cell
from gluonjit.hybrid.capture.guards.variants import Variant, holding


def signatures_of(cell: Cell, wanted: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yields a signature, and those of calls with gradients which run as calls of this one."""
    yield wanted
    without, training, _, learning, *rest, _ = wanted
    if not learning and not cell.asks_mode:
        yield from [(without, training, cell, True, *rest, taped) for taped in (True, False)]


def with_gradients(cell: Cell, wanted: tuple[Any, ...]) -> Variant | None:
    """Returns the variant that calls of a signature without gradients have in common with calls with gradients.

    It is not compared with later traces: PyTorch takes some operators apart otherwise where nothing learns.
    """
    for signature in islice(signatures_of(cell, wanted), 1, None):
        found = holding(cell.variants.get(signature, ()))
        if found is not None:
            shared = found._replace(traced=None)
            cell.variants.setdefault(wanted, []).append(shared)
            return shared
    return None
