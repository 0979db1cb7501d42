"""Weights that are frozen and freed: a call is what a trace would give with the weights that learn now."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch_support import gradients
from torch_training import VECTORS, assert_alike

import gluonjit
from gluonjit.engines.torch.run import saved
from gluonjit.engines.torch.tracing.cell import Cell
from gluonjit.hybrid.capture.guards.facts import SLOT
from gluonjit.hybrid.capture.guards.variants import Again

CELL: dict[str, Any] = {"granularity": "cell"}


class Quiet(nn.Module):
    """A layer whose result is written to without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        h = self.linear(x)
        with torch.no_grad():
            h.mul_(2)
        return self.last(h.tanh())


class Replaced(Quiet):
    """A result that is written over, so that its history ends there."""

    def forward(self, x: Any) -> Any:
        h = self.linear(x)
        h.copy_(x)
        return self.last(h).tanh()


class Asks(Quiet):
    """A program that goes by whether a result learns."""

    def forward(self, x: Any) -> Any:
        h = self.linear(x)
        return self.last(h.tanh() if h.requires_grad else h.sin())


class AsksWeight(Quiet):
    """A program that goes by whether a weight learns."""

    def forward(self, x: Any) -> Any:
        h = self.linear(x)
        return self.last(h.tanh() if self.linear.weight.requires_grad else h.sin())


class AsksAll(Quiet):
    """A program that goes by what it finds of its weights."""

    def forward(self, x: Any) -> Any:
        h = self.linear(x)
        return self.last(h.tanh() if any(p.requires_grad for p in self.linear.parameters()) else h.sin())


class Plain(Quiet):
    """Two layers: the program is the same whichever learns."""

    def forward(self, x: Any) -> Any:
        h = self.linear(x).chunk(2, -1)
        return self.last(torch.cat(h).tanh())


class Writes(Quiet):
    """Writes to results: the program is the same whichever weights learn."""

    def forward(self, x: Any) -> Any:
        h = self.linear(x)
        h += x
        h[1:].mul_(2)
        return self.last(h).tanh_()


CELLS = [Quiet, Replaced, Asks, AsksWeight, AsksAll, Plain, Writes]


class Net(nn.Module):
    """A sample of plain Python: its cell is a node."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell, self.first = cell(), nn.Linear(4, 4)

    def forward(self, sample: tuple[Any, int]) -> Any:
        x, turns = sample
        for _ in range(turns):
            x = self.cell(x)
        return x


SAMPLES = [(x, 1 + number % 2) for number, x in enumerate(VECTORS)]


def _gradients(net: Any, samples: Any = SAMPLES) -> dict[str, Any]:
    """Values of a minibatch, and the gradients that there are."""
    net.zero_grad()
    results = [net(sample) for sample in samples]
    total = sum(result.square().sum() for result in results)
    if total.requires_grad:
        total.backward()
    return {"values": [result.detach().clone() for result in results], **gradients(net)}


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("part", ["cell", "cell.linear"])
def test_a_cell_is_traced_for_the_weights_that_learn(cell: Any, frozen: bool, part: str) -> None:
    def run(net: Any) -> Any:
        found = []
        for turn in range(4):
            net.get_submodule(part).requires_grad_(frozen == bool(turn % 2))
            found.append(_gradients(net))
        return found

    assert_alike(run, lambda: Net(cell), **CELL)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("frozen", [True, False])
def test_weights_are_frozen_and_freed_while_calls_wait(cell: Any, frozen: bool) -> None:
    def run(net: Any) -> Any:
        net.cell.linear.requires_grad_(not frozen)
        before = sum(net(sample).square().sum() for sample in SAMPLES)
        net.cell.linear.requires_grad_(frozen)
        return _gradients(net), torch.autograd.grad(before, list(net.cell.last.parameters()))

    assert_alike(run, lambda: Net(cell), **CELL)


def _assign(parameter: Any, learns: bool) -> None:
    parameter.requires_grad = learns


@pytest.mark.parametrize("freeze", [_assign, nn.Parameter.requires_grad_])
@pytest.mark.parametrize("cell", [Quiet, Replaced, Asks, AsksWeight, AsksAll])
@pytest.mark.parametrize("frozen", [True, False])
def test_single_weights_are_frozen_and_freed_while_calls_wait(freeze: Any, cell: Any, frozen: bool) -> None:
    def run(net: Any) -> Any:
        found = []
        for learns in (frozen, not frozen):
            for parameter in net.cell.linear.parameters():
                freeze(parameter, learns)
            found += [net(sample) for sample in SAMPLES]
        for parameter in net.cell.linear.parameters():
            freeze(parameter, True)
        sum(result.square().sum() for result in found).backward()
        return [result.detach().clone() for result in found], gradients(net)

    assert_alike(run, lambda: Net(cell), **CELL)


def test_weights_that_keep_their_flags_are_no_reason_to_run() -> None:
    net = gluonjit.hybridize(Net(Quiet), dynamic_batch=True, **CELL)
    with gluonjit.batching() as batch:
        for sample in SAMPLES:
            net(sample)
            net.cell.linear.weight.requires_grad_()
            net.cell.linear.bias.requires_grad = True
    assert batch.report.flushes == 1


class Overwritten(Quiet):
    """A write over what is saved for a backward pass where the weight learns."""

    def forward(self, x: Any) -> Any:
        h = self.last(x)
        y = h * self.linear.weight[0]
        h.mul_(2)
        return y + h


def test_a_write_over_what_is_saved_is_refused_where_the_weight_learns() -> None:
    def run(net: Any) -> Any:
        net.cell.linear.requires_grad_(False)
        found = _gradients(net)
        net.cell.linear.requires_grad_(True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            _gradients(net)
        net.cell.linear.requires_grad_(False)
        return found, _gradients(net)

    assert_alike(run, lambda: Net(Overwritten), **CELL)


class FreezesPart(Quiet):
    """A program that freezes a layer of its own."""

    def forward(self, x: Any) -> Any:
        self.linear.requires_grad_(False)
        return self.last(self.linear(x))


class FreezesWeight(Quiet):
    """A program that freezes a weight of its own."""

    def forward(self, x: Any) -> Any:
        self.linear.weight.requires_grad_(False)
        return self.last(self.linear(x))


@pytest.mark.parametrize("cell", [FreezesPart, FreezesWeight])
def test_a_call_that_freezes_weights_does_so_each_time(cell: Any) -> None:
    def run(net: Any) -> Any:
        found = []
        for frozen in (True, False, False):
            net.requires_grad_(not frozen)
            found.append((_gradients(net, SAMPLES[::2]), [parameter.requires_grad for parameter in net.parameters()]))
        return found

    assert assert_alike(run, lambda: Net(cell), **CELL).unbatched


@pytest.mark.parametrize("cell", CELLS)
def test_each_set_of_flags_is_traced_once(cell: Any) -> None:
    net = gluonjit.hybridize(Net(cell), dynamic_batch=True, **CELL)
    misses = []
    for turn in range(6):
        net.cell.linear.requires_grad_(turn % 2 == 0)
        _gradients(net)
        misses.append(gluonjit.explain().cache["misses"])
    assert misses[0] > 0
    assert misses[2:] == [0] * 4, misses
    if cell in (Plain, Writes):
        assert misses[1] == 0


def _flags(net: Any) -> list[Any]:
    """The weights of a net whose flags a call depends on."""
    facts = [fact for cell in Cell.every() for found in cell.variants.values() for v in found for fact in v.facts]
    flags = [fact.container for fact in facts if fact.way == SLOT]
    return [name for name, parameter in net.named_parameters() if any(parameter is item for item in flags)]


@pytest.mark.parametrize("cell", [Plain, Writes, Quiet, AsksWeight])
def test_layers_are_found_without_a_look_at_their_weights(cell: Any) -> None:
    net = gluonjit.hybridize(cell(), dynamic_batch=True, **CELL)
    net(VECTORS[0]).sum().backward()  # one that learns is enough
    expected: Any = {Quiet: ["linear.bias"], AsksWeight: ["linear.weight"]}
    assert _flags(net) == expected.get(cell, [])


def test_a_layer_has_no_guards() -> None:
    net = gluonjit.hybridize(nn.Linear(4, 4), dynamic_batch=True, **CELL)
    with gluonjit.batching() as batch:
        net(VECTORS[0])
        assert [record.guards for record in batch.records.values()] == [None]


def _trace_all_again() -> int:
    """Trace each call again that is found; returns how many were in the last minibatches."""
    Again.due = lambda self: True  # type: ignore[method-assign]
    found = 0
    for cell in CELLS:
        net = gluonjit.hybridize(Net(cell), dynamic_batch=True, **CELL)
        for turn in range(4):
            net.cell.linear.requires_grad_(turn % 2 == 0)
            _gradients(net)
        found += gluonjit.explain().retraced
    return found


def test_calls_traced_again_are_compared_for_the_same_weights() -> None:
    code = "import test_frozen; assert test_frozen._trace_all_again() > 0"
    paths = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    env = {**os.environ, "GLUONJIT_PURE": "1", "PYTHONPATH": paths}  # C leaves Python one in a thousand
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_an_operator_saves_is_asked_of_those_that_use_written_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask is to run it, which takes longer than to trace it."""
    asked: list[str] = []

    def noting(op: Any, known: Any) -> Any:
        asked.append(op.name)
        return saved_by(op, known)

    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            y = torch.tanh(self.one(x)).sigmoid() - 1
            return y.mul_(2)

    saved_by = saved.saved_by
    monkeypatch.setattr(saved, "saved_by", noting)
    net = Writes()
    xs = [torch.full((3,), float(k)) for k in range(3)]
    expected = [net(x).detach() for x in xs]
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell", outline=False)
    with gluonjit.batching(granularity="cell") as batch:
        found = [net(x) for x in xs]
    assert batch.report.nodes == len(xs)
    assert [name.split("::")[-1].split(".")[0] for name in asked] == ["sub", "mul"]
    for one, two in zip(found, expected):
        assert torch.allclose(one, two, rtol=1e-5)
