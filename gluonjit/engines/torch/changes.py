"""Replacements of PyTorch functions that change parameters, or that need computed tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from gluonjit.engines.torch.capture.records import is_watched
from gluonjit.engines.torch.framework import originals
from gluonjit.engines.torch.run.chunks import current_backward, telling
from gluonjit.engines.torch.run.history import is_needed_again
from gluonjit.engines.torch.tracing.cell import Cell
from gluonjit.engines.torch.values.lazy import LazyTensor, waits
from gluonjit.engines.torch.values.operands import current, is_made, share
from gluonjit.engines.torch.values.pending_statistics import write_statistics
from gluonjit.engines.torch.values.results import computed, outside_of_transforms, refuse_used, run_computed, settle
from gluonjit.hybrid.capture.guards.owners import USER, owner_of_module
from gluonjit.hybrid.choose.pacing import BACKWARD, close, keep_eager
from gluonjit.hybrid.explain.minibatch import MINIBATCH
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED, preceded
from gluonjit.program.trace import NeedsValue


def _flush(reason: str) -> None:
    state = LOCAL.state
    if not state.paused and (state.batch is not None or state.explicit):
        state.flush(reason)


def parameter_requires_grad_(self: Any, requires_grad: bool = True) -> Any:
    """torch.nn.Parameter.requires_grad_; pending calls run first, with the gradients that they were captured with."""
    if LOCAL.state.trace is not None:
        raise NeedsValue
    if requires_grad != originals.REQUIRES_GRAD.__get__(self):
        _flush("a weight was frozen or unfrozen")
    return originals.original_tensor_requires_grad(self, requires_grad)


parameter_requires_grad = property(
    originals.REQUIRES_GRAD.__get__, parameter_requires_grad_, doc=originals.REQUIRES_GRAD.__doc__
)
"""torch.nn.Parameter.requires_grad, to which a program may assign."""


def _set_gradient(self: Any, gradient: Any) -> None:
    """PyTorch looks for memory, which a result has once it is computed."""
    originals.GRAD.__set__(self, share(gradient) if gradient.__class__ is LazyTensor else gradient)


parameter_grad = property(originals.GRAD.__get__, _set_gradient, doc=originals.GRAD.__doc__)
"""torch.nn.Parameter.grad, to which a program may assign."""


def setattr_(self: Any, name: str, value: Any) -> None:
    """torch.nn.Module.__setattr__: later calls of a cell with this module may do something else than earlier ones."""
    state = LOCAL.state
    if name == "training" and state.trace is None:
        write_statistics()  # which are read in evaluation, by calls that were traced before
    if state.batch is not None and state.trace is None:
        parts = isinstance(value, (torch.nn.Module, torch.nn.Parameter)) or name in self.__dict__.get("_buffers", ())
        if parts or name == "training":
            state.batch.parts += 1
            state.batch.changes += 1
        elif is_watched(self):
            state.batch.changes += 1
        if is_made(value) and (parts or not state.inside):
            value = share(value)  # a buffer is read in many ways
    originals.original_setattr(self, name, value)


def look_again(batch: Batch) -> None:
    """Modules that the batch knows may have hooks that they had not, or other parts."""
    batch.noted.clear()
    batch.changes += 1
    batch.parts += 1


def _before_moving(module: Any) -> None:
    """Before parameters are moved or cast."""
    Cell.forget_recordings()
    _flush("a module's parameters were moved or cast")


def _before_freezing(module: Any) -> None:
    """Before parameters are frozen: what waits was captured with the weights that learned before."""
    if LOCAL.state.trace is not None:
        raise NeedsValue
    _flush("weights were frozen or unfrozen")


def _before_change(module: Any) -> None:
    """Before a module gets hooks, or other parts."""
    state = LOCAL.state
    if state.batch is not None and state.trace is None:
        look_again(state.batch)


_CHANGING = """
    register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
    register_backward_hook register_buffer register_parameter add_module __delattr__
""".split()
PRECEDED: list[tuple[Any, str, Any]] = [
    (torch.nn.Module, name, preceded(getattr(torch.nn.Module, name), run))
    for name, run in {
        "_apply": _before_moving,
        "load_state_dict": lambda module: _flush("load_state_dict"),
        "requires_grad_": _before_freezing,
        **dict.fromkeys(_CHANGING, _before_change),
    }.items()
]
"""Replacements of methods of modules, before which something else runs."""


def wrapping(original: Any) -> Any:
    """Stands in the place of a function that wraps tensors for torch.func, which sees no numbers of lazy ones."""

    def wrap(*args: Any) -> Any:
        with outside_of_transforms():  # a view of an input is taken, which a transform would wrap by itself
            args = computed(args)
        return original(*args)

    return wrap


def find_tensors(item: Any) -> Any:
    """Finds what DistributedDataParallel looks for weights through that results don't depend on: history is needed."""
    return originals.original_find_tensors(computed(item))


def functional_call(module: Any, *args: Any, **kwargs: Any) -> Any:
    """Stands in for torch.func.functional_call: the weights belong to this call alone, so it runs alone."""
    state = LOCAL.state
    if state.trace is not None or state.paused:
        return originals.original_functional_call(module, *args, **kwargs)
    if state.batch is not None:
        state.batch.report.unbatched[type(module).__name__] = "functional_call passes it other weights in each call"
    return run_computed(originals.original_functional_call, module, args, kwargs)


def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Before an optimizer's step."""
    _flush("an optimizer's step")
    LOCAL.state.singles = 0
    _end_minibatch()
    close()


_ITS_OWN = (
    "its backward pass is the program's own, so that it runs at once, for each sample; written with operators, as "
    "y + (f(y) - y).detach() for a straight-through estimator, or called once for the minibatch, it is batched"
)


def function_apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """torch.autograd.Function.apply: its backward is its own, which a trace would not see."""
    state = LOCAL.state
    if state.trace is not None:
        if state.trace.follower is not None:
            state.trace.follower.refuse(f"it calls {cls.__name__}, whose backward pass is the program's own")
        raise NeedsValue
    if state.batch is not None and not state.paused and owner_of_module(cls.__module__) == USER and waits(args):
        state.batch.report.unbatched[cls.__name__] = _ITS_OWN
    # What its forward returns has to be there.
    return run_computed(originals.original_function_apply.__func__, cls, args, kwargs)


def variable(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """torch.autograd.Variable, by which old programs wrap a tensor: it gives the tensor without its history.

    To PyTorch all lazy tensors of a look have one count of writes, which what it made of one would share.
    """
    if len(args) == 1 and not kwargs and args[0].__class__ is LazyTensor:
        return args[0] if is_made(args[0]) else args[0].detach()
    if len(args) != 1 or kwargs or args[0].__class__ is not torch.Tensor:
        args, kwargs = computed((args, kwargs))
    return torch._C._LegacyVariableBase.__new__(cls, *args, **kwargs)


def enter_saved(self: Any) -> None:
    """Enters a region whose hooks see what is saved for backward, such as torch.utils.checkpoint's: it runs alone.

    They are to see that which is computed inside, all of it, and nothing else.
    """
    state = LOCAL.state
    if not state.paused:
        if state.trace is not None:
            raise NeedsValue
        _flush("a region with hooks of saved tensors, as a checkpoint's")
    originals.original_saved_enter(self)
    UNCAPTURED.__enter__()


def exit_saved(self: Any, *error: Any) -> None:
    """Its end."""
    UNCAPTURED.__exit__(*error)
    originals.original_saved_exit(self, *error)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: Any = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """torch.autograd.backward: runs what waits, then backward through all of it at once."""
    if LOCAL.state.trace is not None:
        raise NeedsValue
    where = "backward(inputs=...) with such a result among them"
    (heads, grads, asked), keep = _passed(tensors, inputs, grad_tensors, retain_graph, create_graph, where)
    with _passing(), telling(keep, _nodes_of(asked)):
        originals.original_backward(heads, grads, keep, create_graph, grad_variables, asked)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: Any = None,
    create_graph: bool = False,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """torch.autograd.grad; in a trace only where no operand of the call may depend on what it differentiates by."""
    if LOCAL.state.trace is not None and LOCAL.state.trace.operands_learn:
        raise NeedsValue
    where = "torch.autograd.grad(outputs, inputs) with such a result among its inputs"
    (heads, grads, asked), keep = _passed(outputs, inputs, grad_outputs, retain_graph, create_graph, where)
    with _passing(), telling(keep, _nodes_of(asked)):
        return originals.original_grad(heads, asked, grads, keep, create_graph, *args, **kwargs)


def _passed(
    outputs: Any, inputs: Any, gradients: Any, retain_graph: Any, create_graph: bool, where: str
) -> tuple[tuple[Any, Any, Any], bool]:
    """Runs what a pass begins at; returns this, its gradients, the inputs, and whether the history is to stay."""
    outputs, inputs = _as_tuple(outputs), _listed(inputs)
    _keep_where_asked(inputs, create_graph)
    for tensor in outputs if LOCAL.state.trace is None else ():  # in a trace `computed` refuses that
        if tensor.__class__ is LazyTensor:
            value = current(tensor)
            if tensor._c is None:
                settle(value, backward=True)
    given = computed(outputs), computed(_listed(gradients)), computed(inputs)
    for item in _tensors_of(inputs):
        refuse_used(item, where)
    keep = bool(create_graph if retain_graph is None else retain_graph) or is_needed_again(_nodes_of(given[0]))
    return given, keep


def _keep_where_asked(inputs: Any, create_graph: bool) -> None:
    """Keeps a program eager that asks for gradients of results inside of it, or inside of samples for some to go on."""
    if create_graph:  # a batch for each, which would run twice, and may have to refuse
        keep_eager(LOCAL.state.eagerly > 0)
    for item in _tensors_of(inputs):
        if item.__class__ is torch.Tensor and item.grad_fn is not None:
            keep_eager()


def _end_minibatch() -> None:
    """Ends the minibatch, unless a sample is being captured."""
    if not LOCAL.state.inside:
        MINIBATCH.end()


@contextmanager
def _passing() -> Iterator[None]:
    """A region in which a backward pass is under way; that of a checkpoint is a part of the one that has called it.

    One inside of a sample that runs eagerly is no more than a part of the sample.
    """
    if LOCAL.state.eagerly:
        yield
        return
    begun = 1 + (current_backward() >= 0)
    MINIBATCH.passes += begun
    try:
        with BACKWARD:
            yield
    finally:
        MINIBATCH.passes -= begun
        if not MINIBATCH.passes and MINIBATCH.gone:
            _end_minibatch()


def _as_tuple(tensors: Any) -> tuple[Any, ...]:
    return (tensors,) if isinstance(tensors, (torch.Tensor, GradientEdge)) else tuple(tensors)


def _listed(tensors: Any) -> Any:
    """Returns tensors that can be iterated twice: a tuple for a generator such as `net.parameters()`."""
    return tensors if tensors is None or isinstance(tensors, Mapping) else _as_tuple(tensors)


def _tensors_of(listed: Any) -> Any:
    return listed.values() if isinstance(listed, Mapping) else listed or ()


def _nodes_of(inputs: Any) -> list[Any]:
    """Returns the nodes of the history that give these tensors."""
    return [item.node if isinstance(item, GradientEdge) else item.grad_fn for item in _tensors_of(inputs)]
