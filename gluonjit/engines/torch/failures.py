"""Runs the nodes of a failed step one by one (see `gluonjit.hybrid.run.failures`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from gluonjit.engines.torch.arrays import device_named
from gluonjit.engines.torch.program import piece, pieces, program_of
from gluonjit.graph import Record
from gluonjit.hybrid.capture.structure import map_structure
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.run import failures
from gluonjit.hybrid.run.failures import Rows, gathered, of_framework, refused

_NEXT = "gluonjit.hybridize(net, dynamic_batch=False) runs the same code eagerly."


def unfit(func: Any, args: Any, kwargs: Any, error: Exception) -> Exception:
    """The error of a function of PyTorch's that does not take such tensors: CaptureError, and PyTorch's own class."""
    if not of_framework(error):
        return error
    tensors: list[Any] = []
    map_structure((args, kwargs), lambda item: tensors.append(item) if isinstance(item, torch.Tensor) else None)
    dtypes = sorted({str(tensor.dtype) for tensor in tensors})
    devices = sorted({str(tensor.device) for tensor in tensors})
    if len(devices) > 1:
        what = f"They are on {' and '.join(devices)}: move them to one, as by x.to({devices[0]!r})"
    elif len(dtypes) > 1 and "type" in str(error):
        what = f"Their dtypes are {' and '.join(dtypes)}: convert one, as by x.to({dtypes[0]})"
    elif isinstance(error, IndexError):
        what = "Check the indices at this call"
    elif "type" in str(error):
        wanted = "torch.int64" if "Long" in str(error) or "int64" in str(error) else "torch.float32"
        what = f"Check the dtypes at this call; convert, for example with x.to({wanted})"
    else:
        what = "Check the shapes at this call"
    given = ", ".join([f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}" for tensor in tensors])
    name = getattr(func, "__name__", str(func))
    said = refused(type(error), f"{name} called on operands {given}: {str(error).rstrip('. ')}. {what}; {_NEXT}")
    said.__cause__ = error
    return said


def failed(provenance: Provenance, rows: Rows, number: int, error: Exception) -> Exception:
    """Returns the error of a step that failed: it names the first node that fails when run alone."""
    alone = partial(_run_alone, provenance, rows)
    return failures.failed(provenance, number, error, alone, str, _NEXT)


def _run_alone(provenance: Provenance, rows: Rows, record: Record, node: int) -> None:
    """Runs the traced call; for any number of children, whose trace has another number, the batched one."""
    kind, program = record.kind, program_of(record.kind)
    operands = pieces(kind.groups, gathered(provenance, rows, record, node))
    if kind.children:
        owners = torch.zeros(kind.arity, dtype=torch.int64, device=device_named(kind.operands[0].device))
        program(operands, program.consts, 1, (owners,))
    else:
        listed = [position for group in kind.groups for (position,) in group]
        single = {position: piece(rows, kind.operands[position], 0) for position, rows in zip(listed, operands)}
        program.alone([single[position] for position in sorted(single)], program.consts)
