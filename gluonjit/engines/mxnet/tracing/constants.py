"""Arrays that a call makes of numbers, as `nd.array([0.0])` does, where it is traced: constants of its program.

What the numbers come of is part of the call's signature, or noted by the follower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxnet import nd
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.framework.arrays import spec_of
from gluonjit.engines.mxnet.framework.semantics import as_captured
from gluonjit.engines.mxnet.values.lazy import wrap
from gluonjit.graph import Spec
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED
from gluonjit.program.trace import NeedsValue

_MOST, _MOST_BYTES = 4096, 4096
_known: dict[tuple[Spec, bytes], NDArray] = {}
"""By their numbers: traces with equal constants are equal. It is not cleared before the traces are."""


def clear_constants() -> None:
    """Forgets all of them."""
    _known.clear()


def array(source_array: Any, ctx: Any = None, dtype: Any = None) -> Any:
    """Stands in for `nd.array`."""
    if isinstance(source_array, NDArray):
        return nd.array(source_array, ctx, dtype)
    return _constant(nd.array, source_array, ctx, dtype)


def full(shape: Any, val: Any, ctx: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Stands in for `nd.full`."""
    if out is not None or isinstance(val, NDArray):
        return nd.full(shape, val, ctx, dtype, out)
    return _constant(nd.full, shape, val, ctx, *(() if dtype is None else (dtype,)))


def _constant(make: Callable[..., NDArray], *args: Any) -> Any:
    trace = LOCAL.state.trace
    with trace.follower.suspended(), UNCAPTURED, as_captured(0):
        made = make(*args)
        spec = spec_of(made)
        if spec.device != trace.device or not 0 < spec.bytes <= _MOST_BYTES:
            raise NeedsValue
        key = spec, made.asnumpy().tobytes()
        if key not in _known:
            if len(_known) >= _MOST:
                raise NeedsValue
            _known[key] = made
    return wrap(trace.placeholder(trace.include(_known[key]), spec))


INSTEAD: dict[Any, Callable[..., Any]] = {nd.array: array, nd.full: full}
"""What a follower calls in place of functions of MXNet."""
