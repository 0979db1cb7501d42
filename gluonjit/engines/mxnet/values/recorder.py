"""Records a call: its operators are noted in a trace, on placeholders of known shape, and none runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from gluonjit.engines.mxnet.framework.arrays import dtype_name
from gluonjit.engines.mxnet.framework.originals import Attrs
from gluonjit.engines.mxnet.framework.symbols import AT_ONCE, RANDOM, STATEFUL
from gluonjit.engines.mxnet.operators.table import KNOWN
from gluonjit.engines.mxnet.run.inference import infer
from gluonjit.graph import Spec, Value, intern_spec, natural_mode
from gluonjit.graph.modes import is_recorded, is_training
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.trace import NeedsValue, Trace, TraceBuilder


class WeightPart:
    """The way in which an array is taken of a weight, or of a part of one.

    take: gives it of the source, or of a lazy array that `wrapped` makes; recorded: whether MXNet recorded it.
    """

    def __init__(
        self, source: Any, take: Callable[[Any], Any], wrapped: Callable[[Value], Any], recorded: bool
    ) -> None:
        self.source, self.take, self.wrapped, self.recorded = source, take, wrapped, recorded


class Recorder(TraceBuilder):
    """A trace of MXNet's operators while it is recorded; values of placeholders are of it, as of a graph.

    `is_constant(array)` says whether an array from outside is the same in every call, as a parameter is.
    """

    def __init__(
        self, operands: Sequence[Spec], mode: int, is_constant: Callable[[Any], bool] = lambda array: True
    ) -> None:
        super().__init__(operands, "" if operands else "cpu(0)", mode)
        self.is_constant = is_constant
        self.known: dict[int, int] = {}
        self.follower: Any = None  # what sees to Python's state, where the user's code is traced

    def placeholder(self, position: int, spec: Spec) -> Value:
        """The value that stands for position `position`."""
        return Value(position, 0, spec, self, False)

    def position(self, array: Any) -> int:
        """The position of an operator's input; an array from outside becomes a constant."""
        value = getattr(array, "_v", None)
        if value is not None and value.graph is self:
            return int(value.rows)
        if id(array) not in self.known and not self.is_constant(array):
            raise NeedsValue()
        return self.include(array)

    def include(self, array: Any) -> int:
        """The position of an array that is the same in every call."""
        found = self.known.get(id(array))
        if found is None:
            batch = LOCAL.state.batch
            held = array if batch is None else batch.parameters.get(id(array), array)
            if held.__class__ is WeightPart:
                with recording(self):
                    found = held.take(self.stand_in(held.source, held.wrapped))._v.rows
            else:
                found = self.constant(array, (array.shape, dtype_name(array)))
            self.known[id(array)] = found
        return found

    def stand_in(self, array: Any, wrapped: Callable[[Value], Any]) -> Any:
        """A lazy array for one that is the same in every call; None for another."""
        if array.__class__ is not WeightPart and id(array) not in self.known and not self.is_constant(array):
            return None
        position = self.include(array)
        shaped = self.shapes[position]
        return wrapped(self.placeholder(position, intern_spec(*shaped, self.device, natural_mode(shaped[0]))))

    def record(self, name: str, attrs: Attrs, inputs: Sequence[Any]) -> list[Value]:
        """Records an operator and returns its results."""
        if name in AT_ONCE:
            raise NeedsValue()
        positions = [self.position(array) for array in inputs]
        outputs = infer(name, attrs, tuple(self.shapes[position] for position in positions))
        return [
            self.placeholder(position, intern_spec(*shaped, self.device, natural_mode(shaped[0])))
            for position, shaped in zip(self.op(name, attrs, positions, outputs), outputs)
        ]

    def record_in(self, mode: int, name: str, attrs: Attrs, inputs: Sequence[Any]) -> list[Value]:
        """Records an operator that the program calls in a mode of its own, as in `autograd.pause()`."""
        if mode == self.mode:
            return self.record(name, attrs, inputs)
        same = name in KNOWN and name not in RANDOM and name not in STATEFUL
        training = is_training(mode) != is_training(self.mode)
        if (training and not same) or (is_recorded(mode) and not is_recorded(self.mode)):
            raise NeedsValue()
        values = self.record(name, attrs, inputs)
        if is_recorded(mode) == is_recorded(self.mode):
            return values
        return [self.record("BlockGrad", (), [SimpleNamespace(_v=value)])[0] for value in values]


@contextmanager
def recording(trace: Recorder) -> Iterator[Recorder]:
    """Operators called in this region are recorded in `trace`."""
    state = LOCAL.state
    outer, state.trace = state.trace, trace
    try:
        yield trace
    finally:
        state.trace = outer


def trace_op(name: str, attrs: Attrs, operands: Sequence[Spec | Any], mode: int) -> Trace:
    """The trace of a single operator; an operand is a Spec, or an array that is the same for all samples."""
    specs = [operand for operand in operands if isinstance(operand, Spec)]
    trace = Recorder(specs, mode)
    positions = iter(range(len(specs)))
    inputs = [
        SimpleNamespace(_v=trace.placeholder(next(positions), operand)) if isinstance(operand, Spec) else operand
        for operand in operands
    ]
    trace.record(name, attrs, inputs)
    return trace.finish(trace.ops[-1].outputs, whole=True)
