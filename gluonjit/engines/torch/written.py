"""Errors that PyTorch raises of what was written to, for what runs without its autograd."""

from __future__ import annotations

from typing import Any


def modified(what: str, tensor: Any) -> RuntimeError:
    """The error of a backward pass that needs numbers which have been written over."""
    return RuntimeError(
        f"one of the variables needed for gradient computation has been modified by an inplace operation: {what} of "
        f"shape {tuple(tensor.shape)} was written to after the calls that use it had been captured, and before "
        f"backward. Call backward before the write (optimizer.step, load_state_dict, add_), or write to a copy "
        f"(tensor.clone())."
    )
