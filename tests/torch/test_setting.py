"""Modules that set attributes, as attention keeps its weights: these are further results of the call."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import gluonjit
from tests.common.torch_support import assert_close, gradients


class Attention(nn.Module):
    """Keeps its weights, as many models do for a look at them."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.attn = None
        self.shown: Any = None

    def forward(self, x: Any) -> Any:
        self.attn = torch.softmax(self.query(x) @ self.key(x).t(), -1)
        self.shown = None if len(x) > 3 else "short"
        return self.attn @ x


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.out = Attention(), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        self.kept = torch.tanh(self.out(self.attention(x)))
        return self.kept + self.attention.attn.sum() * 0.1


class Net(nn.Module):
    """Two layers that are alike but for their weights, a head, and a loop that no cell takes."""

    def __init__(self, layer: Any = Layer) -> None:
        super().__init__()
        self.layers = nn.ModuleList([layer() for _ in range(2)])
        self.cell, self.head = nn.RNNCell(4, 4), nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        h = torch.zeros(1, 4)
        for row in x.split(1):
            h = self.cell(row, h)
        return self.head(h).sum()


class Counting(Layer):
    """Its result depends on what the calls before have set."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return super().forward(x) * self.calls


class Smoothed(Layer):
    """Reads what the call before has set."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Any = torch.zeros(4)

    def forward(self, x: Any) -> Any:
        out = super().forward(x)
        found = out + self.before
        self.before = out.mean(0).detach()
        return found


class Reader(nn.Module):
    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = [attention]
        self.scale = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.scale(x) + self.attention[0].attn.sum()


class Elsewhere(Layer):
    """What one part sets another one reads, through an object that is no part of it, and later directly."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = Reader(self.attention)

    def forward(self, x: Any) -> Any:
        out = self.out(self.attention(x))
        return self.reader(out) + self.attention.attn.mean()


class Changing(Layer):
    """Sets something else in calls of other lengths, and deletes it in some."""

    def forward(self, x: Any) -> Any:
        out = super().forward(x)
        if len(x) == 2:
            self.small = out
        elif hasattr(self, "small"):
            del self.small
        return out


KINDS = [Layer, Counting, Smoothed, Elsewhere, Changing]


def both(kind: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    eager = Net(kind)
    return eager, gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="cell", scheduler="depth")


def minibatch(seed: int) -> list[Any]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(2 + k % 3, 4, generator=draw) for k in range(6)]


def state(net: Any) -> dict[str, Any]:
    """All that modules have as attributes of their own, but for parts and weights."""
    own = {*nn.Module().__dict__, "_gluonjit", "attention"}
    found = {
        f"{path}.{key}": item
        for path, part in net.named_modules()
        for key, item in vars(part).items()
        if key not in own
    }
    return {name: item.detach().clone() if isinstance(item, torch.Tensor) else item for name, item in found.items()}


@pytest.fixture
def double() -> Iterator[None]:
    """Computes in float64: terms of the gradients of keys cancel out, which leaves noise of float32."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_values_gradients_and_attributes_are_those_of_eager_execution(kind: Any, training: bool) -> None:
    eager, net = both(kind)
    for step in range(4):
        found = []
        for one in (eager, net):
            one.zero_grad()
            with torch.set_grad_enabled(training):
                results = [one(x) for x in minibatch(step)]
                total = sum(results)
                if training:
                    total.backward()
            found.append(
                (torch.stack([result.detach() for result in results]), gradients(one) if training else {}, state(one))
            )
        (expected, slopes, left), (actual, steep, there) = found
        assert_close(actual, expected, "results")
        for name, gradient in slopes.items():
            assert_close(steep[name], gradient, name)
        assert left.keys() == there.keys()
        for name, item in left.items():
            if isinstance(item, torch.Tensor):
                assert_close(there[name], item, name)
            else:
                assert there[name] == item, name


def test_a_module_that_sets_attributes_is_one_node() -> None:
    _, net = both(Layer)
    for step in range(5):
        sum(net(x) for x in minibatch(step)).backward()
    report = gluonjit.explain()
    assert not report.unbatched
    assert [report.kinds[name].nodes for name in ("layers.0", "layers.1")] == [6, 6]
    assert report.cache["misses"] == 0


def test_what_was_set_has_gradients() -> None:
    found = []
    for net in both(Layer):
        total = 0
        for x in minibatch(0):
            total = total + net(x) + (net.layers[0].attention.attn ** 2).sum() + net.layers[1].kept.sum()
        total.backward()
        found.append(gradients(net))
    for name, gradient in found[0].items():
        assert_close(found[1][name], gradient, name)


def test_copies_and_pickles_keep_what_was_set() -> None:
    eager, net = both(Layer)
    with torch.no_grad():
        for one in (eager, net):
            for x in minibatch(0):
                one(x)
        for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            same = copy.deepcopy(eager)
            assert_close(other.layers[0].attention.attn, same.layers[0].attention.attn, "a copy's")
            assert_close(other(minibatch(1)[0]), same(minibatch(1)[0]), "a copy")
            assert_close(other.layers[0].attention.attn, same.layers[0].attention.attn, "a copy's, set anew")


class Positions(nn.Module):
    """As in the annotated transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(1, 9, 4))
        self.out = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        x = self.out(x) + self.table[0, : x.size(0)].requires_grad_(False)
        return x.requires_grad_(x.requires_grad) * 2


def test_requires_grad_that_changes_nothing_is_no_effect() -> None:
    eager, net = both(Positions)
    for step in range(3):
        expected, found = [sum(one(x) for x in minibatch(step)) for one in (eager, net)]
        found.backward()
        assert_close(found, expected, "results")
    assert gluonjit.explain().flushes == 1 and not gluonjit.explain().unbatched
