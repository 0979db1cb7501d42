"""Functions that write into memory they are given (`out=`), or that look at how tensors lie in it (`as_strided`)."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from torch import nn

import gluonjit

pytestmark = pytest.mark.filterwarnings("ignore")
INTO: dict[str, Callable[..., Any]] = {
    "kron": torch.kron,
    "outer": torch.outer,
    "mm": torch.mm,
    "addmm": lambda a, b, **out: torch.addmm(a, a, b, **out),
    "multi_dot": lambda a, b, **out: torch.linalg.multi_dot([a, b, a], **out),
    "tensordot": lambda a, b, **out: torch.tensordot(a, b, 1, **out),
    "inv": lambda a, b, **out: torch.linalg.inv(a, **out),
    "solve": torch.linalg.solve,
    "matrix_power": lambda a, b, **out: torch.linalg.matrix_power(a, 3, **out),
    "vector_norm": lambda a, b, **out: torch.linalg.vector_norm(a, dim=0, **out),
    "cat": lambda a, b, **out: torch.cat([a, b], 1, **out),
    "stack": lambda a, b, **out: torch.stack([a, b], 1, **out),
    "hstack": lambda a, b, **out: torch.hstack([a, b], **out),
    "take_along_dim": lambda a, b, **out: torch.take_along_dim(a, torch.tensor([[0], [1], [2]]), 1, **out),
    "cumsum": lambda a, b, **out: torch.cumsum(a, 0, **out),
}
INTO["outer"] = lambda a, b, **out: torch.outer(a[0], b[0], **out)


def made(function: Any, a: Any, b: Any) -> Any:
    out = torch.zeros(function(a, b).shape)
    return function(a, b, out=out) is out, out * 2


def pending(function: Any, a: Any, b: Any) -> Any:
    out = torch.zeros(function(a, b).shape) + a[0, 0]
    before = out.view(-1)
    function(a, b, out=out)
    return before, out


def a_part(function: Any, a: Any, b: Any) -> Any:
    like = function(a, b)
    whole = torch.stack([like, like * 2])
    function(a, b, out=whole[1])
    return (whole,)


def empty(function: Any, a: Any, b: Any) -> Any:
    out = torch.empty(0)
    function(a, b, out=out)
    return out.shape, out * 2


class Net(nn.Module):
    """Two matrices of a sample, and a program."""

    def __init__(self, program: Callable[..., Any]) -> None:
        super().__init__()
        self.weight, self.program = nn.Parameter(torch.tensor(1.5)), program

    def forward(self, a: Any, b: Any) -> Any:
        with torch.no_grad():
            return self.program(a * self.weight, b * self.weight)


def assert_as_eagerly(program: Callable[..., Any], granularity: str) -> None:
    draw = torch.Generator().manual_seed(0)
    samples = [(torch.randn(3, 3, generator=draw), torch.randn(3, 3, generator=draw)) for _ in range(3)]
    wanted = [Net(program)(*sample) for sample in samples]
    net = gluonjit.hybridize(Net(program), dynamic_batch=True, granularity=granularity)
    for found, expected in zip([net(*sample) for sample in samples], wanted):
        for one, other in zip(found, expected):
            if isinstance(other, torch.Tensor):
                torch.testing.assert_close(torch.as_tensor(one.numpy()), other, rtol=1e-4, atol=1e-4)
            else:
                assert one == other


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("way", [made, pending, a_part, empty])
@pytest.mark.parametrize("name", list(INTO))
def test_what_out_is_given_holds_the_result(name: str, way: Callable[..., Any], granularity: str) -> None:
    assert_as_eagerly(lambda a, b: way(INTO[name], a, b), granularity)


STRIDED: dict[str, Callable[[Any, Any], Any]] = {
    "whole": lambda a, b: a.as_strided((2, 2), (1, 2), 1),
    "row": lambda a, b: a[1].as_strided((2, 2), (1, 2), 0),
    "row, its own offset": lambda a, b: a[1].as_strided((2,), (1,)),
    "slice": lambda a, b: torch.as_strided(a[1:], (2,), (3,), 1),
    "transposed": lambda a, b: torch.as_strided(a.t(), (2, 2), (1, 2), 0),
    "of the transposed": lambda a, b: torch.as_strided(a.t() * 2, (2, 2), (1, 2), 0),
    "of a sum of the transposed": lambda a, b: torch.tanh((a + b).permute(1, 0) + b.t()).as_strided((2, 2), (1, 2), 1),
    "of a row": lambda a, b: (a + b)[2].floor().as_strided((2, 2), (1, 1), 0),
    "scatter": lambda a, b: torch.as_strided_scatter(a, b[:2, :2], (2, 2), (1, 2), 0),
    "scatter into a row": lambda a, b: a[1].as_strided_scatter(b[0, :2], (2,), (1,), 4),
    "scatter of a row": lambda a, b: torch.as_strided_scatter(torch.floor(a[2]), b[0, :2], (2,), (1,), 0),
    "select_scatter": lambda a, b: torch.select_scatter(a[1:], b[0], 0, -1),
    "slice_scatter": lambda a, b: torch.slice_scatter(a[:, 1], b[0, :2], 0, 1),
    "diagonal_scatter": lambda a, b: torch.diagonal_scatter(a.t(), b[0], 0),
}


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("name", list(STRIDED))
def test_memory_is_seen_as_eagerly(name: str, granularity: str) -> None:
    def program(a: Any, b: Any) -> Any:
        turned = torch.tanh(a.t())
        looks = turned.stride(), a.stride(), a.is_contiguous(), turned.is_contiguous(), a[1].storage_offset()
        return STRIDED[name](a, b) * 1, *looks

    assert_as_eagerly(program, granularity)
