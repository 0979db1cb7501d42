"""From a trace to one batched symbolic graph, run as a CachedOp."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import mxnet as mx
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.framework.arrays import dtype_name
from gluonjit.engines.mxnet.framework.originals import operator_handle, original_invoke, run_operator
from gluonjit.engines.mxnet.framework.semantics import POOLING, SHAPES, as_shape, classic, in_training
from gluonjit.engines.mxnet.framework.symbols import (
    NO_GRADIENT,
    acts,
    apply,
    canonical,
    fails,
    read,
    written,
)
from gluonjit.engines.mxnet.operators.binding import OWNERS, SEGMENTS, Writer
from gluonjit.engines.mxnet.operators.shapes import joining
from gluonjit.engines.mxnet.operators.table import batch_op
from gluonjit.graph import Arrays, BatchedProgram, Checks, Kind, Spec, intern_spec, operand_groups
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.axes.values import NotBatchable, Shaped, Values
from gluonjit.program.children.table import RULES, ForChildren
from gluonjit.program.children.table import write as write_for_children
from gluonjit.program.trace import Built, Trace, TraceOp, for_any_rows


class Program(BatchedProgram):
    """A program that runs the nodes of a step: so many, into `results`.

    One without `checks` runs nothing: its nodes run one by one, from their traces.

    An operand here is a group of the kind's operands. besides: what tells children apart.

    may_fail: whether it may raise when its numbers are waited for; numpy: whether it was captured, and so has to run,
    with numpy's shapes; used: whether the results depend on it, for each group of operands and each constant; depends:
    for each result on which of these, by position; adds: for each constant whether MXNet adds rightly to its gradient;
    parameters: which parameters the constants are the arrays of; sources: operands and constants that gradients go on
    to, by result, as passes have found them.
    """

    used: list[bool]
    depends: list[set[int]]

    def __init__(self, consts: list[Any], may_fail: bool = False) -> None:
        self.consts = consts
        self.may_fail = may_fail
        self.numpy = bool(LOCAL.state.numpy & SHAPES)
        self.sources: dict[int, tuple[tuple[int, ...], list[int]]] = {}
        self.running: Sequence[int] = ()
        self.momentum = 0.0
        self.parameters: list[tuple[Any, Any]] = []
        # MXNet 1.9.1 adds wrongly to an existing gradient in mean, clip, flip and others.
        self.adds: list[bool] = [False] * len(consts)


def program_of(kind: Kind) -> Program:
    """The program of a kind that this engine has made."""
    found: Program = kind.program  # type: ignore[assignment]
    return found


class Batched(Program):
    """One CachedOp for any number of nodes."""

    def __init__(
        self,
        symbols: Sequence[mx.sym.Symbol],
        operands: Sequence[str],
        consts: list[Any],
        besides: Sequence[str] = (),
    ) -> None:
        super().__init__(consts)
        self.checks = Checks()
        self.pools = False  # in training, and nothing else in it depends on that
        # MXNet 1.9.1 fails in CachedOp's backward, or goes wrong, where the gradient of an output is passed through
        # unchanged, as that of elemwise_add is ("storage_type_num_unknown_nodes"), or where an output is an input.
        finals = [apply("_copy", [symbol], {}) for symbol in symbols]
        graph = mx.sym.Group(finals)
        names = [*operands, *(f"const{k}" for k in range(len(consts))), *besides]
        plain = len(names) - len(besides)
        self.depends = [
            {names.index(name) for name in final.list_inputs() if names.index(name) < plain} for final in finals
        ]
        order = graph.list_inputs()
        self._order = [names.index(name) for name in order]
        # MXNet records a call only where an array that is learned goes in: one whose shape alone was of use does not.
        self.used = [position in self._order for position in range(len(names))]
        self._straight = self._order == list(range(len(names)))
        text = graph.tojson(remove_amp_cast=False)
        self.operators = text.count('"op": ') - text.count('"op": "null"')
        self._graph = graph

    def __call__(
        self,
        operands: Arrays,
        consts: Arrays,
        count: int,
        results: Arrays,
        besides: Arrays = (),
    ) -> None:
        arrays = [*operands, *consts, *besides]
        if not self._straight:
            arrays = [arrays[position] for position in self._order]
        if not self.pools:
            self._op(*arrays, out=results)
            return
        with in_training(True):
            self._op(*arrays, out=results)

    @cached_property
    def _op(self) -> Any:
        """The graph compiled, for any sizes; many a program is dropped for one like it before it has run."""
        return mx.nd.CachedOp(self._graph, [("inline_limit", 0)])


def interpret(trace: Trace, operands: Sequence[NDArray], consts: Sequence[NDArray] | None = None) -> list[NDArray]:
    """Runs a trace, operator by operator, on one sample's arrays; consts: what stands for its own."""
    found: list[NDArray] = trace.run(_run_one, operands, map(classic, trace.consts if consts is None else consts))
    return found


def _run_one(op: TraceOp, inputs: list[NDArray]) -> list[NDArray]:
    for blocked in NO_GRADIENT.get(op.name, ()):
        if blocked < len(inputs):
            inputs[blocked] = inputs[blocked].detach()
    with in_training(op.name in POOLING):
        return run_operator(operator_handle(op.name), inputs, written(op.attrs))


def join(spec: Spec, arrays: Arrays, out: Any) -> Any:
    """Arrays of this spec as one chunk, in `out` if that is not None."""
    if spec.mode not in ("rows", "stack"):
        arrays = [as_shape(array, (-1, *spec.row_shape)) for array in arrays]
    name, axis = ("stack", "axis") if spec.mode == "stack" else joining(spec.dtype)
    attrs = ("num_args", str(len(arrays))), (axis, "0")
    if out is None:
        return run_operator(operator_handle(name), arrays, attrs)[0]
    return original_invoke(operator_handle(name), list(arrays), *zip(*attrs), out, False, False)


def joined(arrays: Arrays, out: Any = None) -> Any:
    """Rows one after the other, in `out` if that is not None; what is one piece is not copied else.

    Not by `_copy`, which does nothing for another part of the same array.
    """
    if len(arrays) == 1 and out is None:
        return arrays[0]
    return join(intern_spec((1,), dtype_name(arrays[0]), "", "rows"), arrays, out)


# With oneDNN the gradient of max pooling is wrong where the data are a part of a larger array, as rows of an arena are
# (in MXNet without batching too: `Pooling(x[2:4])`).
# These add to the gradient of their weight. With oneDNN Deconvolution fails where the weight is not a variable itself.
ADDING = {"FullyConnected", "Deconvolution"}


def write(op: TraceOp, vals: Sequence[Values], outs: Sequence[Shaped], writer: Any) -> list[Values]:
    """Writes down an operator of a trace. Raises NotBatchable."""
    inputs = list(vals)
    for blocked in NO_GRADIENT.get(op.name, ()):
        if blocked < len(inputs):
            inputs[blocked] = writer.result("BlockGrad", {}, [inputs[blocked]])
    if op.name in POOLING:
        inputs = [writer.result("_copy", {}, [value]) for value in inputs]
    return batch_op(op.name, dict(op.attrs), inputs, outs, writer)


def build(trace: Trace, of_any_rows: bool = True) -> Built:
    """The batched program of a trace, for any number of rows if that is possible. Raises NotBatchable."""
    return for_any_rows(trace, _build, of_any_rows)


def build_for_children(of: ForChildren) -> Built:
    """The program of nodes with any number of children, which is given whose each is, too. Raises NotBatchable."""
    return _build(of.trace, False, of.roles)


def _build(trace: Trace, poly: bool, children: Sequence[tuple[int, ...]] = ()) -> Built:
    values: dict[int, Values] = {}
    writer = Writer(bool(trace.mode))
    writer.owners = (writer.value(mx.sym.var(OWNERS), (), "int32", "stack"),)
    groups = operand_groups(trace.operands, poly, children)
    for number, group in enumerate(groups):
        pieces = split_group(mx.sym.var(f"group{number}"), len(group), trace.operands[group[0][0]])
        for (k,), symbol in zip(group, pieces):
            spec = trace.operands[k]
            values[k] = writer.value(symbol, spec.shape, spec.dtype, spec.mode, poly)
    for k, (position, _) in enumerate(trace.constants()):
        shape, dtype = trace.shapes[position]
        values[position] = writer.value(mx.sym.var(f"const{k}"), shape, dtype, "shared")
    pure, may_fail, steady = True, False, True
    for op in trace.ops:
        outputs = [trace.shapes[position] for position in op.outputs]
        inputs = [values[position] for position in op.inputs]
        if op.name in RULES:
            values.update(zip(op.outputs, write_for_children(op, inputs, outputs, writer)))
            continue
        name, attrs = canonical(op.name), read(op.attrs)
        pure = pure and not acts(name, attrs, trace.training)
        steady = steady and not acts(name, attrs)
        may_fail = may_fail or fails(name, attrs)
        values.update(zip(op.outputs, write(op, inputs, outputs, writer)))
    pools = trace.mode and not trace.training and not POOLING.isdisjoint([op.name for op in trace.ops])
    if pools and not steady:
        raise NotBatchable("Pooling: its gradient outside of training, beside what depends on training")
    results = [values[position] for position in trace.results]
    if any([val.shared for val in results]):
        raise NotBatchable("a result does not depend on the operands")
    outs, rows = trace.outputs([in_rows(val) for val in results])
    program = Batched(
        [writer.symbol(stored(val, writer)) for val in results],
        [f"group{number}" for number in range(len(groups))],
        list(trace.consts),
        (OWNERS, SEGMENTS) if children else (),
    )
    program.may_fail, program.pools = may_fail, bool(pools)
    program.adds = [
        all(op.name in ADDING for op in trace.ops if position in op.inputs) for position, _ in trace.constants()
    ]
    return Built(program, outs, rows, poly, pure)


def split_group(symbol: mx.sym.Symbol, count: int, spec: Spec) -> list[mx.sym.Symbol]:
    """The operands of a group, whose rows come one operand after the other."""
    if count == 1:
        return [symbol]
    if spec.dtype == "bool":  # which SliceChannel does not know
        number = intern_spec(spec.shape, "uint8", spec.device, spec.mode)
        pieces = split_group(apply("Cast", [symbol], {"dtype": "uint8"}), count, number)
        return [apply("Cast", [piece], {"dtype": "bool"}) for piece in pieces]
    apart = apply("Reshape", [symbol], {"shape": (count, -1, *spec.row_shape)})
    pieces = apply("SliceChannel", [apart], {"axis": 0, "num_outputs": count, "squeeze_axis": True})
    return [pieces[k] for k in range(count)]


def stored(val: Values, writer: Any) -> Values:
    """A result in the form in which it is kept: from two dimensions on as rows, and a scalar (1,)."""
    found = writer.folded(val, 1) if in_rows(val) else writer.stack(val)
    return found  # type: ignore[no-any-return]


def in_rows(val: Values) -> bool:
    """True if a result is kept as rows."""
    rows = val.packed or len(val.shape) >= 2 or val.shape == (1,)
    return rows or (len(val.shape) == 1 and val.lead == val.shape[0] and not val.rest)


def current(kind: Kind) -> bool:
    """True if the parameters still are the arrays that the program was traced with."""
    return all(
        parameter._data is not None and any(array is data for data in parameter._data)
        for parameter, array in program_of(kind).parameters
    )
