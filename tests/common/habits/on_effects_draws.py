"""What a body takes from something that goes on: generators, cycles, random numbers, caches."""

from __future__ import annotations

import functools
import random
from typing import Any

from . import FORMS, habit


def two_minibatches(t: Any, net: Any) -> None:
    t.minibatch(net, label="first", step=True)
    t.minibatch(net, t.inputs(5, seed=1), label="second")


@habit(forms=FORMS)
def a_generator_that_lives_on_gives_factors(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.factors = (1.0 / (1 + k) for k in range(100))

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * next(self.factors)

    net = t.net(Part)
    two_minibatches(t, net)
    t.see("next", next(net.part.factors))


@habit(forms=FORMS)
def an_iterator_of_a_cycle_chooses_the_branch(t: Any) -> None:
    import itertools

    turns = itertools.cycle([True, False])

    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            h = self.layer(x)
            return F.tanh(h) if next(turns) else F.relu(h)

    two_minibatches(t, t.net(Part))
    t.see("next", next(turns))


@habit(forms=FORMS)
def random_of_python_skips_a_layer(t: Any) -> None:
    """Stochastic depth with a seed of Python's own: the draws are eager's."""

    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) if random.random() < 0.5 else x

    net = t.net(Part)
    random.seed(3)
    two_minibatches(t, net)
    t.see("state", random.random())


@habit(forms=FORMS)
def random_of_a_generator_of_numpy_scales(t: Any) -> None:
    import numpy as np

    class Part(t.Part):
        def setup(self) -> None:
            self.random = np.random.RandomState(5)

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * float(self.random.uniform())

    net = t.net(Part)
    two_minibatches(t, net)
    t.see("state", float(net.part.random.uniform()))


@habit(forms=FORMS)
def a_memo_of_numbers_is_filled(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.memo: dict[int, float] = {}
            self.level = 0
            self.made: list[int] = []

        def factor(self, level: int) -> float:
            if level not in self.memo:
                self.made.append(level)
                self.memo[level] = 1.0 / (1 + level)
            return self.memo[level]

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * self.factor(self.level)

    net = t.net(Part)
    t.minibatch(net, before=lambda k: setattr(net.part, "level", k % 2))
    t.see("memo", net.part.memo)
    t.see("made", net.part.made)


@habit(forms=FORMS)
def a_function_with_lru_cache_is_called(t: Any) -> None:
    made: list[int] = []

    @functools.cache
    def factor(level: int) -> float:
        made.append(level)
        return 1.0 / (1 + level)

    class Part(t.Part):
        def setup(self) -> None:
            self.level = 0

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * factor(self.level)

    net = t.net(Part)
    t.minibatch(net, before=lambda k: setattr(net.part, "level", k % 2))
    t.see("made", made)
    t.see("hits", factor.cache_info().hits)
