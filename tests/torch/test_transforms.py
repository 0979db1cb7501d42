"""What differentiates a net of PyTorch otherwise: functional_call, torch.func, checkpoints, parts without recording."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode
from torch_support import gradients
from torch_training import (
    TREES,
    VECTORS,
    Layers,
    Turns,
    assert_alike,
    learned,
    turns,
    weights,
)

import gluonjit


def test_functional_call_uses_the_weights_it_is_given() -> None:
    def run(net: Any) -> Any:
        others = {name: (value * 2).requires_grad_() for name, value in weights(net).items()}
        before = net(TREES[0]).sum()
        between = torch.func.functional_call(net, others, (TREES[0],)).sum()
        after = net(TREES[0]).sum()
        (before + between + after).backward()
        return before, between, after, gradients(net), {name: value.grad for name, value in others.items()}

    report = assert_alike(run)
    assert "functional_call" in report.unbatched["TreeModel"]


def test_learning_to_learn_by_functional_call_has_gradients_of_gradients() -> None:
    def run(net: Any) -> Any:
        slow = dict(net.named_parameters())
        inner = sum(torch.func.functional_call(net, slow, (tree,)).logsumexp(-1) for tree in TREES[:3])
        steps = torch.autograd.grad(inner, list(slow.values()), create_graph=True)
        fast = {name: value - 0.1 * step for (name, value), step in zip(slow.items(), steps)}
        sum(torch.func.functional_call(net, fast, (tree,)).logsumexp(-1) for tree in TREES[3:]).backward()
        return gradients(net)

    assert_alike(run)


def _of_weights(net: Any) -> Any:
    def loss(given: Any, x: Any) -> Any:
        return torch.func.functional_call(net, given, (x,)).logsumexp(-1)

    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights(net), VECTORS)


def _forward_mode(net: Any) -> Any:
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(VECTORS[0], VECTORS[1])
        found = torch.autograd.forward_ad.unpack_dual(net(dual))
        return found.primal.clone(), found.tangent.clone()


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "vmap": lambda net: torch.func.vmap(net)(VECTORS),
    "vmap of grad": _of_weights,
    "jacrev": lambda net: torch.func.jacrev(net)(VECTORS[0]),
    "jacfwd": lambda net: torch.func.jacfwd(net)(VECTORS[0]),
    "hessian": lambda net: torch.func.hessian(lambda x: net(x).sum())(VECTORS[0]),
    "jacobian": lambda net: torch.autograd.functional.jacobian(net, VECTORS[0]),
    "forward mode": _forward_mode,
    "vmap of results": lambda net: torch.func.vmap(lambda x: x.logsumexp(-1))(torch.stack([net(x) for x in VECTORS])),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_torch_func_of_a_net_is_that_of_the_eager_one(name: str) -> None:
    def run(net: Any) -> Any:
        waiting = net(VECTORS[0])
        return waiting, TRANSFORMS[name](net), net(VECTORS[1])

    assert_alike(run, Layers)


@pytest.mark.parametrize("inner", ["vmap", "grad", "autograd.grad"])
def test_a_sample_may_differentiate_and_map_itself(inner: str) -> None:
    class Inner(Turns):
        def forward(self, sample: tuple[Any, int]) -> Any:
            x, turns = sample
            for _ in range(turns):
                x = self.first(x)
            if inner == "vmap":
                return torch.func.vmap(self.last)(torch.stack([x, x * 2])).sum(0)
            if inner == "grad":
                return self.last(torch.func.grad(lambda z: z.tanh().sum())(x))
            z = x.detach().requires_grad_()
            (found,) = torch.autograd.grad(z.tanh().sum(), z)
            return self.last(x + found)

    assert_alike(lambda net: learned(net, turns()), Inner)


@pytest.mark.filterwarnings("ignore::gluonjit.errors.EarlyFlushWarning")
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("outer", [False, True])
def test_checkpointing_gives_the_same_gradients(reentrant: bool, outer: bool) -> None:
    class Checked(Layers):
        def forward(self, x: Any) -> Any:
            return checkpoint(super().forward, x, use_reentrant=reentrant)

    def run(net: Any) -> Any:
        leaves = [x.clone().requires_grad_() for x in VECTORS]
        results = [checkpoint(net, x, use_reentrant=reentrant) if outer else net(x) for x in leaves]
        sum(result.logsumexp(-1) for result in results).backward()
        return gradients(net), [leaf.grad for leaf in leaves]

    assert_alike(run, Layers if outer else Checked)


def test_a_sample_may_switch_recording_and_detach() -> None:
    class Switching(Turns):
        def forward(self, sample: tuple[Any, int]) -> Any:
            x, turns = sample
            with torch.set_grad_enabled(turns % 2 == 0):
                for _ in range(turns):
                    x = self.first(x).tanh()
            return self.last(x.detach() if turns == 4 else x)

    def run(net: Any) -> Any:
        with torch.inference_mode():
            before = [net(sample) for sample in turns()]
        found = [result.clone() for result in before]
        with torch.no_grad():
            found += [net(sample) for sample in turns()]
        torch.set_grad_enabled(False)
        try:
            found += [net(sample) for sample in turns()]
        finally:
            torch.set_grad_enabled(True)
        return found, learned(net, turns())

    assert_alike(run, Switching)


@pytest.mark.parametrize("region", ["anomaly", "saved on the host", "saved otherwise"])
def test_what_watches_backward_may_be_on(region: str) -> None:
    made = {
        "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
        "saved on the host": torch.autograd.graph.save_on_cpu,
        "saved otherwise": lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x),
    }[region]

    def run(net: Any) -> Any:
        with made():
            return learned(net)

    assert_alike(run)


class Leaf:
    """A tree: a module's argument that is no tensor."""

    def __init__(self, x: float, *children: Leaf) -> None:
        self.x, self.children = torch.full((4,), x), children


class Node(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own, self.others = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4, bias=False)

    def forward(self, x: Any, states: list[Any]) -> Any:
        return torch.tanh(self.own(x) + self.others(sum(states) if states else torch.zeros(4)))


class Encoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.node, self.out = Node(), torch.nn.Linear(4, 3)

    def encode(self, tree: Leaf) -> Any:
        return self.node(tree.x, [self.encode(child) for child in tree.children])

    def forward(self, tree: Leaf) -> Any:
        return self.out(self.encode(tree))


END = Leaf(0.1)
FOREST = [Leaf(0.2, END, Leaf(0.3, END)), END, Leaf(0.4, END, END, END), Leaf(0.5, Leaf(0.6, Leaf(0.7)))]


def _compiled(item: Any, **options: Any) -> Any:
    return torch.compile(item, backend="eager", **options)


def _in_place(net: Any) -> Any:
    net.compile(backend="eager")
    return lambda tree: net(tree).logsumexp(-1)


def _part(net: Any) -> Any:
    net.node = _compiled(net.node)
    return lambda tree: net(tree).logsumexp(-1)


def _whole(net: Any, **options: Any) -> Any:
    made = _compiled(net, **options)
    return lambda tree: made(tree).logsumexp(-1)


def _loss(net: Any) -> Any:
    loss = _compiled(lambda x: x.logsumexp(-1))
    return lambda tree: loss(net(tree))


def _module(net: Any) -> Any:
    loss = _compiled(torch.nn.LogSoftmax(-1))
    return lambda tree: -loss(net(tree))[0]


COMPILED: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "the net": _whole,
    "the net as one graph": lambda net: _whole(net, fullgraph=True),
    "net.compile()": _in_place,
    "a part": _part,
    "the loss": _loss,
    "a module for the loss": _module,
    "a function that calls the net": lambda net: _compiled(lambda tree: net(tree).logsumexp(-1)),
    "both": lambda net: _loss(_compiled(net)),
}


@pytest.mark.parametrize("what", COMPILED)
@pytest.mark.filterwarnings("ignore")
def test_torch_compile_gives_what_eager_execution_does(what: str) -> None:
    def run(dynamic: bool) -> Any:
        torch.manual_seed(0)
        net = Encoder()
        if dynamic:
            gluonjit.hybridize(net)
        parameters = list(net.parameters())
        loss_of = COMPILED[what](net) if dynamic else _plain(what, net)
        found = []
        for _ in range(2):
            loss = sum(loss_of(tree) for tree in FOREST)
            loss.backward()
            found += [loss.detach(), *[parameter.grad.clone() for parameter in parameters]]
            with torch.no_grad():
                for parameter in parameters:
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
        if dynamic and what != "a function that calls the net":
            assert gluonjit.explain().launches < 12, "samples are batched all the same"
        return found

    torch.testing.assert_close(run(True), run(False), rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()


def _plain(what: str, net: Any) -> Any:
    if what == "a module for the loss":
        return lambda tree: -net(tree).log_softmax(-1)[0]
    return lambda tree: net(tree).logsumexp(-1)


class Sequence(torch.nn.Module):
    """A module of tensors alone, which all ways to trace can read."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
        self.out = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.inner(x) * 2 + x)


TRACED: dict[str, Callable[[Any, Any], Any]] = {
    "torch.jit.trace": lambda net, x: torch.jit.trace(net, (x,)),
    "torch.jit.script": lambda net, x: torch.jit.script(net),
    "torch.fx.symbolic_trace": lambda net, x: torch.fx.symbolic_trace(net),
    "torch.export": lambda net, x: torch.export.export(net, (x,)).module(),
    "torch.export, strict": lambda net, x: torch.export.export(net, (x,), strict=True).module(),
    "make_fx": lambda net, x: make_fx(net)(x),
}


@pytest.mark.parametrize("way", TRACED)
@pytest.mark.filterwarnings("ignore")
def test_what_else_traces_a_net_sees_its_operators(way: str) -> None:
    torch.manual_seed(0)
    net, x = gluonjit.hybridize(Sequence()), torch.randn(3, 4)
    waiting = net(x + 1)
    traced = TRACED[way](net, x)
    found = traced(x)
    assert not isinstance(found, type(waiting)) or way == "torch.fx.symbolic_trace"  # there layers are called again
    expected = [net(x), net(x + 1)]
    gluonjit.hybridize(net, dynamic_batch=False)
    torch.testing.assert_close(found + 0, net(x))
    torch.testing.assert_close(traced(x + 1) + 0, net(x + 1))
    torch.testing.assert_close([value + 0 for value in expected], [net(x), net(x + 1)])
    torch.testing.assert_close(waiting + 0, net(x + 1))


def test_modes_that_watch_operators_see_those_of_the_net() -> None:
    net, x = gluonjit.hybridize(Sequence()), torch.randn(3, 4)
    with FlopCounterMode(display=False) as counter:
        net(x)
    assert counter.get_total_flops() == 2 * 3 * 4 * (4 + 2)


class Rows(torch.nn.Module):
    """Gives what a transform makes of rows of its input, after a call that is captured."""

    def __init__(self, transformed: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.transformed = torch.nn.Linear(4, 4), transformed

    def forward(self, sample: Any) -> Any:
        x = sample["x"]
        return self.layer(x).sum() + self.transformed(self.layer, x).square().sum()


OF_ROWS: dict[str, Callable[..., Any]] = {
    "grad": lambda layer, x: torch.func.grad(lambda z: torch.tanh(layer(z)).sum())(x[0]),
    "vmap": lambda layer, x: torch.func.vmap(lambda z: torch.tanh(layer(z)))(x[:2]),
    "jacrev": lambda layer, x: torch.func.jacrev(lambda z: torch.tanh(layer(z)))(x[-1]),
    "vmap of grad": lambda layer, x: torch.func.vmap(torch.func.grad(lambda z: layer(z).square().sum()))(x[0:2]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("of_rows", OF_ROWS)
def test_transforms_of_rows_of_inputs(of_rows: str) -> None:
    found = []
    for dynamic in (False, True):
        torch.manual_seed(0)
        net = Rows(OF_ROWS[of_rows])
        if dynamic:
            gluonjit.hybridize(net)
        sum(net({"x": torch.randn(rows, 4)}) for rows in (2, 3, 2)).backward()
        found.append(gradients(net))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_what_is_compiled_and_runs_eagerly_is_given_computed_results() -> None:
    """As the rest of a sample is that began batched."""
    seen: list[Any] = []

    def backend(graph: Any, examples: list[Any]) -> Any:
        seen.extend(map(type, examples))
        return graph

    class Last(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = torch.compile(lambda x: x * torch.sigmoid(x), backend=backend)

        def forward(self, h: Any) -> Any:
            return self.part(h).sum()

    first = gluonjit.hybridize(torch.nn.Linear(3, 3), dynamic_batch=True, granularity="batched")
    last = gluonjit.hybridize(Last(), dynamic_batch=True, granularity="eager")
    last(first(torch.ones(1, 3))).backward()
    assert seen == [torch.Tensor] and first.weight.grad is not None
