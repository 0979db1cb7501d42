"""What goes wrong when a batch of PyTorch's runs: the error names the call, the sample and the line."""

from __future__ import annotations

import pickle
import warnings
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import one_hot

import gluonjit
from gluonjit.errors import BatchClosedError, CaptureError, CellWarning, FlushError, GluonJITWarning, OptionError


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
    assert f"test_failures.py:{line_with('# the line of the cell')} in " in str(caught.value)
    assert isinstance(caught.value, IndexError)  # a program that expects PyTorch's own error finds it
    with pytest.raises(BatchClosedError, match="in sample 3"):
        results[0].item()
    assert [result.item() for result in map(net, trees(1.0))] == pytest.approx(expected)


class Inner(nn.Module):
    """A cell with an operator that may not fit."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.bias = nn.Linear(4, 4), nn.Parameter(torch.ones(3))

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.dense(x)) + self.bias


class Takes(nn.Module):
    """Layers, and something that does not fit done with them."""

    def __init__(self, does: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.dense, self.words, self.inner, self.norm = nn.Linear(4, 4), nn.Embedding(5, 4), Inner(), nn.BatchNorm2d(4)
        self.image, self.loss, self.steps = nn.Conv2d(1, 2, 3), nn.CrossEntropyLoss(), nn.LSTM(4, 3)
        self.attention = nn.MultiheadAttention(4, 2)
        self.does = does

    def forward(self, x: Any) -> Any:
        return self.does(self, x)


UNFIT: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "a layer's input": (lambda net, x: net.dense(torch.ones(1, 7)), r"linear called on operands \(1, 7\) float32"),
    "inside of a cell": (lambda net, x: net.inner(x), r"add called on operands \(2, 4\) float32, \(3,\) float32"),
    "a product": (lambda net, x: net.dense(x) @ net.dense(x), "Check the shapes"),
    "a size": (lambda net, x: net.dense(x).view(7), "Check the shapes"),
    "a row": (lambda net, x: net.dense(x)[9], "index 9"),
    "a column": (lambda net, x: net.dense(x)[0, 9], "index 9"),
    "an axis": (lambda net, x: net.dense(x).sum(5), "Dimension out of range"),
    "a word": (lambda net, x: net.words(torch.tensor([7])), "index 7 .* 5 rows .* vocabulary"),
    "a word as a float": (lambda net, x: net.words(torch.ones(2)), r"Check the dtypes .* x\.to\(torch\.int64\)"),
    "words": (lambda net, x: net.words(torch.tensor([[7, 1]])), "index out of range"),
    "a class": (lambda net, x: net.loss(net.dense(x), torch.tensor([1, 9])), "Target 9 is out of bounds"),
    "classes": (lambda net, x: net.loss(net.dense(x), torch.tensor([1, 2, 3])), "batch_size"),
    "a dtype": (lambda net, x: net.dense(x.double()), r"torch.float32 and torch.float64: convert one, as by x\.to\("),
    "an operator's dtype": (lambda net, x: net.dense(x) @ torch.ones(4, 2).double(), r"as by x\.to\(torch.float32\)"),
    "a row of classes": (
        lambda net, x: functional.one_hot(net.dense(x).argmax(-1) + 9, 4).float() + x,
        "Class values must be smaller",
    ),
    "a row of classes by another name": (
        lambda net, x: one_hot(net.dense(x).argmax(-1) + 9, num_classes=4).float() + x,
        "Class values must be smaller",
    ),
    "a device": (lambda net, x: net.dense(x) + torch.ones(2, 4, device="meta"), r"cpu and meta: .* x\.to\('cpu'\)"),
    "an image": (lambda net, x: net.image(x), "conv2d called on"),
    "a layer's own check": (lambda net, x: net.norm(x), "expected 4D input"),
    "an attention's own check": (lambda net, x: net.attention(torch.ones(2, 5), x, x), "embedding dim"),
    "a sequence": (lambda net, x: net.steps(torch.ones(2, 7)), "input.size"),
    "a root": (lambda net, x: torch.linalg.cholesky(-net.dense(x)[:, :2] - 9 * torch.eye(2)), "cholesky"),
    "a write": (lambda net, x: net.dense(x).add_(torch.ones(3, 3)), "size of tensor"),
}


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


# Outside of samples a row that is not there is PyTorch's IndexError alone, with which loops over rows end.
@pytest.mark.parametrize(
    ("unfit", "inside"), [(unfit, inside) for unfit in UNFIT for inside in (True, False) if inside or unfit != "a row"]
)
def test_errors_are_of_both_classes(unfit: str, inside: bool) -> None:
    does, said = UNFIT[unfit]
    torch.manual_seed(0)
    net = Takes(does)
    x = torch.ones(2, 4)
    with pytest.raises(Exception) as expected:
        net(x)
    with pytest.raises((CaptureError, FlushError), match=said) as caught:
        if inside:
            gluonjit.hybridize(net)
            first(net(x)).sum().item()
        else:
            with gluonjit.batching():
                first(does(net, x)).sum().item()
    assert isinstance(caught.value, type(expected.value))
    assert "test_failures.py:" in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is type(caught.value) and str(copy) == str(caught.value)
    gluonjit.hybridize(net)
    net.does = lambda net, x: net.dense(x)
    torch.testing.assert_close(net(x).sum(), net.dense(x).sum())


def test_what_the_program_raises_itself_is_left_alone() -> None:
    class Own(ValueError):
        pass

    own = Own("mine")

    def does(net: Any, x: Any) -> Any:
        net.dense(x)
        raise own

    net = gluonjit.hybridize(Takes(does))
    with pytest.raises(Own) as caught:
        net(torch.ones(2, 4))
    assert caught.value is own and str(own) == "mine"


def test_samples_are_numbered_within_their_minibatch() -> None:
    net = gluonjit.hybridize(Takes(lambda net, x: net.dense(net.dense(x)) + torch.ones(4)))
    for _ in range(3):
        with pytest.raises(CaptureError, match="In sample 2, at"):
            [net(x) for x in (torch.ones(4), torch.ones(4), torch.ones(3))]


def test_samples_of_one_node_are_numbered_within_their_minibatch() -> None:
    net = gluonjit.hybridize(Takes(lambda net, x: net.dense(x)))
    for _ in range(4):
        with pytest.raises(CaptureError, match="In sample 2, at"):
            [net(x) for x in (torch.ones(4), torch.randn(4), torch.ones(3))]
    kept = net(torch.zeros(4))  # which what fails next is in one minibatch with
    with pytest.raises(CaptureError, match="In sample 2, at"):
        [net(x) for x in (torch.ones(4), torch.ones(3))]
    with pytest.raises(CaptureError, match="In sample 4, at"):
        [net(x) for x in (torch.ones(4), torch.ones(3))]
    assert kept.shape == (4,)


def test_options_that_are_nearly_right() -> None:
    net = Takes(lambda net, x: net.dense(x))
    with pytest.raises(OptionError, match="did you mean dynamic_batch=True"):
        gluonjit.hybridize(net, dynamic_batching=True)
    with pytest.raises(OptionError, match="did you mean scheduler='bound'"):
        gluonjit.hybridize(net, schedular="bound")
    with pytest.raises(OptionError, match="dynamic_batch='yes', but it must be True or False"):
        gluonjit.hybridize(net, dynamic_batch="yes")  # type: ignore[arg-type]


_REFUSED = ["h[9]", "h[-9]", "h[9, 0]", "h[:, 9]", "h @ torch.ones(3, 3)", "h + torch.ones(3)", "h.view(3, 3)"]
_REFUSED += [
    "h.sum(5)",
    "torch.cat([h, torch.ones(2, 3)])",
    "h.add_(torch.ones(3))",
    "h.__setitem__(9, 1)",
    "h.transpose(0, 5)",
]


@pytest.mark.parametrize("text", _REFUSED)
@pytest.mark.parametrize("computed", [False, True])
def test_what_pytorch_refuses_outside_of_samples_is_both_errors_and_no_warning(text: str, computed: bool) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    with pytest.raises((RuntimeError, IndexError)) as eager:
        eval(text, {"torch": torch, "h": net(torch.ones(2, 4))})
    gluonjit.hybridize(net, dynamic_batch=True)
    h = net(torch.ones(2, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error", CellWarning)
        if computed:
            h.sum().item()
        with pytest.raises(CaptureError) as found:
            eval(text, {"torch": torch, "h": h})
        assert isinstance(found.value, eager.type)
        assert not gluonjit.explain().unbatched
        assert net(torch.ones(2, 4)).sum().item() == pytest.approx(h.sum().item())


def test_a_model_without_the_flag_is_batched_with_a_word() -> None:
    net = nn.Linear(4, 2)
    with pytest.warns(GluonJITWarning, match=r"hybridize\(Linear\): .*Type .*dynamic_batch=True") as said:
        gluonjit.hybridize(net)
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({"dynamic_batch": True}, {"granularity": "op"}, {"dynamic_batch": False}):
            gluonjit.hybridize(net, **options)
