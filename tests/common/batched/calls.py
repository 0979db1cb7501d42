"""How many operators of the framework a step of each of the zoo's cells calls, batched as it is.

A row is a cell of a model, in training or inference, and has the number of each of its programs, the largest first:
where programs become fewer, as one for any number of children takes the place of several, the others keep their places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

import gluonjit
from batched.committed import Committed, Differences, Rows
from experiments.coverage import FORCED
from experiments.coverage.collection import collection

OPTIONS = {**FORCED, "without": ("fused", "hoisting")}
"""Nothing runs in C, and each cell is one program: what a cell calls does not depend on what else there is."""

_NUMBER = re.compile(r"^([a-z0-9]*[a-z])\d+")
"""Gluon numbers blocks by how many of their class a process has made before: `dense2`, and `dense2_lstm0` in it."""

COUNTED_WITH = {"torch": "2.13.", "mxnet": "1.9.1"}
"""The versions that the counts are of: another one may take operators apart otherwise."""

Note = Callable[[str, int, int, int], None]
"""Takes note of a step: its cell, its program, its number of nodes, and its calls of the framework."""


def is_cell(kind: Any) -> bool:
    """Return True if a kind is that of a cell, which runs batched; sums of the program's own are none."""
    return not (kind.operator or kind.lone or kind.sum_of)


def rows(engine: str, models: Iterable[str] = ()) -> Rows:
    """Return the calls of each cell of the zoo; of these models alone, if any are named."""
    counting: Callable[[Note], AbstractContextManager[None]] = import_module(f"batched.calls_{engine}").counting
    found: dict[str, dict[int, tuple[bool, int]]] = {}
    for program in collection("zoo"):
        _, framework, model, phase = program.name.split("/")
        if framework != engine or (models and model not in models):
            continue

        def note(cell: str, number: int, nodes: int, calls: int, before: str = f"{model}/{phase}/") -> None:
            known = found.setdefault(before + _NUMBER.sub(r"\1", cell), {})
            known[number] = max(known.get(number, (False, 0)), (nodes > 1, calls))  # one node is the odd case

        gluonjit.clear_caches()
        with counting(note):
            program.start(OPTIONS)()
    return {name: sorted((calls for _, calls in known.values()), reverse=True) for name, known in found.items()}


def differences(before: Rows, now: Rows) -> Differences:
    """Return the cells that make more calls than committed, fewer, and new ones."""
    found = Differences([], [], [])
    for name, then in before.items():
        today = now.get(name, [])
        text = f"{name}: {today} calls, not {then}"
        if not today:
            found.worse.append(f"{name}: it does not run as a cell, in {then} calls")
        elif any(calls > then[min(place, len(then) - 1)] for place, calls in enumerate(today)):
            found.worse.append(text)
        elif today != then:
            found.better.append(text)
    found.new.extend(f"{name}: {calls} calls, and not committed" for name, calls in now.items() if name not in before)
    return found


def committed(engine: str) -> Committed:
    """Return the file of an engine."""
    return Committed(Path(__file__).with_name(f"calls-{engine}.json"), differences)
