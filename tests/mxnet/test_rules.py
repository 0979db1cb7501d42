"""Every rule against the program it stands for: the operator on one sample after the other.

A case is one operator with its attributes and arguments, each of them one array a sample or one shared
array. It runs for several numbers of samples and for every layout the arguments can arrive in, with rows
of varying length where the rule takes them, and values and gradients have to agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import mxnet as mx
import numpy as np
import pytest
from rule_runs import built, check, draw, layouts_of, one_by_one, run_one

from experiments.conformance.rule_cases import CASES, Case
from gluonjit.engines.mxnet.framework.symbols import ALONE, canonical, draws, read
from gluonjit.engines.mxnet.operators.binding import Writer
from gluonjit.engines.mxnet.operators.table import ROWS_OF, batch_op
from gluonjit.program.axes.values import NotBatchable, Values


def by_operator(cases: list[Case]) -> list[list[Case]]:
    """The cases of each operator: one test an operator, for a test a case would take longer than the cases."""
    table: dict[str, list[Case]] = {}
    for test in cases:
        table.setdefault(test.op, []).append(test)
    return list(table.values())


def every(cases: list[Case], run: Callable[[Case], None]) -> None:
    """Run all cases, and report all that fail."""
    faults = []
    for test in cases:
        try:
            run(test)
        except (AssertionError, ValueError, NotBatchable, mx.base.MXNetError) as error:
            faults.append(f"{test}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)


def first(cases: list[Case]) -> str:
    return cases[0].op


BATCHED = [test for test in CASES if not test.alone]
VARYING = [
    test
    for test in BATCHED
    if not test.fixed
    and all(arg.shape for arg in test.args if not arg.shared)
    and len({arg.shape[0] for arg in test.args if not arg.shared}) == 1
]


@pytest.mark.parametrize("cases", by_operator(BATCHED), ids=first)
def test_batched_equals_one_by_one(cases: list[Case]) -> None:
    every(cases, check_numbers_and_layouts)


def check_numbers_and_layouts(test: Case) -> None:
    alone = one_by_one(test, draw(test, 5))
    for number, layouts in enumerate(layouts_of(test)):
        program = built(test, layouts, alone.samples[0], alone.outputs[0])
        for count in (1, 2, 5) if number == 0 else (3,):
            check(test, layouts, program, alone.first(count))


@pytest.mark.parametrize("cases", by_operator(VARYING), ids=first)
def test_rows_of_varying_length(cases: list[Case]) -> None:
    """Where a rule takes them it is right for any numbers; the number it is shown says nothing."""
    every(cases, check_varying)


def check_varying(test: Case) -> None:
    layouts = tuple("shared" if arg.shared else "rows" for arg in test.args)
    shown = next(arg.shape[0] for arg in test.args if not arg.shared)
    refused = []
    for rows in ([shown, 2, 1, 4], [1, 3]):
        samples = draw(test, len(rows), rows)
        try:
            shown_result = run_one(test, samples[0])
        except (mx.base.MXNetError, IndexError):  # means nothing with so many rows
            continue
        try:
            program = built(test, layouts, samples[0], shown_result, poly=True)
            check(test, layouts, program, one_by_one(test, samples))
        except NotBatchable as error:
            refused.append(str(error))
    assert not (test.poly and refused), refused


@pytest.mark.parametrize("cases", by_operator([test for test in CASES if test.alone]), ids=first)
def test_refused(cases: list[Case]) -> None:
    every(cases, check_refused)


def check_refused(test: Case) -> None:
    outputs = test.outputs or [(tuple(o.shape), np.dtype(o.dtype).name) for o in run_one(test, draw(test, 1)[0])]
    writer = Writer(test.training)
    values = [
        writer.value(mx.sym.var(f"in{n}"), a.shape, a.dtype, "shared" if a.shared else "rows" if a.shape else "stack")
        for n, a in enumerate(test.args)
    ]
    with pytest.raises(NotBatchable) as caught:
        batch_op(test.op, test.attrs, values, outputs, writer)
    assert str(caught.value)


def rows(writer: Writer, shape: tuple[int, ...], poly: bool = False) -> Values:
    return writer.value(mx.sym.var("x"), shape, "float32", "rows", poly)


def test_dropout_shares_a_draw_along_its_axes_and_not_between_samples() -> None:
    attrs, writer = {"p": "0.5", "axes": "(0,)"}, Writer(True)
    (result,) = batch_op("Dropout", attrs, [rows(writer, (4, 16))], [((4, 16), "float32")], writer)
    program = mx.nd.CachedOp(writer.symbol(writer.stack(result)))
    with mx.autograd.train_mode():
        drawn = program(mx.nd.ones((8 * 4, 16))).asnumpy()
    assert drawn.shape == (8, 4, 16)
    assert set(np.unique(drawn)) == {0.0, 2.0}
    assert (drawn == drawn[:, :1]).all()
    assert len({sample.tobytes() for sample in drawn}) == 8


def test_what_draws_depends_on_attributes() -> None:
    def drawn(name: str, **attrs: str) -> bool:
        return draws(name, read(attrs))

    assert drawn("Dropout", p="0.5") and not drawn("Dropout", p="0.0")
    assert drawn("LeakyReLU", act_type="rrelu") and not drawn("LeakyReLU", act_type="gelu")
    assert drawn("_random_normal_like") and not drawn("FullyConnected")


@pytest.mark.parametrize("layout", ["rows", "stack"])
def test_the_number_of_rows_that_vary_is_not_in_the_graph(layout: str) -> None:
    """A shape that holds another number of rows, or depends on it, is refused."""
    writer = Writer()
    value = rows(writer, (3, 8), poly=True)
    for name, attrs, shape in [
        ("Reshape", {"shape": "(3, 2, 4)"}, (3, 2, 4)),
        ("Reshape", {"shape": "(-1, 4)"}, (6, 4)),
        ("Reshape", {"shape": "(-1,)"}, (24,)),
        ("broadcast_like", {}, (3, 8)),
        ("sum", {"axis": "0"}, (8,)),
        ("mean", {}, (1,)),
        ("softmax", {"axis": "0"}, (3, 8)),
        ("shape_array", {}, (2,)),
    ]:
        other = writer.value(mx.sym.var("y"), (3, 8), "float32", layout)
        inputs = [other, value] if name == "broadcast_like" else [value]
        with pytest.raises(NotBatchable):
            batch_op(name, attrs, inputs, [(shape, "float32")], writer)
    with pytest.raises(NotBatchable):
        writer.stack(value)


def test_other_numbers_of_elements_are_refused() -> None:
    writer = Writer()
    with pytest.raises(NotBatchable, match="number of elements"):
        batch_op("Reshape", {"shape": "(1, 9)"}, [rows(writer, (1, 8))], [((1, 9), "float32")], writer)
    with pytest.raises(NotBatchable, match="zero-size"):
        batch_op("Reshape", {"shape": "(0, 8)"}, [rows(writer, (0, 8))], [((0, 8), "float32")], writer)


def test_more_axes_than_the_kernels_take_are_refused() -> None:
    shape, writer = (1, 2, 2, 2, 2), Writer()
    batch_op("exp", {}, [rows(writer, shape)], [(shape, "float32")], writer)
    with pytest.raises(NotBatchable, match="too many"):
        batch_op("reverse", {"axis": "0"}, [rows(writer, shape)], [(shape, "float32")], writer)


def test_the_usual_cell_needs_no_reshape() -> None:
    """A gate of a Tree-LSTM on (1, C) vectors: every operator as it stands."""
    writer = Writer()
    data, weight = rows(writer, (1, 4)), writer.value(mx.sym.var("w"), (8, 4), "float32", "shared")
    attrs = {"num_hidden": "8", "no_bias": "True"}
    (product,) = batch_op("FullyConnected", attrs, [data, weight], [((1, 8), "float32")], writer)
    left, right = batch_op("SliceChannel", {"num_outputs": "2"}, [product], [((1, 4), "float32")] * 2, writer)
    (gate,) = batch_op("Activation", {"act_type": "tanh"}, [left], [((1, 4), "float32")], writer)
    (gated,) = batch_op("elemwise_mul", {}, [gate, right], [((1, 4), "float32")], writer)
    (total,) = batch_op("sum", {"axis": "0", "keepdims": "True"}, [gated], [((1, 4), "float32")], writer)
    operators = {node["op"] for node in json.loads(writer.symbol(total).tojson())["nodes"]} - {"null"}
    assert operators == {"FullyConnected", "SliceChannel", "Activation", "elemwise_mul"}


def test_every_rule_is_of_a_registered_operator() -> None:
    assert [name for name in [*ROWS_OF, *ALONE] if canonical(name) != name] == []


def test_every_rule_has_a_case() -> None:
    covered = {canonical(test.op) for test in CASES}
    assert [name for name in ROWS_OF if name not in covered] == []


def test_unknown_operators_are_refused() -> None:
    with pytest.raises(NotBatchable, match="no rule for operator no_such_operator"):
        batch_op("no_such_operator", {}, [], [], Writer())
