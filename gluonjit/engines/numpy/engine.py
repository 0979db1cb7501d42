"""The Adapter of numpy, its sessions, and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gluonjit.analysis.plan import LeafChunk, LookupChunk, Place, Step
from gluonjit.engines.numpy.array import (
    Array,
    LazyNumbers,
    Model,
    NumpyCell,
    WeightArray,
    capture,
    computed_at,
    numbers_of,
)
from gluonjit.engines.numpy.operators import call_of
from gluonjit.errors import CaptureError
from gluonjit.graph import Kind, Leaf, Spec
from gluonjit.hybrid import Adapter, Options, Session, register
from gluonjit.hybrid.capture.structure import Args, Kwargs, items_of
from gluonjit.hybrid.check.runner import NodeRunner
from gluonjit.rows.fused_steps import FusedSteps
from gluonjit.rows.lowering import lowered
from gluonjit.rows.program import RowProgram


class NumpyNodes(NodeRunner):
    """Rows of arrays."""

    def room_for(self, spec: Spec, rows: int) -> Any:
        return np.empty((rows, *spec.row_shape), spec.dtype)

    def sent(self, numbers: Any, device: str) -> Any:
        return numbers

    def address(self, array: Any) -> int | None:
        return array.ctypes.data if array.flags.c_contiguous else None

    def numbers_of(self, array: Any) -> Any:
        return np.array(array)

    def wait(self) -> None:
        pass


class NumpySteps(FusedSteps):
    """The steps of a flush that run in C."""

    def make(self, kind: Kind) -> RowProgram:
        return lowered(kind, call_of)

    def threads(self) -> int:
        return 1

    def address(self, array: Any) -> int:
        return array.ctypes.data  # type: ignore[no-any-return]

    def constant(self, array: WeightArray) -> int:
        return self.address(array.numbers)


class NumpySession(Session):
    """The arrays of one flush."""

    runner, fused_steps, borrows = NumpyNodes(), NumpySteps, False

    def memory_of(self, leaves: Sequence[Leaf]) -> Sequence[tuple[bytes, int]]:
        return [(leaf.payload[0].tobytes(), leaf.spec.bytes) for leaf in leaves]

    def joined(self, chunk: LeafChunk) -> None:
        row = chunk.leaves[0].spec.row_shape
        self.put(chunk.place, np.concatenate([leaf.payload[0].reshape(-1, *row) for leaf in chunk.leaves]))

    def look_up(self, chunk: LookupChunk) -> None:
        self.put(chunk.place, chunk.table.weight[list(chunk.indices)])

    def launch(self, step: Step, operands: Any, besides: Any) -> Any:
        return step.kind.program([operands[group][begin:end] for group, begin, end in step.operands()], step.count)

    def chunk(self, place: Place) -> Any:
        return None

    def results(self, chunk: Any, place: Place, rows: list[int]) -> list[Any]:
        return [(self, place.arena, place.begin + row) for row in rows]

    def gradients(self, arena: int, positions: Sequence[int], weights: Sequence[WeightArray]) -> list[Any]:
        """The gradients of weights: the steps in reverse. Rows that were gathered are scattered, and add up."""
        found = {id(weight): np.zeros_like(weight.numbers) for weight in weights}
        rows: list[Any] = [None if each is None else np.zeros_like(each) for each in self.arrays]
        np.add.at(rows[arena], list(positions), 1)
        for step in reversed(self.plan.steps):
            heads = [rows[place.arena][place.begin : place.end] for place in step.places]
            if not any(map(np.any, heads)):
                continue
            at = [
                (g.place.arena, slice(g.place.begin, g.place.end) if g.index is None else g.index) for g in step.gathers
            ]
            operands, program = step.operands(), step.kind.program
            given = [self.arrays[at[group][0]][at[group][1]][begin:end] for group, begin, end in operands]
            parts = program.gradients(given, step.count, heads)
            for (group, begin, end), part in zip(operands, parts):
                if part is not None:
                    place, index = at[group]
                    index = np.arange(index.start, index.stop) if isinstance(index, slice) else index
                    np.add.at(rows[place], index[begin:end], part)
            for weight, part in zip(program.consts, parts[len(operands) :]):
                if part is not None and id(weight) in found:
                    found[id(weight)] += part
        for chunk in self.plan.inputs:
            part = rows[chunk.place.arena][chunk.place.begin : chunk.place.end]
            if isinstance(chunk, LeafChunk):
                if any(leaf.payload[1] for leaf in chunk.leaves) and part.any():
                    raise CaptureError(
                        "gradients(): it was computed before, by an earlier batch or a function without a row"
                    )
            elif id(chunk.table.key[0]) in found:
                np.add.at(found[id(chunk.table.key[0])], list(chunk.indices), part)
        return [found[id(weight)] for weight in weights]


def gradients(result: LazyNumbers, weights: Sequence[WeightArray]) -> list[Any]:
    """The gradients of the sum of a result's numbers; what waits runs. Raises CaptureError."""
    numbers_of(result)
    session, arena, rows = computed_at(result._v)
    return session.gradients(arena, rows, weights)  # type: ignore[no-any-return]


class NumpyEngine(Adapter):
    """The adapter of numpy."""

    name = "numpy"
    array, block, cells = Array, Model, NumpyCell
    session = NumpySession

    def waits(self, args: Sequence[Any]) -> bool:
        return any(lazy._c is None for lazy in items_of(list(args), LazyNumbers))

    def capture(self, cell: NumpyCell, owner: Any, function: Any, args: Args, kwargs: Kwargs) -> Any:
        found = capture(cell, function, args, kwargs)
        return function(*args, **kwargs) if isinstance(found, str) else found

    def hybridize(self, net: Any, dynamic_batch: bool, options: dict[str, Any]) -> None:
        chosen = Options().updated("hybridize()", options)
        self.check("hybridize()", chosen)
        net.options = chosen if dynamic_batch else None


ENGINE = NumpyEngine()


def install() -> None:
    """Lets the library know the engine. One of a framework has its functions patched here, by the second argument."""
    register(ENGINE, [])
