"""What differentiates a net of PyTorch otherwise: functional_call, torch.func, checkpoints, parts without recording."""

from __future__ import annotations

from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_support import gradients  # noqa: E402
from torch_training import (  # noqa: E402
    TREES,
    VECTORS,
    Layers,
    Turns,
    assert_alike,
    learned,
    turns,
    weights,
)


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
