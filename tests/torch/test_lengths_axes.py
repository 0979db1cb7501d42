"""Cells on operands whose lengths are not those of their first axes: (1, n), (1, n, d), (C, n), (n, n), (2, m)."""

from __future__ import annotations

import copy
import random
from contextlib import nullcontext
from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import gluonjit  # noqa: E402
from gluonjit.analysis import traces  # noqa: E402
from gluonjit.engines.torch.ragged.program import Ragged  # noqa: E402
from tests.common.torch_support import assert_close  # noqa: E402

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


def numbers(draw: Any, *shape: int) -> Any:
    return torch.randn(shape, generator=draw)


def whole(draw: Any, most: int, *shape: int) -> Any:
    return torch.randint(most, shape, generator=draw)


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


def flat(found: Any) -> list[Any]:
    return [item for part in found for item in flat(part)] if isinstance(found, (tuple, list)) else [found]


def samples(make: Callable[[Any, int], tuple[Any, ...]], seed: int, lengths: Any) -> list[tuple[Any, ...]]:
    draw = torch.Generator().manual_seed(seed)
    return [make(draw, length) for length in lengths]


def run(net: Any, given: list[tuple[Any, ...]], learns: bool, **options: Any) -> tuple[list[Any], list[Any], Any]:
    """Results, gradients of weights and of inputs that learn, and the report of a minibatch."""
    net.zero_grad()
    own = [tuple([x.clone().requires_grad_(learns and x.is_floating_point()) for x in sample]) for sample in given]
    region = gluonjit.batching(**options) if options else nullcontext()
    with region as batch:
        found = [flat(net(*sample)) for sample in own]
        items = [item for each in found for item in each]
        total = sum((item * torch.linspace(1, 2, item.numel()).view(item.shape)).sum() for item in items)
        if total.requires_grad:
            total.backward()
    kept = [item.detach().clone() for item in items]
    leaves = [*net.parameters(), *[x for sample in own for x in sample if x.requires_grad]]
    return kept, [None if leaf.grad is None else leaf.grad.clone() for leaf in leaves], batch and batch.report


def assert_as_eagerly(eager: Any, net: Any, given: list[Any], learns: bool = False, **options: Any) -> Any:
    """Compare a minibatch with the eager program, and return its report."""
    wanted, gradients, _ = run(eager, given, learns)
    found, own, report = run(net, given, learns, **{"granularity": "cell", **options})
    for number, (one, other) in enumerate(zip(found, wanted)):
        assert_close(one, other, f"result {number}", 1e-4)
    for number, (one, other) in enumerate(zip(own, gradients)):
        assert (one is None) == (other is None), f"gradient {number}"
        if one is not None:
            assert_close(one, other, f"gradient {number}", 1e-4)
    return report


def met(net: Any, make: Any) -> None:
    """Lets a model meet enough lengths that others are derived."""
    for lengths in ((3, 5), (4, 7, 6), (8, 2)):
        with gluonjit.batching(granularity="cell"):
            for sample in samples(make, 9, lengths):
                net(*sample)


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


class Stack(nn.Module):
    """Cells one after the other, each a layer on (1, n, d)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(WORDS, C), nn.Linear(C, 3)
        self.first = nn.TransformerEncoderLayer(C, 2, 12, dropout=0.0, batch_first=True)
        self.second = nn.TransformerEncoderLayer(C, 2, 12, dropout=0.0, batch_first=True)

    def forward(self, tokens: Any) -> Any:
        x = self.second(self.first(self.embed(tokens)))
        return self.out(x[0, -1] if float(tokens.sum()) > 1e9 else x[0])


def test_a_result_is_the_operand_of_the_next_cell() -> None:
    torch.manual_seed(0)
    eager = Stack()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)

    def make(draw: Any, n: int) -> tuple[Any, ...]:
        return (whole(draw, WORDS, 1, n),)

    met(net, make)
    report = assert_as_eagerly(eager, net, samples(make, 1, (4, 10, 6, 12, 3, 7, 5, 9)))
    assert report.kinds["first"].launches == report.kinds["second"].launches == 1
    assert report.kinds["first"].nodes == 8
    assert not any("view" in name or "getitem" in name for name in report.kinds)


def test_a_computed_operand_is_laid_out_anew() -> None:
    """It is a single row as an operator gives it, and has to be as many as it has words."""
    torch.manual_seed(0)
    eager = nn.TransformerEncoderLayer(C, 2, 12, dropout=0.0, batch_first=True)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    for seed in range(3):
        given = samples(lambda draw, n: (numbers(draw, 1, n, C),), seed, (4, 10, 6, 12, 3))
        with gluonjit.batching(granularity="cell", scheduler="depth") as batch:
            found = [net(net(x).tanh() * 2) for (x,) in given]
        for one, (x,) in zip(found, given):
            assert_close(one, eager(eager(x).tanh() * 2), "a result", 1e-4)
    assert batch.report.kinds["TransformerEncoderLayer"].launches == 2


def test_operands_of_the_first_batch_stay_as_they_were_captured() -> None:
    """Its first calls are of kinds for one length each, before anything is known of others."""
    body, make = BODIES["rows of one sample"]
    eager, net = both(body)
    assert_as_eagerly(eager, net, samples(make, 0, (3, 3, 5, 3, 5, 4, 3)), True)


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


@pytest.mark.parametrize(
    "options", [{"check_finite": True}, {"profile": True}, {"granularity": "graph"}, {"sharing": False}]
)
def test_ways_to_run(options: dict[str, Any]) -> None:
    for name in ("tokens and a layer", "channels", "an adjacency"):
        body, make = BODIES[name]
        eager, net = both(body)
        met(net, make)
        assert_as_eagerly(eager, net, samples(make, 0, (4, 10, 6, 4, 3)), **options)


def test_look_ups_of_one_line_are_rows() -> None:
    eager = nn.Embedding(WORDS, C)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    given = [torch.tensor([[3, 5, 3]]), torch.tensor([[[5, 1]]]), torch.tensor([[7]])]
    for _ in range(2):
        with gluonjit.batching(granularity="cell") as batch:
            found = [net(each) for each in given]
            parts = [found[0][0], found[0].squeeze(0), found[0][0][1], found[1][0], found[0][-1][2:]]
            views = [found[0].view(3, C), found[0].unsqueeze(0)]
        for one, each in zip(found, given):
            assert_close(one, eager(each), "entries", 0)
        wanted = eager(given[0])
        others = [
            wanted[0],
            wanted.squeeze(0),
            wanted[0, 1],
            eager(given[1])[0],
            wanted[0, 2:],
            wanted[0],
            wanted[None],
        ]
        for one, other in zip([*parts, *views], others):
            assert one.shape == other.shape
            assert_close(one, other, "a part", 0)
    assert batch.report.launches == 0
    with gluonjit.batching(granularity="cell"), pytest.raises(IndexError):
        net(torch.tensor([[3, WORDS]]))


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
    restored = traces.read_trace(path)
    assert restored.count == 4
    assert len({kind.family for kind in restored.kinds}) == 1
    assert [kind.operands[1].rows for kind in restored.kinds] == [9, 49, 25, 16]


class Pairs(nn.Module):
    """Results of which two axes differ, and the last one of which differs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(C, C)

    def forward(self, x: Any) -> Any:
        q = self.layer(x)
        return q @ q.mT, q.mT * 1


class Parts(nn.Module):
    """A program that runs operator by operator on the results of a cell."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.pairs, self.body = Pairs(), body

    def forward(self, x: Any) -> Any:
        return self.body(*self.pairs(x))


def written(a: Any, q: Any) -> Any:
    part = a[0]
    part.add_(1)
    a[1] = 2.0
    return a * 1


PARTS: dict[str, Callable[..., Any]] = {
    "a row": lambda a, q: a[0] + a[-1],
    "a number": lambda a, q: a[0][1] + a[1, 0],
    "a column": lambda a, q: a[:, 0] + q[1],
    "rows, one by one": lambda a, q: torch.stack([row * 2 for row in a]),
    "rows put together": lambda a, q: torch.cat([a[0], q[1]]),
    "turned": lambda a, q: a.t() @ q.t(),
    "in one line": lambda a, q: a.view(-1).cumsum(0),
    "under an axis": lambda a, q: a[None][0] + a.unsqueeze(0),
    "cut": lambda a, q: a.split(1)[1] + q[2:4, :1],
    "written to": written,
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("under", [False, True])
def test_operators_take_such_results(name: str, under: bool) -> None:
    body = PARTS[name]
    torch.manual_seed(0)
    eager = Parts((lambda a, q: body(a[0], q[0])) if under else body)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    for seed in range(3):
        given = samples(lambda draw, n: (numbers(draw, *(1,) * under, n, C),), seed, (3, 7, 3, 2, 5))
        report = assert_as_eagerly(eager, net, given, expand=("Parts",))
    assert report.kinds["pairs"].launches == 1
