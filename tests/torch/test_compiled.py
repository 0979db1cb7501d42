"""The compiled part of a capture of PyTorch: it captures what Python captures, and uses tensors again unseen."""

from __future__ import annotations

import gc
import inspect
import weakref
from typing import Any

import pytest
import torch
from captured_support import assert_captured_alike
from torch import nn

import gluonjit
from gluonjit.compiled import FAST, WHY_NOT
from gluonjit.engines.torch.values.lazy import as_known
from gluonjit.graph import Value, clear_specs, intern_spec
from gluonjit.hybrid import LOCAL

compiled = pytest.mark.skipif(FAST is None, reason=WHY_NOT)


@compiled
def test_both_ways_capture_the_same_graphs() -> None:
    assert_captured_alike("tests/common/captured_tensors.py", 100)


@compiled
def test_hooks_look_like_the_functions_they_stand_for() -> None:
    lazy = type(doubled(1)[0])
    assert "__getitem__" not in vars(lazy)  # with one of Python's it would be a sequence to C
    assert lazy.__getitem__.__objclass__ is FAST.Items
    call: Any = nn.Module.__call__
    assert inspect.isfunction(call) and call.__doc__.startswith("torch.nn.Module.__call__")
    assert nn.Linear(2, 3)(input=torch.ones(2)).shape == (3,)
    with pytest.raises(TypeError, match="section"):
        FAST.configure("nothing", State=object)


class Doubling(nn.Module):
    """Rows of a tensor, doubled one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = Double()

    def forward(self, rows: Any) -> Any:
        return [self.twice(rows[k]) for k in range(len(rows))]


class Double(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2


def doubled(count: int) -> Any:
    """Lazy tensors, with numbers that tell them apart."""
    net = gluonjit.hybridize(Doubling(), dynamic_batch=True)
    return net(torch.arange(3.0 * count).reshape(count, 3))


@pytest.fixture
def ready() -> int:
    """How many tensors lie ready before a test: none, as clearing the specs lets go of those."""
    LOCAL.state.flush("the beginning of a test")
    clear_specs()
    gc.collect()
    return int(FAST.spare_bodies())


@compiled
def test_a_tensor_that_has_ended_is_used_again(ready: int) -> None:
    results = doubled(8)
    kept = results[3]
    addresses = {id(part) for part in results} - {id(kept)}
    del results[:]
    assert FAST.spare_bodies() >= ready + 7
    again = doubled(20)
    assert len(addresses & {id(part) for part in again}) == 7
    assert all(part is not kept for part in again)
    assert kept.tolist() == [18.0, 20.0, 22.0]
    assert [part.tolist() for part in again] == (2 * torch.arange(60.0).reshape(20, 3)).tolist()


@compiled
def test_tensors_lie_ready_until_the_specs_are_cleared(ready: int) -> None:
    results = doubled(1000)
    before = FAST.spare_bodies()
    del results[:]
    assert FAST.spare_bodies() == before + 1000
    clear_specs()
    assert FAST.spare_bodies() == ready


@compiled
def test_so_many_tensors_lie_ready_and_no_more(ready: int) -> None:
    spec = intern_spec((7,), "float32", "cpu", "stack")
    tensors = [FAST.tensor(Value(0, 0, spec, None, False)) for _ in range(33_000)]
    del tensors[:]
    assert FAST.spare_bodies() == 32_768
    clear_specs()
    assert FAST.spare_bodies() <= ready


@compiled
def test_what_was_put_on_a_tensor_ends_with_it(ready: int) -> None:
    class Mark:
        pass

    results = doubled(3)
    results[0].mark = Mark()
    ended: list[str] = []
    marks = [weakref.ref(results[0].mark, lambda ref: ended.append("mark"))]
    tensors = [weakref.ref(results[1], lambda ref: ended.append("tensor"))]
    before = FAST.spare_bodies()
    del results[:]
    assert sorted(ended) == ["mark", "tensor"]
    assert [ref() for ref in (*marks, *tensors)] == [None, None]
    assert FAST.spare_bodies() == before + 1  # the third
    assert all(not part.__dict__ for part in doubled(3))


@compiled
def test_a_tensor_in_a_circle_is_collected(ready: int) -> None:
    class Mark:
        pass

    results = doubled(2)
    results[0].mark = Mark()
    results[0].mark.tensor = results[0]
    mark = weakref.ref(results[0].mark)
    LOCAL.state.flush("the tensors in it have numbers")
    del results[:]
    assert mark() is not None
    gc.collect()
    assert mark() is None
    assert [part.tolist() for part in doubled(2)] == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]


@compiled
def test_a_tensor_that_was_read_or_written_is_not_used_again(ready: int) -> None:
    results = doubled(3)
    assert results[0].numpy().tolist() == [0.0, 2.0, 4.0]
    results[1] += 1
    computed = results[1].numpy()
    before = FAST.spare_bodies()
    del results[:]
    assert FAST.spare_bodies() == before + 1
    assert computed.tolist() == [7.0, 9.0, 11.0]


@compiled
def test_what_stands_for_an_input_is_used_again_without_what_is_on_that(ready: int) -> None:
    words, others = torch.arange(3), torch.arange(3) + 4
    lazy, before = as_known(words), FAST.spare_bodies()
    lazy.__dict__ = words.__dict__
    lazy.mark = "mine"
    place = id(lazy)
    del lazy
    assert FAST.spare_bodies() == before + 1
    again = as_known(others)
    assert id(again) == place
    assert (again.tolist(), words.mark, vars(again)) == ([4, 5, 6], "mine", {})
    again.mark = "another"
    assert words.mark == "mine"


def test_constants_between_tensors_come_back() -> None:
    class Mixed(nn.Module):
        def forward(self, x: Any) -> Any:
            return {"twice": x * 2, "nothing": None, "parts": [x + 1, ("name", 3)]}

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mixed = Mixed()

        def forward(self, x: Any) -> Any:
            return [self.mixed(x), self.mixed(x + 1)]

    net = gluonjit.hybridize(Outer(), dynamic_batch=True)
    first, second = net(torch.ones(2))
    assert (first["nothing"], first["parts"][1], second["parts"][1]) == (None, ("name", 3), ("name", 3))
    assert (first["twice"].tolist(), second["parts"][0].tolist()) == ([2.0, 2.0], [3.0, 3.0])


def test_classes_of_arguments_that_are_no_constants_are_said_in_every_report() -> None:
    class Box:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

    class Inner(nn.Module):
        def forward(self, box: Any) -> Any:
            return box.tensor * 2

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Any) -> Any:
            return self.inner(Box(x)) + self.inner(Box(x + 1))

    net = gluonjit.hybridize(Outer(), dynamic_batch=True, granularity="cell", expand=("Outer",))
    for _ in range(2):
        results = [net(torch.ones(2)) for _ in range(3)]
        assert [result.tolist() for result in results] == [[6.0, 6.0]] * 3
        assert gluonjit.explain().unbatched["inner"].startswith("an argument is a Box, which is neither a tensor")
        assert LOCAL.state.inside == 0


def test_an_error_inside_of_modules_leaves_the_sample() -> None:
    class Failing(nn.Module):
        def forward(self, names: Any) -> Any:
            raise KeyError("mine")

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Failing()

        def forward(self, names: Any) -> Any:
            return self.inner(names)

    net = gluonjit.hybridize(Outer(), dynamic_batch=True)
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            net(object())
    assert LOCAL.state.inside == 0


def test_torch_compile_goes_through_modules_of_programs_that_do_not_batch() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.parts = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU())

        def forward(self, x: Any) -> Any:
            return self.parts(self.inner(x).tanh())

    net, x = Outer(), torch.ones(2, 3)
    net.inner.register_forward_hook(lambda module, args, out: out * 2)
    expected = net(x)
    compiled_net = torch.compile(net, backend="eager", fullgraph=True)
    assert torch.equal(compiled_net(x), expected)
