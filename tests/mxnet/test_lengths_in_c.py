"""Cells on operands of any length as row programs: the rows of a node are its children, which one size counts."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
from mxnet import autograd, nd

from gluonjit.compiled import ROWS
from tests.mxnet import test_lengths as programs

pytestmark = pytest.mark.skipif(ROWS is None, reason="gluonjit._rows is not there, or GLUONJIT_PURE is set")
Body = Callable[..., Any]


def attended(net: Any, F: Any, q: Any, x: Any) -> Any:
    weights = F.softmax(F.dot(net.q(q), x, transpose_b=True), axis=1)
    return F.tanh(net.out(F.dot(weights, x) * q)), weights


def by_column(net: Any, F: Any, x: Any, how: str) -> Any:
    return F.sum(F.broadcast_mul(getattr(F, how)(net.one(x), axis=0), x), axis=0)


IN_C: dict[str, Body] = {
    "attention": lambda net, F, t, q, x: attended(net, F, q, x)[0],
    "attention and its weights": lambda net, F, t, q, x: attended(net, F, q, x),
    "attention in batches": lambda net, F, t, q, x: F.batch_dot(
        F.softmax(F.batch_dot(F.expand_dims(q, 0), F.expand_dims(x, 0), transpose_b=True)), F.expand_dims(x, 0)
    ),
    "softmax": lambda net, F, t, q, x: by_column(net, F, x, "softmax") + F.sum(q),
    "log softmax": lambda net, F, t, q, x: F.broadcast_add(q, by_column(net, F, x, "log_softmax")),
    "scores": lambda net, F, t, q, x: F.transpose(net.one(F.tanh(F.broadcast_add(net.q(x), net.k(q))))),
    "mean": lambda net, F, t, q, x: F.mean(F.relu(net.q(x)), axis=0, keepdims=True) * q,
    "mean of all": lambda net, F, t, q, x: F.mean(F.broadcast_mul(net.q(x), q)),
    "sum": lambda net, F, t, q, x: F.sum(F.broadcast_mul(net.q(x), q), axis=0),
    "means of rows": lambda net, F, t, q, x: F.sum(
        F.broadcast_mul(F.mean(x, axis=1, keepdims=True), F.broadcast_sub(x, q)), axis=0
    ),
    "a state beside each row": lambda net, F, t, q, x: F.relu(
        net.out(F.broadcast_like(q, x, lhs_axes=(0,), rhs_axes=(0,)) * x)
    ),
    "layers of each row": lambda net, F, t, q, x: F.relu(net.norm(F.broadcast_add(net.q(x), q))),
    "number of rows": lambda net, F, t, q, x: F.sum(F.broadcast_mul(x, q), axis=0) / x.shape[0],
    "orders of axes": lambda net, F, t, q, x: F.reshape(
        F.dot(F.transpose(x), net.one(F.broadcast_mul(x, q))), shape=(1, -1)
    ),
}
IN_MXNET: dict[str, Body] = {
    "over rows": lambda net, F, t, q, x: F.broadcast_mul(q, F.sum(F.softmax(x, axis=0) * x, axis=0, keepdims=True)),
    "has no instruction": lambda net, F, t, q, x: F.max(F.broadcast_mul(net.q(x), q), axis=0),
    "several lengths": lambda net, F, t, q, x: F.sum(F.concat(q, x, dim=0), axis=0),
    "not row by row": lambda net, F, t, q, x: F.transpose(F.broadcast_mul(x, q)),
}


def samples(*lengths: int) -> list[Any]:
    return list(zip(programs.words(*[1] * len(lengths), seed=9), programs.words(*lengths, seed=len(lengths))))


@pytest.mark.parametrize("name", IN_C)
def test_a_cell_of_any_length_runs_in_c(name: str) -> None:
    nets = programs.both(IN_C[name])
    for lengths in ((5, 3), (4, 6, 5, 7), (3, 8, 8, 2, 9, 5), (12, 1, 30, 2, 4)):
        report = programs.assert_as_alone(nets, samples(*lengths))
    assert not report.unfused
    assert report.fused == report.launches
    assert report.kinds["model"].launches == 1


@pytest.mark.parametrize("name", IN_MXNET)
def test_what_row_programs_do_not_say_runs_in_mxnet(name: str) -> None:
    nets = programs.both(IN_MXNET[name])
    for lengths in ((5, 3), (4, 6, 5, 7)):
        report = programs.assert_as_alone(nets, samples(*lengths))
    assert name in report.unfused["model"]


@pytest.mark.parametrize("strange", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", ["attention", "softmax", "log softmax", "mean"])
def test_what_is_no_number_stays_in_its_sample(name: str, strange: float) -> None:
    nets = programs.both(IN_C[name])
    programs.assert_as_alone(nets, samples(5, 3))
    given = samples(4, 7, 5, 6)
    given[1][1][2:3] = strange
    given[2][1][:] = strange
    wanted, found = [programs.run(net, given) for net in nets]
    assert not found[2].unfused
    for one, other in zip(found[0], wanted[0]):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_gradients_reach_the_rows_of_nodes_that_are_read() -> None:
    nets = programs.both(IN_C["scores"])
    programs.assert_as_alone(nets, samples(5, 3))
    given, gradients = samples(4, 7, 5), []
    for net in nets:
        for _, x in given:
            x.attach_grad()
            x.grad[:] = -1  # where nothing is written
        with autograd.record():
            found = [net(*sample) for sample in given]
            total = nd.add_n(found[0][:, 1].sum(), found[2].sum())
        total.backward()
        gradients.append([x.grad.asnumpy() for _, x in given])
    for one, other in zip(*gradients):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
