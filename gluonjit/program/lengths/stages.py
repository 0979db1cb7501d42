"""The program of a form: stages of operators that run on the rows of all nodes, on padded values, or for each length.

A value lies packed between stages: the rows of all nodes, one node after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gluonjit.graph.kinds import Checks
from gluonjit.program.axes.row import rows_before
from gluonjit.program.axes.values import (
    Instruction,
    NotBatchable,
    Shape,
    Shaped,
    Size,
    Vals,
    Values,
    at_sizes,
    is_sized,
)
from gluonjit.program.axes.writer import Writer, compiled
from gluonjit.program.lengths.form import Form
from gluonjit.program.lengths.nodes import Sent, SizedNodes
from gluonjit.program.trace import TraceOp

Numbers = tuple[int, ...]
"""Numbers of values, or lengths."""
ROWS, PADDED, ALONE = range(3)
"""How the operators of a stage run: the remainder of its level by three."""


class LengthEngine:
    """The part of an engine in programs for nodes of any length.

    * `writer(slots, each, trace)`: a writer of its instructions, for calls like this.
    * `write(op, vals, outs, writer)`: writes down an operator. Raises NotBatchable.
    * `part(trace, sources, results, weights)`: a part of a trace for nodes of one length: `run(count, values,
      weights)` takes and gives (nodes, *shape).
    * `shapes(op, inputs)`: the shapes of the results of an operator. Raises RuntimeError, IndexError or ValueError.
    * `zeros(shape, dtype, device)`: an array of zeros.
    * `lies(array)`: shape and dtype of an array.
    * `send(device)`: makes a function that sends arrays of the host to a device.
    * `anew(array)`: an array that follows from lengths, or is a member's own, for one more step.
    * `stored(val, writer)`: a result in the form in which it is kept.
    """

    writer: Callable[..., Writer]
    write: Callable[..., Vals]
    part: Callable[..., Any]
    shapes: Callable[..., Sequence[Shape]]
    zeros: Callable[..., Any]
    lies: Callable[..., tuple[Shape, str]]
    send: Callable[..., Sent]
    anew: Callable[..., Any]
    stored: Callable[..., Values]


class Source(NamedTuple):
    """A value that a stage is given: as it lies between stages, and in the slot from which the stage takes it.

    fill: the number that it is padded with, None for rows of its own; front: the axes that are rows of any number.
    """

    val: Values
    position: int
    slot: int
    fill: Any
    front: Shape


class Result(NamedTuple):
    """A value that a stage gives, or the position of one that runs for each length; and as it lies between stages."""

    slot: int
    val: Values
    front: Shape


class Stage(NamedTuple):
    """Operators that run together.

    way: how; run: the function, for ROWS and PADDED; inputs: the slots that it takes as they are; needs: what it needs
    of the lengths; sources: for other ways than ROWS, what is padded; outputs: the slots of the results, in which for
    other ways than ROWS `results` are packed; places: of the operators; elements: of all results of a node; lengths: on
    which these depend.
    """

    way: int
    run: Any
    inputs: Numbers
    needs: tuple[Any, ...]
    sources: tuple[Source, ...]
    outputs: Numbers
    results: tuple[Result, ...]
    places: Numbers
    elements: tuple[Any, ...]
    lengths: Numbers

    @property
    def calls(self) -> int:
        """Calls of the framework that it makes, about: operands are chosen and padded, results put together."""
        return len(self.places) + 2 * len(self.sources) + len(self.results)

    def size(self, lengths: Mapping[Any, Any]) -> Any:
        """The number of elements of all results of a node of these lengths, or of each node."""
        return sum([at_sizes(each, lengths) for each in self.elements])


class Stages:
    """The stages of a form, in order, and the slots of what they begin with.

    weights: the constants that all members share, by position; own: those of each member, as they are packed; finals:
    the values of the results; wide: how many axes of each are counted as rows.
    """

    def __init__(self, form: Form, framework: LengthEngine, lengths: Sequence[Numbers]) -> None:
        """Decides how each operator runs, on examples of these lengths. Raises NotBatchable."""
        self.form, self.framework = form, framework
        self.checks = Checks()
        self.fused: Any = None  # the row program, or why there is none
        self.programs: dict[Any, Any] = {}  # of what runs for each length
        trace = form.trace
        count = len(trace.operands)
        self.weights = [position for position, _ in trace.constants() if position not in form.own]
        self._examples = _Examples(framework, trace.device, lengths)
        self._writer = framework.writer(count + len(self.weights), self._examples.run, trace)
        self._writer.sized = True
        self.prims = self._writer.prims
        self._examples.needs = self._writer.needs
        self._values: dict[int, Values] = {}  # as they lie between stages
        self._padded: dict[tuple[int, int], Values] = {}  # by stage and position
        self._levels: dict[int, int] = {}
        self._code: dict[int, list[Instruction]] = {}
        self._sources: dict[int, list[Source]] = {}
        self._alone: dict[int, list[int]] = {}
        self._placed: dict[int, list[int]] = {}
        self._known: dict[int, dict[Any, int]] = {}
        self._constant: set[int] = set()  # the same for all nodes but for their lengths
        self._begin(count)
        used = trace.used()
        for number in range(len(trace.ops)):
            self._place(number, used)
        self.rows = sum(map(len, self._code.values()))
        self.finals, self.wide = self._results()
        self.stages = [self._stage(level) for level in sorted({*self._code, *self._alone})]

    def slot_of(self, position: int) -> int:
        """The slot of a value."""
        return self._values[position].slot

    def _begin(self, count: int) -> None:
        form, trace = self.form, self.form.trace
        for position, spec in enumerate(trace.operands):
            shape, dtype = form.shapes[position]
            if is_sized(shape):
                self._values[position] = packed(position, shape, dtype)
            else:
                self._values[position] = Values(position, shape, dtype, spec.rows, spec.row_shape)
            self._examples.add(self._values[position])
        for number, position in enumerate(self.weights):
            shape, dtype = trace.shapes[position]
            self._values[position] = Values(count + number, shape, dtype, None, shape)
            self._examples.put(count + number, dict(trace.constants())[position])
            self._constant.add(position)
        self.own: list[tuple[int, Values]] = []
        for position in sorted(form.own):
            self.own.append((position, self._new(position)))

    def _new(self, position: int) -> Values:
        """Room for a value that lies packed, or once for each node."""
        slot, self._writer.slots = self._writer.slots, self._writer.slots + 1
        found = self._values[position] = packed(slot, *self.form.shapes[position])
        self._examples.add(found)
        return found

    def _place(self, number: int, used: set[int]) -> None:
        """Lets an operator run on rows, on padded values, or for each length, as it can."""
        op, levels = self.form.ops[number], self._levels
        least = max([levels.get(position, 0) for position in op.inputs], default=0)
        sized = [p for p in op.inputs if is_sized(self.form.shapes[p][0]) and p not in self._constant]
        inside = bool(sized) and all([levels.get(position, 0) % 3 == PADDED for position in sized])
        self._writer.used = tuple([position in used for position in op.outputs])
        for way in (PADDED, ROWS) if inside else (ROWS, PADDED):
            level = least + (way - least) % 3
            if self._write(op, level, way):
                break
        else:
            level = least + (ALONE - least) % 3
            self._alone.setdefault(level, []).append(number)
            for position in op.outputs:
                self._new(position)
        self._placed.setdefault(level, []).append(number)
        levels.update(dict.fromkeys(op.outputs, level))

    def _write(self, op: TraceOp, level: int, way: int) -> bool:
        writer = self._writer
        writer.padded, writer._known = way == PADDED, self._known.setdefault(level, {})
        length, self._examples.operator = len(writer.code), op.name
        outs = [self.form.shapes[position] for position in op.outputs]

        def write() -> Vals:
            if way == ROWS:
                made = self._on_rows(op, outs)
            else:
                made = [writer.spread(val) for val in self._beside_padding(op, outs, level)]
            self._examples.check(made, outs, writer.used)
            return made

        found = self._tried(level, write)
        if found is None:
            return False
        self._code.setdefault(level, []).extend(writer.code[length:])
        if way == ROWS:
            self._values.update(zip(op.outputs, found))
        else:
            self._padded.update(zip([(level, position) for position in op.outputs], found))
            for position in op.outputs:
                self._new(position)
        if op.inputs and self._constant.issuperset(op.inputs):
            self._constant.update(op.outputs)
        return True

    def _tried(self, level: int, write: Callable[[], Vals]) -> Vals | None:
        """The values that are written down; None, and all as before, if that cannot be."""
        writer = self._writer
        length, padded, known = len(writer.code), dict(self._padded), dict(writer._known or {})
        sources = [*self._sources.get(level, ())]
        try:
            return write()
        except (NotBatchable, TypeError):  # or a row computes with a number that differs
            del writer.code[length:]
            self._padded, self._sources[level] = padded, sources
            self._known[level] = writer._known = known
            return None

    def _beside_padding(self, op: TraceOp, outs: Sequence[Shaped], level: int) -> Vals:
        vals = [self._inside(level, position) for position in op.inputs]
        return self.framework.write(op, vals, outs, self._writer)

    def _on_rows(self, op: TraceOp, outs: Sequence[Shaped]) -> Vals:
        writer = self._writer
        found = self.framework.write(op, [self._values[position] for position in op.inputs], outs, writer)
        made = []
        for val in found:
            if val.shared and is_sized(val.shape):
                axes = rows_before(val.shape)
                val = writer.each_row(val, val.shape[:axes], val.shape[axes:])
            elif not val.shared and is_sized(val.rest):
                raise NotBatchable("rows that are padded")
            made.append(val)
        return made

    def _inside(self, level: int, position: int) -> Values:
        """A value as a padded stage takes it."""
        found = self._padded.get((level, position))
        if found is not None:
            return found
        val = self._values[position]
        if val.shared and not is_sized(val.shape):
            return val
        if position in self._constant:
            found = self._once_more(level, position)
            if found is not None:
                return found
        return self._source(level, position, None)

    def _once_more(self, level: int, position: int) -> Values | None:
        """A value that all nodes share, as long as the longest of a stage; None if it is not made so."""
        op = next(op for op in self.form.ops if position in op.outputs)
        outs = [self.form.shapes[each] for each in op.outputs]
        made = self._tried(level, lambda: self._beside_padding(op, outs, level))
        if made is None:
            return None
        self._padded.update(zip([(level, each) for each in op.outputs], made))
        return self._padded[level, position]

    def _source(self, level: int, position: int, fill: Any) -> Values:
        listed = self._sources.setdefault(level, [])
        shape, dtype = self.form.shapes[position]
        known = Values(-1, shape, dtype, 1, shape)
        known = known if fill is None else known._replace(fill=(fill, known.sized()))
        for source in listed:
            if (source.position, source.fill) == (position, fill):
                return known._replace(slot=source.slot)
        slot, self._writer.slots = self._writer.slots, self._writer.slots + 1
        listed.append(self._taken(position, slot, fill))
        self._examples.source(listed[-1])
        found = known._replace(slot=slot)
        if fill is None and is_sized(shape):
            self._writer.sources[slot] = partial(self._source, level, position)
        if fill is None:
            self._padded[level, position] = found
        return found

    def _taken(self, position: int, slot: int, fill: Any) -> Source:
        val = self._values[position]
        return Source(val, position, slot, fill, val.shape[: rows_before(val.shape)])

    def _given(self, position: int, slot: int) -> Result:
        val = self._values[position]
        return Result(slot, val, val.shape[: rows_before(val.shape)])

    def _results(self) -> tuple[Vals, Numbers]:
        """The values of the results, which lie packed or as they are stored."""
        finals, wide = [], []
        for position in self.form.trace.results:
            val, level = self._values[position], self._levels.get(position, 0)
            level += -level % 3
            self._writer.padded, self._writer._known = False, self._known.setdefault(level, {})
            length, self._examples.operator = len(self._writer.code), "a result"
            axes = rows_before(val.shape)
            if axes:
                val = self._writer.form(val, prod(val.shape[:axes]), val.shape[axes:])
            else:
                val = self.framework.stored(val, self._writer)
            finals.append(val)
            wide.append(axes)
            self._code.setdefault(level, []).extend(self._writer.code[length:])
        self._code = {level: code for level, code in self._code.items() if code or level % 3 == PADDED}
        return finals, tuple(wide)

    def _stage(self, level: int) -> Stage:
        way, places = level % 3, self._placed.get(level, [])
        ops = [self.form.ops[place] for place in places]
        own = {position for op in ops for position in op.outputs}
        others = [op for number, op in enumerate(self.form.ops) if number not in set(places)]
        wanted = sorted(own & {position for op in others for position in op.inputs}.union(self.form.trace.results))
        within = own.union(*[op.inputs for op in ops])
        sizes = {size for position in within for size in self.form.shapes[position][0] if size.__class__ is Size}
        lengths = tuple(sorted({length for size in sizes for length in size.lengths}))
        elements = _merged([prod(self.form.shapes[position][0]) for position in own])
        if way == ALONE:
            constants = {position for position, _ in self.form.trace.constants() if position not in self.form.own}
            taken = sorted({position for op in ops for position in op.inputs} - own - constants)
            sources = tuple([self._taken(position, -1, None) for position in taken])
            results = tuple([self._given(position, position) for position in wanted])
            return Stage(way, None, (), (), sources, (), results, tuple(places), elements, lengths)
        code = self._code[level]
        made = {slot for step in code for slot in step.outputs}
        given = {slot for step in code for slot in step.inputs} - made
        listed = [] if way == ROWS else wanted
        inner = [self._given(position, self._padded[level, position].slot) for position in listed]
        given |= {result.slot for result in inner} - made
        needs = {slot: key for key, slot in self._writer.needs.items() if slot in given}
        sources = tuple([source for source in self._sources.get(level, ()) if source.slot in given])
        inputs = tuple(sorted(given - needs.keys() - {source.slot for source in sources}))
        if way == ROWS:
            later = {
                slot for at, listed in self._code.items() if at != level for step in listed for slot in step.inputs
            }
            later |= {source.val.slot for listed in self._sources.values() for source in listed}
            later |= {val.slot for val in self.finals}
            later |= {self._values[position].slot for position in wanted}
            outputs, results = tuple(sorted(made & later)), ()
        else:
            outputs, results = tuple([result.slot for result in inner]), tuple(inner)
        order = [*[source.slot for source in sources], *inputs, *needs]
        run = compiled(code, order, outputs)
        return Stage(
            way, run, inputs, tuple(needs.values()), sources, outputs, results, tuple(places), elements, lengths
        )


def _merged(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Sizes with the same sum, as few as can be."""
    found: dict[Any, int] = {}
    for size in sizes:
        lengths, times = (size.lengths, size.times) if size.__class__ is Size else ((), size)
        found[lengths] = found.get(lengths, 0) + times
    return tuple([Size(*lengths) * times if lengths else times for lengths, times in found.items()])


def packed(slot: int, shape: Shape, dtype: str) -> Values:
    """A value that lies packed: up to its last axis of any size, rows. One without such axes is stacked."""
    axes = rows_before(shape)
    return Values(slot, shape, dtype, prod(shape[:axes]) if axes else 1, shape[axes:])


class _Examples:
    """Arrays of a few nodes, on which instructions run as they are written down."""

    def __init__(self, framework: LengthEngine, device: str, lengths: Sequence[Numbers]) -> None:
        given = dict(enumerate(np.array(lengths).T))
        self._framework, self._device = framework, device
        self._nodes = SizedNodes(len(lengths), given, framework.send(device))
        self._arrays: dict[int, Any] = {}
        self.operator = ""
        self.needs: Mapping[Any, int] = {}

    def add(self, val: Values) -> None:
        """Zeros in the slot of a value."""
        self.put(val.slot, self._framework.zeros(self._wanted(val), val.dtype, self._device))

    def put(self, slot: int, array: Any) -> None:
        """Fills a slot."""
        self._arrays[slot] = array

    def source(self, source: Source) -> None:
        """Zeros for what a stage is given."""
        shape = (self._nodes.count, *at_sizes(source.val.shape, self._nodes.most))
        self.put(source.slot, self._framework.zeros(shape, source.val.dtype, self._device))

    def run(self, step: Instruction) -> None:
        """Runs an instruction. Raises NotBatchable if it fails."""
        try:
            given = [self._of(slot) for slot in step.inputs]
            found = step.function(*([self._nodes.most] if step.counts else []), *given)
        except NotBatchable:
            raise
        except Exception as error:
            line = str(error).strip().split("\n")[0]
            raise NotBatchable(
                f"{self.operator}: for several lengths it fails with {type(error).__name__}: {line}"
            ) from error
        self._arrays.update(zip(step.outputs, found if len(step.outputs) > 1 else (found,)))

    def _of(self, slot: int) -> Any:
        if slot not in self._arrays:
            key = next(key for key, each in self.needs.items() if each == slot)
            self._arrays[slot] = self._nodes.need(key, lambda number: np.ones(self._nodes.count, dtype=np.int64))
        return self._arrays[slot]

    def check(self, found: Sequence[Values], outs: Sequence[Shaped], used: Sequence[bool]) -> None:
        """Raises NotBatchable unless results lie as they say."""
        for val, (shape, dtype), wanted in zip(found, outs, used):
            if wanted:
                lies = self._framework.lies(self._arrays[val.slot])
                if (val.shape, val.dtype) != (shape, dtype) or lies != (self._wanted(val), dtype):
                    raise NotBatchable(f"{self.operator}: for several lengths it gives {lies} instead of {val}")

    def _wanted(self, val: Values) -> Shape:
        most = self._nodes.most
        rest: Shape = at_sizes(val.rest, most)
        if val.shared:
            return rest
        rows: int = self._nodes.of(val.lead).sum()
        return (int(rows), *rest)
