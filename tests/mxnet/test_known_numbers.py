"""In MXNet operators that pick or put rows by known numbers: values, gradients and errors are eager's, in few launches.

What both engines promise of it is in `test_known_rows.py`.
"""

from __future__ import annotations

import random
from typing import Any, Callable

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit
from gluonjit.compiled import FAST
from gluonjit.errors import GluonJITError

SIZE, ROWS = 4, 5
FIXED = {"granularity": "cell", "scheduler": "depth"}
Body = Callable[..., Any]


class Net(gluon.Block):
    """Runs any function of its input, and of what a layer makes of that."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.layer = gluon.nn.Dense(SIZE, in_units=SIZE, flatten=False)
        self.body = body

    def forward(self, x: Any, *numbers: Any) -> Any:
        return self.body(self.layer(x), *numbers)


def trained(body: Body, samples: list[Any], dynamic: bool, **options: Any) -> list[Any]:
    """Each sample's result, and the gradients of the weight and of each sample's first input."""
    net = Net(body)
    net.initialize(mx.init.Zero())
    net.layer.weight.set_data(nd.array(np.linspace(-1, 1, SIZE * SIZE).reshape(SIZE, SIZE)))
    given = [(nd.array(x), *numbers) for x, *numbers in samples]
    for x, *_ in given:
        x.attach_grad()
    if dynamic:
        net.hybridize(dynamic_batch=True, **{**FIXED, **options})
    with autograd.record():
        results = [net(*sample) for sample in given]
        losses = [(y * y).sum() for y in results]
    autograd.backward(losses)
    arrays = [*results, net.layer.weight.grad(), *[x.grad for x, *_ in given]]
    return [array.asnumpy() for array in arrays]


def assert_eager(body: Body, samples: list[Any], **options: Any) -> Any:
    """Both ways give the same; the report of the batch, which ran once."""
    wanted = trained(body, samples, False)
    actual = trained(body, samples, True, **options)
    report = gluonjit.explain()
    for one, other in zip(actual, wanted):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * max(np.abs(other).max(), 1e-6))
    assert report.flushes == 1, report.reasons
    return report


def features(rows: int) -> Any:
    return np.random.RandomState(rows).randn(rows, SIZE).astype("float32")


def samples_of(numbers: list[list[float]], dtype: str, rows: int = ROWS) -> list[Any]:
    return [(features(rows + k), nd.array(listed, dtype=dtype)) for k, listed in enumerate(numbers)]


TAKEN = {
    "in range": [[0, 3], [1, 1, 4], [2]],
    "twice": [[0, 0], [4, 2, 4, 4]],
    "beyond": [[0, 7], [9, 2, 23]],
    "negative": [[-1, 2], [-7, -2, -13]],
    "cut off": [[1.7, 2.2], [-0.5, 3.9, 0.9]],
}


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        (dtype, numbers)
        for dtype in ("int32", "int64", "uint8", "float32", "float64")
        for numbers in TAKEN
        if (dtype, numbers) != ("uint8", "negative")
    ],
)
@pytest.mark.parametrize("mode", ["clip", "wrap", None])
def test_take_brings_numbers_into_range(numbers: str, mode: str | None, dtype: str) -> None:
    attrs = {} if mode is None else {"mode": mode}
    report = assert_eager(lambda h, i: nd.take(h, i, **attrs), samples_of(TAKEN[numbers], dtype))
    assert "take" not in report.kinds and not report.alone


PICKED: dict[str, Body] = {
    "by []": lambda h, i: h[i],
    "by [] and all columns": lambda h, i: h[i, :],
    "by take": lambda h, i: h.take(i),
    "by take that may raise": lambda h, i: nd.take(h, i, mode="raise"),
    "by take of another name for the axis": lambda h, i: nd.take(h, i, axis=-2),
    "by gather_nd": lambda h, i: nd.gather_nd(h, i.reshape((1, -1))),
    "by a part": lambda h, i: h[i[1:]] + nd.take(h, i[1:]),
    "entries": lambda h, i: h[i, nd.array([0, 3, 1, 1][: len(i)], dtype=i.dtype)],
    "entries by gather_nd": lambda h, i: nd.gather_nd(h, nd.array([[0, 2, 2], [1, 3, 3]])),
    "entries of each row": lambda h, i: nd.pick(h, nd.array([1, 0, 3, 9, -2, 1, 1, 2][: len(h)])),
    "entries of each row, kept": lambda h, i: nd.pick(h, nd.array([1] * len(h)), axis=1, keepdims=True),
    "entries of each row, wrapped": lambda h, i: nd.pick(h, nd.array([9] * len(h)), axis=1, mode="wrap"),
    "columns": lambda h, i: nd.take(h, nd.array([0, 2]), axis=1),
    "by two axes": lambda h, i: nd.take(h, i.reshape((1, -1))),
    "by what is computed": lambda h, i: nd.take(h, h.sum(axis=1) > 0),
}


@pytest.mark.parametrize("name", PICKED)
@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("sharing", [True, False])
def test_rows_and_entries_are_eagers(name: str, dtype: str, sharing: bool) -> None:
    report = assert_eager(PICKED[name], samples_of([[0, 3], [1, 1, 4], [2, 0], [4, 4, 4, 1]], dtype), sharing=sharing)
    assert not report.alone or name == "columns"
    if name in ("entries", "entries by gather_nd", "entries of each row"):
        assert report.kinds["pick"].launches == 1


PUT: dict[str, Body] = {
    "scatter_nd": lambda h, i: nd.scatter_nd(h[: len(i)] * 2, i.reshape((1, -1)), (9, SIZE)),
    "index_copy": lambda h, i: nd.contrib.index_copy(h * 3, i, h[: len(i)] * 2),
    "index_copy into an input": lambda h, i: nd.contrib.index_copy(nd.ones((7, SIZE)), i, h[: len(i)] * 2),
    "index_copy into zeros": lambda h, i: nd.contrib.index_copy(nd.zeros((7, SIZE)), i, h[: len(i)]),
    "both": lambda h, i: nd.take(nd.scatter_nd(h[: len(i)], i.reshape((1, -1)), (9, SIZE)), i) + h[i],
}


@pytest.mark.parametrize("name", PUT)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_rows_are_put_where_eager_puts_them(name: str, dtype: str) -> None:
    report = assert_eager(PUT[name], samples_of([[0, 3], [4, 1, 2], [2], [6, 5, 4, 0]], dtype))
    assert not report.alone and all(row.launches <= 2 for name, row in report.kinds.items() if name != "sum")


@pytest.mark.parametrize("name", ["scatter_nd", "index_copy"])
def test_two_rows_at_one_place_are_left_to_mxnet(name: str) -> None:
    report = assert_eager(PUT[name], samples_of([[0, 0], [4, 1, 4]], "int32"))
    assert len(report.alone) == 1


def test_whole_numbers_go_into_whole_numbers() -> None:
    body = Net(lambda h, x, i: nd.scatter_nd(x, i, (6, 2)) + 1)
    body.initialize()
    samples = [nd.array([[1, 2], [3, 4]], dtype=dtype) for dtype in ("int32", "float64")]
    for dynamic in (False, True):
        if dynamic:
            body.hybridize(dynamic_batch=True, **FIXED)
        found = [body(nd.ones((1, SIZE)), x, nd.array([[4, 0]])) for x in samples]
        expected = np.zeros((6, 2)) + 1
        expected[[4, 0]] += [[1, 2], [3, 4]]
        for y, x in zip(found, samples):
            assert y.dtype == x.dtype
            np.testing.assert_array_equal(y.asnumpy(), expected)


FAILING: dict[str, tuple[Body, list[float]]] = {
    "by []": (lambda h, i: h[i], [0, 9]),
    "by [], negative": (lambda h, i: h[i], [0, -9]),
    "by gather_nd": (lambda h, i: nd.gather_nd(h, i.reshape((1, -1))), [9]),
    "by take": (lambda h, i: nd.take(h, i, mode="raise"), [0, 9]),
    "by take, negative": (lambda h, i: nd.take(h, i, mode="raise"), [-1]),
    "an entry": (lambda h, i: h[nd.array([0, 1]), i], [0, 9]),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_is_out_of_range_is_refused_as_eagerly(name: str) -> None:
    body, numbers = FAILING[name]
    errors = []
    for dynamic in (False, True):
        net = Net(body)
        net.initialize()
        if dynamic:
            net.hybridize(dynamic_batch=True, **FIXED)
        with pytest.raises((IndexError, mx.base.MXNetError)) as found:
            net(nd.array(features(3)), nd.array(numbers)).asnumpy()
        errors.append(found.value)
    assert isinstance(errors[1], GluonJITError) and isinstance(errors[1], type(errors[0]).__mro__[0])


NUMPY: dict[str, Body] = {
    "by []": lambda h, i: h[i],
    "by take": lambda h, i: mx.np.take(h, i, axis=0),
    "by take, clipped": lambda h, i: mx.np.take(h, i * 3 - 4, axis=0, mode="clip"),
    "by take, wrapped": lambda h, i: mx.np.take(h, mx.np.array([-1, 9]), axis=0, mode="wrap"),
    "by the method": lambda h, i: h.take(i, axis=0),
    "no rows": lambda h, i: h[mx.np.array([], dtype="int32")].sum() + h[i],
    "entries": lambda h, i: h[i, i],
    "by a mask": lambda h, i: h[mx.np.array([True, False] * len(h))[: len(h)]],
    "a mean": lambda h, i: h.mean(axis=0) + mx.np.mean(h, axis=0, keepdims=True),
    "pick": lambda h, i: mx.npx.pick(h, mx.np.array([1.0] * len(h))),
}


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_mx_np_does_the_same(name: str, dtype: str) -> None:
    mx.npx.set_np()
    try:
        results = []
        for dynamic in (False, True):
            net = Net(NUMPY[name])
            net.initialize(mx.init.One())
            if dynamic:
                net.hybridize(dynamic_batch=True, **FIXED)
            with autograd.record():
                found = [
                    net(mx.np.array(features(4 + k)), mx.np.array(listed, dtype=dtype))
                    for k, listed in enumerate([[0, 3], [1, 1, 3], [2]])
                ]
                total = sum([(y * y).sum() for y in found])
            total.backward()
            results.append([*[y.asnumpy() for y in found], net.layer.weight.grad().asnumpy()])
        for wanted, actual in zip(*results):
            assert wanted.shape == actual.shape
            np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-4 * max(np.abs(wanted).max(), 1e-6))
    finally:
        mx.npx.reset_np()


def test_numbers_count_as_they_were_at_the_call() -> None:
    index = nd.array([0, 2], dtype="int32")
    shared = np.array([0, 2], dtype="int32")
    mine = shared[:]  # MXNet lets nobody write by the array that it is given
    for given, write in ((index, lambda: index.__setitem__(slice(None), 1)), (mx.nd.from_numpy(shared), None)):
        net = Net(lambda h, i: nd.take(h, i))
        net.initialize(mx.init.One())
        x = nd.array(features(3))
        wanted = net(x, nd.array([0, 2])).asnumpy(), net(x, nd.array([1, 1])).asnumpy()
        net.hybridize(dynamic_batch=True, **FIXED)
        before = net(x, given)
        if write is None:
            mine[:] = 1
        else:
            write()
        after = net(x, given)
        np.testing.assert_allclose(before.asnumpy(), wanted[0], rtol=1e-5)
        np.testing.assert_allclose(after.asnumpy(), wanted[1], rtol=1e-5)


def written(h: Any, i: Any) -> Any:
    picked = nd.take(h, i)
    i[:] = 1
    return picked + nd.take(h, i)


def written_beside(h: Any, i: Any) -> Any:
    picked = nd.take(nd.ones((3, SIZE)), i)
    i[:] = 1
    return picked + nd.take(h, i)


@pytest.mark.parametrize("body", [written, written_beside])
@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_a_write_to_an_index_is_what_it_is_eagerly(body: Body, recording: bool, dtype: str) -> None:
    """Eager MXNet, recording, refuses it where the index was read beside a weight."""
    found: list[Any] = []
    for dynamic in (False, True):
        net = Net(body)
        net.initialize(mx.init.One())
        if dynamic:
            net.hybridize(dynamic_batch=True, **FIXED)
        with autograd.record() if recording and dynamic else autograd.pause():
            found.append(net(nd.array(features(3)), nd.array([0, 2], dtype=dtype)).asnumpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def overwritten(rows: Any) -> Any:
    rows[:] = 7
    return rows


ALONE: dict[str, Body] = {
    "rows of an input": lambda h, x: (overwritten(x[nd.array([0, 1])]), x * 1),
    "rows of an input by take": lambda h, x: (overwritten(nd.take(x, nd.array([1, 2]))), x * 1),
    "rows of a result": lambda h, x: (overwritten(nd.take(h, nd.array([1, 2]))), h * 1),
    "rows put": lambda h, x: (overwritten(nd.contrib.index_copy(h, nd.array([1]), x[:1])), h * 1, x * 1),
    "rows that nothing else reads": lambda h, x: (nd.take(h, nd.array([2, 2])), nd.take(x, nd.array([1, 2]))),
    "rows put that nothing else reads": lambda h, x: (
        nd.scatter_nd(h * 2, nd.array([[2, 0, 1]]), (4, SIZE)),
        nd.contrib.index_copy(h * 3, nd.array([2, 0]), (h * 4)[1:]),
    ),
}


@pytest.mark.parametrize("name", ALONE)
def test_results_are_memory_of_their_own(name: str) -> None:
    found = []
    for dynamic in (False, True):
        net = Net(ALONE[name])
        net.initialize(mx.init.One())
        if dynamic:
            net.hybridize(dynamic_batch=True, **FIXED)
        given = [nd.array(features(3)) * (k + 1) for k in range(2)]
        results = [net(x, x) for x in given]
        found.append([y.asnumpy() for result in results for y in result] + [x.asnumpy() for x in given])
    for wanted, actual in zip(*found):
        np.testing.assert_allclose(actual, wanted, rtol=1e-5)


@pytest.mark.parametrize("begin", ["index", "take"])
def test_graphs_that_come_again_are_reused(begin: str) -> None:
    net = Messages(begin, "index_copy")
    net.initialize(mx.init.Normal(0.5))
    batch = graphs(8, "int32")
    wanted = [net(*sample).asnumpy() for sample in batch]
    net.hybridize(dynamic_batch=True, reuse=lambda *given: str([part.asnumpy().tolist() for part in given]), **FIXED)
    for _ in range(3):
        with autograd.record():
            found = [net(*sample) for sample in batch]
        for actual, expected in zip(found, wanted):
            np.testing.assert_allclose(actual.asnumpy(), expected, rtol=1e-4, atol=1e-5)
    assert gluonjit.explain().reuse.hits == 8 and not gluonjit.explain().reuse.refused


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_calls_that_are_reused_read_the_numbers_of_the_day(dtype: str) -> None:
    net = Net(lambda h, i: nd.take(h, i))
    net.initialize(mx.init.One())
    x = nd.array(features(4))
    calls = [[0, 1], [2, 3], [0, 1], [3, 3]]
    wanted = [net(x, nd.array(numbers)).asnumpy() for numbers in calls]
    net.hybridize(dynamic_batch=True, reuse=lambda x, i: 0 if dtype == "float32" else tuple(i.asnumpy()), **FIXED)
    for numbers, expected in zip(calls, wanted):
        np.testing.assert_allclose(net(x, nd.array(numbers, dtype=dtype)).asnumpy(), expected, rtol=1e-5)
    refused = gluonjit.explain().reuse.refused
    assert any("numbers" in reason for reason in refused) == (dtype == "float32")


class Messages(gluon.Block):
    """Two rounds of messages along the edges of a graph, of which no two end at one node."""

    def __init__(self, begin: str, put: str) -> None:
        super().__init__()
        self.begin, self.put = begin, put
        self.embed = gluon.nn.Embedding(10, SIZE)
        self.message = gluon.nn.Dense(SIZE, activation="relu", in_units=2 * SIZE)
        self.update = gluon.nn.Dense(SIZE, in_units=2 * SIZE)
        self.out = gluon.nn.Dense(1, in_units=SIZE)

    def forward(self, atoms: Any, src: Any, dst: Any) -> Any:
        h, n = self.embed(atoms), len(atoms)
        for _ in range(2):
            begin, end = (h[src], h[dst]) if self.begin == "index" else (nd.take(h, src), nd.take(h, dst))
            message = self.message(nd.concat(begin, end, dim=1))
            if self.put == "index_copy":
                received = nd.contrib.index_copy(nd.zeros((n, SIZE)), dst, message)
            else:
                received = nd.scatter_nd(message, dst.reshape((1, -1)), (n, SIZE))
            h = self.update(nd.concat(h, received, dim=1))
        return self.out(h.mean(0).reshape((1, -1)))


def graphs(count: int, dtype: str) -> list[Any]:
    choose, found = random.Random(0), []
    for _ in range(count):
        n = choose.randint(2, 9)
        ends = choose.sample(range(n), choose.randint(1, n))
        parts = [choose.randrange(10) for _ in range(n)], [choose.randrange(n) for _ in ends], ends
        found.append(tuple(nd.array(part, dtype=dtype) for part in parts))
    return found


@pytest.mark.usefixtures("as_written")
@pytest.mark.parametrize("begin", ["index", "take"])
@pytest.mark.parametrize("put", ["index_copy", "scatter_nd"])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_a_graph_network_is_a_launch_a_step_for_any_sizes(begin: str, put: str, dtype: str) -> None:
    mx.random.seed(1)
    net = Messages(begin, put)
    net.initialize(mx.init.Normal(0.5))
    for count in (2, 16, 24):
        batch = graphs(count, dtype)
        results = []
        for dynamic in (False, True):
            net.hybridize(dynamic_batch=dynamic, **(FIXED if dynamic else {}))
            with autograd.record():
                total = gluonjit.add_n([net(*sample) for sample in batch])
            total.backward()
            results.append([total.asnumpy(), *[p.grad().asnumpy().copy() for p in net.collect_params().values()]])
        report = gluonjit.explain()
        for wanted, actual in zip(*results):
            np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-5 * max(np.abs(wanted).max(), 1e-6))
        # In each round two concatenations and two layers; then the mean, the layer after it, and the sum of all.
        assert report.launches == 2 * 4 + 4 and report.flushes == 1 and not report.alone, report.kinds
        net.hybridize(dynamic_batch=False)


class TwoLayers(gluon.Block):
    """Puts what two layers make of its input one below the other."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.first = gluon.nn.Dense(SIZE, in_units=SIZE)
        self.second = gluon.nn.Dense(SIZE, in_units=SIZE)
        self.body = body

    def forward(self, x: Any, numbers: Any) -> Any:
        return self.body(self.first(x), self.second(x), numbers)


@pytest.mark.parametrize(
    "body",
    [
        lambda a, b, i: nd.take(nd.concat(a, b, dim=0), i),
        lambda a, b, i: nd.concat(a, b, dim=0)[i],
        lambda a, b, i: nd.take(nd.take(nd.concat(a, b, dim=0), nd.array([0, 1, 2])), i),
    ],
    ids=["take", "[]", "take of rows taken"],
)
def test_a_layer_of_which_no_row_is_used_gets_zeros_as_eagerly(body: Body) -> None:
    net = TwoLayers(body)
    net.initialize()
    x, numbers = nd.ones((2, SIZE)), nd.array([0], dtype="int32")
    found = []
    for dynamic in (False, True):
        if dynamic:
            net.hybridize(dynamic_batch=True, **FIXED)
        for parameter in net.collect_params().values():
            parameter.grad()[:] = 7  # of an earlier minibatch
        with autograd.record():
            loss = net(x, numbers).sum()
        loss.backward()
        found.append([parameter.grad().asnumpy() for parameter in net.collect_params().values()])
    assert any(not gradient.any() for gradient in found[0])
    for eager, batched in zip(*found):
        np.testing.assert_allclose(batched, eager, rtol=1e-5)


_PLACES = {
    "inside": [0.0, 3.0, 1.9, -0.5],
    "outside": [0.0, 4.0, 9.0, -3.0],
    "far": [0.0, 3e9, -3e9, 1.0],
    "no number": [0.0, float("nan"), 1.0, 2.0],
    "infinite": [0.0, float("inf"), 1.0, 2.0],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("name", list(_PLACES)[:2])
def test_entries_by_floats_are_eagers(name: str, mode: str, dtype: str) -> None:
    def body(h: Any, *numbers: Any) -> Any:
        return nd.pick(h, *numbers, axis=1, mode=mode)

    samples = [
        [np.arange(4 * SIZE).reshape(4, SIZE) * (k + 1) * 0.1, nd.array(_PLACES[name], dtype=dtype)] for k in range(3)
    ]
    report = assert_eager(body, samples)
    assert report.kinds["pick"].launches == 1


@pytest.mark.skipif(FAST is None, reason="numbers are read by C")
def test_few_floats_are_read_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that Python has to look at: they are no places in any array."""
    read: list[Any] = []
    as_numpy = nd.NDArray.asnumpy
    monkeypatch.setattr(nd.NDArray, "asnumpy", lambda array: read.append(array) or as_numpy(array))
    net = Net(lambda h, numbers: nd.pick(h, numbers))
    net.initialize()
    net.hybridize(dynamic_batch=True, **FIXED)
    for name, places in _PLACES.items():
        given = nd.array(places)
        net(nd.ones((4, SIZE)), given).wait_to_read()
        assert any(array is given for array in read) == (name != "inside"), name
