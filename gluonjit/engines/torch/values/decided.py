"""Values that the numbers of inputs alone decide, read in the middle of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gluonjit.engines.torch.framework.input_version import InputVersion
from gluonjit.engines.torch.framework.originals import plain
from gluonjit.engines.torch.run.one_by_one import NODES
from gluonjit.engines.torch.run.program import as_rows, joined
from gluonjit.engines.torch.values.lazy import LazyTensor
from gluonjit.engines.torch.values.lookups import Carried
from gluonjit.engines.torch.values.operands import current
from gluonjit.graph import Leaf
from gluonjit.hybrid.capture.structure import Args, map_structure
from gluonjit.hybrid.run.decided import DecidedValues, NeedsMore, batch_to_ask


def decided(lazy: Any) -> Any:
    """The numbers of a pending tensor, if they follow from inputs by a few calls, for who reads them; else None."""
    batch = batch_to_ask()
    if batch is None:
        return None
    value = current(lazy)
    if value.spec.device != "cpu":
        return None
    with plain():
        found = _Values.of(batch, value)
    return found if found is None or value.spec.mode == "rows" else found.reshape(value.spec.shape)


def read_decided(args: Args) -> tuple[Any, ...]:
    """Arguments of a function that reads numbers, with those that follow from inputs in place of pending tensors."""
    return map_structure(args, _read)  # type: ignore[no-any-return]


def _read(item: Any) -> Any:
    found = decided(item) if item.__class__ is LazyTensor and item._c is None else None
    return item if found is None else found


class _Values(DecidedValues):
    """Computes values one by one, by PyTorch's own operators."""

    runner, joined, as_rows = NODES, staticmethod(joined), staticmethod(as_rows)

    def leaf_rows(self, leaf: Leaf) -> Any:
        held = leaf.payload
        if (
            leaf.taped
            or held.__class__ is not InputVersion
            or held.stale
            or isinstance(held.tensor, torch.nn.Parameter)
        ):
            raise NeedsMore
        return as_rows(held.rows, leaf.spec)

    def entry_rows(self, table: Any, entries: Sequence[Any]) -> Any:
        """Those that an earlier flush left, too."""
        if table.__class__ is Carried and not table.taped:
            return table.weight[entries]
        return super().entry_rows(table, entries)
