"""What PyTorch programs may rely on holds for dynamically batched ones: tensors, gradients, modules, errors."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch_support import TreeModel, assert_close, assert_same, make_trees, outcome

import gluonjit
from gluonjit.engines.torch.run import chunks, gradients, history
from gluonjit.errors import BatchClosedError, CaptureError, NotFiniteError, OptionError


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Net(nn.Module):
    """Two layers on one vector, the second as often as its input says."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.last = nn.Linear(6, 6)

    def forward(self, sample: tuple[Any, int]) -> Any:
        x, turns = sample
        x = self.first(x).tanh()
        for _ in range(turns):
            x = self.last(x).tanh()
        return x


def samples(count: int = 5) -> list[tuple[Any, int]]:
    return [(torch.randn(4), number % 3) for number in range(count)]


def dynamic(net: Any = None, **options: Any) -> Any:
    return gluonjit.hybridize(Net() if net is None else net, dynamic_batch=True, **options)


def test_a_result_is_a_tensor_whose_shape_is_known_before_it_is_computed() -> None:
    with gluonjit.batching() as batch:
        check_a_result(batch, dynamic()((torch.randn(4), 1)))


def check_a_result(batch: Any, result: Any) -> None:
    assert isinstance(result, torch.Tensor) and torch.is_tensor(result)
    assert (result.shape, result.size(), result.size(0), len(result), result.dim(), result.numel()) == (
        torch.Size([6]),
        torch.Size([6]),
        6,
        6,
        1,
        6,
    )
    assert (result.dtype, result.device.type, result.ndim, result.is_cuda) == (torch.float32, "cpu", 1, False)
    assert result.requires_grad and result.is_floating_point() and result.layout is torch.strided
    assert batch.report.flushes == 0
    assert result.detach().numpy().shape == (6,)
    assert batch.report.flushes == 1


def test_numbers_of_a_comparison_learn_nothing_before_they_are_computed() -> None:
    def ways(row: Any) -> list[Any]:
        above = row > 0
        return [row.argmax(0).double(), above.float().mean(), above * 2.0, row.max(0)[1] / 2, row.long() / 2, row * 2]

    with gluonjit.batching():
        results = ways(torch.nn.Linear(4, 6)(torch.randn(4)))
        assert [result.requires_grad for result in results] == [False] * 5 + [True]
    assert [result.requires_grad for result in results] == [False] * 5 + [True]


class Asking(torch.nn.Module):
    """A layer whose result depends on whether its zeros learn."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 6)

    def forward(self, row: Any) -> Any:
        zeros = torch.zeros_like(self.linear(row))
        return zeros + 1 if zeros.requires_grad else zeros + 2


class Quiet(Asking):
    """A layer that gives what it computes without history."""

    @torch.no_grad()
    def forward(self, row: Any) -> Any:
        return self.linear(row)


@pytest.mark.parametrize("granularity", ["cell", "op"])
def test_results_that_are_made_or_detached_learn_nothing_before_they_are_computed(granularity: Any) -> None:
    def ways(row: Any) -> list[Any]:
        likes = [torch.zeros_like(row), torch.full_like(row, 2.0), torch.ones_like(row) + 1, row.new_ones(2) * 2]
        return [*likes, quiet(row), quiet(row) * 2, asking(row), quiet(row)[:4] + row]

    quiet, asking = Quiet(), Asking()
    with gluonjit.batching(granularity=granularity, sharing=False):
        results = [result for n in (4, 2) for result in ways(torch.nn.Linear(n, 4)(torch.randn(n)))]
        assert [result.requires_grad for result in results] == ([False] * 7 + [True]) * 2
    assert [result.requires_grad for result in results] == ([False] * 7 + [True]) * 2
    assert torch.equal(results[6], torch.full((6,), 2.0))
    results[7].sum().backward()
    assert quiet.linear.weight.grad is None


def test_reading_numbers_runs_the_batch() -> None:
    net, eager = Net(), None
    eager = copy.deepcopy(net)
    dynamic(net)
    sample = (torch.randn(4), 2)
    expected = eager(sample).detach()
    assert_close(torch.tensor(net(sample).tolist()), expected, "tolist")
    assert_close(net(sample)[2].detach(), expected[2], "an entry")
    assert float(net(sample).sum()) == pytest.approx(float(expected.sum()), rel=1e-5)
    assert bool(net(sample).sum() > expected.sum() - 1)
    assert repr(net(sample)).startswith("tensor([")
    assert np.asarray(net(sample).detach()).shape == (6,)
    assert f"{net(sample).sum():.3f}" == f"{float(expected.sum()):.3f}"
    assert [round(float(entry), 4) for entry in net(sample)] == [round(float(entry), 4) for entry in expected]


def test_slices_stacks_and_splits_of_whole_rows_are_no_nodes() -> None:
    net = dynamic(outline=False)
    with gluonjit.batching() as batch:
        rows = torch.stack([net(sample) for sample in samples(4)])
        one, others = rows[0], rows[1:]
        first, second = torch.split(rows, 2)
        again = torch.cat([first, second])
        last = again.unbind(0)[-1].unsqueeze(0).squeeze(0)
    names = set(batch.report.kinds)
    assert names == {"Net", "first", "last", "tanh"}  # one without a turn is a node as a whole
    assert rows.shape == again.shape == (4, 6) and others.shape == (3, 6)
    assert torch.equal(rows[0], one) and torch.equal(rows[3], last) and torch.equal(again, rows)


def test_nothing_is_recorded_without_gradients() -> None:
    net = dynamic()
    given = samples()
    expected = [net(sample).detach().clone() for sample in given]
    for region in (torch.no_grad, torch.inference_mode):
        with region():
            results = [net(sample) for sample in given]
            assert not any(result.requires_grad for result in results)
            total = sum(results)
        assert not total.requires_grad and total.grad_fn is None
        for result, wanted in zip(results, expected):
            assert_close(result.clone(), wanted, str(region))


def test_values_captured_under_recording_keep_their_history_when_read_without() -> None:
    net = dynamic()
    loss = net((torch.randn(4), 1)).sum()
    with torch.no_grad():
        assert isinstance(loss.item(), float)
    with torch.inference_mode():
        loss.item()
    loss.backward()
    assert net.first.weight.grad is not None


def test_frozen_weights_get_no_gradient_and_what_needs_none_has_none() -> None:
    net = Net()
    net.first.requires_grad_(False)
    assert_same(net, samples(), lambda net, sample: net(sample).sum())
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    assert not net((torch.randn(4), 1)).requires_grad


def test_gradients_go_to_inputs_of_the_batch() -> None:
    net = Net()
    eager = copy.deepcopy(net)
    dynamic(net)
    inputs = [torch.randn(4) for _ in range(4)]
    found = []
    for model in (eager, net):
        leaves = [x.clone().requires_grad_() for x in inputs]
        scaled = [leaf * 2 for leaf in leaves]
        sum(model((x, number)).sum() for number, x in enumerate(scaled)).backward()
        found.append([leaf.grad for leaf in leaves])
    for wanted, actual in zip(*found):
        assert_close(actual, wanted, "gradient of an input")


def test_backward_of_each_sample_gives_the_same_as_of_their_sum() -> None:
    net = Net()
    given = samples()
    _, expected = outcome(copy.deepcopy(net), given, lambda net, sample: net(sample).sum())
    dynamic(net)
    losses = [net(sample).sum() for sample in given]
    for loss in losses:
        loss.backward()
    for name, parameter in net.named_parameters():
        assert_close(parameter.grad, expected[name], name)


@pytest.mark.parametrize("says", [True, False])
def test_a_second_backward_needs_retain_graph(says: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not says:  # as PyTorch 2.4, which does not say within backward what it was told
        for module in (chunks, history):
            monkeypatch.setattr(module, "keeps_graph", chunks.told)
    net = dynamic()
    loss = net((torch.randn(4), 1)).sum()
    loss.backward(retain_graph=True)
    once = net.first.weight.grad.clone()
    loss.backward()
    assert_close(net.first.weight.grad, 2 * once, "two backwards")
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()
    total = net((torch.randn(4), 1)).sum()
    torch.autograd.grad(total, net.first.weight, retain_graph=True)
    torch.autograd.grad(total, net.first.weight)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(total, net.first.weight)


def test_what_is_computed_eagerly_from_a_result_goes_on_into_the_batch() -> None:
    def loss(net: Any, sample: Any) -> Any:
        result = net(sample)
        return (result * torch.tensor(float(result.detach()[0] > 0) + 1)).pow(2).sum()

    assert_same(Net(), samples(), loss)


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.Adagrad])
def test_training_goes_as_without_batching(make: Any) -> None:
    trees = make_trees(18)
    net = TreeModel()
    eager = copy.deepcopy(net)
    gluonjit.hybridize(net, dynamic_batch=True)
    losses = []
    for model in (eager, net):
        optimizer = make(model.parameters(), lr=0.05)
        found = []
        for begin in range(0, 18, 6):
            optimizer.zero_grad()
            total = sum(model(tree).logsumexp(-1) for tree in trees[begin : begin + 6])
            total.backward()
            optimizer.step()
            found.append(total.detach().clone())
        losses.append(torch.stack([value.clone() for value in found]))
    assert_close(losses[1], losses[0], "losses")
    for (name, wanted), actual in zip(eager.named_parameters(), net.parameters()):
        assert_close(actual.detach(), wanted.detach(), name, 1e-4)


def test_an_optimizers_step_runs_what_waits_before() -> None:
    net = dynamic()
    eager = copy.deepcopy(gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=False))
    sample = (torch.randn(4), 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    net(sample).sum().backward()
    waiting = net(sample)
    optimizer.step()
    assert_close(waiting.detach(), eager(sample).detach(), "what was captured before the step")


def test_parameters_may_be_loaded_cast_and_moved() -> None:
    net = dynamic()
    before = net.state_dict()
    other = Net()
    sample = (torch.randn(4), 1)
    waiting = net(sample)
    net.load_state_dict(other.state_dict())
    assert list(before) == list(other.state_dict())
    assert not torch.equal(waiting.detach(), other(sample).detach())
    assert_close(net(sample).detach(), other(sample).detach(), "loaded")
    net.double()
    assert net((sample[0].double(), 1)).dtype == torch.float64


def test_copies_and_pickles_are_batched_too_and_the_class_is_the_same() -> None:
    net = dynamic(sharing=False)
    kept = io.BytesIO()
    torch.save(net.state_dict(), kept)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert type(other) is Net
        result = other((torch.randn(4), 1))
        assert type(result).__name__ == "LazyTensor"
    gluonjit.hybridize(net, dynamic_batch=False)
    assert type(net((torch.randn(4), 1))) is torch.Tensor
    assert "_gluonjit" not in net.__dict__


def test_unusable_options_are_refused_before_anything_changes() -> None:
    net = Net()
    with pytest.raises(OptionError, match="unknown option 'speed'"):
        gluonjit.hybridize(net, dynamic_batch=True, speed=9)
    with pytest.raises(TypeError, match=r"a torch\.nn\.Module or a"):
        gluonjit.hybridize("net")
    assert type(net((torch.randn(4), 1))) is torch.Tensor


def test_forward_hooks_run_for_each_call() -> None:
    net = Net()
    seen: list[tuple[int, ...]] = []
    net.last.register_forward_hook(lambda module, args, out: seen.append(tuple(out.shape)))
    report = assert_same(net, samples(4), lambda net, sample: net(sample).sum())
    assert seen == [(6,)] * 6  # three calls, eagerly and batched
    assert "last" in report.unbatched


def test_a_switch_between_training_and_inference_is_noticed() -> None:
    net = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5))
    gluonjit.hybridize(net, dynamic_batch=True)
    x = torch.ones(4)
    trained = torch.stack([net(x) for _ in range(20)]).detach()
    zeros = float((trained == 0).float().mean())
    assert 0.4 < zeros < 0.6
    assert not torch.equal(trained[0], trained[1])
    net.eval()
    tested = torch.stack([net(x) for _ in range(3)]).detach()
    assert not (tested == 0).any() and torch.equal(tested[0], tested[2])


def test_an_attribute_that_changed_between_two_calls_is_noticed() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.scale = 1.0

        def forward(self, x: Any) -> Any:
            return self.linear(x) * self.scale

    net = dynamic(Scaled())
    x = torch.randn(4)
    once = net(x).detach()
    net.scale = 3.0
    assert_close(net(x).detach().clone(), 3 * once.clone(), "scaled in an open batch")
    net.scale = 2.0
    assert_close(net(x).detach().clone(), 2 * once.clone(), "scaled between two")


def test_a_cell_that_draws_in_python_or_counts_its_calls_is_no_node() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return self.linear(x)

    net = dynamic(Counting())
    for _ in range(5):
        net(torch.randn(4))
    assert net.calls == 5


def test_a_function_with_a_backward_of_its_own_keeps_it() -> None:
    class Reversed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return -gradient

    class Adversarial(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 3), nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return self.last(Reversed.apply(self.first(x)))

    with pytest.warns(gluonjit.errors.EarlyFlushWarning):
        assert_same(Adversarial(), [torch.randn(4) for _ in range(3)], lambda net, x: net(x).sum())


def test_a_region_without_gradients_inside_a_cell_stays_one() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                fixed = self.first(x)
            return (fixed * self.last(x)).sum() + self.last(x).detach().sum()

    report = assert_same(Half(), [torch.randn(4) for _ in range(3)], lambda net, x: net(x))
    assert report.kinds["Half"].launches == 1


def test_statistics_of_batch_norm_are_those_of_each_sample_in_turn() -> None:
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x: Any) -> Any:
            return self.norm(x)

    net = Normed()
    eager = copy.deepcopy(net)
    given = [torch.randn(5, 4) for _ in range(3)]
    for x in given:
        eager(x)
    dynamic(net)
    results = [net(x) for x in given]
    assert_close(net.norm.running_mean, eager.norm.running_mean, "running mean")
    assert int(net.norm.num_batches_tracked) == 3
    assert len(results) == 3


def test_a_result_may_be_written_to() -> None:
    net = Net()
    eager = copy.deepcopy(net)
    dynamic(net)
    sample, other = samples(2)
    found = []
    for model in (eager, net):
        a, b = model(sample), model(other)
        c = a + b
        c += 1
        c[0] = 5.0
        c.mul_(2)
        found.append((c.detach().clone(), (c.sum() + a.sum())))
    assert_close(found[1][0], found[0][0], "written")
    for _, total in found:
        total.backward()
    for wanted, actual in zip(eager.parameters(), net.parameters()):
        assert_close(actual.grad, wanted.grad, "gradient")


def test_a_small_input_may_be_written_to_after_its_capture_and_a_large_one_is_noticed() -> None:
    net = dynamic(nn.Linear(4, 2, bias=False))
    buffer, results = torch.zeros(4), []
    for number in range(3):
        buffer.fill_(number)
        results.append(net(buffer))
    found = torch.stack(results).detach()
    assert_close(found, torch.arange(3.0)[:, None] * net.weight.sum(1).detach(), "three writes")
    large = torch.randn(6000, 4)
    waiting = net(large)
    large.zero_()
    with pytest.raises(CaptureError, match="was written to after captured calls had read it") as caught:
        waiting.sum().item()
    assert isinstance(caught.value, RuntimeError), "as PyTorch's own errors of writes in place are"


def test_a_weight_that_gets_other_memory_while_calls_wait_is_read_before() -> None:
    torch.manual_seed(0)
    eager = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="cell")
    xs = [torch.randn(n, 4) for n in (1, 3)]
    found = []
    for each in (eager, net):
        before = [each(x) for x in xs]
        halves = torch.nn.utils.parameters_to_vector(each.parameters()).detach() / 2
        torch.nn.utils.vector_to_parameters(halves, each.parameters())
        each[2].bias.data = each(xs[0])[0]
        after = [each(x) for x in xs]
        sum(result.square().sum() for result in after).backward()
        found.append([[result.detach() for result in (*before, *after)], [each.grad for each in each.parameters()]])
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-6)


def test_wrong_shapes_raise_at_the_users_line() -> None:
    net = dynamic()
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        net((torch.randn(5), 1))
    assert net((torch.randn(4), 1)).sum().item() != 0


def test_an_index_outside_of_the_table_is_named() -> None:
    net = dynamic(nn.Embedding(10, 3))
    with pytest.raises(CaptureError, match=r"index 12 in a look-up of 2 entries, but the table has 10 rows"):
        net(torch.tensor([1, 12]))


def test_an_embedding_with_padding_gives_no_gradient_to_it() -> None:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(10, 3, padding_idx=0)

        def forward(self, words: Any) -> Any:
            return self.embed(words).sum(0)

    given = [torch.tensor([1, 0, 2]), torch.tensor([0, 3]), torch.tensor([3, 3, 1, 5])]
    net = Bag()
    assert_same(net, given, lambda net, words: net(words).pow(2).sum())
    assert not net.embed.weight.grad[0].any()


def test_an_error_in_a_region_discards_what_it_has_captured() -> None:
    net = dynamic()
    with pytest.raises(ZeroDivisionError), gluonjit.batching():
        result = net((torch.randn(4), 1))
        raise ZeroDivisionError
    with pytest.raises(BatchClosedError, match="never computed"):
        result.sum().item()


def test_a_declared_cell_is_one_node_a_call() -> None:
    class Declared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4))

        def forward(self, sample: tuple[Any, int]) -> Any:
            x, turns = sample
            for _ in range(turns + 1):
                x = self.turn(x, scale=0.5)
            return x

        @gluonjit.cell
        def turn(self, x: Any, scale: float) -> Any:
            return torch.tanh(x @ self.weight) * scale

    report = assert_same(Declared(), samples(), lambda net, sample: net(sample).sum())
    (name,) = [name for name in report.kinds if name.endswith("turn")]
    assert report.kinds[name].launches == 3


def test_a_number_that_is_not_finite_is_named() -> None:
    net = dynamic(check_finite=True)
    with torch.no_grad():
        net.last.weight[0, 0] = float("nan")
    with pytest.raises(NotFiniteError, match="A weight of shape"):
        net((torch.randn(4), 1)).sum().item()


def test_a_batch_reports_its_times_when_profiled() -> None:
    net = dynamic(profile=True)
    sum(net(sample).sum() for sample in samples()).backward()
    report = gluonjit.explain()
    assert report.ms["compute"] > 0 and report.ms["backward"] > 0 and report.ms["capture"] > 0
    assert "launches" in str(report)
    assert gluonjit.cache_info()["torch.cells"] > 0


def test_tensors_of_an_open_batch_may_be_used_by_plain_functions() -> None:
    with gluonjit.batching() as batch:
        layer = nn.Linear(4, 4)
        results = [layer(torch.randn(4)).relu() for _ in range(6)]
    assert batch.report.launches == 2
    assert all(bool((result >= 0).all()) for result in results)


def test_results_of_one_minibatch_are_inputs_of_the_next_with_their_history() -> None:
    net = Net()
    eager = copy.deepcopy(net)
    dynamic(net)
    given = samples(3)
    for model in (eager, net):
        states = [model(sample) for sample in given]
        if model is net:
            gluonjit.hybrid.LOCAL.state.flush("the end of a minibatch")
        later = [model.last(state).tanh() for state in states]
        sum(state.sum() for state in later).backward()
    for (name, wanted), actual in zip(eager.named_parameters(), net.parameters()):
        assert_close(actual.grad, wanted.grad, name)


def test_a_minibatch_that_is_over_leaves_no_memory_behind() -> None:
    import gc
    import weakref

    net = dynamic()
    gc.collect()
    gc.disable()
    try:
        left = weakref.WeakSet(item for item in gc.get_objects() if isinstance(item, gradients.Tape))  # by other tests
        results = [net(sample) for sample in samples()]
        sum(result.sum() for result in results).backward()
        results[0].detach().clone().sum().item()
        found = [item for item in gc.get_objects() if isinstance(item, gradients.Tape) and item not in left]
        tapes = [weakref.ref(item) for item in found]
        del results, found
        gluonjit.explain()
        assert tapes
        assert not [found for found in tapes if found() is not None]
    finally:
        gc.enable()
