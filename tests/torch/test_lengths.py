"""Cells on operands of any length: one kind for all lengths, with the values and gradients of the eager program."""

from __future__ import annotations

import copy
import random
from contextlib import nullcontext
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gluonjit
from gluonjit.engines.torch.tracing import kinds
from gluonjit.hybrid.capture.guards.sizes import TracedSize, plain, traced
from tests.common.torch_support import assert_close

C = 8
WORDS = 30


class Model(nn.Module):
    """Layers that a program for one sentence is made of."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body = body
        self.embed, self.out = nn.Embedding(WORDS, C), nn.Linear(C, 3)
        self.q, self.k, self.v = nn.Linear(C, C), nn.Linear(C, C), nn.Linear(C, C)
        self.norm, self.drop = nn.LayerNorm(C), nn.Dropout(0.0)
        self.narrow, self.wide = nn.Conv1d(C, C, 3, padding=1), nn.Conv1d(C, C, 2, stride=2)
        self.page = nn.Conv2d(1, C, (2, C))
        self.heads = nn.MultiheadAttention(C, 2, batch_first=True)
        self.places, self.seed = nn.Parameter(torch.randn(40, 40)), nn.Parameter(torch.randn(1, 1, C))
        self.encoder = nn.TransformerEncoderLayer(C, 2, 12, dropout=0.0, activation="gelu")
        self.steps, self.ways = nn.LSTM(C, C), nn.GRU(C, C // 2, 2, bidirectional=True)
        self.table = {4: 2.0, 6: 3.0}

    def forward(self, *tokens: Any) -> Any:
        return self.body(self, *[self.embed(each) for each in tokens])


def split(x: Any) -> Any:
    return x.view(len(x), 2, C // 2).transpose(0, 1)


def with_a_table(net: Model, x: Any) -> Any:
    """Products with a part of a table, and with rows of that part, which are written down otherwise."""
    table = net.places[: len(x), :C]
    return (x @ table[[0, 1]].t()).amax(0), (x @ table.t()).amax()


def attended(net: Model, x: Any, y: Any, mask: Any = None) -> Any:
    return F.scaled_dot_product_attention(net.q(x)[None], net.k(y)[None], net.v(y)[None], attn_mask=mask)[0]


def causal(x: Any) -> Any:
    return torch.triu(torch.full((len(x), len(x)), float("-inf")), 1)


ONE: dict[str, Callable[..., Any]] = {
    "attention by hand": lambda net, x: net.norm(x + torch.softmax(net.q(x) @ net.k(x).t() / C**0.5, -1) @ net.v(x)),
    "attention in heads": lambda net, x: torch.einsum(
        "hij,hjd->ihd", (split(net.q(x)) @ split(net.k(x)).mT).softmax(-1), split(net.v(x))
    ).reshape(len(x), C),
    "attention as one operator": lambda net, x: net.out(attended(net, x, x)),
    "a mask": lambda net, x: net.out(attended(net, x, x, causal(x))).sum(0),
    "a mask that learns": lambda net, x: net.out(attended(net, x, x, net.places[: len(x), : len(x)])).sum(0),
    "a layer of attention": lambda net, x: net.heads(x[None], x[None], x[None], need_weights=False)[0][0],
    "a learned query": lambda net, x: net.seed + net.heads(net.seed, x[None], x[None], need_weights=False)[0],
    "weights of attention": lambda net, x: net.heads(x[None], x[None], x[None])[1].amax(),
    "a transformer's layer": lambda net, x: net.encoder(x[:, None])[:, 0],
    "places": lambda net, x: net.out(torch.relu(x + net.places[: len(x), :C])).mean(0),
    "numbered places": lambda net, x: net.out(x * torch.arange(len(x))[:, None].cos()).amax(0),
    "a convolution": lambda net, x: torch.relu(net.narrow(x.t()[None])).amax(-1),
    "a convolution in steps": lambda net, x: net.wide(x.t()[None]).mean(-1),
    "a convolution of a page": lambda net, x: torch.relu(net.page(x[None, None])).amax((2, 3)),
    "pooling": lambda net, x: F.max_pool1d(x.t()[None], 2).mean(-1),
    "a weighted sum": lambda net, x: (torch.softmax(net.q(x) @ net.places[0, :C], 0)[:, None] * x).sum(0),
    "what a sample has once": lambda net, x: net.out(torch.tanh(x + x.amax(0)) * x.mean(0, keepdim=True)),
    "expanded": lambda net, x: net.out(torch.cat([x, x.mean(0).expand(len(x), -1).tanh()], 1)[:, C // 2 : -C // 2]),
    "pairs": lambda net, x: torch.exp(-(x[:, None] - x[None]).pow(2).sum(-1)) @ x,
    "classes": lambda net, x: F.one_hot(x[:, 0].gt(0) + x[:, 1].gt(0).long(), 3).float() @ net.places[:3, :C],
    "shifted": lambda net, x: net.out(torch.relu(x + torch.cat([x[1:], x[:1]]))),
    "turned": lambda net, x: net.out(x.flip(0) * x.cumsum(0)),
    "a few of them": lambda net, x: net.out(x[0] + x[-1] + x[len(x) // 2]),
    "the largest": lambda net, x: tuple(net.v(x).topk(2, 0)),
    "a mean by hand": lambda net, x: net.out(x).sum(0) / len(x),
    "a mean of layers": lambda net, x: net.q(x.sum(0)) / len(x) - net.k(x.amax(0)) * (len(x) + 1),
    "a root of the length": lambda net, x: net.out(x).sum(0) / len(x) ** 0.5,
    "statistics": lambda net, x: (x - x.mean(0)) / (x.std(0, keepdim=True) + 1),
    "the largest by name": lambda net, x: net.out(x.max(0).values) * x.sort(0).values[-1, :3],
    "several results": lambda net, x: (net.out(x), torch.softmax(x.sum(1), 0) @ x, net.norm(x).logsumexp(0)),
    "a part of a table": with_a_table,
    "dropout": lambda net, x: net.norm(net.drop(x) * 2).sum(0),
}
TWO: dict[str, Callable[..., Any]] = {
    "two lengths": lambda net, x, y: net.out(torch.softmax(x @ y.t(), -1) @ y).mean(0) + (y @ x.t()).amax(),
    "attention to another": lambda net, x, y: net.norm(x + attended(net, x, y)),
}


def tokens(*lengths: int, seed: int = 0) -> list[Any]:
    draw = random.Random(seed)
    return [torch.tensor([draw.randrange(WORDS) for _ in range(length)]) for length in lengths]


def flat(found: Any) -> list[Any]:
    return [item for part in found for item in flat(part)] if isinstance(found, (tuple, list)) else [found]


def both(body: Callable[..., Any]) -> tuple[Any, Any]:
    torch.manual_seed(0)
    net = Model(body)
    return net, gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True)


def run(net: Any, samples: list[Any], **options: Any) -> tuple[list[Any], list[Any], Any]:
    """Results and gradients of a minibatch; its report if the model is hybridized, which otherwise runs eagerly."""
    net.zero_grad()
    lazily = "_gluonjit" in net.__dict__
    with gluonjit.batching(**{"granularity": "cell", **options}) if lazily else nullcontext() as batch:
        found = [flat(net(*sample)) for sample in samples]
        numbers = [item for items in found for item in items if item.is_floating_point()]
        sum((item * torch.linspace(1, 2, item.numel()).view(item.shape)).sum() for item in numbers).backward()
    kept = [item.detach().clone() for items in found for item in items]
    return (
        kept,
        [None if weight.grad is None else weight.grad.clone() for weight in net.parameters()],
        batch and batch.report,
    )


def assert_as_eagerly(eager: Any, net: Any, samples: list[Any], **options: Any) -> Any:
    """Compare a minibatch with the eager program, and return its report."""
    wanted, gradients, _ = run(eager, samples, **options)
    found, own, report = run(net, samples, **options)
    for number, (one, other) in enumerate(zip(found, wanted)):
        assert_close(one.double(), other.double(), f"result {number}", 1e-4)
    for number, (one, other) in enumerate(zip(own, gradients)):
        assert (one is None) == (other is None), f"gradient {number}"
        if one is not None:
            assert_close(one, other, f"gradient {number}", 1e-4)
    assert not report.distrusted
    return report


def model_kinds(net: Any) -> list[Any]:
    return list(net.__dict__["_gluonjit"].kinds.values())


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch, traced_once: None) -> list[int]:
    """The lengths of the samples of models that are traced, each once."""
    found: list[int] = []
    trace = kinds._traced

    def noted(call: Any) -> Any:
        rows = call.values[0].spec.rows
        if not call.cell.operator and rows not in found:
            found.append(rows)
        return trace(call)

    monkeypatch.setattr(kinds, "_traced", noted)
    return found


@pytest.mark.parametrize("name", ONE)
def test_a_program_for_one_sentence_is_one_kind_for_all_lengths(name: str) -> None:
    eager, net = both(ONE[name])
    for lengths in ((5, 3), (4, 6, 5, 7), (3, 8, 8, 2, 9, 5)):
        report = assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths, seed=lengths[0])])
    assert report.kinds["Model"].launches == 1
    assert not report.by_number
    assert len(model_kinds(net)) == 8


@pytest.mark.parametrize("name", TWO)
def test_sentences_of_two_lengths_are_one_kind(name: str) -> None:
    eager, net = both(TWO[name])
    for seed in range(4):
        draw = random.Random(seed)
        pairs = [tuple(tokens(draw.randint(2, 7), draw.randint(2, 7), seed=k)) for k in range(5)]
        report = assert_as_eagerly(eager, net, pairs)
    assert report.kinds["Model"].launches == 1


@pytest.mark.parametrize(
    "body",
    [
        lambda net, x: (net.out(x), (x > 0).any(0)),
        lambda net, x: (net.out(x), (x > 0) & ~torch.eye(len(x), C, dtype=torch.bool)),
        lambda net, x: (net.out(x), torch.arange(len(x)) > 0, (x > 0).to(torch.uint8)),
    ],
)
def test_truth_values_are_results(body: Callable[..., Any]) -> None:
    eager, net = both(body)
    for lengths in ((5, 3), (4, 6, 5, 7)):
        assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths)])


@pytest.mark.parametrize(
    "body",
    [
        lambda net, x: net.out(torch.cat([x, torch.zeros(len(x), 0)], 1)),
        lambda net, x: net.out(x) + torch.ones(len(x), 0) @ torch.ones(0, 3),
    ],
)
def test_features_that_no_sample_has(body: Callable[..., Any]) -> None:
    eager, net = both(body)
    for lengths in ((5, 3), (4, 6, 5, 7)):
        assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths)])


def test_the_switch_of_arity_turns_it_off() -> None:
    eager, net = both(ONE["attention by hand"])
    samples = [(each,) for each in tokens(3, 5, 4, 5)]
    for _ in range(2):
        report = assert_as_eagerly(eager, net, samples, without=("arity",))
    assert report.kinds["Model"].launches == 3


@pytest.mark.parametrize("scheduler", ["depth", "bound"])
def test_ways_to_run(scheduler: str) -> None:
    eager, net = both(ONE["a transformer's layer"])
    for lengths in ((3, 5), (4, 6, 3, 4, 9)):
        samples = [(each,) for each in tokens(*lengths)]
        assert_as_eagerly(eager, net, samples, granularity="cell", scheduler=scheduler)
    assert_as_eagerly(eager, net, samples, check_finite=True)
    assert_as_eagerly(eager, net, samples, profile=True)


def test_inference_and_frozen_parts() -> None:
    eager, net = both(ONE["attention as one operator"])
    for part in (eager, net):
        part.embed.requires_grad_(False)
        part.q.weight.requires_grad_(False)
    for lengths in ((3, 5), (4, 6, 3, 4, 9)):
        assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths)])
    with torch.no_grad():
        for lengths in ((3, 5), (4, 6, 3, 4, 9)):
            given = tokens(*lengths)
            with gluonjit.batching() as batch:
                found = [net(each) for each in given]
            for one, each in zip(found, given):
                assert_close(one, eager(each), "a result")
    assert batch.report.kinds["Model"].launches == 1


def test_lengths_are_derived_from_three_traced_ones(traces: list[int]) -> None:
    eager, net = both(ONE["numbered places"])
    assert_as_eagerly(eager, net, [(each,) for each in tokens(3, 9, 5)])
    assert traces == [3, 9, 5]
    assert_as_eagerly(eager, net, [(each,) for each in tokens(4, 8, 6, 7)])
    assert traces == [3, 9, 5]
    assert_as_eagerly(eager, net, [(each,) for each in tokens(12, 1, 10)])  # longer constants, and one row
    assert traces == [3, 9, 5, 12, 1]


def within_a_limit(net: Any, x: Any) -> Any:
    assert len(x) <= 40, "too long"
    if x.size(0) < 4:
        x = torch.cat([x, x, x])
    return net.out(x.softmax(0)).mean(0)


def test_lengths_that_compare_alike_are_derived(traces: list[int]) -> None:
    eager, net = both(within_a_limit)
    assert_as_eagerly(eager, net, [(each,) for each in tokens(5, 9, 7)])
    assert_as_eagerly(eager, net, [(each,) for each in tokens(8, 6, 20, 40)])
    assert traces == [5, 9, 7]
    assert_as_eagerly(eager, net, [(each,) for each in tokens(3, 11, 4)])  # the first one decides otherwise
    assert traces == [5, 9, 7, 3]
    with pytest.raises(AssertionError, match="too long"):
        net(*tokens(41))


def doubled_if_odd(net: Any, x: Any) -> Any:
    return net.out(x * 2 if len(x) % 2 else x).mean(0)


def by_a_table(net: Any, x: Any) -> Any:
    return net.out(x * net.table.get(x.shape[0], 1.0)).mean(0)


def by_a_size_of_all(net: Any, x: Any) -> Any:
    return net.out(x * (3.0 if x.shape.numel() > 5 * C else 2.0)).mean(0)


def by_a_function(net: Any, x: Any) -> Any:
    return net.out(x * (3.0 if torch.numel(x) > 5 * C else 2.0)).mean(0)


def by_a_loop(net: Any, x: Any) -> Any:
    return net.out(x * sum(number % 3 for number in range(x.size(0)))).mean(0)


def by_a_text(net: Any, x: Any) -> Any:
    return net.out(x * len(f"{len(x)}")).mean(0)


def at_most_six(net: Any, x: Any) -> Any:
    return net.out(x[: min(len(x), 6)]).mean(0)


def by_a_share(net: Any, x: Any) -> Any:
    return net.out(x.topk(max(1, int(0.3 * len(x))), 0)[0]).mean(0)


def by_a_half(net: Any, x: Any) -> Any:
    return net.out(x[len(x) // 2] + x[int(len(x) / 2)] * (2.5 < len(x)))


def by_a_number(net: Any, x: Any) -> Any:
    share = 0.1
    share *= len(x)
    return net.out(x).mean(0) * round(share)


DECIDED = [
    by_a_share,
    by_a_half,
    by_a_number,
    doubled_if_odd,
    by_a_table,
    by_a_size_of_all,
    by_a_loop,
    by_a_text,
    at_most_six,
]


@pytest.mark.parametrize("body", DECIDED)
def test_a_program_that_decides_by_a_length_is_traced_for_each(body: Any, traces: list[int]) -> None:
    eager, net = both(body)
    for lengths in ((2, 4), (6, 8, 4), (3, 5, 7, 9, 2), (10, 11, 1)):
        assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths)])
    assert_as_eagerly(eager, net, [(each,) for each in tokens(13, 20)])
    assert {4, 6, 8, 3, 5, 7, 9} <= set(traces)


def up_to_a_limit(net: Any, x: Any) -> Any:
    x = x[:6] if 6 < len(x) else x
    return net.out(x if x.size(0) * 2 - 1 != 7 else x.cumsum(0)).mean(0)


@pytest.mark.parametrize("body", [by_a_function, within_a_limit, up_to_a_limit])
def test_a_program_that_compares_lengths(body: Any) -> None:
    eager, net = both(body)
    for lengths in ((2, 4), (6, 8, 4), (3, 5, 7, 9, 2), (10, 11, 1), (13, 20, 5, 12, 14, 6)):
        assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths)])


def an_alignment(net: Any, x: Any) -> Any:
    """A loop over a length without weights, as of a dynamic program."""
    d, table = net.out(x), torch.full((len(x) + 1, 3), 9.0)
    for i in range(1, len(x) + 1):
        for j in range(1, 3):
            best = torch.stack([table[i - 1, j], table[i, j - 1], table[i - 1, j - 1]])
            table[i, j] = d[i - 1, j] - torch.logsumexp(-best, 0)
    return table[len(x), 2]


def test_a_loop_over_a_length_is_captured_call_by_call() -> None:
    eager, net = both(an_alignment)
    for lengths in ((9, 7), (11, 8), (10, 9, 7, 8)):
        report = assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths)])
    assert "Model" not in report.kinds
    assert report.launches < report.nodes / 2


def test_a_call_of_another_form_leaves_the_form_as_it_is() -> None:
    """It differs in a number, too, before it turns out to call another operator."""

    def body(net: Any, x: Any) -> Any:
        scaled = x.cumsum(0) * (3.0 if len(x) == 7 else 2.0)
        return net.out(scaled.cos() if len(x) == 7 else scaled.sin()).mean(0)

    eager, net = both(body)
    report = assert_as_eagerly(eager, net, [(each,) for each in tokens(3, 5, 7, 4, 6)])
    assert report.kinds["Model"].launches == 2


def test_a_length_that_is_returned_is_a_plain_number() -> None:
    _, net = both(lambda net, x: (net.out(x).amax(0), torch.tensor(len(x)), x.shape[0] + 1))
    with gluonjit.batching():
        found = [net(each) for each in tokens(3, 5)]
    assert [type(item[2]) for item in found] == [int, int]
    assert [item[2] for item in found] == [4, 6]
    assert [int(item[1]) for item in found] == [3, 5]


def test_a_global_that_a_trace_has_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    eager, net = both(lambda net, x: net.out(x * FACTOR["now"]).amax(0))
    for factor in (2.0, 3.0):
        monkeypatch.setitem(FACTOR, "now", factor)
        for lengths in ((2, 4), (6, 8, 4), (3, 5, 7, 9, 2)):
            assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths)])


FACTOR = {"now": 1.0}


def test_gradients_of_gradients() -> None:
    eager, net = both(ONE["attention by hand"])
    found = []
    for model in (eager, net):
        with gluonjit.batching(granularity="cell"):
            total = sum(model(each).pow(2).sum() for each in tokens(3, 5, 4))
        (first,) = torch.autograd.grad(total, [model.v.weight], create_graph=True)
        found.append(torch.autograd.grad(first.pow(2).sum(), [model.q.weight, model.embed.weight]))
    for one, other in zip(*found):
        assert_close(one, other, "a second gradient", 1e-4)


def test_a_call_that_fails_names_its_line_and_loses_nothing() -> None:
    _, net = both(ONE["attention by hand"])
    with gluonjit.batching(granularity="cell"):
        kept = [net(each) for each in tokens(3, 5)]
        with pytest.raises(IndexError):
            float(net(torch.tensor([1, WORDS, 2, 3])).sum())
        assert [each.shape[0] for each in kept] == [3, 5]


def test_constants_differ_by_module() -> None:
    """Equal layers share a trace, and each has its own weights."""
    torch.manual_seed(0)
    eager = nn.ModuleList([Model(ONE["attention by hand"]) for _ in range(2)])
    net = copy.deepcopy(eager)
    for part in net:
        gluonjit.hybridize(part, dynamic_batch=True)
    for lengths in ((2, 4), (6, 8, 4), (3, 5)):
        for one, other in zip(eager, net):
            assert_as_eagerly(one, other, [(each,) for each in tokens(*lengths)])


def test_kinds_are_forgotten_with_the_module_s_attributes() -> None:
    eager, net = both(ONE["what a sample has once"])
    assert_as_eagerly(eager, net, [(each,) for each in tokens(2, 4, 3)])
    for model in (eager, net):
        model.out = nn.Linear(C, 2)
        nn.init.constant_(model.out.weight, 0.5)
        nn.init.zeros_(model.out.bias)
    assert_as_eagerly(eager, net, [(each,) for each in tokens(2, 4, 3, 5)])


class Shares(nn.Module):
    """A loss that refuses numbers that are no probabilities."""

    def forward(self, x: Any) -> Any:
        return F.binary_cross_entropy(x, torch.full_like(x, 0.3)).view(1)


def test_an_operator_that_refuses_numbers_runs_for_all_lengths() -> None:
    rows = [torch.rand(length, C) for length in (2, 4, 3, 5)]
    wanted = [Shares()(each) for each in rows]
    net = gluonjit.hybridize(Shares(), dynamic_batch=True)
    for _ in range(2):
        with gluonjit.batching(granularity="cell") as batch:
            found = [net(each) for each in rows]
    for one, other in zip(found, wanted):
        assert_close(one, other, "a loss", 1e-4)
    assert batch.report.kinds["Shares"].launches == 1


def test_a_size_notes_what_is_asked_of_it() -> None:
    asked: list[Any] = []
    size = traced(5, asked)
    other = 2 * (size + 1) - 3
    assert type(other) is TracedSize and plain(other) == 9 and type(plain(other)) is int
    assert torch.zeros(size, other).shape == (5, 9) and not asked
    assert other > 8 and not 8 > other and not size > other and max(size, 4) == 5
    assert [item[:2] for item in asked] == [("__gt__", 9), ("__lt__", 9), ("__gt__", 5), ("__lt__", 5), ("__eq__", 5)]
    assert asked[0].holds(12, 8) and not asked[0].holds(8, 8)
    asked[:] = [5]
    assert type(size % 2) is int and asked == [5, 5]
    assert type(size + traced(3, asked)) is int and asked == [5, 5, 5, 3]
    assert f"{size}" == "5" and {5: 1}[size] == 1 and len(asked) > 5


@pytest.mark.filterwarnings("error::gluonjit.errors.RuleWarning")
def test_a_number_that_chooses_what_an_operator_does_is_no_length() -> None:
    """`reduction` is 1 for means and 2 for sums, as the rows of these two minibatches are 1 and 2."""
    torch.manual_seed(0)
    eager = nn.Linear(5, 4)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="cell", scheduler="depth")
    for rows, reduction in (([1, 1], "mean"), ([2, 2], "sum"), ([2, 1, 2], "sum"), ([1, 2, 1], "mean")):
        given = [(torch.randn(n, 5), torch.randint(4, (n,))) for n in rows]
        found = [F.cross_entropy(net(x), y, reduction=reduction) for x, y in given]
        wanted = [F.cross_entropy(eager(x), y, reduction=reduction) for x, y in given]
        torch.testing.assert_close(torch.stack(found).detach(), torch.stack(wanted).detach())
