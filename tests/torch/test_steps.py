"""Static steps: the program of one step with padding, at fixed addresses, where plans do not come again."""

from __future__ import annotations

import copy
import gc
from typing import Any, Callable

import pytest
import torch
from executor_support import (
    FIXED,
    Graph,
    OnHost,
    Rerun,
    Roots,
    Tagger,
    afresh,
    check,
    graphs,
    infer,
    minibatches_of,
    sentences,
    tree_loss,
    trees_of_depth,
)
from torch import nn
from torch_support import Tree, TreeModel, assert_close, gradients

import gluonjit
from gluonjit.engines.torch import executors
from gluonjit.engines.torch.replay import step, steps
from gluonjit.errors import GluonJITError

STEPS = {"executor": "steps"}
seeded = pytest.fixture(autouse=True)(afresh)


def held() -> int:
    gc.collect()  # programs are parts of cycles
    return int(gluonjit.cache_info()["torch.static steps"])


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "rows"])
def test_steps_of_other_minibatches_run_in_the_same_memory(sharing: bool, vectors: bool) -> None:
    total = check(TreeModel(vectors=vectors), minibatches_of(12, 6), tree_loss, sharing=sharing, **STEPS)
    assert total.ran == {"steps": 12} and not total.declined
    assert 0 < total.recordings < total.replays and total.padded > 0


@pytest.mark.parametrize("without", [("fused",), ("arity",), ("hoisting",), ("fused", "arity", "hoisting")])
def test_other_kinds_of_steps_are_static_too(without: tuple[str, ...]) -> None:
    total = check(TreeModel(), [trees_of_depth(3, 5, 1)] * 4, tree_loss, without=without, **STEPS)
    assert total.ran == {"steps": 4} and not total.declined and total.replays > 0


def test_sentences_of_any_length() -> None:
    lengths = [[5, 3, 3], [7, 2], [4, 6, 1, 3], [9], [5, 5, 2]]
    minibatches = [sentences(found, seed) for seed, found in enumerate(lengths)]
    total = check(Tagger(), minibatches, lambda net, words: net(words), **STEPS)
    assert total.ran == {"steps": 5} and total.replays > total.recordings


def test_graphs_whose_nodes_have_several_readers() -> None:
    total = check(Graph(), graphs(6, 5), lambda net, item: net(item).sum(), **STEPS)
    assert total.ran == {"steps": 6} and total.replays > total.recordings


def test_padding_makes_no_number_that_no_real_row_has() -> None:
    total = check(Roots(), minibatches_of(8, 5), lambda net, tree: net(tree).sum(), **STEPS)
    assert total.replays > 0 and total.padded > 0  # `check` would have found a NaN in losses or gradients


def test_a_dropout_in_a_plan_leaves_its_other_steps_static() -> None:
    net = TreeModel()
    net.head = nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5))
    gluonjit.hybridize(net, executor="replay", **FIXED)
    for seed in range(2):
        sum(net(tree).sum() for tree in trees_of_depth(3, 4, seed)).backward()
    report = gluonjit.explain()
    assert report.executed.ran == {"steps": 1} and report.executed.replays > 0
    assert report.executed.declined == {"head draws random numbers": 2}  # the plan as a whole, and this step


def test_results_stay_what_they_were_when_the_step_runs_again() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, **STEPS, **FIXED)
    with torch.no_grad():
        infer(net, trees_of_depth(3, 4, 0))  # tracing captures more than later calls do
        first = [net(tree) for tree in trees_of_depth(3, 4, 0)]
        kept = [value.numpy().copy() for value in first]
        assert not (infer(net, trees_of_depth(3, 4, 1))[0] == kept[0]).all()
    assert all((value.numpy() == one).all() for value, one in zip(first, kept))


def test_steps_are_held_until_nobody_can_go_backward() -> None:
    net = TreeModel()
    eager = copy.deepcopy(net)
    gluonjit.hybridize(net, **STEPS, **FIXED)
    batches = [trees_of_depth(3, 4, seed) for seed in range(3)]
    losses = []
    for trees in batches:
        losses.append(sum(tree_loss(net, tree) for tree in trees))
        losses[-1].item()
    before = held()
    for number in (1, 0, 2):  # older and newer ones, one of them twice
        for again in (True, False):
            losses[number].backward(retain_graph=again)
    for trees in batches:
        (2 * sum(tree_loss(eager, tree) for tree in trees)).backward()
    for (name, got), wanted in zip(gradients(net).items(), gradients(eager).values()):
        assert_close(got, wanted, name)
    losses.clear()
    sum(tree_loss(net, tree) for tree in batches[0]).item()
    assert held() == before


def test_a_part_of_the_losses_may_go_backward_alone() -> None:
    net = TreeModel()
    eager = copy.deepcopy(net)
    gluonjit.hybridize(net, **STEPS, **FIXED)
    trees = trees_of_depth(3, 5, 0)
    for model in (net, eager):
        losses = [tree_loss(model, tree) for tree in trees]
        (losses[0] + losses[3]).backward(retain_graph=True)
        losses[1].backward()
    for (name, got), wanted in zip(gradients(net).items(), gradients(eager).values()):
        assert_close(got, wanted, name)


def test_weights_that_are_written_to_before_backward_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for recorder in (step.step_recorder_for, OnHost):
        monkeypatch.setattr(step, "step_recorder_for", recorder)
        gluonjit.clear_caches()
        net = TreeModel()
        gluonjit.hybridize(net, **STEPS, **FIXED)
        for _ in range(3):
            loss = sum(tree_loss(net, tree) for tree in trees_of_depth(3, 4, 0))
            loss.item()
        with torch.no_grad():
            for weight in net.parameters():
                weight.mul_(2.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_weights_that_move_to_other_memory_make_new_steps() -> None:
    net = TreeModel()
    eager = copy.deepcopy(net)
    gluonjit.hybridize(net, **STEPS, **FIXED)
    trees = trees_of_depth(3, 4, 0)
    infer(net, trees)
    before = held()
    for model in (net, eager):
        for weight in model.parameters():
            weight.data = weight.data.clone() * 0.5
    for value, wanted in zip(infer(net, trees), [eager(tree) for tree in trees]):
        assert_close(torch.tensor(value), wanted, "a result")
    assert held() <= before and gluonjit.explain().executed.recordings > 0


def test_what_was_made_in_inference_mode_runs_outside_of_it() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, **STEPS, **FIXED)
    trees = trees_of_depth(3, 4, 0)
    infer(net, trees)
    gluonjit.clear_caches()
    with torch.inference_mode():
        first = [value.numpy().copy() for value in [net(tree) for tree in trees]]
    infer(net, trees)
    second = infer(net, trees)
    assert gluonjit.explain().executed.replays > 0
    assert all((value == other).all() for value, other in zip(first, second))


class Pick(nn.Module):
    """Some of the numbers of a vector."""

    def forward(self, x: Any, index: Any) -> Any:
        return (x * 2).gather(0, index)


def test_a_call_that_fails_is_named_as_ever_and_the_next_ones_run() -> None:
    net = Pick()
    gluonjit.hybridize(net, **STEPS, **FIXED)
    x = torch.arange(3.0)
    with pytest.raises(GluonJITError, match=r"call of Pick in sample 1 at .*failed when it ran: index 7"):
        found = [net(x + k, torch.tensor([1, number])) for k, number in enumerate((2, 7, 0))]
        found[0].numpy()
    assert [why for why in gluonjit.explain().executed.declined if "Pick is not replayed: " in why]
    assert torch.equal(net(x, torch.tensor([1, 2])).sum(), torch.tensor(6.0))


def test_graphs_of_steps_are_captured_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    OnHost.made.clear()
    monkeypatch.setattr(step, "step_recorder_for", OnHost)
    total = check(TreeModel(), [trees_of_depth(3, 4, 0)] * 5, tree_loss, **STEPS)
    assert total.ran == {"steps": 5} and not total.declined
    busiest = max(OnHost.made, key=lambda recorder: len(recorder.done))
    plain, checked = ["begin", "aside"], ["aside", "capture", "replay"]
    assert busiest.done[:11] == 2 * plain + ["begin", *checked, *checked]
    assert set(busiest.done[11:]) == {"begin", "replay"} and busiest.captures == 2
    assert total.captures == sum(recorder.captures for recorder in OnHost.made)


def test_a_graph_that_gives_other_numbers_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(OnHost):
        def _capture(self, run: Callable[[], None]) -> Any:
            super()._capture(run)
            return Rerun(lambda: None)

    monkeypatch.setattr(step, "step_recorder_for", Broken)
    total = check(TreeModel(), [trees_of_depth(3, 4, seed) for seed in range(4)], tree_loss, **STEPS)
    assert any("a CUDA graph gave other numbers" in why for why in total.declined)


def test_steps_are_bounded_by_number_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MOST_STEPS", 2)
    total = check(Tagger(), [sentences([6, 4], 0)], lambda net, words: net(words), **STEPS)
    assert any("too many of its steps wait" in why for why in total.declined)
    before = held()
    monkeypatch.setattr(steps, "MOST_BYTES", 0)
    total = check(Tagger(), [sentences([6, 4], 0)], lambda net, words: net(words), **STEPS)
    assert total.recordings == 0 and any("too many of its steps wait" in why for why in total.declined)
    assert 0 < held() <= before


def test_steps_go_with_their_model() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, **STEPS, **FIXED)
    infer(net, trees_of_depth(3, 4, 0))
    forms = [form for known in steps._known for form in [one.form for one in known.steps] if form.consts]
    addresses = {weight.data_ptr() for weight in net.parameters()}
    assert forms and all(at in addresses for form in forms for at, _, _ in form.consts)
    del net
    other = nn.Linear(3, 2)
    gluonjit.hybridize(other)
    other(torch.ones(3)).sum().item()  # the report of the last flush has kept the model
    gc.collect()
    assert not [one for known in steps._known for one in known.steps if one.form.consts]


def test_clearing_forgets_them() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, **STEPS, **FIXED)
    infer(net, trees_of_depth(3, 4, 0))
    assert held() > 0
    gluonjit.clear_caches()
    assert gluonjit.cache_info()["torch.static steps"] == 0


def test_auto_on_a_device_takes_steps_where_plans_do_not_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_on_cuda", lambda plan: True)
    once = [sentences([length, length], length) for length in range(2, 16)]
    total = check(Tagger(), once, lambda net, words: net(words), executor="auto")
    assert total.ran["stepwise"] < 10 and total.ran["stepwise"] + total.ran["steps"] == len(once)
    gluonjit.clear_caches()
    total = check(TreeModel(), [trees_of_depth(3, 4, 0)] * 5, tree_loss, executor="auto")
    assert total.ran == {"stepwise": 3, "replay": 2} or total.ran == {"stepwise": 2, "replay": 3}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_on_a_gpu_steps_are_replayed_as_graphs() -> None:
    class OnGpu(TreeModel):
        def forward(self, tree: Tree) -> Any:
            words = self.embed(torch.tensor(tree.words(), device="cuda"))
            return self.head(self.encode(tree, words, [0])[0])

    total = check(OnGpu().cuda(), minibatches_of(12, 6), tree_loss, **STEPS)
    assert total.ran == {"steps": 12} and total.captures >= 2 and not total.declined
