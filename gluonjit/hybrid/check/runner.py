"""Runs nodes of a step one by one, from their traces: to compare a program with them, and in its place.

And tells numbers that differ by rounding alone from others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gluonjit.analysis.plan import Step, node_operands
from gluonjit.graph import Arrays, Kind, Spec
from gluonjit.program.trace import Trace

EPS = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1.2e-7, "float64": 2.2e-16}
EPS.update(complex32=1e-3, complex64=1.2e-7, complex128=2.2e-16)
WIDE = dict.fromkeys(("float16", "bfloat16", "float32"), "float64") | {"complex64": "complex128"}
_TIMES = 80.0  # rounding errors, above which numbers are looked at closely
_CLOSELY = 16.0  # times what rounding changes in the trace itself, above which a difference is none of rounding
TRIES = 4  # traces on operands that differ by rounding


class Manner(NamedTuple):
    """A way to run traces one by one: in float64 if `exact`, on operands and weights that `move` has changed."""

    exact: bool = False
    move: Callable[[Any], Any] | None = None

    def of(self, array: Any) -> Any:
        """Changes numbers."""
        return array if self.move is None else self.move(array)


PLAINLY = Manner()


class Deviation(NamedTuple):
    """A difference: what differs, how, and how far at most."""

    what: str
    how: str
    far: float = np.inf


Run = Callable[[Manner], "list[Any]"]
"""Runs nodes one by one in a manner, and gives their numbers."""


def _distance(found: Any, wanted: Any) -> Any:
    """|a - b| of each number: 0 where both are not finite in one way, infinite where they are not in the same way."""
    if found.dtype.kind not in "fc":
        return np.where(found == wanted, 0.0, np.inf)
    with np.errstate(all="ignore"):
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        apart = np.where(same, 0.0, np.abs(found.astype(np.result_type(found, np.float64)) - wanted))
    return np.where(np.isnan(apart), np.inf, apart)


def scale_of(array: Any) -> float:
    """The largest of the finite numbers, by size."""
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def near(found: Any, wanted: Any, tolerance: float) -> bool:
    """True if numbers agree to rounding, measured by the largest."""
    if found.shape != wanted.shape:
        return False
    return bool(_distance(found, wanted).max(initial=0.0) <= tolerance * scale_of(wanted))


def deviation_of(names: Sequence[str], found: Sequence[Any], run: Run, eps: float, times: float) -> Deviation | None:
    """The first of numbers that differ from those of a run one by one by more than rounding."""
    expected = run(PLAINLY)
    off = [k for k, pair in enumerate(zip(found, expected)) if not near(*pair, times * _TIMES * eps)]
    if not off:
        return None
    try:
        like = [run(Manner(True))]
    except Exception:  # of an operator that has no such numbers
        like = [expected]
    draw = np.random.RandomState(0)
    like += [run(Manner(False, partial(_moved, draw, eps))) for _ in range(TRIES)]
    for k in off:
        if not _is_rounding(found[k], expected[k], [each[k] for each in like]):
            far = float(_distance(found[k], expected[k]).max()) if found[k].shape == expected[k].shape else np.inf
            return Deviation(names[k], _shown(found[k], expected[k]), far)
    return None


def _moved(draw: Any, eps: float, array: Any) -> Any:
    """Numbers that differ by rounding."""
    if array.dtype.kind not in "fc":
        return array
    noise = draw.uniform(-2 * eps, 2 * eps, array.shape)
    return array * (1.0 + noise) + noise * scale_of(array) * 0.1


def shrunk(draw: Any, array: Any) -> Any:
    """Numbers of any size up to those that they are, none above 1."""
    if array.dtype.kind not in "fc":
        return array
    return (array * draw.uniform(size=array.shape) / max(1.0, scale_of(array))).astype(array.dtype)


def _is_rounding(found: Any, wanted: Any, like: Sequence[Any]) -> bool:
    """True if a difference is no larger than what rounding changes in the trace itself; ties, too."""
    if any(each.shape != found.shape for each in (wanted, *like)):
        return False
    if found.dtype.kind not in "fc":
        return bool(np.any([found == each for each in (wanted, *like)], axis=0).all())
    exact = like[0]
    spread = max(_distance(each, exact).max(initial=0.0) for each in (wanted, *like))
    return bool(_distance(found, exact).max(initial=0.0) <= _CLOSELY * spread)


def _shown(found: Any, wanted: Any) -> str:
    """Both numbers, where they differ most."""
    if found.shape != wanted.shape:
        return f"is of shape {found.shape} batched, and {wanted.shape} for one sample"
    at = np.unravel_index(int(np.argmax(_distance(found, wanted))), found.shape)
    return f"is {found[at]!s} batched, and {wanted[at]!s} for one sample"


class NodeRun(NamedTuple):
    """The numbers that a trace gives for one node: results, and gradients of operands and, by identity, of weights."""

    results: list[Any]
    gradients: Arrays = ()
    weights: dict[int, Any] = {}


class NodeRunner:
    """Moves rows of arrays, and runs single nodes; an engine derives from it, and says how. Numbers are numpy's arrays.

    Defaults are numpy's. room_for: makes an array, not yet filled, of so many rows like those of a spec; sent: sends
    numbers to a device; index_type: of those that are indices; reason_of: what an error of the framework's says.

    once: operators whose backward pass overwrites what their forward pass has saved: a second one is wrong; piece: cuts
    an array of a spec out of rows; numbers: reads rows of an array; numbers_of: reads an array, into one of its own;
    array_of: makes an array of numbers, a dtype and a device; spec_of: looks at one; learns: whether gradients go to a
    constant; track: lets them go to an array; gradients: numbers of those of sources, given results with theirs;
    region: where operators of a kind run, in a mode, and recorded if asked to; build: makes a batched program of a
    trace, as `program`, `outputs`, `rows` and `poly`, or raises an error; interpret: runs the operators of a trace;
    wait: waits for all work that devices were given; address: where numbers lie row by row in the host's memory, None
    if they do not;
    together: runs the program of a kind for so many nodes.
    """

    index_type: Any = np.int64
    room_for: Callable[..., Any]
    sent: Callable[..., Any]
    reason_of: Callable[[Exception], str] = str
    once: frozenset[str] = frozenset()
    piece: Callable[..., Any]
    numbers: Callable[..., Any]
    numbers_of: Callable[..., Any]
    array_of: Callable[..., Any]
    spec_of: Callable[..., Spec]
    learns: Callable[..., bool]
    track: Callable[..., Any]
    gradients: Callable[..., Arrays]
    region: Callable[..., AbstractContextManager[Any]]
    build: Callable[..., Any]
    interpret: Callable[..., Arrays]
    together: Callable[..., Arrays]
    wait: Callable[[], None]
    address: Callable[[Any], int | None]

    def slice_rows(self, array: Any, begin: int, end: int) -> Any:
        """Returns consecutive rows of an array, in its memory."""
        return array[begin:end]

    def take(self, array: Any, index: Any) -> Any:
        """Copies rows of an array."""
        return array[index]

    def copy(self, rows: Any, to: Any) -> None:
        """Copies rows into others, without their history."""
        to[...] = rows

    def detached(self, array: Any, copied: bool) -> Any:
        """Returns an array without its history, a copy if asked to."""
        return array.copy() if copied else array

    def index(self, numbers: Sequence[int] | npt.NDArray[Any], device: str) -> Any:
        """Sends indices to a device."""
        return self.sent(np.asarray(numbers, self.index_type), device)

    def wide(self, value: Any) -> Any:
        """Returns an attribute of an operator, with float64 in place of other floats."""
        return WIDE.get(value, value)

    def alone(
        self,
        kind: Kind,
        operands: Arrays,
        mode: int,
        manner: Manner,
        heads: Arrays | None = None,
        together: int = 0,
    ) -> NodeRun:
        """Runs a node's operators one by one, without effect on anything.

        heads: gradients of the results, None for those that have none.
        together: where not 0, the kind's program runs for so many nodes, whose rows come one after the other.
        """
        trace: Trace = kind.call
        with self.region(kind, mode, bool(heads)):
            given = [self._array(array, spec, manner) for array, spec in zip(operands, kind.operands)]
            consts = [self._copied(array, manner) for array in trace.consts]
            learned = [array for array, spec in zip(given, kind.operands) if heads and spec.dtype in EPS]
            weights = {id(own): leaf for own, leaf in zip(trace.consts, consts) if heads and self.learns(own)}
            sources = [*learned, *weights.values()]
            for array in sources:
                self.track(array)
            if together:
                groups = [[given[position] for (position,) in group] for group in kind.groups]
                found = self.together(kind, groups, consts, together)
            else:
                found = self.interpret(self._widened(trace) if manner.exact else trace, given, consts)
            pairs = [
                (result, self._array(np.reshape(head, result.shape), self.spec_of(result), PLAINLY))
                for result, head in zip(found, heads or ())
                if head is not None
            ]
            gradients = dict(zip(map(id, sources), self.gradients(pairs, sources))) if pairs and sources else {}
            by_weight = {key: gradients.get(id(leaf)) for key, leaf in weights.items()}
            return NodeRun(
                [self.numbers_of(array) for array in found],
                [gradients.get(id(array)) for array in given],
                {key: gradient for key, gradient in by_weight.items() if gradient is not None},
            )

    def _array(self, array: Any, spec: Spec, manner: Manner) -> Any:
        return self.array_of(
            manner.of(array), WIDE.get(spec.dtype, spec.dtype) if manner.exact else spec.dtype, spec.device
        )

    def _copied(self, array: Any, manner: Manner) -> Any:
        """A constant that the run may write to, as to running statistics."""
        if manner == PLAINLY:
            return self.detached(array, len(array.shape) <= 1)
        return self._array(self.numbers_of(array), self.spec_of(array), manner)

    def _widened(self, trace: Trace) -> Trace:
        """The trace with its floats, where operators name them, in float64."""
        ops = [op._replace(attrs=tuple((name, self.wide(value)) for name, value in op.attrs)) for op in trace.ops]
        return replace(trace, ops=tuple(ops))

    def constant(self, array: Any, leaf: Any, node: int) -> Any:
        """Returns what a node of a step has as a constant, given what the step has in its place."""
        return leaf

    def compute(self, step: Step, roles: Arrays, consts: Arrays) -> list[list[Any]]:
        """Returns each result of all nodes of a step, run one by one in place of its program.

        roles: the rows of all nodes' operands, by role.
        """
        leaves = {id(own): leaf for own, leaf in zip(step.kind.program.consts, consts)}
        parts: list[list[Any]] = [[] for _ in step.kind.outputs]
        for node, (kind, given) in enumerate(node_operands(step, roles, self.piece)):
            own = [self.constant(array, leaves.get(id(array), array), node) for array in kind.call.consts]
            for listed, array in zip(parts, self.interpret(kind.call, given, own)):
                listed.append(array)
        return parts
