"""Flushes that are not waited for: values are those of a flush that is, to the last bit, whatever happens meanwhile."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.compiled import ROWS
from gluonjit.hybrid.run.batch import MOST_AHEAD

WAY: dict[str, Any] = {"granularity": "cell", "scheduler": "depth", "sharing": True}
SIZE = 12
in_c = pytest.mark.skipif(ROWS is None, reason="gluonjit._rows is not there, or GLUONJIT_PURE is set")


class Cell(nn.Module):
    """A recurrent step, with a weight that is packed, a bias and a scale that are read as they lie."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(2 * SIZE, SIZE)
        self.scale = nn.Parameter(torch.rand(SIZE))

    def forward(self, x: Any, h: Any) -> Any:
        return torch.tanh(self.both(torch.cat([x, h], -1))) * self.scale


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, SIZE)
        self.cell = Cell()

    def forward(self, words: list[int]) -> Any:
        found = self.embed(torch.tensor(words))
        h = torch.zeros(SIZE)
        for k in range(len(words)):
            h = self.cell(found[k], h)
        return h


def minibatch(number: int) -> list[list[int]]:
    return [[(number + 3 * k + i) % 20 for i in range(1 + (number + k) % 7)] for k in range(6)]


@pytest.fixture
def net() -> Any:
    torch.manual_seed(0)
    return gluonjit.hybridize(Net().eval(), **WAY)


def waited_for(net: Any, number: int) -> list[Any]:
    """A minibatch's results, of a flush that is waited for."""
    with torch.no_grad(), gluonjit.batching(**WAY) as batch:
        found = [net(words) for words in minibatch(number)]
        batch.flush()
    return [torch.clone(h) for h in found]


def same(found: Any, wanted: Any) -> None:
    assert len(found) == len(wanted)
    for mine, other in zip(found, wanted):
        assert torch.equal(torch.clone(mine), other)


def ahead(batch: Any) -> int:
    """How many flushes of a batch nobody has waited for."""
    return len([session for session in batch.ahead if session.ahead is not None])


def test_the_next_minibatch_is_captured_meanwhile(net: Any) -> None:
    wanted = [waited_for(net, number) for number in range(5)]
    found, before = [], None
    with torch.no_grad(), gluonjit.batching(**WAY) as batch:
        for number in range(5):
            results = [net(words) for words in minibatch(number)]
            batch.flush(wait=False)
            assert ahead(batch) == (0 if ROWS is None else min(number + 1, 2))
            if before is not None:
                found.append([torch.clone(h) for h in before])
            before = results
        found.append([torch.clone(h) for h in before or []])
    assert batch.report.flushes == 5
    assert ROWS is None or batch.report.fused == batch.report.launches
    eager = gluonjit.hybridize(net, dynamic_batch=False)
    for mine, other, number in zip(found, wanted, range(5)):
        same(mine, other)
        for h, words in zip(mine, minibatch(number)):
            assert torch.allclose(h, eager(words), rtol=1e-5, atol=1e-6)


@in_c
def test_no_more_are_under_way_than_one_and_the_next(net: Any) -> None:
    with torch.no_grad(), gluonjit.batching(**WAY) as batch:
        kept = []
        for number in range(6):
            kept.append([net(words) for words in minibatch(number)])
            batch.flush(wait=False)
            assert ahead(batch) <= MOST_AHEAD
        batch.flush()
        assert not batch.ahead
        for number, found in enumerate(kept):
            same(found, waited_for(net, number))


def two_ahead(net: Any, batch: Any) -> list[list[Any]]:
    """The results of two minibatches that were flushed without waiting."""
    results = []
    for number in range(2):
        results.append([net(words) for words in minibatch(number)])
        batch.flush(wait=False)
    return results


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 0, 3, 3, 1]])
def test_values_are_read_in_any_order(net: Any, order: list[int]) -> None:
    wanted = [waited_for(net, number) for number in range(2)]
    with torch.no_grad(), gluonjit.batching(**WAY) as batch:
        results = two_ahead(net, batch)
        for number in (1, 0):
            same([results[number][k] for k in order], [wanted[number][k] for k in order])


READS: dict[str, Callable[[Any], Any]] = {
    "tolist": lambda h: h.tolist(),
    "repr": lambda h: eval(repr(h), {"tensor": torch.tensor}).shape == (SIZE,) and h.tolist(),
    "numpy": lambda h: h.numpy().tolist(),
    "item": lambda h: [h[k].item() for k in range(SIZE)],
    "pickle": lambda h: pickle.loads(pickle.dumps(h)).tolist(),
    "deepcopy": lambda h: copy.deepcopy(h).tolist(),
    "slice": lambda h: [*h[:5].tolist(), *h[5:].tolist()],
    "stack": lambda h: torch.stack([h, h])[1].tolist(),
    "out": lambda h: torch.add(h, 0.0, out=torch.empty(SIZE)).tolist(),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("inside", [True, False])
def test_every_read_waits(net: Any, read: str, inside: bool) -> None:
    wanted = waited_for(net, 3)
    with torch.no_grad(), gluonjit.batching(**WAY) as batch:
        found = [net(words) for words in minibatch(3)]
        batch.flush(wait=False)
        if inside:
            assert [READS[read](h) for h in found] == [h.tolist() for h in wanted]
    assert [READS[read](h) for h in found] == [h.tolist() for h in wanted]


def test_a_value_is_an_operand_of_what_is_captured_next(net: Any) -> None:
    cell = net.cell
    with torch.no_grad(), gluonjit.batching(**WAY) as batch:
        first = [net(words) for words in minibatch(0)]
        batch.flush(wait=False)
        second = [cell(first[1], h) + first[0] for h in first]
        batch.flush(wait=False)
        third = [cell(h, first[2]) for h in second]
    wanted = waited_for(net, 0)
    with torch.no_grad():
        after = [gluonjit.hybridize(copy.deepcopy(cell), dynamic_batch=False)(wanted[1], h) + wanted[0] for h in wanted]
        last = [gluonjit.hybridize(copy.deepcopy(cell), dynamic_batch=False)(h, wanted[2]) for h in after]
    for mine, other in zip([*second, *third], [*after, *last]):
        assert torch.allclose(torch.clone(mine), other, rtol=1e-5, atol=1e-6)


def write_in_place(net: Any) -> None:
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(1.5).add_(0.25)


def write_data(net: Any) -> None:
    for weight in net.parameters():
        weight.data = torch.ones_like(weight)


def step(net: Any) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for weight in net.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()


def load(net: Any) -> None:
    net.load_state_dict({name: weight * 2 for name, weight in net.state_dict().items()})


def fill_memory(net: Any) -> None:
    for weight in net.parameters():
        weight.detach().numpy()[...] = 0.125  # which PyTorch does not count


WRITES = {f.__name__: f for f in (write_in_place, write_data, step, load, fill_memory)}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("thread", [True, False])
def test_what_is_written_to_weights_meanwhile_does_not_show(net: Any, write: str, thread: bool) -> None:
    wanted = [waited_for(net, number) for number in range(2)]
    with torch.no_grad(), gluonjit.batching(**WAY) as batch:
        results = two_ahead(net, batch)
        if thread:
            writer = threading.Thread(target=WRITES[write], args=(net,))
            writer.start()
            writer.join()
        else:
            WRITES[write](net)
        for found, other in zip(results, wanted):
            same(found, other)
        later = [net(words) for words in minibatch(0)]
        batch.flush(wait=False)
        assert not torch.equal(torch.clone(later[0]), wanted[0][0])
    same(later, waited_for(net, 0))


def test_inputs_may_be_written_to_meanwhile(net: Any) -> None:
    for size in (SIZE, 40_000):  # the second one is not copied when it is captured
        x, y = torch.rand(size), torch.rand(size)
        cell = gluonjit.hybridize(Twice().eval(), **WAY)
        wanted = (x + x * y).clone()
        with torch.no_grad(), gluonjit.batching(**WAY) as batch:
            found = cell(x, y)
            batch.flush(wait=False)
            x.fill_(7.0)
            assert torch.equal(torch.clone(found), wanted)


class Twice(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x + x * y


def test_what_is_recorded_is_waited_for(net: Any) -> None:
    with gluonjit.batching(**WAY) as batch:
        found = [net(words) for words in minibatch(0)]
        batch.flush(wait=False)
        assert not ahead(batch)
        torch.stack(found).sum().backward()
    assert net.cell.scale.grad is not None


@pytest.mark.parametrize("option", [{"profile": True}, {"check_finite": True}, {"without": ("fused",)}])
def test_what_looks_at_steps_waits(net: Any, option: dict[str, Any]) -> None:
    wanted = waited_for(net, 1)
    with torch.no_grad(), gluonjit.batching(**WAY, **option) as batch:
        gluonjit.hybridize(net, **WAY, **option)
        found = [net(words) for words in minibatch(1)]
        batch.flush(wait=False)
        assert not ahead(batch)
    for mine, other in zip(found, wanted):
        assert torch.allclose(torch.clone(mine), other, rtol=1e-5, atol=1e-6)


def test_a_step_of_pytorchs_in_the_middle_runs_first(net: Any) -> None:
    class Ends(nn.Module):
        def __init__(self, last: Any) -> None:
            super().__init__()
            self.net, self.last = net, last

        def forward(self, words: list[int]) -> Any:
            return self.last(torch.special.erfinv(self.net(words) * 0.1))

    for last, left in ((net.cell.both.bias.mul, 1), (torch.special.erfinv, 0)):
        ends = gluonjit.hybridize(Ends(last).eval(), granularity="op", scheduler="depth", outline=False)
        with torch.no_grad(), gluonjit.batching(granularity="op", scheduler="depth") as batch:
            found = [ends(words) for words in minibatch(2)]
            batch.flush(wait=False)
            assert ahead(batch) == (0 if ROWS is None else left)
        wanted = [last(torch.special.erfinv(h * 0.1)) for h in waited_for(net, 2)]
        for mine, other in zip(found, wanted):
            assert torch.allclose(torch.clone(mine), other.detach(), rtol=1e-5, atol=1e-6)


def test_inference_mode(net: Any) -> None:
    wanted = waited_for(net, 4)
    with torch.inference_mode(), gluonjit.batching(**WAY) as batch:
        found = [net(words) for words in minibatch(4)]
        batch.flush(wait=False)
        assert [h.tolist() for h in found] == [h.tolist() for h in wanted]
    x = torch.clone(found[0]).requires_grad_()  # as of any flush
    (x * found[1]).sum().backward()
    assert torch.equal(x.grad, wanted[1])


def test_the_end_of_the_scope_waits(net: Any) -> None:
    with torch.no_grad(), gluonjit.batching(**WAY) as batch:
        found = [net(words) for words in minibatch(0)]
        batch.flush(wait=False)
    assert not batch.ahead
    same(found, waited_for(net, 0))


def test_an_exception_leaves_what_was_flushed(net: Any) -> None:
    found: list[Any] = []
    with pytest.raises(ZeroDivisionError), torch.no_grad(), gluonjit.batching(**WAY) as batch:
        found += [net(words) for words in minibatch(0)]
        batch.flush(wait=False)
        net(minibatch(1)[0])
        raise ZeroDivisionError
    same(found, waited_for(net, 0))


def test_nobody_has_to_read(net: Any) -> None:
    with torch.no_grad(), gluonjit.batching(**WAY) as batch:
        for number in range(4):
            [net(words) for words in minibatch(number)]
            found = net(minibatch(number)[-1])
            batch.flush(wait=False)
            del found
            batch.ahead.clear()
            gc.collect()
        found = [net(words) for words in minibatch(9)]
        batch.flush(wait=False)
    same(found, waited_for(net, 9))


def test_another_thread_reads(net: Any) -> None:
    wanted = waited_for(net, 0)
    with torch.no_grad(), gluonjit.batching(**WAY) as batch:
        results = [net(words) for words in minibatch(0)]
        batch.flush(wait=False)
        found: list[list[float]] = []
        readers = [threading.Thread(target=lambda: found.extend([h.tolist() for h in results])) for _ in range(3)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert found == 3 * [h.tolist() for h in wanted]


@in_c
def test_the_step_that_fails_is_named_whenever_it_is_read(net: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(programs: Any, launches: Any, *rest: Any) -> Any:
        launches[1, 0] = 99
        return ROWS.start(programs, launches, *rest)

    names = ("OPS", "pack", "packed_size", "run")
    wanted = waited_for(net, 0)
    with torch.no_grad(), gluonjit.batching(**WAY) as batch:
        net(minibatch(0)[0])
        batch.flush()
        with monkeypatch.context() as patch:
            known = {name: getattr(ROWS, name) for name in names}
            patch.setattr("gluonjit.rows.running.ROWS", SimpleNamespace(start=broken, **known))
            found = [net(words) for words in minibatch(0)]
            batch.flush(wait=False)
        for h in found[:2]:
            with pytest.raises(gluonjit.FlushError, match=r"no such program.*test_ahead\.py:\d+ in .*forward"):
                h.tolist()
        assert ahead(batch) == 1
        again = [net(words) for words in minibatch(0)]
        with pytest.raises(gluonjit.FlushError, match="no such program"):
            batch.flush()
    same(again, wanted)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_reads_what_was_under_way(net: Any) -> None:
    wanted = [waited_for(net, number) for number in range(2)]
    with torch.no_grad(), gluonjit.batching(**WAY) as batch:
        found = [net(words) for words in minibatch(0)]
        batch.flush(wait=False)
        child = os.fork()
        if not child:
            good = all(torch.equal(torch.clone(mine), other) for mine, other in zip(found, wanted[0]))
            with gluonjit.batching(**WAY) as other_batch:
                more = [net(words) for words in minibatch(1)]
                other_batch.flush(wait=False)
                good = good and all(torch.equal(torch.clone(mine), other) for mine, other in zip(more, wanted[1]))
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0
        same(found, wanted[0])


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "os._exit(0)"])
def test_the_process_ends_with_one_under_way(end: str) -> None:
    source = f"""
        import os, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_ahead import *
        net = gluonjit.hybridize(Net().eval(), **WAY)
        scope = gluonjit.batching(**WAY)
        batch = scope.__enter__()
        torch._C._set_grad_enabled(False)
        kept = [net([k % 20 for k in range(n)]) for n in range(1, 200)]
        batch.flush(wait=False)
        {end}
        """
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    assert not ran.stderr
