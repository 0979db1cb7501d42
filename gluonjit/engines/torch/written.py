"""Errors that PyTorch raises for overwritten values, for steps that run without its autograd."""

from __future__ import annotations

from typing import Any


def modified(what: str, tensor: Any = None) -> RuntimeError:
    """The error of a backward pass that needs numbers which have been written over: of a tensor, or as `what` says."""
    shape = "" if tensor is None else f" of shape {tuple(tensor.shape)}"
    return RuntimeError(
        f"one of the variables needed for gradient computation has been modified by an inplace operation: {what}"
        f"{shape} was written to after calls that need its values for their gradients, and before backward. Call "
        "backward before the write (optimizer.step, load_state_dict, add_), or write to a copy (tensor.clone())."
    )
