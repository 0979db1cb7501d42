"""Gradients of gradients through a batch: forces, penalties, learning to learn; each as eagerly."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gluonjit
from gluonjit.errors import CaptureError

pytestmark = pytest.mark.filterwarnings("ignore")
WIDTH = 4


class Net(nn.Module):
    """A recurrent energy of words and vectors, and what a sample makes of it."""

    def __init__(self, then: Callable[..., Any]) -> None:
        super().__init__()
        self.words, self.cell = nn.Embedding(6, WIDTH), nn.GRUCell(WIDTH, WIDTH)
        self.norm, self.out, self.then = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1), then
        self.drop = nn.Dropout(0.5)

    def energy(self, sample: Any) -> Any:
        h = torch.zeros(1, WIDTH)
        for word, x in zip(sample["words"], sample["x"]):
            h = self.cell(x[None] + self.words(word), h)
        return self.out(self.norm(h)).sum()

    def forward(self, sample: Any) -> Any:
        return self.then(self, sample)


def forces(net: Any, sample: Any) -> Any:
    x = sample["x"].requires_grad_(True)
    energy = net.energy(sample)
    (force,) = torch.autograd.grad(energy, x, create_graph=True)
    return energy + force.square().sum()


def read_before(net: Any, sample: Any) -> Any:
    x = sample["x"].requires_grad_(True)
    energy = net.energy(sample)
    if energy.item() > 100:
        return energy
    return torch.autograd.grad(energy * 2, x, create_graph=True)[0].norm()


def hessian(net: Any, sample: Any) -> Any:
    weight = net.out.weight
    first = torch.autograd.grad(net.energy(sample).square(), weight, create_graph=True)[0]
    return torch.autograd.grad(first.square().sum(), weight, create_graph=True)[0].square().sum()


def steps(net: Any, sample: Any) -> Any:
    weights = [net.out.weight, net.out.bias]
    for x in sample["x"]:
        loss = F.linear(torch.tanh(x + net.words.weight[0]), *weights).square().sum()
        found = torch.autograd.grad(loss, weights, create_graph=True)
        weights = [weight - 0.1 * each for weight, each in zip(weights, found)]
    return F.linear(torch.tanh(net.words(sample["words"])), *weights).square().sum()


WAYS = {"forces": forces, "a value was read before": read_before, "three times": hessian, "learning to learn": steps}


def samples() -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    words = [torch.randint(6, (n,), generator=generator) for n in (2, 3, 1)]
    return [{"words": each, "x": torch.randn(len(each), WIDTH, generator=generator)} for each in words]


def alike(run: Callable[[Any], Any], then: Callable[..., Any], **options: Any) -> None:
    found = []
    for dynamic in (False, True):
        torch.manual_seed(0)
        net = Net(then)
        if dynamic:
            gluonjit.hybridize(net, dynamic_batch=True, **options)
        results = run(net)
        found.append([results, [None if each.grad is None else each.grad.clone() for each in net.parameters()]])
    assert [each is None for each in found[1][1]] == [each is None for each in found[0][1]]
    for group in found:
        group[1] = [each for each in group[1] if each is not None]
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("way", WAYS)
def test_a_sample_differentiates_gradients(way: str, granularity: str) -> None:
    def run(net: Any) -> Any:
        total = sum(net(sample) for sample in samples())
        total.backward()
        return total.detach()

    alike(run, WAYS[way], granularity=granularity)


@pytest.mark.parametrize("together", [False, True])
def test_a_penalty_of_gradients_of_a_minibatch(together: bool) -> None:
    def run(net: Any) -> Any:
        given = samples()
        inputs = [sample["x"].requires_grad_() for sample in given]
        results = [net(sample) for sample in given]
        if together:
            found = torch.autograd.grad(sum(results), inputs, create_graph=True)
        else:
            found = [torch.autograd.grad(y, x, create_graph=True)[0] for x, y in zip(inputs, results)]
        loss = sum(results) + sum((each.norm() - 1).square() for each in found)
        loss.backward()
        return loss.detach(), [each.detach() for each in found], [x.grad for x in inputs]

    alike(run, Net.energy)


def test_backward_may_keep_the_history_of_gradients() -> None:
    def run(net: Any) -> Any:
        sum(net(sample) for sample in samples()).backward(create_graph=True)
        gradient = net.out.weight.grad
        net.zero_grad()
        gradient.square().sum().backward()
        return gradient.detach()

    alike(run, Net.energy)


def tied(net: Any, sample: Any) -> Any:
    """Returns a score by the weight that its words are looked up in, and its gradient's size."""
    y = net.energy(sample) + (torch.tanh(sample["x"]) @ net.words.weight.t()).square().sum()
    return y + torch.autograd.grad(y, net.words.weight, create_graph=True)[0].square().sum()


def by_two_ways(net: Any, sample: Any) -> Any:
    """Returns the same of a weight that a batch reads, and reads what was computed of it before the batch."""
    scale = sample["scale"]
    y = (F.linear(sample["x"], scale) * F.linear(sample["x"], net.out.weight)).sum()
    return y + torch.autograd.grad(y, net.out.weight, create_graph=True, retain_graph=True)[0].square().sum()


@pytest.mark.parametrize("then", [tied, by_two_ways])
def test_a_weight_has_its_gradient_once_where_another_source_was_computed_of_it(then: Callable[..., Any]) -> None:
    def run(net: Any) -> Any:
        scale = net.out.weight.square()  # outside of samples
        total = sum(net({**sample, "scale": scale}) for sample in samples())
        total.backward()
        return total.detach()

    for granularity in ("cell", "op"):
        alike(run, then, granularity=granularity)


def test_gradients_of_gradients_do_not_go_through_what_a_sample_does_not_depend_on() -> None:
    torch.manual_seed(0)
    net = gluonjit.hybridize(Net(steps), dynamic_batch=True, granularity="cell")
    reached = []
    total, given = torch.zeros(()), samples()
    for sample in (given * 3)[:7]:
        loss = net.energy(sample)
        found = torch.autograd.grad(loss, [net.out.weight, net.out.bias], create_graph=True)
        nodes, todo = set(), [found[0].grad_fn]
        while todo:
            node = todo.pop()
            if node is not None and node not in nodes:
                nodes.add(node)
                todo += [each for each, _ in node.next_functions]
        reached.append(len(nodes))
        weight, bias = [old - 0.1 * each for old, each in zip((net.out.weight, net.out.bias), found)]
        words = torch.tanh(net.words(sample["words"]).mean(0, keepdim=True))
        total = total + F.linear(words, weight, bias).square().sum()
    assert reached[6] - reached[3] <= 2 * (reached[3] - reached[0])  # not twice as many with each sample


class Stepping(nn.Module):
    """A call that differentiates by itself, into the gradient of a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x: Any) -> Any:
        y = self.last(torch.tanh(self.first(x))).square().sum()
        torch.autograd.backward(y, inputs=[self.last.weight], retain_graph=True)
        return y * self.last.weight.grad.detach().sum()


def test_a_call_that_goes_backward_is_no_node() -> None:
    found = []
    for dynamic in (False, True):
        torch.manual_seed(0)
        net = Stepping()
        if dynamic:
            gluonjit.hybridize(net, dynamic_batch=True, granularity="cell")
        results = [net(sample["x"]) for sample in samples()]
        sum(results).backward()
        found.append([[each.detach() for each in results], [each.grad for each in net.parameters()]])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_what_no_longer_is_or_was_drawn_is_refused() -> None:
    net = gluonjit.hybridize(Net(Net.energy), dynamic_batch=True)
    energy = net(samples()[0])
    energy.item()
    with torch.no_grad():
        net.out.weight += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(energy, net.cell.weight_ih, create_graph=True)
    net = gluonjit.hybridize(Net(lambda net, sample: net.drop(net.energy(sample))), dynamic_batch=True)
    with pytest.raises(CaptureError, match="gradients of gradients"):
        torch.autograd.grad(net(samples()[0]), net.out.weight, create_graph=True)
