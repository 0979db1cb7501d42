"""Basic indexing of lazy arrays: rows are references, and the rest of an index is one operator.

So `x[i, 2:5]` is one kind for all i. Entries, of which a program may take any, such as the scores of a sample's own
tags, are picked by a number that is an operand: one kind for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gluonjit.engines.mxnet.framework.indices import Cuts
from gluonjit.engines.mxnet.values import references
from gluonjit.engines.mxnet.values.operands import array_of, value_of
from gluonjit.engines.mxnet.values.recorder import Recorder
from gluonjit.graph import Value
from gluonjit.graph.modes import RECORDING
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.places import are_many
from gluonjit.hybrid.run.state import LOCAL


def referred(lazy: Any, key: Any, scalar: tuple[int, ...] = (1,)) -> Value | None:
    """Finds the rows of a lazy array's value that an index picks, if it is in the open batch."""
    value, state = lazy._v, LOCAL.state
    if isinstance(value.graph, Recorder):
        return None
    batch = state.batch or state.open(engine_of("mxnet"))
    if value.graph is not batch.graph:
        value = value_of(batch, lazy)
    if not state.mode & RECORDING and value.taped:  # what is sliced while not recording has no history
        return None
    return references.indexed(value, key, scalar)


def cut_out(lazy: Any, cuts: Cuts, wrapped: Callable[[Value], Any], call: Callable[..., Any]) -> Any:
    """Cuts out of a lazy array one number or more; its shape may differ from the index's by axes of size 1.

    wrapped: makes a lazy array of a value; call: captures an operator, by its name.
    """
    first, last, step = cuts[0]
    rows = referred(lazy, slice(first, last)) if step == 1 and (first, last) != (0, lazy.shape[0]) else None
    if rows is not None:
        lazy, cuts = wrapped(rows), [(0, rows.spec.rows, 1), *cuts[1:]]
    shape = lazy.shape
    if all(cut == (0, extent, 1) for cut, extent in zip(cuts, shape)):
        return lazy
    if all(len(range(extent)[slice(*cut)]) == 1 for cut, extent in zip(cuts, shape)):
        number = int(np.ravel_multi_index([begin for begin, _, _ in cuts], shape))
        if _as_operand(lazy._v, number, rows is not None):
            row = lazy if len(shape) == 2 and shape[0] == 1 else lazy.reshape((1, -1))
            return call("pick", row, array_of(str(number), (1,), "int32", lazy.context), axis=1)
    begin, end, steps = zip(*cuts)
    return call("slice", lazy, begin=begin, end=end, step=steps)


def _as_operand(value: Value, number: int, of_many: bool) -> bool:
    """True if an entry's number becomes an operand: of many rows it is a sample's own more often than not."""
    if isinstance(value.graph, Recorder) or value.spec.dtype == "bool":  # pick takes no truth values
        return False
    return of_many or are_many(value.spec, number)
