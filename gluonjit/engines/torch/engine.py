"""PyTorch as an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from gluonjit.analysis.plan import LookupChunk, Place, Plan
from gluonjit.engines.torch.capture.cells import capture, expand, open_batch
from gluonjit.engines.torch.capture.indexing import decided
from gluonjit.engines.torch.capture.normalizing import RunningStatistics
from gluonjit.engines.torch.capture.ops import call_operator
from gluonjit.engines.torch.capture.records import NotOneNode
from gluonjit.engines.torch.capture.writes import lay_eagerly, lent, opened, put_data, renew
from gluonjit.engines.torch.dynamic import disable, enable
from gluonjit.engines.torch.framework.arrays import VERSIONS, clear_looks
from gluonjit.engines.torch.framework.buffers import Account, note_written
from gluonjit.engines.torch.framework.exposed import end_use, kept
from gluonjit.engines.torch.framework.input_version import InputVersion, version_of
from gluonjit.engines.torch.framework.originals import current_mode, flags, held, hold, is_distributed, plain
from gluonjit.engines.torch.run.memory import Session
from gluonjit.engines.torch.run.one_by_one import NODES
from gluonjit.engines.torch.run.program import program_of
from gluonjit.engines.torch.run.recorded import gradients_again
from gluonjit.engines.torch.tracing.cell import Cell
from gluonjit.engines.torch.tracing.view_steps import CopyStep
from gluonjit.engines.torch.values.aliases import DETACHING, base_of
from gluonjit.engines.torch.values.lazy import waits
from gluonjit.engines.torch.values.operands import share
from gluonjit.engines.torch.values.opkinds import sum_kind
from gluonjit.engines.torch.values.results import computed, listed_of, number_of, numbers_of, read_by, settle
from gluonjit.engines.torch.verifying import verify
from gluonjit.errors import CaptureError, OptionError
from gluonjit.graph import Value
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.capture.capturing import run_eagerly
from gluonjit.hybrid.capture.guards.objects import Eagerly
from gluonjit.hybrid.capture.structure import Args, Kwargs, items_of
from gluonjit.hybrid.explain.counts import Counts
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.failures import NEXT, both, of_framework, refused
from gluonjit.hybrid.run.protocol import Adapter
from gluonjit.hybrid.run.state import LOCAL


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


def check_constants(report: Counts, plan: Plan) -> tuple[list[InputVersion], list[tuple[Place, CaptureError]]]:
    """Buffers that were written to since calls of the batch that is run next were captured, as they were then.

    And the rows of tables that were written to, which no call that runs needs, with what is raised if one is read.
    Raises CaptureError of a weight that runs, and where it is not known what a buffer was.
    """
    found: list[InputVersion] = []
    lost: list[tuple[Place, CaptureError]] = []
    for own in _accounts(report):
        versions, snapshots, own.versions, own.snapshots = own.versions, own.snapshots, {}, {}
        exposed = own.exposed
        own.exposed = kept(exposed, [tensor for tensor, _, _ in versions.values()]) if exposed else exposed
        for number, (tensor, version, address) in versions.items():
            same = version_of(tensor) == version and tensor.data_ptr() == address
            unseen = bool(exposed) and end_use(exposed, tensor)
            if same and not unseen:
                continue
            held = None if unseen else snapshots.get(number)  # of what nobody saw, any call may be the first after
            users = [step for step in plan.steps if any(tensor is item for item in program_of(step.kind).consts)]
            known = held is not None and held.rows is not tensor and all(step.kind.operator for step in users)
            tables = [chunk for chunk in plan.inputs if isinstance(chunk, LookupChunk)]
            looked = [chunk.place for chunk in tables if chunk.table.weight is tensor]
            if held is not None and known and users and not looked:
                found.append(held)
            elif users or looked:
                error = _written_weight(tensor)
                if users or any(plan.reads(at.arena, np.arange(at.begin, at.end)) for at in looked):
                    raise error
                lost += [(place, error) for place in looked]
    return found, lost


def statistics_of(report: Counts) -> Any:
    """The running statistics that calls update of the batch that is run next; None where there are none."""
    for own in _accounts(report):
        if own.statistics.buffers:
            return own.statistics
    return None


def _accounts(report: Counts) -> list[Any]:
    """The account of the batch that is run next."""
    state = LOCAL.state
    return [batch.own for batch in (*state.explicit, state.batch) if batch is not None and batch.report is report]


def _written_weight(tensor: Any) -> CaptureError:
    """The error of calls that need what a weight was; the eager program's backward raises one of its class."""
    note_written(tensor)
    text = (
        f"a weight of shape {tuple(tensor.shape)} was written to after calls that use it were captured and before "
        "they ran. First read a result of these calls (or call batch.flush), which runs them."
    )
    return both(CaptureError, RuntimeError, text)


class TorchEngine(Adapter):
    """PyTorch, of which an array that is captured is a lazy tensor."""

    name, title = "torch", "PyTorch"
    array, block = torch.Tensor, torch.nn.Module
    versions = VERSIONS
    reuses = True
    current_mode = staticmethod(current_mode)
    flags = staticmethod(flags)
    held, hold = staticmethod(held), staticmethod(hold)
    sum_kind = staticmethod(sum_kind)
    running = staticmethod(plain)
    decided = staticmethod(decided)
    renew = staticmethod(renew)
    put_data = staticmethod(put_data)
    number_of, listed_of = staticmethod(number_of), staticmethod(listed_of)
    read_by = staticmethod(read_by)
    waits = staticmethod(waits)
    verify = staticmethod(verify)
    wait = staticmethod(NODES.wait)
    cells = Cell
    copying = CopyStep

    def set_mode(self, mode: int) -> None:
        """Sets whether gradients are recorded."""
        torch._C._set_grad_enabled(is_recorded(mode))

    def may_choose(self) -> bool:
        """True if this process may choose how calls run; not if several processes train together."""
        return not is_distributed()

    def account(self) -> Account:
        """Makes the account of weights, buffers and hooks while a batch is open."""
        return Account(RunningStatistics())

    def owes(self, own: Any) -> bool:
        """True if what was captured runs even where the program cannot read it: it updates statistics."""
        return bool(own.statistics.buffers)

    def session(self, plan: Plan, report: Counts, options: Options, samples: int, provenance: Provenance) -> Session:
        """Makes room for a flush."""
        snapshots, lost = check_constants(report, plan)
        session = Session(plan, report, options, samples, provenance)
        if session.tape is not None:
            session.tape.again = gradients_again
        if snapshots:
            session.snapshots = snapshots
        if lost:
            session.lost = lost
        session.statistics = statistics_of(report)
        return session

    def force(self, value: Value) -> Any:
        """The numbers of a value, with their history; runs its batch if that has not run."""
        settle(value)
        return numbers_of(value)

    def detaching(self, lazy: Any, name: str) -> Any:
        """The step from a tensor to its `data`, or what `detach` gives, of which views of it are made."""
        base_of(lazy)  # a view that is a copy is the base
        return DETACHING[name]

    def unlink(self, lazy: Any) -> None:
        """Lets a tensor that may be a copy be its own base if it is one, before views of it are taken."""
        first, last = lazy._k if lazy._k.__class__ is tuple else (None, lazy._k)
        last.spec, last.first, last.copies = lazy._b._v.spec, first, base_of(lazy)[0] is lazy

    def lay(self, lazy: Any, path: Any) -> None:
        """Lets a computed tensor lie so that it has the view that these steps lead to."""
        lay_eagerly(lazy, path)

    def opened(self, lazy: Any) -> Any:
        """Returns a computed tensor with its own memory, which may be written to unnoticed."""
        share(lazy)
        return opened(lazy, False)

    def lent(self, lazy: Any) -> Any:
        """Returns a computed tensor whose memory is given to others, such as numpy."""
        share(lazy)
        return lent(lazy)

    def refused(self, func: Any, args: Args, error: Exception) -> Exception:
        """The error of a function of PyTorch's that does not take such tensors."""
        return unfit(func, args, {}, error)

    def call_operator(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """A function of PyTorch's called on a lazy tensor. Raises CaptureError if it does not take such tensors."""
        try:
            return call_operator(func, args, kwargs)
        except Exception as error:
            raise self.error_of(func, args, kwargs, error)  # noqa: B904 (it has its cause)

    def error_of(self, func: Any, args: Args, kwargs: Kwargs, error: Exception) -> Exception:
        """The error to raise for one in such a call."""
        if LOCAL.state.trace is not None or LOCAL.state.paused:
            return error
        return unfit(func, args, kwargs, error)

    def capture(self, cell: Cell, owner: Any, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        batch = open_batch(cell.options)
        try:
            return capture(cell, owner, function, args, kwargs, batch)
        except NotOneNode as refusal:
            reason = refusal.args[0]
        if reason.__class__ is Eagerly:
            given, named = computed((args, kwargs))
            return run_eagerly(cell, reason, function, *given, **named)
        return expand(cell, function, args, kwargs, reason, batch)

    def hybridize(self, net: Any, dynamic_batch: bool, options: dict[str, Any]) -> None:
        """Turns dynamic batching of a module on or off."""
        if dynamic_batch:
            enable(net, options)
        else:
            if options:
                raise OptionError(f"hybridize(dynamic_batch=False) takes no options, but was given {sorted(options)}")
            disable(net)

    def add_n(self, arrays: Sequence[Any]) -> Any:
        """The sum of tensors of one shape."""
        return torch.stack(list(arrays)).sum(0)

    def cache_info(self) -> dict[str, int]:
        """Entries in caches: sums (4,096 at most)."""
        return {**super().cache_info(), "sums": sum_kind.cache_info().currsize}

    def clear_caches(self) -> None:
        """Forgets all kinds."""
        super().clear_caches()
        sum_kind.cache_clear()
        clear_looks()
        Cell.forget_recordings()
        for cell in Cell.every():
            cell.never = ""


ENGINE = TorchEngine()
