"""Views through doors: C makes their nodes, and they know what they are views of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gluonjit.compiled import FAST
from gluonjit.engines.torch.values.lazy import LazyTensor
from tests.torch.test_doors import agree, asked, both

__all__ = ["asked"]  # a fixture

VIEWS: dict[str, Callable[[Any], Any]] = {
    "x.view(3, 1)": lambda x: x.view(3, 1),
    "x.reshape((1, -1))": lambda x: x.reshape((1, -1)),
    "x.unsqueeze(-1)": lambda x: x.unsqueeze(-1),
    "torch.unsqueeze(x, dim=1)": lambda x: torch.unsqueeze(x, dim=1),
    "x[1:]": lambda x: x[1:],
    "x[None]": lambda x: x[None],
    "x[:, None]": lambda x: x[:, None],
    "x[..., 0]": lambda x: x[..., 0],
    "x[-1]": lambda x: x[-1],
    "x[::2]": lambda x: x[::2],
    "x.t() of a view": lambda x: x.view(3, 1).t(),
    "x.transpose": lambda x: x.view(3, 1).transpose(0, 1),
    "x.permute": lambda x: x.view(3, 1).permute(1, 0),
    "x.expand": lambda x: x.expand(2, 3),
    "x.flatten of a view": lambda x: x.view(3, 1).flatten(),
    "x.narrow": lambda x: x.narrow(0, 1, 2),
    "x.select": lambda x: x.select(0, 2),
    "x.squeeze": lambda x: x.view(1, 3).squeeze(0),
    "x.T": lambda x: x.view(3, 1).T,
    "x.contiguous()": lambda x: x.contiguous(),
    "a copy by contiguous": lambda x: x.expand(2, 3).contiguous(),
    "x.float()": lambda x: x.float(),
    "x.to(dtype)": lambda x: x.to(torch.float32),
    "x.double()": lambda x: x.to(torch.float64),
}
PARTS: dict[str, Callable[[Any], Any]] = {
    "chunk": lambda x: x.chunk(2, -1),
    "torch.chunk": lambda x: torch.chunk(x, chunks=3, dim=0),
    "split": lambda x: x.split([1, 2], dim=-1),
    "unbind": lambda x: x.view(3, 1).unbind(1),
}


def counted(view: Callable[[Any], Any], asked: list[Any], counts: list[int]) -> Callable[[Any, Any], Any]:
    def work(x: Any, y: Any) -> Any:
        base = x * y
        asked.clear()
        found = view(base)
        counts.append(len(asked))
        return found * 1.0 if isinstance(found, torch.Tensor) else torch.cat([part * 1.0 for part in found])

    return work


@pytest.mark.skipif(FAST is None, reason="Python sees every call")
@pytest.mark.parametrize("name", [name for name in (*VIEWS, *PARTS) if name not in ("x[None]", "x.squeeze")])
def test_the_second_call_is_not_seen_by_python(name: str, asked: list[Any]) -> None:
    """But where it is a reference to rows, as with an axis before all others."""
    counts: list[int] = []
    agree(counted({**VIEWS, **PARTS}[name], asked, counts))
    eagerly, _, again = counts
    assert not eagerly and not again


@pytest.mark.parametrize("name", [*VIEWS, *PARTS])
def test_a_view_shows_what_is_written_to_its_tensor_and_the_other_way_round(name: str) -> None:
    view = {**VIEWS, **PARTS}[name]

    def work(x: Any, y: Any) -> Any:
        base = x * y
        found = view(base)
        listed = [found] if isinstance(found, torch.Tensor) else list(found)
        base.mul_(3.0)
        before = torch.cat([(part + 1.0).reshape(-1) for part in listed])
        if name != "x.expand":  # which refuses to be written to
            listed[-1].add_(0.5)
        return torch.cat([before, base, *[part.reshape(-1) for part in listed]])

    if name not in PARTS:  # of which PyTorch lets none be written to with gradients
        agree(work)
    with torch.no_grad():
        agree(work)


def test_dropout_in_evaluation_gives_what_it_was_given(asked: list[Any]) -> None:
    counts: list[int] = []
    agree(counted(lambda x: torch.nn.functional.dropout(x, 0.5, False), asked, counts))
    assert not counts[-1] or FAST is None
    torch.manual_seed(1)
    eager, _ = both(lambda x, y: torch.nn.functional.dropout(x, 0.5, True))
    assert (eager == 0).any()


def test_gradients_go_through_them() -> None:
    def work(x: Any, y: Any) -> Any:
        parts = (x * y).chunk(3, -1)
        return (parts[0] * parts[2]).view(1)[0] + (x[:, None] * y[None, :])[1:, ..., 0].sum()

    eager, lazy = both(work)
    assert lazy.__class__ is LazyTensor
    assert torch.allclose(eager, lazy)


def test_a_place_that_a_tensor_says_is_no_constant() -> None:
    """Known numbers make a row, numbers that are computed a node: the same call may be either."""

    def work(x: Any, y: Any) -> Any:
        known = torch.tensor(1)
        computed = (x * y).argmax()
        rows = torch.stack([x, y])
        return torch.stack([rows[known], rows[computed % 2], rows[known], rows[:, 1].repeat(2)[:3], rows[0:known][0]])

    agree(work)


def test_a_shape_that_holds_itself_is_refused() -> None:
    shape: list[Any] = [3]
    shape.append(shape)

    def work(x: Any, y: Any) -> Any:
        with pytest.raises((TypeError, RecursionError)):
            (x * y).view(shape)
        return x * y

    agree(work)


def test_without_gradients_and_with_them_are_told_apart() -> None:
    def work(x: Any, y: Any) -> Any:
        with torch.no_grad():
            still = (x * y).view(3, 1)
        live = (x * y).view(3, 1)
        assert not still.requires_grad and live.requires_grad
        return live + still

    agree(work)
