"""Weights of PyTorch's modules written to at any time, and what autograd says of it."""

from __future__ import annotations

import copy
from typing import Any, Callable

import torch
from torch import nn

from . import FORMS, habit


def written_before_backward(t: Any, write: Callable[[Any], Any], read: bool = True) -> None:
    """A weight is written to after the losses are known and before backward: PyTorch's own error, or its gradients."""

    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(F.tanh(self.layer(x))))

    net = t.net(Part)
    for turn in range(2):
        t.zero(net)
        total = sum(t.loss(net, x) for x in t.inputs())
        if read:
            t.see(f"loss {turn}", total)
        with torch.no_grad():
            write(net)
        with t.raises(f"backward {turn}"):
            total.backward()
            t.see(f"gradients {turn}", t.gradients(net))
        t.fill(net)
        t.minibatch(net, label=f"after {turn}")


@habit("torch", forms=FORMS)
def a_weight_is_added_to_before_backward(t: Any) -> None:
    written_before_backward(t, lambda net: net.part.layer.weight.add_(0.5))


@habit("torch", forms=FORMS)
def a_weight_is_clamped_before_backward(t: Any) -> None:
    written_before_backward(t, lambda net: net.out.weight.clamp_(-0.1, 0.1))


@habit("torch", forms=FORMS)
def a_row_of_a_weight_is_set_before_backward(t: Any) -> None:
    written_before_backward(t, lambda net: net.part.layer.weight[1].fill_(0))


@habit("torch", forms=FORMS)
def a_state_is_loaded_before_backward(t: Any) -> None:
    def write(net: Any) -> None:
        net.load_state_dict({name: value * 2 for name, value in net.state_dict().items()})

    written_before_backward(t, write)


@habit("torch", forms=FORMS)
def an_optimizer_steps_before_backward(t: Any) -> None:
    def write(net: Any) -> None:
        for weight in net.parameters():
            weight.grad = torch.ones_like(weight)
        torch.optim.SGD(net.parameters(), 0.1).step()

    written_before_backward(t, write)


@habit("torch", forms=FORMS)
def a_bias_is_written_to_before_backward(t: Any) -> None:
    """Backward does not read it: eagerly allowed."""
    written_before_backward(t, lambda net: [net.part.layer.bias.add_(1), net.out.bias.zero_()])


@habit("torch", forms=FORMS)
def weights_are_written_to_between_two_backwards(t: Any) -> None:
    """A step with the gradient of the first loss, before the second's backward."""
    net = t.net()
    first, second = (sum(t.loss(net, x) for x in t.inputs(seed=seed)) for seed in range(2))
    t.see("losses", [first, second])
    first.backward()
    t.step(net)
    with t.raises("second"):
        second.backward()
    t.minibatch(net, label="after")


@habit("torch", forms=FORMS)
def an_embedding_table_is_written_to_before_backward(t: Any) -> None:
    """The rows of a look-up are copies: eagerly allowed."""

    class Net(t.Net):
        def setup(self) -> None:
            self.embed = nn.Embedding(6, 4)

        def body(self, F: Any, words: Any) -> Any:
            return self.out(self.inner(self.embed(words)))

    net = t.net(net=Net)
    words = [torch.tensor([1, 2]), torch.tensor([3]), torch.tensor([2, 2, 5])]
    total = sum(t.loss(net, x) for x in words)
    t.see("loss", total)
    with torch.no_grad():
        net.embed.weight.mul_(3)
    with t.raises("backward"):
        total.backward()
        t.see("gradients", t.gradients(net))
    t.minibatch(net, words, label="after")


@habit("torch", forms=FORMS)
def a_padding_row_of_a_table_is_zeroed_after_a_step(t: Any) -> None:
    class Net(t.Net):
        def setup(self) -> None:
            self.embed = nn.Embedding(6, 4, padding_idx=0)

        def body(self, F: Any, words: Any) -> Any:
            return self.out(self.inner(self.embed(words)))

    net = t.net(net=Net)
    for turn in range(2):
        t.minibatch(net, [torch.tensor([0, 2]), torch.tensor([3, 0, 0])], label=f"{turn}", step=True)
        with torch.no_grad():
            net.embed.weight[0].zero_()
    t.see("table", net.embed.weight)


@habit("torch", forms=FORMS)
def data_of_weights_is_averaged(t: Any) -> None:
    """Polyak's average by `.data`, swapped in for evaluation and out again."""
    net = t.net()
    average = {name: weight.data.clone() for name, weight in net.named_parameters()}
    for epoch in range(2):
        t.minibatch(net, label=f"{epoch}", step=True)
        for name, weight in net.named_parameters():
            average[name].mul_(0.9).add_(weight.data, alpha=0.1)
    kept = {name: weight.data for name, weight in net.named_parameters()}
    for name, weight in net.named_parameters():
        weight.data = average[name]
    t.see("averaged", [t.call(net, x) for x in t.inputs()])
    for name, weight in net.named_parameters():
        weight.data = kept[name]
    t.minibatch(net, label="after")


@habit("torch", forms=FORMS)
def a_target_network_follows(t: Any) -> None:
    net = t.net()
    target = copy.deepcopy(net)
    for turn in range(3):
        t.zero(net)
        losses = []
        for x in t.inputs(seed=turn):
            with torch.no_grad():
                goal = t.call(target, x) * 0.9 + 1
            losses.append(nn.functional.smooth_l1_loss(t.call(net, x), goal))
        torch.stack(losses).mean().backward()
        t.see(f"losses {turn}", losses)
        t.step(net)
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), net.parameters()):
                slow.lerp_(fast, 0.5)
    t.see("target", t.values(target))


@habit("torch", forms=FORMS)
def weights_are_normalized_in_forward(t: Any) -> None:
    """A max-norm constraint written into the weight by forward itself."""

    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            with torch.no_grad():
                self.out.weight.div_(self.out.weight.norm().clamp(min=1))
            return self.out(self.inner(x))

    net = t.net(net=Net)
    with t.refusable("losses"):
        t.minibatch(net, t.inputs(1))
    t.see("weight", net.out.weight)


@habit("torch", forms=FORMS)
def a_parameter_is_replaced(t: Any) -> None:
    net = t.net()
    t.minibatch(net, label="before")
    net.out.weight = nn.Parameter(net.out.weight.detach() * 2)
    t.minibatch(net, label="after", step=True)
    net.out.weight.data = torch.ones(2, 4)
    t.minibatch(net, label="data")


@habit("torch", forms=FORMS)
def weights_are_pruned_by_a_mask(t: Any) -> None:
    from torch.nn.utils import prune

    net = t.net()
    t.minibatch(net, label="before", step=True)
    prune.l1_unstructured(net.part.layer, "weight", amount=0.5)
    t.minibatch(net, label="pruned", step=True)
    prune.remove(net.part.layer, "weight")
    t.minibatch(net, label="after")


@habit("torch", forms=FORMS)
def weights_are_tied(t: Any) -> None:
    class Net(t.Net):
        def setup(self) -> None:
            self.embed = nn.Embedding(5, 4)
            self.project = nn.Linear(4, 5, bias=False)
            self.project.weight = self.embed.weight

        def body(self, F: Any, words: Any) -> Any:
            return self.out(self.inner(self.embed(words))).sum() + self.project(self.embed(words)).sum()

    net = t.net(net=Net)
    for turn in range(2):
        t.minibatch(net, [torch.tensor([1, 2]), torch.tensor([4])], label=f"{turn}", step=True)


@habit("torch", forms=FORMS)
def weights_get_hooks(t: Any) -> None:
    net, seen = t.net(), []
    handle = net.part.layer.weight.register_hook(lambda g: (seen.append(tuple(g.shape)), g * 0.5)[1])
    t.minibatch(net, label="halved")
    handle.remove()
    t.minibatch(net, label="plain")
    t.see("seen", seen)
