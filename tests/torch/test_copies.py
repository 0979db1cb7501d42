"""Functions that give a view or a copy, such as `reshape`: writes to views of what they give, and how it lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.torch.test_conformance_found import GRANULARITIES, check


def then(make: Callable[[Any], Any], part: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Writes to a part of what is made of a tensor; both are the result."""

    def program(x: Any) -> Any:
        made = make(x)
        part(made).mul_(2)
        return made * 1, x * 1

    return program


MADE: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x.T.contiguous(),
    "contiguous already": lambda x: x.contiguous(),
    "rows, contiguous": lambda x: x[1:].contiguous(),
    "columns, contiguous": lambda x: x[:, :2].contiguous(),
    "expanded, contiguous": lambda x: x.expand(2, 3, 4).contiguous(),
    "reshape": lambda x: x.T.reshape(2, 6),
    "reshape of a view": lambda x: x.reshape(2, 6),
    "flatten": lambda x: x.T.flatten(),
    "flatten of a view": lambda x: x.flatten(),
    "double": lambda x: x.double(),
    "to": lambda x: x[1:].T.to(torch.float64),
    "to the same": lambda x: x.T.to(torch.float32),
}
PARTS: dict[str, Callable[[Any], Any]] = {
    "row": lambda x: x[0],
    "slice": lambda x: x[1:][:1],
    "transposed": lambda x: x.mT if x.dim() > 1 else x.reshape(1, -1),
    "view": lambda x: x.unsqueeze(0),
    "narrowed": lambda x: x.narrow(0, 0, 1).squeeze(0),
}


@GRANULARITIES
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("train", [False, True])
def test_a_write_to_a_part_reaches_what_it_is_a_part_of(made: str, part: str, train: bool, granularity: str) -> None:
    check(then(MADE[made], PARTS[part]), granularity, 3, 4, train=train)


LIES: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x.T.contiguous(),
    "columns": lambda x: x[:, :2].contiguous(),
    "transposed": lambda x: x.T.contiguous().T,
    "expanded": lambda x: x[:1].expand(3, 4),
    "expanded twice": lambda x: x[:1, :, None].expand(3, 4, 2),
    "expanded, contiguous": lambda x: x.sum(1, keepdim=True).expand(3, 4).contiguous(),
    "broadcast": lambda x: torch.broadcast_tensors(x, torch.ones(2, 1, 1))[0],
    "a scalar's copy": lambda x: x.min().index_copy(0, torch.tensor([0]), x.max()),
}


@GRANULARITIES
@pytest.mark.parametrize("name", LIES)
def test_pending_results_say_how_they_lie(name: str, granularity: str) -> None:
    def looks(x: Any) -> Any:
        made = LIES[name](x)
        return made.is_contiguous(), torch.Size(made.stride()), made * 1

    check(looks, granularity, 3, 4, train=False)


@GRANULARITIES
@pytest.mark.parametrize("name", ["contiguous", "columns", "transposed", "expanded", "expanded, contiguous"])
def test_memory_is_read_as_eagerly(name: str, granularity: str) -> None:
    check(lambda x: LIES[name](x).as_strided((4,), (1,)), granularity, 3, 4)
