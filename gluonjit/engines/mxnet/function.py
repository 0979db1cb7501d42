"""An array as a function of others with a backward pass in Python, in MXNet's own history.

`autograd.Function` of MXNet 1.9.1 is not enough: its callback ends at the first input that wants no gradient, which
leaves uninitialized memory as the gradients of the inputs after it, and forgets inputs whose gradients add up.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_int, c_void_p, cast
from itertools import count
from typing import Any

from mxnet.autograd import Function
from mxnet.base import _LIB, MXCallbackList, NDArrayHandle, c_array, c_handle_array, check_call
from mxnet.ndarray import NDArray

_ADD = 3
"""The request for a gradient that adds to what is there; 0 is for none."""
_HELD: dict[int, Any] = {}  # callbacks, until MXNet needs them no more
_numbers = count()


def differentiable(
    output: NDArray, inputs: Sequence[NDArray], backward: Callable[[NDArray, bool], Sequence[NDArray]]
) -> None:
    """Lets the history of an array go on with inputs.

    backward: gives their gradients from that of the output, and the mode of training. It is called in another thread.
    """
    number = next(_numbers)

    def go_back(_outputs: int, many: int, handles: Any, requests: Any, training: int, _: Any) -> bool:
        try:
            gradient, *gradients = [NDArray(cast(handles[k], NDArrayHandle)) for k in range(1 + many)]
            for array, found, request in zip(gradients, backward(gradient, bool(training)), requests[:many]):
                if request == _ADD:
                    array += found
                elif request:
                    array[:] = found
        except Exception:  # MXNet raises another one, which knows nothing of this
            traceback.print_exc()
            return False
        return True

    def forget(_: Any) -> bool:
        del _HELD[number]
        return True

    functions = [
        cast(kind(f), CFUNCTYPE(c_int))
        for kind, f in ((Function._bwd_functype, go_back), (Function._del_functype, forget))
    ]
    nothing = cast(c_array(c_void_p, [None] * len(functions)), POINTER(c_void_p))
    callbacks = cast(c_array(CFUNCTYPE(c_int), functions), POINTER(CFUNCTYPE(c_int)))
    _HELD[number] = context = MXCallbackList(c_int(len(functions)), callbacks, nothing)
    handles = c_int(len(inputs)), c_handle_array(inputs), c_int(1), c_handle_array([output])
    check_call(_LIB.MXCustomFunctionRecord(*handles, byref(context)))
