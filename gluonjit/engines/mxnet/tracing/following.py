"""A follower's knowledge of MXNet's objects, and blocks that are called while something is traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mxnet import autograd, gluon, nd
from mxnet.context import Context
from mxnet.gluon.block import DeferredInitializationError, _gather_type_ctx_info
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.values.lazy import Lazy
from gluonjit.engines.mxnet.values.recorder import Recorder
from gluonjit.hybrid.capture.guards.facts import is_plain
from gluonjit.hybrid.capture.guards.follower import Follower, follow
from gluonjit.hybrid.capture.guards.objects import FrameworkObjects
from gluonjit.hybrid.capture.guards.owners import is_user_function
from gluonjit.hybrid.capture.guards.variants import Noted
from gluonjit.hybrid.capture.structure import Args

COUNTERS = frozenset(["_counter", "_init_counter", "skip_states"])
"""Attributes of recurrent cells that count calls, for names of symbols alone; and what their layers set by the
arguments of each call."""
_OWN = COUNTERS | frozenset(vars(gluon.HybridBlock()))
"""Attributes that MXNet itself sets on blocks, among them what it makes of a block at its first call."""
_LOOKS = frozenset("shape dtype ndim size context ctx device stype T itemsize grad handle writable".split())
"""Attributes of arrays that follow from shape, dtype and device, or that lazy ones answer by themselves."""
FORWARDS = {gluon.HybridBlock.forward, gluon.rnn.RecurrentCell.forward}  # the latter counts calls for names


def is_hybrid(block: gluon.Block) -> bool:
    """True if a block's program is its `hybrid_forward`."""
    return isinstance(block, gluon.HybridBlock) and type(block).forward in FORWARDS


class _MXNetObjects(FrameworkObjects):
    """MXNet's objects."""

    arrays, traced, blocks, constants = NDArray, Lazy, gluon.Block, (Context,)
    framework, counters = "mxnet", COUNTERS
    modes = frozenset((autograd.is_recording, autograd.is_training, autograd.pause, autograd.record))

    def __init__(self, instead: Mapping[Any, Any]) -> None:
        self.instead = instead

    def answers(self, item: Any, name: str) -> bool:
        return name in _LOOKS or (callable(getattr(type(item), name, None)) and not name.startswith("_"))

    def state(self, item: Any) -> Iterator[tuple[dict[str, Any], str]]:
        """Constants that the framework's own `hybrid_forward` reads, such as the rate of dropout."""
        code = getattr(getattr(type(item), "hybrid_forward", None), "__code__", None)
        space = item.__dict__
        for name in code.co_names if code is not None else ():
            if name in space and name not in self.counters and is_plain(space[name]):
                yield space, name


def followed(
    trace: Recorder, owner: Any, run: Callable[..., Any], args: Any, noted: Noted, instead: Mapping[Any, Any]
) -> Any:
    """Traces a call and returns its result and what it has read. Raises Refused if it is not a node.

    instead: what it calls in place of functions of MXNet.
    """
    follower = Follower(_MXNetObjects(instead), args)
    own = isinstance(owner, gluon.Block) and getattr(run, "__self__", None) is owner
    function: Callable[..., Any] = (lambda *given: called(follower, owner, given)) if own else run
    return follow(trace, follower, function, args, {}, noted)


def called(follower: Follower, block: gluon.Block, args: Args) -> Any:
    """Gives what a block's forward gives inside of a trace. Refuses it where that has set something on the block."""
    before = dict(block.__dict__)
    try:
        result = _forward(follower, block, args)
    finally:
        changed = sorted(_set_since(block.__dict__, before))
        for name in changed:  # to what stands for an array in the trace
            block.__dict__.pop(name, None)
        block.__dict__.update({name: before[name] for name in changed if name in before})
    if changed:
        follower.refuse(f"it sets {follower.name_of(block)}.{changed[0]}")
    return result


def _set_since(space: dict[str, Any], before: dict[str, Any]) -> set[str]:
    missing = object()
    names = (space.keys() | before.keys()) - _OWN
    return {name for name in names if space.get(name, missing) is not before.get(name, missing)}


def _forward(follower: Follower, block: gluon.Block, args: Args) -> Any:
    """Runs a block's forward; the user's part of it is followed."""
    if is_hybrid(block):
        symbols, arrays, _, context = _gather_type_ctx_info(list(args))
        if symbols or not arrays:
            with follower.suspended():
                return block.forward(*args)
        if block._active:
            return block.forward(*args)
        if not _is_users(block, "hybrid_forward"):
            follower.state_of(block)
            follower.of_library(follower.get(type(block), "hybrid_forward"))
            return block.forward(*args)
        with context:
            parameters = _parameters(follower, block, args, context)
            return follower.call(follower.get(block, "hybrid_forward"), nd, *args, **parameters)
    return follower.call(follower.get(block, "forward"), *args) if _is_users(block, "forward") else block.forward(*args)


def _is_users(block: gluon.Block, name: str) -> bool:
    return is_user_function(getattr(getattr(block, name), "__func__", None))


def _parameters(follower: Follower, block: gluon.HybridBlock, args: Args, context: Any) -> dict[str, Any]:
    try:
        return {name: parameter.data(context) for name, parameter in block._reg_params.items()}
    except DeferredInitializationError:
        with follower.suspended():  # it runs the program on symbols, once
            block._deferred_infer_shape(*args)
            for parameter in block.params.values():
                parameter._finish_deferred_init()
        return {name: parameter.data(context) for name, parameter in block._reg_params.items()}
