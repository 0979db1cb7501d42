"""The functions that every program in this framework is run with. Their text is part of each printed program."""

from __future__ import annotations

from typing import Any

from mxnet import autograd, gluon, nd  # noqa: F401
from mxnet.gluon import nn  # noqa: F401

import gluonjit
from experiments.fuzz.comparing import attempt


def fill(net: Any, names: list[str], dtype: str, nudge: float = 0.0) -> None:
    """Give parameters values that follow from their names."""
    for name, parameter in parameters(net, names).items():
        made = values(parameter.shape, sum(map(ord, name)), dtype, name.endswith("var"))
        parameter.set_data(made * (1 + nudge))
        parameter.zero_grad()


def forget_gradients(net: Any, names: list[str], arrays: Any) -> None:
    """Set all gradients to zero."""
    for parameter in parameters(net, names).values():
        parameter.zero_grad()
    for array in arrays:
        array.grad[:] = 0


def change(net: Any, names: list[str], number: int, dtype: str) -> None:
    """Give one of the parameters other values."""
    found = [parameter for name, parameter in parameters(net, names).items() if not name.endswith("var")]
    if found:
        parameter = found[number % len(found)]
        parameter.set_data(values(parameter.shape, number + 1000, dtype))


# Of these a batch has its own copies, as operands of operators: its gradients are those of the numbers at the call.
OPERANDS = ("w1", "w2", "w3", "w4", "gamma", "beta", "vector", "embed", "prelu")


def touch(net: Any, names: list[str], number: int) -> None:
    """Write into one of the parameters, whatever still needs its numbers."""
    layers = [name for name in names if name not in OPERANDS]
    found = {name: parameter for name, parameter in parameters(net, layers).items() if not name.endswith("var")}
    if not found:
        return
    parameter = found[sorted(found)[number // 2 % len(found)]]
    made = values(parameter.shape, number + 1000, parameter.dtype)
    if number % 3 == 0:
        parameter.set_data(made)
    elif number % 3 == 1:
        parameter.data()[:] = made
    else:
        parameter.data()[:] *= 0.9


def values(shape: tuple[int, ...], seed: int, dtype: Any, positive: bool = False) -> Any:
    """Numbers in [-0.6, 0.6], or around 1."""
    size = 1
    for extent in shape:
        size *= extent
    made = nd.cos(nd.arange(size) * 1.7 + seed).reshape(shape) * 0.6
    return ((made * 0.5 + 1) if positive else made).astype(dtype)


def parameters(net: Any, names: list[str]) -> dict[str, Any]:
    """The parameters of these layers."""
    found = net._collect_params_with_prefix()
    return {name: found[name] for name in sorted(found) if name.split(".")[0] in names}


def loss_of(outputs: Any, tied: Any = ()) -> Any:
    """One number of type float32; its gradients do not vanish where the outputs are symmetric.

    `tied` are arrays on which it depends in any case.
    """
    terms = [(array * 0.01).sum().astype("float32") for array in tied]
    for output in outputs:
        if str(output.dtype.__name__) in ("float16", "float32", "float64"):
            terms.append((output * output * 1.3 + nd.sin(output * 1.7 + 0.3)).mean().astype("float32"))
    return gluonjit.add_n(terms) if terms else nd.zeros(1)


def keep(found: dict[str, Any], what: str, outputs: Any) -> None:
    """Read results."""
    for number, output in enumerate(outputs or ()):
        name = f"{what}, output {number}"
        attempt(found, name, read, found, name, output)


def read(found: dict[str, Any], name: str, array: Any) -> None:
    """Keep the numbers of an array."""
    found[name] = array.asnumpy().copy()


def record_gradients(found: dict[str, Any], what: str, net: Any, names: list[str]) -> None:
    """Read the gradients of all parameters."""
    for name, parameter in parameters(net, names).items():
        if parameter.grad_req != "null":
            read(found, f"{what}, gradient of {name}", parameter.grad())


def record_all(found: dict[str, Any], net: Any, names: list[str]) -> None:
    """Read all parameters."""
    for name, parameter in parameters(net, names).items():
        read(found, name, parameter.data())
