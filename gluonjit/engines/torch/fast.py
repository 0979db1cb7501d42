"""The fast path of capture, where it was built: what C needs to know, and where it stands before Python."""

from __future__ import annotations

from typing import Any

import torch

from gluonjit.compiled import FAST
from gluonjit.engines.torch import doors, dynamic, hooked
from gluonjit.engines.torch.aliases import steps_of
from gluonjit.engines.torch.aside import KEY
from gluonjit.engines.torch.cell import Cell
from gluonjit.engines.torch.cells import captured_lookup, rebuild
from gluonjit.engines.torch.engine import ENGINE
from gluonjit.engines.torch.lazy import LazyTensor, item_of, make
from gluonjit.engines.torch.operands import Unfit, value_of
from gluonjit.engines.torch.operators import DOORS
from gluonjit.engines.torch.records import record_again
from gluonjit.hybrid.capture.fast import configure


def module_call() -> Any:
    """Stands in the place of torch.nn.Module.__call__: a function of Python, which torch.compile can read."""
    if FAST is None:
        return dynamic.call
    configure()
    FAST.configure(
        "torch",
        Cell=Cell,
        LazyTensor=LazyTensor,
        Tensor=torch.Tensor,
        Parameter=torch.nn.Parameter,
        Module=torch.nn.Module,
        key=KEY,
        value_of=value_of,
        empty=Unfit,
        rebuild=rebuild,
        engine=ENGINE,
        learning=torch.is_grad_enabled,
        autocast=hooked.autocast,
        overridden=doors.overridden,
        doors=DOORS,
        operate=LazyTensor.__torch_function__,
        error_of=ENGINE.error_of,
        make=make,
        look_up=captured_lookup,
        original=hooked.original_call,
        expanded=dynamic.expanded,
        again=record_again,
        dtype=torch.dtype,
        steps_of=steps_of,
        getitem=torch.Tensor.__getitem__,
        item=item_of,
    )
    doors.find_modes()
    doors.build()
    FAST.quicken("attribute", torch.nn.Module.__getattr__)
    return FAST.quicken("call", dynamic.call)
