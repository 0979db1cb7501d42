"""Models train on a simulated accelerator as on the host, and what would be wrong on a real one is caught."""

from __future__ import annotations

import copy
import gc
from contextlib import suppress
from itertools import count
from typing import Any, Callable

import pytest

pytest.importorskip("torch", reason="the device is PyTorch's")

import torch

if not hasattr(torch._C, "_acc"):
    pytest.skip("this PyTorch has no devices whose operators are in Python", allow_module_level=True)

from accelerator import Accelerator, Fault, accelerator, device_tensor
from device_tasks import TASKS, Task, compare, trained
from refilled import REFILLS, WIDTH, check_refilled
from torch import nn
from torch_rule_cases import Case
from torch_rule_runs import draw, layouts_of, run_program
from torch_support import assert_close

import gluonjit
from experiments.data.tagged import Sentence
from gluonjit.engines.torch.framework import copy_on_write
from gluonjit.engines.torch.run import memory, one_by_one
from gluonjit.engines.torch.run.memory import Session
from gluonjit.errors import GluonJITError
from tests.torch.test_rule_cases import BATCHED, by_operator, first


@pytest.fixture
def device() -> Accelerator:
    return accelerator()


def read_often(device: Accelerator) -> list[str]:
    """Reads of the device that are not for each program that is made, to compare it, or one call in a thousand."""
    once = ("form.py", "again.py", "one_by_one.py")
    return [read for read in device.reads if not any(file in read for file in once)]


def check(device: Accelerator, task: Task, reuse: bool = False, steps: int = 4, **options: Any) -> Any:
    """What a model learns on the device is what it learns on the host, sample by sample, and nothing was read."""
    torch.manual_seed(0)
    net = task.make()
    expected = trained(copy.deepcopy(net), task, task.samples("cpu"), steps)
    net, samples = net.to("sim"), task.samples("sim")
    gluonjit.hybridize(net, dynamic_batch=True, **options)
    with device.watched(reuse):
        found = trained(net, task, samples, steps)
        faults = list(device.faults)
        reads = read_often(device)
    assert not faults
    assert not reads
    compare(found, expected)
    return gluonjit.explain()


@pytest.mark.parametrize("reuse", [False, True], ids=["own addresses", "reused addresses"])
@pytest.mark.parametrize("name", TASKS)
def test_a_model_trains_on_the_device_as_on_the_host(device: Accelerator, name: str, reuse: bool) -> None:
    report = check(device, TASKS[name], reuse, granularity="batched")
    assert set(report.unbatched) <= {"tree"}  # its argument is an object
    assert not report.fused  # what runs in C is of the host's memory
    assert report.launches < 0.6 * report.nodes


@pytest.mark.parametrize("name", ["bilstm", "pairs"])
def test_all_indices_of_a_step_of_training_travel_in_one_copy(device: Accelerator, name: str) -> None:
    task = TASKS[name]
    net, samples = task.make().to("sim"), task.samples("sim")
    gluonjit.hybridize(net, dynamic_batch=True, granularity="batched")
    trained(net, task, samples)
    with device.watched():
        trained(net, task, samples, 1)
        assert len(device.sends) == 1


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
def test_a_step_that_accelerators_have_one_operator_for_is_one_node(device: Accelerator, kind: Any) -> None:
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = kind(3, 4)

        def forward(self, steps: Any) -> Any:
            state = None
            for step in steps:
                state = self.cell(step, state)
            return state[0] if isinstance(state, tuple) else state

    draw = torch.Generator().manual_seed(0)
    vectors = [torch.randn(length, 3, generator=draw) for length in (2, 4, 3)]
    task = Task(Steps, lambda net, steps: net(steps).sum(), lambda place: [each.to(place) for each in vectors])
    report = check(device, task, granularity="batched", steps=1)
    assert set(report.unbatched) <= {"Steps"}  # which goes through a weight again
    assert report.kinds["cell"].nodes == 9


def test_words_on_the_host_are_looked_up_on_the_device(device: Accelerator) -> None:
    task = TASKS["bilstm"]
    there, here = task.samples("sim"), task.samples("cpu")
    mixed = [Sentence(one.characters, other.target) for one, other in zip(here, there)]
    check(device, task._replace(samples=lambda place: mixed if place == "sim" else here))


@pytest.mark.parametrize("inference", [False, True], ids=["", "inference mode"])
@pytest.mark.parametrize("name", REFILLS)
def test_each_sample_has_the_numbers_that_one_buffer_had_at_its_call(
    device: Accelerator, name: str, inference: bool
) -> None:
    assert check_refilled("sim", name, inference) <= 4


@pytest.mark.parametrize("name", ["copy", "data"])
def test_a_part_of_a_large_tensor_is_copied_alone_once_that_was_written_to(device: Accelerator, name: str) -> None:
    copied: list[int] = []
    clone = device._before_write

    def before_write(tensor: Any) -> None:
        launches = device.launches
        clone(tensor)
        copied.append((device.launches - launches) * tensor.untyped_storage().nbytes())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "_before_write", before_write)
        check_refilled("sim", name, parts=1 << 14)
    assert sum(copied) == (1 << 14) * WIDTH * 4


def launches_of(device: Accelerator, samples: Any, net: Any, calls: int = 2) -> int:
    for _ in range(calls):
        with device.watched(), torch.no_grad():
            torch.stack([net(x) for x in samples]).cpu()
            launches = device.launches
    return launches


@pytest.mark.parametrize("separate", [True, False], ids=["tensors", "rows of one"])
def test_inputs_are_not_copied_at_capture(device: Accelerator, separate: bool) -> None:
    net = nn.Linear(5, 3).to("sim")
    gluonjit.hybridize(net, dynamic_batch=True, granularity="batched")
    rows = torch.randn(20_000, 5).to("sim")
    samples = [row.clone() for row in rows[:64]] if separate else list(rows[:64])
    assert launches_of(device, samples, net) < 10


def test_inputs_whose_address_others_know_are_copied_at_capture(
    device: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = nn.Linear(5, 3).to("sim")
    gluonjit.hybridize(net, dynamic_batch=True, granularity="batched")
    samples = [row.clone() for row in torch.randn(64, 5).to("sim")]
    assert launches_of(device, samples, net) < 10
    for sample in samples[:32]:
        with suppress(BufferError, RuntimeError, ValueError):  # the simulated device has none
            sample.__dlpack__()
    assert 32 <= launches_of(device, samples, net) < 42
    monkeypatch.setattr(copy_on_write, "_streams", [True])
    assert 64 <= launches_of(device, samples, net) < 74


class Casting(nn.Module):
    """A product in float64, which saves its operands, of what names its device."""

    def forward(self, x: Any) -> Any:
        return x.to(device=x.device, dtype=torch.float64) * x


def test_what_backward_needs_is_known_of_programs_that_name_their_device(device: Accelerator) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(3, 3), Casting()

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            out = self.last(x)
            x.add_(1)
            return out.sum()

    net = Net().to("sim")
    gluonjit.hybridize(net, dynamic_batch=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        sum(net(x) for x in torch.ones(3, 3, device="sim")).backward()


NO_KERNEL = {"gru.input"}
"""On accelerators these are kernels of theirs, which the host that stands in for one does not have."""


@pytest.mark.parametrize("cases", [cases for cases in by_operator(BATCHED) if first(cases) not in NO_KERNEL], ids=first)
def test_a_batched_operator_stays_on_the_device(device: Accelerator, cases: list[Case]) -> None:
    for case in {id(case): case for case in (cases[0], cases[-1])}.values():
        layouts, samples = layouts_of(case)[-1], draw(case, 3)
        moved = {id(each): each.to("sim") for sample in samples for each in sample}
        there = [[moved[id(each)] for each in sample] for sample in samples]
        with device.watched():
            found = run_program(case, layouts, there)
            assert not device.reads
        for one, other in zip(found, run_program(case, layouts, samples)):
            assert one.device.type == "sim"
            if not case.drawn:
                torch.testing.assert_close(one.cpu(), other, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_results_go_to_the_host_where_the_program_sends_them(device: Accelerator) -> None:
    torch.manual_seed(0)
    net = nn.Linear(3, 2)
    vectors = torch.arange(12.0).reshape(4, 3).sin()
    expected = [net(x).tanh() for x in vectors]
    net = net.to("sim")
    gluonjit.hybridize(net, dynamic_batch=True)
    with device.watched(), torch.no_grad():
        found = [net(x.to("sim")).tanh() for x in vectors]
        assert not device.reads
        for send in (lambda x: x.cpu(), lambda x: x.to("cpu"), lambda x: x.to("cpu", torch.float64)):
            there = [send(x) for x in found]
            assert all(x.device.type == "cpu" for x in there)
            assert_close(torch.stack(there).float(), torch.stack(expected), "results")
    report = gluonjit.explain()
    assert report.launches == 2
    assert not report.unbatched  # the calls that send results are reads


# What is planted, and has to be caught.


READS: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "bool": lambda x: bool((x == x).all()),
    "equal": lambda x: torch.equal(x, x),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "to": lambda x: torch.empty(x.shape).copy_(x),
}


@pytest.mark.parametrize("name", READS)
def test_a_hidden_copy_to_the_host_is_caught(device: Accelerator, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    compute = Session.compute

    def reading(self: Session, number: int, operands: list[Any], tape: Any) -> list[Any]:
        READS[name](operands[0])
        return compute(self, number, operands, tape)

    monkeypatch.setattr(Session, "compute", reading)
    with pytest.raises(AssertionError, match=r"accelerator_tests\.py"):
        check(device, TASKS["pairs"], granularity="batched", steps=1)
    assert device.reads and not device.faults


def test_numbers_that_the_program_reads_itself_are_counted(device: Accelerator) -> None:
    task = TASKS["pairs"]
    net, samples = task.make().to("sim"), task.samples("sim")
    gluonjit.hybridize(net, dynamic_batch=True)
    with device.watched():
        losses = [task.loss(net, sample) for sample in samples]
        assert not device.reads
        often = len(read_often(device))
        assert all(loss.item() > 0 for loss in losses)
        assert len(read_often(device)) == often + 1  # the numbers of all samples come in one copy


def test_a_host_tensor_among_those_of_the_device_is_caught(
    device: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_by_one, "sent", lambda numbers, where: torch.from_numpy(numbers))
    with pytest.raises(GluonJITError, match="with an operand on cpu"):
        check(device, TASKS["pairs"], granularity="batched", steps=1)
    assert device.faults


def test_a_stale_address_is_caught(device: Accelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Session.compute

    def stale(self: Session, number: int, operands: list[Any], tape: Any) -> list[Any]:
        first = operands[0].clone()
        copied = at_address(first.data_ptr(), first)
        del first
        return compute(self, number, [copied, *operands[1:]], tape)

    monkeypatch.setattr(Session, "compute", stale)
    with pytest.raises(GluonJITError, match="there is no storage"):
        check(device, TASKS["pairs"], granularity="batched", steps=1)
    assert device.faults


def at_address(address: int, like: Any) -> Any:
    """A tensor at an address, which it does not keep alive: as a kernel sees it that is given the number."""
    storage = torch._C._construct_storage_from_data_pointer(address, like.device, like.untyped_storage().nbytes())
    return device_tensor(storage, like)


def test_what_is_known_by_a_stale_address_is_caught(device: Accelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[int, Any] = {}
    join = memory.join

    def remembered(spec: Any, tensors: Any) -> Any:
        return join(spec, [known.setdefault(each.data_ptr(), each.clone()) for each in tensors])

    vectors, turn = torch.arange(48.0).reshape(16, 3).sin(), count()  # other ones in each step

    def loss(net: Any, sample: Any) -> Any:
        return net(vectors[next(turn) % len(vectors)].to(net.weight.device)).sum()

    task = Task(lambda: nn.Linear(3, 2), loss, lambda place: list(range(4)))
    check(device, task, True, granularity="batched")
    monkeypatch.setattr(memory, "join", remembered)
    with pytest.raises(AssertionError, match="off by"):
        check(device, task, True, steps=10, granularity="batched")


def test_the_device_sees_what_its_operators_are_given(device: Accelerator) -> None:
    x = torch.ones(3, 2, device="sim")
    assert x.__class__ is torch.Tensor
    assert x.device == torch.device("sim:0")
    assert (x * torch.tensor(2.0) + 1).cpu().tolist() == [[3.0, 3.0]] * 3
    with pytest.raises(TypeError, match="convert sim:0"):
        x.numpy()
    with pytest.raises(Fault, match="with an operand on cpu"):
        torch.mv(x.t(), torch.ones(3))
    with pytest.raises(Fault, match=r"operand on cpu, of shape \(2,\)"):
        x.index_select(0, torch.tensor([0, 1]))
    assert "sim:0" in repr(x)


def test_memory_is_freed_and_no_address_given_out_twice_unless_that_is_wanted(device: Accelerator) -> None:
    x = torch.ones(5, 7, device="sim")
    address, view = x.data_ptr(), x[1:]
    del x
    assert view.sum().item() == 28.0
    del view
    gc.collect()
    assert torch.ones(5, 7, device="sim").data_ptr() != address
    with device.watched(reuse=True):
        x = torch.ones(5, 7, device="sim")
        address = x.data_ptr()
        del x
        assert torch.empty(5, 7, device="sim").data_ptr() == address
