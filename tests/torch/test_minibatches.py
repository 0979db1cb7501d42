"""Minibatches one after the other, while weights change: each gives the losses and gradients of the eager program."""

from __future__ import annotations

import copy
import gc
import random
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch_support import Tree, TreeModel, assert_close, gradients, make_trees, outcome

import gluonjit
from gluonjit.engines.torch.run.gradients import Tape
from gluonjit.errors import GluonJITError

FIXED: dict[str, Any] = {"scheduler": "depth", "granularity": "cell", "sharing": True}
Loss = Callable[[Any, Any], Any]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
    gluonjit.clear_caches()


def check(net: Any, minibatches: list[list[Any]], loss: Loss, **options: Any) -> None:
    """Losses and gradients of each minibatch are those of the eager program, while an optimizer changes the weights."""
    eager = copy.deepcopy(net)
    gluonjit.hybridize(net, **{**FIXED, **options})
    optimizer = torch.optim.SGD([*net.parameters()], lr=0.01)
    for number, samples in enumerate(minibatches):
        eager.load_state_dict(net.state_dict())
        expected, wanted = outcome(eager, samples, loss)
        actual, found = outcome(net, samples, loss)
        assert gluonjit.explain().calls > 0
        for value, other in zip(actual, expected):
            assert_close(value, other, f"a loss of minibatch {number}", 1e-4)  # near zero, of larger numbers
        for name, gradient in wanted.items():
            assert (gradient is None) == (found[name] is None), f"{name} in minibatch {number}"
            if gradient is not None:
                assert_close(found[name], gradient, f"gradient of {name} in minibatch {number}")
        optimizer.step()


def tree_loss(net: Any, tree: Tree) -> Any:
    return net(tree).logsumexp(-1)


def infer(net: Any, samples: list[Any]) -> list[Any]:
    """What a model gives for samples that run together."""
    with torch.no_grad():
        found = [net(sample) for sample in samples]
        return [value.numpy() for value in found]


def trees_of_depth(depth: int, count: int, seed: int) -> list[Tree]:
    """Trees of different shapes and one depth, so that their plans have the same steps."""
    choose = random.Random(seed)

    def grow(left: int) -> Tree:
        children = [grow(left - 1)] if left > 1 else []
        children += [grow(choose.randint(1, left - 1)) for _ in range(choose.randint(0, 2) if left > 1 else 0)]
        return Tree(choose.randrange(50), children)

    return [grow(depth) for _ in range(count)]


def minibatches_of(count: int, size: int, depth: int = 4) -> list[list[Tree]]:
    return [trees_of_depth(depth, size, k) for k in range(count)]


class Tagger(nn.Module):
    """A BiLSTM over a sentence of embedded words, and a score for each."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 5)
        self.ahead, self.back = nn.LSTMCell(5, 4), nn.LSTMCell(5, 4)
        self.out = nn.Linear(8, 3)

    def forward(self, words: Any) -> Any:
        rows = self.embed(words)
        ahead, back = self.along(self.ahead, list(rows)), self.along(self.back, list(rows)[::-1])[::-1]
        return sum(self.out(torch.cat((one, other), -1)).logsumexp(-1) for one, other in zip(ahead, back))

    def along(self, cell: Any, rows: list[Any]) -> list[Any]:
        state = (torch.zeros(4), torch.zeros(4))
        found = []
        for row in rows:
            state = cell(row, state)
            found.append(state[0])
        return found


def sentences(lengths: list[int], seed: int) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 30, (length,), generator=generator) for length in lengths]


class Graph(nn.Module):
    """Nodes of a directed acyclic graph, each from two that may have several readers, and large inputs as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.start, self.head = nn.Bilinear(6, 6, 6), nn.Linear(40, 6), nn.Linear(6, 1)

    def forward(self, sample: Any) -> Any:
        inputs, edges = sample
        nodes = [self.start(item).tanh() for item in inputs]
        for left, right in edges:
            nodes.append(self.cell(nodes[left], nodes[right]).tanh())
        return self.head(nodes[-1]) + self.head(nodes[-2])


def graphs(count: int, size: int) -> list[list[Any]]:
    """Minibatches of graphs of several sizes."""

    def sample(seed: int, inputs: int) -> Any:
        choose = random.Random(seed)
        given = list(torch.randn(inputs, 40, generator=torch.Generator().manual_seed(seed)))
        edges = [(inputs + k - 1 if k else 0, choose.randrange(inputs + k)) for k in range(4)]
        return given, edges

    return [[sample(10 * k + j, 2 + (k + j) % 3) for j in range(size)] for k in range(count)]


class Roots(nn.Module):
    """Its values and slopes are finite for what it is given, but not for a row of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 6)
        self.weight = nn.Parameter(torch.rand(6) + 0.5)
        self.embed.weight.data.abs_().add_(0.5)
        self.cell = RootCell(self.weight)

    def forward(self, tree: Tree) -> Any:
        words = self.embed(torch.tensor(tree.words()))
        return self.encode(tree, words, [0])

    def encode(self, tree: Tree, words: Any, next_word: list[int]) -> Any:
        k = next_word[0]
        next_word[0] += 1
        return self.cell(words[k], [self.encode(child, words, next_word) for child in tree.children])


class RootCell(nn.Module):
    """One node."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: Any, children: list[Any]) -> Any:
        scaled = (x * self.weight).abs()
        own = scaled.sqrt() + scaled.log() / x
        return own + sum(h * self.weight for h in children).abs().sqrt() / own if children else own


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "rows"])
def test_minibatches_of_trees_of_many_shapes(sharing: bool, vectors: bool) -> None:
    check(TreeModel(vectors=vectors), minibatches_of(12, 6), tree_loss, sharing=sharing)


def test_fifty_minibatches_of_random_trees() -> None:
    choose = random.Random(0)
    minibatches = [make_trees(choose.choice((1, 4, 9)), choose.choice((2, 5, 7)), 3, seed) for seed in range(50)]
    check(TreeModel(), minibatches, tree_loss)


@pytest.mark.parametrize("without", [("fused",), ("arity",), ("hoisting",), ("fused", "arity", "hoisting")])
def test_trees_without_an_optimization(without: tuple[str, ...]) -> None:
    check(TreeModel(), [trees_of_depth(3, 5, 1)] * 4, tree_loss, without=without)


def test_a_bilstm_over_sentences_of_other_lengths() -> None:
    lengths = [[5, 3, 3], [5, 5, 3], [5, 3, 3], [5, 5, 3]]
    minibatches = [sentences(found, seed) for seed, found in enumerate(lengths)]
    check(Tagger(), minibatches, lambda net, words: net(words))


def test_graphs_whose_nodes_have_several_readers() -> None:
    check(Graph(), graphs(6, 5), lambda net, item: net(item).sum())


def test_no_number_appears_that_no_node_has() -> None:
    check(Roots(), minibatches_of(8, 5), lambda net, tree: net(tree).sum())


def test_results_stay_what_they_were_when_the_next_minibatch_runs() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, **FIXED)
    with torch.no_grad():
        infer(net, trees_of_depth(3, 4, 0))  # tracing captures more than later calls do
        first = [net(tree) for tree in trees_of_depth(3, 4, 0)]
        kept = [value.numpy().copy() for value in first]
        assert not (infer(net, trees_of_depth(3, 4, 1))[0] == kept[0]).all()
    assert all((value.numpy() == one).all() for value, one in zip(first, kept))


def test_inputs_that_are_references_outlive_their_flush() -> None:
    embed, head = nn.Embedding(9, 3), nn.Linear(3, 2)
    large = torch.randn(5, 3)
    expected = large[2:4].clone()
    kept = []
    for words in ([1, 2, 3], [4, 5, 6]):
        with gluonjit.batching(**FIXED), torch.no_grad():
            rows = embed(torch.tensor(words))
            kept.append((rows[1], embed.weight[words[1]].clone(), head(rows[0]), head(large[0])))
    large.zero_()
    for row, wanted, _, _ in kept:
        assert torch.equal(torch.as_tensor(row).detach() + 0, wanted)
    assert expected.abs().sum() > 0


def test_backward_of_an_older_flush_after_a_newer_one_has_run() -> None:
    net = TreeModel()
    eager = copy.deepcopy(net)
    gluonjit.hybridize(net, **FIXED)
    minibatches = [trees_of_depth(3, 4, seed) for seed in range(6)]
    losses = []
    for trees in minibatches:
        total = sum(tree_loss(net, tree) for tree in trees)
        total.item()  # runs it
        losses.append(total)
    for number in (0, 5, 3, 4, 1, 2):
        net.zero_grad()
        losses[number].backward()
        eager.zero_grad()
        sum(tree_loss(eager, tree) for tree in minibatches[number]).backward()
        for (name, found), wanted in zip(gradients(net).items(), gradients(eager).values()):
            assert_close(found, wanted, f"{name} of minibatch {number}")


def test_backward_twice_needs_retain_graph_and_gives_the_same() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, **FIXED)
    loss = sum(tree_loss(net, tree) for tree in trees_of_depth(3, 4, 0))
    loss.backward(retain_graph=True)
    once = gradients(net)
    loss.backward()
    for (name, found), other in zip(gradients(net).items(), once.values()):
        assert_close(found, 2 * other, name)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_a_part_of_the_losses_may_go_backward_alone() -> None:
    net = TreeModel()
    eager = copy.deepcopy(net)
    gluonjit.hybridize(net, **FIXED)
    for seed in range(3):
        trees = trees_of_depth(3, 4, seed)
        for model in (net, eager):
            model.zero_grad()
            losses = [tree_loss(model, tree) for tree in trees]
            if model is net:
                losses[0].item()
            losses[2].backward(retain_graph=True)
            losses[0].backward()
        for (name, found), wanted in zip(gradients(net).items(), gradients(eager).values()):
            assert_close(found, wanted, name)


def test_a_weight_that_no_result_depends_on_has_no_gradient() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            y = self.one(x)
            return y, self.other(y)

    net = Two()
    gluonjit.hybridize(net, expand=("Two",), **FIXED)
    for _ in range(2):
        net.zero_grad()
        pairs = [net(torch.randn(3)) for _ in range(4)]
        sum(first.sum() for first, _ in pairs).backward()
        assert net.one.weight.grad is not None and net.other.weight.grad is None
        sum(second.sum() for _, second in pairs).item()


def test_weights_that_are_written_to_before_backward_are_noticed() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, **FIXED)
    total = sum(tree_loss(net, tree) for tree in trees_of_depth(3, 4, 0))
    total.item()
    with torch.no_grad():
        net.head.weight.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_weights_that_move_to_other_memory() -> None:
    net = TreeModel()
    check(net, [trees_of_depth(3, 4, 0)], tree_loss)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.data = parameter.data * 2.0
    eager = copy.deepcopy(net)
    gluonjit.hybridize(eager, dynamic_batch=False)
    trees = trees_of_depth(3, 4, 0)
    actual, found = outcome(net, trees, tree_loss)
    expected, wanted = outcome(eager, trees, tree_loss)
    for value, other in zip(actual, expected):
        assert_close(value, other, "a loss")
    for name, gradient in wanted.items():
        assert_close(found[name], gradient, name)


def test_learned_inputs_and_eager_tails_have_gradients() -> None:
    head = nn.Linear(40, 2)
    gluonjit.hybridize(head, **FIXED)
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        inputs = [torch.randn(40, generator=generator, requires_grad=seed < 2 or k < 2) for k in range(4)]
        found = [head(item * 2) for item in inputs]
        torch.stack([value.double().numpy(force=True).sum() * value.sum() for value in found]).sum().backward()
        for item, value in zip(inputs, found):
            wanted = float(value.detach().sum()) * 2 * head.weight.detach().sum(0)
            if item.requires_grad:
                assert_close(item.grad, wanted, "the gradient of an input", 1e-4)


def test_what_was_made_in_inference_mode_runs_outside_of_it() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, **FIXED)
    trees = trees_of_depth(3, 4, 0)
    infer(net, trees)
    with torch.inference_mode():
        first = [value.numpy().copy() for value in [net(tree) for tree in trees]]
    second = infer(net, trees)
    assert all((value == other).all() for value, other in zip(first, second))


class Step(nn.Module):
    """An operator without a derivative, to which backward does not come."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        return (self.out(y) * (torch.heaviside(y, y) > 0.5).sum()).sum()


def test_operators_without_a_derivative_run_where_backward_does_not_come_to_them() -> None:
    minibatches = [list(torch.randn(4, 3, generator=torch.Generator().manual_seed(k))) for k in range(3)]
    check(Step(), minibatches, lambda net, x: net(x), granularity="op")


class Pick(nn.Module):
    """Some of the numbers of a vector."""

    def forward(self, x: Any, index: Any) -> Any:
        return (x * 2).gather(0, index)


def test_a_call_that_fails_is_named_as_ever_and_the_next_ones_run() -> None:
    net = Pick()
    gluonjit.hybridize(net, **FIXED)
    x = torch.arange(3.0)
    with pytest.raises(GluonJITError, match=r"call of Pick in sample 1 at .*failed when it ran: index 7"):
        found = [net(x + k, torch.tensor([1, number])) for k, number in enumerate((2, 7, 0))]
        found[0].numpy()
    assert torch.equal(net(x, torch.tensor([1, 2])).sum(), torch.tensor(6.0))


def tapes() -> set[int]:
    """The addresses of all tapes that are alive."""
    gc.collect()
    return {id(item) for item in gc.get_objects() if issubclass(type(item), Tape)}


def test_a_minibatch_that_is_over_leaves_no_history_behind() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, dynamic_batch=True, **FIXED)
    before = tapes()  # of other tests, whose models guards keep
    for samples in minibatches_of(3, 5):
        results = [net(sample) for sample in samples]
        sum(result.sum() for result in results).backward()
        assert tapes() > before
    del results
    gluonjit.explain()
    assert tapes() <= before
