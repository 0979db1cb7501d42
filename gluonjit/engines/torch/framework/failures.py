"""Errors of functions of PyTorch's that do not take what they are given."""

from __future__ import annotations

from typing import Any

import torch

from gluonjit.hybrid.capture.structure import items_of
from gluonjit.hybrid.run.failures import NEXT, of_framework, refused


def unfit(func: Any, args: Any, kwargs: Any, error: Exception) -> Exception:
    """The error of a function of PyTorch's that does not take such tensors: CaptureError, and PyTorch's own class."""
    if not of_framework(error):
        return error
    tensors = list(items_of((args, kwargs), torch.Tensor))
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
    said = refused(type(error), f"{name} called on operands {given}: {str(error).rstrip('. ')}. {what}; {NEXT}")
    said.__cause__ = error
    return said
