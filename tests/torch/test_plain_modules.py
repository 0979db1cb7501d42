"""Modules of hybridized models that run eagerly: their calls and attributes are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as modules

import gluonjit
from gluonjit.hybrid.run.state import UNCAPTURED

SEEN: list[Any] = []
X = torch.arange(3.0)


class Net(nn.Module):
    """A model with a part, a parameter, a buffer, and a property that says no."""

    kind = "class"

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.part = nn.Linear(3, 3)
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("place", torch.ones(3))
        self.register_buffer("nothing", None)
        self.plain = 5

    @property
    def refuses(self) -> Any:
        """Raises what Python takes for a missing attribute, having been asked once."""
        SEEN.append("refuses")
        raise AttributeError("no such thing")

    def forward(self, x: Any, *, scale: float = 1.0) -> Any:
        """Use all of them."""
        return self.part(x) * self.weight * scale + self.place + self.plain


class Asked(Net):
    """Has its own way for what is missing."""

    def __getattr__(self, name: str) -> Any:
        return name if name.startswith("made_") else super().__getattr__(name)


class Seen(Net):
    """Sees every attribute first."""

    def __getattribute__(self, name: str) -> Any:
        if name == "part":
            SEEN.append(name)
        return super().__getattribute__(name)


class Called(Net):
    """Has its own way to call forward."""

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        SEEN.append("_call_impl")
        return super()._call_impl(*args, **kwargs)


def found(module: Any, name: str) -> Any:
    """What an attribute is, or the error, and what was seen on the way."""
    SEEN.clear()
    try:
        got = getattr(module, name)
    except AttributeError as error:
        got = str(error)
    return (got if isinstance(got, (str, int, dict)) else type(got)), list(SEEN)


NAMES = ("part", "weight", "place", "nothing", "plain", "kind", "refuses", "missing", "made_up", "training", "__dict__")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [Net, Asked, Seen])
def test_attributes_are_those_of_a_module(kind: type[nn.Module], name: str) -> None:
    plain = type(kind.__name__, (kind,), {})()
    batched = type(kind.__name__, (kind,), {})()
    gluonjit.hybridize(batched, dynamic_batch=True)
    was, now = found(plain, name), found(batched, name)
    if name == "__dict__":
        assert set(now[0]) - set(was[0]) == {"_gluonjit"}
    else:
        assert now == was
        assert hasattr(batched, name) == hasattr(plain, name)


def test_a_part_is_found_after_any_change() -> None:
    kind: Any = type("Kind", (Net,), {})
    net = kind()
    gluonjit.hybridize(net, dynamic_batch=True)
    part = net.part
    net.__dict__["part"] = "of the instance"
    assert net.part == "of the instance"
    kind.part = property(lambda self: "of the class")
    assert net.part == "of the class"
    del kind.part, net.__dict__["part"]
    assert net.part is part
    kind.__getattr__ = lambda self, name: name
    assert net.part == "part"
    del kind.__getattr__
    assert net.part is part
    kind.__getattribute__ = lambda self, name: 7
    assert net.part == 7
    del kind.__getattribute__
    assert net.part is part
    with pytest.raises(AttributeError, match="'Kind' object has no attribute 'anything'"):
        net.anything  # noqa: B018


def test_an_attribute_is_missed_whatever_python_remembers_of_classes() -> None:
    # Each new class and name is one that Python's cache of look-ups does not have.
    for k in range(300):
        kind = type(f"Kind{k}", (nn.Identity,), {})
        gluonjit.hybridize(kind(), dynamic_batch=True)
        assert getattr(kind(), f"name{k}", 5) == 5 and not hasattr(kind(), "inplace")


def hooked(net: Any) -> None:
    net.register_forward_hook(lambda *given: SEEN.append("hook"))


def pre_hooked(net: Any) -> None:
    net.register_forward_pre_hook(lambda *given: SEEN.append("pre"))


def backward_hooked(net: Any) -> None:
    net.register_full_backward_hook(lambda *given: SEEN.append("backward"))


def backward_pre_hooked(net: Any) -> None:
    net.register_full_backward_pre_hook(lambda *given: SEEN.append("backward pre"))


def replaced(net: Any) -> None:
    net.forward = lambda x, scale=1.0: SEEN.append("mine") or x * scale


def compiled(net: Any) -> None:
    net._compiled_call_impl = lambda *args, **kwargs: SEEN.append("compiled") or net._call_impl(*args, **kwargs)


@contextmanager
def everywhere() -> Iterator[None]:
    handle = modules.register_module_forward_hook(lambda *given: SEEN.append("everywhere"))
    try:
        yield
    finally:
        handle.remove()


CHANGES: dict[str, Callable[[Any], None]] = {
    "nothing": lambda net: None,
    "a hook": hooked,
    "a hook before": pre_hooked,
    "a hook of backward": backward_hooked,
    "a hook before backward": backward_pre_hooked,
    "its own forward": replaced,
    "a compiled call": compiled,
}


@pytest.mark.parametrize("named", [{}, {"scale": 2.0}], ids=["by place", "by name"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", [Net, Asked, Called])
@pytest.mark.parametrize("scope", [nullcontext, everywhere])
def test_a_call_is_pytorchs(kind: type[nn.Module], change: str, named: dict[str, float], scope: Any) -> None:
    """Values, gradients and what was called by the way are the same eagerly and in a hybridized model."""
    results = []
    for batched in (False, True):
        net = kind()
        if batched:
            gluonjit.hybridize(net, dynamic_batch=True)
        CHANGES[change](net)
        SEEN.clear()
        x = X.clone().requires_grad_()
        with UNCAPTURED if batched else nullcontext(), scope():
            out = net(x, **named)
            out.sum().backward()
        results.append((out.detach(), x.grad, list(SEEN)))
    (out, grad, seen), (own, own_grad, own_seen) = results
    assert torch.equal(out, own) and torch.equal(grad, own_grad)
    assert seen == own_seen
    assert seen or change == "nothing"


def test_a_call_without_a_forward_says_so() -> None:
    net = nn.Module()
    gluonjit.hybridize(net, dynamic_batch=True)
    assert found(net, "missing") == found(nn.Module(), "missing")
    with UNCAPTURED, pytest.raises(NotImplementedError, match='missing the required "forward"'):
        net(X)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_pytorch_traces_has_its_scopes() -> None:
    plain, net = Net(), Net()
    gluonjit.hybridize(net, dynamic_batch=True)
    with UNCAPTURED:
        traced = torch.jit.trace(net, X)
    assert torch.equal(traced(X), plain(X))
    assert [node.scopeName() for node in traced.inlined_graph.nodes()] == [
        node.scopeName() for node in torch.jit.trace(plain, X).inlined_graph.nodes()
    ]


def test_fx_sees_what_a_forward_asks_for() -> None:
    plain, net = Net(), Net()
    gluonjit.hybridize(net, dynamic_batch=True)
    graphs = [
        [(node.op, str(node.target)) for node in torch.fx.symbolic_trace(each).graph.nodes] for each in (plain, net)
    ]
    assert graphs[0] == graphs[1] and ("get_attr", "weight") in graphs[0]
    assert net.part is net._modules["part"]
