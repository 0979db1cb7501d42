"""Branches of which one side only raises an error: a program goes on with the other one until its batch runs.

Assertions are such branches, and what a library asks of its arguments, as `torch.distributions` does. The batch checks
what decided them when it has run, and raises the error then.
"""

from __future__ import annotations

import builtins
import dis
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

from gluonjit.graph import Value, user_line
from gluonjit.hybrid.capture.guards.owners import USER, owner_of
from gluonjit.hybrid.run.failures import Check
from gluonjit.hybrid.run.state import LOCAL

_OWN = str(Path(__file__).parents[2])  # the package
_SIGNALS = (StopIteration, StopAsyncIteration, AttributeError, LookupError)  # which Python itself catches
_MOST = 200  # instructions that make an error
_ENDS = frozenset({*dis.hasjrel, *dis.hasjabs, dis.opmap["RETURN_VALUE"]})


def assumed(value: Value, frame: Any) -> bool | None:
    """Returns the truth of a pending value for which the code that asks goes on, if it raises for the other; else None.

    None also where the program may catch that error.
    """
    state = LOCAL.state
    batch = state.batch
    if batch is None or value.graph is not batch.graph or state.paused:
        return None
    if state.trace is not None or state.recorded is not None:
        return None
    found = _branch(frame.f_code, frame.f_lasti)
    if found is None:
        return None
    truth, name = found
    theirs = _named(name, frame)
    if not isinstance(theirs, type) or not issubclass(theirs, Exception) or issubclass(theirs, _SIGNALS):
        return None
    if is_caught(frame, theirs):
        return None
    asked = f"{frame.f_globals.get('__name__')}, line {frame.f_lineno}"
    sample = batch.sample - 1 if state.inside else -1
    batch.graph.checks.append(Check(value, truth, theirs, user_line(), asked, sample))
    return truth


@lru_cache(maxsize=4096)
def _branch(code: CodeType, place: int) -> tuple[bool, str] | None:
    """The truth for which a branch there does not only raise, and the name of what it raises; None for other code."""
    listed = list(dis.get_instructions(code))
    at = next((number for number, each in enumerate(listed) if each.offset == place), len(listed))
    if at < len(listed) and listed[at].opname == "TO_BOOL":
        at += 1
    if at >= len(listed) or not listed[at].opname.startswith("POP_JUMP_") or "NONE" in listed[at].opname:
        return None
    jumps = listed[at].opname.endswith("TRUE")
    target = next(number for number, each in enumerate(listed) if each.offset == listed[at].argval)
    for begin, truth in ((at + 1, jumps), (target, not jumps)):
        name = _raised(listed[begin : begin + _MOST])
        if name is not None:
            return truth, name
    return None


def _raised(listed: list[dis.Instruction]) -> str | None:
    """The name of what these instructions raise, if they do nothing else."""
    name = None
    for each in listed:
        if each.opname == "RAISE_VARARGS":
            return name
        if each.opcode in _ENDS:
            return None
        if name is None and each.opname in ("LOAD_GLOBAL", "LOAD_ASSERTION_ERROR"):
            name = each.argval if each.opname == "LOAD_GLOBAL" else AssertionError.__name__
    return None


def is_caught(frame: Any, theirs: type[Exception]) -> bool:
    """True if the program, or a library that it has called, may catch such an error that is raised in this frame."""
    users = False
    while frame is not None:
        code = frame.f_code
        mine = owner_of(code, frame.f_globals) == USER
        if users and mine and "-packages" in code.co_filename:  # what runs the program
            return False
        if mine or not (users or code.co_filename.startswith(_OWN)):
            for name in _caught(code, frame.f_lasti):
                kind = _named(name, frame)
                if not isinstance(kind, type) or issubclass(theirs, kind):
                    return True
        users = users or mine
        frame = frame.f_back
    return False


def _named(name: str, frame: Any) -> Any:
    return frame.f_globals.get(name, getattr(builtins, name, None))


@lru_cache(maxsize=4096)
def _caught(code: CodeType, place: int) -> tuple[str, ...]:
    """Names of the errors that a function catches there, "" of any: `with` and `finally` let them pass."""
    entries = getattr(dis.Bytecode(code), "exception_entries", None)
    if entries is None:  # before Python 3.11
        return ("",)
    listed = list(dis.get_instructions(code))
    targets = {each.target for each in entries if each.start <= place < each.end}
    found: list[str] = []
    for number, each in enumerate(listed):
        if each.offset in targets and each.opname == "PUSH_EXC_INFO":
            found += _clauses(listed[number + 1 :])
    return tuple(found)


def _clauses(listed: list[dis.Instruction]) -> list[str]:
    """Names of the errors that a handler catches; those of later handlers count as well."""
    found: list[str] = []
    if listed[0].opname == "WITH_EXCEPT_START":
        return found
    for before, each in zip(listed, listed[1:]):
        if each.opname == "CHECK_EXC_MATCH":
            found.append(before.argval if before.opname in ("LOAD_GLOBAL", "LOAD_NAME") else "")
        elif not found and each.opname in ("POP_EXCEPT", "RERAISE"):
            return [""] if each.opname == "POP_EXCEPT" else found
    return found
