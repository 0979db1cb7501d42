"""Tensors that existed before a batch, as they were when it captured them."""

from __future__ import annotations

from typing import Any

from gluonjit.engines.torch.framework.arrays import of_bytes
from gluonjit.graph import Spec
from gluonjit.graph.recorder import InputSlots
from gluonjit.hybrid.run.state import LOCAL


def recorded() -> int:
    """The number of the call that is being recorded to be reused; 0 where none is."""
    apart = LOCAL.state.recorded
    return 0 if apart is None else int(apart.number)


def version_of(tensor: Any) -> int:
    """The number of times a tensor has been written to."""
    return 0 if tensor.is_inference() else int(tensor._version)


def payload_of(
    tensor: Any, version: int, rows: Any, raw: bytes | None = None, spec: Spec | None = None
) -> InputVersion:
    """The payload of a leaf that is captured now."""
    return InputVersion(tensor, version, rows, raw, spec, recorded())


class InputVersion(InputSlots):
    """The payload of a leaf: a tensor of the program's, and how often it had been written to when it was captured."""

    __slots__ = ()

    @property
    def rows(self) -> Any:
        """Its numbers; None of integers, which have been read."""
        if self._rows is None and self.raw is not None and self.spec is not None:
            self._rows = of_bytes(self.raw, self.spec).reshape(self.spec.shape)
        return self._rows

    @property
    def stale(self) -> bool:
        """True if its numbers have changed since they were captured."""
        return (self._rows is self.tensor or self.taped) and version_of(self.tensor) != self.version

    def share(self, other: InputVersion) -> None:
        """Notes another tensor with the same numbers."""
        if other.tensor is not self.tensor:
            self.shared, other.first = True, self
            self.users += 1

    def note_write(self) -> None:
        """Notes that a tensor is written to whose numbers others may have, too."""
        first = self.first or self
        first.written += not self.noted
        self.noted = True

    @property
    def rewritten(self) -> bool:
        """True if the program's tensor has other numbers by now."""
        return self.written >= self.users if self.shared else version_of(self.tensor) != self.version


def modified(what: str, tensor: Any = None) -> RuntimeError:
    """The error of a backward pass that needs numbers which have been written over: of a tensor, or as `what` says."""
    shape = "" if tensor is None else f" of shape {tuple(tensor.shape)}"
    return RuntimeError(
        f"one of the variables needed for gradient computation has been modified by an inplace operation: {what}"
        f"{shape} was written to after calls that need its values for their gradients, and before backward. Call "
        "backward before the write (optimizer.step, load_state_dict, add_), or write to a copy (tensor.clone())."
    )
