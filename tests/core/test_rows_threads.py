"""Row programs shared by threads: every bit is as with one, in forked processes and beside other callers too."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from rows_random import RandomProgram
from rows_support import CHILD, KERNELS, NODE, NONE, SCRATCH, Machine, each_kernel, rows, view

kernels = pytest.fixture(params=KERNELS, autouse=True)(each_kernel)

THREADS = (2, 3, 4, 7)


@pytest.fixture(autouse=True)
def everything_is_shared() -> Iterator[None]:
    """However little work there is."""
    before = rows.worth(0)
    yield
    assert rows.worth(before) == 0


class Summing(RandomProgram):
    """Sums over rows come last, as the programs of cells have them, and several are added to one array."""

    def __init__(self, seed: int, nodes: int) -> None:
        super().__init__(seed, nodes)
        for _ in range(4):
            super()._sum()
        for space in (NODE, CHILD):
            self._sums_that_meet(space)

    def scratch(self, width: int, number: int, space: int = NODE) -> int:
        """Rows of one space and width share a buffer, as those of cells do."""
        alike = [reg for reg in self.regs if reg[:3] == (space, width, SCRATCH)]
        return super().scratch(width, alike[0][3] if alike else len(self.regs), space)

    def _sum(self) -> None:
        """None yet."""

    def _sums_that_meet(self, space: int) -> None:
        """Added to parts of one matrix, some of which overlap, and to rows of one array of rows."""
        a, b = self.reg(self.normal(space, 34), space), self.reg(self.normal(space, 40), space)
        weight, gradient = np.ones(17 * 40, np.float32), self.normal(NODE, 17)
        index = self.random.integers(0, self.nodes - 1, self.counts[space]).astype(np.int32)
        parts = ((0, 17, 0, 40), (0, 17, 0, 40), (9, 8, 0, 40), (0, 17, 0, 12), (0, 17, 12, 28))
        for top, down, left, across in parts:
            slot = self.slot(weight[40 * top + left :]), self.slot(40)
            self.emit("GEMM_DW", NONE, view(a, top), view(b, left), down, slot[0], across)
        for first in (0, 1, 0):
            slot = self.slot(gradient[first:]), self.slot(index)
            self.emit("SCATTER", NONE, view(a, first), NONE, 17, slot[0])
        for first in (0, 8):
            self.emit("COLSUM", NONE, view(b, first), NONE, 23, self.slot(weight[120:]))


def results(seed: int, nodes: int, threads: int, block: int) -> list[np.ndarray]:
    """All that a program has written to."""
    program = Summing(seed, nodes)
    program.run(block, threads)
    return [array.view(np.uint32) for array in [*program.held, program.saved] if array.dtype == np.float32]


@pytest.mark.parametrize("seed", range(60))
def test_every_bit_is_as_with_one_thread(seed: int) -> None:
    nodes, block = (3, 20, 100, 150)[seed % 4], (7, 16, 64)[seed % 3]
    alone = results(seed, nodes, 1, block)
    for threads in THREADS:
        for found, wanted in zip(results(seed, nodes, threads, block), alone):
            assert (found == wanted).all()


def test_rows_narrower_than_a_vector_are_as_with_one_thread() -> None:
    """Rows that lie one after the other are gone through as one, which begins and ends elsewhere then."""
    ops = ("SIGMOID", "TANH", "EXP", "SOFTRELU", "LOGSOFTMAX", "SOFTMAX")
    for width in (1, 2, 3, 5, 9, 15):
        for nodes in (2, 5, 67):
            written = []
            for threads in (1, *THREADS):
                machine = Machine(nodes, seed=width)
                a = machine.reg(machine.normal(NODE, width))
                outs = [np.zeros((nodes, width), np.float32) for _ in ops]
                for op, out in zip(ops, outs):
                    machine.emit(op, machine.reg(out), a, NONE, width)
                machine.run(64, threads)
                written.append(np.stack(outs).view(np.uint32))
            assert all((found == written[0]).all() for found in written[1:])


def test_sums_before_other_instructions_are_one_threads() -> None:
    for threads in (1, 3):
        machine = Machine(100)
        given, total, out = machine.normal(NODE, 8), np.zeros((1, 8), np.float32), machine.normal(NODE, 8)
        machine.emit("COLSUM", NONE, machine.reg(given), NONE, 8, machine.slot(total))
        machine.emit("ADDV", machine.reg(out), machine.reg(given), NONE, 8, machine.slot(total))
        machine.run(64, threads)
        first = given[:64].sum(0) + given[:64]
        assert np.allclose(out[:64], first, atol=1e-4)
        assert np.allclose(out[64:], given.sum(0) + given[64:], atol=1e-4)


def test_threads_that_run_programs_at_once_do_not_meet() -> None:
    wanted = [results(seed, 100, 1, 16) for seed in range(4)]
    wrong: list[int] = []

    def run(seed: int) -> None:
        for _ in range(20):
            found = results(seed, 100, 3, 16)
            wrong.extend([seed for one, other in zip(found, wanted[seed]) if not (one == other).all()])

    callers = [Thread(target=run, args=(seed,)) for seed in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


FORKED = """
    import os
    import sys
    from time import monotonic
    import numpy as np
    from test_rows_threads import results, rows

    def threads():
        return len(os.listdir("/proc/self/task"))

    def right(count):
        return all((one == other).all() for one, other in zip(results(5, 100, count, 16), wanted))

    def has(count, wanted):  # at last: where others have the cores it does without them for a second
        end = monotonic() + 60
        while right(count) and threads() != wanted and monotonic() < end:
            pass
        return right(count) and threads() == wanted

    rows.worth(0)
    wanted = results(5, 100, 1, 16)
    before = threads()
    assert has(3, before + 2), threads()
    assert right(2) and has(3, before + 2)
    for _ in range(20):
        child = os.fork()
        if not child:
            alone = threads()
            found = alone == 1 and has(2, 2)
            os._exit(0 if found else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert has(4, before + 3)
    print("ended")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads as Linux tells them")
def test_a_child_of_a_fork_begins_without_threads_and_has_its_own(kernels: str) -> None:
    if kernels != rows.features():
        return
    here = Path(__file__)
    paths = [str(here.parent), str(here.parents[1] / "common"), str(here.parents[2])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FORKED)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "ended\n", done.stderr
