"""The places where a batch gives way to PyTorch's own tracers, or they to it."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from gluonjit.engines.torch.framework import originals
from gluonjit.engines.torch.tracing.recurrent import PACKED
from gluonjit.engines.torch.values.lazy import LazyTensor
from gluonjit.engines.torch.values.pending_statistics import write_statistics
from gluonjit.engines.torch.values.results import computed, run_computed
from gluonjit.hybrid.capture.structure import items_of
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.trace import NeedsValue
from gluonjit.replaced import KEY

_tracing = torch._C._get_tracing_state
_modes = torch._C._len_torch_dispatch_stack


def traced_otherwise() -> bool:
    """True if torch.jit.trace, torch.export, make_fx or another mode watches operators."""
    return _tracing() is not None or _modes() > 0


_NESTED = (
    "without gradients, PyTorch leaves what src_key_padding_mask hides out of the whole encoder, and returns zeros for "
    "it: pass enable_nested_tensor=False to nn.TransformerEncoder to have it batched"
)


DECIDING = (torch.nn.RNNBase, torch.nn.TransformerEncoder)


def why_aside(module: Any, args: Any, kwargs: Any) -> str:
    """Says why one of the `DECIDING` layers runs by itself, as it decides by numbers; "" if it does not.

    PyTorch may run an encoder on nested tensors, by the mask's values.
    """
    if isinstance(module, torch.nn.RNNBase):
        return PACKED if any(isinstance(arg, PackedSequence) for arg in (*args, *kwargs.values())) else ""
    if module.training or not module.use_nested_tensor:
        return ""
    mask = args[2] if len(args) > 2 else kwargs.get("src_key_padding_mask")
    learns = torch.is_grad_enabled() and any(weight.requires_grad for weight in module.parameters())
    enabled = torch.backends.mha.get_fastpath_enabled() or LOCAL.state.trace is not None  # which switches it off
    return _NESTED if mask is not None and not learns and enabled else ""


def run_aside(run: Any, module: Any, args: Any, kwargs: Any) -> Any:
    """Calls on computed tensors, as without batching."""
    write_statistics()
    return run_computed(run, module, args, kwargs)


def compile_(model: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Stands in for torch.compile.

    What is batched runs unchanged, as one program for all samples; the rest is compiled.
    """
    found = originals.original_compile(model, *args, **kwargs)
    if isinstance(model, torch.nn.Module):
        kind = type(found)
        if "_gluonjit_aside" not in kind.__dict__:
            kind._gluonjit_aside, kind.__call__ = True, _module_call(kind.__call__)
        return found
    return found if model is None else _function_call(model, found)  # without a model torch.compile is called again


def _module_call(original: Any) -> Any:
    """Stands in place of the call of a compiled module."""

    @wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        model = self._orig_mod
        if _is_captured(model, args, kwargs) and not (self._forward_hooks or self._forward_pre_hooks):
            return model(*args, **kwargs)
        return original(self, *args, **kwargs)

    return call


def _function_call(model: Any, compiled: Any) -> Any:
    """Stands in place of a compiled function."""

    @wraps(compiled)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return compiled(*args, **kwargs)
        if _is_captured(model, args, kwargs):
            return model(*args, **kwargs)
        return compiled(*computed(args), **computed(kwargs))  # a compiler would look into what stands in for a result

    return call


def script_function(self: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Calls a function that was scripted or traced; inside of a sample the original of a scripted one runs.

    One that was traced is another function than what it was traced from: that runs by itself.
    """
    written = getattr(self, "_torchdynamo_inline", None)
    if (
        written is not None
        and _is_captured(written, args, kwargs)
        and not any(each.isCompleteTensor() for each in self.graph.inputs())  # asked last: it makes objects of a graph
    ):
        return written(*args, **kwargs)
    return _script_by_itself(originals.original_script_function, self, args, kwargs)


def script_method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Calls a method of a module that was scripted or traced, which runs alone."""
    return _script_by_itself(originals.original_script_method, self, args, kwargs)


def _script_by_itself(original: Any, script: Any, args: Any, kwargs: Any) -> Any:
    """Runs what was scripted on computed tensors: TorchScript asks no class, and its passes look at history."""
    state = LOCAL.state
    if state.trace is not None:
        raise NeedsValue
    write_statistics()
    if next(items_of((args, kwargs), LazyTensor), None) is None:
        return original(script, *args, **kwargs)
    if state.batch is not None:
        state.batch.report.unbatched[script.name] = "TorchScript runs it; without torch.jit it would batch"
    return run_computed(original, script, args, kwargs)


def _is_captured(model: Any, args: Any, kwargs: Any) -> bool:
    """True if a call is part of a batch: of a batched module, inside of a sample, or on results that wait."""
    state = LOCAL.state
    if state.trace is not None:
        return True
    if state.paused or traced_otherwise():
        return False
    owner = getattr(model, "__self__", model)
    batched = isinstance(owner, torch.nn.Module) and KEY in owner.__dict__
    explicit = state.batch is not None and state.batch.explicit
    return bool(batched or state.inside or explicit or any(True for _ in items_of((args, kwargs), LazyTensor)))
