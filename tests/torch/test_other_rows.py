"""Operators and layers on numbers of rows that were never met: they run as those that were, and are not traced."""

from __future__ import annotations

import copy
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gluonjit
from gluonjit.engines.torch.capture import records
from tests.common.torch_support import assert_minibatch_as_eagerly

SIZE = 5
WAYS: dict[str, dict[str, Any]] = {"operators": {"granularity": "op"}, "layers": {"expand": ("Net",)}}


@gluonjit.cell
def own(x: Any) -> Any:
    """A cell of the user's, whose program depends on the number of rows."""
    return x.sin() if len(x) < 4 else x.cos()


ROW_BY_ROW: dict[str, Callable[..., Any]] = {
    "a layer": lambda net, x: net.layer(x),
    "a cell": lambda net, x: net.cell(x, x * 2),
    "layers": lambda net, x: net.layers(x),
    "columns joined": lambda net, x: torch.cat([x, x.sin()], dim=1),
    "zeros": lambda net, x: torch.zeros_like(x) + x,
    "a sum with itself": lambda net, x: x + x,
    "normalized rows": lambda net, x: F.layer_norm(x, (SIZE,)),
    "a sum of each row": lambda net, x: x.sum(1, keepdim=True),
    "a sum of rows": lambda net, x: x.sum(0),
    "a mean of rows": lambda net, x: x.mean(0),
}
ACROSS_ROWS: dict[str, Callable[..., Any]] = {
    "probabilities of rows": lambda net, x: x.softmax(0),
    "rows in turn": lambda net, x: x.roll(1, 0) + x.flip(0),
    "sums so far": lambda net, x: x.cumsum(0),
    "all pairs": lambda net, x: (x @ x.t()).tanh(),
    "a part": lambda net, x: (x * 2)[:2].sin(),
    "a row dropped": lambda net, x: x.tanh().squeeze(0),
    "a square": lambda net, x: (x + net.square if len(x) == SIZE else x).sin(),
    "largest": lambda net, x: x.amax(0),
    "means of columns": lambda net, x: x.mean(0, keepdim=True),
    "what asks for it": lambda net, x: own(x),
}


class Net(nn.Module):
    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body = body
        self.layers = nn.Sequential(nn.Linear(SIZE, SIZE), nn.ReLU(), nn.LayerNorm(SIZE))
        self.layer, self.cell = nn.Linear(SIZE, SIZE), nn.GRUCell(SIZE, SIZE)
        self.square = nn.Parameter(torch.randn(SIZE, SIZE))

    def forward(self, x: Any) -> Any:
        return self.body(self, self.layer(x)).sum()


def assert_as_eagerly(body: Callable[..., Any], way: str) -> None:
    """Two minibatches of few numbers of rows, then one of others, and of one row, of as many as there are columns."""
    torch.manual_seed(0)
    net = Net(body)
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, scheduler="depth", **WAYS[way])
    for numbers in ([2, 3, 4], [4, 3, 2], [6, 7, 1, SIZE, 2, 9], [7, 11, 1]):
        samples = [torch.randn(n, SIZE) for n in numbers]
        assert_minibatch_as_eagerly(net, own, samples)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_other_numbers_of_rows_are_not_traced(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[Any] = []
    made = records.make_kind
    monkeypatch.setattr(records, "make_kind", lambda call: traced.append(call) or made(call))
    gluonjit.clear_caches()
    assert_as_eagerly(ROW_BY_ROW[name], way)
    rows = {value.spec.rows for call in traced for value in call.values if value.spec.mode == "rows"}
    assert {2, 3, 4} <= rows <= {1, 2, 3, 4, 6}  # of one row each is traced, from which axes may be dropped


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ACROSS_ROWS)
def test_what_is_not_row_by_row_is_as_eagerly(name: str, way: str) -> None:
    gluonjit.clear_caches()
    assert_as_eagerly(ACROSS_ROWS[name], way)


@pytest.mark.parametrize("when", range(4))
def test_a_patch_of_a_library_is_noticed_by_calls_that_were_not_traced(
    when: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gluonjit.clear_caches()
    torch.manual_seed(0)
    net, plain = Net(ROW_BY_ROW["a layer"]), F.linear
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, scheduler="depth", **WAYS["layers"])
    for number, rows in enumerate([[2, 3], [4, 7], [7, 11, 4], [4, 5, 8]]):
        if number == when:
            monkeypatch.setattr(F, "linear", lambda x, weight, bias=None: plain(x, weight, bias) * 2)
        assert_minibatch_as_eagerly(net, own, [torch.randn(n, SIZE) for n in rows])
    monkeypatch.undo()
    assert_minibatch_as_eagerly(net, own, [torch.randn(n, SIZE) for n in (4, 5, 8, 12)])
