"""Row programs in C: each operation gives what numpy gives in double precision, whatever the blocks and views."""

from __future__ import annotations

import math
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, NamedTuple

import numpy as np
import pytest

if os.environ.get("GLUONJIT_PURE", "0") not in ("", "0"):
    pytest.skip("GLUONJIT_PURE is set", allow_module_level=True)
rows = pytest.importorskip("gluonjit._rows")

NODE, CHILD = 0, 1
SCRATCH, SAVED, DIRECT = 0, 1, 2
NONE, ACC = -1, 1
OPS = rows.OPS
COUNTS = (0, 1, 13, 100)
BEST = rows.features()


@pytest.fixture(params=["avx512", "avx2", "generic"], autouse=True)
def kernels(request: Any) -> Any:
    if not rows.use(request.param):
        pytest.skip(f"this processor has no {request.param}")
    yield request.param
    rows.use(BEST)


def bits(x: float) -> int:
    return int(struct.unpack("<i", struct.pack("<f", x))[0])


def view(reg: int, column: int = 0) -> int:
    return reg | column << 16


class Machine:
    """A step: registers and slots, and the arrays they lie in."""

    def __init__(self, nodes: int, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes = nodes
        children = self.random.integers(0, 6, nodes)
        self.first = np.concatenate([[0], np.cumsum(children)]).astype(np.int32)
        self.owner = np.repeat(np.arange(nodes), children)
        self.counts = (nodes, int(self.first[-1]))
        self.args = [self.first.ctypes.data, 0]
        self.regs: list[tuple[int, int, int, int]] = []
        self.code: list[tuple[int, ...]] = []
        self.held: list[Any] = [self.first]

    def slot(self, value: Any) -> int:
        if isinstance(value, np.ndarray):
            self.held.append(value)
            value = value.ctypes.data
        self.args.append(value)
        return len(self.args) - 1

    def normal(self, space: int, width: int) -> np.ndarray:
        return self.random.standard_normal((self.counts[space], width)).astype(np.float32)

    def reg(self, array: np.ndarray, space: int = NODE) -> int:
        """A register whose rows are those of an array."""
        self.regs.append((space, array.shape[1], DIRECT, self.slot(array)))
        return len(self.regs) - 1

    def scratch(self, width: int, number: int, space: int = NODE) -> int:
        self.regs.append((space, width, SCRATCH, number))
        return len(self.regs) - 1

    def emit(self, op: str, out: int, a: int, b: int, w: int, x: int = 0, y: int = 0, flags: int = 0) -> None:
        self.code.append((OPS[op], out, a, b, w, x, y, flags))

    def run(self, block: int = 7) -> None:
        code = np.array(self.code, np.int32).reshape(-1, 8)
        regs = np.array(self.regs, np.int32).reshape(-1, 4)
        rows.run(code, regs, np.array(self.args, np.int64), self.nodes, block)

    def packed(self, matrix: np.ndarray) -> int:
        """The slot of a packed matrix of any strides."""
        k, n = matrix.shape
        target = np.full(rows.packed_size(k, n), np.nan, np.float32)
        strides = [stride // 4 for stride in matrix.strides]
        self.held.append(matrix)
        rows.pack(matrix.ctypes.data, k, n, strides[0], strides[1], target.ctypes.data)
        return self.slot(target)


def assert_close(found: np.ndarray, wanted: np.ndarray, tolerance: float = 4e-6) -> None:
    assert found.shape == wanted.shape
    if wanted.size:
        assert np.max(np.abs(found - wanted)) <= tolerance * max(1.0, np.max(np.abs(wanted)))


class Case(NamedTuple):
    """An operation, its operands' columns (0: those of w) and what it gives in numpy."""

    op: str
    function: Callable[..., Any]
    a: int = 0
    b: int = NONE
    out: int = 0
    positive: bool = False
    x: float = 0.0


def sigmoid(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


def softmax(a: Any) -> Any:
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def columns_of(b: Any, w: int) -> Any:
    return np.clip(b[:, 0].astype(int), 0, w - 1)


def pick(a: Any, b: Any) -> Any:
    return a[np.arange(len(a)), columns_of(b, a.shape[1])][:, None]


ERF = np.vectorize(math.erf, otypes=[float])
UNARY = [
    Case("COPY", lambda a: a),
    Case("NEG", lambda a: -a),
    Case("SIGMOID", sigmoid),
    Case("TANH", np.tanh),
    Case("RELU", lambda a: np.maximum(a, 0)),
    Case("EXP", np.exp),
    Case("LOG", np.log, positive=True),
    Case("SQRT", np.sqrt, positive=True),
    Case("SQUARE", np.square),
    Case("ABS", np.abs),
    Case("RECIPROCAL", lambda a: 1 / a, positive=True),
    Case("SOFTRELU", lambda a: np.log1p(np.exp(a))),
    Case("SOFTSIGN", lambda a: a / (1 + np.abs(a))),
    Case("SIGN", np.sign),
    Case("STEP", lambda a: a > 0),
    Case("RSQRT", lambda a: a**-0.5, positive=True),
    Case("ERF", ERF),
    Case("SIN", np.sin),
    Case("COS", np.cos),
    Case("ADDS", lambda a: a + 1.5, x=1.5),
    Case("MULS", lambda a: a * 1.5, x=1.5),
    Case("RSUBS", lambda a: 1.5 - a, x=1.5),
    Case("RDIVS", lambda a: 1.5 / a, x=1.5, positive=True),
    Case("POWS", lambda a: a**1.5, x=1.5, positive=True),
    Case("POWS", lambda a: a**2, x=2),
    Case("POWS", lambda a: a, x=1),
    Case("POWS", lambda a: 1 / a, x=-1, positive=True),
    Case("MAXS", lambda a: np.maximum(a, 0.5), x=0.5),
    Case("MINS", lambda a: np.minimum(a, 0.5), x=0.5),
    Case("LOGSOFTMAX", lambda a: np.log(softmax(a))),
    Case("SOFTMAX", softmax),
    Case("SUMW", lambda a: a.sum(1, keepdims=True), out=1),
    Case("MAXW", lambda a: a.max(1, keepdims=True), out=1),
]
BINARY = [
    Case("ADD", np.add, b=0),
    Case("SUB", np.subtract, b=0),
    Case("MUL", np.multiply, b=0),
    Case("DIV", np.divide, b=0, positive=True),
    Case("MAX", np.maximum, b=0),
    Case("MIN", np.minimum, b=0),
    Case("GE", np.greater_equal, b=0),
    Case("LT", np.less, b=0),
    Case("DSIGMOID", lambda a, b: a * b * (1 - b), b=0),
    Case("DTANH", lambda a, b: a * (1 - b * b), b=0),
    Case("DRELU", lambda a, b: a * (b > 0), b=0),
    Case("DLOGSOFTMAX", lambda a, b: a - np.exp(b) * a.sum(1, keepdims=True), b=0),
    Case("DSOFTMAX", lambda a, b: b * (a - (a * b).sum(1, keepdims=True)), b=0),
    Case("MULW", np.multiply, b=1),
    Case("DIVW", np.divide, b=1, positive=True),
    Case("ADDW", np.add, b=1),
    Case("SUBW", np.subtract, b=1),
    Case("PICK", pick, b=1, out=1),
]


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


@pytest.mark.parametrize("op", ["ADDV", "MULV", "SUBV"])
def test_a_vector_meets_each_row(op: str) -> None:
    function = {"ADDV": np.add, "MULV": np.multiply, "SUBV": np.subtract}[op]
    for nodes in COUNTS:
        machine = Machine(nodes)
        a, out, vector = machine.normal(NODE, 21), machine.normal(NODE, 21), machine.normal(NODE, 1)
        vector = machine.random.standard_normal(21).astype(np.float32)
        machine.emit(op, machine.reg(out), machine.reg(a), NONE, 21, machine.slot(vector))
        machine.run()
        assert_close(out, function(a.astype(np.float64), vector))


@pytest.mark.parametrize("space", [NODE, CHILD])
@pytest.mark.parametrize("flags", [0, ACC])
def test_rows_are_gathered_and_scattered_by_index(space: int, flags: int) -> None:
    for nodes in COUNTS:
        machine = Machine(nodes)
        base = machine.random.standard_normal((6, 5)).astype(np.float32)
        index = machine.random.integers(0, 6, machine.counts[space]).astype(np.int32)
        out, target = machine.normal(space, 8), base.copy()
        direct = machine.normal(space, 5)
        before, direct_before = out.copy(), direct.copy()
        reg = machine.reg(out, space)
        slot = machine.slot(base), machine.slot(index)
        machine.emit("GATHER", view(reg, 2), NONE, NONE, 5, slot[0], flags=flags)
        slot = machine.slot(target), machine.slot(index)
        machine.emit("SCATTER", NONE, view(reg, 2), NONE, 5, slot[0])
        slot = machine.slot(direct), machine.slot(0)
        machine.emit("SCATTER", NONE, view(reg, 2), NONE, 5, slot[0])
        machine.run()
        gathered = base.astype(np.float64)[index] + flags * before[:, 2:7]
        assert_close(out[:, 2:7], gathered)
        assert (out[:, :2] == before[:, :2]).all()
        wanted = base.astype(np.float64)
        np.add.at(wanted, index, gathered)
        assert_close(target, wanted)
        assert_close(direct, direct_before + gathered)


@pytest.mark.parametrize("flags", [0, ACC])
@pytest.mark.parametrize("block", [1, 4, 1000])
def test_rows_go_to_children_and_their_sums_come_back(flags: int, block: int) -> None:
    for nodes in COUNTS:
        machine = Machine(nodes, seed=3)
        node, child = machine.normal(NODE, 6), machine.normal(CHILD, 9)
        summed, before = machine.normal(NODE, 4), child.copy()
        summed_before = summed.copy()
        reg = machine.reg(child, CHILD)
        machine.emit("SPREAD", view(reg, 3), view(machine.reg(node), 2), NONE, 4, flags=flags)
        machine.emit("SEGSUM", machine.reg(summed), view(reg, 3), NONE, 4, flags=flags)
        machine.run(block)
        spread = node[machine.owner, 2:] + flags * before[:, 3:7].astype(np.float64)
        assert_close(child[:, 3:7], spread)
        assert (child[:, 7:] == before[:, 7:]).all()
        wanted = flags * summed_before.astype(np.float64)
        np.add.at(wanted, machine.owner, spread)
        assert_close(summed, wanted)


SHAPES = [(1, 1), (1, 33), (7, 16), (16, 31), (33, 17), (5, 32), (3, 48), (50, 100), (64, 65)]


@pytest.mark.parametrize(("k", "n"), SHAPES)
def test_products_are_those_of_numpy(k: int, n: int) -> None:
    for nodes in (*COUNTS, 5, 25):
        for flags, biased in ((0, True), (ACC, False), (ACC, True), (0, False)):
            machine = Machine(nodes)
            a, out = machine.normal(NODE, k + 3), machine.normal(NODE, n + 2)
            before = out.astype(np.float64)
            weight = machine.random.standard_normal((n, k)).astype(np.float32)
            bias = machine.random.standard_normal(n).astype(np.float32)
            slot = machine.slot(bias) if biased else NONE
            machine.emit(
                "GEMM", view(machine.reg(out), 1), view(machine.reg(a), 2), k, n, machine.packed(weight.T), slot, flags
            )
            machine.run(block=30)
            wanted = a[:, 2 : k + 2].astype(np.float64) @ weight.T + biased * bias + flags * before[:, 1 : n + 1]
            assert_close(out[:, 1 : n + 1], wanted)
            assert (out[:, 0] == before[:, 0]).all() and (out[:, -1] == before[:, -1]).all()


@pytest.mark.parametrize(("k", "n"), SHAPES)
def test_gradients_of_weights_are_those_of_numpy(k: int, n: int) -> None:
    for nodes in COUNTS:
        machine = Machine(nodes)
        grad, given = machine.normal(NODE, n + 2), machine.normal(NODE, k + 3)
        weight = machine.random.standard_normal((n, k + 1)).astype(np.float32)
        bias = np.ones(n, np.float32)
        before = weight.astype(np.float64)
        slot = machine.slot(weight), machine.slot(k + 1)
        a = view(machine.reg(grad), 1)
        machine.emit("GEMM_DW", NONE, a, view(machine.reg(given), 2), n, slot[0], k)
        machine.emit("COLSUM", NONE, a, NONE, n, machine.slot(bias))
        machine.run(block=30)
        product = grad[:, 1 : n + 1].T.astype(np.float64) @ given[:, 2 : k + 2]
        assert_close(weight[:, :k], before[:, :k] + product)
        assert (weight[:, k] == before[:, k]).all()
        assert_close(bias, 1 + grad[:, 1 : n + 1].sum(0, dtype=np.float64))


@pytest.mark.parametrize("block", [1, 5, 1000])
def test_a_cell_of_a_tree_runs_through_scratch_and_saved_values(block: int) -> None:
    for nodes in COUNTS:
        machine = Machine(nodes, seed=5)
        hidden, given = machine.normal(CHILD, 10), machine.normal(NODE, 10)
        weight = machine.random.standard_normal((20, 10)).astype(np.float32)
        out, saved = np.zeros((nodes, 10), np.float32), np.zeros(7 + 20 * nodes, np.float32)
        machine.args[1] = machine.slot(saved) and saved.ctypes.data
        machine.regs.append((NODE, 20, SAVED, machine.slot(7)))
        gates, children = 0, machine.reg(hidden, CHILD)
        summed, left = machine.scratch(10, 0), machine.scratch(10, 1)
        squashed = machine.scratch(10, 2, CHILD)
        machine.emit("TANH", squashed, children, NONE, 10)
        machine.emit("SEGSUM", summed, squashed, NONE, 10)
        machine.emit("ADD", summed, summed, machine.reg(given), 10)
        machine.emit("GEMM", gates, summed, 10, 20, machine.packed(weight.T), NONE)
        machine.emit("SIGMOID", gates, gates, NONE, 10)
        machine.emit("TANH", left, view(gates, 10), NONE, 10)
        machine.emit("MUL", machine.reg(out), gates, left, 10)
        machine.run(block)
        total = given.astype(np.float64)
        np.add.at(total, machine.owner, np.tanh(hidden.astype(np.float64)))
        both = total @ weight.T
        assert_close(out, sigmoid(both[:, :10]) * np.tanh(both[:, 10:]))
        assert (saved[:7] == 0).all()
        assert_close(saved[7:].reshape(nodes, 20)[:, 10:], both[:, 10:])


@pytest.mark.parametrize("far", [0, 3])
def test_an_operand_may_be_where_the_result_goes(far: int) -> None:
    for w in (1, 5, 16, 19, 37, 100):
        machine = Machine(13)
        a, b = machine.normal(NODE, w + far), machine.normal(NODE, w + far)
        first, second = a[:, far:].astype(np.float64), b[:, far:].astype(np.float64)
        at = view(machine.reg(a), far), view(machine.reg(b), far)
        machine.emit("TANH", at[0], at[0], NONE, w)
        machine.emit("MUL", at[1], at[0], at[1], w)
        machine.emit("SIGMOID", at[0], at[0], NONE, w, flags=ACC)
        machine.emit("SOFTMAX", at[1], at[1], NONE, w)
        machine.run()
        assert_close(a[:, far:], np.tanh(first) + sigmoid(np.tanh(first)))
        assert_close(b[:, far:], softmax(np.tanh(first) * second))


def test_threads_run_programs_at_the_same_time() -> None:
    machines, found = [Machine(100, seed) for seed in range(4)], []
    for machine in machines:
        out, given = machine.normal(NODE, 64), machine.normal(NODE, 64)
        regs = machine.reg(out), machine.reg(given), machine.scratch(64, 0)
        machine.emit("TANH", regs[2], regs[1], NONE, 64)
        machine.emit("GEMM", regs[0], regs[2], 64, 64, machine.packed(np.eye(64, dtype=np.float32)), NONE)
        found.append((out, np.tanh(given.astype(np.float64))))
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            list(pool.map(Machine.run, machines))
    for out, wanted in found:
        assert_close(out, wanted)


def values_of(op: str, given: np.ndarray) -> np.ndarray:
    machine = Machine(1)
    out = np.zeros((1, given.size), np.float32)
    machine.emit(op, machine.reg(out), machine.reg(given[None].copy()), NONE, given.size)
    machine.run()
    return out[0]


@pytest.mark.parametrize(
    ("op", "function", "low", "high"),
    [
        ("EXP", np.exp, -87, 88.7),
        ("SIGMOID", sigmoid, -87, 100),
        ("TANH", np.tanh, -100, 100),
        ("SOFTRELU", lambda a: np.logaddexp(0, a), -87, 100),
    ],
)
def test_functions_are_right_in_relative_terms(op: str, function: Callable[..., Any], low: float, high: float) -> None:
    near = np.concatenate([sign * np.logspace(-30, 0, 301) for sign in (-1, 1)])
    given = np.concatenate([np.linspace(low, high, 40001), near, np.linspace(-3, 3, 30001)]).astype(np.float32)
    given = given[given != 0]
    wanted = function(given.astype(np.float64))
    assert np.max(np.abs(values_of(op, given) / wanted - 1)) <= 1e-6


def test_log_is_right_in_relative_terms() -> None:
    given = np.concatenate([np.logspace(-44, 38, 20001), np.linspace(0.5, 2, 20001)]).astype(np.float32)
    given = given[given != 1]
    assert np.max(np.abs(values_of("LOG", given) / np.log(given.astype(np.float64)) - 1)) <= 1e-6


def test_functions_keep_nan_and_reach_their_limits() -> None:
    given = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0], np.float32)
    expected = {
        "EXP": [np.nan, np.inf, 0, np.inf, 0, 1],
        "SIGMOID": [np.nan, 1, 0, 1, 0, 0.5],
        "TANH": [np.nan, 1, -1, 1, -1, 0],
        "SOFTRELU": [np.nan, np.inf, 0, 3e38, 0, np.log(2)],
        "LOG": [np.nan, np.inf, np.nan, np.log(3e38), np.nan, -np.inf],
        "RELU": [np.nan, np.inf, 0, 3e38, 0, 0],
    }
    for op, wanted in expected.items():
        np.testing.assert_allclose(values_of(op, np.tile(given, 7)), np.tile(wanted, 7), rtol=1e-6, err_msg=op)


def test_nan_goes_through_what_compares_and_products() -> None:
    for op in ("MAX", "MIN"):
        machine = Machine(1)
        a, b = np.array([[np.nan, 1, 2]], np.float32), np.array([[1, np.nan, 3]], np.float32)
        machine.emit(op, machine.reg(a), machine.reg(a), machine.reg(b), 3)
        machine.run()
        assert np.isnan(a[0]).tolist() == [True, True, False]
    for op in ("SOFTMAX", "LOGSOFTMAX"):
        assert np.isnan(values_of(op, np.array([1, np.nan, 2], np.float32))).all()
    machine = Machine(2)
    given, out = np.ones((2, 3), np.float32), np.zeros((2, 2), np.float32)
    given[1, 2] = np.nan
    machine.emit("GEMM", machine.reg(out), machine.reg(given), 3, 2, machine.packed(np.ones((3, 2), np.float32)), NONE)
    largest = np.zeros((2, 1), np.float32)
    machine.emit("MAXW", machine.reg(largest), 1, NONE, 3)
    machine.run()
    assert out[0].tolist() == [3, 3] and np.isnan(out[1]).all()
    assert largest[0, 0] == 1 and np.isnan(largest[1, 0])


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ((99, 0, 0, NONE, 4, 0, 0, 0), "no such operation"),
        ((7, 0, 5, NONE, 4, 0, 0, 0), "columns that no register has"),
        ((7, view(0, 1), 0, NONE, 4, 0, 0, 0), "columns that no register has"),
        ((7, 0, NONE, NONE, 4, 0, 0, 0), "columns that no register has"),
        ((0, 0, NONE, NONE, 4, 2, 0, 0), "a slot that args does not have"),
        ((7, 0, 0, NONE, -4, 0, 0, 0), "negative width"),
    ],
)
def test_a_faulty_program_is_refused(instruction: tuple[int, ...], message: str) -> None:
    machine = Machine(3)
    machine.reg(machine.normal(NODE, 4))
    machine.code.append(instruction)
    with pytest.raises(ValueError, match=message):
        machine.run()


def test_buffers_of_other_types_are_refused() -> None:
    good = np.zeros((0, 8), np.int32), np.zeros((0, 4), np.int32), np.zeros(2, np.int64)
    rows.run(*good, 0, 1)
    with pytest.raises(ValueError, match="code is int32"):
        rows.run(good[0].astype(np.int64), *good[1:], 0, 1)
    with pytest.raises(ValueError, match="args has to begin"):
        rows.run(*good[:2], np.zeros(1, np.int64), 0, 1)
    with pytest.raises(TypeError, match="takes code, regs, args"):
        rows.run(*good)


def test_operations_are_numbered_and_kernels_named(kernels: str) -> None:
    assert rows.features() == kernels
    assert list(OPS.values()) == list(range(61))
    assert (OPS["GATHER"], OPS["ADD"], OPS["FILL"], OPS["SUMW"], OPS["SUBW"]) == (0, 26, 41, 48, 60)
    assert not rows.use("none such")
