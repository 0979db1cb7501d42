"""`verify` begins each run with the same state, tells stale traces and lost side effects, and leaves all as it was."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import gluonjit
from gluonjit.errors import VerifyError
from gluonjit.hybrid import LOCAL

COUNTED = {"calls": 0}
TOTAL = 0


class Way(NamedTuple):
    """A framework: a net that calls a cell with this function for each row of a sample, and samples for it."""

    net: Callable[[Callable[[Any, Any], Any]], Any]
    samples: Callable[[int], list[Any]]
    seeded: Callable[[], Any]  # a draw of the framework's after a seed was set


def mxnet_way() -> Way:
    import mxnet as mx
    from mxnet import gluon, nd

    class Cell(gluon.HybridBlock):
        def __init__(self, body: Any) -> None:
            super().__init__()
            self.dense, self.body = gluon.nn.Dense(3, in_units=3, flatten=False), body
            self.cfg, self.opt, self.factors, self.seen, self.count = (
                SimpleNamespace(beta=0.5),
                {"a": 2.0},
                [3.0],
                [],
                0,
            )

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return self.body(self, self.dense(x))

    class Net(gluon.Block):
        def __init__(self, body: Any) -> None:
            super().__init__()
            self.cell = Cell(body)

        def forward(self, x: Any) -> Any:
            for _ in range(2):
                x = self.cell(x)  # the line of the cell
            return x

    def net(body: Any) -> Any:
        made = Net(body)
        made.initialize()
        return made

    rows = np.random.RandomState(0)
    return Way(net, lambda count: [nd.array(rows.uniform(size=(1, 3))) for _ in range(count)], mx.random.seed)


def torch_way() -> Way:
    import torch

    class Cell(torch.nn.Module):
        def __init__(self, body: Any) -> None:
            super().__init__()
            self.dense, self.body = torch.nn.Linear(3, 3), body
            self.cfg, self.opt, self.factors, self.seen, self.count = (
                SimpleNamespace(beta=0.5),
                {"a": 2.0},
                [3.0],
                [],
                0,
            )
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            return self.body(self, self.dense(x))

    class Net(torch.nn.Module):
        def __init__(self, body: Any) -> None:
            super().__init__()
            self.cell = Cell(body)

        def forward(self, sample: Any) -> Any:
            x = sample.x
            for _ in range(2):
                x = self.cell(x)  # the line of the cell
            return x

    return Way(
        Net,
        lambda count: [SimpleNamespace(x=torch.randn(3)) for _ in range(count)],
        lambda: torch.get_rng_state().tolist(),
    )


@pytest.fixture
def way(engine: str) -> Way:
    return mxnet_way() if engine == "mxnet" else torch_way()


def eagerly() -> bool:
    """Whether nothing is captured: what a test plants, it does in one way of running alone."""
    return not LOCAL.state.inside and LOCAL.state.trace is None


def count_global() -> None:
    global TOTAL
    TOTAL += 1


LOST: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "a counter": (
        lambda cell, x: setattr(cell, "count", cell.count + 1),
        r"net\.cell\.count is 0 batched, and 8 eagerly",
    ),
    "a list": (lambda cell, x: cell.seen.append(1), r"net\.cell\.seen\[0\] is not there batched, and 1 eagerly"),
    "a dictionary": (lambda cell, x: cell.opt.update(b=1), r"net\.cell\.opt\['b'\] is not there"),
    "an object": (lambda cell, x: setattr(cell.cfg, "last", "x"), r"net\.cell\.cfg\.last is not there"),
    "a global dictionary": (lambda cell, x: COUNTED.update(calls=COUNTED["calls"] + 1), r"COUNTED\['calls'\] is 0"),
    "a global number": (lambda cell, x: count_global(), r"test_verify_state\.TOTAL is 0 batched, and 8 eagerly"),
    "an attribute of the class": (
        lambda cell, x: setattr(type(cell), "calls", getattr(type(cell), "calls", 0) + 1),
        r"Cell\.calls is not there batched, and 8 eagerly",
    ),
    "an array": (lambda cell, x: setattr(cell, "kept", [x]), r"net\.cell\.kept is not there"),
    "print": (
        lambda cell, x: print("step"),
        r"prints 0 lines and eager execution 8; line 1 is None, and 'step' eagerly",
    ),
}


@pytest.mark.parametrize("what", LOST)
def test_lost_side_effects_are_named(way: Way, what: str) -> None:
    effect, message = LOST[what]

    def body(cell: Any, x: Any) -> Any:
        if eagerly():
            effect(cell, x)
        return x * 0.5

    with pytest.raises(VerifyError, match=message) as raised:
        gluonjit.verify(way.net(body), way.samples(4))
    if what != "print":
        assert "They diverge in the call of" in str(raised.value) and "in sample 0 at " in str(raised.value)
    assert COUNTED == {"calls": 0} and TOTAL == 0, "all is as it was"


@pytest.mark.parametrize("what", LOST)
def test_side_effects_that_happen_for_each_sample_are_no_difference(way: Way, what: str) -> None:
    effect, _ = LOST[what]
    net = way.net(lambda cell, x: x * 0.5)
    forward = net.forward

    def forwards(sample: Any) -> Any:
        if what != "an array":
            effect(net.cell, None)
        out = forward(sample)
        net.cell.last = out  # computed when it is looked at, and as it is eagerly
        return out

    net.forward = forwards
    assert gluonjit.verify(net, way.samples(4)).nodes > 0
    assert (net.cell.count, net.cell.seen, net.cell.opt) == (0, [], {"a": 2.0})
    assert COUNTED == {"calls": 0} and TOTAL == 0 and not hasattr(net.cell, "last")


FACTORS: dict[str, tuple[Callable[[Any], float], Callable[[Any], Any]]] = {
    "an object's attribute": (lambda cell: cell.cfg.beta, lambda cell: setattr(cell.cfg, "beta", 5.0)),
    "an item of a dictionary": (lambda cell: cell.opt["a"], lambda cell: cell.opt.update(a=5.0)),
    "an item of a list": (lambda cell: cell.factors[0], lambda cell: cell.factors.__setitem__(0, 5.0)),
    "a global": (lambda cell: 1.0 + COUNTED["calls"], lambda cell: COUNTED.update(calls=4)),
}


@pytest.mark.parametrize("what", FACTORS)
def test_stale_values_are_found_or_there_are_none(way: Way, what: str) -> None:
    read, change = FACTORS[what]
    net = gluonjit.hybridize(way.net(lambda cell, x: x * read(cell)), granularity="cell")
    samples = way.samples(3)
    gluonjit.verify(net, samples)
    change(net.cell)
    try:
        gluonjit.verify(net, samples)  # right, where the change is noticed
    except VerifyError as error:
        text = str(error)
        assert "the first call that differs is that of " in text and "in sample 0 at " in text
        assert "a call was traced when something that its Python reads" in text
        gluonjit.verify(net, samples)
    COUNTED["calls"] = 0


def test_what_was_traced_in_inference_alone_is_found_or_right(way: Way) -> None:
    """Traces are those of the program so far, which never recorded, and let the library choose how to capture."""
    net = gluonjit.hybridize(way.net(lambda cell, x: x * cell.cfg.beta))
    samples = way.samples(3)
    for _ in range(20):
        assert all(
            float(output.sum().asscalar() if hasattr(output, "asscalar") else output.sum().item()) < 1e9
            for output in [net(sample) for sample in samples]
        )
    net.cell.cfg.beta = 5.0
    try:
        gluonjit.verify(net, samples)
    except VerifyError as error:
        assert "the first call that differs is that of " in str(error) and "(This is with train_mode=" in str(error)


def test_a_stale_value_is_found(way: Way) -> None:
    with pytest.raises(
        VerifyError, match=r"the first call that differs is that of .* in sample 0 at .*test_verify_state"
    ):
        gluonjit.verify(way.net(lambda cell, x: x * (cell.cfg.beta if eagerly() else 1.0)), way.samples(3))


def test_runs_begin_alike(way: Way) -> None:
    """State that the net itself changes from sample to sample, and what Python draws."""
    net = way.net(lambda cell, x: x * 0.5)
    forward = net.forward

    def forwards(sample: Any) -> Any:
        net.cell.count += 1
        COUNTED["calls"] += 1
        return forward(sample) * float(net.cell.count + COUNTED["calls"] + random.random() + np.random.uniform())

    net.forward = forwards
    before, numbers = random.getstate(), np.random.get_state()[1].tolist()
    for _ in range(2):
        gluonjit.verify(net, way.samples(3))
    assert (net.cell.count, COUNTED) == (0, {"calls": 0})
    assert random.getstate() == before and np.random.get_state()[1].tolist() == numbers


def test_clocks_are_no_difference(way: Way) -> None:
    ticks = iter(range(10**6))
    net = way.net(lambda cell, x: x * 0.5)
    forward = net.forward

    def forwards(sample: Any) -> Any:
        net.cell.count = next(ticks)
        return forward(sample)

    net.forward = forwards
    assert gluonjit.verify(net, way.samples(3)).nodes > 0


def test_a_placeholder_that_is_kept_is_told(way: Way) -> None:
    """A trace runs once: what it keeps is neither each sample's value nor any."""

    def body(cell: Any, x: Any) -> Any:
        cell.seen.append(x)
        return x * 0.5

    net = gluonjit.hybridize(way.net(body), granularity="cell")
    try:
        gluonjit.verify(net, way.samples(3))  # right, where such a call is no node
    except VerifyError as error:
        assert "net.cell.seen[" in str(error)
    assert net.cell.seen == []


def test_buffers_are_state() -> None:
    torch = pytest.importorskip("torch")

    def body(cell: Any, x: Any) -> Any:
        if eagerly():
            with torch.no_grad():
                cell.mean += x.detach()
        return x * 0.5

    net = torch_way().net(body)
    with pytest.raises(VerifyError, match=r"net\.cell\.mean is .* They diverge in the call of Cell in sample 0"):
        gluonjit.verify(net, torch_way().samples(3))
    assert not net.cell.mean.any()


def test_stale_weights_are_found() -> None:
    """A weight that was written to, or replaced, in a way that nobody notices."""
    torch = pytest.importorskip("torch")
    way = torch_way()
    net = gluonjit.hybridize(way.net(lambda cell, x: x * 0.5), granularity="cell")
    samples = way.samples(3)
    sum(output.sum() for output in [net(sample) for sample in samples]).backward()
    for cell in (net.cell.__dict__["_gluonjit"], net.cell.dense.__dict__["_gluonjit"]):
        for kind in cell.kinds.values():
            kind.program.consts[:] = [const.detach().clone() for const in kind.program.consts]
    with torch.no_grad():
        net.cell.dense.weight.mul_(2.0)
    with pytest.raises(VerifyError, match=r"With all caches cleared they agree"):
        gluonjit.verify(net, samples)


def test_a_weight_that_is_written_before_backward() -> None:
    torch = pytest.importorskip("torch")
    way = torch_way()
    net = gluonjit.hybridize(way.net(lambda cell, x: x.tanh()), granularity="cell")

    def loss(output: Any, sample: Any) -> Any:
        with torch.no_grad():
            net.cell.dense.weight.add_(0.0 if LOCAL.state.paused else 0.5)
        return output.sum()

    with pytest.raises((VerifyError, RuntimeError)):
        gluonjit.verify(net, way.samples(3), loss)
