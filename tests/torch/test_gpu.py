"""Models, operators and the zoo on a GPU: what the per-sample program gives on the host, or on the same device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

from device_tasks import TASKS, Task, compare, trained
from torch import nn
from torch_rule_cases import Case
from torch_rule_runs import draw, layouts_of, run_one, run_program
from torch_support import TreeModel, assert_close

import gluonjit
from experiments.bench.engines import engine_of
from experiments.zoo.models import NAMES
from gluonjit.program.axes.values import NotBatchable
from tests.torch.test_minibatches import check, minibatches_of, tree_loss
from tests.torch.test_rule_cases import BATCHED, by_operator, first

DEVICE = "cuda"
pytestmark = pytest.mark.gpu
WAYS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "batched": {"granularity": "batched"},
    "operators": {"granularity": "op"},
    "sharing off": {"granularity": "batched", "sharing": False},
}
ALONE = {
    "leaky_relu.default": "PyTorch 2.11 does not say that it is pointwise",
    "log_sigmoid_forward.default": "its second result has no elements on a GPU",
}
ZOO = engine_of("zoo", "torch")


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Products are computed in float32, as on the host."""
    kept = [(each, each.allow_tf32) for each in (torch.backends.cuda.matmul, torch.backends.cudnn)]
    for each, _ in kept:
        each.allow_tf32 = False
    yield
    for each, was in kept:
        each.allow_tf32 = was


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TASKS)
def test_a_model_trains_on_a_gpu_as_on_the_host(name: str, way: str) -> None:
    task = TASKS[name]
    torch.manual_seed(0)
    net = task.make()
    expected = trained(copy.deepcopy(net), task, task.samples("cpu"), 6)
    net = net.to(DEVICE)
    gluonjit.hybridize(net, dynamic_batch=True, **WAYS[way])
    compare(trained(net, task, task.samples(DEVICE), 6), expected)
    assert not gluonjit.explain().distrusted


@pytest.mark.parametrize("cases", by_operator(BATCHED), ids=first)
def test_a_batched_operator_on_a_gpu(cases: list[Case]) -> None:
    for case in {id(case): case for case in (cases[0], cases[-1])}.values():
        layouts, samples = layouts_of(case)[-1], draw(case, 3)
        moved = {id(each): each.to(DEVICE) for sample in samples for each in sample}
        there = [[moved[id(each)] for each in sample] for sample in samples]
        try:
            run_one(case, there[0])
        except NotImplementedError as error:
            pytest.skip(f"it has no kernel for this device: {str(error)[:80]}")
        try:
            expected, found = run_program(case, layouts, samples), run_program(case, layouts, there)
        except NotBatchable as error:
            assert case.op in ALONE
            pytest.skip(str(error))
        for one, other in zip(found, expected):
            assert one.device.type == torch.device(DEVICE).type
            if not case.drawn:
                torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("name", NAMES)
def test_the_zoo_on_a_gpu(name: str, training: bool) -> None:
    row = ZOO.ROWS[name]
    net, samples = ZOO.make_net(row, 3), ZOO.samples(row, 6, 3)
    expected = numbers_of(net, samples, row.loss, training)
    net, samples = net.to(DEVICE), [given_to(sample) for sample in samples]
    try:
        numbers_of(net, samples, row.loss, training)
    except RuntimeError as error:
        pytest.skip(f"the program makes tensors of the host: {error}")
    for options in ({}, {"granularity": "batched"}):
        gluonjit.hybridize(net, dynamic_batch=True, **options)
        found = numbers_of(net, samples, row.loss, training)
        assert not gluonjit.explain().distrusted
        assert list(found) == list(expected)
        for key, value in expected.items():
            assert_close(found[key], value, key, 1e-4)


def given_to(part: Any) -> Any:
    """The sample with its tensors on the device."""
    if isinstance(part, torch.Tensor):
        return part.to(DEVICE)
    if isinstance(part, (tuple, list)):
        return type(part)([given_to(inner) for inner in part])
    return part


def numbers_of(net: Any, samples: list[Any], loss: Callable[..., Any], training: bool) -> dict[str, Any]:
    """Losses, and gradients by their names, on the host."""
    with torch.set_grad_enabled(training):
        net.zero_grad(set_to_none=True)
        losses = [loss(net, sample) for sample in samples]
        if not training:
            return {"losses": torch.stack([each.reshape(()) for each in losses]).cpu()}
        gluonjit.add_n(losses).backward()
        found = {name: each.grad.cpu().clone() for name, each in net.named_parameters() if each.grad is not None}
        return {"losses": torch.stack([each.detach().reshape(()) for each in losses]).cpu(), **found}


def test_words_that_the_model_sends_to_a_gpu() -> None:
    class OnGpu(TreeModel):
        def forward(self, tree: Any) -> Any:
            words = self.embed(torch.tensor(tree.words(), device=DEVICE))
            return self.head(self.encode(tree, words, [0])[0])

    check(OnGpu().to(DEVICE), minibatches_of(12, 6), tree_loss)


def test_a_second_stream_waits_for_nothing_that_is_missing() -> None:
    """What a program runs in a stream of its own sees what other streams made before it waited for them."""
    net = nn.Linear(300, 300).to(DEVICE)
    vectors = torch.randn(64, 300, device=DEVICE)
    with torch.no_grad():
        expected = torch.stack([net(net(x).tanh()) for x in vectors])
        gluonjit.hybridize(net, dynamic_batch=True)
        for _ in range(20):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                found = torch.stack([net(net(x).tanh()) for x in vectors])
            torch.cuda.current_stream().wait_stream(side)
            assert_close(found, expected, "results", 1e-4)


def test_autocast_on_a_gpu() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)).to(DEVICE)
    vectors = torch.randn(8, 32, device=DEVICE)

    def run() -> list[Any]:
        net.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            losses = [net(x).float().square().sum() for x in vectors]
        gluonjit.add_n(losses).backward()
        return [torch.stack(losses).detach(), *[each.grad.clone() for each in net.parameters()]]

    expected = run()
    gluonjit.hybridize(net, dynamic_batch=True)
    for one, other in zip(run(), expected):
        assert one.dtype == other.dtype
        assert_close(one, other, "autocast", 5e-2)


def test_memory_of_the_device_stays_where_it_is() -> None:
    task = TASKS["bilstm"]
    net, samples = task.make().to(DEVICE), task.samples(DEVICE)
    gluonjit.hybridize(net, dynamic_batch=True, granularity="batched")
    trained(net, task, samples, 4)
    gluonjit.explain()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(10):
        trained(net, task, samples, 4)
    gluonjit.explain()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before + (1 << 16)


def test_results_of_a_gpu_are_read() -> None:
    net = nn.Linear(3, 1).to(DEVICE)
    vectors = torch.randn(5, 3, device=DEVICE)
    expected = [net(x).item() for x in vectors]
    gluonjit.hybridize(net, dynamic_batch=True)
    results = [net(x) for x in vectors]
    assert [each.item() for each in results] == pytest.approx(expected, rel=1e-5)
    assert gluonjit.explain().launches == 1


def test_a_half_precision_model_on_a_gpu() -> None:
    task = Task(
        lambda: nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)),
        lambda net, x: net(x).sum(),
        lambda device: list(torch.ones(4, 16, device=device).cumsum(0) / 4),
    )
    torch.manual_seed(0)
    net = task.make().to(DEVICE).half()
    samples = [x.half() for x in task.samples(DEVICE)]
    expected = trained(copy.deepcopy(net), task, samples)
    gluonjit.hybridize(net, dynamic_batch=True)
    for (losses, learned), (others, wanted) in zip(trained(net, task, samples), expected):
        assert_close(losses.float(), others.float(), "losses", 1e-2)
        for name, gradient in wanted.items():
            assert_close(learned[name].float(), gradient.float(), name, 1e-2)
