"""The compiled part of a capture: it captures what Python captures, and lets go of it all."""

from __future__ import annotations

import gc
import inspect
import threading
import weakref
from importlib.util import find_spec
from typing import Any

import mxnet as mx
import pytest
from captured_support import assert_captured_alike, fresh
from mxnet import autograd, gluon

import gluonjit
from gluonjit.compiled import FAST, WHY_NOT
from gluonjit.engines.mxnet import engine
from gluonjit.engines.mxnet.capture.cells import capture_cell
from gluonjit.graph import Value, intern_spec
from gluonjit.hybrid import LOCAL

BUILT = find_spec("gluonjit._fast") is not None
compiled = pytest.mark.skipif(FAST is None, reason=WHY_NOT)


@compiled
def test_both_ways_capture_the_same_graphs() -> None:
    assert_captured_alike("tests/common/captured_programs.py", 10)


@pytest.mark.slow
@compiled
def test_models_give_the_same_results_in_python() -> None:
    assert " passed" in fresh("-m", "pytest", "-q", "-W", "ignore", "tests/mxnet/test_models.py", pure=True)


def test_the_doctor_says_how_calls_are_captured() -> None:
    told = "from gluonjit.install import doctor; doctor._DISTRIBUTIONS.clear(); doctor.main()"
    assert "\ncapture\n  in Python, which is slower: GLUONJIT_PURE is set\n" in fresh("-c", told, pure=True)
    assert f"\ncapture\n  in {'compiled code' if BUILT else 'Python'}" in fresh("-c", told, pure=False)


def test_a_value_has_what_it_was_made_of() -> None:
    spec, graph, base = intern_spec((3, 2), "float32", "cpu(0)", "rows"), object(), object()
    value = Value(7, 2, spec, graph, True, base)
    assert (value.rows, value.depth, value.taped, value.result) == (7, 2, True, None)
    assert value.spec is spec and value.graph is graph and value.base is base
    assert value.row_list() == [7, 8, 9]
    value.rows, value.graph, value.result = (4, 9, 1), None, base
    assert (value.rows, value.graph, value.row_list()) == ((4, 9, 1), None, [4, 9, 1])
    assert value.result is base
    assert Value(0, 0, spec, graph, False).base is None
    with pytest.raises(TypeError):
        Value(0)  # type: ignore[call-arg]


@compiled
def test_hooks_look_like_the_functions_they_stand_for() -> None:
    call: Any = gluon.Block.__call__
    assert isinstance(call, FAST.Hook)
    assert call.__name__ == "call" and call.__doc__.startswith("gluon.Block.__call__")
    assert list(inspect.signature(call).parameters) == ["self", "args"]
    with pytest.raises(TypeError, match="keyword"):
        gluon.nn.Dense(2)(key=1)
    with pytest.raises(ValueError, match="no fast path"):
        FAST.Hook("nothing", print)


class Doubling(gluon.Block):
    """A block that keeps what its cell gave."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = gluon.nn.Dense(2, in_units=2)
        self.kept: Any = None

    def forward(self, x: Any) -> Any:
        for _ in range(3):
            x = self.dense(x)
        self.kept = x
        return x


def doubling() -> Doubling:
    net = Doubling()
    net.initialize()
    net.hybridize(dynamic_batch=True)
    return net


def test_a_thread_that_ends_lets_go_of_what_it_has_captured() -> None:
    net, graphs = doubling(), []

    def capture() -> None:
        with autograd.record():
            net(mx.nd.ones((1, 2)))
        graphs.append(weakref.ref(LOCAL.state.batch.graph))  # type: ignore[union-attr]
        net.kept = None

    thread = threading.Thread(target=capture)
    thread.start()
    thread.join()
    gc.collect()
    assert [graph() for graph in graphs] == [None]


def test_what_was_read_is_known_to_the_collector_of_garbage() -> None:
    result = doubling()(mx.nd.ones((1, 2)))
    value, graph = result._v, weakref.ref(result._v.graph)
    assert gc.is_tracked(value) is (FAST is None)
    assert result.asnumpy().shape == (1, 2)
    assert gc.is_tracked(value)
    assert value.graph is None
    gc.collect()
    assert graph() is None


def test_a_hook_that_forward_registers_runs() -> None:
    seen: list[tuple[int, ...]] = []

    class Late(gluon.Block):
        def forward(self, x: Any) -> Any:
            if not self._forward_hooks:
                self.register_forward_hook(lambda block, args, out: seen.append(out.shape))
            return x + 1

    class Outer(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.late = Late()

        def forward(self, x: Any) -> Any:
            return self.late(self.late(x * 2))

    net = Outer()
    net.hybridize(dynamic_batch=True)
    assert net(mx.nd.ones((1, 2))).asnumpy().tolist() == [[4.0, 4.0]]
    assert seen == [(1, 2), (1, 2)]


def test_an_error_inside_of_blocks_leaves_the_sample() -> None:
    class Failing(gluon.Block):
        def forward(self, x: Any) -> Any:
            raise KeyError("mine")

    class Outer(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Failing()

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    net = Outer()
    net.hybridize(dynamic_batch=True)
    with pytest.raises(KeyError, match="mine"):
        net(mx.nd.ones((1, 2)))
    assert LOCAL.state.inside == 0


@gluonjit.cell
def gated(x: mx.nd.NDArray, y: mx.nd.NDArray, by: float) -> mx.nd.NDArray:
    """A cell of no block."""
    return mx.nd.tanh(x) * y * by


class Declared(gluon.Block):
    """Calls a function and a method that are cells; the method reads what it is to scale by."""

    def __init__(self) -> None:
        super().__init__()
        self.by = 1.0
        with self.name_scope():
            self.dense = gluon.nn.Dense(3, in_units=3)

    @gluonjit.cell
    def step(self, x: Any, rest: Any) -> Any:
        """Two results."""
        return self.dense(x) * self.by, rest[0] + rest[1]

    def forward(self, x: Any) -> Any:
        for by in (1.0, 2.0, 1.0):
            self.by = by
            left, right = self.step(x, [x, x])
            x = gated(left, right, 0.5) + gated(left, right, by=0.5) + gated(right, left, 1)
        return x


def test_functions_and_methods_that_are_cells_are_captured_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """All calls but the first of each signature in a batch, and those by name."""
    asked: list[str] = []
    mx.random.seed(3)
    net = Declared()
    net.initialize(mx.init.Uniform(0.5))
    samples = [mx.nd.random.uniform(shape=(1, 3)) for _ in range(4)]
    wanted = [net(x) for x in samples]
    with autograd.record():
        sum([net(x).sum() for x in samples]).backward()
    gradient = net.dense.weight.grad().asnumpy()

    def capture(cell: Any, *args: Any) -> Any:
        asked.append(cell.name.rpartition(".")[2])
        return capture_cell(cell, *args)

    monkeypatch.setattr(engine, "capture_cell", capture)
    net.hybridize(dynamic_batch=True)
    with gluonjit.batching():
        found = [net(x) for x in samples]
    with autograd.record(), gluonjit.batching() as batch:
        total = gluonjit.add_n([net(x).sum() for x in samples])
    total.backward()
    for array, right in zip(found, wanted):
        assert abs(array.asnumpy() - right.asnumpy()).max() <= 1e-5 * abs(right.asnumpy()).max()
    assert abs(net.dense.weight.grad().asnumpy() - gradient).max() <= 1e-5 * abs(gradient).max()
    assert not batch.report.unbatched
    calls = 2 * 4 * 3  # of each, in two batches
    if FAST is None:
        assert len(asked) == 4 * calls
    else:  # of `step` Python is also asked where `by` has changed, and of one call in a thousand that C has found
        assert asked.count("gated") - calls in (2 * 2, 2 * 2 + 1) and asked.count("step") < calls
