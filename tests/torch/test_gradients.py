"""Gradients in PyTorch: of parts of a minibatch, of tables, of what is asked for by name."""

from __future__ import annotations

import copy
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_support import TreeModel, assert_close, gradients
from torch_training import (
    SENTENCES,
    TREES,
    VECTORS,
    Layers,
    Words,
    assert_alike,
    learned,
    losses,
)

import gluonjit
from gluonjit.errors import CaptureError


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


@pytest.mark.parametrize("retain", [False, True])
def test_what_was_eager_before_the_batch_is_kept_for_the_samples_to_come(retain: bool) -> None:
    def run(net: Any) -> Any:
        leaves = [x.clone().requires_grad_() for x in VECTORS]
        for loss in losses(net, [leaf.exp() for leaf in leaves]):
            loss.backward(retain_graph=retain)
        return gradients(net), [leaf.grad for leaf in leaves]

    assert_alike(run, Layers)


class Rounded(torch.autograd.Function):
    """What runs what is pending, and is given gradients of zeros where there are none."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.large = x.abs().max().item() > 1
        return (x * 4).round() / 4

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient / 2 if ctx.large else gradient


def test_what_was_eager_between_batches_is_kept_for_the_results_to_come() -> None:
    def run(net: Any) -> Any:
        made = [Rounded.apply(net(x)[:1] * x) for x in VECTORS]
        known, learning = losses(net, [x.detach() for x in made]), losses(net, made)
        sum(known).backward()
        sum(learning).backward()
        return gradients(net)

    assert_alike(run, Layers)


def test_what_was_eager_before_the_batch_is_forgotten_when_all_samples_are_done() -> None:
    leaf, net = VECTORS[0].clone().requires_grad_(), Layers()
    gluonjit.hybridize(net, dynamic_batch=True, granularity="batched")
    before = leaf.exp()
    total = sum(losses(net, [before, before * 2]))
    total.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        before.sum().backward()


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


def test_gradients_are_asked_for_by_name() -> None:
    def run(net: Any) -> Any:
        total = sum(losses(net))
        every = torch.autograd.grad(total, list(net.parameters()), retain_graph=True)
        scaled = torch.autograd.grad(total, [net.head.weight], grad_outputs=torch.tensor(2.0), retain_graph=True)
        other = nn.Parameter(torch.ones(2))
        _, unused = torch.autograd.grad(total, [net.head.bias, other], allow_unused=True, retain_graph=True)
        _, zeros = torch.autograd.grad(total, [net.head.bias, other], materialize_grads=True, retain_graph=True)
        total.backward(inputs=[net.head.weight])
        return every, scaled, unused, zeros, gradients(net)

    assert_alike(run)


@pytest.mark.parametrize("granularity", ["cell", "op"])
def test_a_checkpoint_computes_again_what_it_has_computed(granularity: str) -> None:
    """Though others wait when a value is read inside: they are no part of it. Calls are counted as eagerly, twice."""

    class Saving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer, self.calls, self.packed = nn.Linear(3, 3), nn.Linear(3, 1), 0, 0

        def part(self, x: Any, scale: Any) -> Any:
            self.calls += 1
            return torch.tanh(self.inner(x)) * (scale if float(scale) > 0 else scale * 2)

        def pack(self, tensor: Any) -> Any:
            self.packed += 1
            return tensor

        def forward(self, x: Any) -> Any:
            scale = self.outer(torch.tanh(self.inner(x))).sum()
            kept = checkpoint(self.part, x, scale, use_reentrant=False)
            with torch.autograd.graph.saved_tensors_hooks(self.pack, lambda tensor: tensor):
                kept = kept * self.inner(x).exp()
            return self.outer(kept).sum() + scale

    def run(**options: Any) -> Any:
        torch.manual_seed(0)
        net = Saving()
        if options:
            gluonjit.hybridize(net, dynamic_batch=True, **options)
        total = sum(net(x) for x in torch.randn(4, 2, 3))
        total.backward()
        return {"total": total, **gradients(net)}, (net.calls, net.packed)

    (found, counted), (wanted, as_eagerly) = run(granularity=granularity), run()
    for name, value in wanted.items():
        assert_close(found[name], value, name)
    assert counted == as_eagerly and counted[0] == 8


def test_what_runs_eagerly_checkpoints_results_of_a_batch() -> None:
    """As the rest of a sample does that began batched: a function of the program's own keeps what it is given."""

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, h: Any) -> Any:
            return checkpoint(self.layer, h, use_reentrant=True).square().sum()

    found = []
    for dynamic in (False, True):
        torch.manual_seed(0)
        first, last = nn.Linear(3, 3), Last()
        if dynamic:
            gluonjit.hybridize(first, dynamic_batch=True, granularity="batched")
            gluonjit.hybridize(last, dynamic_batch=True, granularity="eager")
        sum(last(first(torch.ones(1, 3) * k)) for k in range(3)).backward()
        found.append([first.weight.grad, last.layer.weight.grad])
    torch.testing.assert_close(found[1], found[0])


def test_what_gradients_are_asked_for_of_may_be_a_generator() -> None:
    """As `net.parameters()` is, and as eagerly, also where nothing waits."""

    def run(net: Any) -> Any:
        results = losses(net)
        total = sum(results)
        weights = dict(net.named_parameters())
        asked = torch.autograd.grad(total, net.parameters(), retain_graph=True)
        listed = torch.autograd.grad(total, weights.values(), retain_graph=True)
        ones = (torch.ones(()) for _ in results)
        of_each = torch.autograd.grad((result for result in results), net.parameters(), ones, retain_graph=True)
        torch.autograd.backward(total, inputs=net.parameters(), retain_graph=True)
        total.backward(inputs=(weight for weight in weights.values()))
        return asked, listed, of_each, gradients(net)

    assert_alike(run)


@pytest.mark.parametrize("key", [torch.tensor([], dtype=torch.int64), torch.zeros(3, dtype=torch.bool)])
def test_rows_of_which_none_is_taken_have_a_gradient_of_zeros(key: Any) -> None:
    """Where an input learns, as of a molecule whose atoms have no neighbours."""
    places = torch.randn(3, 2, requires_grad=True)
    with gluonjit.batching():
        energy = nn.Linear(2, 2)(places)[key].norm(dim=-1).sum()
    (force,) = torch.autograd.grad(energy, places)
    assert torch.equal(force, torch.zeros(3, 2))


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_was_written_over_off_the_way_to_an_input_does_not_matter(dynamic: bool) -> None:
    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            p = torch.tanh(self.layer(torch.ones(1, 2)))
            p += 1
            return p * torch.sin(x)

    net = Written()
    if dynamic:
        gluonjit.hybridize(net, dynamic_batch=True, granularity="op")
    x = torch.ones(1, 2, requires_grad=True)
    y = net(x)
    y.sum().backward(inputs=[x], retain_graph=True)
    assert_close(x.grad, y.detach() / torch.sin(x.detach()) * torch.cos(x.detach()), "of the input")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_gradients_of_results_are_those_of_what_is_computed_from_them_later() -> None:
    def run(net: Any) -> Any:
        results, seen = [net(tree) for tree in TREES], []
        for number, result in enumerate(results):
            if number % 2:
                result.retain_grad()
            else:
                result.register_hook(lambda gradient: seen.append(gradient.clone()) or gradient * 2)
        sum(result.logsumexp(-1) for result in results).backward(retain_graph=True)
        seen.sort(key=lambda gradient: float(gradient[0]))
        more = torch.autograd.grad(results[1].logsumexp(-1), results[1])
        return seen, [result.grad for result in results[1::2]], more, gradients(net)

    assert_alike(run)


class Gate(nn.Module):
    """One node with a result that is detached and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        h = torch.tanh(self.layer(x))
        return h, h.softmax(-1).detach()


def of_gates(program: Callable[[Any], Any]) -> None:
    """Asserts that a program gives the same of such a module that is batched."""
    found = []
    for dynamic in (False, True):
        torch.manual_seed(0)
        net = Gate()
        if dynamic:
            gluonjit.hybridize(net, dynamic_batch=True, granularity="cell")
        found.append(program(net))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("read", (False, True), ids=("waiting", "computed"))
def test_a_detached_result_of_a_call_may_begin_to_learn(read: bool) -> None:
    def program(net: Any) -> Any:
        pairs = [net(torch.ones(1, 2) * k) for k in range(3)]
        if read:
            pairs[0][0].tolist()
        leaves = [gate.requires_grad_() for _, gate in pairs]
        sum((leaf * h).sum() for leaf, (h, _) in zip(leaves, pairs)).backward()
        return [leaf.grad for leaf in leaves], net.layer.weight.grad

    of_gates(program)


def test_a_result_may_be_the_gradient_of_a_weight() -> None:
    def program(net: Any) -> Any:
        (h, gate), weight = net(torch.ones(1, 2)), nn.Parameter(torch.ones(1, 2))
        weight.grad = h.detach() * gate
        assert weight.grad.__class__ is torch.Tensor
        torch.optim.SGD([weight], 0.1).step()
        return weight.detach()

    of_gates(program)


def test_hooks_of_equal_results_are_apart() -> None:
    def run(net: Any) -> Any:
        one, other = net(TREES[0]), net(TREES[0])
        one.retain_grad()
        other.retain_grad()
        (one.sum() * 2 + other.logsumexp(-1)).backward()
        return one.grad, other.grad, gradients(net)

    assert_alike(run, sharing=True)


def test_the_gradient_of_a_result_that_its_batch_has_used_is_refused() -> None:
    net = gluonjit.hybridize(TreeModel(), dynamic_batch=True)
    results = [net(tree) for tree in TREES]
    total = sum(result.logsumexp(-1) for result in results)
    for call in (
        lambda: torch.autograd.grad(total, results[2:]),
        lambda: total.backward(inputs=[results[3]]),
    ):
        with pytest.raises(
            CaptureError, match=r"already used this result of shape \(3,\).*retain_grad\(\) or register_hook\(\)"
        ):
            call()
    total.backward()
    assert net.head.weight.grad is not None


def whole(leaf: Any) -> list[Any]:
    return [leaf]


@pytest.mark.parametrize("parts", [whole, list, lambda leaf: [leaf[1], leaf[0]], torch.Tensor.unbind])
def test_what_is_taken_of_a_detached_result_that_was_made_a_leaf_learns(parts: Any) -> None:
    def run(net: Any) -> Any:
        result = torch.stack([net(x) for x in VECTORS])[:2, :1].expand(2, 4) * 1
        leaf = result.detach().requires_grad_()
        sum(net(part).square().sum() for part in parts(leaf)).backward()
        with torch.no_grad():
            result += 1  # in the same memory
        return leaf.grad, leaf.detach(), gradients(net)

    assert_alike(run, Layers)


MAKING = [
    lambda result: torch.zeros_like(result, requires_grad=True),
    lambda result: torch.full_like(result, 0.5, requires_grad=True),
    lambda result: result.new_ones(3, requires_grad=True),
]


@pytest.mark.parametrize("make", MAKING)
def test_a_tensor_that_is_made_like_a_result_is_a_leaf_where_that_is_asked_for(make: Any) -> None:
    def run(net: Any) -> Any:
        pairs = [(result, make(result)) for result in [net(x) for x in VECTORS]]
        plain = torch.zeros_like(pairs[0][0])
        sum((result * made).exp().sum() for result, made in pairs).backward()
        return [(made.grad, made.is_leaf) for _, made in pairs], plain.requires_grad, gradients(net)

    assert_alike(run, Layers)


REFUSED: dict[str, Any] = {
    "floor_divide": lambda h: h // 0.7,
    "floor_divide by a tensor": lambda h: torch.ones(4) // (h + 1),
    "floor_divide_": lambda h: (h * 2).floor_divide_(3),
    "acosh_": lambda h: (h.abs() + 2).acosh_(),
    "igamma": lambda h: torch.igamma(h.abs() + 1, torch.ones(4)),
    "heaviside": lambda h: torch.heaviside(h, h),
}


@pytest.mark.parametrize("granularity", ["op", "cell"])
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("learns", [True, False])
def test_what_pytorch_does_not_differentiate(name: str, granularity: str, learns: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            h = self.layer(x)
            return REFUSED[name](h if learns else h.detach()) * h

    def run(net: Any) -> Any:
        total = sum(net(torch.linspace(0.1, 1.0, 4) * k).sum() for k in range(1, 4))
        try:
            total.backward()
        except (RuntimeError, NotImplementedError) as error:
            return type(error), str(error)
        return [total.detach() * 1, *[weight.grad for weight in net.parameters()]]

    net = Net()
    wanted = run(copy.deepcopy(net))
    found = run(gluonjit.hybridize(net, dynamic_batch=True, granularity=granularity))
    assert (wanted[0] in (RuntimeError, NotImplementedError)) == learns
    if learns:
        assert found[0] is wanted[0] and "derivative" in found[1]
    else:
        for one, other in zip(found, wanted):
            torch.testing.assert_close(one, other)


def _of_inputs(net: Any) -> Any:
    x = torch.linspace(-1, 1, 4).requires_grad_()
    return torch.autograd.grad(net(x), x, torch.eye(3), is_grads_batched=True)


def _of_weights(net: Any) -> Any:
    results = [net(torch.linspace(-1, 1, 4) * k) for k in range(1, 4)]
    vectors = [torch.eye(3) * k for k in range(3)]
    found = torch.autograd.grad(results, [*net.parameters()], vectors, is_grads_batched=True, retain_graph=True)
    return [*found, *torch.autograd.grad(results[1].sum(), [*net.parameters()])]


def _of_a_part(net: Any) -> Any:
    given = [(torch.linspace(-1, 1, 4) * k).requires_grad_() for k in range(1, 4)]
    results = [net(x) for x in given]
    part = torch.stack(results)[1:, :2].sum(0)
    return torch.autograd.grad(part, given, torch.eye(2), is_grads_batched=True, allow_unused=True)


def _once_more(net: Any) -> Any:
    x = torch.linspace(-1, 1, 4).requires_grad_()
    (found,) = torch.autograd.grad(net(x), x, torch.eye(3), is_grads_batched=True, create_graph=True)
    return torch.autograd.grad(found.square().sum(), x)


def _twice(net: Any) -> Any:
    x = torch.linspace(-1, 1, 4).requires_grad_()
    y = net(x)
    found = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)
    return found


AT_ONCE: dict[str, Callable[[Any], Any]] = {
    "inputs": _of_inputs,
    "weights": _of_weights,
    "a part": _of_a_part,
    "once more": _once_more,
    "twice": _twice,
    "jacobian": lambda net: [torch.autograd.functional.jacobian(net, torch.linspace(-1, 1, 4), vectorize=True)],
    "hessian": lambda net: [
        torch.autograd.functional.hessian(lambda x: net(x).square().sum(), torch.linspace(-1, 1, 4), vectorize=True)
    ],
}


@pytest.mark.parametrize("granularity", ["op", "cell"])
@pytest.mark.parametrize("how", AT_ONCE)
def test_several_gradients_at_once(how: str, granularity: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    wanted = AT_ONCE[how](net)
    found = AT_ONCE[how](gluonjit.hybridize(net, dynamic_batch=True, granularity=granularity))
    for one, other in zip(found, wanted):
        assert (one is None) == (other is None)
        if other is not None:
            assert_close(one, other, how)
