"""Training goes as without batching: gradients in parts, hooks, weights that change, what wraps a module, threads."""

from __future__ import annotations

import copy
import io
import threading
from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.modules import module as modules  # noqa: E402
from torch.nn.utils import parametrizations, parametrize, prune  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_support import TreeModel, assert_close, gradients, make_trees  # noqa: E402

import gluonjit  # noqa: E402
from gluonjit.errors import CaptureError  # noqa: E402

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
        assert actual.dtype is expected.dtype, what
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
        lambda: results[0].register_hook(print),
        lambda: results[1].retain_grad(),
        lambda: torch.autograd.grad(total, results[2:]),
        lambda: total.backward(inputs=[results[3]]),
    ):
        with pytest.raises(CaptureError, match=r"shape \(3,\) already.*retain_grad\(\) or register_hook\(\)"):
            call()
    total.backward()
    assert net.head.weight.grad is not None


# --- hooks -----------------------------------------------------------------------------------------------------------

SEEN: list[Any] = []


def doubled(module: Any, args: Any, out: Any) -> Any:
    SEEN.append(type(module).__name__)
    return (out[0] * 2, *out[1:]) if isinstance(out, tuple) else out * 2


def noted(module: Any, *others: Any) -> None:
    SEEN.append(type(module).__name__)


HOOKS: dict[str, Callable[[Any], Any]] = {
    "the net's forward": lambda net: net.register_forward_hook(doubled),
    "a cell's forward": lambda net: net.cell.register_forward_hook(doubled),
    "a part's forward": lambda net: net.cell.gates_x.register_forward_hook(doubled),
    "a part's arguments": lambda net: net.head.register_forward_pre_hook(lambda module, args: (args[0] * 3,)),
    "a part's named arguments": lambda net: net.head.register_forward_pre_hook(
        lambda module, args, kwargs: ((args[0] * 3,), kwargs), with_kwargs=True
    ),
    "the net's backward": lambda net: net.register_full_backward_hook(noted),
    "a cell's backward": lambda net: net.cell.register_full_backward_hook(noted),
    "a part's backward": lambda net: net.head.register_full_backward_hook(
        lambda module, inner, outer: (SEEN.append(float(outer[0].sum())), (inner[0] * 2,))[1]
    ),
    "before a part's backward": lambda net: net.head.register_full_backward_pre_hook(
        lambda module, outer: (outer[0] * 2,)
    ),
    "every forward": lambda net: modules.register_module_forward_hook(noted),
    "every call": lambda net: modules.register_module_forward_pre_hook(noted),
    "every backward": lambda net: modules.register_module_full_backward_hook(noted),
}


@pytest.mark.parametrize("where", HOOKS)
@pytest.mark.parametrize("meanwhile", [False, True])
def test_hooks_of_modules_run_for_each_call(where: str, meanwhile: bool) -> None:
    def run(net: Any) -> Any:
        SEEN.clear()
        before = losses(net) if meanwhile else []
        handle = HOOKS[where](net)
        try:
            hooked = losses(net)
        finally:
            if "backward" not in where:
                handle.remove()
        after = losses(net)
        sum([*before, *hooked, *after]).backward()
        handle.remove()
        counts = {what: SEEN.count(what) for what in SEEN if isinstance(what, str)}
        numbers = torch.tensor(sorted(what for what in SEEN if isinstance(what, float)))
        return sorted(counts.items()), numbers, before, hooked, after, gradients(net)

    assert_alike(run)


def test_hooks_of_parameters_run_once_a_backward() -> None:
    def run(net: Any) -> Any:
        seen: list[Any] = []
        after: list[Any] = []
        net.head.weight.register_hook(lambda gradient: seen.append(gradient.clone()) or gradient * 2)
        weight = net.cell.gates_x.weight
        weight.register_post_accumulate_grad_hook(lambda parameter: after.append(parameter.grad.clone()))
        return learned(net), seen, after

    assert_alike(run)


def test_an_optimizer_may_step_within_backward() -> None:
    def run(net: Any) -> Any:
        optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in net.parameters()}

        def step(parameter: Any) -> None:
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in net.parameters():
            parameter.register_post_accumulate_grad_hook(step)
        for _ in range(2):
            sum(losses(net)).backward()
        return weights(net)

    assert_alike(run)


def test_a_forward_may_hook_what_it_computes() -> None:
    class Hooking(Layers):
        def forward(self, x: Any) -> Any:
            x = self.first(x).tanh()
            if x.requires_grad:
                x.register_hook(lambda gradient: gradient * 3)
            return self.last(x)

    assert_alike(lambda net: learned(net, VECTORS), Hooking)


def test_a_forward_may_ask_whether_gradients_go_through_a_tensor() -> None:
    class Asking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: Any, y: Any) -> Any:
            inner = self.first(x)
            out = self.last(inner * 2 if inner.requires_grad else inner)
            return out * (3 if x.requires_grad else 1) * (5 if (x * y).requires_grad else 1)

    def run(net: Any) -> Any:
        found = []
        for first in (False, True):
            for second in (False, True):
                x, y = VECTORS[0].clone().requires_grad_(first), VECTORS[1].clone().requires_grad_(second)
                found.append(net(x, y))
        with torch.no_grad():
            found.append(net(VECTORS[0], VECTORS[1]))
        return found

    assert_alike(run, Asking)


# --- functions of functions ------------------------------------------------------------------------------------------


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


# --- modes -----------------------------------------------------------------------------------------------------------


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


# --- weights that change ---------------------------------------------------------------------------------------------


def _other(net: Any) -> dict[str, Any]:
    return {name: value * 2 for name, value in net.state_dict().items()}


def _head(net: Any) -> None:
    torch.manual_seed(1)
    net.head = nn.Linear(6, 3)


def _weight(net: Any) -> None:
    net.head.weight = nn.Parameter(net.head.weight.detach() * 2)


def _bias(net: Any) -> None:
    del net.head.bias
    net.head.register_parameter("bias", None)


def _module(net: Any) -> None:
    torch.manual_seed(1)
    net.cell.add_module("gates_x", nn.Linear(8, 18))


CHANGES: dict[str, Callable[[Any], Any]] = {
    "loaded": lambda net: net.load_state_dict(_other(net)),
    "assigned": lambda net: net.load_state_dict(_other(net), assign=True),
    "cast": lambda net: net.to(torch.float64),
    "a new part": _head,
    "a new weight": _weight,
    "no bias": _bias,
    "a part added": _module,
    "frozen": lambda net: net.cell.requires_grad_(False),
    "one frozen": lambda net: setattr(net.head.weight, "requires_grad", False),
    "padded": lambda net: setattr(net.embed, "padding_idx", 2),
    "pruned": lambda net: prune.l1_unstructured(net.head, "weight", amount=0.5),
    "normed": lambda net: parametrizations.weight_norm(net.head),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("waiting", [False, True])
def test_weights_and_parts_may_change_between_two_calls(change: str, waiting: bool) -> None:
    def run(net: Any) -> Any:
        before = [net(tree) for tree in TREES]
        if not waiting:
            before = [result.detach().clone() for result in before]
        CHANGES[change](net)
        return before, [net(tree) for tree in TREES], learned(net)

    assert_alike(run)


def test_weights_whose_memory_is_exchanged_while_calls_wait_are_noticed() -> None:
    net = gluonjit.hybridize(Layers(), dynamic_batch=True)
    waiting = net(VECTORS[0])
    torch.nn.utils.vector_to_parameters(torch.zeros(43), net.parameters())
    with pytest.raises(CaptureError, match=r"a weight of shape \(5, 4\) was written to"):
        waiting.sum().item()
    assert float(net(VECTORS[0]).abs().sum()) == 0


def test_weights_are_frozen_and_freed_between_minibatches() -> None:
    def run(net: Any) -> Any:
        found = []
        for frozen in (False, True, False):
            net.zero_grad()
            net.cell.requires_grad_(not frozen)
            found.append(learned(net))
        return found

    assert_alike(run)


def _normed() -> Any:
    net = TreeModel()
    parametrizations.weight_norm(net.head)
    parametrizations.weight_norm(net.cell.gates_h)
    parametrizations.orthogonal(net.cell.forget_h)
    return net


def test_parametrized_weights_learn_the_same_cached_or_not() -> None:
    def cached(net: Any) -> Any:
        with parametrize.cached():
            return learned(net)

    assert_alike(learned, _normed, 1e-4)
    assert_alike(cached, _normed, 1e-4)


def test_spectral_norm_takes_its_steps_call_by_call() -> None:
    def make() -> Any:
        net = TreeModel()
        parametrizations.spectral_norm(net.head)
        return net

    assert_alike(lambda net: (learned(net), learned(net.eval()), dict(net.state_dict())), make, 1e-4)


class Normed(nn.Module):
    """A layer whose running statistics change in training."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        return self.last(self.norm(self.first(x)).tanh())


def test_batch_norm_trains_sample_by_sample_and_is_batched_in_evaluation() -> None:
    rows = [torch.arange(4.0 * number).reshape(number, 4).sin() for number in (3, 4, 5)]

    def train(net: Any) -> Any:
        sum(net(x).logsumexp(-1).sum() for x in rows).backward()
        return gradients(net), net.state_dict()

    report = assert_alike(train, Normed, 1e-4)
    assert "writes to" in report.unbatched["norm"]
    report = assert_alike(lambda net: train(net.eval()), Normed)
    assert report.kinds["Normed"].launches == 1

    def both(net: Any) -> Any:
        results = [net(rows[0]), net.eval()(rows[0]), net.train()(rows[1])]
        return results, net.state_dict()

    assert_alike(both, Normed)


# --- optimizers ------------------------------------------------------------------------------------------------------

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "momentum": lambda given: torch.optim.SGD(given, lr=0.05, momentum=0.9, nesterov=True),
    "SGD fused": lambda given: torch.optim.SGD(given, lr=0.05, momentum=0.9, fused=True),
    "Adam foreach": lambda given: torch.optim.Adam(given, lr=0.02, foreach=True),
    "Adam fused": lambda given: torch.optim.Adam(given, lr=0.02, fused=True),
    "AdamW": lambda given: torch.optim.AdamW(given, lr=0.02, amsgrad=True),
    "Adagrad foreach": lambda given: torch.optim.Adagrad(given, lr=0.05, foreach=True),
    "Adagrad fused": lambda given: torch.optim.Adagrad(given, lr=0.05, fused=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_with_accumulated_and_clipped_gradients_take_the_same_steps(name: str) -> None:
    def run(net: Any) -> Any:
        optimizer = OPTIMIZERS[name](net.parameters())
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        norms = []
        for epoch in range(3):
            for begin in range(0, 6, 2):
                (sum(losses(net, TREES[begin : begin + 2])) / 3).backward()
            norms.append(torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5).clone())
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=epoch == 1)
        return norms, weights(net)

    assert_alike(run, tolerance=2e-4)


@pytest.mark.parametrize("name", ["LBFGS", "SGD"])
def test_an_optimizer_may_call_the_net_by_itself(name: str) -> None:
    def run(net: Any) -> Any:
        optimizer = getattr(torch.optim, name)(net.parameters(), lr=0.05)

        def closure() -> Any:
            optimizer.zero_grad()
            total = sum(net(tree).pow(2).sum() for tree in TREES)
            total.backward()
            return total

        return [torch.as_tensor(optimizer.step(closure)).detach().clone() for _ in range(3)], weights(net)

    assert_alike(run, tolerance=1e-3)  # which way to go is found from differences of gradients


def test_sparse_gradients_take_the_steps_of_their_optimizer() -> None:
    def run(net: Any) -> Any:
        optimizer = torch.optim.SparseAdam(net.embed.parameters(), lr=0.1)
        sum(losses(net, SENTENCES)).backward()
        optimizer.step()
        return weights(net)

    assert_alike(run, lambda: Words(sparse=True))


# --- copies and threads ----------------------------------------------------------------------------------------------


def test_a_net_is_copied_saved_and_averaged_while_calls_wait() -> None:
    def run(net: Any) -> Any:
        waiting = net(TREES[0])
        file = io.BytesIO()
        torch.save(net, file)
        file.seek(0)
        twins = [copy.deepcopy(net), torch.load(file, weights_only=False)]
        average = torch.optim.swa_utils.AveragedModel(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        found = [learned(twin) for twin in twins]
        sum(losses(net)).backward()
        optimizer.step()
        average.update_parameters(net)
        average.update_parameters(net)
        return waiting, found, [average(tree) for tree in TREES], learned(average)

    assert_alike(run)


def test_results_are_saved_as_tensors() -> None:
    net = gluonjit.hybridize(Layers(), dynamic_batch=True)
    file = io.BytesIO()
    torch.save({"result": net(VECTORS[0]).detach()}, file)
    file.seek(0)
    found = torch.load(file)["result"]
    assert type(found) is torch.Tensor and torch.equal(found, net(VECTORS[0]).detach())


@pytest.mark.parametrize("shared", [False, True])
def test_threads_train_at_once(shared: bool) -> None:
    def run(net: Any) -> Any:
        nets = [net if shared else copy.deepcopy(net) for _ in range(2)]

        def train(number: int) -> None:
            sum(losses(nets[number], TREES[number::2])).backward()

        threads = [threading.Thread(target=train, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [gradients(each) for each in nets]

    assert_alike(run)


def test_minibatches_may_come_from_the_workers_of_a_loader() -> None:
    def run(net: Any) -> Any:
        for trees in torch.utils.data.DataLoader(TREES, batch_size=3, collate_fn=list, num_workers=1):
            sum(losses(net, trees)).backward()
        return gradients(net)

    assert_alike(run)
