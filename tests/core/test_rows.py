"""Operations of row programs in C: each gives what numpy gives in double precision, whatever the views."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
from rows_cases import BINARY, UNARY, Case
from rows_support import (
    ACC,
    COUNTS,
    KERNELS,
    NODE,
    NONE,
    Machine,
    assert_close,
    bits,
    columns_of,
    each_kernel,
    sigmoid,
    values_of,
    view,
)

kernels = pytest.fixture(params=KERNELS, autouse=True)(each_kernel)


RIGHT = 4e-7  # relative: of float32 operations one after the other, each to rounding


@pytest.mark.parametrize("case", UNARY + BINARY, ids=lambda case: case.op)
@pytest.mark.parametrize("whole", [True, False])
def test_an_operation_gives_what_numpy_gives(case: Case, whole: bool) -> None:
    w, far = 37, 0 if whole else 5
    for nodes in COUNTS:
        for flags in (0, ACC):
            machine = Machine(nodes, seed=nodes)
            a = machine.normal(NODE, w + 2 * far) * 3
            b = machine.normal(NODE, (w if case.b == 0 else 1) + far) * 3
            if case.positive:
                a, b = np.abs(a) + 0.1, np.abs(b) + 0.1
            out = machine.normal(NODE, (case.out or w) + far)
            before = out.astype(np.float64)
            machine.emit(
                case.op,
                view(machine.reg(out), far),
                view(machine.reg(a), far),
                NONE if case.b == NONE else view(machine.reg(b), far),
                w,
                bits(case.x),
                flags=flags,
            )
            machine.run()
            operands = [a[:, far : far + w]] + ([] if case.b == NONE else [b[:, far:]])
            wanted = np.asarray(
                case.function(*[each.astype(np.float64) for each in operands]) if nodes else before[:, far:]
            )
            assert_close(out[:, far:], wanted + (before[:, far:] if flags and nodes else 0))
            assert (out[:, :far] == before[:, :far]).all()


@pytest.mark.parametrize("flags", [0, ACC])
def test_rows_are_filled_spread_and_picked_by_number(flags: int) -> None:
    for nodes in COUNTS:
        machine = Machine(nodes)
        outs = [machine.normal(NODE, 9) for _ in range(3)]
        before = [flags * out.astype(np.float64) for out in outs]
        number, index = machine.normal(NODE, 1), (machine.random.integers(-2, 14, (nodes, 1)) + 0.5).astype(np.float32)
        index[:1] = np.nan
        regs = [machine.reg(out) for out in outs]
        machine.emit("FILL", regs[0], NONE, NONE, 9, bits(2.5), flags=flags)
        machine.emit("BCASTW", regs[1], machine.reg(number), NONE, 9, flags=flags)
        machine.emit("DPICK", view(regs[2], 1), machine.reg(number), machine.reg(index), 8, flags=flags)
        kept = outs[2][:, 0].copy()
        machine.run()
        assert_close(outs[0], before[0] + 2.5)
        assert_close(outs[1], before[1] + number)
        wanted = before[2][:, 1:]
        wanted[np.arange(nodes), columns_of(np.nan_to_num(index), 8)] += number[:, 0]
        assert_close(outs[2][:, 1:], wanted)
        assert (outs[2][:, 0] == kept).all()


@pytest.mark.parametrize("flags", [0, ACC])
def test_whole_numbers_are_read_from_their_bits(flags: int) -> None:
    for nodes in COUNTS:
        machine = Machine(nodes)
        given = machine.random.integers(-(2**62), 2**62, (nodes, 1)) >> machine.random.integers(0, 63, (nodes, 1))
        bits_of = np.concatenate([np.zeros((nodes, 1), np.float32), given.view(np.float32)], 1)
        out = machine.normal(NODE, 1)
        before = flags * out.astype(np.float64)
        machine.emit("WHOLE", machine.reg(out), view(machine.reg(bits_of), 1), NONE, 2, flags=flags)
        machine.run()
        assert_close(out, before + given)


def test_a_whole_number_is_two_columns() -> None:
    machine = Machine(2)
    machine.emit("WHOLE", machine.reg(machine.normal(NODE, 1)), machine.reg(machine.normal(NODE, 4)), NONE, 3)
    with pytest.raises(ValueError, match="not in two columns"):
        machine.run()


@pytest.mark.parametrize("op", ["ADDV", "MULV", "SUBV"])
def test_a_vector_meets_each_row(op: str) -> None:
    function = {"ADDV": np.add, "MULV": np.multiply, "SUBV": np.subtract}[op]
    for nodes in COUNTS:
        machine = Machine(nodes)
        a, out = machine.normal(NODE, 21), machine.normal(NODE, 21)
        vector = machine.random.standard_normal(21).astype(np.float32)
        machine.emit(op, machine.reg(out), machine.reg(a), NONE, 21, machine.slot(vector))
        machine.run()
        assert_close(out, function(a.astype(np.float64), vector))


@pytest.mark.parametrize(
    ("op", "function", "low", "high"),
    [
        ("EXP", np.exp, -87.3, 88.7),
        ("SIGMOID", sigmoid, -87.3, 100),
        ("TANH", np.tanh, -100, 100),
        ("SOFTRELU", lambda a: np.logaddexp(0, a), -87.3, 100),
    ],
)
def test_functions_are_right_in_relative_terms(op: str, function: Callable[..., Any], low: float, high: float) -> None:
    near = np.concatenate([sign * np.logspace(-30, 0, 301) for sign in (-1, 1)])
    given = np.concatenate([np.linspace(low, high, 40001), near, np.linspace(-3, 3, 30001)]).astype(np.float32)
    given = given[given != 0]
    wanted = function(given.astype(np.float64))
    assert np.max(np.abs(values_of(op, given) / wanted - 1)) <= RIGHT


def test_results_below_the_normal_numbers_are_right_to_two_units() -> None:
    given = np.linspace(-103, -87.5, 301).astype(np.float32)
    wanted = np.exp(given.astype(np.float64))
    for op in ("EXP", "SIGMOID", "SOFTRELU"):
        assert np.max(np.abs(values_of(op, given) - wanted) - RIGHT * wanted) <= 2 * 1.4e-45, op


def test_the_derivative_of_tanh_is_right_near_one() -> None:
    machine = Machine(1)
    out, grad = np.zeros((1, 301), np.float32), np.ones((1, 301), np.float32)
    y = np.linspace(0.999, 1, 302)[None, :-1].astype(np.float32)
    machine.emit("DTANH", machine.reg(out), machine.reg(grad), machine.reg(y), 301)
    machine.run()
    assert np.max(np.abs(out / (1 - y.astype(np.float64) ** 2) - 1)) <= RIGHT


def test_log_is_right_in_relative_terms() -> None:
    given = np.concatenate([np.logspace(-44, 38, 20001), np.linspace(0.5, 2, 20001)]).astype(np.float32)
    given = given[given != 1]
    assert np.max(np.abs(values_of("LOG", given) / np.log(given.astype(np.float64)) - 1)) <= RIGHT


@pytest.mark.parametrize("spread", [0.3, 3, 30])
def test_softmax_and_its_like_are_right_in_relative_terms(spread: float) -> None:
    tiny = 1.2e-38
    for w in (1, 2, 5, 37, 300):
        machine = Machine(100)
        a, g = machine.normal(NODE, w) * np.float32(spread), machine.normal(NODE, w)
        outs = [np.zeros_like(a) for _ in range(4)]
        given, grad, log_soft, d_log_soft, soft, d_soft = [machine.reg(array) for array in (a, g, *outs)]
        machine.emit("LOGSOFTMAX", log_soft, given, NONE, w)
        machine.emit("DLOGSOFTMAX", d_log_soft, grad, log_soft, w)
        machine.emit("SOFTMAX", soft, given, NONE, w)
        machine.emit("DSOFTMAX", d_soft, grad, soft, w)
        machine.run()
        a, g, y, e = (array.astype(np.float64) for array in (a, g, outs[0], outs[2]))
        shifted = a - a.max(1, keepdims=True)
        others = np.exp(shifted, where=shifted < 0, out=np.zeros_like(a)).sum(1, keepdims=True)
        wanted, normal = shifted - np.log1p(others), np.exp(shifted) > tiny * (1 + others)
        assert np.max(np.abs(y - wanted) - RIGHT * np.abs(wanted)) <= tiny
        assert np.max(np.abs(e / (np.exp(shifted) / (1 + others)) - 1)[normal]) <= RIGHT
        # Of differences: relative to the larger of the two.
        less = np.exp(y) * g.sum(1, keepdims=True)
        assert np.max(np.abs(outs[1] - (g - less)) / np.maximum(np.abs(g), np.abs(less))) <= RIGHT
        less = (e * g).sum(1, keepdims=True)
        off = np.abs(outs[3] - e * (g - less)) - RIGHT * e * np.maximum(np.abs(g), np.abs(less))
        assert np.max(off) <= tiny


def test_a_softmax_of_what_is_infinite_is_not_a_number_or_leaves_it_out() -> None:
    given = np.array([1, -np.inf, 1], np.float32)
    assert values_of("SOFTMAX", given).tolist() == [0.5, 0, 0.5]
    np.testing.assert_allclose(values_of("LOGSOFTMAX", given), [-np.log(2), -np.inf, -np.log(2)], rtol=RIGHT)
    for op in ("SOFTMAX", "LOGSOFTMAX"):
        for bad in (np.inf, np.nan):
            assert np.isnan(values_of(op, np.array([1, bad, 2], np.float32))).all()
        assert np.isnan(values_of(op, np.full(3, -np.inf, np.float32))).all()


def test_the_largest_of_a_row_is_its_first_one_or_nan() -> None:
    cases = {
        (1, 3, 3): 1,
        (1, np.nan, 2): 1,
        (np.nan, np.nan, 1): 0,
        (-np.inf, -np.inf): 0,
        (np.inf, 1): 0,
        (-0.0, 0): 0,
    }
    for given, wanted in cases.items():
        machine, out = Machine(1), np.zeros((1, 1), np.float32)
        a = np.array([given], np.float32)
        machine.emit("ARGMAX", machine.reg(out), machine.reg(a), NONE, len(given))
        machine.run()
        assert out[0, 0] == wanted == a[0].argmax()


def test_functions_keep_nan_and_reach_their_limits() -> None:
    given = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0], np.float32)
    expected = {
        "EXP": [np.nan, np.inf, 0, np.inf, 0, 1],
        "SIGMOID": [np.nan, 1, 0, 1, 0, 0.5],
        "TANH": [np.nan, 1, -1, 1, -1, 0],
        "SOFTRELU": [np.nan, np.inf, 0, 3e38, 0, np.log(2)],
        "LOG": [np.nan, np.inf, np.nan, np.log(3e38), np.nan, -np.inf],
        "RELU": [np.nan, np.inf, 0, 3e38, 0, 0],
        "POSITIVE": [0, np.inf, 0, 3e38, 0, 0],
    }
    for op, wanted in expected.items():
        np.testing.assert_allclose(values_of(op, np.tile(given, 7)), np.tile(wanted, 7), rtol=1e-6, err_msg=op)


def test_nan_goes_through_what_compares_and_products() -> None:
    for op in ("MAXS", "MINS"):
        assert np.isnan(values_of(op, np.array([np.nan, 1, 2], np.float32))).tolist() == [True, False, False]
    for op in ("MAX", "MIN"):
        machine = Machine(1)
        a, b = np.array([[np.nan, 1, 2]], np.float32), np.array([[1, np.nan, 3]], np.float32)
        machine.emit(op, machine.reg(a), machine.reg(a), machine.reg(b), 3)
        machine.run()
        assert np.isnan(a[0]).tolist() == [True, True, False]
    machine = Machine(2)
    given, out = np.ones((2, 3), np.float32), np.zeros((2, 2), np.float32)
    given[1, 2] = np.nan
    machine.emit("GEMM", machine.reg(out), machine.reg(given), 3, 2, machine.packed(np.ones((3, 2), np.float32)), NONE)
    machine.run()
    assert out[0].tolist() == [3, 3] and np.isnan(out[1]).all()
