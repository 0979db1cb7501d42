"""Examples, on which a rule's program runs once it is built, to check that it gives the shapes the rule declares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import torch

from gluonjit.engines.torch.framework.arrays import INDICES, dtype_named
from gluonjit.program.axes.values import NODES, Instruction, NotBatchable, Shaped, Values

COUNTS = (2, 3, 5, 7)  # how many nodes, of which one is taken that is no size of theirs


class Examples:
    """The contents of a program's slots for `nodes` nodes and `children` children, all zeros.

    owners: the slot of whose child each is, where there are children.
    """

    def __init__(self, device: str, sizes: Iterable[int], owners: int | None = None) -> None:
        taken = set(sizes)
        free = [count for count in COUNTS if count not in taken] or list(COUNTS)
        self.nodes, self.children = free[0], free[0] + 1
        self.operator = "a result"  # what is being written down
        self._device = device
        self._owners = owners
        self._tensors: dict[int, Any] = {}
        self._rows = (0, 0)  # where nodes have any number of rows: in the trace, and here
        if owners is not None:
            self._tensors[owners] = torch.arange(self.children, device=device) % self.nodes

    def add(self, val: Values, tensor: Any = None, child: bool = False) -> None:
        """Puts an operand into its slot, or the tensor that is the same for all nodes."""
        if tensor is None:
            assert val.lead is not None
            if val.packed:
                self._rows = (val.shape[0], self.nodes * (val.shape[0] + 1))
            rows = self._rows[1] if val.packed else val.lead * (self.children if child else self.nodes)
            tensor = torch.zeros((rows, *val.rest), dtype=dtype_named(val.dtype), device=self._device)
        self._tensors[val.slot] = tensor

    def run(self, step: Instruction) -> None:
        """Runs what has been written down. Raises NotBatchable if it fails."""
        counts = [self._count(step.counts)] if step.counts else []
        try:
            given = [self._tensors[slot] for slot in step.inputs]
            try:
                found = step.function(*counts, *given)
            except torch.linalg.LinAlgError:
                found = step.function(*counts, *map(regular, given))
        except Exception as error:
            line = str(error).strip().split("\n")[0]
            said = f"for several samples its rule fails with {type(error).__name__}: {line}"
            raise NotBatchable(f"{self.operator}: {said}") from error
        self._tensors.update(zip(step.outputs, map(_as_index, found if len(step.outputs) > 1 else (found,))))

    def _count(self, expression: str) -> int:
        return self.nodes if expression == NODES else self.children

    def check(
        self, found: Sequence[Values], outputs: Sequence[Shaped], used: Sequence[bool] = (), count: str = NODES
    ) -> None:
        """Raises NotBatchable unless results are those of one node, and lie as they say for all of them.

        used: which results anything is made of; of others engines give what they like (statistics of norms).
        """
        name = self.operator
        if [(val.shape, val.dtype) for val in found] != list(outputs):
            said = [(val.shape, val.dtype) for val in found]
            raise NotBatchable(f"{name}: its rule declares {said} for one sample instead of {list(outputs)}")
        for number, val in enumerate(found):
            if used and not used[number]:
                continue
            tensor = self._tensors[val.slot]
            lies = (tuple(tensor.shape), tensor.dtype)
            wanted = (self._wanted(val, self._count(count)), dtype_named(val.dtype))
            if lies != wanted:
                raise NotBatchable(f"{name}: for several samples its rule gives {lies} instead of {wanted}")

    def _wanted(self, val: Values, count: int) -> tuple[int, ...]:
        """The shape of the tensor of a value of this many nodes."""
        if val.lead is None:
            return val.shape
        if val.packed:
            fits = val.shape[:1] == (self._rows[0],) and prod(val.shape[1:]) == val.lead.times * prod(val.rest)
            rows = self._rows[1] * val.lead.times
        else:
            fits = val.lead * prod(val.rest) == prod(val.shape)
            rows = count * val.lead
        if not fits:
            raise NotBatchable(f"{self.operator}: rows of {val.rest} are not {val.shape}")
        return (rows, *val.rest)


def _as_index(tensor: Any) -> Any:
    """Returns zeros in place of whole numbers."""
    return torch.zeros_like(tensor) if tensor.dtype in INDICES else tensor


def regular(tensor: Any) -> Any:
    """A tensor of the same shape, of square matrices identities: numbers that linear algebra has no error for."""
    square = tensor.dim() > 1 and tensor.shape[-1] == tensor.shape[-2] and tensor.dtype.is_floating_point
    return torch.eye(tensor.shape[-1], dtype=tensor.dtype, device=tensor.device).expand_as(tensor) if square else tensor
