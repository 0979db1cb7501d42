"""Row programs in C: indices, children, products, blocks and threads, and what is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from rows_cases import COLUMNS, by_node
from rows_support import (
    ACC,
    CHILD,
    COUNTS,
    KERNELS,
    NODE,
    NONE,
    OPS,
    SAVED,
    Machine,
    assert_close,
    bits,
    each_kernel,
    extent,
    rows,
    sigmoid,
    softmax,
    view,
)

kernels = pytest.fixture(params=KERNELS, autouse=True)(each_kernel)


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


@pytest.mark.parametrize("op", COLUMNS)
@pytest.mark.parametrize("flags", [0, ACC])
def test_a_column_of_children_is_taken_as_a_row_of_each_node(op: str, flags: int) -> None:
    for nodes, block in product(COUNTS, (1, 4, 1000)):
        machine = Machine(nodes, seed=4)
        given = [machine.normal(CHILD, 1) for _ in range(2 if op.startswith("D") else 1)]
        out = machine.normal(CHILD, 1)
        before, regs = out.astype(np.float64), [machine.reg(array, CHILD) for array in given]
        machine.emit(op, machine.reg(out, CHILD), regs[0], (*regs, NONE)[1], 1, flags=flags)
        machine.run(block)
        wanted = by_node(COLUMNS[op], machine.first, *[array.astype(np.float64) for array in given])
        assert_close(out, wanted + flags * before)


@pytest.mark.parametrize(("width", "space"), [(2, CHILD), (1, NODE)])
def test_a_column_of_children_is_all_of_a_register(width: int, space: int) -> None:
    machine = Machine(13)
    reg = machine.reg(machine.normal(space, width), space)
    machine.emit("SEGSOFTMAX", reg, reg, NONE, 1)
    with pytest.raises(ValueError, match=r"no register has|mixes rows"):
        machine.run()


SHAPES = [(1, 1), (1, 33), (7, 16), (16, 31), (33, 17), (5, 32), (3, 48), (50, 100), (64, 65)]


@pytest.mark.parametrize(("k", "n"), SHAPES)
def test_panels_hold_a_matrix_of_any_strides_and_zeros(k: int, n: int) -> None:
    panel = rows.packed_size(1, 1)
    values = np.arange(1, 4 * k * n + 1, dtype=np.float32)
    for matrix in (
        values.reshape(k, 4 * n)[:, :n],
        values.reshape(n, 4 * k)[:, :k].T,
        values.reshape(2 * k, 2 * n)[::2, ::2],
    ):
        target = np.full(rows.packed_size(k, n) + 1, np.nan, np.float32)
        strides = [stride // 4 for stride in matrix.strides]
        rows.pack(matrix.ctypes.data, extent(matrix), k, n, *strides, target)
        filled = np.zeros((k, -(-n // panel) * panel), np.float32)
        filled[:, :n] = matrix
        assert (target[:-1].reshape(-1, k, panel) == filled.reshape(k, -1, panel).swapaxes(0, 1)).all()
        assert np.isnan(target[-1])


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
    for nodes in (*range(10), 13, 100):
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
        machine.args[1] = (saved.ctypes.data, saved.nbytes)
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


def test_programs_run_one_after_the_other_in_scratch_that_grows() -> None:
    wanted = np.random.default_rng(0).standard_normal((13, 9)).astype(np.float32)
    machines, buffers = [], [wanted.copy()]
    for k in range(5):  # each doubles in scratch, more of it than the one before had, what that one gave
        nodes = 0 if k == 3 else 13
        machine = Machine(nodes)
        buffers.append(np.zeros_like(wanted))
        link = machine.scratch(9 * k + 9, 0)
        machine.emit("ADD", link, machine.reg(buffers[k]), 1, 9)
        machine.emit("COPY", machine.reg(buffers[k + 1]), link, NONE, 9)
        machines.append(machine)
    for machine in machines:
        machine.run()
    assert [float(each[0, 0] / wanted[0, 0]) for each in buffers] == [1, 2, 4, 8, 0, 0]
    assert (buffers[3] == 8 * wanted).all()


def test_nothing_runs_of_a_faulty_program() -> None:
    machine, out = Machine(3), np.zeros((3, 4), np.float32)
    machine.emit("FILL", machine.reg(out), NONE, NONE, 4, bits(1.0))
    machine.emit("FILL", 7, NONE, NONE, 4)
    with pytest.raises(ValueError, match="columns that no register has"):
        machine.run()
    assert (out == 0).all()
    machine.code.pop()
    machine.run()
    assert (out == 1).all()


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


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ((99, 0, 0, NONE, 4, 0, 0, 0), "no such operation"),
        ((7, 0, 5, NONE, 4, 0, 0, 0), "columns that no register has"),
        ((7, view(0, 1), 0, NONE, 4, 0, 0, 0), "columns that no register has"),
        ((7, 0, NONE, NONE, 4, 0, 0, 0), "columns that no register has"),
        ((0, 0, NONE, NONE, 4, 4, 0, 0), "a slot that args does not have"),
        ((7, 0, 0, NONE, -4, 0, 0, 0), "negative width"),
        ((7, 1, 0, NONE, 4, 0, 0, 0), "mixes rows of nodes and of children"),
        ((26, 0, 0, 1, 4, 0, 0, 0), "mixes rows of nodes and of children"),
        ((5, 0, 0, NONE, 4, 0, 0, 0), "mixes rows of nodes and of children"),
        ((6, 1, 1, NONE, 4, 0, 0, 0), "mixes rows of nodes and of children"),
        ((0, 0, NONE, NONE, 4, 3, 0, 0), "a slot that args does not have"),
    ],
)
def test_a_faulty_program_is_refused(instruction: tuple[int, ...], message: str) -> None:
    machine = Machine(3)
    machine.reg(machine.normal(NODE, 4))
    machine.reg(machine.normal(CHILD, 4), CHILD)
    machine.code.append(instruction)
    with pytest.raises(ValueError, match=message):
        machine.run()


def test_buffers_of_other_types_are_refused() -> None:
    code, regs = np.zeros((0, 8), np.int64), np.zeros((0, 4), np.int32)
    good = ((code, regs),), np.array([[0, 0, 2, 0, 0]], np.int64), np.zeros((2, 2), np.int64)
    assert rows.run(*good, 1, 0) == 1
    with pytest.raises(ValueError, match="code is int64"):
        rows.run(((code.astype(np.int32), regs),), *good[1:], 1, 0)
    with pytest.raises(TypeError, match="programs are a tuple"):
        rows.run([(code, regs)], *good[1:], 1, 0)
    with pytest.raises(ValueError, match="launches"):
        rows.run(good[0], good[1].astype(np.int32), good[2], 1, 0)
    with pytest.raises(ValueError, match="no such slots"):
        rows.run(*good[:2], np.zeros((1, 2), np.int64), 1, 0)
    with pytest.raises(TypeError, match="takes programs, launches, args"):
        rows.run(*good)


def test_operations_are_numbered_and_kernels_named(kernels: str) -> None:
    assert rows.features() == kernels
    assert list(OPS.values()) == list(range(len(OPS))) and OPS["GATHER"] == 0
    assert OPS["ADD"] < OPS["FILL"] < OPS["SUMW"] < OPS["XLOGY"] < OPS["DSEGSOFTMAX"] == len(OPS) - 1
    assert not rows.use("none such")
