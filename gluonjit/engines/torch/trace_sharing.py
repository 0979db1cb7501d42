"""Traces of modules that are like one that was traced: of the same class, with the same attributes but for weights.

Of a stack of equal layers one is traced. The others have its trace, with their own weights, if all that it has read of
Python's state is found at the same places of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch

from gluonjit.engines.torch.buffers import is_written
from gluonjit.engines.torch.cell import Call, Cell, TraceFindings
from gluonjit.engines.torch.effects import PARTS, PLAIN, constants_of
from gluonjit.engines.torch.structure import RESULTS, Written
from gluonjit.hybrid.capture.cell import KEY
from gluonjit.hybrid.capture.guards.facts import Fact, alike, is_plain
from gluonjit.hybrid.capture.guards.variants import Variant

_MOST, _MOST_LOOKS = 4, 256
_HOLDERS = (dict, set, list)

_traced: WeakKeyDictionary[Any, dict[Any, list[tuple[Any, Any]]]] = WeakKeyDictionary()
"""Modules of which calls were traced, with their cells, by the function that ran and the shapes of their weights."""


def remember(call: Call) -> None:
    """Remembers the module of a call that was traced."""
    function = _function(call)
    if function is None or call.noted.traced is None:
        return
    by_shape = _traced.setdefault(function, {})
    if len(by_shape) >= _MOST_LOOKS:
        by_shape.clear()
    known = by_shape.setdefault(_shapes(call.owner), [])
    known[:] = [(owner, cell) for owner, cell in known if owner() is not None and cell() is not None]
    if len(known) < _MOST and all(owner() is not call.owner or cell() is not call.cell for owner, cell in known):
        known.append((ref(call.owner), ref(call.cell)))


def forget() -> None:
    """Forgets all of them."""
    _traced.clear()


def take(call: Call, wanted: tuple[Any, ...], looks_of: Callable[[Cell, Any], Any]) -> None:
    """Lets a call have the trace of a like module's call, and what it has read, if there is one.

    `looks_of` gives what the program of a module depends on, as it is now.
    """
    function = _function(call)
    known = _traced.get(function, {}).get(_shapes(call.owner), ()) if function is not None else ()
    for owner, cell in [(owner(), cell()) for owner, cell in known]:
        if owner is None or cell is None or owner is call.owner or cell is call.cell:
            continue
        variants = cell.variants.get(_signature(call, wanted, cell, owner), ())
        if not variants or looks_of(cell, owner) != cell.seen:
            continue
        pairs = paired(owner, call.owner)
        if pairs is not None and any(_take(call, variant, pairs) for variant in variants):
            call.cell.asks_mode = call.cell.asks_mode or cell.asks_mode
            return


def _function(call: Call) -> Any:
    """The function that a module's call runs; None where that is anything else."""
    run = call.run
    if not isinstance(call.owner, torch.nn.Module):
        return None
    if isinstance(run, MethodType) and run.__self__ is call.owner:
        run = run.__func__
    return run if isinstance(run, FunctionType) else None


def _shapes(owner: Any) -> tuple[Any, ...]:
    return tuple(tensor.shape for tensor in owner.parameters())


def _signature(call: Call, wanted: tuple[Any, ...], cell: Any, owner: Any) -> tuple[Any, ...] | None:
    """The signature of such a call of another module; None where an argument is a weight or a module itself."""
    found = []
    for item in wanted:
        if item is call.cell or item is call.owner:
            item = cell if item is call.cell else owner
        elif item.__class__ is tuple and item and (item[0] == "constant" or isinstance(item[-1], torch.nn.Module)):
            return None
        found.append(item)
    return tuple(found)


class Pairs:
    """Objects of one module with those at the same places of another: each has one counterpart."""

    def __init__(self) -> None:
        self._there: dict[int, Any] = {}
        self._here: dict[int, Any] = {}

    def add(self, one: Any, other: Any) -> bool:
        """Notes two of them. False if one of them already has another counterpart."""
        return self._there.setdefault(id(one), other) is other and self._here.setdefault(id(other), one) is one

    def of(self, item: Any) -> Any:
        """The counterpart of an object, which is itself if it is part of neither module. Raises KeyError if of one."""
        found = self._there.get(id(item))
        if found is None and id(item) in self._here:
            raise KeyError
        return item if found is None else found


def paired(one: Any, other: Any) -> Pairs | None:
    """The parts of two modules in pairs; None where they are alike in more or less than their weights."""
    found = Pairs()
    pending = [(one, other)]
    met = set()
    while pending:
        first, second = pending.pop()
        if type(first) is not type(second) or not found.add(first, second):
            return None
        if id(first) in met:
            continue
        met.add(id(first))
        if not found.add(first.__dict__, second.__dict__) or not all(_are_alike(first, second, found, pending)):
            return None
    return None if any(place in found._here and place != id(other) for place, other in found._there.items()) else found


def _are_alike(first: Any, second: Any, found: Pairs, pending: list[tuple[Any, Any]]) -> Iterator[bool]:
    """Tells of each attribute of two modules whether it is alike; their parts are still to be compared."""
    space, beside = (
        {name: item for name, item in part.__dict__.items() if name != KEY and name not in RESULTS.get(part, ())}
        for part in (first, second)
    )
    yield [*space] == [*beside]
    for (name, item), (_, its) in zip(space.items(), beside.items()):
        if name in PARTS:
            yield [*item] == [*its] and found.add(item, its) and not (item and name == "_buffers")
            for part, counterpart in zip(item.values(), its.values()):
                if part is None or counterpart is None:
                    yield part is counterpart
                elif name == "_modules":
                    pending.append((part, counterpart))
                else:
                    yield _are_weights(part, counterpart) and found.add(part, counterpart)
        elif is_plain(item) or isinstance(item, PLAIN):
            yield type(item) is type(its) and (alike(item, its) if is_plain(item) else bool(item == its))
        elif item is its:
            yield found.add(item, its)
        else:
            yield isinstance(item, _HOLDERS) and type(item) is type(its) and not (item or its) and found.add(item, its)


def _are_weights(one: Any, other: Any) -> bool:
    """True if two parameters differ in their numbers alone."""
    return (
        type(one) is type(other) is torch.nn.Parameter
        and not (one.__dict__ or other.__dict__)
        and one.layout is other.layout is torch.strided
        and (one.shape, one.stride(), one.dtype, one.device) == (other.shape, other.stride(), other.dtype, other.device)
        and one.requires_grad == other.requires_grad
        and one.is_leaf
        and other.is_leaf
    )


def _take(call: Call, variant: Variant, pairs: Pairs) -> bool:
    """Lets a call have a variant's trace and reads, if these are found at its own module's places."""
    found: TraceFindings | None = variant.traced
    if found is None:
        return False
    try:
        facts = tuple(_there(fact, pairs) for fact in variant.facts)
        kept = tuple(map(pairs.of, variant.kept))
        consts = [pairs.of(tensor) for tensor in found.trace.consts]
        structure = found.structure
        if structure.__class__ is Written:
            structure = structure.of_others(pairs.of)
    except KeyError:
        return False
    if not all(fact.holds() for fact in facts) or not _are_constant(call, consts, facts):
        return False
    call.noted.facts, call.noted.kept = facts, kept
    call.noted.traced = found._replace(trace=found.trace.with_consts(consts), structure=structure)
    return True


def _there(fact: Fact, pairs: Pairs) -> Fact:
    """Returns the same fact about the other module. Raises KeyError if that cannot be told."""
    found = fact.found
    if isinstance(found, tuple):
        if any(pairs.of(item) is not item for item in _within(found)):
            raise KeyError
    else:
        found = pairs.of(found)
    return Fact(fact.way, pairs.of(fact.container), pairs.of(fact.key), found, fact.name)


def _within(items: tuple[Any, ...]) -> Iterator[Any]:
    return chain.from_iterable(_within(item) if isinstance(item, tuple) else (item,) for item in items)


def _are_constant(call: Call, consts: Sequence[Any], facts: Sequence[Fact]) -> bool:
    """True if tensors from outside are the same in every call, as those are that a trace has made itself."""
    known = constants_of(call.owner, call.args, call.kwargs, call.batch)
    read = {id(item) for fact in facts for item in _within((fact.found,))}
    outside = [tensor for tensor in consts if isinstance(tensor, torch.nn.Parameter) or id(tensor) in read]
    return all(id(tensor) in known and not is_written(tensor) for tensor in outside)
