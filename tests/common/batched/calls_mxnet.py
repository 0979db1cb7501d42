"""Counts the operators of MXNet in the graphs of steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from batched.calls import Note, is_cell
from gluonjit.engines.mxnet.run.memory import Session


@contextmanager
def counting(note: Note) -> Iterator[None]:
    """Note the steps of cells that run meanwhile."""
    run = Session.run_graph

    def counted(session: Any, number: int) -> None:
        run(session, number)
        step = session.plan.steps[number]
        if is_cell(step.kind):
            note(step.kind.name, id(step.kind.program), step.count, step.kind.program.operators)

    with patch.object(Session, "run_graph", counted):
        yield
