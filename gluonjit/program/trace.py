"""The operators of one call: an engine records them, and everything that makes programs of calls reads them.

Values have positions: operands come first, then constants, then the results of operators, one after the other.
Arguments say which of them are operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from gluonjit.graph.kinds import Kind, Output, Work, outputs_of
from gluonjit.graph.modes import is_training
from gluonjit.graph.values import Spec, intern_spec, mode_of, natural_mode
from gluonjit.program.axes.values import NotBatchable, Shaped

Attrs = tuple[tuple[str, Any], ...]


class TraceOp(NamedTuple):
    """One operator: its name and arguments as the engine has them, and the positions of what it takes and gives."""

    name: str
    attrs: Attrs
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class NeedsValue(Exception):
    """The traced function reads an array's numbers, writes to one from outside, or uses one that may differ."""


class MalformedTrace(Exception):
    """A trace that no program can be made of: the library's own fault."""


@dataclass(frozen=True, eq=False)
class Trace:
    """The computation of one call. It does not change once it is made, and is checked then.

    shapes: of each position; mode: that of recording and training (`graph.modes`); asked: the sizes that Python has
    decided by, in order, which bound for what other sizes the trace may stand.
    """

    operands: tuple[Spec, ...]
    consts: tuple[Any, ...]
    ops: tuple[TraceOp, ...]
    shapes: tuple[Shaped, ...]
    results: tuple[int, ...]
    device: str = ""
    mode: int = 0
    asked: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.operands) + len(self.consts)
        for spec, shaped in zip(self.operands, self.shapes):
            if (spec.shape, spec.dtype) != shaped:
                raise MalformedTrace(f"an operand {spec} has the shape {shaped}")
        for op in self.ops:
            if any(not 0 <= position < count for position in op.inputs):
                raise MalformedTrace(f"{op.name} takes {op.inputs}, but only {count} values are there before it")
            end = count + len(op.outputs)
            if op.outputs != tuple(range(count, end)):
                raise MalformedTrace(f"{op.name} gives {op.outputs}, but the next value is {count}")
            count = end
        if count != len(self.shapes):
            raise MalformedTrace(f"it has {count} values, and shapes of {len(self.shapes)}")
        if any(not 0 <= position < count for position in self.results):
            raise MalformedTrace(f"its results are {self.results} of {count} values")

    @property
    def training(self) -> bool:
        """True if it was recorded in training."""
        return is_training(self.mode)

    def constants(self) -> Iterator[tuple[int, Any]]:
        """The constants with their positions."""
        return enumerate(self.consts, len(self.operands))

    def shaped_results(self) -> list[Shaped]:
        """Shape and dtype of each result."""
        return [self.shapes[position] for position in self.results]

    def outputs(self, wide: Sequence[int] = ()) -> tuple[tuple[Output, ...], int]:
        """The outputs of a node, one after the other, and the number of rows they take.

        wide: of each how many axes are counted as rows, of any number; 0 or False where that is natural for its shape.
        """
        specs = [
            intern_spec(shape, dtype, self.device, mode_of(axes) if axes else natural_mode(shape))
            for axes, (shape, dtype) in zip(wide or [0] * len(self.results), self.shaped_results())
        ]
        return outputs_of(specs)

    def used(self) -> set[int]:
        """The positions that an operator takes, or that are results."""
        return {position for op in self.ops for position in op.inputs}.union(self.results)

    def listing(self) -> list[Any]:
        """The operators and results, equal for traces of equal operands that do the same to other constants."""
        return [*self.ops, self.results]

    def part(self, sources: Sequence[int], results: Sequence[int], specs: Sequence[Spec] = ()) -> Trace:
        """The trace of these results whose operands are the values at `sources`."""
        given = specs or [
            self.operands[position]
            if position < len(self.operands)
            else intern_spec(*self.shapes[position], self.device, natural_mode(self.shapes[position][0]))
            for position in sources
        ]
        return _numbered(self, dict(self.constants()), self.ops, given, sources, results)

    @cached_property
    def by_result(self) -> list[Trace]:
        """The trace of each result by itself, on the same operands."""
        return [self.part(range(len(self.operands)), [result]) for result in self.results]

    def run(self, call: Callable[[TraceOp, list[Any]], Sequence[Any]], operands: Sequence[Any], consts: Any) -> Any:
        """Returns the results of one node, `call` giving those of an operator."""
        known = [*operands, *consts]
        for op in self.ops:
            known.extend(call(op, [known[position] for position in op.inputs]))
        return [known[position] for position in self.results]


class Built(NamedTuple):
    """A batched program, and the outputs and rows of a node.

    poly: whether it takes operands of any number of rows, equal for all in one node; pure: whether it does nothing but
    give results.
    """

    program: Any
    outputs: tuple[Output, ...]
    rows: int
    poly: bool = False
    pure: bool = True

    def kind(self, name: str, trace: Trace, work_of: Callable[[Trace, int], Work], **more: Any) -> Kind:
        """The kind of the nodes of a trace that it runs."""
        return Kind(
            name,
            trace.operands,
            self.outputs,
            self.rows,
            self.program,
            work=work_of(trace, self.program.operators),
            call=trace,
            **{"poly": self.poly, "pure": self.pure, **more},
        )


def join_family(families: dict[Any, Kind], key: Any, kind: Kind) -> None:
    """Lets kinds of one key run together, by the program of the first, whatever their calls looked like."""
    first = families.setdefault(key, kind)
    if first is not kind:
        kind.family, kind.program = first, first.program


def for_any_rows(trace: Trace, build: Callable[[Trace, bool], Built], any_rows: bool = True) -> Built:
    """Builds a trace's batched program, for any number of rows if that is possible. Raises NotBatchable."""
    if not trace.operands:
        raise NotBatchable("it has no array operands")
    if any_rows and len({spec.rows for spec in trace.operands if spec.mode == "rows"}) == 1:
        with suppress(NotBatchable):  # then for this number of rows, or the reason is another
            return build(trace, True)
    return build(trace, False)


class TraceBuilder:
    """A trace while it is recorded: constants and results have positions in the order in which they appear."""

    def __init__(self, operands: Sequence[Spec], device: str = "", mode: int = 0) -> None:
        self.operands = tuple(operands)
        self.device = device or (operands[0].device if operands else "")
        self.mode = mode
        self.shapes: list[Shaped] = [(spec.shape, spec.dtype) for spec in operands]
        self.consts: dict[int, Any] = {}
        self.ops: list[TraceOp] = []

    def value(self, shaped: Shaped) -> int:
        """The position of one more value."""
        self.shapes.append(shaped)
        return len(self.shapes) - 1

    def constant(self, array: Any, shaped: Shaped) -> int:
        """The position of an array that is the same in every call."""
        position = self.value(shaped)
        self.consts[position] = array
        return position

    def op(self, name: str, attrs: Attrs, inputs: Sequence[int], outputs: Iterable[Shaped]) -> tuple[int, ...]:
        """Appends an operator; returns the positions of its results."""
        made = tuple(self.value(shaped) for shaped in outputs)
        self.ops.append(TraceOp(name, attrs, tuple(inputs), made))
        return made

    def finish(self, results: Sequence[int], asked: tuple[Any, ...] = (), whole: bool = False) -> Trace:
        """The trace with these results: without operators and constants that none needs, if it is not to be `whole`."""
        sources = range(len(self.operands))
        return _numbered(self, self.consts, self.ops, self.operands, sources, results, asked, whole)


def _numbered(
    of: Trace | TraceBuilder,
    consts: dict[int, Any],
    ops: Sequence[TraceOp],
    operands: Sequence[Spec],
    sources: Sequence[int],
    results: Sequence[int],
    asked: tuple[Any, ...] = (),
    whole: bool = False,
) -> Trace:
    """The trace of operands at `sources`, with all that its results need; its positions count anew."""
    place = {position: number for number, position in enumerate(sources)}
    needed, kept = set(results), []
    for op in reversed(ops):
        wanted = set(op.outputs) if whole else needed.intersection(op.outputs)
        if not place.keys() >= wanted:
            needed.update(op.inputs)
            kept.append(op)
    used = [position for position in consts if position in needed and position not in place]
    order = [*sources, *used]
    place.update({position: number for number, position in enumerate(used, len(sources))})
    made = []
    try:
        for op in reversed(kept):
            inputs = tuple(place[position] for position in op.inputs)
            outputs = tuple(range(len(order), len(order) + len(op.outputs)))
            for position, number in zip(op.outputs, outputs):
                place.setdefault(position, number)
            order.extend(op.outputs)
            made.append(TraceOp(op.name, op.attrs, inputs, outputs))
        found = tuple(place[position] for position in results)
    except KeyError as error:
        raise MalformedTrace(f"value {error} follows from none of {list(sources)}") from None
    return Trace(
        tuple(operands),
        tuple(consts[position] for position in used),
        tuple(made),
        tuple(of.shapes[position] for position in order),
        found,
        of.device,
        of.mode,
        asked,
    )
