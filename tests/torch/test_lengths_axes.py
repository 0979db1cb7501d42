"""Cells on operands whose lengths are not those of their first axes: (1, n), (1, n, d), (C, n), (n, n), (2, m)."""

from __future__ import annotations

import copy
import random
from typing import Any, Callable

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.analysis.simulate.trace_file import read_trace
from gluonjit.engines.torch.lengths.program import Ragged
from tests.common.torch_lengths import assert_as_eagerly, met, numbers, samples, whole
from tests.common.torch_support import assert_close

C, WORDS = 8, 20


class Model(nn.Module):
    """Layers that a program for one sample is made of."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body = body
        self.embed, self.out = nn.Embedding(WORDS, C), nn.Linear(C, 3)
        self.q, self.k, self.norm = nn.Linear(C, C), nn.Linear(C, C), nn.LayerNorm(C)
        self.narrow = nn.Conv1d(C, C, 3, padding=1)
        self.heads = nn.MultiheadAttention(C, 2, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(C, 2, 12, dropout=0.0, batch_first=True)

    def forward(self, *given: Any) -> Any:
        return self.body(self, *given)


def laplacian(a: Any) -> Any:
    """Of numbers below zero it is none."""
    a = a + torch.eye(a.shape[0])
    d = a.sum(1).rsqrt()
    return a * d[:, None] * d[None]


Bodies = dict[str, tuple[Callable[..., Any], Callable[[Any, int], tuple[Any, ...]]]]
BODIES: Bodies = {
    "tokens": (
        lambda net, t: net.out(torch.relu(net.q(net.embed(t)))).mean(1),
        lambda draw, n: (whole(draw, WORDS, 1, n),),
    ),
    "tokens and a layer": (
        lambda net, t: net.out(net.encoder(net.embed(t)).mean(1)),
        lambda draw, n: (whole(draw, WORDS, 1, n),),
    ),
    "rows of one sample": (
        lambda net, x: net.out(net.norm(net.q(x)).relu()).amax(1),
        lambda draw, n: (numbers(draw, 1, n, C),),
    ),
    "under two axes": (
        lambda net, x: net.out(net.q(x).relu()).sum((1, 2)),
        lambda draw, n: (numbers(draw, 1, 1, n, C),),
    ),
    "given back": (lambda net, x: net.out(net.norm(x).relu()), lambda draw, n: (numbers(draw, 1, n, C),)),
    "given back in rows": (lambda net, x: net.out(net.norm(x).relu())[0], lambda draw, n: (numbers(draw, 1, n, C),)),
    "channels": (lambda net, x: net.narrow(x).relu().amax(-1), lambda draw, n: (numbers(draw, 1, C, n),)),
    "channels given back": (lambda net, x: net.narrow(x).relu(), lambda draw, n: (numbers(draw, 1, C, n),)),
    "pixels of a page": (
        lambda net, x: net.q(x.relu().flatten(2).transpose(1, 2)).amax(1),
        lambda draw, n: (numbers(draw, 1, C, n, 3),),
    ),
    "halves of a page": (
        lambda net, x: net.q(x.tanh().view(1, C, -1, 2).transpose(1, 3)).amax((1, 2)),
        lambda draw, n: (numbers(draw, 1, C, n, 4),),
    ),
    "channels first": (lambda net, x: net.narrow(x).relu().amax(-1), lambda draw, n: (numbers(draw, C, n),)),
    "channels first, given back": (lambda net, x: x.tanh(), lambda draw, n: (numbers(draw, C, n),)),
    "attention to another": (
        lambda net, x, y: net.norm(x + net.heads(x, y, y, need_weights=False)[0])[:, 0],
        lambda draw, n: (numbers(draw, 1, n, C), numbers(draw, 1, n % 3 + 2, C)),
    ),
    "weights given back": (
        lambda net, x, y: net.heads(x, y, y),
        lambda draw, n: (numbers(draw, 1, n, C), numbers(draw, 1, n % 3 + 2, C)),
    ),
    "an adjacency": (
        lambda net, x, a: net.out((laplacian(a) @ net.q(x)).relu()).mean(0),
        lambda draw, n: (numbers(draw, n, C), numbers(draw, n, n).abs()),
    ),
    "an adjacency given back": (
        lambda net, x, a: a * 2 + net.q(x) @ x.t(),
        lambda draw, n: (numbers(draw, n, C), numbers(draw, n, n)),
    ),
    "edges": (
        lambda net, x, e: torch.zeros_like(x).index_add(0, e[1], net.q(x).index_select(0, e[0])).relu().mean(0),
        lambda draw, n: (numbers(draw, n, C), whole(draw, n, 2, n + 3)),
    ),
    "a number for each": (
        lambda net, x, w: net.out(net.q(x) * w[:, None]).mean(0),
        lambda draw, n: (numbers(draw, n, C), numbers(draw, n)),
    ),
    "a fixed one beside": (
        lambda net, x, y: net.out(torch.softmax(net.q(x) @ y.t(), -1) @ y).mean(1),
        lambda draw, n: (numbers(draw, 1, n, C), numbers(draw, 4, C)),
    ),
    "two axes that differ": (
        lambda net, x: net.norm(x).relu().sum((0, 1)),
        lambda draw, n: (numbers(draw, n, n % 3 + 2, C),),
    ),
}


def both(body: Callable[..., Any]) -> tuple[Any, Any]:
    torch.manual_seed(0)
    net = Model(body)
    return net, gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True)


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_lengths_along_any_axes_are_one_kind(name: str, learns: bool) -> None:
    body, make = BODIES[name]
    eager, net = both(body)
    met(net, make)
    for lengths in ((9,), (5, 2, 11), (4, 10, 6, 12, 3, 7, 5, 13)):
        report = assert_as_eagerly(eager, net, samples(make, len(lengths), lengths), learns)
    assert report.kinds["Model"].nodes == 8
    assert report.kinds["Model"].launches == 1


def test_as_many_samples_as_there_are() -> None:
    body, make = BODIES["attention to another"]
    eager, net = both(body)
    met(net, make)
    draw = random.Random(0)
    for count in (1, 3, 8, 32):
        report = assert_as_eagerly(eager, net, samples(make, count, [draw.randint(2, 9) for _ in range(count)]))
        assert report.kinds["Model"].launches == 1


def test_operands_of_the_first_batch_stay_as_they_were_captured() -> None:
    """Its first calls are of kinds for one length each, before anything is known of others."""
    body, make = BODIES["rows of one sample"]
    eager, net = both(body)
    assert_as_eagerly(eager, net, samples(make, 0, (3, 3, 5, 3, 5, 4, 3)), True)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "evaluated": lambda net: net.eval(),
    "frozen": lambda net: net.out.requires_grad_(False),
    "another layer": lambda net: net.add_module("k", nn.Linear(C, C)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["channels given back", "rows of one sample", "an adjacency"])
def test_a_model_that_changes_between_minibatches(name: str, change: str) -> None:
    body, make = BODIES[name]
    eager, net = both(body)
    met(net, make)
    for model in (eager, net):
        CHANGES[change](model)
    for seed, lengths in enumerate(((6,), (4, 9, 5), (3, 7))):
        assert_as_eagerly(eager, net, samples(make, seed, lengths))


def test_an_input_that_is_written_to() -> None:
    body, make = BODIES["rows of one sample"]
    eager, net = both(body)
    met(net, make)
    ((x,),) = samples(make, 0, (6,))
    wanted = [eager(x), eager(x * 2)]
    with gluonjit.batching(granularity="cell"):
        found = [net(x)]
        x.mul_(2)
        found.append(net(x))
    for one, other in zip(found, wanted):
        assert_close(one, other, "a result", 1e-4)
    ((x,),) = samples(make, 0, (2000,))
    with pytest.raises(gluonjit.CaptureError, match=r"shape \(1, 2000, 8\) was written to"):
        with gluonjit.batching(granularity="cell", copy_inputs=1000):
            late = net(x)
            x.mul_(2)
            late.tolist()


def test_memory_of_an_input_stays_the_programs_own() -> None:
    make = BODIES["given back"][1]
    net = both(lambda net, x: x * 1.0)[1]
    met(net, make)
    ((x,),) = samples(make, 0, (5,))
    with gluonjit.batching(granularity="cell"):
        found = net(x)
    kept = found.detach().clone()
    x.zero_()
    assert_close(found, kept, "a result", 0)


@pytest.mark.parametrize("options", [{"check_finite": True}, {"profile": True}, {"sharing": False}])
def test_ways_to_run(options: dict[str, Any]) -> None:
    for name in ("tokens and a layer", "channels", "an adjacency"):
        body, make = BODIES[name]
        eager, net = both(body)
        met(net, make)
        assert_as_eagerly(eager, net, samples(make, 0, (4, 10, 6, 4, 3)), **options)


def test_gradients_of_gradients() -> None:
    make = BODIES["rows of one sample"][1]
    eager, net = both(lambda net, x: net.out(net.q(x).tanh()).pow(2).mean(1))
    met(net, make)
    found = []
    for model in (eager, net):
        with gluonjit.batching(granularity="cell"):
            total = sum(model(x).pow(2).sum() for (x,) in samples(make, 0, (3, 5, 4)))
        (first,) = torch.autograd.grad(total, [model.q.weight], create_graph=True)
        found.append(torch.autograd.grad(first.pow(2).sum(), [model.out.weight])[0])
    assert_close(*found, "a second gradient", 1e-4)


def test_a_reused_function_of_such_operands() -> None:
    body, make = BODIES["rows of one sample"]
    torch.manual_seed(0)
    eager = Model(body)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, reuse=lambda x: x.shape)
    for seed in range(4):
        assert_as_eagerly(eager, net, samples(make, seed, (4, 10, 6, 4, 3)), granularity="cell")


def test_operands_lie_in_rows_of_the_program() -> None:
    body, make = BODIES["an adjacency"]
    net = both(body)[1]
    met(net, make)
    kinds = [kind for kind in net.__dict__["_gluonjit"].kinds.values() if isinstance(kind.program, Ragged)]
    assert {kind.operands[1].mode for kind in kinds} == {"rows2"}
    assert {kind.operands[1].row_shape for kind in kinds} == {()}
    assert all(kind.operands[1].rows == kind.operands[0].rows ** 2 for kind in kinds)
    assert len({kind.family for kind in kinds}) == 1


def test_a_graph_of_such_operands_is_saved_and_read(tmp_path: Any) -> None:
    body, make = BODIES["an adjacency given back"]
    net = both(body)[1]
    met(net, make)
    path = tmp_path / "saved.json.gz"
    with gluonjit.batching(granularity="cell") as batch:
        found = [net(*sample) for sample in samples(make, 0, (3, 7, 5, 4))]
        batch.save_trace(path)
    assert len(found) == 4
    trace = read_trace(path)
    assert trace.nodes == 4
    assert len({kind.kind.family for kind in trace.kinds}) == 1
    assert [kind.kind.operands[1].rows for kind in trace.kinds] == [9, 49, 25, 16]
