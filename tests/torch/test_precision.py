"""Half precision: what torch.autocast casts is cast in batches too, and models of half precision are batched.

The tolerance is 3e-2: bfloat16 has eight bits, so that one rounding is up to 4e-3 of a number, and what is added up in
another order is rounded otherwise some times in a row.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch_support import TreeModel, assert_same, gradients
from torch_training import TREES, VECTORS, Layers, assert_alike, learned, losses, weights

import gluonjit

HALF = 3e-2


def autocast(dtype: Any = torch.bfloat16, enabled: bool = True) -> Any:
    return torch.autocast("cpu", dtype=dtype, enabled=enabled)


def cast(net: Any, dtype: Any = torch.bfloat16) -> Any:
    """Results under autocast, and gradients."""
    with autocast(dtype):
        results = [net(tree) for tree in TREES]
        total = sum(result.float().logsumexp(-1) for result in results)
    total.backward()
    return results, gradients(net)


@pytest.mark.parametrize("options", [{}, {"granularity": "op"}, {"sharing": False}, {"without": ("arity", "hoisting")}])
def test_under_autocast_results_and_gradients_are_those_of_the_eager_program(options: dict[str, Any]) -> None:
    report = assert_alike(cast, tolerance=HALF, **options)
    assert report.flushes == 1 and not report.alone


def test_under_autocast_as_little_is_launched_as_without() -> None:
    half = assert_alike(cast, tolerance=HALF)
    full = assert_alike(learned)
    assert half.kinds["cell"].launches == full.kinds["cell"].launches == 7
    assert half.kinds["cell"].nodes == full.kinds["cell"].nodes == 39


def test_a_result_has_the_dtype_that_its_operator_gives() -> None:
    net = gluonjit.hybridize(Layers(), dynamic_batch=True)
    with autocast():
        result = net(VECTORS[0])
        sums = result.float() + net(VECTORS[1]), torch.stack([result, net(VECTORS[2])])
        assert (result.dtype, sums[0].dtype, sums[1].dtype) == (torch.bfloat16, torch.float32, torch.bfloat16)
    with autocast(torch.float16):
        assert net(VECTORS[0]).dtype is torch.float16
    assert net(VECTORS[0]).dtype is torch.float32
    net(VECTORS[1]).sum().backward()
    assert net.first.weight.grad.dtype is torch.float32


def test_calls_of_one_batch_may_be_cast_each_in_its_own_way() -> None:
    def run(net: Any) -> Any:
        results = []
        for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
            with autocast(dtype):
                results += [net(x) for x in VECTORS]
                with autocast(enabled=False):
                    results += [net(x) for x in VECTORS]
            results += [net(x) for x in VECTORS]
        sum(result.float().logsumexp(-1) for result in results).backward()
        return results, gradients(net)

    report = assert_alike(run, Layers, HALF, sharing=False)
    assert report.flushes == 1
    assert report.kinds["Layers"].launches == 3  # one a way


def test_what_was_captured_outside_of_autocast_is_not_cast_inside() -> None:
    def run(net: Any) -> Any:
        waiting = losses(net)
        with autocast():
            total = sum(waiting)
            float(total)
        total.backward()
        return total, gradients(net)

    assert_alike(run)


def test_a_cell_and_a_sample_may_switch_autocast_themselves() -> None:
    class Careful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, sample: Any) -> Any:
            x, turns = sample
            with autocast(enabled=turns % 2 == 0):
                for _ in range(turns):
                    x = self.first(x).tanh()
            with autocast(enabled=False):
                return self.last(x.float())

    def run(net: Any) -> Any:
        samples = [(x, number) for number, x in enumerate(VECTORS)]
        with autocast():
            results = [net(sample) for sample in samples] + [net((VECTORS[0], 0))]
        results += [net(sample) for sample in samples]
        sum(result.logsumexp(-1) for result in results).backward()
        return results, gradients(net)

    assert_alike(run, Careful, HALF)


def test_rows_of_two_dtypes_are_put_together_as_eagerly() -> None:
    def run(net: Any) -> Any:
        with autocast():
            half = net(VECTORS[0])
            full = half.float() * 2
            return [torch.stack([half, full]), torch.cat([full, half]), half + full]

    assert_alike(run, Layers, HALF)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_model_may_be_of_another_precision_altogether(dtype: Any) -> None:
    tolerance = HALF if dtype is torch.bfloat16 else 1e-9
    report = assert_alike(learned, lambda: TreeModel().to(dtype), tolerance)
    assert report.kinds["cell"].launches == 7


@pytest.mark.parametrize("region", [None, torch.bfloat16])
def test_losses_may_be_scaled_before_backward(region: Any) -> None:
    def run(net: Any) -> Any:
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            with autocast(enabled=region is not None):
                total = sum(net(tree).float().logsumexp(-1) for tree in TREES)
            scaler.scale(total).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        return weights(net), scaler.get_scale()

    assert_alike(run, tolerance=1e-5 if region is None else HALF)


def test_a_step_whose_gradients_overflow_is_left_out() -> None:
    def run(net: Any) -> Any:
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with autocast():
            total = sum(net(x).float().pow(2).sum() * 1e6 for x in VECTORS)
        scaler.scale(total).backward()
        scaler.step(optimizer)
        scaler.update()
        return weights(net), scaler.get_scale()

    assert_alike(run, Layers, 0.0)


def test_casts_of_weights_that_autocast_keeps_are_not_those_of_a_trace() -> None:
    def run(net: Any) -> Any:
        with autocast():
            eager = torch.nn.functional.linear(VECTORS[0], net.first.weight)
            results = [net(x) for x in VECTORS]
            again = torch.nn.functional.linear(VECTORS[0], net.first.weight)
        return eager, results, again

    assert_alike(run, Layers, HALF)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.complex64, torch.complex128])
def test_inputs_and_rows_that_are_looked_up_of_any_size_of_number_lie_where_they_are_read(dtype: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Parameter(torch.randn(20, 4).to(dtype))

        def forward(self, word: Any, given: Any) -> Any:
            h = torch.tanh(self.words[word]) + torch.ones(1, 4, dtype=dtype)
            return torch.sin(h * given.t() - torch.zeros(4, 4, dtype=dtype).t())

    net = Net()
    samples = [(torch.tensor([word]), torch.randn(1, 4).to(dtype)) for word in (3, 4, 7, 9)]
    assert_same(net, samples, lambda net, sample: net(*sample).abs().float().sum(), HALF, granularity="op")
