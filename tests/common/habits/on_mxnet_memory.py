"""What Gluon's programs do with the memory of arrays: computed weights, storage, buffers and gradients of their own."""

from __future__ import annotations

from typing import Any, Callable

import mxnet as mx
from mxnet import autograd, nd

from . import habit

SIZE = 3  # of filters


def used(t: Any, body: Callable[[Any, Any, Any], Any], learns: bool = True) -> None:
    """Results without recording, read together and one by one; losses, gradients of weights and of inputs."""

    class Net(t.Net):
        def setup(self) -> None:
            self.filters = self.params.get("filters", shape=(8, 1, SIZE, SIZE))

        def body(self, F: Any, x: Any) -> Any:
            return self.out(body(self.inner(x), x, self.filters.data()))

    net = t.net(net=Net)
    for turn in range(2):
        t.see(f"together {turn}", [t.call(net, x) for x in t.inputs(rows=2)])
    t.see("one by one", [t.numbers(t.call(net, x)) for x in t.inputs(rows=2)])
    if learns:
        inputs = t.inputs(rows=2)
        for x in inputs:
            x.attach_grad()
        for turn in range(2):
            t.minibatch(net, inputs, label=f"{turn}")
            t.see(f"of inputs {turn}", [x.grad for x in inputs])


def picture(h: Any) -> Any:
    """Eight channels of five by five."""
    return nd.tile(h.reshape((1, 8, 1, 1)), (1, 1, 5, 5)) * nd.arange(25).reshape((1, 1, 5, 5)) / 25


def filtered(image: Any, weight: Any, operator: Any = nd.Convolution, **how: Any) -> Any:
    given = {"kernel": (SIZE, SIZE), "num_filter": 8, "num_group": 8, "no_bias": True, **how}
    return operator(image, weight, **given).mean(axis=(2, 3)).reshape((2, 4))


@habit("mxnet", forms=("module", "whole"))
def a_filter_is_divided_by_its_norm(t: Any) -> None:
    used(t, lambda h, x, w: filtered(picture(h), w / nd.norm(w)))


@habit("mxnet", forms=("module", "whole"))
def a_filter_is_what_a_layer_gives(t: Any) -> None:
    used(t, lambda h, x, w: filtered(picture(x), w * h.reshape((8, 1, 1, 1))))


@habit("mxnet")
def a_filter_is_a_slice_of_what_a_layer_gives(t: Any) -> None:
    used(t, lambda h, x, w: filtered(picture(x), nd.concat(w, w * h.mean(), dim=0)[4:12]))


@habit("mxnet", granularity="op")
def a_filter_is_computed_where_operators_are_nodes(t: Any) -> None:
    used(t, lambda h, x, w: filtered(picture(h), w * 2 - w.mean()))


@habit("mxnet")
def a_filter_has_a_computed_bias(t: Any) -> None:
    def body(h: Any, x: Any, w: Any) -> Any:
        how = {"kernel": (SIZE, SIZE), "num_filter": 8, "num_group": 8}
        return nd.Convolution(picture(x), w, h.reshape((-1,)), **how).mean(axis=(2, 3)).reshape((2, 4))

    used(t, body)


@habit("mxnet")
def a_filter_of_all_channels_is_computed(t: Any) -> None:
    used(t, lambda h, x, w: filtered(picture(h), nd.tile(w, (1, 8, 1, 1)) * 2, num_group=1))


@habit("mxnet")
def a_result_is_a_filter_afterwards(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            return nd.tile(self.inner(x).reshape((8, 1, 1, 1)), (1, 1, SIZE, SIZE))

    net = t.net(net=Net)
    for read in (False, True):
        weights = [t.call(net, x) for x in t.inputs(rows=2)]
        if read:
            t.see("weights before", weights)
        t.see("results", [filtered(picture(x), weight) for x, weight in zip(t.inputs(rows=2), weights)])
        t.see("weights", weights)


@habit("mxnet", forms=("module", "whole"))
def a_transposed_filter_is_computed(t: Any) -> None:
    def body(h: Any, x: Any, w: Any) -> Any:
        full = nd.tile(w, (1, 8, 1, 1)) * 2
        return filtered(picture(h), full, nd.Deconvolution, num_group=1)

    used(t, body, learns=False)  # MXNet does not go backward through it


@habit("mxnet", forms=("module", "whole"))
def a_dense_weight_is_what_a_layer_gives(t: Any) -> None:
    def body(h: Any, x: Any, w: Any) -> Any:
        weight = nd.dot(h, h, transpose_a=True)
        return nd.FullyConnected(x, weight, weight[0], num_hidden=4)

    used(t, body)


@habit("mxnet")
def a_result_is_pooled_and_its_maxima_learn(t: Any) -> None:
    def body(h: Any, x: Any, w: Any) -> Any:
        pooled = nd.Pooling(picture(h), kernel=(2, 2), stride=(2, 2), pool_type="max")
        return pooled.mean(axis=(2, 3)).reshape((2, 4))

    used(t, body)


def stored(array: Any) -> list[Any]:
    """The storage of an array, where its numbers are, and these."""
    found = [array.stype, array.asnumpy()]
    return found if array.stype == "default" else [*found, array.indices.asnumpy()]


@habit("mxnet")
def results_are_kept_as_sparse_arrays(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            h = nd.relu(self.inner(x))
            return h.tostype("row_sparse"), nd.cast_storage(h, "csr"), nd.sparse.cast_storage(h - 1, "csr")

    net = t.net(net=Net)
    t.see("stored", [[stored(array) for array in t.call(net, x)] for x in t.inputs(rows=2)])


@habit("mxnet")
def rows_of_a_sparse_result_are_kept(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            return nd.sparse.retain(self.inner(x).tostype("row_sparse"), nd.array([1]))

    net = t.net(net=Net)
    t.see("stored", [stored(t.call(net, x)) for x in t.inputs(rows=2)])


@habit("mxnet", forms=("module", "whole"))
def a_sparse_result_is_dense_again(t: Any) -> None:
    used(t, lambda h, x, w: nd.relu(h).tostype("row_sparse").tostype("default") * 2)


@habit("mxnet")
def a_sparse_matrix_meets_results(t: Any) -> None:
    features = nd.array([[0, 1, 0, 0], [2, 0, 0, 3]]).tostype("csr")
    used(t, lambda h, x, w: h + nd.sparse.dot(features, nd.dot(h, h, transpose_a=True)))


def differentiated(t: Any, run: Callable[[Any], Any]) -> None:
    """The body records, and goes backward, by itself."""

    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            return [self.inner(x), *run(x)]

    net = t.net(net=Net)
    for turn in range(2):
        t.see(f"{turn}", [t.call(net, x) for x in t.inputs(rows=2)])


def by_letters(t: Any, letters: str, *shapes: tuple[int, ...]) -> None:
    """Of arrays that the sample makes variables: behind others MXNet leaves gradients beside the diagonal unwritten."""

    def run(x: Any) -> Any:
        numbers = x.asnumpy().ravel()
        arrays = [mx.np.array(numbers[: mx.np.zeros(shape).size].reshape(shape)) for shape in shapes]
        for array in arrays:
            array.attach_grad()
        with autograd.record():
            y = mx.np.einsum(letters, *arrays)
            total = (y * y).sum()
        total.backward()
        return [array.as_nd_ndarray() for array in (y.reshape((-1,)), *[array.grad for array in arrays])]

    differentiated(t, run)


@habit("mxnet", granularity="op")
def a_trace_is_taken_by_letters(t: Any) -> None:
    by_letters(t, "ii,j->j", (2, 2), (3,))


@habit("mxnet", granularity="op")
def a_diagonal_is_taken_by_letters(t: Any) -> None:
    by_letters(t, "ii->i", (2, 2))


@habit("mxnet", granularity="op")
def diagonals_are_multiplied_by_letters(t: Any) -> None:
    by_letters(t, "iij,jk->k", (2, 2, 2), (2, 3))


@habit("mxnet", granularity="op")
def diagonals_behind_other_axes_are_taken_by_letters(t: Any) -> None:
    by_letters(t, "...ii->...i", (2, 2, 2))


@habit("mxnet")
def a_buffer_of_gradients_is_cleared_between_passes(t: Any) -> None:
    def run(x: Any) -> Any:
        x, buffer = x * 1, nd.zeros((2, 4))
        autograd.mark_variables([x], [buffer])
        for _ in range(2):
            buffer[:] = 0
            with autograd.record():
                y = (x * x).sum()
            y.backward()
        return buffer, x.grad

    differentiated(t, run)


@habit("mxnet")
def several_buffers_of_gradients_are_added_to(t: Any) -> None:
    def run(x: Any) -> Any:
        h, k, one, other = x * 1, x * 2, nd.zeros((2, 4)), nd.zeros((2, 4))
        autograd.mark_variables([h, k], [one, other], ["write", "add"])
        for _ in range(2):
            with autograd.record():
                y = (h * h * k).sum()
            y.backward()
        one += 1
        return one, other, h.grad, nd.zeros((2, 4))

    differentiated(t, run)


@habit("mxnet")
def a_buffer_of_gradients_is_a_part_of_one(t: Any) -> None:
    def run(x: Any) -> Any:
        h, buffers = x * 1, nd.zeros((4, 4))
        autograd.mark_variables(h, buffers[2:4])
        with autograd.record():
            y = (h * h).sum()
        y.backward()
        return buffers, h - 0.1 * h.grad

    differentiated(t, run)


@habit("mxnet")
def whole_numbers_have_gradients(t: Any) -> None:
    def run(x: Any) -> Any:
        found = []
        for dtype in ("int32", "int64", "int8"):
            n = nd.array([1, 2, 3], dtype=dtype)
            n.attach_grad()
            with autograd.record():
                y = n * n + n.reshape((1, -1)).reshape((-1,)) + nd.concat(n, n, dim=0)[1:4]
            y.backward()
            found += [n.grad, y]
        return found

    differentiated(t, run)


@habit("mxnet")
def an_array_becomes_a_variable_after_its_use(t: Any) -> None:
    """What was recorded before gives it no gradient."""

    def run(x: Any) -> Any:
        with autograd.record():
            before = x * 2
            x.attach_grad()
            y = (x * before).sum()
        y.backward()
        return x.grad, y

    differentiated(t, run)
