"""Static plans of PyTorch's plans: with padding, run again on the numbers of other minibatches."""

from __future__ import annotations

import copy
import gc
import random
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
from torch_support import Tree, TreeModel, assert_close, gradients, make_trees, outcome

import gluonjit
from gluonjit.engines.torch.replay import plans, static
from gluonjit.errors import GluonJITError

seeded = pytest.fixture(autouse=True)(afresh)


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "rows"])
def test_minibatches_of_many_shapes_replay_one_static_plan(sharing: bool, vectors: bool) -> None:
    total = check(TreeModel(vectors=vectors), minibatches_of(12, 6), tree_loss, sharing=sharing)
    assert total.ran == {"replay": 12} and not total.declined
    assert total.recordings + total.replays == 12 and total.recordings <= 6
    assert total.padded > 0


def test_fifty_minibatches_of_random_trees() -> None:
    choose = random.Random(0)
    minibatches = [make_trees(choose.choice((1, 4, 9)), choose.choice((2, 5, 7)), 3, seed) for seed in range(50)]
    total = check(TreeModel(), minibatches, tree_loss)
    assert total.ran == {"replay": 50} and 0 < total.recordings < 45 and total.padded > 0


@pytest.mark.parametrize("without", [("fused",), ("arity",), ("hoisting",), ("fused", "arity", "hoisting")])
def test_other_kinds_of_steps_replay_too(without: tuple[str, ...]) -> None:
    total = check(TreeModel(), [trees_of_depth(3, 5, 1)] * 4, tree_loss, without=without)
    assert total.ran == {"replay": 4} and total.recordings <= 2  # the first call of a cell may capture otherwise


def test_a_bilstm_over_sentences_of_other_lengths() -> None:
    lengths = [[5, 3, 3], [5, 5, 3], [5, 3, 3], [5, 5, 3]]
    minibatches = [sentences(found, seed) for seed, found in enumerate(lengths)]
    total = check(Tagger(), minibatches, lambda net, words: net(words))
    assert total.ran == {"replay": 4} and total.recordings < 4


def test_graphs_whose_nodes_have_several_readers() -> None:
    total = check(Graph(), graphs(6, 5), lambda net, item: net(item).sum())
    assert total.ran == {"replay": 6} and total.recordings < 6


def test_padding_makes_no_number_that_no_real_row_has() -> None:
    total = check(Roots(), minibatches_of(8, 5), lambda net, tree: net(tree).sum())
    assert total.recordings < 8 and total.padded > 0  # `check` would have found a NaN in losses or gradients


def test_padded_rows_are_copies_of_the_first_node() -> None:
    gluonjit.clear_caches()  # of the plans of other tests
    net = TreeModel()
    gluonjit.hybridize(net, executor="replay", **FIXED)
    for seed in (0, 1, 2):
        sum(tree_loss(net, tree) for tree in trees_of_depth(3, 4, seed)).backward()
    assert gluonjit.explain().executed.replays == 1
    skeleton = max([known for _, known in plans._known()], key=lambda known: known.seen)
    (static,) = skeleton.plans
    copies = 0
    for step in static.steps:
        for form in step.results:
            span = static.padding.spans[form.place]
            rows = static.arenas[span.arena][span.begin : span.end]
            unit, most = form.axis.unit, skeleton.sizes[step.nodes]
            for node in range(most, static.padding.sizes[step.nodes]):
                copied = rows[node * unit : (node + 1) * unit]
                # Not torch.equal: a product on two threads rounds equal rows apart, by where they lie in it.
                torch.testing.assert_close(copied, rows[:unit], rtol=1e-5, atol=1e-6)
                copies += 1
    assert copies > 0


def test_results_stay_what_they_were_when_the_static_plan_runs_again() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, executor="replay", **FIXED)
    with torch.no_grad():
        infer(net, trees_of_depth(3, 4, 0))  # tracing captures more than later calls do
        first = [net(tree) for tree in trees_of_depth(3, 4, 0)]
        kept = [value.numpy().copy() for value in first]
        assert not (infer(net, trees_of_depth(3, 4, 1))[0] == kept[0]).all()
    assert gluonjit.explain().executed.replays == 1
    assert all((value.numpy() == one).all() for value, one in zip(first, kept))


def test_inputs_that_are_references_outlive_the_static_plan() -> None:
    embed, head = nn.Embedding(9, 3), nn.Linear(3, 2)
    large = torch.randn(5, 3)
    expected = large[2:4].clone()
    kept = []
    for words in ([1, 2, 3], [4, 5, 6]):
        with gluonjit.batching(executor="replay", **FIXED), torch.no_grad():
            rows = embed(torch.tensor(words))
            kept.append((rows[1], embed.weight[words[1]].clone(), head(rows[0]), head(large[0])))
    large.zero_()
    for row, wanted, _, _ in kept:
        assert torch.equal(torch.as_tensor(row).detach() + 0, wanted)
    assert expected.abs().sum() > 0


def test_backward_of_an_older_flush_after_a_newer_one_has_run() -> None:
    net = TreeModel()
    eager = copy.deepcopy(net)
    gluonjit.hybridize(net, executor="replay", **FIXED)
    minibatches = [trees_of_depth(3, 4, seed) for seed in range(6)]
    losses = []
    for trees in minibatches:
        total = sum(tree_loss(net, tree) for tree in trees)
        total.item()  # runs it
        losses.append(total)
    report = gluonjit.explain()
    assert report.executed.declined == {"all static plans of its skeleton have a pending backward pass": 1}
    for number in (0, 5, 3, 4, 1, 2):
        net.zero_grad()
        losses[number].backward()
        eager.zero_grad()
        sum(tree_loss(eager, tree) for tree in minibatches[number]).backward()
        for (name, found), wanted in zip(gradients(net).items(), gradients(eager).values()):
            assert_close(found, wanted, f"{name} of minibatch {number}")


def test_backward_twice_needs_retain_graph_and_gives_the_same() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, executor="replay", **FIXED)
    loss = sum(tree_loss(net, tree) for tree in trees_of_depth(3, 4, 0))
    loss.backward(retain_graph=True)
    once = gradients(net)
    loss.backward()
    for (name, found), other in zip(gradients(net).items(), once.values()):
        assert_close(found, 2 * other, name)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_a_part_of_the_losses_may_go_backward_alone() -> None:
    net = TreeModel()
    eager = copy.deepcopy(net)
    gluonjit.hybridize(net, executor="replay", **FIXED)
    for seed in range(3):
        trees = trees_of_depth(3, 4, seed)
        for model in (net, eager):
            model.zero_grad()
            losses = [tree_loss(model, tree) for tree in trees]
            if model is net:
                losses[0].item()
            losses[2].backward(retain_graph=True)
            losses[0].backward()
        for (name, found), wanted in zip(gradients(net).items(), gradients(eager).values()):
            assert_close(found, wanted, name)


def test_a_weight_that_no_result_depends_on_has_no_gradient() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            y = self.one(x)
            return y, self.other(y)

    net = Two()
    gluonjit.hybridize(net, executor="replay", expand=("Two",), **FIXED)
    for _ in range(2):
        net.zero_grad()
        pairs = [net(torch.randn(3)) for _ in range(4)]
        sum(first.sum() for first, _ in pairs).backward()
        assert net.one.weight.grad is not None and net.other.weight.grad is None
        sum(second.sum() for _, second in pairs).item()


def test_weights_that_are_written_to_before_backward_are_noticed() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, executor="replay", **FIXED)
    total = sum(tree_loss(net, tree) for tree in trees_of_depth(3, 4, 0))
    total.item()
    with torch.no_grad():
        net.head.weight.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_weights_that_move_to_other_memory_make_a_new_static_plan() -> None:
    net = TreeModel()
    total = check(net, [trees_of_depth(3, 4, 0)], tree_loss)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.data = parameter.data * 2.0
    eager = copy.deepcopy(net)
    gluonjit.hybridize(eager, dynamic_batch=False)
    trees = trees_of_depth(3, 4, 0)
    actual, found = outcome(net, trees, tree_loss)
    expected, wanted = outcome(eager, trees, tree_loss)
    assert total.recordings == 1 and gluonjit.explain().executed.recordings == 1
    for value, other in zip(actual, expected):
        assert_close(value, other, "a loss")
    for name, gradient in wanted.items():
        assert_close(found[name], gradient, name)


def test_learned_inputs_and_eager_tails_have_gradients() -> None:
    head = nn.Linear(40, 2)
    gluonjit.hybridize(head, executor="replay", **FIXED)
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        inputs = [torch.randn(40, generator=generator, requires_grad=seed < 2 or k < 2) for k in range(4)]
        found = [head(item * 2) for item in inputs]
        torch.stack([value.double().numpy(force=True).sum() * value.sum() for value in found]).sum().backward()
        for item, value in zip(inputs, found):
            wanted = float(value.detach().sum()) * 2 * head.weight.detach().sum(0)
            if item.requires_grad:
                assert_close(item.grad, wanted, "the gradient of an input", 1e-4)


def test_inference_and_training_have_static_plans_of_their_own() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, executor="replay", **FIXED)
    trees = trees_of_depth(3, 4, 0)
    for _ in range(3):
        with torch.no_grad():
            assert infer(net, trees)[0].shape == (3,)
        sum(tree_loss(net, tree) for tree in trees).backward()
        executed = gluonjit.explain().executed
    assert executed.ran["replay"] == 1 and executed.replays == 1
    taped = [static.weights != {} for _, known in plans._known() for static in known.plans]
    assert set(taped) == {True, False}


def test_a_static_plan_that_was_made_in_inference_mode_runs_outside_of_it() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, executor="replay", **FIXED)
    trees = trees_of_depth(3, 4, 0)
    infer(net, trees)
    with torch.inference_mode():
        first = [value.numpy().copy() for value in [net(tree) for tree in trees]]
    second = infer(net, trees)
    assert gluonjit.explain().executed.replays == 1
    assert all((value == other).all() for value, other in zip(first, second))


@pytest.mark.parametrize(
    ("change", "options", "ran", "reason"),
    [
        (
            lambda net: setattr(net, "head", nn.Sequential(nn.Linear(6, 3), nn.Dropout())),
            {},
            "steps",
            "draws random numbers",
        ),
        (lambda net: None, {"check_finite": True}, "stepwise", "check_finite checks the results of each step"),
        (lambda net: None, {"profile": True}, "stepwise", "a profiled flush waits after each step"),
    ],
)
def test_what_cannot_be_static_runs_otherwise_and_the_report_says_why(
    change: Callable[[Any], None], options: dict[str, Any], ran: str, reason: str
) -> None:
    net = TreeModel()
    change(net)
    gluonjit.hybridize(net, executor="replay", **FIXED, **options)
    sum(tree_loss(net, tree) for tree in trees_of_depth(3, 4, 0)).backward()
    report = gluonjit.explain()
    assert report.executed.ran == {ran: 1}
    said = next(iter(report.executed.declined))
    assert reason in said and said in str(report)


class Step(nn.Module):
    """An operator without a derivative, to which backward does not come."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        return (self.out(y) * (torch.heaviside(y, y) > 0.5).sum()).sum()


def test_operators_without_a_derivative_run_where_backward_does_not_come_to_them() -> None:
    minibatches = [list(torch.randn(4, 3, generator=torch.Generator().manual_seed(k))) for k in range(3)]
    total = check(Step(), minibatches, lambda net, x: net(x), granularity="op")
    assert total.ran == {"steps": 3} and any("heaviside" in why for why in total.declined)


class Pick(nn.Module):
    """Some of the numbers of a vector."""

    def forward(self, x: Any, index: Any) -> Any:
        return (x * 2).gather(0, index)


def test_a_call_that_fails_is_named_as_ever_and_the_next_ones_run() -> None:
    net = Pick()
    gluonjit.hybridize(net, executor="replay", **FIXED)
    x = torch.arange(3.0)
    with pytest.raises(GluonJITError, match=r"call of Pick in sample 1 at .*failed when it ran: index 7"):
        found = [net(x + k, torch.tensor([1, number])) for k, number in enumerate((2, 7, 0))]
        found[0].numpy()
    report = gluonjit.explain()
    assert [why for why in report.executed.declined if "its static plan failed" in why]
    assert torch.equal(net(x, torch.tensor([1, 2])).sum(), torch.tensor(6.0))


def test_graphs_are_captured_after_a_warm_up_and_replayed_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    OnHost.made.clear()
    monkeypatch.setattr(static, "recorder_for", OnHost)
    trees = trees_of_depth(3, 4, 0)
    total = check(TreeModel(), [trees] * 5, tree_loss)
    assert total.ran == {"replay": 5} and total.recordings == 2  # the first calls capture more than later ones
    done = OnHost.made[1].done
    plain = ["begin", "aside", "begin", "aside"]
    checked = ["aside", "capture", "replay"]
    assert done == plain + ["begin", *checked, *checked, "begin", "replay"] + 2 * ["begin", "replay", "begin", "replay"]
    assert gluonjit.explain().executed.captures == 0 and OnHost.made[1].captures == 2


@pytest.mark.parametrize("captured", [1, 2], ids=["forward", "backward"])
def test_a_graph_that_gives_other_numbers_is_not_used(monkeypatch: pytest.MonkeyPatch, captured: int) -> None:
    class Broken(OnHost):
        def _capture(self, run: Callable[[], None]) -> Any:
            graph = super()._capture(run)
            return graph if self.captures < captured else Rerun(lambda: None)

    monkeypatch.setattr(static, "recorder_for", Broken)
    total = check(TreeModel(), [trees_of_depth(3, 4, seed) for seed in range(4)], tree_loss)
    assert total.ran["steps"] > 0 and any("a CUDA graph gave other numbers" in why for why in total.declined)


def test_backward_from_other_results_is_another_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    OnHost.made.clear()
    monkeypatch.setattr(static, "recorder_for", OnHost)
    net = TreeModel()
    eager = copy.deepcopy(net)
    gluonjit.hybridize(net, executor="replay", **FIXED)
    trees = trees_of_depth(3, 4, 0)
    for which in (0, 0, 0, 1, 1, 0, 1):
        for model in (net, eager):
            model.zero_grad()
            found = [model(tree) for tree in trees]
            losses = [value.logsumexp(-1) for value in found]
            losses[0].item() if model is net else None
            (sum(losses) if which else sum(value.sum() for value in found)).backward()
        for (name, got), wanted in zip(gradients(net).items(), gradients(eager).values()):
            assert_close(got, wanted, name)
    assert max(recorder.captures for recorder in OnHost.made) == 3


def test_with_graphs_too_weights_that_are_written_to_before_backward_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(static, "recorder_for", OnHost)
    test_weights_that_are_written_to_before_backward_are_noticed()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_on_a_gpu_plans_are_replayed_as_graphs() -> None:
    class OnGpu(TreeModel):
        def forward(self, tree: Tree) -> Any:
            words = self.embed(torch.tensor(tree.words(), device="cuda"))
            return self.head(self.encode(tree, words, [0])[0])

    total = check(OnGpu().cuda(), minibatches_of(12, 6), tree_loss)
    assert total.ran == {"replay": 12} and total.recordings <= 6 and total.captures >= 2


def static_plans() -> int:
    return int(gluonjit.cache_info()["torch.static plans"])


def test_static_plans_are_bounded_by_number_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    net = TreeModel()
    gluonjit.hybridize(net, executor="replay", **{**FIXED, "sharing": False})

    for size in (300, 100, 30, 9, 3, 1):
        infer(net, trees_of_depth(2, size, size))
    assert plans.MOST_PLANS <= static_plans() <= plans.MOST_PLANS + 1
    monkeypatch.setattr(plans, "MOST_BYTES", 0)
    infer(net, trees_of_depth(3, 4, 0))
    assert static_plans() == 1
    monkeypatch.setattr(plans, "MOST_SKELETONS", 1)
    infer(net, trees_of_depth(4, 4, 0))
    assert len(plans._skeletons) == 1
    gluonjit.clear_caches()
    assert static_plans() == 0


def test_static_plans_go_with_their_model() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, executor="replay", **FIXED)
    sum(tree_loss(net, tree) for tree in trees_of_depth(3, 4, 0)).backward()
    assert static_plans() == 1
    del net
    other = nn.Linear(3, 2)
    gluonjit.hybridize(other)
    other(torch.ones(3)).sum().item()  # the report of the last flush has kept the model
    gc.collect()
    assert static_plans() == 0
