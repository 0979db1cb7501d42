"""Prints what some programs capture, as JSON; run by mxnet/test_compiled.py with and without the part in C."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from captured_support import Program, tell
from mxnet import autograd, gluon, np, npx


class Cell(gluon.HybridBlock):
    """Any number of children in tuples, a list, a constant."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(6, 4), init="ones")

    def hybrid_forward(self, F: Any, x: Any, *children: Any, weight: Any) -> Any:
        """Two results in a tuple."""
        found = F.FullyConnected(x, weight, num_hidden=6, no_bias=True)
        for child in children:
            if child is not None and not isinstance(child, (int, float, str)):
                found = F.broadcast_add(found, sum(part for part in child if part is not None))
        return F.tanh(found), found


class Nested(gluon.HybridBlock):
    """A result that is not flat."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return [x + 1, (x * 2, x - 1)]


class Noisy(gluon.HybridBlock):
    """Not pure: equal calls are not one."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.Dropout(x, p=0.5)


class Inner(gluon.Block):
    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, tree: Any, words: Any) -> Any:
        index, *children = tree
        found = [self.forward(child, words) for child in children]
        return self.cell(words[index : index + 1], *found)


class Model(gluon.Block):
    """Everything that is captured in a way of its own."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = gluon.nn.Embedding(9, 4)
            self.cell, self.noisy, self.nested = Cell(), Noisy(), Nested()
            self.inner = Inner(self.cell)

    def forward(self, sample: Any) -> Any:
        tokens, tree = sample
        words = self.embed(tokens)
        h, c = self.inner(tree, words)
        again = self.cell(words[1:2], [h, None], None, 3, "text", True, 2.5)[0]
        rows = mx.nd.concat(h, words[0:2].reshape((1, 8)), words[-1].reshape((1, 4)), dim=1)
        whole = [words[0], words[0:2], c[0], c[0:1], rows[0:1], h[0][2], self.noisy(h), self.noisy(h), again]
        return [*whole, *self.nested(h)[1], self.cell(mx.nd.ones((1, 4)), (again, h))[1]]


def trees() -> list[Any]:
    shapes = [(0, (1,), (2, (0,))), (2, (1, (0,), (1,), (2,))), (0,), (1, (2,), (2,)), (0, (1,), (2, (0,)))]
    tokens = [[1, 2, 3], [3, 2, 1], [5, 5, 8], [1, 2, 3], [1, 2, 3]]
    kinds = ["float32", "int32", "float64", "int64", "int32"]
    return [(mx.nd.array(row, dtype=kind), tree) for row, kind, tree in zip(tokens, kinds, shapes)]


GRAPHS: dict[str, Any] = {"without": ("fused",)}  # what runs in C differs in last bits


def tree(**options: Any) -> Program:
    def program() -> list[Any]:
        mx.random.seed(3)
        net = Model()
        net.initialize(mx.init.Xavier())
        net.hybridize(dynamic_batch=True, **{**GRAPHS, **options})
        loss, target = gluon.loss.L2Loss(), mx.nd.ones((1, 6))
        samples = trees()
        with autograd.record():
            results = [part for sample in samples + samples[:2] for part in net(sample)]
            return [*results, *[loss(part, target) for part in results if part.shape == (1, 6)]]

    return program


def inference() -> list[Any]:
    net = Model()
    net.initialize(mx.init.Xavier())
    net.hybridize(dynamic_batch=True, **GRAPHS)
    taped = mx.nd.ones((2, 4))
    return [part for sample in trees() for part in net(sample)] + [net.cell(taped[0:1])[0]]


class NumpyModel(gluon.Block):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.dense = gluon.nn.Embedding(9, 4), gluon.nn.Dense(4, in_units=4)

    def forward(self, tokens: Any) -> Any:
        words = self.embed(tokens)
        found = self.dense(words[0:1])
        for row in range(1, len(words)):
            found = self.dense(found + words[row : row + 1])
        return [found, words[0], found[0]]


def numpy_arrays() -> list[Any]:
    npx.set_np()
    try:
        net = NumpyModel()
        net.initialize(mx.init.Xavier())
        net.hybridize(dynamic_batch=True, **GRAPHS)
        return [part for row in ([1, 2, 3], [3, 2], [1, 2, 3], [4]) for part in net(np.array(row, dtype="int32"))]
    finally:
        npx.reset_np()


class Signs(gluon.Block):
    """Operators outside of cells, each called on several arrays, again, and on equal ones."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.dense = gluon.nn.Embedding(9, 4), gluon.nn.Dense(4, in_units=4)

    def forward(self, tokens: Any) -> Any:
        words = self.embed(tokens)
        rows = [words[k : k + 1] for k in range(len(tokens))]
        return [part for _ in range(2) for row in rows for part in self.each(row, self.dense(row))]

    def each(self, x: Any, y: Any) -> list[Any]:
        """Numbers on both sides, attributes of every sort, several results, parameters, references, views."""
        weight, bias = self.dense.weight.data(), self.dense.bias.data()
        found = [x + y, x - y, x * 2.0, 2.0 - x, 1 / (y + 3), x * 0.0, x * -0.0, x > 0, -y, x**2]
        found += [mx.nd.tanh(y), mx.nd.sum(y, axis=1), mx.nd.sum(y, axis=(0, 1)), mx.nd.sum(y, axis=1, keepdims=True)]
        found += [mx.nd.concat(x, y, dim=1), mx.nd.concat(x, y, dim=0), mx.nd.transpose(y, axes=(1, 0))]
        found += [*mx.nd.split(y, num_outputs=2, axis=1), *mx.nd.split(y, num_outputs=1, axis=1)]
        found += [mx.nd.FullyConnected(x, weight, bias, num_hidden=4), mx.nd.broadcast_add(x, bias), x * bias[1:2]]
        found += [y.reshape((2, 2)), y.reshape((2, 2))[0] * 3.0, y[0] + y[0], x.astype("float16")]
        found += [mx.nd.LeakyReLU(y, act_type="leaky", slope=0.3), x.astype("float64") + 1]
        found += [mx.nd.zeros((1, 4)) + y, x + mx.nd.ones((1, 4)), mx.nd.add_n(x, y, x, y, x, y)]
        found += [mx.nd.Dropout(y, p=0.5), mx.nd.Activation(y, act_type="softrelu")]
        found += [mx.nd.clip(y, a_min=float("-inf"), a_max=1), mx.nd.dot(x, y, transpose_b=True), mx.nd.dot(x, weight)]
        return found


def operators(recorded: bool, **options: Any) -> Program:
    def program() -> list[Any]:
        mx.random.seed(3)
        net = Signs()
        net.initialize(mx.init.Xavier())
        net.hybridize(dynamic_batch=True, **{**GRAPHS, **options})
        with autograd.record() if recorded else autograd.pause():
            found = [part for row in ([1, 2], [2, 5], [1, 2]) for part in net(mx.nd.array(row))]
        return [*found, found[0] + found[0], found[0] + found[0], found[0] * 2.0, found[1] * 2.0]

    return program


class NumpySigns(gluon.Block):
    def __init__(self) -> None:
        super().__init__()
        self.dense = gluon.nn.Dense(4, in_units=4)

    def forward(self, x: Any) -> Any:
        found = []
        for _ in range(2):
            y = self.dense(x)
            found += [x + y, 2.0 * y, y - 1, np.tanh(y), np.concatenate([x, y], axis=1), np.sum(y, axis=1), y.T]
            found += [np.dot(y, self.dense.weight.data()), (y.as_nd_ndarray() * 2.0).as_np_ndarray(), y[0] * y]
            found += [npx.relu(y), *np.split(y, 2, axis=1)]
        return found


def numpy_operators() -> list[Any]:
    npx.set_np()
    try:
        net = NumpySigns()
        net.initialize(mx.init.Xavier())
        net.hybridize(dynamic_batch=True, **GRAPHS)
        return [part for k in (1, 2, 1) for part in net(np.ones((1, 4)) * k)]
    finally:
        npx.reset_np()


def failing() -> list[Any]:
    net = Model()
    net.initialize(mx.init.Xavier())
    net.hybridize(dynamic_batch=True, **GRAPHS)
    net(trees()[0])
    said = []
    for wrong in ((mx.nd.array([1, 9]), (0,)), (mx.nd.array([-1]), (0,)), (mx.nd.array([1, 2]), (5,)), (3, (0,))):
        try:
            net(wrong)
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def main() -> None:
    programs: dict[str, Program] = {
        "tree": tree(),
        "unshared": tree(sharing=False),
        "unhoisted": tree(without=("fused", "hoisting")),
        "operators": tree(granularity="op"),
        "expanded": tree(expand=("Nested",)),
        "inference": inference,
        "numpy": numpy_arrays,
        "signs": operators(True),
        "signs, not recorded": operators(False),
        "signs, unshared": operators(True, sharing=False),
        "numpy signs": numpy_operators,
    }
    tell(programs, lambda array: array.asnumpy().tolist(), failing=failing())


if __name__ == "__main__":
    main()
