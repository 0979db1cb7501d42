"""Programs whose calls run eagerly in some minibatches and batched in others: the same numbers, on both engines."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import numpy as np
import pytest

import gluonjit
from gluonjit.analysis.pace import Pace, StretchOutcome
from gluonjit.errors import CaptureError, OptionError
from gluonjit.hybrid import LOCAL
from gluonjit.hybrid.choose import clock, pacing
from gluonjit.hybrid.run.engine import engine_of

Tree = tuple[int, list[Any]]
TREES: list[Tree] = [(0, []), (1, [(0, []), (2, [])]), (2, [(1, [(3, [])])]), (3, [(0, [(1, [])]), (2, []), (1, [])])]


Call = Callable[[Any, Tree], Any]


def whole(net: Any, tree: Tree) -> Any:
    return net(tree)


class Torch:
    """A recursive model in PyTorch, and how it is trained."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        nn = torch.nn

        class Model(nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.embed, self.head = nn.Embedding(8, 6), nn.Linear(5, 1)
                self.word, self.child = nn.Linear(6, 5), nn.Linear(5, 5)

            def forward(self, tree: Tree) -> Any:
                return self.head(self.encode(tree))

            def encode(self, tree: Tree) -> Any:
                h = self.word(self.embed(torch.tensor(tree[0])))
                for child in tree[1]:
                    h = h + self.child(self.encode(child))
                return torch.tanh(h)

        torch.manual_seed(0)
        eager = Model()
        self.nets = eager, copy.deepcopy(eager)
        self.optimizers = [torch.optim.SGD(net.parameters(), 0.1) for net in self.nets]

    def hybridize(self, **options: Any) -> None:
        gluonjit.hybridize(self.nets[1], dynamic_batch=True, **options)

    def train(self, which: int, call: Call = whole) -> float:
        self.optimizers[which].zero_grad()
        total = sum((call(self.nets[which], tree) ** 2).sum() for tree in TREES)
        total.backward()
        self.optimizers[which].step()
        return total.item()

    def quietly(self) -> Any:
        return self.torch.no_grad()

    def infer(self, which: int, call: Call = whole) -> Any:
        with self.torch.no_grad():
            return np.array([out.item() for out in [call(self.nets[which], tree) for tree in TREES]])


class MXNet:
    """The same in Gluon."""

    def __init__(self) -> None:
        import mxnet as mx

        nn, self.autograd, self.nd = mx.gluon.nn, mx.autograd, mx.nd

        class Cell(mx.gluon.HybridBlock):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.word, self.child = nn.Dense(5, in_units=6), nn.Dense(5, in_units=5)

            def hybrid_forward(self, F: Any, word: Any, *children: Any) -> Any:
                h = self.word(word)
                for child in children:
                    h = h + self.child(child)
                return F.tanh(h)

        class Model(mx.gluon.Block):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.embed, self.cell, self.head = nn.Embedding(8, 6), Cell(), nn.Dense(1, in_units=5)

            def forward(self, tree: Tree) -> Any:
                return self.head(self.encode(tree))

            def encode(self, tree: Tree) -> Any:
                return self.cell(self.embed(mx.nd.array([tree[0]])), *map(self.encode, tree[1]))

        self.nets = Model(), Model()
        for net in self.nets:
            mx.random.seed(0)
            net.initialize(mx.init.Uniform(0.5))
        self.trainers = [mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}) for net in self.nets]

    def hybridize(self, **options: Any) -> None:
        self.nets[1].hybridize(dynamic_batch=True, **options)

    def train(self, which: int, call: Call = whole) -> float:
        with self.autograd.record():
            total = sum((call(self.nets[which], tree) ** 2).sum() for tree in TREES)
        total.backward()
        self.trainers[which].step(1)
        return float(total.asscalar())

    def quietly(self) -> Any:
        return self.autograd.pause()

    def infer(self, which: int, call: Call = whole) -> Any:
        return np.array([float(out.asscalar()) for out in [call(self.nets[which], tree) for tree in TREES]])


@pytest.fixture
def program(engine: str) -> Any:
    return {"torch": Torch, "mxnet": MXNet}[engine]()


def check(program: Any, rounds: int = 6, call: Call = whole) -> None:
    """Trains and infers with both nets in turns."""
    for _ in range(rounds):
        assert program.train(1, call) == pytest.approx(program.train(0, call), rel=1e-5)
        np.testing.assert_allclose(program.infer(1, call), program.infer(0, call), rtol=1e-4, atol=1e-6)


@pytest.fixture(autouse=True)
def unknown() -> Iterator[None]:
    """Nothing is known of how long calls take."""
    gluonjit.clear_caches()
    yield
    gluonjit.clear_caches()


@pytest.mark.parametrize("ways", [[True, False], [False, False, True], [True]])
def test_a_mind_that_changes_changes_no_number(
    program: Any, free: None, ways: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    program.hybridize()
    turns = cycle(ways)
    monkeypatch.setattr(pacing, "FORCED", [lambda: next(turns)])
    check(program)


def test_by_hand(program: Any) -> None:
    """Named, it holds inside an explicit scope too."""
    program.hybridize(granularity="eager")
    check(program, 2)
    with gluonjit.batching() as batch:
        program.infer(1)
    assert batch.report.calls == 0


def test_a_scope_by_hand(program: Any) -> None:
    program.hybridize()
    with gluonjit.batching(granularity="eager") as batch:
        found = program.infer(1)
    assert batch.report.calls == 0
    np.testing.assert_allclose(found, program.infer(0), rtol=1e-5, atol=1e-6)


def test_nothing_runs_eagerly_in_a_scope_or_where_a_way_is_named(program: Any, free: None) -> None:
    program.hybridize(granularity="cell")
    program.infer(1)
    assert gluonjit.explain().calls > 0
    program.hybridize()
    with gluonjit.batching() as batch:
        program.infer(1)
    assert batch.report.calls > 0


@pytest.mark.parametrize("after", range(0, 12, 3))
def test_a_look_that_is_abandoned_in_the_middle(
    program: Any, free: None, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """What was captured runs, the rest of the call and of the minibatch runs eagerly, and no number differs."""
    asked = iter(range(10_000))
    monkeypatch.setattr(Pace, "spent", lambda self, seconds, calls: next(asked) >= after)
    program.hybridize()
    check(program)


@pytest.mark.parametrize("after", range(0, 24, 2))
def test_a_look_that_is_abandoned_between_calls_of_one_sample(
    program: Any, free: None, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Parts are called by themselves: what ran batched is an operand of what runs eagerly, and gradients go through."""
    asked = iter(range(10_000))
    monkeypatch.setattr(Pace, "wants_eager", property(lambda self: False))
    monkeypatch.setattr(Pace, "spent", lambda self, seconds, calls: next(asked) >= after)
    program.hybridize()
    for net in program.nets:
        monkeypatch.setattr(net, "forward", None)  # nobody calls the whole
    check(program, 2, lambda net, tree: net.head(net.encode(tree)))


@pytest.mark.parametrize(("calls", "few"), [(7, True), (8, False)])
def test_a_trial_that_is_abandoned_at_once_says_little_of_batches(
    program: Any, free: None, monkeypatch: pytest.MonkeyPatch, calls: int, few: bool
) -> None:
    """What its first calls took is mostly what comes once."""
    told: list[StretchOutcome] = []
    monkeypatch.setattr(Pace, "wants_eager", property(lambda self: False))
    monkeypatch.setattr(Pace, "spent", lambda self, seconds, so_far: so_far >= calls)
    monkeypatch.setattr(Pace, "add", lambda self, ran: told.append(ran))
    program.hybridize()
    program.train(1, lambda net, tree: sum(net(tree) for _ in range(3)))
    assert [(ran.whole, ran.calls, ran.rate == 0.0) for ran in told] == [(False, 3 * len(TREES), few)]


def test_a_part_that_is_named_eager_takes_what_waits(program: Any) -> None:
    program.hybridize(granularity="cell")
    gluonjit.hybridize(program.nets[1].head, granularity="eager")
    check(program, 2, lambda net, tree: net.head(net.encode(tree)))


def test_what_is_measured_is_kept(program: Any, free: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock on which each trial takes a hundred times as long as an eager stretch."""
    told: list[bool] = []
    original: Callable[..., None] = Pace.add

    def add(self: Pace, ran: StretchOutcome) -> None:
        told.append(ran.eager)
        original(self, ran._replace(seconds=ran.calls * (1.0 if ran.eager else 100.0)))

    monkeypatch.setattr(Pace, "add", add)
    monkeypatch.setattr(Pace, "spent", lambda self, seconds, calls: False)
    program.hybridize()
    check(program, 12)
    assert told.count(False) <= 2 and told[-1]


def decide(program: Any, eager: bool) -> None:
    """Let it be known how both ways compare, in both phases."""
    for pace in paces_of(program).phases:
        pace.compare_again()
        for _ in range(3):
            pace.add(StretchOutcome(True, 4.0, 4))
        pace.add(StretchOutcome(False, 40.0 if eager else 0.4, 4))
        assert pace.decided is eager


def paces_of(program: Any) -> Any:
    return program.nets[1].__dict__["_gluonjit"].paces


def test_what_is_decided_to_run_eagerly_costs_no_question(program: Any, free: None) -> None:
    """Outermost calls are counted down, by C where it is there; every end of a stretch is noticed all the same."""
    program.hybridize()
    decide(program, True)
    program.infer(1)
    assert LOCAL.state.spare == 1024 - len(TREES)
    found = program.train(1)  # another phase
    assert LOCAL.state.spare == 0 and pacing.HERE.stretch is None  # the optimizer has made a step
    assert found == pytest.approx(program.train(0), rel=1e-5)
    check(program, 2)
    with gluonjit.batching() as batch:  # nothing is eager in here
        program.infer(1)
    assert batch.report.calls > 0
    program.infer(1)
    program.hybridize()
    assert LOCAL.state.spare == 0 and paces_of(program).phases[0].decided is None


def test_calls_without_gradients_between_those_that_train_are_of_one_stretch(
    program: Any, free: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is a teacher's part of a minibatch; after calls that nobody differentiated, inference has its own."""
    told: list[tuple[bool, int]] = []
    original: Callable[..., None] = Pace.add

    def add(self: Pace, ran: StretchOutcome) -> None:
        told.append((self.training, ran.calls))
        original(self, ran)

    def taught(net: Any, tree: Tree) -> Any:
        with program.quietly():
            teacher = net(tree)
        return net(tree) - teacher

    monkeypatch.setattr(Pace, "add", add)
    program.hybridize()
    program.train(1, taught)
    assert told == [(False, 1), (True, 2 * len(TREES) - 1)]
    told.clear()
    pacing.begin(LOCAL.state, paces_of(program), True, engine_of(type(program).__name__.lower()))
    pacing.HERE.stretch.leave()
    for _ in range(5):
        program.infer(1)
    pacing.close()
    assert told[0] == (True, 17) and {training for training, _ in told[1:]} == {False}


@pytest.mark.parametrize("detached", [False, True], ids=["by results", "by inputs"])
def test_a_model_that_differentiates_inside_of_it_is_never_batched(
    detached: bool, free: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch would refuse that by results: it is one function to autograd. By inputs it would run twice."""
    program = Torch()
    torch = program.torch

    def slope(net: Any, tree: Tree) -> Any:
        h = net.word(net.embed(torch.tensor(tree[0])))
        h = h.detach().requires_grad_() if detached else h
        return torch.autograd.grad(net.head(torch.tanh(h)), h, create_graph=True)[0]

    for net in program.nets:
        monkeypatch.setattr(type(net), "forward", slope)
    told: list[bool] = []
    original: Callable[..., None] = Pace.add

    def add(self: Pace, ran: StretchOutcome) -> None:
        told.append(ran.eager)
        original(self, ran)

    monkeypatch.setattr(Pace, "add", add)
    monkeypatch.setattr(Pace, "allowed", 1e9)
    program.hybridize()
    for _ in range(6):
        assert program.train(1) == pytest.approx(program.train(0), rel=1e-5)
    assert told and all(told)


def test_a_model_that_asks_for_such_gradients_once_it_is_batched_is_batched_no_longer(
    free: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Torch()
    torch = program.torch
    program.hybridize()
    decide(program, False)

    def slope(net: Any, tree: Tree) -> Any:
        h = net.word(net.embed(torch.tensor(tree[0])))
        return torch.autograd.grad(net.head(torch.tanh(h)), h, create_graph=True)[0]

    for net in program.nets:
        monkeypatch.setattr(type(net), "forward", slope)
    with pytest.raises(CaptureError, match="runs eagerly from now on"):
        program.train(1)
    pacing.drop()
    for _ in range(2):
        assert program.train(1) == pytest.approx(program.train(0), rel=1e-5)


def test_gradients_inside_of_samples_that_run_eagerly_end_no_stretch(
    free: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the calls of a minibatch would be as many minibatches."""
    program = Torch()
    torch = program.torch

    def slope(net: Any, tree: Tree) -> Any:
        h = net.embed(torch.tensor(tree[0])).detach().requires_grad_()
        return torch.autograd.grad(net.head(torch.tanh(net.word(h))), h, create_graph=True)[0]

    for net in program.nets:
        monkeypatch.setattr(type(net), "forward", slope)
    program.hybridize()
    decide(program, True)
    told: list[int] = []
    original: Callable[..., None] = Pace.add

    def add(self: Pace, ran: StretchOutcome) -> None:
        told.append(ran.calls)
        original(self, ran)

    monkeypatch.setattr(Pace, "add", add)
    for _ in range(4):
        assert program.train(1) == pytest.approx(program.train(0), rel=1e-5)
    pacing.close()
    assert told == [len(TREES)] * 4


@pytest.mark.parametrize("joined", [False, True], ids=["each", "together"])
def test_calls_whose_gradients_the_loss_goes_on_from_are_never_batched_if_each_is_differentiated_by_itself(
    joined: bool, free: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As forces in a loss; their minibatch is one stretch."""
    program = Torch()
    torch = program.torch

    def slope(net: Any, tree: Tree) -> Any:
        net.bare = [*net.bare, net(tree)]
        if joined and len(net.bare) < len(TREES):
            return torch.zeros(1)
        found = torch.autograd.grad(sum(net.bare).sum(), net.head.bias, create_graph=True)[0]
        net.bare = []
        return found + net.head.bias

    for net in program.nets:
        net.bare = []
    told: list[tuple[bool, int]] = []
    original: Callable[..., None] = Pace.add

    def add(self: Pace, ran: StretchOutcome) -> None:
        told.append((ran.eager, ran.calls))
        original(self, ran)

    monkeypatch.setattr(Pace, "add", add)
    monkeypatch.setattr(Pace, "allowed", 1e9)
    program.hybridize()
    for _ in range(6):
        assert program.train(1, slope) == pytest.approx(program.train(0, slope), rel=1e-5)
    pacing.close()
    assert (False in dict(told)) == joined
    assert joined or told[-4:] == [(True, len(TREES))] * 4


def test_calls_of_another_model_are_asked_for_themselves(program: Any, free: None) -> None:
    """One that is known to be faster batched is, after one that is not."""
    other = type(program)()
    for each, eager in ((program, True), (other, False)):
        each.hybridize()
        decide(each, eager)
    program.infer(1)
    assert LOCAL.state.spare > 0
    other.infer(1)
    assert gluonjit.explain().calls > 0 and LOCAL.state.spare == 0
    program.infer(1)
    np.testing.assert_allclose(other.infer(1), other.infer(0), rtol=1e-4, atol=1e-6)


def test_verify_batches_whatever_is_faster(program: Any, free: None) -> None:
    program.hybridize()
    decide(program, True)
    program.infer(1)
    assert gluonjit.verify(program.nets[1], [(tree,) for tree in TREES]).calls > 0
    assert paces_of(program).phases[0].decided is True


def test_an_option_that_was_removed(program: Any) -> None:
    with pytest.raises(OptionError, match=r"executor='replay' was removed, .* leave it out"):
        program.hybridize(executor="replay")


def test_the_report_says_what_was_measured(program: Any, free: None) -> None:
    program.hybridize()
    check(program, 8)
    said = str(gluonjit.explain())
    assert said.count("eager: ") == 2 and "(4 calls)" in said and " in training; " in said and " in inference; " in said


def test_a_report_tells_of_no_other_models_ways(program: Any, free: None) -> None:
    """The report of a model whose way is named has nothing of one that was timed before."""
    program.hybridize()
    program.train(1)
    assert gluonjit.explain().ways
    other = type(program)()
    other.hybridize(granularity="batched")
    other.train(1)
    assert gluonjit.explain().ways == []


class _Engine:
    def wait(self) -> None:
        pass

    def may_choose(self) -> bool:
        return True


def stretch_of(monkeypatch: pytest.MonkeyPatch, calls: int, seconds: float, traced: float) -> pacing.CallStretch:
    """A batched stretch of so many calls, which took so long, as a clock says that a test moves."""
    now = [0.0]
    monkeypatch.setattr(clock, "perf_counter", lambda: now[0])
    monkeypatch.setattr(pacing, "CLOCK", clock.Clock())
    monkeypatch.setattr(Pace, "wants_eager", property(lambda self: False))
    monkeypatch.setattr(pacing, "FORCED", [])
    found = pacing.CallStretch(LOCAL.state, pacing.Paces(True), False, _Engine())
    monkeypatch.setattr(pacing.HERE, "stretch", found)
    for _ in range(calls):
        found.calls += 1
        found.enter()
        with pacing.TRACE:
            now[0] += traced / calls
        now[0] += (seconds - traced) / calls
        found.leave()
    return found


def added(monkeypatch: pytest.MonkeyPatch, stretch: pacing.CallStretch) -> StretchOutcome:
    told: list[StretchOutcome] = []
    monkeypatch.setattr(Pace, "add", lambda self, ran: told.append(ran))
    stretch.close()
    (outcome,) = told
    return outcome


@pytest.mark.parametrize(("traced", "unlike"), [(0.0, False), (0.01, False), (0.5, True)])
def test_a_trace_that_takes_next_to_nothing_makes_a_minibatch_no_other(
    monkeypatch: pytest.MonkeyPatch, traced: float, unlike: bool
) -> None:
    assert added(monkeypatch, stretch_of(monkeypatch, 4, 1.0, traced)).unlike is unlike


@pytest.mark.parametrize(("calls", "few"), [(2, True), (10, False)])
def test_what_an_abandoned_look_says_of_calls(monkeypatch: pytest.MonkeyPatch, calls: int, few: bool) -> None:
    stretch = stretch_of(monkeypatch, calls, 1.0, 0.5)
    stretch.abandon()
    outcome = added(monkeypatch, stretch)
    assert outcome.rate == pytest.approx(0.0 if few else 0.5 / calls)


@pytest.mark.parametrize(("slow", "traced", "loses"), [(2.0, 0.0, True), (1.0, 0.0, False), (2.0, 1.0, False)])
def test_a_trial_ends_where_its_calls_alone_are_slower_than_eager_ones(
    monkeypatch: pytest.MonkeyPatch, slow: float, traced: float, loses: bool
) -> None:
    """A call counts up to the next one, with the flushes in it; where something was traced it does not."""
    stretch = stretch_of(monkeypatch, 0, 0.0, 0.0)
    stretch.pace.unit, stretch.pace.seconds = 1.0, 1e6
    now = [0.0]
    monkeypatch.setattr(clock, "perf_counter", lambda: now[0])
    stretch.last, abandoned = 0.0, False
    for _ in range(12):
        pacing.begin(LOCAL.state, pacing.Paces(True), False, _Engine())
        abandoned = abandoned or stretch.eager
        if traced:
            with pacing.TRACE:
                now[0] += 1e-3
        with pacing.FLUSH:
            now[0] += slow
        stretch.leave()
    assert abandoned is loses and (loses or len(stretch.took) == (0 if traced else 11))


@pytest.mark.parametrize(("pauses", "calls"), [((0.01, 2.0), 4), ((0.01, 0.03), 32), ((0.5, 1.0), 32)])
def test_a_long_pause_ends_a_stretch_of_eager_inference(
    monkeypatch: pytest.MonkeyPatch, pauses: tuple[float, float], calls: int
) -> None:
    """Nothing else tells how many calls come together: a pause that is like others, or short, tells nothing."""
    monkeypatch.setattr(pacing, "FORCED", [])
    now, paces = [0.0], pacing.Paces(True)
    monkeypatch.setattr(clock, "perf_counter", lambda: now[0])
    monkeypatch.setattr(pacing.HERE, "stretch", None)
    for number in range(40):
        now[0] += pauses[number % 4 == 0]
        stretch = pacing.begin(LOCAL.state, paces, False, _Engine())
        now[0] += 1.0
        stretch.leave()
    pacing.drop()
    assert paces.phases[False].calls == calls


def test_inference_of_as_many_calls_as_training_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "FORCED", [])
    paces = pacing.Paces(True)
    paces.phases[True].add(StretchOutcome(True, 1.0, 8))
    assert pacing.CallStretch(LOCAL.state, paces, False, _Engine()).most == 8


def test_the_clock_stands_still_while_the_collector_looks_at_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1.0]
    monkeypatch.setattr(clock, "perf_counter", lambda: now[0])
    before, measuring = list(gc.callbacks), clock.Clock()

    def pause(generation: int, seconds: float) -> None:
        for phase in ("start", "stop"):
            for hears in gc.callbacks[len(before) :]:
                hears(phase, {"generation": generation, "collected": 0, "uncollectable": 0})
            now[0] += seconds if phase == "start" else 0.0

    pause(2, 4.0)
    assert measuring.now() == 5.0  # nobody measures
    measuring.start(), measuring.start()
    pause(2, 7.0)
    pause(1, 0.5)
    assert measuring.now() == 5.5
    measuring.stop()
    pause(2, 7.0)
    measuring.stop()
    assert measuring.now() == 5.5 and gc.callbacks == before


def test_stretches_leave_no_callback_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "CLOCK", clock.Clock())
    before = list(gc.callbacks)
    for end in (pacing.close, pacing.drop):
        begun = pacing.begin(LOCAL.state, pacing.Paces(True), True, _Engine())
        begun.leave()
        assert len(gc.callbacks) == len(before) + 1
        end()
        assert gc.callbacks == before
