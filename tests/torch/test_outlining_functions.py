"""Functions of the program that are no methods of a model: losses and helpers, in cells of their own."""

from __future__ import annotations

import copy
import inspect
import linecache
import pickle
import sys
import traceback
from typing import Any

import pytest
import torch
from torch.nn import functional

import gluonjit
from gluonjit.hybrid.capture.outlining.free_functions import forget_functions
from tests.torch.test_outlining import assert_same

LOG: list[Any] = []
SCALE = 2.0
SIZE = 4


@pytest.fixture(autouse=True)
def anew() -> Any:
    """No function has cells yet."""
    LOG.clear()
    yield
    forget_functions()


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.out = torch.nn.Linear(SIZE, SIZE), torch.nn.Linear(SIZE, 5)

    def forward(self, xs: Any) -> Any:
        h = torch.zeros(SIZE)
        for x in xs:
            h = torch.tanh(self.a(h + x))
        return self.out(h)


def squared(a: Any, b: Any) -> Any:
    d = a - b
    return (d * d).mean()


def gaussian(net: Any, s: Any) -> Any:
    """As programs for trajectories have it."""
    v = net(s[0])
    d = s[1] - v[..., :2]
    sx, sy, c = torch.exp(v[..., 2]), torch.exp(v[..., 3]), torch.tanh(v[..., 4])
    z = (d[..., 0] / sx) ** 2 + (d[..., 1] / sy) ** 2 - 2 * c * d[..., 0] * d[..., 1] / (sx * sy)
    p = torch.exp(-z / (2 * (1 - c**2))) / (SCALE * sx * sy)
    return -torch.log(torch.clamp(p, min=1e-20))


def of_results(net: Any, s: Any) -> Any:
    out = net(s[0])
    return squared(out[:2], s[1]) + 0.1 * squared(out * 0.5, out.detach() + 1)


def logs(net: Any, s: Any) -> Any:
    out = torch.tanh(net(s[0])) * 2
    LOG.append(len(s[0]))
    found = torch.exp(out - 1).sum()
    LOG.append("end")
    return found * SCALE


def branches(net: Any, s: Any) -> Any:
    out = net(s[0])
    if len(s[0]) > 3:
        return (out * out).sum() / 2
    for t in range(1, len(s[0])):
        out = torch.sigmoid(out * 0.5) + s[0][t - 1].mean()
    return out.exp().mean()


def writes(net: Any, s: Any) -> Any:
    out = net(s[0]) * 1.5 + 1
    first = out[:2] * 2 - 1
    out[0] = 3.0
    out += first.sum()
    return (out * out).mean() + functional.mse_loss(first, s[1])


def view(net: Any, s: Any) -> Any:
    out = net(s[0]).view(1, -1) * 2
    part = out[..., :2]
    part += 1
    out[:, 0] = 0
    return (out * 3).sum() + part.exp().sum()


def recursive(net: Any, s: Any, depth: int = 2) -> Any:
    if depth == 0:
        return torch.tanh(net(s[0])).sum() * 0.5
    return torch.exp(recursive(net, s, depth - 1) * 0.5) + depth


def reads(net: Any, s: Any) -> Any:
    out = torch.tanh(net(s[0])) * 2
    if (out.sum() * 3).item() > 0:
        return (out * out).sum()
    return (out + 1).exp().sum()


def several(net: Any, s: Any, *more: Any, by: float = 0.5, **named: Any) -> Any:
    v = net(s[0])
    return torch.sigmoid(v * by).sum() + sum(more) + named.get("add", 1)


def in_try(net: Any, s: Any) -> Any:
    out = net(s[0])
    try:
        out = (out.view(7, 7) * 2).exp()
    except RuntimeError:
        LOG.append("caught")
    return torch.tanh(out).mean() * 2


class Scale:
    """No model, but has methods that compute."""

    def __init__(self) -> None:
        self.by, self.seen = 0.5, 0

    def __call__(self, net: Any, s: Any) -> Any:
        return self.loss(net(s[0]), s[1])

    def loss(self, out: Any, y: Any) -> Any:
        self.seen += 1
        d = torch.abs(out[:2] - y) * self.by
        return torch.log(1 + d).sum()


FUNCTIONS = [gaussian, of_results, logs, branches, writes, view, recursive, reads, several, in_try]


def both() -> tuple[Any, Any]:
    torch.manual_seed(0)
    eager = Net()
    return eager, gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="cell")


def samples(seed: int, count: int = 6) -> list[Any]:
    made = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 6, (count,), generator=made).tolist()
    return [
        ([torch.randn(SIZE, generator=made) for _ in range(size)], torch.randn(2, generator=made)) for size in sizes
    ]


def run(function: Any, net: Any, given: list[Any], training: bool = True) -> tuple[list[Any], list[Any]]:
    net.zero_grad()
    LOG.clear()
    with torch.set_grad_enabled(training):
        found = [function(net, s) for s in given]
        if training:
            sum(found).backward()
    gradients = [p.grad.clone() for p in net.parameters()] if training else []
    return [x.detach().clone() for x in found] + gradients, list(LOG)


def report_of(function: Any, net: Any, given: list[Any]) -> Any:
    with torch.no_grad(), gluonjit.batching(granularity="cell") as batch:
        found = [function(net, s) for s in given]
    assert len(found) == len(given)
    return batch.report


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_values_gradients_and_effects_are_those_of_the_eager_program(function: Any, training: bool) -> None:
    eager, net = both()
    for seed in range(4):
        given = samples(seed)
        expected, found = run(function, eager, given, training), run(function, net, given, training)
        for one, other in zip(expected[0], found[0]):
            assert_same(one, other)
        assert found[1] == expected[1]


@pytest.mark.parametrize(("function", "cells"), [(gaussian, 1), (of_results, 2)])
def test_a_function_is_one_call_and_one_launch_from_the_second_minibatch_on(function: Any, cells: int) -> None:
    net = both()[1]
    before = report_of(function, net, samples(0))
    after = report_of(function, net, samples(1))
    name = function.__name__
    assert next(x for each, x in after.outlined.items() if each.startswith(name)).endswith("operators in one cell")
    (row,) = [row for each, row in after.kinds.items() if each.startswith(name)]
    assert row == (6 * cells, 6 * cells, cells), "the call of detach() is between two"
    assert after.calls < before.calls and after.launches <= before.launches - 8
    assert "made from source: " + name in str(after)


def test_methods_of_other_objects_have_cells_too() -> None:
    eager, net = both()
    scales = Scale(), Scale()
    for seed in range(3):
        expected, found = run(scales[0], eager, samples(seed)), run(scales[1], net, samples(seed))
        for one, other in zip(expected[0], found[0]):
            assert_same(one, other)
    assert scales[0].seen == scales[1].seen == 18
    scales[1].by = 3.0
    report = report_of(scales[1], net, samples(3))
    assert report.outlined["Scale.loss, " + next(x for x in report.outlined if x.startswith("Scale")).split(", ")[1]]
    assert_same(run(scales[1], net, samples(3))[0][0], run_with(scales[0], 3.0, eager))


def run_with(scale: Any, by: float, net: Any) -> Any:
    scale.by = by
    return run(scale, net, samples(3))[0][0]


def test_a_function_that_is_called_once_a_minibatch_stays_as_it_is() -> None:
    net = both()[1]
    code = total.__code__
    for seed in range(3):
        with gluonjit.batching(granularity="cell"):
            total([net(s[0]) for s in samples(seed)])
    assert total.__code__ is code


def total(outs: list[Any]) -> Any:
    return (torch.stack(outs).mean() * 2).exp()


def test_names_that_it_reads_and_functions_that_it_calls_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    eager, net = both()
    for seed in range(2):
        run(gaussian, net, samples(seed)), run(of_results, net, samples(seed))
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    monkeypatch.setitem(globals(), "squared", noted)
    for function in (gaussian, of_results):
        (expected, logged), (found, after) = [run(function, each, samples(5)) for each in (eager, net)]
        for one, other in zip(expected, found):
            assert_same(one, other)
        assert logged == after and (function is gaussian or len(after) == 12)


def noted(a: Any, b: Any) -> Any:
    LOG.append(tuple(a.shape))
    return torch.abs(a - b).sum() * 3


def test_code_that_the_program_gives_a_function_counts() -> None:
    eager, net = both()
    for seed in range(2):
        run(given_other, net, samples(seed))
    given_other.__code__ = branches.__code__
    for one, other in zip(*[run(given_other, each, samples(3))[0] for each in (eager, net)]):
        assert_same(one, other)


def given_other(net: Any, s: Any) -> Any:
    return (torch.exp(net(s[0]) * 0.1) + 1).sum()


def test_it_is_as_it_was_for_who_looks_at_it_and_outside_of_batches() -> None:
    eager, net = both()
    source, code = inspect.getsource(gaussian), gaussian.__code__
    for seed in range(2):
        run(gaussian, net, samples(seed))
    assert gaussian.__code__ is not code
    assert inspect.getsource(gaussian) == source and pickle.loads(pickle.dumps(gaussian)) is gaussian
    assert gaussian.__code__.co_name == "gaussian" and gaussian.__code__.co_varnames[:2] == ("net", "s")
    s = samples(0)[0]
    assert type(squared(s[1], s[1])) is torch.Tensor
    assert_same(gaussian(eager, s), run(gaussian, eager, [s])[0][0])
    gluonjit.hybridize(net, dynamic_batch=False)
    assert gaussian.__code__ is code
    assert type(gaussian(net, s)) is torch.Tensor


def lines(function: Any, *args: Any) -> list[Any]:
    """What a debugger is told of a call."""
    found: list[Any] = []

    def tell(frame: Any, event: str, given: Any) -> Any:
        if frame.f_code.co_name == function.__name__:
            found.append((event, frame.f_lineno))
        return tell

    before = sys.gettrace()
    sys.settrace(tell)
    try:
        function(*args)
    finally:
        sys.settrace(before)
    return found


def test_tracers_and_the_compiler_see_it_as_it_was() -> None:
    eager, net = both()
    s = samples(0)[0]
    expected = lines(gaussian, eager, s)
    for seed in range(2):
        run(gaussian, net, samples(seed))
    assert lines(gaussian, eager, s) == expected and len(expected) > 5
    compiled = torch.compile(gaussian, backend="eager", fullgraph=True)
    assert_same(compiled(eager, s), gaussian(eager, s))


def test_errors_name_the_users_line() -> None:
    _, net = both()
    for seed in range(2):
        run(gaussian, net, samples(seed))
    given = samples(2)
    given[1] = (given[1][0], torch.zeros(3))
    with pytest.raises(RuntimeError, match="size of tensor") as raised:
        run(gaussian, net, given)
    frames = [f for f in traceback.extract_tb(raised.value.__traceback__) if f.name == "gaussian"]
    assert linecache.getline(frames[-1].filename, frames[-1].lineno or 0).strip() == "d = s[1] - v[..., :2]"


def test_functions_inside_of_functions_and_decorated_ones_run_as_they_were_written() -> None:
    eager, net = both()

    def inner(net: Any, s: Any) -> Any:
        return (torch.exp(net(s[0]) * 0.1) + 1).sum()

    for function in (inner, decorated):
        for seed in range(3):
            for one, other in zip(*[run(function, each, samples(seed))[0] for each in (eager, net)]):
                assert_same(one, other)
        assert not any("exp" in name or "decorated" in name for name in report_of(function, net, samples(3)).outlined)


def twice(function: Any) -> Any:
    return lambda *args: function(*args) * 2


@twice
def decorated(net: Any, s: Any) -> Any:
    return (torch.exp(net(s[0]) * 0.1) + 1).sum()


def adds_up(net: Any, given: list[Any]) -> Any:
    total = 0.0
    for s in given:
        total = total + (net(s[0])[:2] - s[1]).pow(2).mean()
    return total


def test_a_loop_that_only_adds_up_makes_no_chain_of_cells() -> None:
    eager, net = both()
    for seed in range(3):
        assert_same(adds_up(eager, samples(seed)), adds_up(net, samples(seed)))
    with torch.no_grad(), gluonjit.batching(granularity="cell") as batch:
        found = adds_up(net, samples(4))
    assert found.shape == ()
    row = next(row for name, row in batch.report.kinds.items() if name.startswith("adds_up"))
    assert row == (6, 6, 1)


def test_outline_turned_off_leaves_functions_alone() -> None:
    eager = both()[0]
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, outline=False)
    code = gaussian.__code__
    for seed in range(2):
        run(gaussian, net, samples(seed))
    assert gaussian.__code__ is code


def test_what_is_no_tensor_runs_as_it_was_written() -> None:
    eager, net = both()
    for seed in range(2):
        run(of_some, net, samples(seed))
    for given in (samples(3), [(s[0], 2.0) for s in samples(4)], [(s[0], True) for s in samples(4)]):
        for one, other in zip(*[run(of_some, each, given)[0] for each in (eager, net)]):
            assert_same(one, other)


def of_some(net: Any, s: Any) -> Any:
    y = s[1]
    return (torch.exp(net(s[0])[:2] * 0.1) * y + 1).sum()
