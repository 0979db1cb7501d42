"""Training goes as without batching: gradients in parts, hooks, weights that change, what wraps a module, threads."""

from __future__ import annotations

from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch_support import TreeModel, assert_close, gradients, make_trees  # noqa: E402

import gluonjit  # noqa: E402

TREES = make_trees(6)
VECTORS = torch.arange(24.0).reshape(6, 4).sin()


class Layers(nn.Module):
    """Two layers on one vector."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        return self.last(self.first(x).tanh())


class Turns(nn.Module):
    """A sample of plain Python: each of its layers is a node."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, sample: tuple[Any, int]) -> Any:
        x, turns = sample
        for _ in range(turns):
            x = self.first(x).tanh()
        return self.last(x)


def turns() -> list[tuple[Any, int]]:
    return [(x, number) for number, x in enumerate(VECTORS)]


def assert_equal(actual: Any, expected: Any, what: str, tolerance: float) -> None:
    """Nested tensors and plain values are equal, tensors to rounding."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, torch.Tensor), f"{what} is {actual!r}"
        assert_close(actual.detach().clone(), expected.detach(), what, tolerance)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), what
        for key in expected:
            assert_equal(actual[key], expected[key], f"{what}[{key!r}]", tolerance)
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected), what
        for number, (one, other) in enumerate(zip(actual, expected)):
            assert_equal(one, other, f"{what}[{number}]", tolerance)
    else:
        assert actual == expected, what


def assert_alike(run: Callable[[Any], Any], make: Any = TreeModel, tolerance: float = 1e-5, **options: Any) -> Any:
    """What `run(net)` gives batched is what it gives eagerly; returns the report of the batched run."""
    found = []
    for batched in (False, True):
        torch.manual_seed(0)
        net = make()
        if batched:
            gluonjit.hybridize(net, dynamic_batch=True, **options)
        found.append(run(net))
    assert_equal(found[1], found[0], "result", tolerance)
    return gluonjit.explain()


def losses(net: Any, samples: Any = TREES) -> list[Any]:
    return [net(sample).logsumexp(-1) for sample in samples]


def learned(net: Any, samples: Any = TREES) -> dict[str, Any]:
    """The gradients of a minibatch."""
    sum(losses(net, samples)).backward()
    return gradients(net)


def weights(net: Any) -> dict[str, Any]:
    return {name: parameter.detach().clone() for name, parameter in net.named_parameters()}


# --- gradients in parts ----------------------------------------------------------------------------------------------


class Words(nn.Module):
    """A sum over words, in a table with these options."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.embed, self.last = nn.Embedding(7, 4, **options), nn.Linear(4, 4)

    def forward(self, words: Any) -> Any:
        rows = self.embed(words)
        return sum(self.last(rows[k]).tanh() for k in range(len(words)))


SENTENCES = [torch.tensor(words) for words in ([1, 2, 2], [3, 3], [4, 5, 6, 2])]


@pytest.mark.parametrize("retain", [False, True])
def test_parts_of_a_minibatch_may_be_differentiated_one_after_the_other(retain: bool) -> None:
    def run(net: Any) -> Any:
        found = losses(net)
        sum(found[:3]).backward(retain_graph=retain)
        first = gradients(net)
        for loss in found[3:]:
            loss.backward()
        return first, gradients(net)

    assert_alike(run)


def test_what_was_eager_before_the_batch_is_kept_for_the_next_sample_where_that_is_asked_for() -> None:
    def run(net: Any) -> Any:
        leaves = [x.clone().requires_grad_() for x in VECTORS]
        for loss in losses(net, [leaf.exp() for leaf in leaves]):
            loss.backward(retain_graph=True)
        return gradients(net), [leaf.grad for leaf in leaves]

    assert_alike(run, Layers)


def test_equal_samples_are_differentiated_once_each() -> None:
    def run(net: Any) -> Any:
        first, second = losses(net, [TREES[0], TREES[0]])
        first.backward()
        second.backward()
        return gradients(net)

    assert_alike(run, sharing=True)


def test_weights_that_only_an_unused_result_needs_have_no_gradient() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Any, y: Any) -> Any:
            return self.first(x).tanh(), self.other(y).sigmoid()

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.below, self.beside, self.both, self.last = nn.Linear(4, 4), nn.Linear(4, 4), Both(), nn.Linear(4, 3)

        def forward(self, x: Any) -> Any:
            return self.last(self.both(self.below(x), self.beside(x))[0])

    def run(net: Any) -> Any:
        found = learned(net, list(VECTORS))
        return found, [name for name, gradient in found.items() if gradient is None]

    report = assert_alike(run, Outer, expand=("Outer",))
    assert report.kinds["both"].launches == 1
    _, without = run(gluonjit.hybridize(Outer(), dynamic_batch=True, expand=("Outer",)))
    assert without == ["beside.weight", "beside.bias", "both.other.weight", "both.other.bias"]


@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"scale_grad_by_freq": True}, {"sparse": True}])
def test_a_table_gets_the_gradients_that_its_options_say(options: dict[str, Any]) -> None:
    def run(net: Any) -> Any:
        first, *others = losses(net, SENTENCES)
        first.backward()
        sum(others).backward()
        table = net.embed.weight.grad
        return table.is_sparse, table.to_dense(), net.last.weight.grad

    assert_alike(run, lambda: Words(**options))


def test_a_table_that_is_a_layer_too_gets_one_gradient() -> None:
    class Tied(Words):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.out = nn.Linear(4, 7, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, words: Any) -> Any:
            return self.out(super().forward(words))

    assert_alike(lambda net: learned(net, SENTENCES), Tied)
    assert_alike(lambda net: [learned(net, SENTENCES)["embed.weight"].to_dense()], lambda: Tied(sparse=True))
