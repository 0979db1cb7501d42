"""MXNet's operators as functions of arrays, which run at once, for programs of nodes of any length.

A graph would be one of its lengths, which come together only once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from gluonjit.engines.mxnet.arrays import dtype_name, sent
from gluonjit.engines.mxnet.modes import POOLING, in_training
from gluonjit.engines.mxnet.operators import binding
from gluonjit.engines.mxnet.operators.symbols import apply
from gluonjit.engines.mxnet.operators.traits import FLAT
from gluonjit.engines.mxnet.program import join
from gluonjit.engines.mxnet.semantics import as_shape
from gluonjit.graph import intern_spec
from gluonjit.program.axes import writer
from gluonjit.program.axes.values import Instruction, Values
from gluonjit.program.trace import Operand, Trace


def put(rows: Any, places: Any, clipped: Any, count: int, number: Any) -> Any:
    """Rows at places among `count`, else a number; or as `clipped` has them. No gradient comes of what is there."""
    if clipped is None:
        like = {"dtype": dtype_name(rows), "ctx": rows.context}
        room = apply("_full", [], {"shape": (count, *rows.shape[1:]), "value": number, **like}, True)
    else:
        room = picked(rows.detach(), clipped)
    return apply("_contrib_index_copy", [room, places.detach(), rows], {})


def joined(arrays: Sequence[Any], out: Any = None) -> Any:
    """Rows one after the other, in `out` if that is not None; what is one piece is not copied else.

    Not by `_copy`, which does nothing for another part of the same array.
    """
    if len(arrays) == 1 and out is None:
        return arrays[0]
    return join(intern_spec((1,), dtype_name(arrays[0]), "", "rows"), arrays, out)


def picked(array: Any, places: Any) -> Any:
    return apply("take", [array, places.detach()], {"axis": 0, "mode": "clip"})


def _number(array: Any, number: Any) -> Any:
    return sent(np.full(1, number, array.dtype), array.context)


_OF_ARRAYS = {
    f"_{kind}_scalar": f"broadcast_{each}"
    for kind, each in {"plus": "add", "minus": "sub", "mul": "mul", "div": "div", "maximum": "maximum"}.items()
}


class ArrayWriter(binding.Writer):
    """Writes functions of arrays."""

    sized = True

    def __init__(self, slots: int, each: Callable[[Instruction], None], trace: Trace) -> None:
        writer.Writer.__init__(self, slots, each)
        self.device, self.learning = trace.device, bool(trace.mode)

    def bound(self, name: str, attrs: Mapping[str, Any], outputs: int) -> tuple[Callable[..., Any], str]:
        """An operator of MXNet as a function of its arrays."""
        given = {key: value for key, value in attrs.items() if value.__class__ is not Operand}

        def run(*arrays: Any) -> Any:
            if name in FLAT:
                arrays = tuple([array.detach() for array in arrays])
            with in_training(name in POOLING):
                found = apply(name, arrays, given, True)
            return found[0] if outputs == 1 and isinstance(found, list) else found

        return run, f"{name}{given!r}"

    def spread(self, val: Values) -> Values:
        """The value of each node, also where it is the same for all: as a stack then."""
        return writer.Writer.spread(self, val)

    def of_arrays(self, name: str, key: str) -> str:
        """The operator of arithmetic that takes an array where this one takes a number. Raises NotBatchable."""
        return _OF_ARRAYS[name] if name in _OF_ARRAYS else super().of_arrays(name, key)

    prims: ClassVar[Mapping[str, Callable[..., Any]]] = {
        **binding.Writer.prims,
        "reshape": lambda array, rest: as_shape(array, (-1, *rest)),
        "shape": as_shape,
        "expand": lambda array, count, shape: apply(
            "broadcast_to", [as_shape(array, (1, *shape))], {"shape": (count, *shape)}
        ),
        "take": picked,
        "spread": lambda array, owners, begins: picked(array, owners),
        "fill": lambda array, hole, number: apply("_npi_where", [hole, _number(array, number), array], {}),
        "put": put,
        "begin": lambda array, axis, size: apply("slice_axis", [array], {"axis": axis, "begin": 0, "end": size}),
        "rows": lambda *arrays: joined(arrays),
        "pick": picked,
    }
