"""Steps that run in C as a whole, on PyTorch: each operator beside the eager program, and what stays PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import gluonjit
from gluonjit.compiled import ROWS

pytestmark = pytest.mark.skipif(ROWS is None, reason="gluonjit._rows is not there, or GLUONJIT_PURE is set")
WIDTH = 6
Body = Callable[[Any, Any, Any], Any]

# What a cell computes of x and y, (6,) or (1, 6), between 0.2 and 1.2, and a weight w (6, 6).
IN_C: dict[str, Body] = {
    "linear": lambda x, y, w: torch.nn.functional.linear(x * y, w, w[0]),
    "matmul": lambda x, y, w: (x @ w) * y,
    "sums": lambda x, y, w: x + y + x * y + 2.0 - (0.5 - y) / 3.0 - (x - 1.0),
    "products": lambda x, y, w: x * y * 0.5 / (y + 1) - 2.0 * x.reciprocal(),
    "sigmoid, tanh, relu": lambda x, y, w: x.sigmoid() * y.tanh() + (x - y).relu(),
    "exp, log, sqrt": lambda x, y, w: x.exp() * y.log() + x.sqrt(),
    "square, abs, neg": lambda x, y, w: x**2 + (x - y).abs() - (-y) + torch.nn.functional.silu(x),
    "softplus, rsqrt": lambda x, y, w: torch.nn.functional.softplus(x) * y.rsqrt(),
    "clamp": lambda x, y, w: x.clamp(0.4, 0.8) * y.clamp_min(0.5) + y.clamp_max(0.9) * x.clamp(max=1),
    "softmax": lambda x, y, w: x.softmax(-1) * y + y.log_softmax(-1),
    "xlogy": lambda x, y, w: torch.xlogy(x.detach(), y) * x,
    "slices": lambda x, y, w: x[..., 1:5] * y[..., :4],
    "split": lambda x, y, w: torch.mul(*(x * y).split(3, -1)),
    "chunk": lambda x, y, w: torch.mul(*(x * y).chunk(2, -1)),
    "cat": lambda x, y, w: torch.cat([x, y * 2, x], -1),
    "sum of a row": lambda x, y, w: (x * y).sum(-1, keepdim=True) * x,
    "mean of a row": lambda x, y, w: x - y.mean(-1, keepdim=True),
    "column": lambda x, y, w: x / y[..., 2:3],
    "squared error": lambda x, y, w: F.mse_loss(x, y, reduction="sum") + F.mse_loss(x, y) * F.mse_loss(x, y),
    "smooth and plain error": lambda x, y, w: F.smooth_l1_loss(x, y, beta=0.2) * F.l1_loss(x, y),
    "huber error": lambda x, y, w: F.huber_loss(x, y, delta=0.3) * x,
    "log likelihood": lambda x, y, w: F.binary_cross_entropy_with_logits(x - y, y.detach().clamp(0, 1)) * x,
    "logsigmoid": lambda x, y, w: F.logsigmoid(x - y) * x,
    "leaky relu": lambda x, y, w: F.leaky_relu(x - y, 0.2) + F.leaky_relu(x.detach() - x, 0.3),
    "dot": lambda x, y, w: torch.dot(x.reshape(-1), y.reshape(-1)) * x,
    "logsumexp": lambda x, y, w: torch.logsumexp(x * 90 - y, -1, keepdim=True) * x,
    "layer norm": lambda x, y, w: F.layer_norm(x, (WIDTH,), w[0], w[1]) * F.layer_norm(y, (WIDTH,)),
    "constant rows": lambda x, y, w: x / w[0] + (w[1] - y) * torch.xlogy(x.detach(), w[2, 2]),
    "parts of a weight": lambda x, y, w: torch.cat([x @ w[:, 2:5], y @ w.t()[:, :3]], -1) + w[2, 1] * x,
    "detached": lambda x, y, w: x.detach() * y + x,
    "expanded column": lambda x, y, w: y[..., 2:3].expand_as(x) * x,
    "product of two rows": lambda x, y, w: (x.view(1, 6) @ y.view(6, 1)).view(1) * x,
    "orders of axes": lambda x, y, w: x.view(6, 1).t().reshape(x.shape) * y,
    "zeros and ones": lambda x, y, w: torch.zeros_like(x) + torch.ones_like(y) * x,
}
IN_PYTORCH: dict[str, Body] = {
    "sin": lambda x, y, w: x.sin() * y,
    "sort": lambda x, y, w: x.sort(-1).values * y,
}


class Cell(torch.nn.Module):
    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body
        self.w = torch.nn.Parameter(torch.rand(WIDTH, WIDTH))

    def forward(self, x: Any, y: Any) -> Any:
        return self.body(x, y, self.w)


class Net(torch.nn.Module):
    """Two levels, so that a cell's operands are a cell's results too."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Sigmoid()), Cell(body)

    def forward(self, x: Any, y: Any) -> Any:
        return self.second(self.first(x) + 0.2, y)


def outcome(net: Any, samples: list[Any], recording: bool = True, region: Any = nullcontext) -> list[Any]:
    net.zero_grad()
    for x, y in samples:
        x.grad, y.grad = None, None
    with torch.set_grad_enabled(recording), region():
        results = [net(x, y) for x, y in samples]
        total = sum((result * result).sum() for result in results)
    found = [result.detach().clone() for result in results]
    if recording:
        total.backward()
        found += [parameter.grad for parameter in net.parameters()] + [one.grad for both in samples for one in both]
    return found


def made(body: Body, shape: tuple[int, ...]) -> tuple[Any, list[Any]]:
    torch.manual_seed(7)
    samples = [tuple((torch.rand(shape) + 0.2).requires_grad_() for _ in range(2)) for _ in range(5)]
    return Net(body), [*samples, samples[0]]


def assert_alike(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for actual, wanted in zip(found, expected):
        assert (actual is None) == (wanted is None)
        if wanted is not None:
            assert float((actual - wanted).abs().max()) <= 1e-5 * max(float(wanted.abs().max()), 1e-6)


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("shape", [(WIDTH,), (1, WIDTH)])
@pytest.mark.parametrize("name", IN_C)
def test_an_operator_in_c_is_the_operator(name: str, shape: tuple[int, ...], recording: bool) -> None:
    net, samples = made(IN_C[name], shape)
    expected = outcome(net, samples, recording)
    gluonjit.hybridize(net, dynamic_batch=True)
    found = outcome(net, samples, recording, partial(gluonjit.batching, granularity="cell"))
    report = gluonjit.explain()
    assert "Net" in report.kinds and "Net" not in report.unfused and report.fused >= report.launches - 2, report
    assert_alike(found, expected)


# What a cell computes of rows x, (3, 6), and y, (6,).
OVER_ROWS: dict[str, Body] = {
    "sum": lambda x, y, w: x.sum(0) * y,
    "mean of a layer": lambda x, y, w: F.linear(x * y, w, w[0]).tanh().mean(0) - y,
    "sum of all": lambda x, y, w: (x * 2 + y[None]).sum() * y,
    "weighted by scores": lambda x, y, w: ((x @ y).sigmoid()[:, None] * x).sum(0, keepdim=True)[0],
    "by a constant and a column": lambda x, y, w: (x / w[1] - y[2]).mean(0) * (x[:, :1] * y[:1]).sum(),
    "normed": lambda x, y, w: F.layer_norm(x + y, (WIDTH,), w[0], w[1]).mean(0) + x.softmax(-1).sum(0),
}


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("name", OVER_ROWS)
def test_a_sum_of_rows_is_in_c(name: str, recording: bool) -> None:
    torch.manual_seed(7)
    net = Net(OVER_ROWS[name])
    samples = [((torch.rand(3, WIDTH) + 0.2).requires_grad_(), torch.rand(WIDTH).requires_grad_()) for _ in "12345"]
    expected = outcome(net, samples, recording)
    gluonjit.hybridize(net, dynamic_batch=True)
    found = outcome(net, samples, recording, partial(gluonjit.batching, granularity="cell"))
    report = gluonjit.explain()
    assert not report.unfused and report.fused == report.launches and "Net" in report.kinds, report
    assert_alike(found, expected)


def labelled(loss: Callable[[Any, Any], Any], labels: list[Any], recording: bool) -> tuple[list[Any], list[Any], Any]:
    """Losses and gradients of labelled samples, batched and eagerly, and the report."""
    found = []
    for dynamic in (False, True):
        torch.manual_seed(3)
        net = torch.nn.Linear(4, WIDTH)
        if dynamic:
            gluonjit.hybridize(net, dynamic_batch=True)
        with torch.set_grad_enabled(recording), gluonjit.batching():
            losses = [loss(net(x), label) for x, label in zip(torch.rand(len(labels), 4), labels)]
            total = sum(each.sum() for each in losses)
        results = [each.detach().clone() for each in losses]
        if recording:
            total.backward()
            results += [parameter.grad for parameter in net.parameters()]
        found.append(results)
    return found[1], found[0], gluonjit.explain()


LOSSES: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "of a row": (lambda x, y: F.cross_entropy(x, y), ()),
    "of a matrix of one row": (lambda x, y: F.cross_entropy(x[None], y, reduction="sum"), (1,)),
    "of logarithms": (lambda x, y: F.nll_loss(F.log_softmax(x, -1), y, reduction="none"), ()),
    "an entry": (lambda x, y: x[y] * x.sum(), ()),
}


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_an_entry_by_a_whole_number_is_in_c(name: str, recording: bool) -> None:
    loss, shape = LOSSES[name]
    labels = [torch.full(shape, label) for label in (0, 5, 2, 2, 1)]
    found, expected, report = labelled(loss, labels, recording)
    assert report.fused == report.launches, report
    assert_alike(found, expected)


def test_a_label_that_is_to_be_ignored_is_left_to_pytorch() -> None:
    labels = [torch.tensor(label) for label in (0, -100, 2)]
    found, expected, report = labelled(lambda x, y: F.cross_entropy(x, y, reduction="sum"), labels, True)
    assert report.unfused == {"cross_entropy": "an integer that is out of range"}
    assert_alike(found, expected)


def test_a_class_that_does_not_count_is_left_to_pytorch() -> None:
    labels = [torch.tensor(label) for label in (0, 1, 2)]
    ignoring = lambda x, y: F.cross_entropy(x, y, ignore_index=1, reduction="sum") + 0 * x.sum()  # noqa: E731
    found, expected, report = labelled(ignoring, labels, True)
    assert report.unfused["cross_entropy"] == "nll_loss_forward.default: with weights, or a class that does not count"
    assert_alike(found, expected)


def test_a_label_that_is_no_class_is_an_error() -> None:
    with pytest.raises(IndexError, match=r"failed when it ran: Target 6 is out of bounds\. \w"):
        labelled(LOSSES["of a row"][0], [torch.tensor(label) for label in (0, 6)], True)


def test_logsumexp_of_what_is_not_finite_is_pytorchs() -> None:
    lowest = -float("inf")
    rows = [[lowest, 1.0], [lowest, lowest], [float("inf"), 0.0], [float("nan"), 1.0], [1e30, -1e30]]
    given = [torch.tensor(row) for row in rows]
    with gluonjit.batching():
        found = [torch.logsumexp(row * 1.0, 0) for row in given]
        assert gluonjit.explain() is not None
    expected = [torch.logsumexp(row, 0) for row in given]
    assert [float(value) for value in found] == pytest.approx([float(value) for value in expected], nan_ok=True)


@pytest.mark.parametrize("name", IN_PYTORCH)
def test_what_has_no_instruction_stays_pytorchs(name: str) -> None:
    net, samples = made(IN_PYTORCH[name], (WIDTH,))
    expected = outcome(net, samples)
    gluonjit.hybridize(net, dynamic_batch=True)
    found = outcome(net, samples)
    report = gluonjit.explain()
    assert 0 < report.fused < report.launches
    assert report.unfused["Net"] == f"{name}.default has no instruction" and "mul" not in report.unfused
    assert f"not in C: Net: {report.unfused['Net']}" in str(report)
    assert_alike(found, expected)


@pytest.mark.parametrize(
    "body",
    [
        lambda x, y, w: torch.native_layer_norm(x, (WIDTH,), w[0], w[1], 1e-5)[1] * y,
        lambda x, y, w: x / 0.0 * 0.0 + y,
        lambda x, y, w: x.clamp(y * 0.5, y) + x**3,
        lambda x, y, w: torch.softmax(x.double(), -1).float() * y,
        lambda x, y, w: torch.add(x, y, alpha=2) + x.sum(dtype=torch.float64).float(),
    ],
)
def test_arguments_that_no_instruction_has_are_left_to_pytorch(body: Body) -> None:
    net, samples = made(body, (WIDTH,))
    expected = [value.nan_to_num(7.0) for value in outcome(net, samples, False)]
    gluonjit.hybridize(net, dynamic_batch=True)
    found = outcome(net, samples, False, partial(gluonjit.batching, granularity="cell"))
    report = gluonjit.explain()
    assert "Net" in report.kinds and report.unfused["Net"]
    assert_alike([value.nan_to_num(7.0) for value in found], expected)


def test_the_report_says_that_rows_are_too_wide_for_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gluonjit.rows.assembly.MOST_COLUMNS", WIDTH - 1)
    gluonjit.clear_caches()
    net, samples = made(IN_C["sums"], (WIDTH,))
    expected = outcome(net, samples)
    gluonjit.hybridize(net, dynamic_batch=True)
    found = outcome(net, samples)
    report = gluonjit.explain()
    assert report.unfused["Net"] == f"rows of more than {WIDTH - 1} numbers"
    assert report.to_dict()["unfused"] == report.unfused
    assert_alike(found, expected)


def test_nothing_runs_in_c_where_it_is_left_out_or_not_in_float32() -> None:
    net, samples = made(IN_C["sums"], (WIDTH,))
    gluonjit.hybridize(net, dynamic_batch=True, without=("fused",))
    outcome(net, samples)
    assert gluonjit.explain().fused == 0
    gluonjit.hybridize(net.double(), dynamic_batch=True)
    outcome(net, [(x.detach().double().requires_grad_(), y.detach().double().requires_grad_()) for x, y in samples])
    assert gluonjit.explain().fused == 0


def test_backward_may_come_twice() -> None:
    net, samples = made(IN_C["products"], (WIDTH,))
    gradients = []
    for dynamic in (False, True):
        gluonjit.hybridize(net, dynamic_batch=dynamic)
        net.zero_grad()
        total = sum(net(x, y).sum() for x, y in samples)
        total.backward(retain_graph=True)
        total.backward()
        gradients.append([None if one.grad is None else one.grad.clone() for one in net.parameters()])
    assert_alike(gradients[1], gradients[0])
