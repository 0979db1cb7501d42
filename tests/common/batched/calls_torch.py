"""Counts the operators of ATen that steps call, forward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch.utils._python_dispatch import TorchDispatchMode

from batched.calls import Note, is_cell
from gluonjit.engines.torch.run import gradients, memory, one_by_one


class Calls(TorchDispatchMode):
    """Counts the operators that are called in it."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += 1
        return func(*args, **(kwargs or {}))


@contextmanager
def counting(note: Note) -> Iterator[None]:
    """Note the steps of cells that run meanwhile."""
    run = one_by_one.run_step

    def counted(step: Any, *given: Any) -> Any:
        if not is_cell(step.kind):
            return run(step, *given)
        with Calls() as calls:
            results = run(step, *given)
        note(step.kind.name, id(step.kind.program), step.count, calls.number)
        return results

    with patch.object(memory, "run_step", counted), patch.object(gradients, "run_step", counted):
        yield
