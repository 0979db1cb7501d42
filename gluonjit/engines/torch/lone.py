"""Functions with a backward pass of the program's own (`torch.autograd.Function`): one node a call, run one by one.

A trace of both passes shows whether they only compute; what runs is the function itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

from gluonjit.engines.torch.cell import Call, Cell
from gluonjit.engines.torch.effects import PLAIN, constants_of
from gluonjit.engines.torch.hooked import autocast, original_function_apply
from gluonjit.engines.torch.program import Lone, lay_out
from gluonjit.engines.torch.work import work_of
from gluonjit.graph import Kind, Spec
from gluonjit.hybrid.capture.guards.facts import DEFAULTS, is_plain
from gluonjit.hybrid.capture.guards.owners import USER, owner_of_module
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.trace import NeedsValue

_LONE = "it is a torch.autograd.Function, whose backward pass is the program's own"
_MOST = 1024
_OLD_STYLE = torch.autograd.Function.setup_context
_known: WeakKeyDictionary[Any, tuple[Cell, FunctionCall] | None] = WeakKeyDictionary()


class _Context:
    """Stands in for what a function's passes are given to keep values in."""

    def __init__(self, given: Sequence[Any]) -> None:
        self.needs_input_grad = tuple([isinstance(item, torch.Tensor) for item in given])
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps tensors."""
        self.saved_tensors = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Is of no matter: all gradients are there."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Is of no matter for what the passes do."""


class FunctionCall:
    """Calls of one class of functions: what is recorded of one, in a trace, is both passes, and the results of one."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.__name__ = function.__name__

    def __call__(self, *given: Any) -> Any:
        function, follower = self.function, LOCAL.state.trace.follower
        if any([not isinstance(item, (torch.Tensor, *PLAIN)) for item in given]):
            raise NeedsValue
        if autocast():
            follower.refuse(f"{self.__name__} is called under torch.autocast, which is over when it runs")
        context = _Context(given)
        follower.made[id(context)] = context
        with torch.no_grad():
            if function.setup_context is _OLD_STYLE:
                found = follower.call(inspect.unwrap(function.forward), context, *given)
            else:
                found = follower.call(inspect.unwrap(function.forward), *given)
                follower.call(inspect.unwrap(function.setup_context), context, given, found)
            for fact in follower.facts.values():
                if fact.way != DEFAULTS and is_plain(fact.found):
                    follower.refuse(f"it reads {fact.name}, which may be another when it runs")
            results = found if isinstance(found, tuple) else (found,)
            if not all([isinstance(result, torch.Tensor) for result in results]):
                raise NeedsValue
            gradients = [  # not made of the results: that a weight is used in both passes makes no loop
                torch.ones(result.shape, dtype=result.dtype, device=result.device) for result in results
            ]
            follower.call(inspect.unwrap(function.backward), context, *gradients)
            copies = tuple([result.clone() for result in results])
        return copies if isinstance(found, tuple) else copies[0]


class LoneFunction(Lone):
    """Such a function on the nodes of a step, one after the other.

    given: the arguments, with numbers of operands and of constants in place of tensors, as (True or False, number).
    """

    def __init__(
        self, function: Any, given: Sequence[Any], weights: Sequence[Any], traced: Any, outputs: Sequence[Spec]
    ) -> None:
        super().__init__(traced.trace, outputs)
        self.function, self._given = function, given
        self.consts = list(weights)
        self.learns = True

    def alone(self, operands: Sequence[Any], consts: Sequence[Any]) -> Sequence[Any]:
        """The results of one node."""
        arguments = [item[1] if item[0] is None else (operands if item[0] else consts)[item[1]] for item in self._given]
        found = original_function_apply.__get__(None, self.function)(*arguments)
        return found if isinstance(found, tuple) else (found,)


def lone_kind(call: Call) -> Kind:
    """The kind of calls of such a function that was traced."""
    traced = call.noted.traced
    constants = constants_of(None, call.args, call.kwargs, call.batch)
    given: list[tuple[bool | None, Any]] = []
    weights: list[Any] = []
    for item in call.args:
        if not isinstance(item, torch.Tensor):
            given.append((None, item))
        elif id(item) in constants:
            given.append((False, len(weights)))
            weights.append(item)
        else:
            given.append((True, sum(each[0] is True for each in given)))
    trace = traced.trace
    outputs, rows = lay_out(trace.shaped_results(), trace.device)
    program = LoneFunction(call.run.function, given, weights, traced, [output.spec for output in outputs])  # type: ignore[attr-defined]
    flat = type(traced.structure) is tuple
    return Kind(
        call.cell.name,
        trace.operands,
        outputs,
        rows,
        program,
        False,  # equal calls have gradients of their own, of which backward may do anything
        lone=_LONE,
        operator=True,
        structure=tuple if flat else None,
        work=work_of(trace, program.operators),
    )


def cell_of_function(function: Any) -> tuple[Cell, FunctionCall] | None:
    """The cell of a class of functions; None for one of a library, or made in a call and not met before."""
    if owner_of_module(function.__module__) != USER:  # such as those by which modules have backward hooks
        return None
    known = _known.get(function)
    if known is None:
        fresh = function not in _known and "<locals>" in function.__qualname__
        if len(_known) >= _MOST:
            _known.clear()
        known = None if fresh else (Cell(function.__name__, Options(), operator=True), FunctionCall(function))
        _known[function] = known
    return known
