"""What the just-in-time part needs of a framework. Arrays, modes and programs are the engine's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gluonjit.graph import Kind, Leaf, Spec, Value


class Engine(Protocol):
    """A framework underneath. A mode is 2 * recording + training."""

    name: str

    def current_mode(self) -> int:
        """The framework's recording and training flags on this thread."""

    def sum_kind(self, spec: Spec, count: int) -> Kind:
        """The kind whose one operand is `count` stacked arrays of this spec and whose result is their sum."""

    def leaf_chunk(self, leaves: Sequence[Leaf], mode: int) -> Any:
        """The rows of these leaves, concatenated."""

    def lookup_chunk(self, table: Any, spec: Spec, indices: Sequence[int], mode: int) -> Any:
        """The rows `indices` of a table."""

    def upload(self, indices: Sequence[npt.NDArray[np.int64]], device: Any) -> list[Any]:
        """Index arrays as the engine's; they travel together."""

    def concat(self, sources: Sequence[Any], mode: int) -> Any:
        """Chunks one after the other."""

    def take(self, pool: Any, index: Any, mode: int) -> Any:
        """Rows of a chunk, by an uploaded index."""

    def run_step(self, kind: Kind, operands: Sequence[Any], count: int, mode: int) -> list[Any]:
        """The results of `count` nodes; operand k holds their k-th operands' rows in order."""

    def materialize(self, value: Value) -> Any:
        """A flushed value as an array of the framework."""

    def wants(self, args: Sequence[Any]) -> bool:
        """Whether a call with these arguments has to be captured."""

    def call_cell(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Capture the call of a CellFunction."""

    def owns(self, array: Any) -> bool:
        """Whether this is an array of the framework."""

    def add_n(self, arrays: Sequence[Any]) -> Any:
        """The sum of arrays of one shape."""

    def cache_info(self) -> dict[str, int]:
        """Entries in each of the engine's caches."""

    def clear_caches(self) -> None:
        """Empty them."""

    def wait(self) -> None:
        """Wait until all work handed over is done."""
