"""Arrays of a framework in the host's memory, as numpy sees them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

# Bytes at an address. A type of array for each size, as ctypes has it, is a class to make, and a cycle to collect.
_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_memory.argtypes, _memory.restype = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int), ctypes.py_object
_WRITABLE = 0x200  # PyBUF_WRITE


def view_at(address: int, size: int, dtype: Any = np.float32) -> Any:
    """Numbers in the host's memory, so many bytes of them, as an array of numpy with one axis."""
    return np.frombuffer(_memory(address, size, _WRITABLE), dtype=dtype)
