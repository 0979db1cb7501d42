"""Programs of either framework whose calls of one cell look different, run in batches that are full at any node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np

import gluonjit

LIMITS: list[dict[str, int]] = [{"max_nodes": most} for most in range(1, 14)]
LIMITS += [{"max_bytes": most} for most in range(20, 220, 16)]


@gluonjit.cell
def blend(x: Any, y: Any, share: float = 0.5) -> Any:
    return [(x * share + y * (1 - share)).tanh(), x - y * share]


def of_other_sizes(p: Any) -> Any:
    """Lets operands of later calls lie otherwise than is natural: calls of any size run together."""
    return blend(p, share=0.75, y=p)[0]


def both_lie_otherwise(p: Any) -> Any:
    p = p * 1.5
    found = blend(p[0:1].sin(), p[1:2].cos())[0]
    return blend(found, p[2:3].cos())[0] + blend(p[0:1].tanh(), p[1:2].tanh())[1]


def one_tensor_twice(p: Any) -> Any:
    x = (p * 1.5).sin()
    return blend(x, share=0.75, y=x)[0] + blend(x, x, 0.75)[1] + blend(x, p.cos(), 0.75)[0]


def keywords_in_another_order(p: Any) -> Any:
    x, y = (p * 1.5).sin(), p.cos()
    found = blend(x=x, y=y, share=0.25)[0] - blend(y=y, share=0.25, x=x)[1] * 2
    return found + blend(y=x, x=y)[0] - blend(x=x, y=y)[1]


def given_by_default_or_by_place(p: Any) -> Any:
    x, y = (p * 1.5).sin(), p.cos()
    found = blend(x, y)[0] - blend(x, y, 0.5)[1] * 2 + blend(x, y, share=0.5)[0] * 3
    return found + blend(y, y=x)[0] - blend(x, y, 0.75)[1]


PROGRAMS = [both_lie_otherwise, one_tensor_twice, keywords_in_another_order, given_by_default_or_by_place]

Play = Callable[[Callable[[Any], Any], Sequence[Any], Optional[dict[str, int]]], "list[Any]"]
"""Runs a program for samples of these numbers, and backward, with options for batches, or eagerly: all results, and
the gradients of all that was given."""


def check(program: Callable[[Any], Any], play: Play) -> None:
    """Batches of any limit give the eager program's values and gradients."""
    draw = np.random.default_rng(0)
    given = [draw.uniform(-1, 1, (3, 3)).astype("float32") for _ in range(3)]
    wanted = play(program, given, None)
    gluonjit.clear_caches()
    play(of_other_sizes, [given[0][:2, :2].repeat(2, 0)], {})
    for options in LIMITS:
        for found, right in zip(play(program, given, options), wanted):
            assert np.abs(found - right).max() <= 1e-5 * max(np.abs(right).max(), 0.1), options
