"""MXNet as programs for nodes of any length need it: the program of a kind of such nodes, and operators on arrays.

Operators run at once: a graph would be one of its lengths, which come together only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, NamedTuple

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.framework.arrays import context_of, device_of, dtype_name, room_for, sent
from gluonjit.engines.mxnet.framework.semantics import POOLING, as_captured, as_shape, classic, in_training
from gluonjit.engines.mxnet.framework.symbols import FLAT, acts, apply, canonical, fails, read, written
from gluonjit.engines.mxnet.operators import binding
from gluonjit.engines.mxnet.operators.table import ROWS_OF, work_of
from gluonjit.engines.mxnet.run.fused_steps import row_program
from gluonjit.engines.mxnet.run.inference import infer
from gluonjit.engines.mxnet.run.program import Program, build, current, joined, program_of, stored, write
from gluonjit.engines.mxnet.run.results import has_history
from gluonjit.engines.mxnet.values.operands import is_plain
from gluonjit.graph import Arrays, Kind, Spec
from gluonjit.hybrid.capture.lengths.deriving import JoiningEngine
from gluonjit.hybrid.capture.lengths.joining import Joiner
from gluonjit.program.axes import writer
from gluonjit.program.axes.values import Instruction, NotBatchable, Operand, Shape, Values
from gluonjit.program.lengths.members import SizedMember, SizedPart
from gluonjit.program.lengths.running import run_members
from gluonjit.program.lengths.stages import ALONE, Stages
from gluonjit.program.sizes import OtherForm
from gluonjit.program.trace import Trace, TraceOp


def put(rows: Any, places: Any, clipped: Any, count: int, number: Any) -> Any:
    """Rows at places among `count`, else a number; or as `clipped` has them. No gradient comes of what is there."""
    if clipped is None:
        like = {"dtype": dtype_name(rows), "ctx": rows.context}
        room = apply("_full", [], {"shape": (count, *rows.shape[1:]), "value": number, **like}, True)
    else:
        room = picked(rows.detach(), clipped)
        if not autograd.is_recording():
            return room  # where the rows are already: what follows leads gradients to them
    return apply("_contrib_index_copy", [room, places.detach(), rows], {})


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


@cache
def _sender(device: str) -> Callable[[Any, str], Any]:
    context = context_of(device)
    return lambda array, dtype: sent(np.ascontiguousarray(array, dtype or array.dtype), context)


class Ragged(SizedMember, Program):
    """The program of a member: of nodes of one length, and of any other member's in the same step.

    stages: those of the form that all members have; lengths: this one's sizes, in the form's order.
    """

    def __init__(self, stages: Stages, trace: Trace, lengths: Sequence[int]) -> None:
        super().__init__(stages.form.weights(trace))
        self.begin(stages, trace, lengths, as_shape)
        self.operators = stages.rows + len(stages.stages)
        for stage in stages.stages:
            if stage.way == ALONE:
                self.part(stage)
        self.may_fail = any([fails(canonical(op.name), read(op.attrs)) for op in trace.ops])
        reads: dict[int, set[int]] = {position: set() for position in stages.form.own}
        reads.update({k: {place} for place, k in enumerate([*range(len(trace.operands)), *stages.weights])})
        for op in trace.ops:
            inputs = () if canonical(op.name) in FLAT else op.inputs  # which it is given without their history
            reads.update(dict.fromkeys(op.outputs, set().union(*[reads[position] for position in inputs])))
        self.depends = [reads[result] for result in trace.results]
        self.used = [k in set().union(*self.depends) for k in range(len(trace.operands) + len(self.consts))]

    def __call__(
        self,
        operands: Arrays,
        consts: Arrays,
        count: int,
        results: Arrays,
        besides: Arrays = (),
    ) -> None:
        """Computes `count` nodes into `results`, which `besides` says the members of."""
        for array, result in zip(run_members(self, operands, consts, count, besides), results):
            joined([array], result)


class _Part(SizedPart):
    """A part of a trace for nodes of one length: `run` takes values of (nodes, *shape), and gives such."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._built = build(self.trace)

    def run(self, count: int, given: Arrays, weights: Arrays) -> list[Any]:
        """The results of `count` nodes; weights are the constants that all members share."""
        groups = [joined([given[place] for (place,) in group]) for group in self.groups]
        specs = [output.spec for output in self._built.outputs]
        found = [room_for(spec, count * spec.rows) for spec in specs]
        self._built.program(groups, self.consts(weights, NDArray.detach), count, found)
        return [as_shape(rows, (count, *spec.shape)) for rows, spec in zip(found, specs)]


class _MXNet(JoiningEngine):
    """Implements `gluonjit.hybrid.capture.lengths.deriving.JoiningEngine`."""

    writer = ArrayWriter
    part = _Part
    row_of = staticmethod(ROWS_OF.get)
    work_of = staticmethod(work_of)
    row_program = staticmethod(row_program)
    current = staticmethod(current)
    write = staticmethod(write)
    send = staticmethod(_sender)

    def anew(self, array: Any) -> Any:
        """The same numbers in another array: a backward pass leaves none that it has seen."""
        return array.detach()

    def zeros(self, shape: Shape, dtype: str, device: str) -> Any:
        """An array of zeros."""
        return mx.nd.zeros(shape, ctx=context_of(device), dtype=dtype)

    def lies(self, array: Any) -> tuple[Shape, str]:
        """Shape and dtype of an array, when it is computed: some operators only then say that they cannot be."""
        try:
            array.wait_to_read()
        except mx.base.MXNetError as error:
            raise NotBatchable(str(error).split("\n")[0]) from error
        return array.shape, dtype_name(array)

    def stored(self, val: Values, writer: Any) -> Values:
        """A result in the form in which it is kept."""
        return stored(writer.spread(val), writer)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Returns a region for `with` in which nothing is captured or recorded."""
        with as_captured(0):
            yield

    def shapes(self, op: TraceOp, inputs: Arrays) -> list[Shape]:
        """The shapes of the results of an operator. Raises RuntimeError."""
        given = tuple([(array.shape, dtype_name(array)) for array in inputs])
        return [shape for shape, _ in infer(op.name, written(op.attrs), given)]

    def begin(self, array: Any, shape: Shape) -> Any:
        """The beginning of a constant along all axes."""
        return apply("slice", [array], {"begin": (0,) * len(shape), "end": shape})

    def fixed(self, call: Any) -> Sequence[Spec | None]:
        """Those of all but plain arrays: one more step for each length would take what it saves."""
        return [None if is_plain(value) else value.spec for value in call.values]

    def equal(self, one: Any, other: Any) -> bool:
        """True if constants have the same numbers. Raises OtherForm if they learn."""
        if has_history(classic(one)) or has_history(classic(other)):
            raise OtherForm("they have other weights")
        if not device_of(one).startswith("cpu"):
            return False  # numbers of a device are not read for it: each node has its own then
        return bool(one.shape == other.shape and (one.asnumpy() == other.asnumpy()).all())

    def member(self, like: Kind, stages: Stages, trace: Trace, lengths: Sequence[int]) -> Ragged:
        """The program of nodes of these lengths, and of all others, for a kind like this. Raises NotBatchable."""
        found = Ragged(stages, stages.form.laid(trace), lengths)
        found.numpy, found.parameters = program_of(like).numpy, program_of(like).parameters
        return found


JOINER = Joiner(_MXNet())


class SizedTrace(NamedTuple):
    """A trace that `typed` gave; draws: whether it draws random numbers, or does more than to give results."""

    trace: Trace
    draws: bool


def typed(trace: Trace) -> SizedTrace:
    """A trace whose operators have arguments as Python's values, which may be sizes."""
    arguments = [read(op.attrs) for op in trace.ops]
    draws = any([acts(canonical(op.name), each, trace.training) for op, each in zip(trace.ops, arguments)])
    ops = [op._replace(attrs=tuple(each.items())) for op, each in zip(trace.ops, arguments)]
    return SizedTrace(replace(trace, ops=tuple(ops)), draws)
