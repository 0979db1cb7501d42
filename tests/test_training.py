"""Autograd, Trainer and gradients' ways of being asked for, each against the per-sample program."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from support import assert_close, assert_same, gradients, outcome, rows

import gluonjit
from gluonjit.errors import BackwardWarning, BatchClosedError, CaptureError, OptionError

SIZE = 5


class Rows(gluon.Block):
    """A recurrent net over the rows of a sample."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = nn.Dense(SIZE, in_units=SIZE, activation="tanh")
            self.drop = nn.Dropout(dropout)
            self.out = nn.Dense(1, in_units=SIZE)

    def forward(self, x: Any) -> Any:
        h = x[0:1]
        for k in range(x.shape[0]):
            h = self.drop(self.cell(h + x[k : k + 1]))
        return self.out(h)


@pytest.fixture
def net() -> Any:
    mx.random.seed(0)
    made = Rows()
    made.initialize(mx.init.Uniform(0.7))
    yield made
    made.hybridize(dynamic_batch=False)


SAMPLES = [rows(k % 4 + 1, SIZE, seed=k) for k in range(9)]


def square(net: gluon.Block, sample: Any) -> Any:
    return (net(sample) ** 2).sum()


def zero(net: gluon.Block) -> None:
    for parameter in net.collect_params().values():
        parameter.zero_grad()


def eager(net: gluon.Block) -> dict[str, np.ndarray]:
    net.hybridize(dynamic_batch=False)
    found = outcome(net, SAMPLES, square)[1]
    net.hybridize(dynamic_batch=True)
    zero(net)
    return found


def assert_gradients(net: gluon.Block, expected: dict[str, np.ndarray], tolerance: float = 1e-5) -> None:
    for name, value in gradients(net).items():
        assert_close(value, expected[name], name, tolerance)


def add_with_sum(losses: list[Any]) -> Any:
    return sum(losses)


def add_in_place_order(losses: list[Any]) -> Any:
    total = losses[0]
    for loss in losses[1:]:
        total = total + loss
    return total


ADDERS = {
    "sum": add_with_sum,
    "chain": add_in_place_order,
    "add_n": gluonjit.add_n,
    "nd.add_n": lambda losses: nd.add_n(*losses),
    "concat": lambda losses: nd.concat(*losses, dim=0).sum(),
    "stack": lambda losses: nd.stack(*losses).sum(),
    "mean": lambda losses: nd.stack(*losses).mean() * len(losses),
}


@pytest.mark.parametrize("adder", ADDERS)
def test_any_way_of_adding_up(net: Any, adder: str) -> None:
    expected = eager(net)
    with autograd.record():
        total = ADDERS[adder]([square(net, sample) for sample in SAMPLES])
    total.backward()
    assert_gradients(net, expected)
    report = gluonjit.explain()
    assert report.flushes == 1
    assert (
        report.launches <= 4 * 3 + 4 + 2
    )  # steps of the chain, the output, square, sums, the total and what is done to it


def test_backward_of_a_list(net: Any) -> None:
    expected = eager(net)
    with autograd.record():
        losses = [square(net, sample) for sample in SAMPLES]
    with warnings.catch_warnings():
        warnings.simplefilter("error", BackwardWarning)
        autograd.backward(losses)
    assert_gradients(net, expected)
    assert gluonjit.explain().flushes == 1


def test_backward_of_a_list_with_head_gradients(net: Any) -> None:
    net.hybridize(dynamic_batch=False)
    heads = [nd.array([float(k)]) for k in range(len(SAMPLES))]
    with autograd.record():
        losses = [square(net, sample) for sample in SAMPLES]
    autograd.backward(losses, heads)
    expected = gradients(net)
    net.hybridize(dynamic_batch=True)
    zero(net)
    with autograd.record():
        losses = [square(net, sample) for sample in SAMPLES]
    autograd.backward(losses, heads)
    assert_gradients(net, expected)


@pytest.mark.parametrize("request_", ["write", "add"])
def test_backward_one_by_one(net: Any, request_: str) -> None:
    """Captured first, then differentiated one by one: as eager, with a warning that names the cheap way."""
    net.collect_params().setattr("grad_req", request_)
    results = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        zero(net)
        with autograd.record():
            losses = [square(net, sample) for sample in SAMPLES]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for loss in losses:
                loss.backward()
        assert any("add_n" in str(w.message) and w.category is BackwardWarning for w in caught) == dynamic
        results.append(gradients(net))
    assert_gradients(net, results[0])


def test_capture_and_backward_one_sample_at_a_time(net: Any) -> None:
    net.collect_params().setattr("grad_req", "add")
    expected = eager(net)
    with pytest.warns(BackwardWarning, match="one at a time"):
        for sample in SAMPLES:
            with autograd.record():
                loss = square(net, sample)
            loss.backward()
    assert_gradients(net, expected)


def test_second_backward_raises_as_eager(net: Any) -> None:
    net.hybridize(dynamic_batch=True)
    with autograd.record():
        losses = [square(net, sample) for sample in SAMPLES]
    losses[0].backward()
    with pytest.raises(mx.base.MXNetError):
        losses[0].backward()


def test_retain_graph(net: Any) -> None:
    expected = eager(net)
    with autograd.record():
        total = gluonjit.add_n([square(net, sample) for sample in SAMPLES])
    total.backward(retain_graph=True)
    zero(net)
    total.backward()
    assert_gradients(net, expected)


def test_null_gradient(net: Any) -> None:
    expected = eager(net)
    net.cell.collect_params().setattr("grad_req", "null")
    with autograd.record():
        total = gluonjit.add_n([square(net, sample) for sample in SAMPLES])
    total.backward()
    assert_gradients(net, expected)


def test_gradient_of_an_input(net: Any) -> None:
    x = rows(3, SIZE)
    x.attach_grad()
    found = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        with autograd.record():
            total = square(net, x) + square(net, SAMPLES[0]) + square(net, x)
        total.backward()
        found.append(x.grad.asnumpy().copy())
    assert_close(found[1], found[0], "gradient of the input")


def test_autograd_grad(net: Any) -> None:
    x = rows(2, SIZE)
    found = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        x.attach_grad()
        with autograd.record():
            loss = square(net, x)
        found.append(autograd.grad(loss, [x])[0].asnumpy())
    assert_close(found[1], found[0], "gradient")


def test_flush_after_record_has_closed_keeps_history(net: Any) -> None:
    expected = eager(net)
    with autograd.record():
        losses = [square(net, sample) for sample in SAMPLES]
    assert not autograd.is_recording()
    values = [loss.asscalar() for loss in losses]  # runs the batch outside of record
    assert all(value > 0 for value in values)
    autograd.backward(losses)
    assert_gradients(net, expected)


def test_pause_and_detach(net: Any) -> None:
    def loss(net: Any, sample: Any) -> Any:
        with autograd.pause():
            constant = net(sample)
        return ((net(sample) - constant * 2) ** 2).sum() + (net(sample).detach() * net(sample)).sum()

    net.hybridize(dynamic_batch=True)
    assert_same(net, SAMPLES, loss)


def test_trainer(net: Any) -> None:
    start = {name: value.data().asnumpy().copy() for name, value in net.collect_params().items()}
    ends = []
    for dynamic in (False, True):
        for name, parameter in net.collect_params().items():
            parameter.set_data(nd.array(start[name]))
        net.hybridize(dynamic_batch=dynamic)
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
        for _ in range(5):
            with autograd.record():
                total = gluonjit.add_n([square(net, sample) for sample in SAMPLES])
            total.backward()
            trainer.step(len(SAMPLES))
        ends.append({name: value.data().asnumpy().copy() for name, value in net.collect_params().items()})
    for name in start:
        assert_close(ends[1][name], ends[0][name], name, 1e-4)


def test_value_captured_before_a_step_is_the_old_one(net: Any) -> None:
    net.hybridize(dynamic_batch=False)
    with autograd.record():
        total = gluonjit.add_n([square(net, sample) for sample in SAMPLES])
    total.backward()
    expected = net(SAMPLES[0]).asnumpy()
    net.hybridize(dynamic_batch=True)
    before = net(SAMPLES[0])
    gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}).step(1)
    assert_close(before.asnumpy(), expected, "value from before the step")


def test_set_data_and_writes_run_what_waits_first(net: Any) -> None:
    net.hybridize(dynamic_batch=False)
    x = SAMPLES[2].copy()
    expected = net(x).asnumpy()
    net.hybridize(dynamic_batch=True)
    before = net(x)
    x[:] = 0
    assert_close(before.asnumpy(), expected, "value from before x[:] = 0")
    x = SAMPLES[2].copy()
    before = net(x)
    net.cell.weight.set_data(net.cell.weight.data() * 0)
    assert_close(before.asnumpy(), expected, "value from before set_data")
    net.cell.weight.data()[:] = 1
    after = net(x)
    net.hybridize(dynamic_batch=False)
    assert_close(after.asnumpy(), net(x).asnumpy(), "value from after")


def test_lazy_array_in_place(net: Any) -> None:
    net.hybridize(dynamic_batch=True)
    first, second = net(SAMPLES[0]), net(SAMPLES[0])  # one node, two arrays
    value = first.asnumpy()
    first += 1
    first[:] = first * 2
    assert_close(first.asnumpy(), (value + 1) * 2, "written array")
    assert_close(second.asnumpy(), value, "its twin")


def test_dropout(net: Any) -> None:
    dropping = Rows(dropout=0.5)
    dropping.initialize(mx.init.Uniform(0.7))
    x = rows(1, SIZE)
    dropping.hybridize(dynamic_batch=True)
    mx.random.seed(7)
    with autograd.record():
        first = [dropping(x) for _ in range(64)]
        values = np.array([value.asnumpy().item() for value in first])
    assert len(set(values.round(6))) > 4, "each call draws for itself"
    mx.random.seed(7)
    with autograd.record():
        again = [dropping(x) for _ in range(64)]
    assert_close([value.asnumpy().item() for value in again], values, "the same seed")
    assert len({round(dropping(x).asnumpy().item(), 6) for _ in range(4)}) == 1, "nothing drops in evaluation"
    still = Rows(dropout=0.0)
    still.initialize(mx.init.Uniform(0.7))
    assert_same(still, SAMPLES, square)


class Normed(gluon.Block):
    """Batch normalisation, whose statistics in training are those of one sample's call."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.norm = nn.BatchNorm(in_channels=SIZE)
            self.out = nn.Dense(1, in_units=SIZE)

    def forward(self, x: Any) -> Any:
        return self.out(self.norm(x))


def test_batch_norm_runs_alone_in_training_and_says_so() -> None:
    ends = []
    samples = [rows(4, SIZE, seed=k) for k in range(5)]
    start = None
    for dynamic in (False, True):
        net = Normed()
        net.initialize(mx.init.One())
        net.hybridize(dynamic_batch=dynamic)
        with autograd.record():
            total = gluonjit.add_n([(net(sample) ** 2).sum() for sample in samples])
        total.backward()
        start = total.asscalar()
        ends.append((start, net.norm.running_mean.data().asnumpy(), net.norm.running_var.data().asnumpy()))
        if dynamic:
            assert "BatchNorm" in gluonjit.explain().alone
            net(samples[0]).wait_to_read()
            assert not gluonjit.explain().alone, "evaluation batches"
    for actual, expected in zip(ends[1], ends[0]):
        assert_close(actual, expected, "loss or running statistics")


def test_deferred_initialisation() -> None:
    class Deferred(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.first = nn.Dense(4, activation="tanh")
                self.second = nn.Dense(2)

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x))

    net = Deferred()
    net.initialize(mx.init.One())
    net.hybridize(dynamic_batch=True)
    batched = [net(rows(1, 3, seed=k)) for k in range(3)]
    values = [value.asnumpy() for value in batched]
    net.hybridize(dynamic_batch=False)
    for k in range(3):
        assert_close(values[k], net(rows(1, 3, seed=k)).asnumpy(), f"sample {k}")


def test_block_is_what_it_was_after_turning_it_off(net: Any) -> None:
    hybrid = nn.HybridSequential()
    hybrid.add(nn.Dense(3, in_units=2))
    hybrid.initialize()
    hybrid.hybridize()
    before = dict(hybrid.__dict__)
    hybrid.hybridize(dynamic_batch=True)
    assert type(hybrid) is nn.HybridSequential and not hybrid._active
    hybrid.hybridize(dynamic_batch=False)
    assert hybrid.__dict__ == before and hybrid._active
    hybrid.hybridize(dynamic_batch=True)
    hybrid.hybridize(False)
    assert not hybrid._active and hybrid.__dict__.keys() == before.keys()


def test_copies_and_pickles(net: Any, tmp_path: Any) -> None:
    net.hybridize(dynamic_batch=True)
    expected = net(SAMPLES[1]).asnumpy()
    twin = copy.deepcopy(net)
    twin.cell.weight.set_data(twin.cell.weight.data() * 0)
    assert_close(net(SAMPLES[1]).asnumpy(), expected, "the original")
    assert np.abs(twin(SAMPLES[1]).asnumpy() - expected).max() > 1e-3
    net.save_parameters(str(tmp_path / "net.params"))
    twin.load_parameters(str(tmp_path / "net.params"))
    assert_close(twin(SAMPLES[1]).asnumpy(), expected, "the copy with the original's parameters")
    lazy = net(SAMPLES[1])
    assert_close(pickle.loads(pickle.dumps(lazy)).asnumpy(), expected, "a pickled value")


def test_options_are_checked_before_anything_changes(net: Any) -> None:
    with pytest.raises(OptionError, match=r"no option 'sharin'.*sharing"):
        net.hybridize(dynamic_batch=True, sharin=True)
    with pytest.raises(OptionError, match="granularity='ops'"):
        net.hybridize(dynamic_batch=True, granularity="ops")
    with pytest.raises(OptionError, match="dynamic_batch='yes'"):
        net.hybridize(dynamic_batch="yes")
    with pytest.raises(OptionError, match="max_nodes=0"), gluonjit.batching(max_nodes=0):
        pass
    assert "_gluonjit" not in net.__dict__


def test_batching_scope(net: Any) -> None:
    """A scope batches blocks that were not hybridized, and runs at its end."""
    expected = [net.out(sample).asnumpy() for sample in SAMPLES]
    with gluonjit.batching() as batch:
        values = [net.out(sample) for sample in SAMPLES]
        assert batch.report.flushes == 0
    assert batch.report.flushes == 1 and batch.report.launches == 1
    for value, wanted in zip(values, expected):
        assert_close(value.asnumpy(), wanted, "value")


def test_exception_in_a_scope_leaves_nothing_behind(net: Any) -> None:
    net.hybridize(dynamic_batch=True)
    kept = None
    with pytest.raises(ZeroDivisionError), gluonjit.batching():
        kept = net(SAMPLES[0])
        raise ZeroDivisionError
    with pytest.raises(BatchClosedError, match="ZeroDivisionError"):
        kept.asnumpy()
    report = assert_same(net, SAMPLES, square)
    assert report.flushes == 1


def test_exception_in_a_sample_loses_only_that_sample(net: Any) -> None:
    net.hybridize(dynamic_batch=False)
    expected = [net(sample).asnumpy() for sample in SAMPLES]
    net.hybridize(dynamic_batch=True)
    values = [net(sample) for sample in SAMPLES[:4]]
    with pytest.raises(CaptureError) as caught:
        net(rows(2, SIZE + 1))
    message = str(caught.value)
    assert "FullyConnected" in message and f"(1, {SIZE + 1})" in message and f"({SIZE}, {SIZE})" in message
    values += [net(sample) for sample in SAMPLES[4:]]
    for value, wanted in zip(values, expected):
        assert_close(value.asnumpy(), wanted, "value")


def test_uninitialised_parameters_are_named() -> None:
    net = Rows()
    net.hybridize(dynamic_batch=True)
    with pytest.raises(RuntimeError, match="has not been initialized"):
        net(SAMPLES[0])


def test_index_out_of_range_is_found_at_capture() -> None:
    embed = nn.Embedding(4, 3)
    embed.initialize()
    embed.hybridize(dynamic_batch=True)
    embed(nd.array([1, 2])).wait_to_read()
    with pytest.raises(CaptureError, match=r"index 4 .* 4 rows"):
        embed(nd.array([0, 4]))


def test_a_value_needed_inside_runs_the_batch(net: Any) -> None:
    def branch(net: Any, sample: Any) -> Any:
        h = net(sample)
        return (h * 2).sum() if h.asscalar() > 0 else (h * 3).sum()

    report = assert_same(net, SAMPLES, branch)
    assert report.flushes >= 1


def test_an_open_batch_is_bounded(net: Any) -> None:
    report = assert_same(net, SAMPLES, square, max_nodes=10)
    assert report.flushes > 1
    report = assert_same(net, SAMPLES, square, max_bytes=100)
    assert report.flushes > 1


def test_unread_work_is_dropped(net: Any) -> None:
    net.hybridize(dynamic_batch=True)
    for sample in SAMPLES:
        net(sample)
    kept = net(SAMPLES[0])
    kept.wait_to_read()
    report = gluonjit.explain()
    assert report.dropped > 0 and report.nodes == 4  # h + x, cell, dropout, out


def test_eager_operators_go_on_from_a_batch(net: Any) -> None:
    """A value used by what cannot be captured under recording is differentiated all the same."""

    class Double(autograd.Function):
        def forward(self, x: Any) -> Any:
            return x * 2

        def backward(self, gradient: Any) -> Any:
            return gradient * 2

    def loss(net: Any, sample: Any) -> Any:
        return (Double()(net(sample)) ** 2).sum()

    assert_same(net, SAMPLES[:4], loss)


def test_gradients_go_through_several_flushes(net: Any) -> None:
    """Values read in the middle and used on, under recording: as in truncated time, one backward for all."""

    def loss(net: Any, sample: Any) -> Any:
        h = net.cell(sample[0:1])
        h.wait_to_read()
        h = net.cell(h + sample[0:1])
        h.wait_to_read()
        return (net.out(h) ** 2).sum()

    class Whole(gluon.Block):
        def __init__(self, inner: gluon.Block) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, sample: Any) -> Any:
            return loss(self.inner, sample)

    report = assert_same(Whole(net), SAMPLES, lambda whole, sample: whole(sample))
    assert report.flushes > len(SAMPLES)


def test_state_carried_to_the_next_minibatch(net: Any) -> None:
    """A state of one minibatch is an operand of the next; detached, no gradient goes back."""
    found = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        zero(net)
        state = nd.zeros((1, SIZE))
        for k in range(3):
            with autograd.record():
                state = net.cell(state + SAMPLES[k][0:1])
                total = (net.out(state) ** 2).sum()
            total.backward()
            state = state.detach()
        found.append((state.asnumpy(), gradients(net)))
    assert_close(found[1][0], found[0][0], "state")
    assert_gradients(net, found[0][1])


def test_second_order_gradients_are_refused_clearly(net: Any) -> None:
    net.hybridize(dynamic_batch=True)
    x = rows(1, SIZE)
    x.attach_grad()
    with autograd.record():
        loss = square(net, x)
    with pytest.raises(CaptureError, match="dynamic_batch=False"):
        autograd.grad(loss, [x], create_graph=True)


def test_trainable_embedding() -> None:
    class Words(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.embed = nn.Embedding(7, SIZE)
                self.out = nn.Dense(1, in_units=SIZE)

        def forward(self, tokens: Any) -> Any:
            words = self.embed(tokens)
            return self.out(words[0:1] * words[-1:] + words[0])

    net = Words()
    net.initialize(mx.init.Uniform(0.7))
    samples = [nd.array(tokens) for tokens in ([1, 2], [2, 1, 3], [6], [1, 2], [0, 0, 0])]
    report = assert_same(net, samples, square)
    assert report.shared > 0


def test_threads_capture_apart(net: Any) -> None:
    """Each thread has its own open batch; first calls at the same time are safe."""
    net.hybridize(dynamic_batch=False)
    expected = [net(sample).asnumpy() for sample in SAMPLES]
    net.hybridize(dynamic_batch=True)
    found: dict[int, list[np.ndarray]] = {}

    def work(number: int) -> None:
        for _ in range(5):
            values = [net(sample) for sample in SAMPLES]
            found[number] = [value.asnumpy() for value in values]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3]
    for values in found.values():
        for value, wanted in zip(values, expected):
            assert_close(value, wanted, "value")


def test_a_value_of_another_thread_is_refused_until_it_has_run(net: Any) -> None:
    net.hybridize(dynamic_batch=True)
    value = net(SAMPLES[0])
    caught: list[BaseException] = []

    def read() -> None:
        try:
            value.asnumpy()
        except BatchClosedError as error:
            caught.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert "in the thread that captured it" in str(caught[0])
    assert value.asnumpy().shape == (1, 1)


def test_a_look_up_that_is_read_first_is_learned(net: Any) -> None:
    class Words(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.embed = nn.Embedding(7, SIZE)

        def forward(self, tokens: Any) -> Any:
            words = self.embed(tokens)
            words.wait_to_read()
            return (words**2).sum()

    words = Words()
    words.initialize(mx.init.Uniform(0.7))
    assert_same(words, [nd.array([1, 2]), nd.array([2, 3, 3])], lambda net, tokens: net(tokens))


def test_indexing_by_arrays(net: Any) -> None:
    def loss(net: Any, sample: Any) -> Any:
        h = net.cell(sample)
        picked = h[nd.array([0, 0], dtype="int32")] + h[[0, 0]]
        return (picked * h[None, 0:1, :][0]).sum() + sample[nd.array([0], dtype="int32")].sum()

    class Whole(gluon.Block):
        def __init__(self, inner: gluon.Block) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, sample: Any) -> Any:
            return loss(self.inner, sample)

    report = assert_same(Whole(net), SAMPLES, lambda whole, sample: whole(sample))
    assert report.flushes == 1


def test_arrays_made_inside_are_each_their_own(net: Any) -> None:
    """Equal new arrays are made once a batch, which writing to one of them must not show."""

    class Makes(gluon.Block):
        def forward(self, x: Any) -> Any:
            with autograd.pause():
                mark = mx.nd.zeros((1, 3))
                mark[:, 1] = x[:, 0]
                start = mx.nd.zeros((1, 3))
                start.attach_grad()
            self.starts.append(start)
            return ((x + start) * (mark + mx.nd.zeros((1, 3)))).sum()

    results = []
    for dynamic in (False, True):
        block = Makes()
        block.starts = []
        block.hybridize(dynamic_batch=dynamic)
        with autograd.record():
            losses = [block(mx.nd.array([[k, 2.0, 3.0]])) for k in (1.0, 4.0)]
        autograd.backward(losses)
        results.append([[loss.asscalar() for loss in losses], [start.grad.asnumpy() for start in block.starts]])
    assert results[0][0] == results[1][0]
    for wanted, found in zip(results[0][1], results[1][1]):
        assert_close(found, wanted, "gradient of an array made inside")


def test_reading_and_writing_slices_of_inputs(net: Any) -> None:
    """A slice of an input is a view of it: reading it runs nothing, writing to it writes to the input."""

    class Reads(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Any, tokens: Any) -> Any:
            total = 0
            for row in range(len(x)):
                if int(tokens[row].asscalar()) == 2 or x[row].asnumpy()[0] > 0.5:
                    total = total + self.net.cell(x[row : row + 1])
            if not autograd.is_recording():
                x[0:1][:] = 7
            return total

    results = []
    for dynamic in (False, True):
        samples = [(rows(4, 5, seed=k), mx.nd.array([1, 2, 2, k], dtype="int32")) for k in range(3)]
        for x, _ in samples:
            x.attach_grad()
        block = Reads()
        block.hybridize(dynamic_batch=dynamic)
        with autograd.record():
            losses = [block(x, tokens) for x, tokens in samples]
        autograd.backward(losses)
        if dynamic:
            assert gluonjit.explain().flushes == 1, "nothing ran early"
        gradients_ = [x.grad.asnumpy() for x, _ in samples]
        plain = [block(x, tokens).asnumpy() for x, tokens in samples]
        results.append([*[loss.asnumpy() for loss in losses], *gradients_, *plain, *[x.asnumpy() for x, _ in samples]])
        assert (results[-1][-1][0] == 7).all()
    for wanted, found in zip(*results):
        assert_close(found, wanted, "result")
