"""Programs that read numbers of mx.np's arrays, write to them, or do what raises."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import mxnet as mx
import numpy as onp
import pytest
from mxnet import autograd, np
from numpy_support import Outcome, Plain, agree, numpy_program, uniform


@pytest.fixture(autouse=True)
def numpy_semantics() -> Iterator[None]:
    with numpy_program():
        yield


def numbers(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return [numbers(part) for part in result]
    if isinstance(result, mx.nd.NDArray):
        return type(result.asnumpy()), isinstance(result, np.ndarray), result.shape, result.dtype, result.tolist()
    return result


def alike(found: Any, wanted: Any) -> bool:
    """True if results are equal but for rounding: what runs in C adds numbers up in another order."""
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(alike, found, wanted))
    if isinstance(wanted, tuple):
        return found[:4] == wanted[:4] and bool(onp.allclose(found[4], wanted[4], 1e-6, equal_nan=True))
    return bool(found == wanted)


def written(x: Any) -> Any:
    a = x * 2
    a[0] = 5.0
    a[:, 1] = x[:, 0] * 3
    a[a > 4] = -1
    a += 1
    return a * 2


READS: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: (x * 2).sum().item(),
    "float": lambda x: float((x * 2).sum()),
    "int": lambda x: int((x * 9).sum()),
    "bool": lambda x: bool((x * 2).sum() > 0),
    "if": lambda x: x * 2 if x.sum() > 0 else x * 3,
    "tolist": lambda x: (x * 2).tolist(),
    "str": lambda x: f"{x * 2} {(x * 2).sum():.3f} {x * 2!r}",
    "numpy.array": lambda x: onp.array(x * 2).tolist(),
    "numpy's fallback": lambda x: float(onp.median(x * 2)),
    "allclose": lambda x: bool(np.allclose(x * 2, x + x)),
    "np.array": lambda x: np.array(x * 2),
    "in": lambda x: 3.0 in (x[0] * 0 + 3),
    "iteration": lambda x: [value * 2 for row in x * 2 for value in row],
    "len": lambda x: len(x * 2),
    "shape": lambda x: ((x * 2).shape, (x * 2).ndim, (x * 2).size, str((x * 2).dtype), str((x * 2).ctx)),
    "max": lambda x: max([x[0].sum(), x[1].sum()]),
    "as_in_ctx": lambda x: (x * 2).as_in_ctx(mx.cpu()),
    "copyto": lambda x: (x * 2).copyto(mx.cpu()),
    "pickle": lambda x: pickle.loads(pickle.dumps(x * 2)),
    "written": written,
    "boolean mask": lambda x: (x * 2)[(x * 2) > 0],
    "mask of numpy": lambda x: (x * 2)[onp.array([True, False, True])] * 2,
    "nonzero": lambda x: np.nonzero(x > 0),
    "unique": lambda x: np.unique((x > 0).astype("float32")),
    "no rows": lambda x: (x * 2)[1:1],
    "no rows and some": lambda x: np.concatenate([np.zeros((0, 4)), x * 2]) * 3,
    "sum of nothing": lambda x: np.zeros((0, 4)).sum() + x.sum(),
    "as_nd_ndarray": lambda x: (mx.nd.relu((x * 2).as_nd_ndarray()) * 2).as_np_ndarray() * 3,
    "there and back": lambda x: mx.nd.sum((x * 2).as_nd_ndarray()).as_np_ndarray() + x.sum(),
    "random": lambda x: x + np.random.uniform(size=(3, 4)) * 0,
}


@pytest.mark.parametrize("name", READS)
def test_what_reads_or_writes_numbers_gives_what_it_gave(name: str) -> None:
    net = Plain(READS[name])
    samples = [uniform(3, 4, seed=seed) for seed in range(4)]
    expected = [numbers(net(sample)) for sample in samples]
    net.hybridize(dynamic_batch=True)
    results = [net(sample) for sample in samples]
    assert alike([numbers(result) for result in results], expected)


ERRORS: dict[str, Callable[[Any], Any]] = {
    "hash": lambda x: hash(x * 2),
    "bool of many": lambda x: bool(x * 2),
    "len of a scalar": lambda x: len((x * 2).sum()),
    "index of a scalar": lambda x: (x * 2).sum()[0],
    "index out of bounds": lambda x: (x * 2)[5],
    "too many indices": lambda x: (x * 2)[1, 2, 3],
    "classic operator": lambda x: mx.nd.sigmoid(x * 2),
    "operator of mx.np": lambda x: np.exp((x * 2).as_nd_ndarray()),
    "classic result": lambda x: (x * 2).as_nd_ndarray(),
    "asscalar": lambda x: (x * 2).asscalar(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_raises_still_raises(name: str) -> None:
    net = Plain(ERRORS[name])
    with pytest.raises(Exception) as eager:
        net(uniform(3, 4))
    net.hybridize(dynamic_batch=True)
    with pytest.raises(eager.type):
        net(uniform(3, 4))
    net.hybridize(dynamic_batch=False)


def test_gradients_through_what_is_read_on_the_way() -> None:
    """The batch runs in the middle, and MXNet's own history goes on from there while other values stay captured."""

    def function(x: Any) -> Any:
        twice, thrice = x * 2, x * 3
        picked = twice[twice > 0].sum()
        return picked + thrice.mean() * float(twice.sum())

    net = Plain(function)
    samples = [uniform(3, 4, seed=seed) for seed in range(4)]

    def run() -> Outcome:
        for sample in samples:
            sample.attach_grad()
        with autograd.record():
            total = sum([net(sample) for sample in samples])
        total.backward()
        return {f"gradient of {k}": sample.grad.asnumpy() for k, sample in enumerate(samples)}

    expected = run()
    net.hybridize(dynamic_batch=True)
    agree(run(), expected)
