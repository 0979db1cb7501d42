"""Cells that are made from the source of modules' methods: the same values, gradients and effects, in fewer calls."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
import random
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import gluonjit
from gluonjit.engines.torch.capture import records
from gluonjit.hybrid.capture.guards.variants import AGAIN
from gluonjit.hybrid.capture.outlining import outlines

SIZE = 6


def assert_same(one: Any, other: Any) -> None:
    assert one.shape == other.shape
    assert (one - other).abs().max() <= 1e-5 * max(1.0, float(one.abs().max()))


BATCHED: dict[str, Any] = {"granularity": "cell"}


class Sample:
    def __init__(self, choose: random.Random) -> None:
        generator = torch.Generator().manual_seed(choose.randrange(1 << 30))
        self.x = torch.randn(SIZE, generator=generator)
        self.k = choose.randint(1, 5)


def samples(count: int = 6, seed: int = 0) -> list[Sample]:
    choose = random.Random(seed)
    return [Sample(choose) for _ in range(count)]


class Net(nn.Module):
    """What the programs have: layers, a weight, a buffer, and a log of what was done in which order."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(SIZE, SIZE) for _ in range(3))
        self.w = nn.Parameter(torch.randn(SIZE))
        self.register_buffer("buf", torch.zeros(SIZE))
        self.log: list[Any] = []
        self.reads = 0


class Recursive(Net):
    def encode(self, x: Any, depth: int) -> Any:
        if depth == 0:
            return torch.tanh(self.a(x)) * 2
        below = sum(self.b(self.encode(x * n, depth - 1)) for n in range(1, 3))
        return torch.tanh(self.a(x) + below)

    def forward(self, s: Any) -> Any:
        return self.c(self.encode(s.x, s.k % 3)).sum()


class EarlyReturn(Net):
    def encode(self, x: Any, depth: int) -> Any:
        if depth == 0:
            return torch.tanh(self.a(x)) * 2
        y = torch.tanh(self.b(x)) + x
        if depth == 3:
            return self.encode(y, 0)
        return torch.sigmoid(self.c(self.encode(y, depth - 1))) * y

    def forward(self, s: Any) -> Any:
        return self.encode(s.x, s.k).sum()


class Lattice(Net):
    """States at positions, each the mean of those that words from earlier positions give."""

    def forward(self, s: Any) -> Any:
        states = [torch.tanh(self.a(s.x)) * 0.5]
        for end in range(1, s.k + 1):
            found = []
            for begin in range(max(0, end - 2), end):
                gate = torch.sigmoid(self.b(states[begin]) + self.c(s.x * end))
                found.append(gate * states[begin] + (1 - gate) * torch.tanh(self.a(states[begin])))
            states.append(torch.stack(found).mean(0))
        return (states[-1] * self.w).sum()


class Pointer(Net):
    """A pointer network: attention over a list of states, the state pointed to goes in next."""

    def forward(self, s: Any) -> Any:
        states = [torch.tanh(self.a(s.x * n)) for n in range(s.k)]
        memory = torch.stack(states)
        query, total = s.x, 0
        for _ in range(2):
            scores = (torch.tanh(self.b(query) + memory) * self.w).sum(-1).softmax(0)
            query = torch.tanh(self.c((scores.unsqueeze(-1) * memory).sum(0)))
            total = total + scores.max().log()
        return total + query.sum()


class Adversaries(Net):
    """Like training of a GAN: what is made goes detached to the other part, a buffer keeps a running mean."""

    def forward(self, s: Any) -> Any:
        fake = torch.tanh(self.a(s.x)) * 2
        score = torch.sigmoid(self.b(fake.detach())) * self.w
        with torch.no_grad():
            self.buf.mul_(0.9).add_(fake.mean() * 0.1)
        return score.sum() + torch.relu(self.c(fake) + 1).sum()


class Replaced(Net):
    def forward(self, s: Any) -> Any:
        h = torch.tanh(self.a(s.x)) * 2
        self.buf = self.buf * 0.9 + h.detach() * 0.1
        self.reads += 1
        return (h * self.b(self.buf)).sum()


class WriteAfterView(Net):
    def make(self, x: Any) -> Any:
        h = torch.sin(self.a(x)) * 1.5
        return h, h.view(2, 3)

    def forward(self, s: Any) -> Any:
        h, view = self.make(s.x)
        view.mul_(2.0)
        return (h + self.w).sum()


class WriteUnread(Net):
    def forward(self, s: Any) -> Any:
        h = torch.tanh(self.a(s.x[None])) * 2
        t = h * 3
        g = torch.sigmoid(h) + self.b(h)
        t += 1
        return (g * h).sum()


class WriteInAnArgument(Net):
    def bump(self, h: Any) -> Any:
        h.add_(1.0)
        return torch.tanh(self.b(h))

    def forward(self, s: Any) -> Any:
        h = self.a(s.x) + 0.5
        return (torch.add(h, 1) * 0.1 + self.bump(h) + torch.sub(h, 1) * 0.1).sum()


class WritesToWhatItGave(Net):
    """The state that is given is written over by the next call: no sum of all of them at the end."""

    def state(self, s: Any, k: int) -> Any:
        if k == 0:
            self.memory = self.a(s.x) + 1.0
        else:
            self.memory.mul_(0.5)
        return self.memory

    def forward(self, s: Any) -> Any:
        return sum(torch.add(self.state(s, k), 1) for k in range(3)).sum()


class Logs(Net):
    def step(self, x: Any) -> Any:
        self.log.append("step")
        self.kept = x
        return self.b(x)

    def forward(self, s: Any) -> Any:
        self.kept = s.x
        y = torch.tanh(self.a(self.kept)) + self.step(s.x * 2) + torch.tanh(self.c(self.kept))
        self.log.append("end")
        return y.sum()


class Property(Net):
    @property
    def scale(self) -> float:
        self.reads += 1
        return 1.0 / self.reads

    def forward(self, s: Any) -> Any:
        return (torch.tanh(self.a(s.x)) * self.scale + torch.tanh(self.b(s.x)) * self.scale).sum()


class Numbers(Net):
    def forward(self, s: Any) -> Any:
        h, t = self.a(s.x), 0
        for i in range(12):
            h = torch.tanh(self.b(h) + i * 0.1)
            t = t + i
        return h.sum() * t


class Base(Net):
    def encode(self, x: Any) -> Any:
        return torch.tanh(self.a(x)) + 1


class Super(Base):
    def encode(self, x: Any) -> Any:
        return torch.relu(super().encode(x)) * torch.sigmoid(self.b(x))

    def forward(self, s: Any) -> Any:
        return self.encode(s.x).sum()


class Private(Net):
    def __init__(self) -> None:
        super().__init__()
        self.__layer = nn.Linear(SIZE, SIZE)

    def __go(self, x: Any) -> Any:
        return torch.tanh(self.__layer(x)) * torch.sigmoid(self.b(x))

    def forward(self, s: Any) -> Any:
        __h = self.__go(s.x)
        __g = torch.tanh(__h) + torch.exp(__h)
        return __g.sum()


class Closures(Net):
    def forward(self, s: Any) -> Any:
        k = 2.0
        scaled = lambda t: t * k  # noqa: E731
        h = torch.tanh(self.a(s.x)) + 1
        k = 3.0
        found = [scaled(self.b(h)) for _ in range(2)]

        def inner(x: Any) -> Any:
            return torch.tanh(self.c(x)) * k

        return (found[0] * found[1] + inner(h)).sum()


class Steps(Net):
    def cell(self, x: Any, h: Any, c: Any) -> Any:
        i, f, o = torch.sigmoid(self.a(x) + self.b(h)), torch.sigmoid(self.b(x)), torch.sigmoid(self.c(h))
        c = f * c + i * torch.tanh(x)
        return o * torch.tanh(c), c

    def forward(self, s: Any) -> Any:
        h, c = torch.zeros(SIZE), torch.zeros(SIZE)
        for k in range(s.k):
            h, c = self.cell(s.x * k, h, c)
        return (h * c).sum()


class Raises(Net):
    def forward(self, s: Any) -> Any:
        try:
            y = torch.tanh(self.a(s.x)).view(4, 4) * 2
        except RuntimeError:
            self.log.append("shape")
            y = torch.tanh(self.b(s.x)) * 2
        try:
            if s.k > 100:
                missing = s.x
            y = y + torch.exp(torch.tanh(missing))
        except UnboundLocalError as error:
            self.log.append(str(error))
        return y.sum()


class Generators(Net):
    def states(self, s: Any) -> Any:
        h = self.a(s.x) * 1.0
        for _ in range(3):
            yield h
            h = h + 1

    def forward(self, s: Any) -> Any:
        return sum(torch.tanh(self.b(h)) for h in self.states(s)).sum()


class Values(Net):
    def forward(self, s: Any) -> Any:
        h = torch.tanh(self.a(s.x))
        if (h * self.w).sum() > 0:
            h = torch.relu(self.b(h)) + 1
        else:
            h = torch.exp(self.c(h)) * 0.5
        k = int((h * self.w).argmax())
        self.log.append(k)
        return (torch.relu(self.b(h)) * 2)[k] + h.sum()


class Carried(Net):
    def forward(self, s: Any) -> Any:
        h, total = s.x, 0
        for k in range(s.k):
            if k:
                total = total + torch.tanh(before) * h  # noqa: F821
            before = torch.relu(self.a(h)) + 1
            h = torch.tanh(self.b(before)) * 0.5
        swapped, other = torch.tanh(h), torch.exp(h)
        swapped, other = other * 2, swapped * 3
        del h
        return (swapped if s.k < 2 else total + other).sum()


class Stack(Net):
    def forward(self, s: Any) -> Any:
        stack = [torch.tanh(self.a(s.x * k)) for k in range(4)]
        while len(stack) > 1:
            stack.append(torch.tanh(self.b(stack.pop()) + self.c(stack.pop())))
        named = {"x": s.x}
        named.update(g=torch.relu(self.b(named["x"])) + stack[0])
        return sum(value.sum() for value in named.values())


class Sizes(Net):
    """A child-sum cell as it is usually written: sizes of what is computed, and gates named in one statement."""

    def cell(self, x: Any, children: Any) -> Any:
        gates = self.a(x) + children.sum(0, keepdim=True)
        i, o, u = torch.split(gates, gates.size(1) // 3, dim=1)
        i, o, u = functional.sigmoid(i), functional.sigmoid(o), functional.tanh(u)
        f = functional.sigmoid(self.b(children) + self.c(x).repeat(len(children), 1))
        c = i * u + (f * children).sum(0, keepdim=True).view(1, 3, gates.shape[-1] // 3).sum(1)
        return o * functional.tanh(c) / len(f)

    def forward(self, s: Any) -> Any:
        h = s.x[None]
        for _ in range(s.k):
            h = self.cell(s.x[None], torch.cat([h] * (6 // h.size(1)), 1))
        return h.sum()


class Gates(Net):
    """A cell of a binary tree as it is usually written: parts of what came before, and a branch in its middle."""

    def cell(self, z: Any, below: list[Any]) -> Any:
        i, u, f = z.split(2, -1)
        c = i.sigmoid() * u.tanh()
        if below:
            c = c + f.sigmoid() * sum(below)
        return c

    def forward(self, s: Any) -> Any:
        c, below = None, []
        for k in range(s.k):
            z = self.a(s.x) if c is None else self.b(torch.cat([c, c * k, c]))
            c = self.cell(z, below)
            below = [c][: k % 3]
        z = self.c(s.x)
        kept = self.cell(z, below)
        z += self.w
        return (c * kept).sum() + z.sum()


PROGRAMS = [
    Recursive, EarlyReturn, Lattice, Pointer, Adversaries, Replaced, WriteAfterView, WriteUnread,
    WriteInAnArgument, WritesToWhatItGave, Logs, Property, Numbers, Super, Private, Closures, Steps, Raises, Generators,
    Values, Carried, Stack, Sizes, Gates,
]  # fmt: skip


def run(net: Any, given: list[Sample], training: bool) -> Any:
    """Outputs, gradients, and what is left behind."""
    net.zero_grad()
    net.log.clear()
    net.reads = 0
    net.buf = torch.zeros(SIZE)
    with torch.set_grad_enabled(training):
        outputs = [net(sample) for sample in given]
        if training:
            sum(outputs).backward()
    gradients = [torch.zeros(1) if p.grad is None else p.grad.clone() for p in net.parameters()]
    return [o.detach().clone() for o in outputs], gradients, list(net.log), net.reads, net.buf.detach().clone()


def both(kind: Any, **options: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    eager = kind()
    return eager, gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, **{**BATCHED, **options})


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("kind", PROGRAMS, ids=lambda kind: kind.__name__)
def test_values_gradients_and_effects_are_those_of_the_eager_program(kind: Any, training: bool) -> None:
    eager, net = both(kind)
    for seed in range(3):
        given = samples(seed=seed)
        expected, found = run(eager, given, training), run(net, given, training)
        for one, other in zip([*expected[0], *expected[1], expected[4]], [*found[0], *found[1], found[4]]):
            assert_same(one, other)
        assert found[2:4] == expected[2:4]


def calls(net: Any, given: list[Sample]) -> Any:
    with torch.no_grad(), gluonjit.batching(**BATCHED) as batch:
        outputs = [net(sample) for sample in given]
    assert len(outputs) == len(given)
    return batch.report


def test_straight_line_code_is_one_call() -> None:
    given = samples()
    report = calls(both(Recursive)[1], given)
    without = calls(both(Recursive, outline=False)[1], given)
    assert report.calls * 2 < without.calls
    assert without.outlined == {}
    _, first = inspect.getsourcelines(Recursive.encode)
    names = [name for name, found in report.outlined.items() if "operators in one cell" in found]
    assert names[1:] == [f"Recursive.encode, line {first + 2}", f"Recursive.encode, lines {first + 3}-{first + 4}"]
    assert "made from source: Recursive.encode, line" in str(report)


def test_sizes_of_what_a_cell_computes_are_a_part_of_it() -> None:
    given = samples()
    report = calls(both(Sizes)[1], given)
    _, first = inspect.getsourcelines(Sizes.cell)
    assert report.outlined[f"Sizes.cell, lines {first + 1}-{first + 6}"].endswith("operators in one cell")
    assert report.calls == sum(2 * sample.k for sample in given)  # a torch.cat but of inputs alone, and the sum


def test_parts_of_an_argument_are_given_by_the_cell_that_takes_them() -> None:
    report = calls(both(Gates)[1], samples())
    _, first = inspect.getsourcelines(Gates.cell)
    assert report.outlined[f"Gates.cell, lines {first + 1}-{first + 2}"].endswith("4 operators in one cell")


def test_the_line_of_a_made_cell_is_the_users() -> None:
    net = both(Recursive)[1]
    report = calls(net, samples())
    _, first = inspect.getsourcelines(Recursive.encode)
    made = [step.line for step in report.steps if step.name.startswith("Recursive.encode")]
    assert made
    for line in made:
        assert Path(__file__).name in line
        assert first < int(line.rpartition(":")[2].split()[0]) <= first + 4


class Refused(Net):
    """What is done by number to a tensor reads it: no cell."""

    def forward(self, s: Any) -> Any:
        h = torch.tanh(self.a(s.x))
        return (torch.masked_fill(h, h > 0, 1.0) + torch.relu(self.late(h))).sum()

    def late(self, h: Any) -> Any:
        return torch.tanh(self.b(h)).view(SIZE) + torch.gather(h, 0, torch.tensor([1]))


def test_a_cell_that_is_refused_once_is_no_more_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    from gluonjit.engines.torch.tracing import kinds

    eager, net = both(Refused)
    monkeypatch.setattr(AGAIN, "resting", math.inf)  # no call is traced again, which would then differ
    monkeypatch.setattr(kinds.ReturnedTensors, "share_memory", lambda *result: True)
    report = calls(net, samples())
    assert set(report.outlined.values()) == {kinds._SHARED}
    tries = []
    monkeypatch.setattr(kinds.ReturnedTensors, "share_memory", lambda *result: tries.append(result) or False)
    report = calls(net, samples())
    assert not tries
    assert set(report.outlined.values()) == {kinds._SHARED}
    given = samples()
    for one, other in zip(run(eager, given, True)[0], run(net, given, True)[0]):
        assert_same(one, other)


class Mixing(Net):
    """The rows of a sample are mixed, and the result has none."""

    def forward(self, x: Any) -> Any:
        self.log.append(len(x))
        return self.mixed(x) * 2 if len(self.log) else None

    def mixed(self, x: Any) -> Any:
        return (torch.softmax(self.a(x) @ self.b(x).t(), -1) @ x).sum()


class Turning(Mixing):
    """The result has the rows along its second axis."""

    def forward(self, x: Any) -> Any:
        return super().forward(x).sum()

    def mixed(self, x: Any) -> Any:
        return (torch.softmax(self.a(x) @ self.b(x).t(), -1) @ x).t().tanh()


class Repeating(Mixing):
    """The number of results of an operator is that of the rows, so that each number of rows is a kind of its own."""

    def mixed(self, x: Any) -> Any:
        return torch.stack((torch.softmax(self.a(x) @ self.b(x).t(), -1) @ x).tanh().unbind(0), 1).sum()


@pytest.mark.parametrize(
    ("kind", "numbers", "reason"),
    [
        (Mixing, (2, 3, 4, 5, 6, 7), "7 operators in one cell"),
        (Turning, (2, 3, 4, 5, 6, 7), "8 operators in one cell"),
        (Repeating, (2, 3, 4, 5, 6, 7), outlines.VARIED),
        (Turning, (2, 3, 2, 3, 4, 5, 2, 3, 2), "8 operators in one cell"),
    ],
)
def test_a_cell_is_given_up_whose_calls_have_other_shapes_in_each_sample(kind: Any, numbers: Any, reason: str) -> None:
    eager, net = both(kind)
    given = [torch.randn(n, SIZE) for n in numbers]
    report = calls(net, given)
    assert report.outlined[f"{kind.__name__}.mixed, line " + line_of(kind.mixed)] == reason
    expected, found = run(eager, given, True), run(net, given, True)
    for one, other in zip(expected[0] + expected[1], found[0] + found[1]):
        assert_same(one, other)


class Unequal(Net):
    """A cell that takes rows of two numbers."""

    def forward(self, x: Any) -> Any:
        self.log.append(len(x))
        return self.both(x * 2, torch.cat([x, x]) * 3) * 2 if len(self.log) else None

    def both(self, x: Any, y: Any) -> Any:
        return (torch.softmax(self.a(x) @ self.b(y).t(), -1) @ y).sum()


def test_numbers_of_rows_are_traced_when_they_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[int] = []
    original = records.trace_call

    def trace_call(call: Any) -> Any:
        if call.cell.made:
            traced.append(call.values[0].spec.rows)
        return original(call)

    monkeypatch.setattr(records, "trace_call", trace_call)
    _, net = both(Mixing)
    calls(net, [torch.randn(n, SIZE) for n in (2, 3, 4, 2, 4, 3)])
    assert traced == [2, 3, 4]
    traced.clear()
    eager, net = both(Unequal)
    given = [torch.randn(n, SIZE) for n in (2, 3, 2, 2, 3)]
    calls(net, given)
    assert traced == [4, 6]  # rows of the longer operand, each at its second call
    traced.clear()
    for one, other in zip(run(eager, given, True)[0], run(net, given, True)[0]):
        assert_same(one, other)
    traced.clear()
    calls(both(Unequal)[1], [torch.randn(n, SIZE) for n in (2, 3, 4)])
    assert not traced
    eager, net = both(Rows)
    given = [torch.randn(n, SIZE) for n in (2, 3, 4, 3)]
    calls(net, given)
    assert traced == [2, 3, 4]  # which run together
    for one, other in zip(run(eager, given, True)[0], run(net, given, True)[0]):
        assert_same(one, other)


class Rows(Net):
    """What is done to each row is the same."""

    def forward(self, x: Any) -> Any:
        self.log.append(len(x))
        return self.each(x).sum() if len(self.log) else None

    def each(self, x: Any) -> Any:
        return torch.tanh(self.a(x)) * self.b(x) + x


def line_of(method: Any) -> str:
    return str(method.__code__.co_firstlineno + 1)


def test_code_is_exchanged_while_a_sample_is_captured() -> None:
    class Own(Net):
        def forward(self, s: Any) -> Any:
            return (torch.tanh(self.a(s.x)) * 2).sum()

    code = Own.forward.__code__
    seen = []
    net = both(Own)[1]
    net.a.register_forward_hook(lambda *call: seen.append(Own.forward.__code__))
    calls(net, samples(1))
    gluonjit.hybridize(net, dynamic_batch=False)
    net(samples(1)[0])
    assert seen[0] is not code
    assert seen[1] is code
    assert Own.forward.__code__ is code


def test_what_a_module_looks_like_stays() -> None:
    eager, net = both(Recursive)
    assert type(net) is Recursive
    assert set(vars(net)) - set(vars(eager)) == {"_gluonjit"}
    assert net.encode.__func__ is Recursive.encode
    assert inspect.getsource(net.encode).lstrip().startswith("def encode")
    given = samples()
    expected = run(eager, given, True)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        found = run(other, given, True)
        for one, same in zip([*expected[0], *expected[1]], [*found[0], *found[1]]):
            assert_same(one, same)
        assert calls(other, given).outlined


def rebound_class(net: Any) -> None:
    def encode(self: Any, x: Any, depth: int) -> Any:
        self.log.append(depth)
        return self.a(x) * 3

    type(net).encode = encode


def rebound_instance(net: Any) -> None:
    def encode(x: Any, depth: int) -> Any:
        net.log.append(depth)
        return net.a(x) * 3

    net.encode = encode


def replaced_layer(net: Any) -> None:
    torch.manual_seed(1)
    net.b = Noting(net.log)


def hooked_layer(net: Any) -> None:
    net.b.register_forward_hook(lambda module, args, result: net.log.append("hook"))


def frozen(net: Any) -> None:
    net.a.requires_grad_(False)


def trained(net: Any) -> None:
    net.eval()


class Noting(nn.Module):
    def __init__(self, log: list[Any]) -> None:
        super().__init__()
        self.log, self.linear = log, nn.Linear(SIZE, SIZE)

    def forward(self, x: Any) -> Any:
        self.log.append("called")
        return self.linear(x)


CHANGES = [rebound_class, rebound_instance, replaced_layer, hooked_layer, frozen, trained]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_is_changed_later_counts(change: Any) -> None:
    class Own(Recursive):
        def encode(self, x: Any, depth: int) -> Any:
            if depth == 0:
                return torch.tanh(self.a(x)) * 2
            below = sum(self.b(self.encode(x * n, depth - 1)) for n in range(1, 3))
            return torch.tanh(self.a(x) + below)

    eager, net = both(Own)
    given = samples()
    run(net, given, True)
    for each in {id(type(eager)): eager, id(net): net}.values() if change is rebound_class else (eager, net):
        change(each)
    expected, found = run(eager, given, True), run(net, given, True)
    for one, other in zip([*expected[0], *expected[1]], [*found[0], *found[1]]):
        assert_same(one, other)
    assert found[2] == expected[2]


class Fails(Net):
    def forward(self, s: Any) -> Any:
        h = torch.tanh(self.a(s.x))
        return torch.relu(h.view(4, 4)) * 2


def test_an_error_shows_the_users_line() -> None:
    eager, net = both(Fails)
    (sample,) = samples(1)
    with pytest.raises(RuntimeError) as expected:
        eager(sample)
    with pytest.raises(Exception) as found:
        net(sample)
    last = [entry for entry in traceback.extract_tb(expected.value.__traceback__) if entry.filename == __file__][-1]
    cause: Any = found.value
    entries = []
    while cause is not None:
        entries += traceback.extract_tb(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__
    assert (last.filename, last.lineno) in [(entry.filename, entry.lineno) for entry in entries]


def test_values_are_verified() -> None:
    for kind in (Recursive, Steps, Lattice):
        torch.manual_seed(0)
        gluonjit.verify(kind(), samples())


def test_without_a_source_nothing_is_made() -> None:
    space: dict[str, Any] = {"Net": Net, "torch": torch}
    exec("class Own(Net):\n    def forward(self, s):\n        return (torch.tanh(self.a(s.x)) * 2).sum()", space)
    eager, net = both(space["Own"])
    given = samples()
    report = calls(net, given)
    assert report.outlined == {}
    for one, other in zip(run(eager, given, True)[0], run(net, given, True)[0]):
        assert_same(one, other)


def test_an_unusable_value_of_the_option_is_an_error() -> None:
    with pytest.raises(gluonjit.errors.OptionError, match="outline='no', but it must be True or False"):
        gluonjit.hybridize(Recursive(), dynamic_batch=True, outline="no")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code does not know its qualified name")
def test_lines_name_functions_as_they_were_written() -> None:
    net = Recursive()
    gluonjit.hybridize(net, dynamic_batch=True, **BATCHED)
    sum(net(sample) for sample in samples()).backward()
    shown = [row.line for row in gluonjit.explain().steps]
    assert any(line.endswith("in Recursive.encode") for line in shown) and not any("around" in line for line in shown)


class Asks(Net):
    """Asks for its input itself after a read, up to which no call is traced."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[Any, int] = {}
        self.first: list[Any] = []

    def forward(self, x: Any) -> Any:
        h = torch.tanh(self.a(x)) * 2
        if float(h.detach().sum()) > 1e9:
            return h.sum()
        self.log.append((self.known.get(x, -1), x in self.known, self.first[0] is x, {x: 7}[x]))
        self.log.append((int((x == x).sum()), int((x == self.first[0]).sum())))
        self.known[x] = len(self.known)
        x.add_(1)
        self.log.append(self.known[x])
        return (torch.sigmoid(h) * self.b(h)).sum()


@pytest.mark.parametrize("granularity", ["auto", "cell", "op"])
def test_an_input_is_found_where_it_is_a_key_and_is_itself(granularity: str) -> None:
    logs = []
    for net in both(Asks, granularity=granularity):
        inputs = [torch.randn(SIZE) for _ in range(3)]
        net.first, net.known = [inputs[1]], {inputs[2]: 5}
        with torch.no_grad():
            for _ in range(2):
                assert all(torch.isfinite(result) for result in [net(x) for x in inputs])
        logs.append((net.log, [net.known[x] for x in inputs]))
    assert logs[0] == logs[1]
