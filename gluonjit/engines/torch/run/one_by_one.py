"""Runs nodes of a step one by one, from their traces: to compare a program with them, and in its place."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from gluonjit.analysis.plan import Step
from gluonjit.engines.torch.framework.arrays import (
    device_named,
    dtype_named,
    host_numbers,
    name_of_dtype,
    room_for,
    sent,
    spec_of,
)
from gluonjit.engines.torch.framework.originals import plain, run_backward
from gluonjit.engines.torch.run.program import build, interpret, join, piece, program_of
from gluonjit.graph import Arrays, Kind
from gluonjit.hybrid.check.runner import WIDE, NodeRunner
from gluonjit.program.trace import Built, Trace


class TorchNodes(NodeRunner):
    """PyTorch's."""

    piece, spec_of = staticmethod(piece), staticmethod(spec_of)
    interpret, room_for = staticmethod(interpret), staticmethod(room_for)

    def sent(self, numbers: Any, device: str) -> Any:
        return sent(numbers, device_named(device))

    def take(self, array: Any, index: Any) -> Any:
        return array.index_select(0, index)

    def copy(self, rows: Any, to: Any) -> None:
        to.copy_(rows.detach())

    def wait(self) -> None:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    def address(self, array: Any) -> int | None:
        plain = array.device.type == "cpu" and array.layout is torch.strided and array.is_contiguous()
        if not plain or array.is_conj() or array.is_neg():
            return None
        return int(array.data_ptr()) or None

    def numbers(self, array: Any, rows: list[int]) -> Any:
        return self.numbers_of(array[rows])

    def numbers_of(self, array: Any) -> Any:
        dense = array.to_dense() if array.layout is not torch.strided else array
        return host_numbers(dense.detach().resolve_conj().resolve_neg()).copy()

    def array_of(self, numbers: Any, dtype: str, device: str) -> Any:
        return torch.from_numpy(np.asarray(numbers)).to(device_named(device), dtype_named(dtype))

    def detached(self, array: Any, copied: bool) -> Any:
        return array.detach().clone() if copied else array.detach()

    def learns(self, array: Any) -> bool:
        return bool(array.requires_grad)

    def track(self, array: Any) -> None:
        array.requires_grad_()

    def gradients(self, pairs: list[tuple[Any, Any]], sources: list[Any]) -> Arrays:
        pairs = [pair for pair in pairs if pair[0].requires_grad]
        found = run_backward(*map(tuple, zip(*pairs)), False, False, tuple(sources), True, False) if pairs else ()
        return [None if gradient is None else self.numbers_of(gradient) for gradient in found]

    def region(self, kind: Kind, mode: int, recorded: bool) -> AbstractContextManager[Any]:
        return plain(recorded)

    def wide(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple([self.wide(item) for item in value])
        name = name_of_dtype(value) if isinstance(value, torch.dtype) else ""
        return dtype_named(WIDE[name]) if name in WIDE else value

    def build(self, trace: Trace) -> Built:
        with plain():
            return build(trace, False)

    def together(self, kind: Kind, groups: list[list[Any]], consts: Arrays, count: int) -> Arrays:
        return program_of(kind)([array for group in groups for array in group], consts, count)  # type: ignore[no-any-return]


NODES = TorchNodes()


def compute_alone(step: Step, operands: Arrays, consts: Arrays) -> list[Any]:
    """Returns the results of all nodes of a step, one by one; operands are those that `pieces` gives."""
    found = NODES.compute(step, operands, consts)
    return [join(output.spec, each) for output, each in zip(step.kind.outputs, found)]


def run_step(step: Step, operands: Arrays, consts: Arrays, besides: Arrays = ()) -> list[Any]:
    """Runs a step by its program, or where there is none, or it is not trusted, one by one."""
    program = program_of(step.kind)
    if program.checks is None or program.checks.distrusted:
        return compute_alone(step, operands, consts)
    return program(operands, consts, step.count, besides)  # type: ignore[no-any-return]
