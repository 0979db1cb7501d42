"""Python that decides by a size: compares it, counts up to it, looks up by it, in samples of many lengths."""

from __future__ import annotations

import math
from typing import Any, Callable

from . import FORMS, habit

Body = Callable[[Any, Any, Any], Any]
LENGTHS = ((7, 8, 10, 12), (2, 3, 4, 5, 6, 9), (5, 11, 2, 13))
"""Minibatches: alike at first, so that other lengths may be derived from these, then across every comparison."""


def of_many_lengths(t: Any, body: Body) -> None:
    """Minibatches of samples whose lengths are on both sides of what a program compares them with."""

    class Part(t.Part):
        def setup(self) -> None:
            self.scales = [0.1 * k for k in range(20)]

        body = None

    Part.body = body
    net = t.net(Part)
    for lengths in LENGTHS:
        t.minibatch(net, [t.inputs(1, rows=rows, seed=rows)[0] for rows in lengths], label=f"{lengths}")


@habit(forms=FORMS)
def a_slice_up_to_the_smaller_of_two_lengths(t: Any) -> None:
    of_many_lengths(t, lambda self, F, x: F.tanh(self.layer(x[: min(3, len(x) - 1)])).sum(axis=0, keepdims=True))


@habit(forms=FORMS)
def a_slice_from_the_larger_of_two_lengths(t: Any) -> None:
    of_many_lengths(t, lambda self, F, x: F.tanh(self.layer(x[max(len(x) - 4, 0) :])).sum(axis=0, keepdims=True))


@habit(forms=FORMS)
def a_branch_by_the_length(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        if len(x) > 4:
            return F.tanh(self.layer(x)).sum(axis=0, keepdims=True)
        return F.sigmoid(self.layer(x * 2)).sum(axis=0, keepdims=True)

    of_many_lengths(t, body)


@habit(forms=FORMS)
def a_branch_between_two_lengths(t: Any) -> None:
    of_many_lengths(
        t, lambda self, F, x: F.tanh(self.layer(x)).sum(axis=0, keepdims=True) * (2.0 if 3 < x.shape[0] <= 6 else 1.0)
    )


@habit(forms=FORMS)
def a_loop_of_the_length_less_two(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = self.layer(x[:1])
        for k in range(max(len(x) - 2, 1)):
            h = F.tanh(h + self.layer(x[k : k + 1]) * (k + 1))
        return h

    of_many_lengths(t, body)


@habit(forms=FORMS)
def a_while_loop_up_to_the_length(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        k, h = 0, x[:1]
        while k < len(x):
            h = F.tanh(self.layer(x[k : k + 1])) + h * 0.5
            k += 2
        return h

    of_many_lengths(t, body)


@habit(forms=FORMS)
def a_number_by_the_length(t: Any) -> None:
    of_many_lengths(t, lambda self, F, x: F.tanh(self.layer(x)).sum(axis=0, keepdims=True) * self.scales[len(x)])


@habit(forms=FORMS)
def a_number_that_a_function_makes_of_the_length(t: Any) -> None:
    of_many_lengths(t, lambda self, F, x: F.tanh(self.layer(x)).sum(axis=0, keepdims=True) * math.gcd(len(x), 6))


@habit(forms=FORMS)
def a_mean_by_the_length(t: Any) -> None:
    of_many_lengths(t, lambda self, F, x: F.tanh(self.layer(x)).sum(axis=0, keepdims=True) / max(len(x), 4))


@habit(forms=FORMS)
def the_rows_before_the_last_and_one_by_its_number(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        last = min(4, len(x) - 1)
        return F.tanh(self.layer(x[len(x) - 2 : len(x) - 1]) + self.layer(x[last : last + 1]))

    of_many_lengths(t, body)
