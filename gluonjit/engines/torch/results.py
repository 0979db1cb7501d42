"""From a flushed value to its numbers."""

from __future__ import annotations

from typing import Any

from gluonjit.engines.torch.hooked import plain
from gluonjit.graph import Value
from gluonjit.hybrid.batch import results_of


def numbers_of(value: Value) -> Any:
    """A flushed value, with its history where it has one."""
    with plain(value.taped):
        if value.result is not None:
            return value.result.chunk.value(value.spec, value.result.row)
        results = results_of(value)
        rows = value.row_list()
        session: Any = results.session
        found = session.rows(int(results.arena[rows[0]]), results.position[rows].tolist())
        return found if value.spec.mode == "rows" else found.reshape(value.spec.shape)
