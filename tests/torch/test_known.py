"""Whole numbers that are inputs are known: reading them, and indexing by them, runs nothing."""

from __future__ import annotations

import copy
import random
from typing import Any, Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

import gluonjit
from gluonjit.engines.torch.run.memory import Session
from gluonjit.errors import EarlyFlushWarning
from tests.common.torch_support import assert_close, assert_minibatch_as_eagerly

SIZE, TAGS, WORDS = 6, 5, 20
FIXED = {"granularity": "cell", "scheduler": "depth", "expand": ("Body",)}  # whose operators are what is tested


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def assert_one_flush(net: Any, samples: list[Any], forward: Any = None, **options: Any) -> Any:
    """Losses and gradients are eager's, two minibatches in a row, each run at once; the last one's report."""
    forward = forward or (lambda net, sample: net(*sample))
    own = copy.deepcopy(net)
    gluonjit.hybridize(own, dynamic_batch=True, **{**FIXED, **options})
    for _ in range(2):
        report = assert_minibatch_as_eagerly(net, own, samples, forward)
        assert report.flushes == 1, report.reasons
    return report


def sentences(count: int = 8) -> list[Any]:
    choose = random.Random(1)
    lengths = [choose.randint(1, 7) for _ in range(count)]
    return [(torch.randint(WORDS, (n,)), torch.randint(TAGS, (n,))) for n in lengths]


class Body(nn.Module):
    """Runs any function of itself, words, tags and the words' rows."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body = body
        self.embed = nn.Embedding(WORDS, SIZE)
        self.out = nn.Linear(SIZE, TAGS)
        self.trans = nn.Parameter(torch.randn(TAGS, TAGS))
        self.start = nn.Parameter(torch.randn(TAGS))

    def forward(self, words: Any, tags: Any) -> Any:
        h = self.embed(words)
        return self.body(self, words, tags, h, self.out(h).log_softmax(-1))


def decided(condition: Any, net: Any, h: Any) -> Any:
    return net.out(h).tanh() if condition else h.sin()


READS: dict[str, Callable[..., Any]] = {
    "item": lambda net, words, tags, h, lp: h * words[0].item(),
    "int": lambda net, words, tags, h, lp: h * int(tags[-1]),
    "bool": lambda net, words, tags, h, lp: decided(tags[0] == 3, net, h),
    "compared": lambda net, words, tags, h, lp: decided(bool(words[0] > words[-1]), net, h),
    "any": lambda net, words, tags, h, lp: decided((tags == 2).any(), net, h),
    "sum": lambda net, words, tags, h, lp: h * (tags + 1).sum().item(),
    "tolist": lambda net, words, tags, h, lp: sum([h[0] * k for k in tags.tolist()]),
    "index": lambda net, words, tags, h, lp: sum([h[k] for k in range(len(h))][: tags[0] + 1]),
    "iterated": lambda net, words, tags, h, lp: sum([net.start[t] for t in tags]),
    "argmax": lambda net, words, tags, h, lp: h[tags.argmax()],
    "sorted": lambda net, words, tags, h, lp: h[words.sort().indices],
    "range": lambda net, words, tags, h, lp: sum([h[0] for _ in range(tags.max() + 1)]),
    "converted": lambda net, words, tags, h, lp: h * tags.float().unsqueeze(1),
}


@pytest.mark.parametrize("name", READS)
def test_reads_of_known_numbers_run_nothing(name: str) -> None:
    report = assert_one_flush(Body(READS[name]), sentences())
    if name in ("item", "int", "tolist"):
        assert report.reads["answered"] >= 8 and not report.reads["flushed"]
        assert "known values" in str(report)


class Documents(nn.Module):
    """Pads the sentences of a document by itself."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.first = first
        self.embed = nn.Embedding(WORDS + 1, SIZE)

    def forward(self, document: Any) -> Any:
        padded = pad_sequence(document, batch_first=self.first, padding_value=WORDS)
        rows = self.embed(padded).masked_fill((padded == WORDS).unsqueeze(-1), 0.0)
        return rows.sum((0, 1)).tanh() * int(padded[0, 0])


@pytest.mark.parametrize("first", [False, True])
def test_sentences_padded_by_the_program_are_known(first: bool) -> None:
    """Each list of lengths would be a node of another kind, traced for one call."""
    documents = [([one for one, _ in sentences(count)],) for count in (1, 2, 3, 5, 2)]
    report = assert_one_flush(Documents(first), documents, expand=("Documents",))
    assert "pad_sequence" not in str(report)


INDEXING: dict[str, Callable[..., Any]] = {
    "a row": lambda net, words, tags, h, lp: h[tags[0] % len(h)],
    "a negative row": lambda net, words, tags, h, lp: h[-1 - tags[0] % len(h)],
    "rows": lambda net, words, tags, h, lp: h[tags % len(h)] * 2,
    "negative rows": lambda net, words, tags, h, lp: h[-1 - tags % len(h)] * 2,
    "rows by a list": lambda net, words, tags, h, lp: h[[0, -1, 0]] * 2,
    "rows by a mask": lambda net, words, tags, h, lp: h[tags > 1].sum(0),
    "rows of a table": lambda net, words, tags, h, lp: h[tags.unsqueeze(0).expand(2, -1) % len(h)] * 2,
    "index_select": lambda net, words, tags, h, lp: h.index_select(0, tags % len(h)),
    "an entry": lambda net, words, tags, h, lp: lp[0, tags[0]],
    "entries": lambda net, words, tags, h, lp: sum([lp[k, tags[k]] for k in range(len(tags))]),
    "entries by numbers": lambda net, words, tags, h, lp: sum([lp[k, k % TAGS] for k in range(len(tags))]),
    "an entry of a row": lambda net, words, tags, h, lp: lp[0][tags[0]],
    "entries of rows": lambda net, words, tags, h, lp: lp[torch.arange(len(tags)), tags],
    "entries of a row": lambda net, words, tags, h, lp: lp[0][tags],
    "columns": lambda net, words, tags, h, lp: lp[:, tags].sum(),
    "gather": lambda net, words, tags, h, lp: lp.gather(1, tags.unsqueeze(1)),
    "a weight's entry": lambda net, words, tags, h, lp: net.start[tags[0]] + net.trans[tags[0], tags[-1]],
    "a weight's row": lambda net, words, tags, h, lp: net.trans[tags[0]],
    "a weight's rows": lambda net, words, tags, h, lp: net.trans[tags] * 2,
    "a weight's entries": lambda net, words, tags, h, lp: net.trans[tags[:-1], tags[1:]].sum() + h.sum(),
    "a slice": lambda net, words, tags, h, lp: h[: tags[0] + 1],
    "a view that is written to": lambda net, words, tags, h, lp: written(h * 1, tags[0] % len(h)),
    "a write by numbers": lambda net, words, tags, h, lp: put(h * 1, tags % len(h)),
    "rows that are written to": lambda net, words, tags, h, lp: written_rows(h * 1, tags % len(h)),
    "rows of a list": lambda net, words, tags, h, lp: h[[0, len(h) - 1, -1, 0]] * h[[0]],
    "rows of lists of their own": lambda net, words, tags, h, lp: torch.stack(
        [h[[k % len(h) for k in range(n + 1)]].mean(0) for n in range(len(h))]
    ),
    "rows of a list that are written to": lambda net, words, tags, h, lp: written_rows(h * 1, [0, len(h) - 1]),
    "numbers taken apart": lambda net, words, tags, h, lp: taken_apart(h, torch.stack((tags, tags)) % len(h)),
}


def written(h: Any, number: Any) -> Any:
    h[number].mul_(3)
    return h


def written_rows(h: Any, numbers: Any) -> Any:
    rows = h[numbers]
    rows.mul_(3)
    return torch.cat([rows, h])


def taken_apart(h: Any, pairs: Any) -> Any:
    begin, end = pairs
    end.zero_()
    return torch.cat([h[begin], h[end], h[pairs[1]]])


def put(h: Any, numbers: Any) -> Any:
    h[numbers[0]] = 1.0
    return h


@pytest.mark.parametrize("name", INDEXING)
@pytest.mark.parametrize("sharing", [True, False])
def test_indexing_by_known_numbers_runs_nothing(name: str, sharing: bool) -> None:
    assert_one_flush(Body(INDEXING[name]), sentences(), sharing=sharing)


def assert_as_eagerly(net: Any, samples: list[Any]) -> None:
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, **FIXED)
    for _ in range(2):
        assert_minibatch_as_eagerly(net, own, samples, lambda net, sample: net(*sample))


def test_no_rows_are_as_eagerly() -> None:
    assert_as_eagerly(Body(lambda net, words, tags, h, lp: h[tags[:0]].sum(0) + h[0]), sentences())


NUMPY: dict[str, Callable[..., Any]] = {
    "columns": lambda h: h[:, np.int64(1) : np.int64(3)],
    "rows": lambda h: h[np.int32(0) : np.int64(2)],
    "an entry": lambda h: h[np.int64(0), np.int64(1)],
    "columns that are written to": lambda h: (h * 1)[:, : np.int64(2)].mul_(3),
    "sizes": lambda h: h.view(np.int64(2), np.int64(-1)),
    "a list of sizes": lambda h: h.split([np.int64(1), np.int64(3)], dim=1)[1],
    "an axis": lambda h: h.softmax(np.int64(1)),
    "a factor": lambda h: h * np.float32(0.3) + np.int64(2),
    "a factor before": lambda h: np.int64(2) * h,
}


@pytest.mark.parametrize("name", NUMPY)
def test_numbers_of_numpy_are_those_of_python(name: str) -> None:
    torch.manual_seed(0)
    eager = nn.Linear(3, 4)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="batched")
    xs = [torch.randn(2, 3) for _ in range(4)]
    with gluonjit.batching() as batch:
        found = [NUMPY[name](net(x)) for x in xs]
        sum(each.square().sum() for each in found).backward()
    wanted = [NUMPY[name](eager(x)) for x in xs]
    sum(each.square().sum() for each in wanted).backward()
    for one, other in zip(found, wanted):
        assert_close(one, other, name)
    assert_close(net.weight.grad, eager.weight.grad, "the gradient")
    assert batch.report.flushes == 1


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_a_list_of_lists_is_taken_as_pytorch_takes_it() -> None:
    assert_one_flush(Body(lambda net, words, tags, h, lp: h[[[0, 0], [1, 0]]]), sentences(), sharing=True)


@pytest.mark.parametrize("name", ["entries", "entries by numbers"])
def test_entries_by_many_numbers_are_one_kind(name: str) -> None:
    report = assert_one_flush(Body(INDEXING[name]), sentences(32))
    assert report.kinds["entry"].launches <= 2


@pytest.mark.parametrize("name", ["a row", "an entry", "rows", "entries of rows", "a weight's rows"])
def test_an_index_outside_is_refused_as_eagerly(name: str) -> None:
    outside = {
        "a row": lambda net, words, tags, h, lp: h[words[0] + 99],
        "an entry": lambda net, words, tags, h, lp: lp[0, words[0] + 99],
        "rows": lambda net, words, tags, h, lp: h[words + 99],
        "entries of rows": lambda net, words, tags, h, lp: lp[torch.arange(len(tags)), tags + 99],
        "a weight's rows": lambda net, words, tags, h, lp: net.trans[words + 99],
    }
    net = gluonjit.hybridize(Body(outside[name]), dynamic_batch=True, **FIXED)
    with pytest.raises(IndexError):
        [net(*sample) for sample in sentences()]


def test_an_input_that_is_written_to_is_read_as_it_is_then() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(2, 2)

        def forward(self, x: Any, numbers: Any) -> Any:
            h = self.out(x)
            first, view = numbers[0], numbers[1:]
            seen = [int(first), view.tolist()]
            numbers[0] += 5
            view[0] = 7
            seen += [int(first), view.tolist(), numbers.tolist(), (numbers == 7).tolist()]
            return h, seen

    net = Net()
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True)
    given = [(torch.randn(3, 2), torch.arange(k, k + 3)) for k in range(4)]
    wanted = [net(x, numbers.clone())[1] for x, numbers in given]
    mine = [numbers.clone() for _, numbers in given]
    assert [own(x, numbers)[1] for (x, _), numbers in zip(given, mine)] == wanted
    assert [numbers.tolist() for numbers in mine] == [[k + 5, 7, k + 2] for k in range(4)]


class Layer(nn.Module):
    """A round of messages along the edges of a graph."""

    def __init__(self, into: Callable[..., Any]) -> None:
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * SIZE, SIZE), nn.ReLU())
        self.update = nn.GRUCell(SIZE, SIZE)
        self.into = into

    def forward(self, h: Any, src: Any, dst: Any) -> Any:
        m = self.message(torch.cat([h[src], h[dst]], dim=1))
        return self.update(self.into(h, dst, m), h)


class Graphs(nn.Module):
    def __init__(self, into: Callable[..., Any]) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, SIZE)
        self.layers = nn.ModuleList([Layer(into) for _ in range(2)])
        self.out = nn.Linear(SIZE, 1)

    def forward(self, atoms: Any, edges: Any) -> Any:
        h = self.embed(atoms)
        src, dst = edges
        for layer in self.layers:
            h = layer(h, src, dst)
        return self.out(h.sum(0))


INTO: dict[str, Callable[..., Any]] = {
    "index_add": lambda h, dst, m: torch.zeros_like(h).index_add(0, dst, m),
    "index_add scaled": lambda h, dst, m: torch.zeros_like(h).index_add(0, dst, m, alpha=0.5),
    "index_add_": lambda h, dst, m: torch.zeros_like(h).index_add_(0, dst, m),
    "new_zeros": lambda h, dst, m: h.new_zeros(len(h), SIZE).index_add_(0, dst, m),
    "scatter_add": lambda h, dst, m: torch.zeros_like(h).scatter_add(0, dst.unsqueeze(1).expand(-1, SIZE), m),
    "scatter_add_": lambda h, dst, m: h.new_zeros(h.shape).scatter_add_(0, dst[:, None].expand_as(m), m),
    "amax": lambda h, dst, m: torch.zeros_like(h).scatter_reduce(0, dst[:, None].expand_as(m), m, "amax"),
    "mean": lambda h, dst, m: (h * 1).scatter_reduce(0, dst[:, None].expand_as(m), m, "mean", include_self=False),
    "index_put": lambda h, dst, m: (h * 1).index_put((dst,), m, accumulate=True),
}


def graphs(count: int = 12) -> list[Any]:
    choose, found = random.Random(1), []
    for _ in range(count):
        n = choose.randint(2, 9)
        edges = [(k, choose.randrange(k)) for k in range(1, n)] + [(choose.randrange(n), 0)]
        found.append((torch.randint(WORDS, (n,)), torch.tensor(edges + [(b, a) for a, b in edges]).t()))
    return found


IN_PARTS = {"expand": ("Graphs", "Layer")}
"""What is in a model, and in its layers, is captured call by call."""


@pytest.mark.parametrize("name", INTO)
def test_graphs_of_any_size_are_one_node_each(name: str) -> None:
    report = assert_one_flush(Graphs(INTO[name]), graphs())
    assert (report.kinds["Graphs"].nodes, report.kinds["Graphs"].launches) == (12, 1)


ENTRIES: dict[str, Callable[..., Any]] = {
    "of rows": lambda y, i, j: y[i, j].square(),
    "in the order of rows": lambda y, i, j: y[torch.arange(len(y)), j].tanh(),
    "of pairs of rows": lambda y, i, j: (y @ y.t())[i, i.flip(0)].tanh(),
    "of a square of rows": lambda y, i, j: (y @ y.t())[i[:, None], i[None]].tanh(),
    "along three axes": lambda y, i, j: (y[:, None] * y[None])[i, i, j].tanh(),
    "written": lambda y, i, j: y.index_put((i, j), torch.ones(len(i)), accumulate=True).tanh(),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_by_several_arguments_are_one_node(name: str) -> None:
    class Entries(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(WORDS, SIZE)

        def forward(self, words: Any, i: Any, j: Any) -> Any:
            return ENTRIES[name](self.embed(words), i, j).sum(0)

    lengths = (3, 4, 2, 5, 3, 6, 7, 4)
    samples = [(torch.randint(WORDS, (n,)), torch.randperm(n), torch.randint(SIZE, (n,))) for n in lengths]
    report = assert_one_flush(Entries(), samples)
    assert report.kinds["Entries"].nodes == len(lengths)


def test_few_rows_of_many_are_references() -> None:
    class Few(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.mix = nn.Embedding(WORDS, SIZE), nn.Linear(SIZE, SIZE)

        def forward(self, words: Any, chosen: Any) -> Any:
            return self.mix(self.embed(words)[chosen]).sum(0)

    samples = [(torch.randint(WORDS, (9,)), torch.randint(9, (2,))) for _ in range(4)]
    report = assert_one_flush(Few(), samples)
    assert "Few" not in report.kinds and "__getitem__" not in report.kinds


@pytest.mark.parametrize("name", INTO)
def test_messages_along_edges_run_at_once(name: str) -> None:
    report = assert_one_flush(Graphs(INTO[name]), graphs(), **IN_PARTS)
    kinds = {kind: row for kind, row in report.kinds.items() if row.nodes == 24 and kind != "cat"}
    assert kinds and all(row.launches == 2 for row in kinds.values()), kinds
    assert not report.alone


def attention(h: Any, dst: Any, m: Any) -> Any:
    """Messages weighted by a softmax over the edges that arrive at a node."""
    e = m.sum(1).exp()
    total = torch.zeros(len(h)).index_add(0, dst, e)
    return torch.zeros_like(h).index_add(0, dst, (e / total[dst])[:, None] * m)


def test_zeros_of_the_programs_own_take_numbers_along_edges_at_once() -> None:
    report = assert_one_flush(Graphs(attention), graphs(), **IN_PARTS)
    assert report.kinds["index_add"].nodes == 48 and report.kinds["index_add"].launches == 4
    assert report.kinds["div"].launches == 2
    assert not report.alone


def test_a_vector_that_rows_were_added_to_may_be_written_to_afterwards() -> None:
    def counted(h: Any, dst: Any, m: Any) -> Any:
        base = torch.full((len(h),), 2.0)
        total = base.index_add(0, dst, m.sum(1))
        base.fill_(100.0)
        return torch.zeros_like(h).index_add(0, dst, m) * total[:, None] + base[:, None]

    assert_one_flush(Graphs(counted), graphs())


def test_means_of_any_number_of_rows_run_at_once() -> None:
    net = Body(lambda net, words, tags, h, lp: lp.mean(0) + lp.mean(dim=0).exp())
    report = assert_one_flush(net, sentences())
    assert report.kinds["mean"].launches == 1


COPIED: dict[str, Callable[..., Any]] = {
    "copied": lambda h, dst, m: torch.zeros(len(h), SIZE).index_copy(0, torch.arange(len(h) - 1), h[1:]),
    "copied by a function": lambda h, dst, m: torch.index_copy(torch.ones(len(h), SIZE), 0, torch.tensor([0]), h[1:2]),
    "copied in place": lambda h, dst, m: torch.zeros(len(h), SIZE).index_copy_(0, torch.arange(len(h)).flip(0), h),
}


@pytest.mark.parametrize("name", COPIED)
def test_rows_copied_by_known_numbers_are_no_node(name: str) -> None:
    report = assert_one_flush(Graphs(COPIED[name]), graphs(), **IN_PARTS)
    assert not any("index_copy" in kind for kind in report.kinds)


LOOKING_LIKE: dict[str, Callable[..., Any]] = {
    "full": lambda h, dst, m: torch.full_like(dst, 0.5, dtype=h.dtype)[: len(h), None] * h,
    "filled": lambda h, dst, m: torch.empty_like(dst, dtype=h.dtype).fill_(2.0)[: len(h), None] * h,
    "written": lambda h, dst, m: (
        torch.zeros_like(dst, dtype=h.dtype).masked_scatter_(dst >= 0, m[:, 0])[: len(h), None] + h
    ),
}


@pytest.mark.parametrize("name", LOOKING_LIKE)
def test_what_looks_like_known_integers_is_made_as_from_nothing(name: str) -> None:
    report = assert_one_flush(Graphs(LOOKING_LIKE[name]), graphs(), **IN_PARTS)
    assert not any("_like" in kind for kind in report.kinds)


REFUSED: dict[str, Callable[..., Any]] = {
    "rows of another look": lambda h: torch.zeros(4, SIZE).index_copy(0, torch.tensor([1]), h[0]),
    "a number": lambda h: torch.zeros(4, SIZE).index_copy(0, torch.tensor([1]), 1.0) + h,
    "no such row": lambda h: torch.zeros(4, SIZE).index_copy(0, torch.tensor([4]), h[:1]),
    "other integers": lambda h: torch.zeros(4, SIZE).index_copy(0, torch.tensor([1], dtype=torch.int32), h[:1]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_index_copy_refuses_is_refused(name: str) -> None:
    net = nn.Linear(SIZE, SIZE)
    gluonjit.hybridize(net, dynamic_batch=True)
    x = torch.randn(4, SIZE)
    with pytest.raises((IndexError, RuntimeError, TypeError)):
        REFUSED[name](torch.randn(4, SIZE))
    with gluonjit.batching(), pytest.raises((IndexError, RuntimeError, TypeError, gluonjit.CaptureError)):
        float(REFUSED[name](net(x)).sum())


@pytest.mark.parametrize("accumulate", [False, True])
def test_rows_put_by_numbers_from_behind_run_at_once(accumulate: bool) -> None:
    def put(h: Any, dst: Any, m: Any) -> Any:
        return (h * 1).index_put((-1 - torch.arange(len(h)),), h.tanh(), accumulate)

    report = assert_one_flush(Graphs(put), graphs(), **IN_PARTS)
    assert report.kinds["index_put"].launches == 2


def test_graphs_without_edges() -> None:
    samples = [*graphs(3), (torch.tensor([1, 2]), torch.zeros((2, 0), dtype=torch.int64)), *graphs(2)]
    assert_as_eagerly(Graphs(INTO["index_add"]), samples)


def test_a_crf_that_indexes_by_its_tags() -> None:
    def score(net: Any, words: Any, tags: Any, h: Any, e: Any) -> Any:
        alpha = net.start + e[0]
        for t in range(1, len(words)):
            alpha = torch.logsumexp(alpha.unsqueeze(1) + net.trans, dim=0) + e[t]
        gold = net.start[tags[0]] + e[torch.arange(len(tags)), tags].sum() + net.trans[tags[:-1], tags[1:]].sum()
        return torch.logsumexp(alpha, 0) - gold

    def step_by_step(net: Any, words: Any, tags: Any, h: Any, e: Any) -> Any:
        gold = net.start[tags[0]] + e[0, tags[0]]
        for t in range(1, len(words)):
            gold = gold + net.trans[tags[t - 1], tags[t]] + e[t, tags[t]]
        return gold

    for body in (score, step_by_step):
        assert not assert_one_flush(Body(body), sentences(16)).alone


MAKING: dict[str, Callable[..., Any]] = {
    "new": lambda h: h[:1] + h.data.new(1, SIZE).fill_(0.5),
    "new that learns": lambda h: h[:1] * h[0].data.new(1, SIZE).fill_(0.5).requires_grad_(),
    "new_zeros": lambda h: h + h.new_zeros(SIZE),
    "new_ones": lambda h: h * h.new_ones(h.shape),
    "new_full": lambda h: h * h.new_full((SIZE,), 3),
    "new_zeros that learn": lambda h: h + h.new_zeros(SIZE).requires_grad_(),
    "new_zeros written to": lambda h: written_first(h.new_zeros(h.shape), h),
    "data": lambda h: h * h.data,
    "data written to": lambda h: scaled(h * 1),
    "data seen after a write": lambda h: seen_after(h * 1),
}


def written_first(out: Any, h: Any) -> Any:
    out[0] = h[-1]
    return out * h


def scaled(h: Any) -> Any:
    h.data.mul_(2)
    return h * 3


def seen_after(h: Any) -> Any:
    data = h.data
    h.add_(1)
    return h * data


@pytest.mark.parametrize("name", MAKING)
def test_tensors_made_like_a_captured_one(name: str) -> None:
    body = MAKING[name]
    if name == "data written to":  # autograd does not notice, so that it has to be memory: right, at once
        net = Body(lambda net, words, tags, h, lp: body(h))
        own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, **FIXED)
        for sample in sentences(3):
            torch.testing.assert_close(own(*sample) + 0, net(*sample))
    else:
        assert_one_flush(Body(lambda net, words, tags, h, lp: body(h)), sentences(), forward=None)


class Structured(nn.Module):
    """A net that uses each weight once at each node of a nested tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, SIZE)
        self.merge = nn.Linear(2 * SIZE, SIZE)
        self.traced = 0

    def forward(self, tree: Any, scale: Any) -> Any:
        return self.encode(tree) * scale

    def encode(self, tree: Any) -> Any:
        if isinstance(tree, int):
            return self.embed(torch.tensor(tree))
        return torch.tanh(self.merge(torch.cat([self.encode(part) for part in tree])))


def test_a_structure_that_is_new_each_time_is_expanded() -> None:
    def tree(choose: random.Random, leaves: int) -> Any:
        if leaves == 1:
            return choose.randrange(WORDS)
        left = choose.randint(1, leaves - 1)
        return tree(choose, left), tree(choose, leaves - left)

    choose = random.Random(0)
    samples = [(tree(choose, choose.randint(6, 9)), torch.randn(SIZE)) for _ in range(24)]
    report = assert_one_flush(Structured(), samples)
    assert report.nodes > 3 * report.launches
    assert not report.cache["misses"]


WARNED: dict[str, tuple[Callable[..., Any], str]] = {
    "a number": (lambda net, words, tags, h, lp: h * h.sum().item(), "torch.where"),
    "a write into what was there": (
        lambda net, words, tags, h, lp: torch.rand(len(h), TAGS).index_add_(0, tags % len(h), lp),
        "out = out.index_add(",
    ),
    "rows by what is computed": (lambda net, words, tags, h, lp: h[h[:, 0] > 0].sum(0), "torch.where"),
}


@pytest.mark.parametrize("name", WARNED)
def test_the_warning_says_what_to_type(name: str) -> None:
    body, said = WARNED[name]
    net = gluonjit.hybridize(Body(body), dynamic_batch=True, **FIXED)
    with pytest.warns(EarlyFlushWarning) as found:
        for _ in range(2):
            sum([F.softplus(net(*sample)).sum() for sample in sentences()]).backward()
    texts = [str(one.message) for one in found if one.category is EarlyFlushWarning]
    assert any(said in text for text in texts), texts


@pytest.mark.parametrize("learning", [True, False])
def test_a_transformer_that_does_not_train_is_taken_apart(learning: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True)
    samples = [torch.randn(1, n, 8) for n in (3, 4, 3, 4, 3, 4)]
    with torch.set_grad_enabled(learning):
        wanted = [net(sample) for sample in samples]
        for actual, expected in zip([own(sample) for sample in samples], wanted):
            torch.testing.assert_close(actual + 0, expected, rtol=1e-4, atol=1e-5)
    report = gluonjit.explain()
    assert not report.alone and report.flushes == 1 and report.launches <= (20 if learning else 6)
    assert torch.backends.mha.get_fastpath_enabled()


def test_numbers_that_no_step_reads_are_put_into_their_place_when_somebody_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of a look-up are known: the flush looks entries up, and sends nothing else."""

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.out = nn.Embedding(9, 4), nn.Linear(4, 3)

        def forward(self, tokens: Any) -> Any:
            return self.out(self.embed(tokens)), tokens[1:]

    asked: list[tuple[Session, Any]] = []
    original = Session.look_up

    def look_up(self: Session, chunk: Any) -> None:
        asked.append((self, chunk))
        original(self, chunk)

    monkeypatch.setattr(Session, "look_up", look_up)
    eager = Words()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    tokens = [torch.tensor([1, 2, 7]), torch.tensor([4, 0, 8])]
    for recording in (False, True):
        asked.clear()
        with torch.set_grad_enabled(recording), gluonjit.batching(expand=("Words",)) as batch:
            found = [net(each) for each in tokens]
            batch.flush("to be seen")
        ((session, chunk),) = asked
        assert chunk.table.weight is net.embed.weight
        for each, (result, rest) in zip(tokens, found):
            assert torch.allclose(result, eager(each)[0], atol=1e-6)
            assert torch.equal(rest, each[1:])
        (known,) = [chunk for chunk in session.plan.inputs if chunk.table.weight is None]
        rows = session.rows(known.place.arena, range(known.place.begin, known.place.end))
        assert rows.tolist() == list(known.indices) == [1, 2, 7, 4, 0, 8]
