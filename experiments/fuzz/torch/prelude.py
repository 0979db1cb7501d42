"""The functions that every program in this framework is run with. Their text is part of each printed program."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn  # noqa: F401
from torch.nn import functional as F  # noqa: F401

import gluonjit
from experiments.fuzz.comparing import attempt


class Program:
    """A program as an object that is no plain constant: what it calls is captured, call by call."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)


def fill(net: Any, names: list[str], dtype: str, nudge: float = 0.0) -> None:
    """Give parameters values that follow from their names, and forget gradients."""
    with torch.no_grad():
        for name, tensor in parameters(net, names).items():
            made = values(tensor.shape, sum(map(ord, name)), tensor.dtype, name.endswith("var"))
            tensor.copy_(made * (1 + nudge))
            tensor.grad = None


def forget_gradients(net: Any, names: list[str], arrays: Any, number: int) -> None:
    """Set all gradients to None, or to zero, or let them add up."""
    for tensor in [*parameters(net, names).values(), *arrays]:
        if number % 3 == 0:
            tensor.grad = None
        elif number % 3 == 1 and tensor.grad is not None:
            tensor.grad.zero_()


def change(net: Any, names: list[str], number: int) -> None:
    """Give one of the parameters other values, when what waits has run."""
    found = {name: tensor for name, tensor in parameters(net, names).items() if not name.endswith("var")}
    if not found:
        return
    name = sorted(found)[number % len(found)]
    made = values(found[name].shape, number + 1000, found[name].dtype)
    if number % 2:
        net.load_state_dict({name: made}, strict=False)
    else:
        net.to(found[name].dtype)
        with torch.no_grad():
            found[name].copy_(made)


def touch(net: Any, names: list[str], number: int) -> None:
    """Write into one of the parameters, whatever still needs its numbers."""
    found = {name: tensor for name, tensor in parameters(net, names).items() if not name.endswith("var")}
    if not found:
        return
    name = sorted(found)[number // 2 % len(found)]
    made = values(found[name].shape, number + 1000, found[name].dtype)
    with torch.no_grad():
        if number % 6 == 0:
            found[name].add_(0.25)
        elif number % 6 == 1:
            found[name].clamp_(-0.2, 0.2)
        elif number % 6 == 2:
            found[name].mul_(0.9)
        elif number % 6 == 3:
            found[name][0] = 0.5
        elif number % 6 == 4:
            found[name].copy_(made)
        else:
            net.load_state_dict({name: made}, strict=False)


def values(shape: Any, seed: int, dtype: Any, positive: bool = False) -> Any:
    """Numbers in [-0.6, 0.6], or around 1."""
    size = 1
    for extent in shape:
        size *= extent
    made = (torch.cos(torch.arange(size, dtype=torch.float64) * 1.7 + seed) * 0.6).reshape(tuple(shape))
    return ((made * 0.5 + 1) if positive else made).to(dtype)


def parameters(net: Any, names: list[str]) -> dict[str, Any]:
    """The parameters and running statistics of these layers."""
    found = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    return {
        name: found[name]
        for name in sorted(found)
        if name.split(".")[0] in names and found[name].dtype.is_floating_point
    }


def loss_of(outputs: Any, dtype: Any) -> Any:
    """One number; its gradients do not vanish where the outputs are symmetric."""
    terms = []
    for output in outputs:
        if output.is_floating_point():
            terms.append((output * output * 1.3 + torch.sin(output * 1.7 + 0.3)).mean().to(dtype))
    return gluonjit.add_n(terms) if terms else torch.zeros((), dtype=dtype)


def keep(found: dict[str, Any], what: str, outputs: Any) -> None:
    """Read results."""
    for number, output in enumerate(outputs or ()):
        name = f"{what}, output {number}"
        attempt(found, name, read, found, name, output)


def read(found: dict[str, Any], name: str, tensor: Any, of: Any = None) -> None:
    """Keep the numbers of a tensor, and whether it learns; None stays None.

    Where backward came from some results only, a gradient of zeros is one of None, as a batch may give either: it is
    that `of` this tensor.
    """
    if tensor is None and of is not None:
        tensor = torch.zeros_like(of)
    if tensor is None:
        found[name] = None
        return
    looks = tuple(tensor.shape), tensor.dtype
    numbers = found[name] = tensor.detach().numpy(force=True).copy()
    if looks != (numbers.shape, getattr(torch, str(numbers.dtype))):
        found[f"{name}, as it looked"] = str(looks)
    # PyTorch says of a view that was made while nothing records that it learns, but it has no history.
    if tensor.requires_grad and not (tensor.grad_fn is None and tensor._is_view()):
        found[f"{name}, learns"] = True


def record_gradients(found: dict[str, Any], what: str, net: Any, names: list[str], partly: bool = False) -> None:
    """Read the gradients of all parameters; where backward raised, they are those that it had come to."""
    if any(name.startswith(what) and "backward(" in name and name.endswith(" raises") for name in found):
        return
    for name, tensor in parameters(net, names).items():
        read(found, f"{what}, gradient of {name}", tensor.grad, tensor if partly else None)


def record_all(found: dict[str, Any], net: Any, names: list[str]) -> None:
    """Read all parameters."""
    for name, tensor in parameters(net, names).items():
        read(found, name, tensor)
