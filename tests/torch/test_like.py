"""Modules that are like one that was traced are not traced, and those that only look so are."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gluonjit
from gluonjit.engines.torch import kinds
from tests.common.torch_support import assert_minibatch_as_eagerly

SIZE = 4
SCALES: dict[Any, float] = {}
SPECIAL: list[Any] = []
FIRST: list[Any] = [None]


class Config:
    def __init__(self, scale: float) -> None:
        self.scale = scale


class Block(nn.Module):
    """A residual block of the user's own, that can do several things otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(SIZE, SIZE), nn.ReLU(), nn.Linear(SIZE, SIZE))
        self.cell = nn.GRUCell(SIZE, SIZE)
        self.bias = nn.Parameter(torch.randn(SIZE))
        self.scale, self.activation, self.config = 1.5, torch.tanh, None
        self.others: list[Any] = []
        self.weights: dict[str, Any] = {}

    def forward(self, x: Any) -> Any:
        y = self.cell(self.inner(x), self.activation(x) * self.scale) + torch.ones(SIZE) * self.bias
        if self.config is not None:
            y = y * self.config.scale
        if self.others:
            y = self.others[0](y)
        if "more" in self.weights:
            y = y * self.weights["more"]
        return y * SCALES.get(self, 1.0) if SCALES else y


class Chosen(Block):
    def forward(self, x: Any) -> Any:
        return super().forward(x) * 2 if self is SPECIAL[0] else super().forward(x)


class OfList(Block):
    def forward(self, x: Any) -> Any:
        for layer in SPECIAL:
            x = torch.tanh(layer(x))
        return x + self.bias


class OfFirst(Block):
    def forward(self, x: Any) -> Any:
        return super().forward(x) * FIRST[0]


class Net(nn.Module):
    def __init__(self, kind: type, change: Callable[[Any], None] = lambda blocks: None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([kind() for _ in range(3)])
        change(self.blocks)

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x.sum()


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch, traced_once: None) -> Any:
    found: list[Any] = []
    original = kinds._trace
    monkeypatch.setattr(kinds, "_trace", lambda call, *given: found.append(call.cell.name) or original(call, *given))
    gluonjit.clear_caches()
    yield found
    SCALES.clear()
    SPECIAL.clear()
    FIRST[0] = None


def assert_as_eagerly(net: Any, traced: list[str], **options: Any) -> list[str]:
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, granularity="cell", outline=False, **options)
    assert_both_as_eagerly(net, own)
    return sorted(name for name in traced if name.startswith("blocks."))


def assert_both_as_eagerly(net: Any, own: Any) -> None:
    assert_minibatch_as_eagerly(net, own, [torch.randn(SIZE) for _ in range(3)])


EXPANDED: dict[str, Any] = {"expand": ("Net", "Block")}
FIRST_TWO = ["blocks.0", "blocks.1"]
"""The first one is given what does not learn, the second is the first of the others."""


def test_of_equal_modules_one_is_traced(traced: list[str]) -> None:
    assert assert_as_eagerly(Net(Block), traced, expand=("Net",)) == FIRST_TWO


def test_of_equal_layers_one_is_traced(traced: list[str]) -> None:
    assert assert_as_eagerly(Net(Block), traced, **EXPANDED) == ["blocks.0.cell", "blocks.0.inner", "blocks.1.inner"]


def set_scale(blocks: Any) -> None:
    blocks[1].scale = -0.5


def set_sign_of_zero(blocks: Any) -> None:
    for block, scale in zip(blocks, (0.0, -0.0, 0.0)):
        block.scale = scale


def set_function(blocks: Any) -> None:
    blocks[1].activation = torch.sigmoid


def set_config(blocks: Any) -> None:
    for number, block in enumerate(blocks):
        block.config = Config(float(number))


def set_part(blocks: Any) -> None:
    blocks[1].inner[1] = nn.Sigmoid()


def set_training(blocks: Any) -> None:
    for block in blocks:
        block.inner[1] = nn.Dropout(1.0)  # nothing is left
    blocks[1].inner.eval()


def set_learning(blocks: Any) -> None:
    blocks[1].bias.requires_grad_(False)


def tie_inside(blocks: Any) -> None:
    blocks[1].inner[2] = blocks[1].inner[0]


def tie_across(blocks: Any) -> None:
    blocks[2].inner[0], blocks[2].inner[2] = blocks[1].inner[2], blocks[1].inner[0]


def set_shared_part(blocks: Any) -> None:
    for block in blocks:
        block.others.append(blocks[0].inner)


def set_weights(blocks: Any) -> None:
    for number, block in enumerate(blocks):
        block.weights["more"] = float(number + 1)


CHANGES = [
    set_scale,
    set_sign_of_zero,
    set_function,
    set_config,
    set_part,
    set_training,
    set_learning,
    tie_inside,
    tie_across,
    set_shared_part,
    set_weights,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("options", [{"expand": ("Net",)}, EXPANDED], ids=["modules", "layers"])
def test_modules_that_differ_are_as_eagerly(change: Any, options: Any, traced: list[str]) -> None:
    names = assert_as_eagerly(Net(Block, change), traced, **options)
    if options is not EXPANDED:
        assert len(names) > len(FIRST_TWO)


def test_what_a_table_has_for_one_module_is_not_what_it_has_for_another(traced: list[str]) -> None:
    net = Net(Block)
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, granularity="cell", expand=("Net",))
    for each in (net, own):
        SCALES.update({block: float(number + 2) for number, block in enumerate(each.blocks)})
    assert_both_as_eagerly(net, own)


def test_who_a_module_is_may_matter(traced: list[str]) -> None:
    net = Net(Chosen)
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, granularity="cell", expand=("Net",), outline=False)
    for number in (1, 2):
        gluonjit.clear_caches()
        x = [torch.randn(SIZE) for _ in range(2)]
        SPECIAL[:] = [net.blocks[number]]
        expected = [net(each).detach() for each in x]
        SPECIAL[:] = [own.blocks[number]]
        for one, other in zip([own(each) for each in x], expected):
            assert torch.allclose(one, other, atol=1e-5)


def test_parts_that_a_list_has_are_the_same_for_all(traced: list[str]) -> None:
    net = Net(OfList)
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, granularity="cell", expand=("Net",), outline=False)
    x = [torch.randn(SIZE) for _ in range(2)]
    SPECIAL[:] = [net.blocks[1].inner]
    expected = [net(each).detach() for each in x]
    SPECIAL[:] = [own.blocks[1].inner]
    for one, other in zip([own(each) for each in x], expected):
        assert torch.allclose(one, other, atol=1e-5)


def test_what_has_changed_between_two_calls_counts(traced: list[str]) -> None:
    net = Net(OfFirst)
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, granularity="cell", expand=("Net",), outline=False)
    x = torch.randn(SIZE)
    for blocks in (net.blocks, own.blocks):
        FIRST[0] = 2.0
        y = blocks[0](x)
        FIRST[0] = 3.0
        y = blocks[1](y)
        blocks[0].scale = 0.25
        y = blocks[2](y) + blocks[0](y)
        FIRST[0] = None
        if blocks is net.blocks:
            expected = y.detach()
    assert torch.allclose(y, expected, atol=1e-5)


def test_a_module_that_has_changed_is_no_model_of_others(traced: list[str]) -> None:
    net = Net(Block, set_scale)  # the second has what the first is about to have
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, granularity="cell", outline=False)
    x = torch.randn(SIZE)
    found = []
    for blocks in (net.blocks, own.blocks):
        with torch.no_grad():
            first = blocks[0](x)
            blocks[0].scale = blocks[1].scale
            found.append([first.numpy(), blocks[1](x).numpy()])
    for one, other in zip(*found):
        assert abs(one - other).max() < 1e-5


def test_weights_are_let_go_of_with_their_module(traced: list[str]) -> None:
    net = gluonjit.hybridize(Net(Block), dynamic_batch=True, granularity="cell", expand=("Net",), outline=False)
    other = gluonjit.hybridize(Net(Block), dynamic_batch=True, granularity="cell", expand=("Net",), outline=False)
    with torch.no_grad():
        net(torch.randn(SIZE)).item()
        other(torch.randn(SIZE)).item()
    assert set(traced) >= {"blocks.0"} and not {"blocks.1", "blocks.2"}.intersection(traced)
    gone = weakref.ref(net.blocks[0].bias)
    del net
    gluonjit.engines.torch.engine.LOCAL.state.batch = None
    gc.collect()
    assert gone() is None
    assert other is not None


def test_a_layer_of_the_users_in_a_loss_of_several_rows_is_as_eagerly(traced: list[str]) -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = nn.ModuleList([nn.Linear(SIZE, 3) for _ in range(3)])

        def forward(self, x: Any) -> Any:
            return sum(F.cross_entropy(head(x), torch.tensor(k)) for k, head in enumerate(self.heads))

    net = Heads()
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, granularity="cell", expand=("Heads",))
    assert_both_as_eagerly(net, own)
    assert [name for name in traced if name.startswith("heads.")] == ["heads.0"]
