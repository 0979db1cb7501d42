"""Traces of calls: recorded, checked where they are made, cut, compared and run, without a framework."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gluonjit.graph import Spec, intern_spec
from gluonjit.graph.modes import TRAINING
from gluonjit.program.axes.values import Operand, placed
from gluonjit.program.trace import MalformedTrace, Trace, TraceBuilder, TraceOp

PAIR = (("self", Operand(0)), ("other", Operand(1)))
OPERATORS = {"mul": operator.mul, "add": operator.add, "split": lambda x: np.split(x, 2), "neg": operator.neg}
WIDE = ((4,), "float32")


def spec(*shape: int) -> Spec:
    return intern_spec(shape, "float32", "cpu", "stack")


def call(op: TraceOp, inputs: list[Any]) -> Sequence[Any]:
    found = OPERATORS[op.name](*[placed(value, inputs) for _, value in op.attrs])
    return found if isinstance(found, list) else (found,)


def recorded() -> tuple[TraceBuilder, dict[str, int]]:
    """`(x * w + y, x + x)`, and operators that nobody needs, with a constant that appears between them."""
    builder = TraceBuilder([spec(4), spec(4)], mode=TRAINING)
    places = {}
    (places["unused"],) = builder.op("add", PAIR, [0, 1], [WIDE])
    places["w"] = builder.constant(np.full(4, 3.0), WIDE)
    places["unread"] = builder.constant(np.zeros(4), WIDE)
    (places["product"],) = builder.op("mul", PAIR, [0, places["w"]], [WIDE])
    builder.op("neg", (("self", Operand(0)),), [places["unused"]], [WIDE])
    (places["sum"],) = builder.op("add", PAIR, [places["product"], 1], [WIDE])
    (places["twice"],) = builder.op("add", PAIR, [0, 0], [WIDE])
    return builder, places


def finished() -> Trace:
    builder, places = recorded()
    return builder.finish([places["sum"], places["twice"]])


X, Y = np.arange(4.0), np.ones(4)


def test_what_no_result_needs_is_left_out_and_positions_count_anew() -> None:
    trace = finished()
    assert [op.name for op in trace.ops] == ["mul", "add", "add"]
    assert [op.inputs for op in trace.ops] == [(0, 2), (3, 1), (0, 0)]
    assert trace.results == (4, 5)
    assert list(trace.constants()) == [(2, trace.consts[0])]
    assert trace.shapes == (WIDE,) * 6
    assert trace.training
    assert trace.used() == {0, 1, 2, 3, 4, 5}


def test_a_whole_trace_keeps_its_operators_and_their_constants() -> None:
    builder, places = recorded()
    trace = builder.finish([places["sum"]], whole=True)
    assert [op.name for op in trace.ops] == ["add", "mul", "neg", "add", "add"]
    assert len(trace.consts) == 1  # one that no operator reads is part of no program


def test_it_runs_on_one_node() -> None:
    trace = finished()
    total, twice = trace.run(call, [X, Y], trace.consts)
    np.testing.assert_array_equal(total, X * 3 + Y)
    np.testing.assert_array_equal(twice, X + X)


def test_an_operator_with_several_results_of_which_one_is_needed() -> None:
    builder = TraceBuilder([spec(4)])
    first, last = builder.op("split", (("self", Operand(0)),), [0], [((2,), "float32")] * 2)
    (result,) = builder.op("neg", (("self", Operand(0)),), [last], [((2,), "float32")])
    trace = builder.finish([result])
    assert trace.shaped_results() == [((2,), "float32")]
    np.testing.assert_array_equal(trace.run(call, [X], ())[0], [-2, -3])
    assert first == 1


def test_a_part_begins_at_any_values() -> None:
    builder, places = recorded()
    trace = builder.finish([places["sum"]])
    product = trace.ops[0].outputs[0]
    rest = trace.part([1, product], trace.results)
    assert [op.name for op in rest.ops] == ["add"]
    assert not rest.consts
    assert rest.operands == (trace.operands[1], spec(4))
    before = trace.part([0], [product])
    (value,) = before.run(call, [X], before.consts)
    np.testing.assert_array_equal(rest.run(call, [Y, value], ())[0], trace.run(call, [X, Y], trace.consts)[0])


def test_a_part_whose_results_need_more_than_it_begins_with() -> None:
    with pytest.raises(MalformedTrace, match=r"value 1 follows from none of \[0\]"):
        finished().part([0], finished().results)


def test_a_result_may_be_an_operand_or_a_constant() -> None:
    builder = TraceBuilder([spec(4)])
    place = builder.constant(Y, WIDE)
    trace = builder.finish([place, 0])
    np.testing.assert_array_equal(trace.run(call, [X], trace.consts), [Y, X])


def test_traces_that_differ_in_constants_alone_are_listed_alike() -> None:
    one = finished()
    other = replace(one, consts=(np.full(4, 5.0),))
    assert one.listing() == other.listing()
    np.testing.assert_array_equal(other.run(call, [X, Y], other.consts)[0], X * 5 + Y)
    builder, places = recorded()
    assert builder.finish([places["sum"]]).listing() != one.listing()
    assert builder.finish([places["twice"], places["sum"]]).listing() != one.listing()


def test_arguments_are_placed_in_nested_tuples() -> None:
    assert placed((Operand(1), (2, Operand(0)), "dim"), ["x", "y"]) == ("y", (2, "x"), "dim")
    assert placed((Operand(1), 1), ["x", "y"], list) == ["y", 1]
    assert repr(Operand(1)) == "input 1"


def other(**changed: Any) -> Any:
    return lambda trace: replace(trace, **changed)


MALFORMED = {
    "an operand of another shape": (other(operands=(spec(3), spec(4))), "has the shape"),
    "a value that comes later": (
        lambda trace: replace(trace, ops=(trace.ops[1], trace.ops[0], trace.ops[2])),
        "takes .* before it",
    ),
    "a result with another position": (
        lambda trace: replace(trace, ops=(*trace.ops[:2], trace.ops[2]._replace(outputs=(7,)))),
        "the next value is 5",
    ),
    "a shape too many": (lambda trace: replace(trace, shapes=(*trace.shapes, WIDE)), "6 values, and shapes of 7"),
    "a shape too few": (lambda trace: replace(trace, shapes=trace.shapes[:-1]), "6 values, and shapes of 5"),
    "a result that is not there": (other(results=(9,)), "its results are"),
    "a constant too few": (other(consts=()), "takes|gives"),
}


@pytest.mark.parametrize("change, text", MALFORMED.values(), ids=list(MALFORMED))
def test_a_malformed_trace_is_refused_where_it_is_made(change: Any, text: str) -> None:
    with pytest.raises(MalformedTrace, match=text):
        change(finished())


def test_it_does_not_change() -> None:
    with pytest.raises(AttributeError):
        finished().results = ()  # type: ignore[misc]
