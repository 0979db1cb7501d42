"""A batch that is full runs between two calls, never while the operands of one are looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

import gluonjit
from tests.common.full_batches import PROGRAMS, blend, check


class Sample(nn.Module):
    """Calls a program, with something that is no constant: what it calls is captured."""

    def forward(self, program: Callable[[Any], Any], given: Any, _: Any) -> Any:
        return program(given)


def play(program: Callable[[Any], Any], given: Sequence[Any], options: dict[str, int] | None) -> list[Any]:
    model = Sample()
    if options is not None:
        gluonjit.hybridize(model, dynamic_batch=True, **options)
    tensors = [torch.tensor(numbers, requires_grad=True) for numbers in given]
    results = [model(program, tensor, object()) for tensor in tensors]
    sum([(result * result).sum() for result in results]).backward()
    return [tensor.detach().numpy() for tensor in results] + [tensor.grad.numpy() for tensor in tensors]


def views_as_operands(p: Any) -> Any:
    x, y = (p * 1.5).sin(), p.cos()
    one, two, row = x[0:1], y[1:2], x[1]
    x.mul_(2.0)
    y.add_(1.0)
    return blend(one, two)[0] + row


def views_of_columns(p: Any) -> Any:
    x, y = (p * 1.5).sin(), p.cos()
    one, two, three = x.t()[0:2], y.t()[1:3], x.t()[1]
    x.mul_(2.0)
    y.add_(1.0)
    return torch.maximum(one, two) + three


def views_joined(p: Any) -> Any:
    x, y = (p * 1.5).sin(), p.cos()
    one, two, three = x.t()[0:2], y.t()[1:2], p * 3
    x.mul_(2.0)
    y.add_(1.0)
    return torch.cat([x[2:3], one, two]) * torch.stack([three[0], x.t()[1], y[2], y.t()[0]])


def views_written(p: Any) -> Any:
    x, y, z = (p * 1.5).sin(), p.cos(), p * 3
    one, two = x.t()[0:1], y.t()[1:2]
    x.mul_(2.0)
    y.add_(1.0)
    z[1:2] = one
    z.addcmul_(one, two)
    return z + z.index_add(0, torch.tensor([2]), two)


VIEWS = [views_as_operands, views_of_columns, views_joined, views_written]


@pytest.mark.parametrize("program", [*PROGRAMS, *VIEWS], ids=lambda program: program.__name__)
def test_full_at_any_node(program: Any) -> None:
    check(program, play)
