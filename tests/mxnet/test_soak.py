"""A short soak: neither Python objects nor cache entries pile up over minibatches of ever new structure."""

from __future__ import annotations

import collections
import gc
import json
from pathlib import Path

import mxnet as mx
import pytest

import gluonjit
from experiments import soak

WARM_UP, MINIBATCHES = 100, 300


def objects() -> collections.Counter[str]:
    """Live objects by type."""
    mx.nd.waitall()
    gc.collect()
    return collections.Counter(type(found).__qualname__ for found in gc.get_objects())


@pytest.mark.filterwarnings("ignore")  # the test runner keeps warnings, and they would be what grows
def test_objects_and_caches_do_not_grow() -> None:
    gluonjit.clear_caches()
    run = soak.Soak(seed=1)
    for _ in range(WARM_UP):
        run.step()
    before = objects()
    for _ in range(MINIBATCHES - WARM_UP):
        run.step()
    grown = {name: count - before[name] for name, count in objects().items() if count - before[name] > 50}
    # What may still come: kinds of cells with more children, or of sums with other numbers of terms.
    info = soak.caches()
    assert all(count <= soak.BOUNDS[name] for name, count in info.items()), info
    assert grown.get("NDArray", 0) + grown.get("LazyArray", 0) + grown.get("Value", 0) == 0, grown
    for name in ("Graph", "Batch", "Session", "Tape", "Record", "Leaf"):
        assert grown.get(name, 0) == 0, grown
    assert sum(grown.values()) < 10 * (MINIBATCHES - WARM_UP), grown


def test_clearing_empties_every_cache() -> None:
    run = soak.Soak(seed=2)
    run.net.hybridize(dynamic_batch=True, reuse=lambda tokens, tree: id(tree))
    run.step()
    assert all(soak.caches().values())
    gluonjit.clear_caches()
    assert not any(gluonjit.cache_info().values())
    soak.Soak(seed=2).step()


def test_calls_that_are_not_one_node_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from gluonjit.hybrid.capture import capturing

    monkeypatch.setattr(capturing, "MOST_KINDS", 8)

    @gluonjit.cell
    def reads(x: object, number: float) -> object:
        return x * float(x.asnumpy().sum() + number)  # type: ignore[attr-defined,operator]

    with gluonjit.batching():
        for number in range(30):
            reads(mx.nd.ones((1, 2)), float(number))
    assert reads.caches["mxnet"].entries() <= 8


def test_the_command_writes_what_it_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "soak.json"
    soak.main(["--minibatches", "12", "--warm-up", "6", "--seed", "3", "--json", str(path)])
    found = json.loads(path.read_text())
    assert found["minibatches"] == 12 and not found["interrupted"]
    assert found["bytes_after_warm_up"] and found["bytes_at_the_end"] and set(found["caches"]) == set(soak.BOUNDS)
    assert "12 minibatches, growth after 6:" in capsys.readouterr().out


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter(range(4))

    def step(self: soak.Soak) -> float:
        if next(steps) == 3:
            raise KeyboardInterrupt
        return 0.0

    monkeypatch.setattr(soak.Soak, "step", step)
    path = tmp_path / "soak.json"
    assert soak.main(["--minibatches", "12", "--warm-up", "6", "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    assert found["interrupted"] and found["minibatches"] == 3 and found["growth_percent"] is None
