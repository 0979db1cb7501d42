"""Side effects of a call, and the state beyond its arguments that a program may depend on."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.nn.utils import parametrize

from gluonjit.engines.torch.framework.buffers import WeightView, is_written
from gluonjit.engines.torch.framework.structure import RESULTS
from gluonjit.hybrid.capture.structure import items_of
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL

PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device, torch.Size)
"""Classes of plain constants."""


class Outside:
    """Context that undoes the visible side effects of a traced function.

    drawn: whether it drew random numbers in Python; changed: whether it set attributes of the module.
    """

    def __init__(self, owner: Any) -> None:
        self._modules = list(owner.modules()) if isinstance(owner, torch.nn.Module) else []
        self.drawn = self.changed = False

    def __enter__(self) -> None:
        self._torch = torch.get_rng_state()
        self._python = random.getstate()
        self._numpy: Any = np.random.get_state()
        self._attributes = [dict(module.__dict__) for module in self._modules]
        self._cached, parametrize._cache_enabled = parametrize._cache_enabled, 0

    def __exit__(self, *error: object) -> None:
        if random.getstate() != self._python:
            self.drawn = True
            random.setstate(self._python)
        parametrize._cache_enabled = self._cached
        found: Any = np.random.get_state()
        if found[2] != self._numpy[2] or not np.array_equal(found[1], self._numpy[1]):
            self.drawn = True
            np.random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        for module, before in zip(self._modules, self._attributes):
            now = module.__dict__
            if len(now) != len(before) or any(now.get(name) is not item for name, item in before.items()):
                self.changed = True
                now.clear()
                now.update(before)


@contextmanager
def undrawn() -> Iterator[None]:
    """A region in which the library draws, which is no draw of the call that is being recorded to be reused."""
    state = None if LOCAL.state.recorded is None else torch.get_rng_state()
    try:
        yield
    finally:
        if state is not None:
            torch.set_rng_state(state)


def flags(owner: Any) -> list[bool]:
    """Collects which weights and buffers of a module learn."""
    if not isinstance(owner, torch.nn.Module):
        return []
    return [tensor.requires_grad for tensor in (*owner.parameters(), *owner.buffers())]


def parts_of(module: Any) -> list[Any]:
    """The module and all that are in it, each once, as torch.nn.Module.modules names them."""
    found: dict[int, Any] = {}
    pending = [module]
    while pending:
        part = pending.pop()
        if id(part) not in found:
            found[id(part)] = part
            pending += [inner for inner in reversed(part._modules.values()) if inner is not None]
    return list(found.values())


def constants_of(owner: Any, args: Any, kwargs: Any, batch: Batch) -> dict[int, Any]:
    """Tensors that are the same in every call: parameters, buffers and what else modules keep, by address."""
    found: dict[int, Any] = dict(batch.parameters)
    if isinstance(owner, torch.nn.Module):
        for module in owner.modules():
            results = RESULTS.get(module, ())
            own = [item for name, item in module.__dict__.items() if name not in results]
            held = (*module._parameters.values(), *module._buffers.values(), *own)
            found.update((id(item), item) for item in held if isinstance(item, torch.Tensor))
    found.update((id(item), item) for item in items_of((args, kwargs), torch.nn.Parameter))
    found.update((id(item.weight), item.weight) for item in items_of((args, kwargs), WeightView))
    return {place: tensor for place, tensor in found.items() if not is_written(tensor)}


PARTS = ("_parameters", "_buffers", "_modules")
"""Attributes in which a module has its weights and parts."""
_USUAL_PLAIN, _USUAL_HOLDERS = {*PLAIN} - {float}, {dict, OrderedDict, set}
"""Classes of most attributes: to ask for one of these is faster than for what derives from one."""


def training_of(owner: Any) -> Any:
    """Returns whether a module trains, as a tuple of that of its parts where these differ; None for no module."""
    if not isinstance(owner, torch.nn.Module):
        return None
    found = [module.training for module in parts_of(owner)]
    return found[0] if len(set(found)) == 1 else tuple(found)


def attributes(owner: Any) -> Any:
    """Collects what a module's program depends on besides arguments: its plain attributes and parts, and theirs.

    Whether they train is apart, as models go from one to the other again and again.
    """
    if not isinstance(owner, torch.nn.Module):
        return ()
    found: list[Any] = []
    for module in parts_of(owner):
        found += (id(module), type(module))
        results = RESULTS.get(module, ())
        for name, item in module.__dict__.items():
            if name in results or name == "training":
                continue
            kind = item.__class__
            if kind in _USUAL_PLAIN:
                found.append((name, kind, item))
            elif name in PARTS:
                found += [(key, id(part)) for key, part in item.items()]  # what learns is guarded where it matters
            elif kind in _USUAL_HOLDERS or isinstance(item, (list, tuple, dict, set)):
                found.append((name, id(item), len(item)))
            elif isinstance(item, PLAIN):
                found.append((name, kind, repr(item) if kind is float else item))
            else:
                found.append((name, id(item)))
    return found
