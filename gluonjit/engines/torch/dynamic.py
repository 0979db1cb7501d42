"""Turning dynamic batching on and off for a module and everything in it, and the wrapper of its calls."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from operator import is_
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn.parameter import is_lazy

from gluonjit.compiled import FAST
from gluonjit.engines.torch import changes
from gluonjit.engines.torch.capture.cells import as_lazy, capture, expand, foreign, open_batch
from gluonjit.engines.torch.capture.normalizing import normalized
from gluonjit.engines.torch.capture.outlining import KNOWN
from gluonjit.engines.torch.capture.records import ASKED, NotOneNode, refused_at_once
from gluonjit.engines.torch.capture.reuse import REUSING
from gluonjit.engines.torch.framework import originals
from gluonjit.engines.torch.framework.input_version import version_of
from gluonjit.engines.torch.framework.layers import NORM, WHOLE, has_hooks, keeps_statistics
from gluonjit.engines.torch.interop import DECIDING, run_aside, traced_otherwise, why_aside
from gluonjit.engines.torch.tracing.cell import LOOPS, UNROLLED, Cell
from gluonjit.engines.torch.tracing.effects import PARTS, parts_of
from gluonjit.engines.torch.values.lazy import waits
from gluonjit.engines.torch.values.pending_statistics import write_statistics
from gluonjit.engines.torch.values.results import computed
from gluonjit.graph import is_own
from gluonjit.hybrid.capture.arguments import LentArguments
from gluonjit.hybrid.capture.capturing import before_sample, outermost_batch, run_eagerly, sampled
from gluonjit.hybrid.capture.entrances import install
from gluonjit.hybrid.capture.guards.facts import Fingerprint
from gluonjit.hybrid.capture.guards.objects import Eagerly
from gluonjit.hybrid.capture.outermost import OutermostCalls
from gluonjit.hybrid.capture.outlining.free_functions import forget_functions
from gluonjit.hybrid.capture.outlining.outlines import place
from gluonjit.hybrid.capture.outlining.questions import answer
from gluonjit.hybrid.capture.reuse.reusing import reused
from gluonjit.hybrid.choose.kept import BlockDescription, recalled
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.trace import NeedsValue
from gluonjit.replaced import KEY

_automatic: WeakKeyDictionary[Any, tuple[Cell, dict[str, Any]]] = WeakKeyDictionary()
_stateless: dict[Any, Cell] = {}
_MOST = 1024
_Noted = tuple[Any, bool, bool, bool]
_SPECIAL = (*DECIDING, NORM)
_OWN = frozenset(torch.nn.Module().__dict__)
_CALL = torch.nn.Module._call_impl


def enable(module: Any, options: dict[str, Any]) -> None:
    """Batch this module dynamically. Raises OptionError before anything has changed."""
    chosen = Options().updated("hybridize(dynamic_batch=True)", options)
    engine = engine_of("torch")
    engine.check(f"gluonjit.hybridize({type(module).__name__}, dynamic_batch=True)", chosen)
    Cell.leave(module.modules())
    install(module, _is_part, torch.nn.Module)
    answer(module.modules())
    paces, asked = recalled(chosen, engine, map(_described, module.named_modules())), list[str]()
    for name, inner in module.named_modules():
        inner.__dict__[KEY] = cell = Cell(name or type(inner).__name__, chosen, paces=paces)
        cell.asked = asked
        if FAST is not None:
            FAST.quick_attributes(type(inner), torch.nn.Module)


def _is_part(module: Any, name: str) -> bool:
    return any(name in module.__dict__[space] for space in PARTS)


def _described(named: tuple[str, Any]) -> BlockDescription:
    """Describes a module to kept choices."""
    name, module = named
    own = [(key, each, "" if is_lazy(each) else tuple(each.shape)) for key, each in module.named_parameters("", False)]
    return BlockDescription(
        name, type(module), [f"{key} {shape} {each.dtype} {each.device}" for key, each, shape in own]
    )


def disable(module: Any) -> None:
    """Gives back exactly the module there was."""
    forget_functions()
    Cell.leave(module.modules())


def call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """torch.nn.Module.__call__."""
    state = LOCAL.state
    if state.trace is None and not state.paused:
        cell: Cell | None = self.__dict__.get(KEY)
        if cell is None:
            if state.batch is not None:
                cell = _automatic_cell(self, args, kwargs)
        elif cell.asked and not state.inside:
            return _eagerly(self, cell, args, kwargs, cell.asked[0])
        elif cell.chooses and not state.inside and (cell.paces.named or not state.explicit):
            return OUTERMOST.paced(originals.original_call, _captured, self, cell, args, kwargs)
        if cell is not None:
            if not state.inside and traced_otherwise():
                return run_aside(originals.original_call, self, args, kwargs)
            return _captured(self, cell, args, kwargs)
    elif state.trace is not None and isinstance(self, DECIDING) and why_aside(self, args, kwargs):
        raise NeedsValue
    elif state.trace is not None and state.trace.follower is not None and not has_hooks(self):
        follower = state.trace.follower  # of a module inside of what is traced
        return follower.call(follower.get(self, "forward"), *args, **kwargs)
    return originals.original_call(self, *args, **kwargs)


def _versions(owner: Any) -> list[int]:
    """Counts the writes to each weight, but for tables that look-ups keep within a norm, in any order."""
    parts = [part for part in parts_of(owner) if getattr(part, "max_norm", None) is None]
    weights = [weight for part in parts for weight in part._parameters.values() if weight is not None]
    return [0 if is_lazy(weight) else version_of(weight) for weight in weights]


class _Outermost(OutermostCalls):
    """PyTorch's."""

    engine = "torch"
    known = KNOWN
    records = staticmethod(torch.is_grad_enabled)
    lazy = staticmethod(as_lazy)
    versions = staticmethod(_versions)

    def opened(self, owner: Any, cell: Cell) -> Batch:
        return _outermost(LOCAL.state, owner, cell)[0]

    def look(self, arg: Any) -> Hashable:
        return (arg.shape, arg.dtype) if isinstance(arg, torch.Tensor) else None

    def entered(self, owner: Any, cell: Cell, method: Any, /, *args: Any, **kwargs: Any) -> Any:
        if traced_otherwise():
            return run_aside(method, owner, args, kwargs)
        return super().entered(owner, cell, method, *args, **kwargs)


OUTERMOST = _Outermost()


def _automatic_cell(module: Any, args: Any, kwargs: Any) -> Cell | None:
    """Returns the cell of a module that was not hybridized, such as a loss, called on tensors of the open batch."""
    state = LOCAL.state
    batch: Any = state.batch
    inside = state.inside and batch.engine is engine_of("torch")
    if not (batch.explicit or inside or waits(args) or waits(kwargs)):
        return None
    known = _automatic.get(module)
    if known is not None:
        cell, seen = known
        if not cell.stateless or (_bare(module) and _same(seen, module.__dict__)):
            return cell
    cell = _alike(module) or Cell(type(module).__name__, LOCAL.state.options)
    _automatic[module] = cell, dict(module.__dict__) if cell.stateless else {}
    return cell


def _bare(module: Any) -> bool:
    """True if a module has neither parameters nor buffers nor parts."""
    return not any(item is not None for name in PARTS for item in module.__dict__[name].values())


def _same(seen: dict[str, Any], now: dict[str, Any]) -> bool:
    """True if these are the same objects by the same names."""
    return [*seen] == [*now] and all(map(is_, seen.values(), now.values()))


def _alike(module: Any) -> Cell | None:
    """The cell of modules like this one, if it has neither parameters nor parts, as a loss made for each call."""
    looks: list[Any] = [type(module)]
    for name, item in module.__dict__.items():
        if name not in _OWN and name.startswith("_"):
            return None
        if name in PARTS or name == "_non_persistent_buffers_set":
            if any(part is not None for part in item.values()) if item.__class__ is dict else item:
                return None
            looks += item  # the names of parts that it may have and has not
        elif isinstance(item, (bool, int, float, str, type(None))):
            looks.append((name, item.__class__, repr(item) if item.__class__ is float else item))
        elif not name.startswith("_"):
            return None
    key = tuple(looks)
    cell = _stateless.get(key)
    if cell is None:
        if len(_stateless) >= _MOST:
            _stateless.clear()
        cell = _stateless[key] = Cell(type(module).__name__, LOCAL.state.options, stateless=True)
    return cell


def _captured(module: Any, cell: Cell, args: Any, kwargs: Any) -> Any:
    """Captures a call as one node, or else what it calls; an outermost call is then a sample."""
    state = LOCAL.state
    batch, noted = _outermost(state, module, cell)
    if cell.reuse is not None and not state.inside:
        key = cell.reuse(*args, **kwargs)
        if key is not None:
            run = partial(_node_or_parts, state, module, cell, args, kwargs, batch, noted, True)
            given = (args, kwargs) if kwargs else args
            return sampled(batch, reused, REUSING, batch, module, cell.recordings, given, key, run)
    return _node_or_parts(state, module, cell, args, kwargs, batch, noted)


def _outermost(state: Any, module: Any, cell: Cell) -> tuple[Batch, _Noted]:
    """Returns the open batch for a call, which may be that of a sample, and what it knows of the module."""
    batch = state.batch
    if batch is None or batch.room < 0 or batch.engine.name != "torch":
        batch = open_batch(cell.options)
    if not state.inside:
        if batch.options is not cell.options and KEY in module.__dict__:
            batch = outermost_batch(batch.engine, cell.options)
        else:
            before_sample(batch)
        if batch.own.hooked is not originals.hooks_everywhere():
            changes.look_again(batch)
            batch.own.hooked = not batch.own.hooked
        batch.asking = cell
    noted = batch.noted.get(id(module))
    if noted is None:
        noted = _noted(batch, module, cell)
    return batch, noted


def _node_or_parts(
    state: Any, module: Any, cell: Cell, args: Any, kwargs: Any, batch: Batch, noted: _Noted, in_sample: bool = False
) -> Any:
    """Captures a call as one node, or what it calls; an outermost call that is not in a sample is one."""
    _, hooks_inside, passes, special = noted
    hooks = hooks_inside or module._forward_hooks or module._forward_pre_hooks
    if special and state.inside and not hooks and keeps_statistics(module):
        found = normalized(module, args, kwargs)
        if found is not None:
            return found
    if hooks:
        reason = "it has forward hooks, which must run for each call"
    else:
        reason = (foreign(batch, args) if batch.foreign else "") or (
            ASKED[0] if passes and batch.fine and cell.lookup is None else ""
        )
    if special and isinstance(module, DECIDING) and (aside := why_aside(module, args, kwargs)):
        found = run_aside(originals.original_call, module, args, kwargs)
        expanded(batch, cell, module, aside)
        return found
    if not reason:
        reason = cell.refused.get((torch.is_grad_enabled(), module.training), "") if cell.refused else ""
        reason = reason or refused_at_once(cell, module, args, kwargs, batch)
        try:
            if not reason:
                return capture(cell, module, module.forward, args, kwargs, batch)
        except NotOneNode as refusal:
            reason = refusal.args[0]
    if reason.__class__ is Eagerly:
        return _eagerly(module, cell, args, kwargs, reason)
    if in_sample:
        return _parts(module, args, kwargs, batch, hooks_inside)
    if state.inside:
        if not hooks and _is_fine(batch, module, reason):
            batch.report.fine.add(cell.name)
        return expand(cell, partial(_uncompiled, module), args, kwargs, reason, batch)
    if not (hooks or special or kwargs or cell.chooses or cell.reuse):
        batch.repeats = cell, torch.is_grad_enabled(), module.training, batch.changes
    return sampled(batch, _parts, module, args, kwargs, batch, hooks_inside)


def repeated(batch: Batch, module: Any, args: Any) -> Any:
    """Calls an outermost module on one more sample, which compiled code has found to run as the last one."""
    before_sample(batch)
    batch.asking = batch.repeats[0]
    return sampled(batch, _parts, module, args, {}, batch, False)


def _eagerly(module: Any, cell: Cell, args: Any, kwargs: Any, reason: str) -> Any:
    """Calls a module with computed tensors, and captures nothing."""
    given, named = computed((args, kwargs))
    write_statistics()
    return run_eagerly(cell, reason, originals.original_call, module, *given, **named)


def _uncompiled(module: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The call of a module, which `module.compile()` puts a compiled one in the place of."""
    if module._compiled_call_impl is not None:
        return module._call_impl(*args, **kwargs)
    return originals.original_call(module, *args, **kwargs)


def expanded(batch: Batch, cell: Cell, module: Any, why: str) -> None:
    """A call that is no node has run, and what it calls was captured: the report says so."""
    report = batch.report
    if cell.name not in report.unbatched:
        report.unbatched[cell.name] = why
        if _is_fine(batch, module, why):
            report.fine.add(cell.name)


def _is_fine(batch: Batch, module: Any, why: str) -> bool:
    """True if it is expected that a call is not a node: nobody can change it."""
    return is_own(module) or why in (LOOPS, UNROLLED) or why in batch.foreign.values()


def _parts(module: Any, args: Any, kwargs: Any, batch: Batch, hooks_inside: bool) -> Any:
    """Calls an outermost module, and captures what it calls."""
    place(batch, module, KNOWN)
    lent = LentArguments(args, as_lazy, batch.foreign)  # in which there is no tensor
    try:
        if hooks_inside or type(module)._call_impl is not _CALL or module._compiled_call_impl is not None:
            return lent.returned(_uncompiled(module, *lent.args, **kwargs))
        return lent.returned(module.forward(*lent.args, **kwargs))  # which is all that PyTorch does then
    finally:
        lent.give_back()


def _noted(batch: Batch, module: Any, cell: Cell) -> _Noted:
    """Lets the batch know this module, once: its parameters and buffers, and whether anything in it has hooks.

    The last two: whether its calls run as they are, with PyTorch's own `__call__`, where operators are the nodes;
    whether its class has calls that run otherwise.
    """
    if cell.known is None or not cell.known[0].holds(module):
        inside = parts_of(module)
        held = [tensor for part in inside for tensor in (*part._parameters.values(), *part._buffers.values())]
        own = {id(tensor): tensor for tensor in held if tensor is not None}
        cell.known = Fingerprint(module), own, any(map(has_hooks, inside))
    _, own, hooked_inside = cell.known
    batch.parameters.update(own)
    hooked_inside = hooked_inside or originals.hooks_everywhere()
    passes = not (hooked_inside or isinstance(module, (*WHOLE, NORM))) and type(module)._call_impl is _CALL
    found = batch.noted[id(module)] = (module, hooked_inside, passes, isinstance(module, _SPECIAL))
    return found
