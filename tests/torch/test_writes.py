"""Writes of a program in PyTorch, inside of calls and between them: values, gradients and errors are those of eager."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_support import assert_close
from torch_writes_programs import AT_ONCE, BETWEEN, CAPTURED, REFUSED, Program

import gluonjit
from gluonjit.errors import CaptureError

FIXED = {"sharing": True, "scheduler": "depth"}
MODES: dict[str, dict[str, Any]] = {
    "nodes": {"granularity": "cell"},
    "operators": {"granularity": "op"},
    "expanded": {"granularity": "cell", "expand": ("Net",)},
}


class Net(nn.Module):
    """Calls a program with itself and a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.other = nn.Linear(6, 6)
        self.act = nn.ReLU(inplace=True)
        self.flat = nn.Flatten(0)
        self.same = nn.Identity()
        self.register_buffer("running", torch.zeros(6))
        self.program: Any = lambda net, x: net.first(x)

    def forward(self, x: Any) -> Any:
        return self.program(self, x)


Outcome = tuple[float, list[Any]]


def outcome(net: Net, run: Callable[[Net, list[Any]], Any], samples: list[Any]) -> Outcome:
    """The loss, and all that a minibatch leaves behind: gradients, buffers and samples."""
    given = [sample.clone() for sample in samples]
    loss = run(net, given)
    loss.backward()
    left = [parameter.grad for parameter in net.parameters()] + [buffer.clone() for buffer in net.buffers()] + given
    return float(loss), left


def nets(program: Any = None) -> tuple[Net, Net, list[Any]]:
    torch.manual_seed(0)
    eager = Net()
    if program is not None:
        eager.program = program
    return eager, copy.deepcopy(eager), [torch.randn(4) for _ in range(3)]


def total(net: Net, samples: list[Any]) -> Any:
    return sum([net(sample) for sample in samples])


def assert_as_eager(program: Any, run: Any, **options: Any) -> Any:
    eager, net, samples = nets(program)
    expected, wanted = outcome(eager, run, samples)
    gluonjit.hybridize(net, dynamic_batch=True, **FIXED, **options)
    actual, found = outcome(net, run, samples)
    assert actual == pytest.approx(expected, rel=1e-4, abs=1e-4)
    for number, (one, other) in enumerate(zip(found, wanted)):
        assert (one is None) == (other is None), number
        if one is not None:
            assert_close(one, other, f"tensor {number} left behind", 1e-4)
    return gluonjit.explain()


def assert_refused(program: Any, run: Any, **options: Any) -> None:
    eager, net, samples = nets(program)
    with pytest.raises((RuntimeError, IndexError)) as wanted:
        outcome(eager, run, samples)
    gluonjit.hybridize(net, dynamic_batch=True, **FIXED, **options)
    with pytest.raises(wanted.type) as found:
        outcome(net, run, samples)
    assert str(wanted.value)[:40] in str(found.value)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", CAPTURED, ids=lambda program: program.__name__)
def test_writes_to_captured_tensors_run_nothing(program: Program, mode: str) -> None:
    assert assert_as_eager(program, total, **MODES[mode]).flushes == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", AT_ONCE, ids=lambda program: program.__name__)
def test_other_writes_run_what_waits(program: Program, mode: str) -> None:
    assert_as_eager(program, total, **MODES[mode])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_what_pytorch_refuses_is_refused(program: Program, mode: str) -> None:
    assert_refused(program, total, **MODES[mode])


@pytest.mark.parametrize("run", BETWEEN, ids=lambda run: run.__name__)
def test_writes_between_calls(run: Any) -> None:
    assert assert_as_eager(None, run, **MODES["nodes"]).flushes == 1


def test_a_running_mean_in_a_buffer() -> None:
    def after(net: Net, x: Any) -> Any:
        h = net.first(x)
        with torch.no_grad():
            net.running.mul_(0.9).add_(h.detach() * 0.1)
        return (h - net.running).pow(2).sum()

    def before(net: Net, x: Any) -> Any:
        h = net.first(x)
        loss = (h - net.running).pow(2).sum()
        with torch.no_grad():
            net.running.mul_(0.9).add_(h * 0.1)
        return loss

    for program in (after, before):
        for mode in MODES.values():
            assert_as_eager(program, total, **mode)


def test_a_counter_in_a_buffer_is_read_as_it_was() -> None:
    def program(net: Net, x: Any) -> Any:
        net.running += 1
        return (net.first(x) - net.running).pow(2).sum()

    for mode in MODES.values():
        assert assert_as_eager(program, total, **mode).flushes == 1


# --- weights, results and inputs that are written to between the flush and backward ----------------------------------


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.first = nn.Linear(4, 6)
        self.last = nn.Linear(6, 3)

    def forward(self, words: Any) -> Any:
        return self.last(torch.tanh(self.first(self.table(words)))).sum()


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("first.weight", True),
        ("last.weight", True),
        ("first.bias", False),
        ("last.bias", False),
        ("table.weight", False),
    ],
)
@pytest.mark.parametrize("learns", [True, False])
def test_a_weight_that_is_written_to_before_backward(name: str, refused: bool, learns: bool) -> None:
    torch.manual_seed(0)
    eager = Weights()
    eager.first.weight.requires_grad_(learns)
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True, **FIXED)
    for model in (eager, net):
        loss = sum(model(torch.tensor([number, 1])) for number in range(4))
        loss.item()
        with torch.no_grad():
            model.get_parameter(name).add_(1.0)
        if refused:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
        else:
            loss.backward()
    if not refused:
        for parameter, wanted in zip(net.parameters(), eager.parameters()):
            assert (parameter.grad is None) == (wanted.grad is None)
            if wanted.grad is not None:
                assert_close(parameter.grad, wanted.grad, "gradient")


def test_loading_a_state_and_stepping_before_backward_are_refused() -> None:
    for change in ("load", "step"):
        net = Weights()
        state = {name: tensor + 1 for name, tensor in net.state_dict().items()}
        gluonjit.hybridize(net, dynamic_batch=True, **FIXED)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        sum(net(torch.tensor([number, 1])) for number in range(4)).backward()
        loss = sum(net(torch.tensor([number, 1])) for number in range(4))
        loss.item()
        if change == "load":
            net.load_state_dict(state)
        else:
            optimizer.step()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_results_and_inputs_that_are_written_to_after_the_flush() -> None:
    def results(net: Net, samples: list[Any]) -> Any:
        ys = [net(x) for x in samples]
        float(ys[0].sum())
        ys[0] += 1
        ys[1].mul_(2)
        part = ys[2][1:3]
        part += 1
        return sum((y * y).sum() for y in ys)

    def an_input_that_is_not_saved(net: Net, samples: list[Any]) -> Any:
        ys = [net(samples[1]) + x.sum() for x in samples]
        float(ys[0].sum().detach())
        samples[0].add_(1)
        return sum(y.sum() for y in ys)

    def saved(net: Net, samples: list[Any]) -> Any:
        ys = [net(x).exp() for x in samples]
        float(ys[0].sum().detach())
        ys[0] += 1
        return sum(y.sum() for y in ys)

    def read(net: Net, samples: list[Any]) -> Any:
        hs = [net(x) * 1 for x in samples]
        ys = [net.other(h) for h in hs]
        float(ys[0].sum().detach())
        hs[0] += 1
        return sum(y.sum() for y in ys)

    def an_input(net: Net, samples: list[Any]) -> Any:
        ys = [net(x) for x in samples]
        float(ys[0].sum().detach())
        samples[0].add_(1)
        return sum(y.sum() for y in ys)

    for allowed in (results, an_input_that_is_not_saved):
        assert_as_eager(None, allowed)
    for refused in (saved, read, an_input):
        assert_refused(None, refused)


# --- buffers that a loader fills again -------------------------------------------------------------------------------


def _by_torch(samples: list[Any]) -> Any:
    buffer = torch.zeros(4)
    for sample in samples:
        buffer.copy_(sample)
        yield buffer


def _by_a_view(samples: list[Any]) -> Any:
    buffer = torch.zeros(3, 4)
    for sample in samples:
        buffer[1] = sample
        yield buffer[1]


def _by_numpy(samples: list[Any]) -> Any:
    array = np.zeros(4, dtype=np.float32)
    buffer = torch.from_numpy(array)
    for sample in samples:
        array[:] = sample.numpy()
        yield buffer


def _by_numpy_of_a_tensor(samples: list[Any]) -> Any:
    buffer = torch.zeros(4)
    for sample in samples:
        buffer.numpy()[:] = sample.numpy()
        yield buffer


def _by_rows_of_an_array(samples: list[Any]) -> Any:
    array = np.zeros((3, 4), dtype=np.float32)
    for number, sample in enumerate(samples):
        array[number] = sample.numpy()
        yield torch.from_numpy(array[number])
        array[number] = 0


LOADERS = [_by_torch, _by_a_view, _by_numpy, _by_numpy_of_a_tensor, _by_rows_of_an_array]


@pytest.mark.parametrize("loader", LOADERS, ids=lambda loader: loader.__name__)
def test_a_loader_may_fill_its_buffer_again(loader: Any) -> None:
    eager, net, samples = nets()
    gluonjit.hybridize(net, dynamic_batch=True, **FIXED)
    with torch.no_grad():
        wanted = [eager(sample) for sample in samples]
        found = [net(buffer) for buffer in loader(samples)]
        assert gluonjit.explain().flushes == 0
        for one, other in zip(found, wanted):
            assert_close(one.detach(), other, "the value")


def test_copies_are_made_up_to_a_size_and_a_larger_input_is_noticed() -> None:
    net = nn.Linear(4, 2)
    for size, options in ((4000, {}), (100, {"copy_inputs": 0})):
        array = np.ones((4100 if not options else size + 200, 4), dtype=np.float32)
        gluonjit.hybridize(net, dynamic_batch=True, **options)
        small, large = torch.ones(size, 4), torch.from_numpy(array)
        with torch.no_grad():
            first, second = net(small), net(large)
            if not options:
                small.numpy()[:] = 0
                assert_close(first, net(torch.ones(size, 4)), "as captured")
            else:
                wanted = F.linear(torch.ones(1, 4), net.weight, net.bias)
                assert_close(first[:1] * 1, wanted, "as captured")
            assert second.shape == (len(array), 2)
            waiting = net(large)
            large.mul_(2)
            with pytest.raises(CaptureError, match="was written to after captured calls had read it"):
                waiting.sum().item()
        gluonjit.hybridize(net, dynamic_batch=False)


def test_slices_of_a_large_input_stay_references() -> None:
    net = Net()
    net.program = lambda model, x: sum([model.first(x[k]).sum() for k in range(3)])
    gluonjit.hybridize(net, dynamic_batch=True, expand=("Net",), granularity="cell", **FIXED)
    large = torch.randn(3000, 4)
    net(large).item()
    assert set(gluonjit.explain().kinds) == {"first", "sum", "add"}


@pytest.mark.parametrize("scoped", [False, True])
@pytest.mark.parametrize("view", [lambda x: x[0:1], lambda x: x.view(2, 3)[1], lambda x: x.detach(), lambda x: x.T])
def test_a_view_of_a_result_that_was_read_shows_later_writes(view: Any, scoped: bool) -> None:
    torch.manual_seed(0)
    layer, given = nn.Linear(4, 6), torch.randn(4)
    net = gluonjit.hybridize(copy.deepcopy(layer), dynamic_batch=True, granularity="batched")

    def run(model: Any) -> list[Any]:
        with torch.no_grad():
            result = model(given)
            total = float(result.sum())
            part = view(result)
            result.mul_(2.0)
            part[0] += 1.0
        return [total, part.tolist(), result.tolist()]

    with gluonjit.batching() if scoped else contextlib.nullcontext():
        found = run(net)
    for own, other in zip(found, run(layer)):
        np.testing.assert_allclose(own, other, rtol=1e-5)


def _rows_in_a_loop(net: Net, x: Any) -> Any:
    """Writes rows by numbers that differ from sample to sample, in every form."""
    first = int(x.argmax())
    start, y = x.new_zeros(4, 6), net.first(x)
    kept, seen = start, start[first]
    memory, counts = start.clone(), torch.zeros(4, 1)
    for step in range(5):
        place = (first + step) % 4
        memory[place] = memory[place] + net.other(y)
        memory[place] += y
        memory[place - 4] *= 1.0 + step
        memory[0:2] -= 0.5 * y
        memory[place] = y if step == 3 else memory[place]
        counts[place] += 1
        kept = kept + memory[-1].clone() * counts[place].clone()
        y = torch.tanh(memory[place])
    before = memory.clone()
    memory[first] = y
    return (kept * memory.clone()).sum() + before[first].sum() + seen.sum() + memory[first].sum()


@pytest.mark.parametrize("mode", MODES)
def test_rows_at_other_places_are_written_together(mode: str) -> None:
    assert assert_as_eager(_rows_in_a_loop, total, **MODES[mode]).flushes == 1


def test_writes_to_rows_at_other_places_are_of_one_kind() -> None:
    def program(net: Net, x: Any) -> Any:
        first, y = int(x.argmax()), net.first(x)
        rows = x.new_zeros(4, 6)
        for step in range(4):
            rows[(first + step) % 4] += y
            rows[(first + step) % 4 - 4] *= y
        return rows.sum()

    kinds = assert_as_eager(program, total, **MODES["operators"]).kinds
    assert kinds["add_"].nodes == kinds["mul_"].nodes == 12  # of three samples in four steps
    assert max(kinds["add_"].launches, kinds["mul_"].launches) <= 2


def _rows_without_gradients(net: Net, x: Any) -> Any:
    rows = net.first(x).repeat(3, 1)
    with torch.no_grad():
        held = rows.clone()
        held[1] = held[0] * 2
        held[2] += held[1]
    rows = torch.stack(list(rows.unbind(0)))
    rows[1] = held[2]
    return (rows * held).sum()


@pytest.mark.parametrize("mode", MODES)
def test_rows_written_without_gradients_have_none(mode: str) -> None:
    assert_as_eager(_rows_without_gradients, total, **MODES[mode])


def test_a_result_of_an_earlier_flush_that_backward_needs_may_not_be_written_to() -> None:
    def program(net: Net, x: Any) -> Any:
        rows = torch.tanh(net.first(x).reshape(2, 3))
        for row in range(2):
            rows[row] = rows[row] * 0.5 + row
        return rows.sum()

    assert_refused(program, total, max_nodes=1, granularity="op")


@pytest.mark.parametrize("place", [4, -5])
def test_a_row_out_of_range_is_refused(place: int) -> None:
    def program(net: Net, x: Any) -> Any:
        rows, y = x.new_zeros(4, 6), net.first(x)
        rows[0] = y
        rows[place] = y
        return rows.sum()

    assert_refused(program, total, **MODES["operators"])
