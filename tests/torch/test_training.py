"""Training goes as without batching: weights and parts that change, norms, optimizers, copies, threads."""

from __future__ import annotations

import copy
import io
import threading
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch_support import TreeModel, gradients
from torch_training import (
    SENTENCES,
    TREES,
    VECTORS,
    Layers,
    Words,
    assert_alike,
    learned,
    losses,
    weights,
)

import gluonjit


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


def test_calls_that_wait_run_before_the_memory_of_weights_is_exchanged() -> None:
    net = Layers()
    wanted = net(VECTORS[0]).detach()
    gluonjit.hybridize(net, dynamic_batch=True)
    waiting = net(VECTORS[0])
    torch.nn.utils.vector_to_parameters(torch.zeros(43), net.parameters())
    torch.testing.assert_close(waiting.detach(), wanted)
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


def test_batch_norm_is_batched_in_training_and_in_evaluation() -> None:
    rows = [torch.arange(4.0 * number).reshape(number, 4).sin() for number in (3, 4, 5)]

    def train(net: Any) -> Any:
        sum(net(x).logsumexp(-1).sum() for x in rows).backward()
        return gradients(net), net.state_dict()

    report = assert_alike(train, Normed, 1e-4)
    assert report.flushes == 1
    assert report.kinds["batch_norm"].launches == 1
    report = assert_alike(lambda net: train(net.eval()), Normed)
    assert report.kinds["Normed"].launches == 1

    def both(net: Any) -> Any:
        results = [net(rows[0]), net.eval()(rows[0]), net.train()(rows[1])]
        return results, net.state_dict()

    assert_alike(both, Normed)


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
