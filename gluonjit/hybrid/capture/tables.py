"""Weights whose rows are looked up by known integers: each entry is a row, and equal entries are equal rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar

from gluonjit.graph.values import Spec, intern_spec
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.failures import refused

_Own = TypeVar("_Own", bound="Table")


class Table:
    """A weight whose rows are looked up in one batch; an engine derives its own, and says how a weight looks.

    An entry is what the first `dims` axes tell apart, in order; taped: whether gradients go on to the weight; attrs:
    what else the engine is to know. By all these, the `key`, the batch finds it. row: how an entry looks; size: how
    many there are, and `sizes` along each axis.
    """

    look: Callable[[Any], Spec]

    def __init__(self, batch: Batch, weight: Any, attrs: Any = (), taped: bool = False, dims: int = 1) -> None:
        self.key = weight, attrs, taped, dims
        self.weight, self.attrs, self.taped, self.dims = self.key
        spec = self.look(weight)
        self.sizes = spec.shape[:dims]
        self.size = prod(self.sizes)
        self.row = intern_spec(spec.shape[dims:], spec.dtype, spec.device, "stack")

    @classmethod
    def of(cls: type[_Own], batch: Batch, *key: Any) -> _Own:
        """The batch's table of this key."""
        name = id(key[0]), *key[1:]
        table: _Own | None = batch.tables.get(name)
        if table is None:
            table = batch.tables[name] = cls(batch, *key)
        return table

    def check(self, call: str, numbers: Sequence[int]) -> None:
        """Raises CaptureError, and IndexError, where one of these is no entry."""
        if not 0 <= min(numbers) <= max(numbers) < self.size:
            wrong = next(number for number in numbers if not 0 <= number < self.size)
            text = (
                f"{call}: index {wrong} in a look-up of {len(numbers)} entries, but the table has {self.size} rows (0 "
                f"to {self.size - 1}): index out of range. Check the vocabulary that made the indices."
            )
            raise refused(IndexError, text)
