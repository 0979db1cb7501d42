"""A table of hostile calls, run one by one in a process of its own: a crash is the fault of the call named last."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
Call = Callable[[], Any]
REPEATS = 8
ROUNDS = 16  # what a call keeps it keeps in all of them; caches of Python's and numpy's are full before


class Harm(Exception):
    """What a call has done to more than itself."""


class Case(NamedTuple):
    """A call, and the exception that it has to end in; None where it may also return."""

    name: str
    call: Call
    raises: type[BaseException] | tuple[type[BaseException], ...] | None


def outcome_of(call: Call) -> tuple[BaseException | None, Any]:
    """The exception a call ends in, or None, and what it returns."""
    try:
        return None, call()
    except BaseException as error:  # the whole point: whatever it is, it is an exception
        return error.with_traceback(None), None


def blocks_after(call: Call) -> int:
    """How many blocks of memory are in use after a call has come a number of times."""
    for _ in range(REPEATS):
        outcome_of(call)
    sys.stdout.flush()  # what `print` keeps until then
    gc.collect()
    return sys.getallocatedblocks()


def told(case: Case, leaks: bool) -> dict[str, Any]:
    """Run a case and describe how it ended; "wrong" says what is not as it has to be, memory kept where `leaks`."""
    error, result = outcome_of(case.call)
    wrong = ""
    if case.raises is not None and not isinstance(error, case.raises):
        wrong = f"it ended in {error!r} and gave {result!r}"
    elif isinstance(error, Harm):
        wrong = f"it ended in {error!r}"
    elif isinstance(error, SystemError) and "with an exception set" in str(error):
        wrong = f"it gave something and set an exception: {error.__cause__!r}"
    del result
    counts = [blocks_after(case.call) for _ in range(2)] if leaks else [0, 0]
    while len(counts) < ROUNDS and counts[-1] - counts[-2] >= REPEATS:  # at first, caches fill
        counts.append(blocks_after(case.call))
    if counts[-1] - counts[-2] >= REPEATS:
        wrong += f" it keeps {counts[-1] - counts[-2]} blocks of memory in {REPEATS} calls"
    return {"name": case.name, "error": None if error is None else type(error).__name__, "wrong": wrong}


def run(cases: list[Case], leaks: bool = True) -> None:
    """Run cases from the number in the arguments on. Each is named before it runs."""
    gc.collect()
    gc.freeze()  # what is there already needs no look after each call
    for case in cases[int(sys.argv[1]) if len(sys.argv) > 1 else 0 :]:
        print(json.dumps({"next": case.name}), flush=True)
        print(json.dumps(told(case, leaks)), flush=True)
    print(json.dumps({"done": len(cases)}), flush=True)


def outcomes(script: str) -> list[dict[str, Any]]:
    """How the cases of a script ended."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", f"tests/common/{script}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    assert lines, done.stderr
    assert done.returncode == 0 and "done" in lines[-1], f"{lines[-1]} ended the process:\n{done.stderr[-3000:]}"
    return [line for line in lines if "name" in line]
