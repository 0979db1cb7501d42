"""`gluonjit.map`: samples that read values wait for each other, and go on in one batch."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.compiled import FAST
from gluonjit.engines.torch.capture import cells
from gluonjit.engines.torch.framework import originals
from gluonjit.engines.torch.framework.input_version import InputVersion
from gluonjit.engines.torch.run.chunks import Chunk
from gluonjit.engines.torch.run.memory import Session
from gluonjit.errors import GluonJITWarning, OptionError
from gluonjit.hybrid.mapping import mapping
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.state import LOCAL

pytest.importorskip("greenlet")
SIZE = 6


class Halting(nn.Module):
    """Takes steps until the sum of what it reads has come to a sample's limit."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.GRUCell(SIZE, SIZE), nn.Linear(SIZE, 1)

    def forward(self, x: Any, limit: float) -> Any:
        h, spent, steps = torch.zeros(SIZE), 0.0, 0
        while spent < limit:
            h = self.cell(x, h)
            spent += torch.sigmoid(self.out(h)).item()
            steps += 1
        return h * steps


class Written(Halting):
    """Adds up in place what outlives a read."""

    def forward(self, x: Any, limit: float) -> Any:
        total = self.cell(x, torch.zeros(SIZE))
        while total.sum() < limit:
            total += torch.sigmoid(self.cell(x, total.clone()))
        return total


class Tree(nn.Module):
    """Calls itself for children whose number a value decides, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def forward(self, x: Any, depth: int = 3) -> Any:
        h = torch.tanh(self.down(x))
        if not depth or (h.sum() > 1.0).item():
            return h
        parts = gluonjit.map(lambda scale: self.forward(h * scale, depth - 1), [0.5, 1.5])
        return torch.tanh(self.up(parts[0] + parts[1]))


def samples(count: int = 12) -> list[tuple[Any, float]]:
    torch.manual_seed(1)
    return [(torch.randn(SIZE), 0.4 * (1 + k % 5)) for k in range(count)]


def pair(kind: type[nn.Module]) -> tuple[Any, Any]:
    torch.manual_seed(0)
    eager = kind()
    return eager, gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)


def assert_same(found: Any, expected: Any) -> None:
    assert len(found) == len(expected)
    for value, wanted in zip(found, expected):
        torch.testing.assert_close(torch.as_tensor(value).detach(), torch.as_tensor(wanted).detach())


def trained(net: Any, values: Any) -> list[Any]:
    torch.stack([value.pow(2).sum() for value in values]).sum().backward()
    return [weight.grad for weight in net.parameters() if weight.grad is not None]


@pytest.mark.parametrize("kind", [Halting, Written])
def test_values_and_gradients_are_those_of_one_sample_after_the_other(kind: type[nn.Module]) -> None:
    eager, net = pair(kind)
    expected = [eager(*sample) for sample in samples()]
    values = gluonjit.map(lambda sample: net(*sample), samples())
    assert_same(values, expected)
    assert_same(trained(net, values), trained(eager, expected))


def test_each_step_of_all_samples_is_one_launch() -> None:
    _, net = pair(Halting)
    with torch.no_grad():
        for _ in range(2):
            steps = gluonjit.map(lambda sample: net(*sample), [(x, 1.2) for x, _ in samples()])
    report = gluonjit.explain()
    assert len(steps) == 12
    assert report.launches <= 2 * report.flushes
    assert report.flushes <= 6


@pytest.mark.parametrize("kind", [Halting, Written])
def test_rows_that_cross_a_flush_become_no_tensors(kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    _, net = pair(kind)
    made = []
    of_chunk = Chunk.value
    monkeypatch.setattr(Chunk, "value", lambda *args: made.append(args) or of_chunk(*args))
    gluonjit.map(lambda sample: net(*sample), samples())
    assert not made


@pytest.mark.parametrize("shared", [False, True])
def test_losses_are_differentiated_one_by_one_across_flushes(shared: bool) -> None:
    eager, net = pair(Halting)
    inputs = [(x.clone().requires_grad_(), limit) for x, limit in samples(5)]
    if shared:  # equal calls, which are one node
        inputs[1] = inputs[0]

    def differentiated(values: list[Any]) -> list[Any]:
        for value in values:
            value.sum().backward()
        found = [x.grad.clone() for x, _ in inputs]
        for x, _ in inputs:
            x.grad = None
        return found

    expected = differentiated([eager(*each) for each in inputs])
    values = gluonjit.map(lambda each: net(*each), inputs)
    assert_same(differentiated(values), expected)
    assert_same([weight.grad for weight in net.cell.parameters()], [weight.grad for weight in eager.cell.parameters()])


class Normed(nn.Module):
    """Computes before it reads what equal samples have in common."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(3)

    def forward(self, x: Any) -> Any:
        p = self.norm(x) * 0.7
        for _ in range(4):
            if p.mean().item() > 0.01:
                break
            p = torch.sin(p) + 0.2
        return p


def test_equal_samples_that_cross_a_flush_are_differentiated_one_by_one() -> None:
    eager, net = pair(Normed)
    x = torch.tensor([[-1.0, -0.6, 1.0]])
    for model, run in ((eager, map), (net, gluonjit.map)):
        for value in list(run(model, [x, x])):
            value.exp().sum().backward()
    assert_same([net.norm.weight.grad, net.norm.bias.grad], [eager.norm.weight.grad, eager.norm.bias.grad])


class Halves(nn.Module):
    """Takes a part of a result after one read, and uses it after the next one, as others use theirs at once."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any, late: bool) -> Any:
        h = torch.tanh(self.layer(x))
        h.sum().item()
        low, s = h[1:3], x.sum()
        if not late:
            s = torch.sin(low).sum()
        s.item()
        return low.exp().sum() + s


def test_a_part_that_crosses_two_flushes_keeps_its_history() -> None:
    eager, net = pair(Halves)
    xs = [torch.randn(4, 3).requires_grad_() for _ in range(3)]
    for model, run in ((eager, map), (net, gluonjit.map)):
        values = list(run(lambda k, model=model: model(xs[k], k != 1), range(3)))
        torch.stack(values).sum().backward()
    for x in xs:
        assert x.grad is not None
    assert_same([weight.grad for weight in net.parameters()], [weight.grad for weight in eager.parameters()])


class Runs(nn.Module):
    """Runs a function with a table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 3)

    def forward(self, function: Any, *args: Any) -> Any:
        return function(self.table, *args)


def test_an_entry_that_crosses_a_flush_beside_rows_without_history_learns() -> None:
    def entry(table: Any, a: Any) -> Any:
        found = table(torch.tensor([4]))
        (a * 1.1).mean().item()
        return torch.sin(found)

    net = Runs()
    with gluonjit.batching(granularity="cell"):
        calls = [
            lambda: net(entry, torch.ones(1)),
            lambda: net(lambda _, rows: rows.repeat_interleave(3, dim=1), torch.ones(3, 1)),
        ]
        found, _ = gluonjit.map(lambda call: call(), calls)
        found.sum().backward()
    torch.testing.assert_close(net.table.weight.grad[4], torch.cos(net.table.weight[4]).detach())


class Rewritten(Halting):
    """Writes to its input between reads, as PyTorch counts it or as only numpy knows."""

    def forward(self, x: Any, limit: float) -> Any:
        h, spent = torch.zeros(SIZE), 0.0
        for step in range(4):
            h = self.cell(x, h)
            spent += torch.sigmoid(self.out(h)).item()
            if step == 1:
                x *= 2.0
            elif step == 2 and spent > limit:
                x.numpy()[:] = -1.0
        return h * spent


def test_inputs_are_looked_at_once_and_again_where_they_were_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    begin = InputVersion.__init__
    monkeypatch.setattr(InputVersion, "__init__", lambda *args: (looked.append(id(args[1])), begin(*args))[1])
    _, batched = pair(Halting)
    given = samples()
    gluonjit.map(lambda sample: batched(*sample), given)
    assert len(looked) == 2 * len(given)  # its input, and what it begins with
    eager, batched = pair(Rewritten)
    expected = [eager(x.clone(), limit) for x, limit in given]
    assert_same(gluonjit.map(lambda sample: batched(sample[0].clone(), sample[1]), given), expected)
    shared = [(torch.from_numpy(x.numpy().copy()), limit) for x, limit in given]
    assert_same(gluonjit.map(lambda sample: batched(*sample), shared), expected)


def test_warnings_have_a_receiver_after_samples_that_have_waited_in_functions_of_pytorch() -> None:
    """Which puts one on the stack in each function, and back what was there before: of another sample by then."""
    net = gluonjit.hybridize(nn.Linear(SIZE, SIZE), dynamic_batch=True)
    within: list[Any] = []

    def run(steps: int) -> int:
        begun, h = originals.held(), torch.ones(SIZE) * steps
        for _ in range(steps):
            h = net(h)
            torch.is_nonzero(h.sum())
            within.append(originals.held() == begun)
        return steps

    before = originals.held()
    assert gluonjit.map(run, [3, 1, 2, 3, 1], granularity="op") == [3, 1, 2, 3, 1]
    assert originals.held() == before
    assert all(within)
    with pytest.warns(UserWarning, match="resized"):
        torch.add(torch.zeros(2, 1), torch.zeros(2, 2), out=torch.zeros(3, 1))


def test_in_flight_bounds_the_samples_under_way_of_any_iterable() -> None:
    eager, net = pair(Halting)
    under_way, most = 0, []

    def run(sample: Any) -> Any:
        nonlocal under_way
        under_way += 1
        most.append(under_way)
        found = net(*sample)
        under_way -= 1
        return found

    def stream() -> Iterator[Any]:
        yield from samples(20)

    values = gluonjit.map(run, stream(), in_flight=5)
    assert_same(values, [eager(*sample) for sample in samples(20)])
    assert max(most) == 5


def test_branches_of_samples_go_on_side_by_side() -> None:
    eager, net = pair(Tree)
    inputs = [x for x, _ in samples()]
    expected, values = [eager(x) for x in inputs], gluonjit.map(net, inputs)
    assert_same(values, expected)
    assert gluonjit.explain().flushes <= 6  # one for each level, where a value is read at each node
    assert_same(trained(net, values), trained(eager, expected))


def test_outside_of_samples_branches_run_by_themselves() -> None:
    eager, net = pair(Tree)
    x = samples()[0][0]
    assert_same([net(x)], [eager(x)])


def test_an_error_names_its_sample_and_leaves_the_batch_clean() -> None:
    eager, net = pair(Halting)
    ended = []

    def run(number: int) -> Any:
        found = net(*samples()[number])
        if number in (3, 5):
            raise ValueError(f"no {number}")
        ended.append(number)
        return found

    with pytest.raises(ValueError, match="no 3") as caught:
        gluonjit.map(run, range(8))
    if hasattr(caught.value, "__notes__"):
        assert caught.value.__notes__ == ["in sample 3 of gluonjit.map"]
    assert sorted(ended) == [0, 1, 2, 4, 6, 7]
    assert_same(gluonjit.map(lambda sample: net(*sample), samples()), [eager(*sample) for sample in samples()])


def test_an_error_of_the_iterable_is_raised_when_the_rest_has_ended() -> None:
    _, net = pair(Halting)
    ended = []

    def stream() -> Iterator[Any]:
        yield from samples(3)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        gluonjit.map(lambda sample: ended.append(net(*sample)), stream())
    assert len(ended) == 3


def test_an_interrupt_ends_all_samples() -> None:
    eager, net = pair(Halting)
    left = []

    def run(number: int) -> Any:
        try:
            found = net(*samples()[number])
            if number == 0:
                raise KeyboardInterrupt
            return found
        finally:
            left.append(number)

    with pytest.raises(KeyboardInterrupt):
        gluonjit.map(run, range(6))
    assert sorted(left) == list(range(6))
    assert_same(gluonjit.map(lambda sample: net(*sample), samples()), [eager(*sample) for sample in samples()])


def test_whether_gradients_are_recorded_is_each_samples_own() -> None:
    _, net = pair(Halting)

    def run(sample: Any) -> tuple[bool, bool, bool]:
        before = torch.is_grad_enabled()
        with torch.no_grad():
            net(*sample).sum().item()
            inside = torch.is_grad_enabled()
        return before, inside, torch.is_grad_enabled()

    assert gluonjit.map(run, samples()) == [(True, False, True)] * 12
    assert torch.is_grad_enabled()


def test_a_region_that_cannot_be_left_runs_at_once() -> None:
    eager, net = pair(Halting)

    def run(sample: Any) -> Any:
        with torch.inference_mode():
            return net(*sample).sum().item()

    assert_same(gluonjit.map(run, samples()), [eager(*sample).sum().item() for sample in samples()])
    assert not torch.is_inference_mode_enabled()


def test_it_runs_in_a_region_of_batching_and_returns_anything() -> None:
    eager, net = pair(Halting)
    with gluonjit.batching():
        lengths = gluonjit.map(lambda sample: {"sum": float(net(*sample).detach().sum())}, samples())
    assert_same([found["sum"] for found in lengths], [float(eager(*sample).detach().sum()) for sample in samples()])


@pytest.fixture
def no_greenlet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "greenlet", None)
    monkeypatch.delitem(sys.modules, "gluonjit.hybrid.mapping.fibers", raising=False)
    monkeypatch.delattr("gluonjit.hybrid.mapping.fibers", raising=False)


@pytest.mark.usefixtures("no_greenlet")
def test_without_greenlet_samples_run_in_turn() -> None:
    eager, net = pair(Halting)
    with pytest.warns(GluonJITWarning, match="pip install"):
        values = gluonjit.map(lambda sample: net(*sample), samples())
    assert_same(values, [eager(*sample) for sample in samples()])


@pytest.mark.usefixtures("no_greenlet")
def test_an_error_says_its_sample_where_samples_run_in_turn() -> None:
    with pytest.warns(GluonJITWarning), pytest.raises(ZeroDivisionError) as caught:
        gluonjit.map(lambda number: 1 / number, [2, 1, 0])
    assert getattr(caught.value, "__notes__", ["in sample 2 of gluonjit.map"]) == ["in sample 2 of gluonjit.map"]


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True])
def test_a_wrong_number_in_flight_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match=f"in_flight={wrong}"):
        gluonjit.map(abs, [1], in_flight=wrong)


class Reader(Halting):
    """Reads an index that it has computed, and asks C++ for a tensor of results."""

    def forward(self, x: Any, limit: float) -> Any:
        h = self.cell(x, torch.zeros(SIZE))
        for _ in range(3):
            h = self.cell(x, h) * h[h.argmax()] + torch.tensor([h.sum().detach(), 1.0]).sum()
        return h


def test_an_index_that_is_read_waits_and_what_runs_below_python_does_not() -> None:
    eager, net = pair(Reader)
    assert_same(gluonjit.map(lambda sample: net(*sample), samples()), [eager(*sample) for sample in samples()])
    steps = 3 * 12
    assert 3 <= gluonjit.explain().flushes <= steps + 4


def test_a_computed_index_is_read_for_all_samples_at_once() -> None:
    eager, net = pair(Halting)
    run = lambda model, x: model.cell(x, torch.zeros(SIZE))  # noqa: E731
    best = [run(eager, x)[run(eager, x).argmax()] for x, _ in samples()]

    class Best(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = net.cell

        def forward(self, x: Any) -> Any:
            h = self.cell(x, torch.zeros(SIZE))
            return h[h.argmax()]

    model = gluonjit.hybridize(Best(), dynamic_batch=True)
    assert_same(gluonjit.map(model, [x for x, _ in samples()]), best)
    assert gluonjit.explain().flushes <= 2


@pytest.mark.parametrize(
    "wrong, said",
    [
        ((3, [1]), "3 is no function"),
        ((abs, 5), "not int"),
        ((abs, [1], 8.0), "in_flight=8.0"),
    ],
)
def test_wrong_arguments_are_named(wrong: Any, said: str) -> None:
    with pytest.raises((TypeError, OptionError), match=rf"gluonjit.map\(\).*{said}"):
        gluonjit.map(*wrong)
    with pytest.raises(OptionError, match=r"gluonjit.map\(\)"):
        gluonjit.map(abs, [1], bogus=1)


def test_a_result_that_a_later_batch_has_used_retains_its_gradient() -> None:
    eager, net = pair(Halting)
    torch.manual_seed(2)
    after = nn.Linear(SIZE, SIZE)
    wanted = eager(*samples()[0])
    wanted.retain_grad()
    (after(wanted).sum() + wanted.sum()).backward()
    after = gluonjit.hybridize(after, dynamic_batch=True)
    with gluonjit.batching() as batch:
        h = net(*samples()[0])
        batch.flush()
        found = after(h).sum()
        h.retain_grad()
        total = found + h.sum()
    total.backward()
    assert_same([h.grad], [wanted.grad])


def test_a_result_of_an_earlier_flush_is_written_to_as_eagerly() -> None:
    eager, net = pair(Halting)

    def written(model: Any) -> Any:
        with torch.no_grad():
            h = model(*samples()[0])
            assert h.sum().item() != 0.0
            before = h * 1.0
            h[2:4] = 3.0
            h.mul_(2.0)
            return before, h, model.cell(h, before)

    assert_same(gluonjit.map(written, [net])[0], written(eager))


def test_where_no_way_is_named_it_may_run_samples_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    eager, net = pair(Halting)
    monkeypatch.setattr("gluonjit.hybrid.choose.pacing.PINNED", [])
    monkeypatch.setattr("gluonjit.hybrid.mapping.mapping.PINNED", [])
    expected = [eager(*sample) for sample in samples()]
    asked: list[bool] = []
    monkeypatch.setattr("gluonjit.hybrid.choose.pacing.FORCED", [lambda: asked[-1]])
    for now in (True, False, True):
        asked.append(now)
        values = gluonjit.map(lambda sample: net(*sample), samples())
        assert [type(value) is torch.Tensor for value in values] == [now] * 12
        assert_same(values, expected)
        assert_same(trained(net, values), trained(eager, expected))
        net.zero_grad()
        eager.zero_grad()
        expected = [eager(*sample) for sample in samples()]
    assert LOCAL.state.paused == 0


def test_a_function_is_known_by_its_code_and_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gluonjit.hybrid.mapping.mapping.PINNED", [])

    def of(net: Any) -> Any:
        return mapping._paces_of(lambda x: net(x), Options())

    (_, first), (_, second) = pair(Halting), pair(Halting)
    assert of(first) is of(first)
    assert of(first) is not of(second)
    assert mapping._paces_of(first, Options()) is mapping._paces_of(partial(first), Options())
    assert not mapping._paces_of(first, Options(granularity="cell")).open


class Choosing(Halting):
    """Reads several numbers of each step, as who follows the largest of some scores."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(SIZE, 3)

    def forward(self, x: Any, limit: float) -> Any:
        h, scores = torch.zeros(SIZE), []
        for _ in range(4):
            h = self.cell(x, h)
            scores.append(self.out(h).tolist())
            if max(scores[-1]) > limit:
                break
        return h * sum(map(sum, scores))


def test_a_line_of_numbers_is_read_without_a_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    eager, net = pair(Choosing)
    made = []
    of_chunk = Chunk.value
    monkeypatch.setattr(Chunk, "value", lambda *args: made.append(args) or of_chunk(*args))
    values = gluonjit.map(lambda sample: net(*sample), samples())
    assert not made
    assert_same(values, [eager(*sample) for sample in samples()])


def test_lists_of_numbers_are_each_readers_own() -> None:
    def read(x: Any) -> Any:
        h = torch.tanh(x)
        first, second = h.tolist(), h.tolist()
        first[0] = 9.0
        return first, second, (h.unsqueeze(0) + 1.0).tolist(), h[1:3].tolist(), (h > 0.0).tolist()

    net = gluonjit.hybridize(nn.Linear(SIZE, SIZE), dynamic_batch=True)
    x = torch.linspace(-1.0, 1.0, SIZE)
    wanted = torch.tanh(net(x))
    with torch.no_grad():
        found = gluonjit.map(lambda x: read(net(x)), [x, x])
    for first, second, row, part, signs in found:
        assert first[0] == 9.0
        torch.testing.assert_close(torch.tensor(second), wanted)
        torch.testing.assert_close(torch.tensor(first[1:]), wanted[1:])
        torch.testing.assert_close(torch.tensor(row), wanted.unsqueeze(0) + 1.0)
        torch.testing.assert_close(torch.tensor(part), wanted[1:3])
        assert signs == (wanted > 0.0).tolist()


@pytest.mark.skipif(FAST is None, reason="the compiled part was not built")
def test_inputs_that_cross_a_flush_are_looked_at_in_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    init = InputVersion.__init__
    monkeypatch.setattr(InputVersion, "__init__", lambda *args: (made.append(args[1]), init(*args))[1])
    _, net = pair(Halting)
    given = samples()
    gluonjit.map(lambda sample: net(*sample), given)
    assert gluonjit.explain().flushes > 2
    assert len([tensor for tensor in made if any(tensor is x for x, _ in given)]) == len(given)


@pytest.mark.skipif(FAST is None, reason="the compiled part was not built")
def test_cells_made_from_source_are_found_again_after_a_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gated(Halting):
        def forward(self, x: Any, limit: float) -> Any:
            h, spent = torch.zeros(SIZE), 0.0
            while spent < limit:
                h = torch.tanh(self.out(x)) + h * torch.sigmoid(self.out(h)) + x
                spent += torch.sigmoid(self.out(h)).item()
            return h

    _, net = pair(Gated)
    for _ in range(4):
        gluonjit.map(lambda sample: net(*sample), samples(), granularity="cell", scheduler="depth")
    looked = []
    record_of = cells.record_of
    monkeypatch.setattr(cells, "record_of", lambda *args: (looked.append(args[0].cell.name), record_of(*args))[1])
    gluonjit.map(lambda sample: net(*sample), samples(), granularity="cell", scheduler="depth")
    assert gluonjit.explain().flushes > 2
    assert len(looked) <= 1


def test_results_are_found_once_for_the_rows_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    chunk_at = Session.chunk_at
    monkeypatch.setattr(Session, "chunk_at", lambda *args: (asked.append(args[1:]), chunk_at(*args))[1])
    _, net = pair(Halting)
    with torch.no_grad():
        gluonjit.map(lambda sample: net(*sample), samples())
    report = gluonjit.explain()
    assert len(asked) <= 2 * report.launches


def test_inputs_whose_data_is_exchanged_after_a_read_are_looked_at_again() -> None:
    def narrowed(net: Any, x: Any, limit: float) -> Any:
        y = net(x)
        spent = y.sum().item()
        x.data = torch.zeros(2 * SIZE) if spent > limit else torch.zeros(1, SIZE)
        return y * (x + 1.0).sum() + torch.cos(x).sum()

    net = nn.Linear(SIZE, SIZE)
    twin = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True)
    limits = [-100.0, 100.0, -100.0, 100.0]
    wanted = [narrowed(net, torch.zeros(SIZE), limit) for limit in limits]
    found = gluonjit.map(lambda sample: narrowed(twin, *sample), [(torch.zeros(SIZE), limit) for limit in limits])
    assert_same(found, wanted)
