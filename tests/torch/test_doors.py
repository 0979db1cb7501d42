"""Doors: operators and signs that C captures without Python, and what has to go the long way all the same."""

from __future__ import annotations

import gc
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

import gluonjit
from gluonjit.compiled import FAST, WHY_NOT
from gluonjit.engines.torch import dynamic
from gluonjit.engines.torch.capture import cells, doors
from gluonjit.engines.torch.capture.cells import DOORS
from gluonjit.engines.torch.engine import ENGINE

compiled = pytest.mark.skipif(FAST is None, reason=WHY_NOT)
Work = Callable[[Any, Any], Any]


class Net(nn.Module):
    """Does something, which a test gives it, with what two layers have made."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.work: Work = operator.add

    def forward(self, x: Any) -> Any:
        work = self.work
        return work(self.first(x), self.second(x))


SAMPLE = torch.tensor([0.5, -1.0, 2.0])


def both(work: Work) -> tuple[Any, Any]:
    """What it gives eagerly, and lazily the second time."""
    torch.manual_seed(2)
    net = Net()
    net.work = work
    eager = net(SAMPLE)
    gluonjit.hybridize(net, dynamic_batch=True, granularity="op")
    net(SAMPLE)
    return eager, net(SAMPLE)


def agree(work: Work) -> Any:
    eager, lazy = both(work)
    assert type(lazy).__name__ == "LazyTensor"
    assert torch.allclose(eager.float(), lazy.float(), atol=1e-6, equal_nan=True), (eager, lazy)
    return lazy


def clear_doors() -> None:
    DOORS.clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The functions that come to Python."""
    found: list[Any] = []
    original = type(ENGINE).call_operator

    def call_operator(self: Any, func: Any, args: Any, kwargs: Any) -> Any:
        found.append(func)
        return original(self, func, args, kwargs)

    monkeypatch.setattr(type(ENGINE), "call_operator", call_operator)
    yield found


SIGNS: dict[str, Work] = {
    "x + y": operator.add,
    "x - y": operator.sub,
    "x * 2.5": lambda x, y: x * 2.5,
    "2 / x": lambda x, y: 2 / x,
    "1 - x": lambda x, y: 1 - x,
    "x ** 2": lambda x, y: x**2,
    "2 ** x": lambda x, y: 2**x,
    "-x": lambda x, y: -x,
    "x @ y": operator.matmul,
    "x < y": operator.lt,
    "x > 0": lambda x, y: x > 0,
    "x != 1.5": lambda x, y: x != 1.5,
    "plain + x": lambda x, y: SAMPLE + x,
    "plain - x": lambda x, y: SAMPLE - x,
    "x - plain": lambda x, y: x - SAMPLE,
    "plain @ x": lambda x, y: SAMPLE @ x,
    "plain < x": lambda x, y: SAMPLE < x,
    "sum": lambda x, y: sum([x, y, x]),
    "tanh": lambda x, y: torch.tanh(x),
    "x.tanh()": lambda x, y: x.tanh(),
    "x.sum(0)": lambda x, y: x.sum(0),
    "relu": lambda x, y: functional.relu(x),
    "cat": lambda x, y: torch.cat([x, y]),
    "cat, of rows": lambda x, y: torch.cat([x.reshape(1, 3), y.reshape(1, 3)]),
    "stack": lambda x, y: torch.stack([x, y]),
    "stack, otherwise": lambda x, y: torch.stack([x, y], dim=1),
    "alpha": lambda x, y: torch.add(x, y, alpha=2),
}
REFERENCES = {torch.Tensor.reshape}


@pytest.mark.parametrize("name", SIGNS)
def test_a_repeated_call_is_the_eager_one(name: str, asked: list[Any]) -> None:
    gluonjit.clear_caches()  # by other tests functions may have had many numbers
    work, counts = SIGNS[name], []

    def counted(x: Any, y: Any) -> Any:
        asked.clear()
        found = work(x, y)
        counts.append([func for func in asked if func not in REFERENCES])
        return found

    agree(counted)
    eagerly, _, again = counts
    assert not eagerly
    assert not again or FAST is None


@pytest.mark.parametrize("number", [0.0, -0.0, 0, 2, 2.0, 300, 2**40, 2**62, -5, float("inf"), float("nan"), True])
@pytest.mark.parametrize("sign", [operator.mul, operator.add, operator.truediv, operator.pow])
def test_numbers_are_told_apart(number: Any, sign: Any) -> None:
    eager, lazy = both(lambda x, y: [sign(x, number), sign(number, x), sign(x, number), sign(number, x), sign(x, 1.0)])
    for expected, found in zip(eager, lazy):
        assert found.dtype is expected.dtype
        assert torch.allclose(found, expected, equal_nan=True)
        assert torch.equal(found.signbit(), expected.signbit())


def test_zeros_have_their_signs() -> None:
    found = agree(lambda x, y: torch.stack([1 / (x * 0.0 + 0.0), 1 / (x * 0.0 * -0.0), 1 / ((x * 0.0).abs() * -0.0)]))
    assert float(found[2][0]) == float("-inf")


def test_writing_stays_a_write(asked: list[Any]) -> None:
    def work(x: Any, y: Any) -> Any:
        part = x.clone()
        view = part[0:2]
        kept = part
        part += y
        torch.add(part, y, out=part) if not torch.is_grad_enabled() else part.add_(y)
        return torch.cat([view, kept, view + 1])

    agree(work)
    with torch.no_grad():
        agree(work)
    assert torch.Tensor.__iadd__ in asked or torch.Tensor.add_ in asked


class Tagged(torch.Tensor):  # type: ignore[misc]
    """A class that takes part in what its tensors are used for."""

    seen: list[Any] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append((func, types))
        plain = [arg.as_subclass(torch.Tensor) if arg.__class__ is cls else arg for arg in args]
        return func(*plain, **(kwargs or {}))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("sign", [operator.add, operator.sub, operator.lt, operator.pow])
def test_another_class_takes_part(sign: Any, turned: bool) -> None:
    tagged = SAMPLE.as_subclass(Tagged)

    def work(x: Any, y: Any) -> Any:
        seen = []
        for turn in range(3):
            clear_doors() if turn < 2 else sign(x, y)  # the long way, and then where there is a door
            Tagged.seen.clear()
            found = sign(tagged, x) if turned else sign(x, tagged)
            seen.append(Tagged.seen[:])
        assert seen[1] == seen[2] != []
        return found + y

    agree(work)


class Counting(TorchFunctionMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["x + y", "1 - x", "plain + x", "x.tanh()", "x < y", "-x", "cat", "sum"])
def test_a_mode_sees_each_call(name: str) -> None:
    seen = []

    def work(x: Any, y: Any) -> Any:
        with Counting() as mode:
            found = SIGNS[name](x, y)
        seen.append([func for func in mode.seen if "__get__" not in func.__name__])
        return found

    agree(work)
    assert seen[0] == seen[1] == seen[2] != []


def test_without_functions_of_classes_none_is_captured() -> None:
    def work(x: Any, y: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            assert (x + y).__class__ is torch.Tensor
        return x + y

    agree(work)


def test_transforms_work_on_plain_tensors() -> None:
    def work(x: Any, y: Any) -> Any:
        def inner(row: Any) -> Any:
            return (row * 2.0 + 1 - row).sum()

        return x + torch.func.vmap(inner)(torch.ones(3, 3)) * torch.func.grad(inner)(torch.ones(3)) + y

    agree(work)


def test_transforms_over_captured_ones() -> None:
    def work(x: Any, y: Any) -> Any:
        return x + torch.func.vmap(lambda row: row * y + 1 - row)(x.detach().reshape(1, 3))[0]

    agree(work)


def test_autocast_is_told_apart() -> None:
    def work(x: Any, y: Any) -> Any:
        before = x @ y
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.stack([before, (x @ y).float(), x.matmul(y).float()])

    agree(work)


def test_learning_is_told_apart() -> None:
    def work(x: Any, y: Any) -> Any:
        first = x * y
        with torch.no_grad():
            second = x * y
        assert (first.requires_grad, second.requires_grad) == (True, False)
        return first + second

    agree(work)


def test_a_refused_call_is_refused_again() -> None:
    def work(x: Any, y: Any) -> Any:
        return x[x > -9.0] + y  # whose shape depends on numbers

    reasons = []
    for _ in range(2):
        agree(work)
        reasons.append(dict(gluonjit.explain().unbatched))
    assert reasons[0] == reasons[1] != {}


def test_an_error_says_the_same_again() -> None:
    def work(x: Any, y: Any) -> Any:
        x + y
        said = []
        for _ in range(3):
            with pytest.raises(RuntimeError) as raised:
                x + torch.ones(7)
            said.append((type(raised.value), str(raised.value)))
        assert said[0] == said[1] == said[2]
        with pytest.raises(TypeError):
            x + object()
        with pytest.raises(TypeError):
            x.tanh(3, 4)
        with pytest.raises(TypeError):
            x @ 2.0
        return x

    agree(work)


def test_known_numbers_are_computed_at_the_call() -> None:
    def work(x: Any, y: Any) -> Any:
        count = torch.arange(3)
        return x * (count + 1) + (count * 2 - 1).sum()

    agree(work)


@compiled
def test_references_do_not_grow() -> None:
    def work(x: Any, y: Any) -> Any:
        if x.__class__ is torch.Tensor:
            return x + y
        found = x + y
        cell, spec, weight = DOORS[torch.Tensor.add][0], x._v.spec, SAMPLE
        if ready:
            count = 10_000

            def calls() -> None:
                for _ in range(count):
                    x + y, x * 2.0, x.tanh(), 0 + x, 1 - x, torch.stack([x, y]), x + weight, weight + x

            calls()
            gc.collect()
            before = [sys.getrefcount(item) for item in (cell, spec, weight, type(x), torch.Tensor.add)]
            graph = len(x._v.graph.records)
            calls()
            gc.collect()
            after = [sys.getrefcount(item) for item in (cell, weight, type(x), torch.Tensor.add)]
            assert [now - then for now, then in zip(after, (before[0], *before[2:]))] == [0, 0, 0, 0]
            assert len(x._v.graph.records) == graph
            assert sys.getrefcount(spec) - before[1] < 3 * count  # a value each of `0 + x` lives as long as its rows
        ready.append(x.shape)
        return found

    ready: list[Any] = []
    agree(work)


@compiled
def test_modes_are_read_as_pytorch_says_them() -> None:
    assert doors._agree()
    try:
        FAST.read_modes(0, 0, 0, 0, 0)
        assert doors._agree()  # by its functions
        agree(SIGNS["1 - x"])
    finally:
        doors.find_modes()
    with torch.inference_mode():
        assert FAST.modes()[0] is False


@compiled
def test_doors_look_like_the_methods_they_stand_for() -> None:
    lazy = agree(operator.add)
    assert isinstance(type(lazy).tanh, FAST.Hook)
    assert type(lazy).tanh.__name__ == "tanh" and type(lazy).tanh.__doc__ == torch.Tensor.tanh.__doc__
    assert type(lazy).tanh.__wrapped__ is torch.Tensor.tanh
    assert torch.equal(lazy.add(other=SAMPLE), lazy + SAMPLE)
    with pytest.raises(TypeError):
        FAST.Hook("door")
    nested: Any = torch.Tensor.tanh
    for _ in range(100_000):
        nested = FAST.Hook("door", nested, nested)
    with pytest.raises(RecursionError):
        nested(SAMPLE)
    del nested  # without a crash


def test_compiled_programs_take_lazy_tensors() -> None:
    compiled_add = torch.compile(lambda x, y: x * 2.0 + y, backend="eager")

    def work(x: Any, y: Any) -> Any:
        return compiled_add(x + 1, y) + x

    agree(work)


def test_a_call_outside_of_samples_is_in_the_timeline(asked: list[Any]) -> None:
    gluonjit.clear_caches()  # by other tests functions may have had many numbers
    net = gluonjit.hybridize(Net(), dynamic_batch=True, granularity="op")
    with gluonjit.batching() as batch:
        results = [net(SAMPLE), net(SAMPLE + 1)]
        results[0] * 3.5, results[0] + results[1]  # the long way
        asked.clear()
        found = results[0] * 3.5 + results[1] * 3.5
        told = [event.name for event in batch.report.timeline if event.part == "capture"]
    assert told[2:] == ["mul", "add", "mul", "mul", "add"]  # after the samples
    assert not asked or FAST is None
    assert torch.allclose(found, 3.5 * (results[0].detach().clone() + results[1].detach().clone()))
    asked.clear()
    assert (found * 3.5).__class__ is torch.Tensor and asked  # it waits for nothing


class Own(torch.Tensor):  # type: ignore[misc]
    """A class of the program's own, which has a say in functions."""

    asked: list[Any] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.asked.append(func)
        with torch._C.DisableTorchFunctionSubclass():
            given = [arg.as_subclass(torch.Tensor) if isinstance(arg, Own) else arg for arg in args]
        return func(*given, **(kwargs or {}))


def test_functions_in_python_are_captured_and_modes_see_them() -> None:
    seen = []

    def work(x: Any, y: Any) -> Any:
        with Counting() as mode:
            functional.relu(x)
        seen.append(mode.seen)
        return functional.mse_loss(functional.softmax(x, -1), y, reduction="none") + functional.relu(x)

    agree(work)
    assert functional.relu in seen[0] and functional.relu in seen[2]


def test_a_class_that_overrides_functions_is_asked_beside_lazy_tensors() -> None:
    Own.asked.clear()
    own = torch.ones(3).as_subclass(Own)
    agree(lambda x, y: functional.mse_loss(own, x, reduction="none") * y)
    assert Own.asked.count(functional.mse_loss) == 3  # eagerly, and each of the two times that it was captured


def test_functions_in_python_are_compiled_as_before() -> None:
    work = torch.compile(lambda x: functional.relu(x) + functional.mse_loss(x, x), backend="eager", fullgraph=True)
    assert torch.equal(work(SAMPLE), functional.relu(SAMPLE))


@compiled
def test_the_first_call_in_a_batch_of_a_signature_met_before_is_found_without_a_look_at_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part, self.last = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return self.last(self.part(x))

    net = Model()
    eager = net(SAMPLE)
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell", expand=("Model",), outline=False)
    for _ in range(2):
        net(SAMPLE).detach().numpy()
    asked: list[Any] = []
    original = cells.record_of
    monkeypatch.setattr(cells, "record_of", lambda call, key: (asked.append(call.cell.name), original(call, key))[1])
    for _ in range(2):  # C leaves one call in a thousand to Python, and then not the next ones
        del asked[:]
        assert torch.allclose(net(SAMPLE), eager, atol=1e-6)
        if asked == ["Model"]:
            break
    assert asked == ["Model"]  # which is no node
    net.part[1] = nn.ReLU()
    assert torch.allclose(net(SAMPLE), net.last(torch.relu(net.part[0](SAMPLE))), atol=1e-6)
    assert "part" in asked


@compiled
def test_a_module_that_is_no_node_runs_without_a_look_at_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.calls = nn.Linear(3, 3), []

        def forward(self, x: Any) -> Any:
            self.calls.append(1)
            return self.first(x)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Any) -> Any:
            for _ in range(3):
                x = self.inner(x)
            return x

    net = Outer()
    eager = net(SAMPLE)
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell", outline=False)
    for _ in range(2):
        net(SAMPLE).detach().numpy()
    del net.inner.calls[:]
    seen: list[Any] = []
    original = dynamic._node_or_parts

    def look(state: Any, module: Any, *rest: Any) -> Any:
        seen.append(module)
        return original(state, module, *rest)

    monkeypatch.setattr(dynamic, "_node_or_parts", look)
    assert torch.allclose(net(SAMPLE), eager, atol=1e-6)
    assert len(net.inner.calls) == 3
    assert seen.count(net.inner) == 1  # the first call lets the batch know the module
    assert "inner" in gluonjit.explain().unbatched
