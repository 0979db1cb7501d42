"""What goes wrong when a batch of PyTorch's runs: the error names the call, the sample and the line."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import gluonjit  # noqa: E402
from gluonjit.errors import BatchClosedError, FlushError  # noqa: E402


class Tree:
    """A node and its children."""

    def __init__(self, x: float, *children: Tree) -> None:
        self.x, self.children = torch.full((4,), x), children


class Cell(nn.Module):
    """A state of any number of children; what kind a node is is computed, and one that the table lacks fails."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.table = nn.Linear(4, 4), nn.Embedding(5, 4)

    def forward(self, x: Any, children: list[Any]) -> Any:
        state = torch.tanh(self.dense(x)) + functional.embedding(x.sum().abs().long(), self.table.weight)
        return state + sum(children) if children else state


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()

    def forward(self, tree: Tree) -> Any:
        return self.encode(tree).sum()

    def encode(self, tree: Tree) -> Any:
        children = [self.encode(child) for child in tree.children]
        return self.cell(tree.x, children)  # the line of the cell


def line_with(text: str) -> int:
    with open(__file__, encoding="utf-8") as source:
        return next(number for number, line in enumerate(source, 1) if text in line)


def trees(last: float) -> list[Tree]:
    """Roots of one to three children, and one more root of two."""
    leaf = Tree(0.1)
    roots = [Tree(0.2 + 0.1 * number, *[leaf] * number) for number in (1, 2, 3)]
    return [*roots, Tree(last, leaf, Tree(0.4))]


@pytest.mark.parametrize("without", [(), ("arity",)], ids=["any number of children", "by number"])
@pytest.mark.parametrize("recording", [True, False])
def test_a_failing_sample_is_named(recording: bool, without: tuple[str, ...]) -> None:
    torch.manual_seed(0)
    net = gluonjit.hybridize(Net(), dynamic_batch=True, without=without)
    with torch.set_grad_enabled(recording):
        expected = [result.item() for result in list(map(net, trees(1.0)))]
        steps = [row for row in gluonjit.explain().steps if row.name == "cell"]
        assert len(steps) == (4 if without else 2), "roots run together where they have any number of children"
        results = [net(tree) for tree in trees(9.0)]
        with pytest.raises(FlushError, match="index out of range in self") as caught:
            results[0].item()
    assert "call of cell in sample 3" in str(caught.value)
    assert f"test_torch_failures.py:{line_with('# the line of the cell')} in " in str(caught.value)
    assert isinstance(caught.value, IndexError)  # a program that expects PyTorch's own error finds it
    with pytest.raises(BatchClosedError, match="in sample 3"):
        results[0].item()
    assert [result.item() for result in map(net, trees(1.0))] == pytest.approx(expected)
