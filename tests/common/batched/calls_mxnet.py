"""Counts the operators of MXNet in the graphs of steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from batched.calls import Note, is_cell
from gluonjit.engines.mxnet.session import Session


@contextmanager
def counting(note: Note) -> Iterator[None]:
    """Note the steps of cells that run meanwhile."""
    run = Session.run_graph

    def counted(session: Any, number: int) -> None:
        run(session, number)
        step = session.plan.steps[number]
        if is_cell(step.kind):
            note(step.kind.name, id(step.kind.program), step.count, operators(step.kind.program.graph))

    with patch.object(Session, "run_graph", counted):
        yield


def operators(graph: Any) -> int:
    """Count the nodes of a graph that call an operator."""
    return sum(node["op"] != "null" for node in json.loads(graph.tojson())["nodes"])
