"""Habits of programs that once kept a call from being one node: what they return, read and pack."""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch_support import assert_near

import gluonjit

C = 6
Forward = Callable[[Any, Any], Any]
IDIOMS: dict[str, Forward] = {}


def idiom(forward: Forward) -> Forward:
    IDIOMS[forward.__name__] = forward
    return forward


class Model(nn.Module):
    """Runs an idiom."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(C, C), nn.Linear(C, 3)
        self.name = name

    def forward(self, x: Any) -> Any:
        return IDIOMS[self.name](self, x)


@idiom
def a_number_of_what_it_made(self: Any, x: Any) -> Any:
    half = torch.tensor(len(x)).item() // 2
    return self.out(self.inner(x)[: max(1, half)]).mean(0)


@idiom
def a_list_of_what_it_made(self: Any, x: Any) -> Any:
    return self.out(self.inner(x))[[k % len(x) for k in torch.arange(3).tolist()]].mean(0)


@idiom
def a_mask_by_lengths(self: Any, x: Any) -> Any:
    lengths = torch.LongTensor([len(x)])
    mask = torch.arange(int(lengths.max()))[None, :] < lengths[:, None]
    return self.out((self.inner(x).unsqueeze(0) * mask.unsqueeze(2)).sum(1) / lengths.unsqueeze(1))[0]


@idiom
def numbers_beside_results(self: Any, x: Any) -> Any:
    return {"scores": self.out(self.inner(x)).mean(0), "length": len(x), "sizes": (x.size(1), 2 * x.size(0))}


def _tensors(found: Any) -> list[Any]:
    return [found["scores"]] if isinstance(found, dict) else [found]


@pytest.mark.parametrize("name", IDIOMS)
def test_a_call_is_one_node_for_all_lengths(name: str) -> None:
    eager = Model(name)
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    for lengths in ((3, 4, 5, 3), (6, 4, 9, 5), (7, 3, 8, 11)):
        samples = [torch.randn(length, C) for length in lengths]
        found, expected = [net(x) for x in samples], [eager(x) for x in samples]
        for model, results in ((net, found), (eager, expected)):
            model.zero_grad()
            sum(tensor.sum() for result in results for tensor in _tensors(result)).backward()
        report = gluonjit.explain()
        assert (report.kinds["Model"].nodes, report.kinds["Model"].launches, report.flushes) == (4, 1, 1)
        for one, other in zip(found, expected):
            assert_near(_tensors(one)[0], _tensors(other)[0])
            if isinstance(other, dict):
                assert (one["length"], one["sizes"]) == (other["length"], other["sizes"])
        for mine, theirs in zip(net.parameters(), eager.parameters()):
            assert (mine.grad is None) == (theirs.grad is None)
            if theirs.grad is not None:
                assert_near(mine.grad, theirs.grad)


def test_a_number_that_a_length_bounds_is_right_for_other_lengths() -> None:
    class Bounded(Model):
        def forward(self, x: Any) -> Any:
            most = min(torch.tensor(len(x)).item(), 5)
            return self.out(self.inner(x)[:most]).sum(0) * most

    eager = Bounded("")
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    for lengths in ((6, 7, 8, 9), (10, 11, 12, 4), (3, 5, 13, 2)):
        samples = [torch.randn(length, C) for length in lengths]
        for one, other in zip([net(x) for x in samples], [eager(x) for x in samples]):
            assert_near(one, other)


def test_numbers_of_arguments_are_not_what_it_made() -> None:
    class Reading(Model):
        def forward(self, x: Any) -> Any:
            return self.out(x).mean(0) * (1 if x.sum().item() > 0 else 2)

    eager = Reading("")
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    samples = [torch.ones(2, C), -torch.ones(2, C)]
    for one, other in zip([net(x) for x in samples], [eager(x) for x in samples]):
        assert_near(one, other)


def test_a_forward_of_another_name() -> None:
    class Named(Model):
        def encode(self, x: Any) -> Any:
            return self.out(self.inner(x)).mean(0)

        forward = encode

    def own(self: Any, x: Any) -> Any:
        return self.out(self.inner(x)).sum(0)

    for make in (Named, type("Assigned", (Model,), {"forward": own})):
        eager = make("")
        net = copy.deepcopy(eager)
        gluonjit.hybridize(net, dynamic_batch=True)
        samples = [torch.randn(length, C) for length in (2, 3, 2)]
        for one, other in zip([net(x) for x in samples], [eager(x) for x in samples]):
            assert_near(one, other)
        assert make.__name__ in gluonjit.explain().kinds


class Passing(nn.Module):
    """Gives back what it was given, beside what it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(C, C)

    def forward(self, x: Any, edges: Any, scale: float = 1.0) -> Any:
        return torch.tanh(self.inner(x)[edges]) * scale, edges, {"x": x, "scale": scale}


class Stacked(nn.Module):
    """Layers that hand on what they do not change."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Passing() for _ in range(2)])

    def forward(self, x: Any, edges: Any, data: Any) -> Any:
        for layer in self.layers:
            x, edges, _ = layer(x, edges, scale=data.scale)
        return x.mean(0)


def test_arguments_that_are_returned_are_themselves() -> None:
    eager = Passing()
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    for _ in range(3):
        samples = [(torch.randn(n, C), torch.randint(n, (n,))) for n in (3, 4, 3, 5)]
        found, expected = [net(*sample) for sample in samples], [eager(*sample) for sample in samples]
        report_of = found[0][0].sum().item() and gluonjit.explain()
        assert (report_of.kinds["Passing"].nodes, report_of.kinds["Passing"].launches) == (4, 1)
        for (x, edges), (one, given, rest), (other, *_) in zip(samples, found, expected):
            assert_near(one, other)
            assert given is edges and rest["x"] is x and rest["scale"] == 1.0
            rest["x"].add_(1.0)
            assert_near(x, rest["x"])


def test_arguments_are_handed_on_from_layer_to_layer() -> None:
    class Data:
        scale = 0.5

    eager = Stacked()
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    for _ in range(3):
        samples = [(torch.randn(n, C), torch.randint(n, (n,)), Data()) for n in (3, 4, 3, 5)]
        found, expected = [net(*sample) for sample in samples], [eager(*sample) for sample in samples]
        for model, results in ((net, found), (eager, expected)):
            model.zero_grad()
            sum(result.sum() for result in results).backward()
        report = gluonjit.explain()
        assert report.kinds["layers.0"].launches == report.kinds["layers.1"].launches == 1
        for one, other in zip(found, expected):
            assert_near(one, other)
        for mine, theirs in zip(net.parameters(), eager.parameters()):
            assert_near(mine.grad, theirs.grad)


def test_views_of_arguments_are_not_returned_by_a_node() -> None:
    class Viewing(Passing):
        def forward(self, x: Any) -> Any:  # type: ignore[override]
            return self.inner(x).sum(0), x[0]

    net = Viewing()
    gluonjit.hybridize(net, dynamic_batch=True)
    samples = [torch.randn(3, C) for _ in range(3)]
    for x, (_, row) in zip(samples, [net(x) for x in samples]):
        row.add_(1.0)
        assert_near(row, x[0])
    assert "Viewing" not in gluonjit.explain().kinds


class Places(nn.Module):
    """Takes entries at places that it computes."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.inner, self.table, self.name = nn.Linear(C, C), nn.Parameter(torch.randn(C, C)), name

    def forward(self, x: Any, data: Any = None) -> Any:
        y = self.inner(x)
        place = y[0].argmax()
        if self.name == "rows":
            return x[y.sum(1).argmax()] * y[0]
        if self.name == "of a weight":
            return self.table[place] * 2
        if self.name == "columns":
            return y[:, place].sum() + y[..., place][0] + y[0, place]
        if self.name == "from the end":
            return y[1:, None, place - C]
        found, last = [], torch.tensor(0)
        for row in y:
            last = (row + self.table[last]).argmax()
            found.append(row[last])
        return torch.stack(found)


@pytest.mark.parametrize("data", [None, object()], ids=["node", "parts"])
@pytest.mark.parametrize("name", ["rows", "of a weight", "columns", "from the end", "one after the other"])
def test_entries_at_computed_places(name: str, data: Any) -> None:
    eager = Places(name)
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    for _ in range(3):
        samples = [torch.randn(length, C) for length in (3, 4, 5, 3)]
        found, expected = [net(x, data) for x in samples], [eager(x) for x in samples]
        for model, results in ((net, found), (eager, expected)):
            model.zero_grad()
            sum(result.sum() for result in results).backward()
        assert not gluonjit.explain().kinds or "index_select" in gluonjit.explain().unbatched["__getitem__"]
        for one, other in zip(found, expected):
            assert_near(one, other)
        for mine, theirs in zip(net.parameters(), eager.parameters()):
            assert (mine.grad is None) == (theirs.grad is None)
            if theirs.grad is not None:
                assert_near(mine.grad, theirs.grad)


def test_a_computed_place_that_there_is_none_of() -> None:
    net = Places("of a weight")
    net.table = nn.Parameter(torch.randn(2, C))
    with torch.no_grad():
        net.inner.bias[4] = 100.0
    gluonjit.hybridize(net, dynamic_batch=True)
    with pytest.raises(IndexError):
        net(torch.randn(2, C), object()).tolist()


class Rounds(nn.Module):
    """Applies layers again, as often as it says, whatever the number of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.update = nn.Linear(C, C), nn.GRUCell(C, C)

    def forward(self, x: Any, rounds: int) -> Any:
        found = []
        for _ in range(rounds):
            x = self.update(torch.softmax(self.mix(x) @ x.t(), -1) @ x, x)
            found.append(x.mean())
        return torch.stack(found)


def test_rounds_are_one_node_for_any_number_of_rows() -> None:
    eager = Rounds()
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    for lengths in ((3, 4, 5, 3), (6, 3, 7, 8)):
        samples = [(torch.randn(length, C), rounds) for length in lengths for rounds in (2, 3)]
        found, expected = [net(*sample) for sample in samples], [eager(*sample) for sample in samples]
        for model, results in ((net, found), (eager, expected)):
            model.zero_grad()
            sum(result.sum() for result in results).backward()
        report = gluonjit.explain()
        assert (report.kinds["Rounds"].nodes, report.kinds["Rounds"].launches) == (8, 2)
        for one, other in zip(found, expected):
            assert_near(one, other)
        for mine, theirs in zip(net.parameters(), eager.parameters()):
            assert_near(mine.grad, theirs.grad)


class Grouping(nn.Module):
    """Sorts rows into lists that a defaultdict makes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(C, C)

    def forward(self, x: Any, given: Any = None) -> Any:
        groups = defaultdict(list) if given is None else given
        for number, row in enumerate(x):
            groups[number % 2].append(self.inner(row))
        return torch.stack(groups[0]).mean(0) + (torch.stack(groups[1]).sum(0) if 1 in groups else 0)


def test_lists_that_a_defaultdict_makes() -> None:
    eager = Grouping()
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    samples = [torch.randn(length, C) for length in (1, 2, 3, 4, 3)]
    found = [net(x) for x in samples]
    for one, other in zip(found, [eager(x) for x in samples]):
        assert_near(one, other)
    assert gluonjit.explain().kinds["Grouping"].nodes == 5
    groups: Any = defaultdict(list)
    assert_near(net(samples[2], groups), eager(samples[2]))
    assert sorted(map(len, groups.values())) == [1, 2]


class Noting(nn.Module):
    """Writes to what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(C, C)

    def forward(self, x: Any, notes: Any, **named: Any) -> Any:
        found = self.inner(x)
        for place in (notes, *named.values()):
            if isinstance(place, dict):
                place["found"] = found
                place.pop("old", None)
                self.forward(x, place["inner"]) if "inner" in place else None
            else:
                place.append(found)
                place[0] = place[0] + 1
        return found.sum()


def test_lists_and_dictionaries_of_the_program_are_written_to() -> None:
    eager = Noting()
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    x, y = torch.randn(C), torch.randn(2)
    for model in (eager, net):
        inner: list[Any] = [y]
        notes: dict[str, Any] = {"old": x, "kept": y, "inner": inner}
        more = [torch.zeros(2), y]
        model(x, notes, more=more)
        assert list(notes) == ["kept", "inner", "found"] and notes["kept"] is y and notes["inner"] is inner
        assert len(inner) == 2 and len(more) == 3 and more[1] is y
        assert_near(inner[0], y + 1)
        assert_near(more[0], torch.ones(2))
        assert_near(notes["found"], eager.inner(x))
        assert_near(more[2], eager.inner(x))


class Aligned(nn.Module):
    """The CTC loss of one sample."""

    def __init__(self, lengths: Callable[[int], Any]) -> None:
        super().__init__()
        self.out, self.lengths = nn.Linear(C, 5), lengths

    def forward(self, x: Any, y: Any) -> Any:
        scores = self.out(x).log_softmax(-1)
        given = self.lengths(len(scores)), self.lengths(len(y))
        return nn.functional.ctc_loss(scores[:, None], y[None], *given, zero_infinity=True)


@pytest.mark.parametrize("lengths", [lambda n: [n], lambda n: torch.tensor([n])], ids=["numbers", "a tensor"])
def test_a_ctc_loss_runs_for_each_sample_and_says_what_to_type(lengths: Callable[[int], Any]) -> None:
    eager = Aligned(lengths)
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    samples = [(torch.randn(t, C), torch.randint(1, 4, (n,))) for t, n in ((7, 2), (5, 3), (3, 3), (2, 4))]
    wanted, found = ([model(*sample) for sample in samples] for model in (eager, net))
    sum(wanted).backward()
    sum(found).backward()
    assert_near(torch.stack(found), torch.stack(wanted))
    assert_near(net.out.weight.grad, eager.out.weight.grad)
    assert "pad_sequence" in gluonjit.explain().unbatched["ctc_loss"]
