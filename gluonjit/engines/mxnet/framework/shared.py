"""Arrays whose memory is not MXNet's alone: numpy, or a DLPack consumer, may write to it unnoticed by MXNet.

They are recognized by their class. Capture copies them, up to the size given by the option `copy_inputs`.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from mxnet.ndarray import NDArray
from mxnet.numpy import ndarray


class SharedArray(NDArray):  # type: ignore[misc]
    """An NDArray of `mx.nd.from_numpy`, or one that went through DLPack."""

    __slots__ = ()


class SharedNumpyArray(ndarray):  # type: ignore[misc]
    """A SharedArray of `mx.np`."""

    __slots__ = ()


_SHARED: dict[type, type] = {NDArray: SharedArray, ndarray: SharedNumpyArray}
for _known, _made in _SHARED.items():
    _made.__name__, _made.__qualname__ = _known.__name__, _known.__qualname__  # to who prints it, it is that
SHARED = frozenset(_SHARED.values())


def noting(original: Any) -> Any:
    """Wraps a function of MXNet's after which its result, or its argument, shares memory with others."""

    @wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        array = found if isinstance(found, NDArray) else args[0]
        shared = _SHARED.get(array.__class__)
        if shared is not None and kwargs.get("zero_copy", True) and args[1:2] != (False,):
            array.__class__ = shared
        return found

    return wrapper
