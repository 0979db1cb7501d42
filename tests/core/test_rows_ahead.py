"""Row programs that run while Python goes on: what they write, what is wrong with them, signals and forks."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest
from rows_random import RandomProgram
from rows_support import DIRECT, NODE, NONE, OPS, rows

CODE = np.array([(OPS["ADDS"], 0, 0, NONE, 4, 0x3F800000, 0, 0)], np.int64)  # x += 1
REGS = np.array([(NODE, 4, DIRECT, 2)], np.int32)


class Adding:
    """Launches that each add 1 to an array."""

    def __init__(self, count: int, rows: int = 3) -> None:
        self.array = np.zeros((rows, 4), np.float32)
        self.args = np.array([(0, 0), (0, 0), (self.array.ctypes.data, self.array.nbytes)], np.int64)
        self.launches = np.array(count * [(0, 0, 3, rows, 0)], np.int64)

    def start(self, kept: Any = None) -> Any:
        return rows.start(((CODE, REGS),), self.launches, self.args, 64, 1, self if kept is None else kept)


def test_launches_run_in_their_order_and_say_when() -> None:
    adding = [Adding(50) for _ in range(4)]
    flights = [one.start() for one in adding]
    ends = []
    for flight, one in zip(flights, adding):
        begin, end, wrong = flight.wait()
        assert wrong is None
        assert begin <= end
        assert flight.next == 50
        assert (one.array == 50).all()
        assert (one.launches[:, 4] >= 0).all()
        ends.append((begin, end))
        assert flight.wait() == (begin, end, None)
    assert all(later[0] >= earlier[1] for earlier, later in zip(ends, ends[1:]))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("threads", [1, 3])
def test_every_bit_is_as_of_run(seed: int, threads: int) -> None:
    def arrays(program: RandomProgram) -> list[np.ndarray]:
        return [array.view(np.uint32) for array in [*program.held, program.saved] if array.dtype == np.float32]

    wanted, found = RandomProgram(seed, 60), RandomProgram(seed, 60)
    wanted.run(16, 1)
    code, regs = np.array(found.code, np.int64).reshape(-1, 8), np.array(found.regs, np.int32).reshape(-1, 4)
    launches = np.array([[0, 0, len(found.args), 60, 0]], np.int64)
    args = np.array(found.args, np.int64)
    assert rows.start(((code, regs),), launches, args, 16, threads, found).wait()[2] is None
    for mine, other in zip(arrays(found), arrays(wanted)):
        assert (mine == other).all()


def test_what_is_wrong_is_said_and_the_next_one_runs() -> None:
    adding, other = Adding(5), Adding(5)
    adding.launches[3, 0] = 7
    broken, good = adding.start(), other.start()
    for _ in range(2):
        assert broken.wait()[2] == "a launch has no such program"
        assert broken.next == 3
    assert (adding.array == 3).all()
    assert good.wait()[2] is None
    assert (other.array == 5).all()


def test_a_launch_that_cannot_be_read_is_refused_at_once() -> None:
    adding = Adding(1)
    with pytest.raises(ValueError, match="launches int64"):
        rows.start(((CODE, REGS),), adding.launches[:, :4].copy(), adding.args, 64, 1, None)
    with pytest.raises(TypeError):
        rows.start(((CODE, REGS),), adding.launches, adding.args, 64)


def test_what_it_needs_lives_as_long_as_it_runs() -> None:
    adding = Adding(2000)
    gone = weakref.ref(adding)
    flight = adding.start()
    del adding
    gc.collect()
    assert gone() is not None
    flight.wait()
    del flight
    gc.collect()
    assert gone() is None


def test_what_nobody_holds_stops() -> None:
    adding = Adding(3_000_000)
    flight = adding.start(kept=0)
    del flight  # which waits for a launch, and no longer
    done = adding.array.copy()
    assert done.max() < 3_000_000
    after = Adding(1)
    after.start().wait()
    assert (adding.array == done).all()


def test_a_signal_ends_the_wait_and_not_the_launches() -> None:
    """More launches than can have run by the time that the signal comes."""
    adding = Adding(300_000, 400)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        flight = adding.start()
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            flight.wait()
            time.sleep(60)  # where the signal comes late
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert flight.wait()[2] is None
    assert (adding.array == 300_000).all()


def test_several_threads_wait() -> None:
    flight, found = Adding(20_000).start(), []
    callers = [threading.Thread(target=lambda: found.append(flight.wait())) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(set(found)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_waits_and_the_child_begins_anew() -> None:
    adding = Adding(20_000)
    flight = adding.start()
    child = os.fork()
    if not child:
        good = flight.wait()[2] is None and bool((adding.array == 20_000).all())
        other = Adding(7)
        good = good and other.start().wait()[2] is None and bool((other.array == 7).all())
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (adding.array == 20_000).all()
