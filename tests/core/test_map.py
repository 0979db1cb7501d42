"""`gluonjit.map` on the engine on numpy: samples that read values alternate in one thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gluonjit
from gluonjit.engines.numpy.array import Model, WeightArray, array
from gluonjit.hybrid.run.state import LOCAL

pytest.importorskip("greenlet")
pytestmark = pytest.mark.usefixtures("numpy_engine")


class Doubling(Model):
    """Grows until what it reads has come to a limit."""

    def __init__(self) -> None:
        self.weight = WeightArray(np.full((3, 3), 0.5, "float32"))

    def forward(self, x: Any) -> Any:
        h, steps = array(x), 0
        while np.asarray(h).sum() < 50.0:
            h = h @ self.weight + h
            steps += 1
        return h, steps


def test_samples_alternate_and_each_has_its_nesting_of_calls() -> None:
    inputs = [np.full(3, 1.0 + k, "float32") for k in range(5)]
    expected = [Doubling()(x) for x in inputs]
    net = Doubling()
    gluonjit.hybridize(net, dynamic_batch=True)
    inside: list[tuple[int, int]] = []

    def run(number: int) -> Any:
        found = net(inputs[number])
        inside.append((number, LOCAL.state.inside))
        return found

    found = gluonjit.map(run, range(5))
    for (h, steps), (wanted, count) in zip(found, expected):
        np.testing.assert_allclose(np.asarray(h), np.asarray(wanted), rtol=1e-5)
        assert steps == count
    assert inside == [(number, 0) for number in sorted(range(5), key=lambda number: (expected[number][1], number))]
    report = gluonjit.explain()
    assert report.flushes == max(steps for _, steps in expected)
