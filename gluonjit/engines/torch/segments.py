"""Rows added or written into rows of another tensor by known numbers: one kind for any number of rows of both.

An edge list gives each sample different numbers of nodes and edges. As a node of a fixed shape it would be traced for
each pair of sizes; here only the two numbers differ, and they are operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gluonjit.engines.torch.arrays import FLOATS
from gluonjit.engines.torch.cell import MADE, Call
from gluonjit.engines.torch.cells import captured_operator, cell_of
from gluonjit.engines.torch.input_version import InputVersion, version_of
from gluonjit.engines.torch.known import known
from gluonjit.engines.torch.lazy import LazyTensor, wrap
from gluonjit.engines.torch.lookups import begin_wholes, wholes
from gluonjit.engines.torch.operands import NotAnOperand, value_of
from gluonjit.engines.torch.operators.binding import Writer
from gluonjit.engines.torch.operators.table import work_of
from gluonjit.engines.torch.program import Batched, program_of
from gluonjit.graph import Kind, Output, Spec, Value, intern_spec
from gluonjit.graph.entries import into
from gluonjit.hybrid.capture.structure import Args, Kwargs
from gluonjit.hybrid.run.batch import Batch
from gluonjit.program.axes.values import Operand
from gluonjit.program.trace import Trace, TraceBuilder


def _spread(index: Any, source: Any) -> Any:
    return index.view(-1, *[1] * (source.dim() - 1)).expand_as(source)


WAYS: dict[str, tuple[Callable[..., Any], str, tuple[str, ...]]] = {
    "index_add": (
        lambda base, index, source, alpha: base.index_add(0, index, source, alpha=alpha),
        "self dim index source",
        ("alpha",),
    ),
    "index_put": (
        lambda base, index, source, accumulate: base.index_put((index,), source, accumulate),
        "self indices values",
        ("accumulate",),
    ),
    "index_copy": (lambda base, index, source: base.index_copy(0, index, source), "self dim index source", ()),
    "scatter_reduce": (
        lambda base, index, source, *how: base.scatter_reduce(
            0, _spread(index, source), source, how[0], include_self=how[1]
        ),
        "self dim index src",
        ("reduce", "include_self"),
    ),
}
"""Ways for rows to go into rows: what does it for all nodes; the arguments of the operator that does it for one."""


def into_rows(base: Any, source: Any, index: Any, rows: Any, count: Any, way: str, *settings: Any) -> Any:
    """One node: rows of `source` into those of `base`, of which there are this many."""
    raise NotImplementedError


def _kind(call: Call) -> Kind:
    """The kind of calls with these numbers of rows; its program is that of any."""
    specs = tuple([value.spec for value in call.values])
    way, *settings = call.args[5:]
    base, _, index, *_ = specs
    key = (way, *settings, base.row_shape, base.dtype, base.device, index.dtype)
    first = call.cell.families.get(key)
    program = _program(specs, way, settings) if first is None else program_of(first)
    kind = Kind(
        way,
        specs,
        (Output(base, 0),),
        base.rows,
        program,
        operator=True,
        poly=True,
        apart=True,
        work=work_of(program.trace, program.operators),
        call=_call(specs, way, settings),
    )
    if first is None:
        call.cell.families[key] = kind
    else:
        kind.family = first
    return kind


def _call(specs: tuple[Spec, ...], way: str, settings: list[Any]) -> Trace:
    """The trace of one node."""
    _, names, more = WAYS[way]
    places = {"self": Operand(0), "dim": 0, "index": Operand(1), "indices": (Operand(1),)}
    attrs = [(name, places.get(name, Operand(2))) for name in names.split()] + list(zip(more, settings))
    builder = TraceBuilder(specs)
    name = f"{way}.{'two' if way == 'scatter_reduce' else 'default'}"
    return builder.finish(builder.op(name, tuple(attrs), [0, 2, 1], [(specs[0].shape, specs[0].dtype)]))


def _program(specs: tuple[Spec, ...], way: str, settings: list[Any]) -> Batched:
    run, *_ = WAYS[way]
    base = specs[0]

    def all_nodes(given: Any, source: Any, index: Any, rows: Any, counts: Any) -> Any:
        before = (rows.cumsum(0) - rows).repeat_interleave(counts)
        return run(given, index + before, source, *settings)

    trace = _call(specs, way, settings)
    writer = Writer(5)
    finals = writer.add(all_nodes, [0, 1, 2, 3, 4], f"{way} of rows {base.row_shape} {base.dtype} {settings}")
    program = Batched(trace, writer, 5, finals)
    program.wide = (True,)
    return program


MADE[into_rows] = _kind


def put(batch: Batch, way: str, base: Any, index: Any, source: Any, *settings: Any) -> Any:
    """Rows of a tensor into those of another, at numbers; None if that is another case."""
    numbers = known(index)
    if numbers is None or not isinstance(base, torch.Tensor) or not isinstance(source, torch.Tensor):
        return None
    if numbers.dim() != 1 or (base.__class__ is not LazyTensor and source.__class__ is not LazyTensor):
        return None
    listed = numbers.tolist()
    if not listed:
        return _with_none(base, source) if base.dim() and source.shape == (0, *base.shape[1:]) else None
    try:
        values = value_of(batch, base), value_of(batch, source)
    except NotAnOperand:
        return None
    if values[0].spec.mode == "stack" and values[1].spec.mode == "rows" and len(values[0].spec.shape) == 1:
        values = _as_rows(batch, values[0], base), values[1]
        base = wrap(values[0])
    first, second = values[0].spec, values[1].spec
    if first.mode != "rows" or first.dtype not in FLOATS or second is not first.with_rows(len(listed)):
        return None
    begin_wholes(batch)
    found = into(*values, listed)
    if found is None:
        return None  # PyTorch refuses a number, or counts from the end
    if base.__class__ is not LazyTensor:
        base = wrap(values[0])
    if source.__class__ is not LazyTensor:
        source = wrap(values[1])
    return captured_operator(into_rows, (base, source, *map(wrap, found), way, *settings))


def _with_none(base: Any, source: Any) -> Any:
    """Returns the tensor with no rows put into it; what none were taken from has a gradient of zeros."""
    learns = source.requires_grad and torch.is_grad_enabled()
    return base + source.sum(0) if learns else base * 1


def _as_rows(batch: Batch, value: Value, tensor: Any) -> Value:
    """Returns a vector of the program's own as this many rows of one number; another value unchanged."""
    spec = intern_spec(value.spec.shape, value.spec.dtype, value.spec.device, "rows")
    given = tensor if tensor.__class__ is not LazyTensor else tensor._c
    if given is None or value.depth or value.taped or given.requires_grad:
        return value
    held = InputVersion(given, version_of(given), given.detach().clone())
    return Value(batch.graph.add_leaf(("copied", id(held)), held, spec, False).base, 0, spec, batch.graph, False, given)


def _given(args: Args, kwargs: Kwargs, *names: str) -> list[Any] | None:
    """Returns the arguments by name, None for missing ones; None if there are others."""
    if len(args) > len(names) or (kwargs and set(kwargs) - set(names)):
        return None
    return [*args, *[kwargs.get(name) for name in names[len(args) :]]]


def _along(names: str, way: str, settings: Callable[..., tuple[Any, ...] | None]) -> Callable[..., Any]:
    """A function that is given a tensor, 0, these arguments and others, of which the way has settings, or None."""

    def put_along(batch: Batch, args: Args, kwargs: Kwargs) -> Any:
        given = _given(args, kwargs, "self", "dim", *names.split())
        if given is None or given[1] != 0:
            return None
        index = given[2] if "source" in names else _of_rows(given)
        more = settings(*given[4:])
        return None if index is None or more is None else put(batch, way, given[0], index, given[3], *more)

    return put_along


def index_put(batch: Batch, args: Args, kwargs: Kwargs) -> Any:
    """`tensor.index_put((index,), values)`."""
    given = _given(args, kwargs, "self", "indices", "values", "accumulate")
    if given is None or not isinstance(given[1], (tuple, list)) or len(given[1]) != 1:
        return None
    return put(batch, "index_put", given[0], given[1][0], given[2], bool(given[3]))


def _of_rows(given: list[Any]) -> Any:
    """The number of each row of an index by elements, where it is the same in all of it."""
    if not isinstance(given[3], torch.Tensor):
        return None
    index = known(given[2])
    if index is None or not index.dim() or index.shape != given[3].shape:
        return None
    first = index.reshape(len(index), -1)[:, 0] if index.numel() else None
    if first is None or not torch.equal(_spread(first, index), index):
        return None
    return first


_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
INTO_ROWS: dict[str, Callable[..., Any]] = {
    "index_add": _along("index source alpha", "index_add", lambda alpha: (1 if alpha is None else alpha,)),
    "index_copy": _along("index source", "index_copy", lambda: ()),
    "index_put": index_put,
    "scatter_add": _along("index src", "index_add", lambda: (1,)),
    "scatter_reduce": _along(
        "index src reduce include_self",
        "scatter_reduce",
        lambda how, include_self: (how, include_self is not False) if how in _REDUCTIONS else None,
    ),
}
"""Functions and methods of PyTorch's by name."""


def divided(total: Any, count: Any) -> Any:
    """The mean of what has this sum."""
    return total / count


def mean(batch: Batch, args: Args, kwargs: Kwargs) -> Any:
    """`tensor.mean(0)` of any number of rows: their sum, by a number that is an operand."""
    given = _given(args, kwargs, "self", "dim")
    if given is None or given[0].__class__ is not LazyTensor or given[1] not in (0, (0,), [0]) or given[1] is False:
        return None
    spec = given[0]._v.spec
    if spec.mode != "rows" or len(spec.shape) < 2 or spec.dtype not in FLOATS or spec.device != "cpu":
        return None
    total = captured_operator(torch.Tensor.sum, (given[0], 0))
    return captured_operator(divided, (total, wrap(*wholes(batch, spec.rows))))


def in_place_of(name: str) -> tuple[Any, ...]:
    """Returns what C captures for a function's usual calls: a cell, and its second argument or the next cell."""
    if name == "index_add":
        return cell_of(into_rows, into_rows.__name__), "index_add", 1  # C tells texts apart by where they are
    if name == "mean":
        return cell_of(torch.Tensor.sum, "sum"), cell_of(divided, divided.__name__)
    return ()
