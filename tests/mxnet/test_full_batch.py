"""A batch that is full runs between two calls, never while the operands of one are looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from mxnet import autograd, gluon, nd

from tests.common.full_batches import PROGRAMS, blend, check


class Sample(gluon.Block):
    """Calls a program, with something that is no constant: what it calls is captured."""

    def forward(self, program: Callable[[Any], Any], given: Any, _: Any) -> Any:
        return program(given)


def play(program: Callable[[Any], Any], given: Sequence[Any], options: dict[str, int] | None) -> list[Any]:
    model = Sample()
    if options is not None:
        model.hybridize(dynamic_batch=True, **options)
    arrays = [nd.array(numbers) for numbers in given]
    for array in arrays:
        array.attach_grad()
    with autograd.record():
        results = [model(program, array, object()) for array in arrays]
        total = sum([(result * result).sum() for result in results])
    total.backward()
    return [array.asnumpy() for array in results] + [array.grad.asnumpy() for array in arrays]


def joined_and_taken_by_number(p: Any) -> Any:
    x, y = (p * 1.5).sin(), p.cos()
    rows = nd.concat(x[1:2], y[0:1], nd.take(x, nd.array([2], dtype="int32")), dim=0)
    picked = nd.pick(rows, nd.array([0, 2, 1]), axis=1, keepdims=True)
    return blend(nd.broadcast_mul(rows, picked), y)[0] + nd.broadcast_add(rows, x.mean(axis=0, keepdims=True))


@pytest.mark.parametrize("program", [*PROGRAMS, joined_and_taken_by_number], ids=lambda program: program.__name__)
def test_full_at_any_node(program: Any) -> None:
    check(program, play)
