"""Patches applied by `import torch` if gluonjit is present: one table of all patched PyTorch functions.

If the fast path of capture was built, C handles some calls before Python: here it gets the data it needs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._functorch import eager_transforms, vmap
from torch.autograd import forward_ad
from torch.jit import _builtins
from torch.nn.parallel import distributed
from torch.nn.utils import stateless
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gluonjit.compiled import FAST
from gluonjit.engines.torch import announced, changes, dynamic, interop
from gluonjit.engines.torch.capture import doors, observing
from gluonjit.engines.torch.capture.cells import DOORS, LAID_OUT, captured_lookup, lay, leaf_laid, rebuild
from gluonjit.engines.torch.capture.doors import HANDLED, WITHOUT_A_SAY
from gluonjit.engines.torch.capture.indexing import ENTRY
from gluonjit.engines.torch.capture.making import CREATING, TENSOR, TRIED, new_tensor
from gluonjit.engines.torch.capture.ops import AT_ONCE
from gluonjit.engines.torch.capture.records import record_again
from gluonjit.engines.torch.engine import ENGINE
from gluonjit.engines.torch.framework import copy_on_write, originals
from gluonjit.engines.torch.framework.arrays import LOOKS, WHOLE
from gluonjit.engines.torch.framework.buffers import leads_to
from gluonjit.engines.torch.framework.input_version import InputVersion
from gluonjit.engines.torch.tracing.cell import Cell
from gluonjit.engines.torch.tracing.view_steps import steps_of
from gluonjit.engines.torch.values.known import CHEAP, WHOLE_TYPES
from gluonjit.engines.torch.values.lazy import LazyTensor, as_known, item_of, make, put_item
from gluonjit.engines.torch.values.operands import MadeHere, NotAnOperand, value_of
from gluonjit.engines.torch.values.results import KEEPING, is_inference, of_computed
from gluonjit.hybrid.capture.fast import configure
from gluonjit.hybrid.run.engine import register as register_engine
from gluonjit.hybrid.run.state import compute_what_is_sent
from gluonjit.replaced import KEY


def module_call() -> Any:
    """Stands in place of torch.nn.Module.__call__: a function of Python, which torch.compile can read."""
    Cell.enters = staticmethod(dynamic.OUTERMOST.entered)
    if FAST is None:
        return dynamic.call
    configure()
    FAST.configure(
        "torch",
        Cell=Cell,
        lazy=FAST.LazyKind(LazyTensor),
        Array=torch.Tensor,
        Parameter=torch.nn.Parameter,
        entry=ENTRY,
        Block=torch.nn.Module,
        key=KEY,
        value_of=value_of,
        empty=NotAnOperand,
        rebuild=rebuild,
        engine=ENGINE,
        learning=torch.is_grad_enabled,
        autocast=originals.autocast,
        overridden=originals.overridden,
        handle=originals.handle_torch_function,
        mute=WITHOUT_A_SAY,
        doors=DOORS,
        operate=LazyTensor.__torch_function__,
        error_of=ENGINE.error_of,
        make=make,
        look_up=captured_lookup,
        original=originals.original_call,
        int64=torch.int64,
        call_impl=torch.nn.Module._call_impl,
        global_hooks=originals.GLOBAL_HOOKS,
        tracing=torch._C._get_tracing_state,
        expanded=dynamic.expanded,
        repeated=dynamic.repeated,
        traced_otherwise=interop.traced_otherwise,
        again=record_again,
        dtype=torch.dtype,
        device=torch.device,
        steps_of=steps_of,
        getitem=torch.Tensor.__getitem__,
        item=item_of,
        put=put_item,
        laid_out=LAID_OUT,
        lay=lay,
        leaf_laid=leaf_laid,
        cheap=CHEAP.difference(AT_ONCE),
        whole=WHOLE,
        whole_types=WHOLE_TYPES,
        as_known=as_known,
        InputVersion=InputVersion,
        Size=torch.Size,
        forward_ad=forward_ad,
        is_wrapped=is_functorch_wrapped_tensor,
        looks=LOOKS,
        strided=torch.strided,
        tensor=TENSOR,
        leads_to=leads_to,
        new=new_tensor,
        tried=TRIED,
        MadeHere=MadeHere,
    )
    FAST.keep_bodies(LazyTensor)
    doors.find_modes()
    doors.build()
    FAST.quicken("attribute", torch.nn.Module.__getattr__)
    return FAST.quicken("call", dynamic.call)


PATCHES: list[tuple[Any, str, Any]] = [
    (torch.nn.Module, "__call__", module_call()),
    (torch.nn.Module, "__setattr__", changes.setattr_),
    (torch.nn.Parameter, "requires_grad_", changes.parameter_requires_grad_),
    (torch.nn.Parameter, "requires_grad", changes.parameter_requires_grad),
    (torch.nn.Parameter, "grad", changes.parameter_grad),
    (torch.Tensor, "register_hook", observing.register_hook),
    (torch.Tensor, "retain_grad", observing.retain_grad),
    *announced.ANNOUNCING,
    *copy_on_write.WATCHED,
    (torch.autograd.Function, "apply", classmethod(changes.function_apply)),
    (torch.autograd.Variable, "__new__", changes.variable),
    (torch.autograd, "backward", changes.backward),
    (torch.autograd, "grad", changes.grad),
    (torch.autograd.graph.saved_tensors_hooks, "__enter__", changes.enter_saved),
    (torch.autograd.graph.saved_tensors_hooks, "__exit__", changes.exit_saved),
    (torch, "compile", interop.compile_),
    (torch._C.ScriptFunction, "__call__", interop.script_function),
    (torch._C.ScriptMethod, "__call__", interop.script_method),
    (torch, "is_inference", is_inference),
    *[(torch, name, function) for name, function in CREATING.items()],
    *[(torch, name, of_computed(getattr(torch, name))) for name in KEEPING],
    (torch.utils.dlpack, "to_dlpack", of_computed(copy_on_write.exporting(torch.utils.dlpack.to_dlpack))),
    *[(module, "handle_torch_function", HANDLED) for module in (torch._tensor, torch.functional, torch.nn.functional)],
    (stateless, "_functional_call", changes.functional_call),
    (distributed, "_find_tensors", changes.find_tensors),
    (vmap, "_add_batch_dim", changes.wrapping(vmap._add_batch_dim)),
    (eager_transforms, "_wrap_for_grad", changes.wrapping(eager_transforms._wrap_for_grad)),
    *changes.PRECEDED,
]


def install(module: Any = None) -> None:
    """Patches PyTorch. Called when its import has finished."""
    scripted = _builtins._get_builtin_table()
    for owner, name, replacement in PATCHES:
        builtin = scripted.get(id(getattr(owner, name, None)))
        if builtin is not None:  # so that TorchScript finds it under the same name
            scripted[id(replacement)] = builtin
    compute_what_is_sent()
    if register_engine(ENGINE, PATCHES):
        register_optimizer_step_pre_hook(changes.before_step)
