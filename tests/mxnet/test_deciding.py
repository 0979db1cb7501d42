"""Models that decide, on MXNet: side by side they give what they give one after the other."""

from __future__ import annotations

import pytest

from experiments.bench.engines import engine_of
from experiments.deciding import measure as measuring
from experiments.deciding.measure import Setting, measure
from experiments.deciding.programs import NAMES

pytest.importorskip("greenlet")


@pytest.mark.parametrize("name", NAMES)
def test_a_model_gives_in_every_way_what_it_gives_eagerly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "WARM_UP", 0)
    monkeypatch.setattr(measuring, "REPEATS", 1)
    setting = Setting(engine="mxnet", batch_size=4, hidden=8, in_flight=5, seed=1)
    for timed in measure(engine_of("zoo", "mxnet"), name, setting):
        assert not timed.faults()
        assert len(timed.sizes) > 1  # it decides
        assert len(timed.full) < len(timed.apart)
