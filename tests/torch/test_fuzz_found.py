"""What the fuzzer found in the engine for PyTorch, each as a small program: batched it gives what it gives eagerly."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_support import assert_close, gradients

import gluonjit
from gluonjit.engines.torch.values.lazy import wrap
from gluonjit.errors import CaptureError
from gluonjit.graph import Value, intern_spec


class Net(nn.Module):
    """Calls a sample's program with itself and the sample's tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 3)
        self.dense = nn.Linear(3, 3)
        self.other = nn.Linear(3, 3)

    def forward(self, sample: Sample, *tensors: Any) -> Any:
        return sample.program(self, *tensors)


class Sample:
    """A program and its tensors, as an object that is no plain constant: what the program calls is captured."""

    def __init__(self, program: Callable[..., Any], *tensors: Any) -> None:
        self.program = program
        self.tensors = tensors

    def on(self, net: Net) -> Any:
        return net(self, *self.tensors)


@pytest.fixture
def net() -> Any:
    torch.manual_seed(0)
    made = Net()
    yield made
    gluonjit.hybridize(made, dynamic_batch=False)


def same_values(net: Net, samples: list[Sample], **options: Any) -> None:
    """Batched values are those of the eager program, with and without gradients being recorded."""
    gluonjit.hybridize(net, dynamic_batch=False)
    wanted = [sample.on(net).detach().clone() for sample in samples]
    gluonjit.hybridize(net, dynamic_batch=True, **options)
    for recorded in (True, False):
        with torch.set_grad_enabled(recorded):
            found = [sample.on(net) for sample in samples]
            for number, (value, expected) in enumerate(zip(found, wanted)):
                assert value.dtype == expected.dtype
                assert_close(value.detach(), expected, f"sample {number}")


Backward = Callable[[list[Any]], None]


def same_gradients(net: Net, make: Callable[[], list[Sample]], backward: Backward, **options: Any) -> None:
    """Gradients, of weights and of inputs, are those of the eager program, None where those are None."""
    found = []
    eager = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=False)
    for model in (eager, gluonjit.hybridize(net, dynamic_batch=True, **options)):
        model.zero_grad(set_to_none=True)
        samples = make()
        outputs = [sample.on(model) for sample in samples]
        backward([output.sin().mean() for output in outputs])
        inputs = [tensor.grad for sample in samples for tensor in sample.tensors if tensor.is_floating_point()]
        found.append([*gradients(model).values(), *inputs])
    for number, (wanted, actual) in enumerate(zip(*found)):
        assert (wanted is None) == (actual is None), f"gradient {number}: {actual} instead of {wanted}"
        if wanted is not None:
            assert_close(actual, wanted, f"gradient {number}")


def total(losses: list[Any]) -> None:
    gluonjit.add_n(losses).backward()


def each(losses: list[Any]) -> None:
    for loss in losses:
        loss.backward()


def last(losses: list[Any]) -> None:
    losses[-1].backward()


def test_sums_of_many_tensors_of_several_rows(net: Net) -> None:
    def program(net: Net, x: Any) -> Any:
        return (x + x + x + x + x + x + x + x + x) * 0.1

    same_values(net, [Sample(program, torch.randn(2, 2, 3)), Sample(program, torch.randn(2, 2, 3))])


def test_sums_of_rows_in_another_dtype(net: Net) -> None:
    def program(net: Net, x: Any) -> Any:
        return x.sum((0,), dtype=torch.float64)

    same_values(net, [Sample(program, torch.randn(1, 3)), Sample(program, torch.randn(2, 3))])


def test_a_row_and_a_column_make_a_matrix(net: Net) -> None:
    def kron(net: Net, x: Any) -> Any:
        return torch.kron(x[:1], x[:1]) * 0.5

    def outer(net: Net, x: Any) -> Any:
        return x.reshape(-1, 1) + x.reshape(1, -1)

    same_values(net, [Sample(kron, torch.randn(1, 2)), Sample(kron, torch.randn(1, 2))])
    same_values(net, [Sample(outer, torch.randn(2)), Sample(outer, torch.randn(2))])


def test_diagonals(net: Net) -> None:
    def program(net: Net, x: Any) -> Any:
        return x.diagonal()

    same_values(net, [Sample(program, torch.randn(rows, 3)) for rows in (2, 1, 3, 2)])


def test_a_view_with_another_dtype(net: Net) -> None:
    def program(net: Net, x: Any) -> Any:
        return net.dense(x).detach().view(torch.int32)

    same_values(net, [Sample(program, torch.randn(2, 3))])


def test_a_value_is_read_in_the_middle_of_a_sample_in_inference_mode(net: Net) -> None:
    def program(net: Net, tokens: Any) -> Any:
        words = net.embed(tokens)
        return words.sin() if float(words.mean()) > 0.1 else words.cos()

    tokens = [torch.tensor([1, 2, 3]), torch.tensor([4])]
    wanted = [Sample(program, word).on(net).detach().clone() for word in tokens]
    gluonjit.hybridize(net, dynamic_batch=True)
    with torch.inference_mode():
        for found, expected in zip([Sample(program, word).on(net) for word in tokens], wanted):
            assert_close(found, expected, "a sample")


@pytest.mark.parametrize("size", [3, 3000])
def test_tensors_of_inference_mode_may_be_written_to(net: Net, size: int) -> None:
    def program(net: Net, x: Any) -> Any:
        y = torch.zeros(x.shape)
        before = x + y
        y += 1
        return before * y

    gluonjit.hybridize(net, dynamic_batch=True)
    with torch.inference_mode():
        x = torch.arange(float(size))
        results = []
        for _ in range(2):
            results.append(Sample(program, x).on(net))
            x += 1
        assert_close(results[0], torch.arange(float(size)), "before")
        assert_close(results[1], torch.arange(float(size)) + 1, "after")


def test_what_nothing_reads_may_be_written_to(net: Net) -> None:
    """An input of more than `copy_inputs` bytes, and a weight, of a sample that was lost."""

    def fails(net: Net, x: Any) -> Any:
        net.dense(x.reshape(-1, 3))
        raise ValueError("lost")

    def program(net: Net, x: Any) -> Any:
        return net.other(x.reshape(-1, 3))[-1].sum()

    gluonjit.hybridize(net, dynamic_batch=True)
    x, y = torch.ones(30000), torch.ones(30000)
    with pytest.raises(ValueError, match="lost"):
        Sample(fails, x).on(net)
    with torch.no_grad():
        x += 1
        net.dense.weight.zero_()
        found = Sample(program, y).on(net)
        assert_close(found.detach(), F.linear(y[:3], net.other.weight, net.other.bias).sum(), "the other")
        waiting = Sample(program, y).on(net)
        y += 1
        with pytest.raises(CaptureError, match="was written to"):
            waiting.item()


def words(net: Net, tokens: Any) -> Any:
    return net.dense(net.embed(tokens))


def test_backward_of_each_loss_goes_through_one_look_up(net: Net) -> None:
    same_gradients(net, lambda: [Sample(words, torch.tensor([k, 1])) for k in range(3)], each)


def test_backward_of_each_loss_leaves_what_was_read_in_the_middle(net: Net) -> None:
    def program(net: Net, tokens: Any) -> Any:
        h = net.dense(net.embed(tokens))
        return net.other(h).tanh() if float(h.detach().sum()) > 0 else net.other(h).sin()

    def make() -> list[Sample]:
        return [Sample(program, torch.tensor([k, 1])) for k in range(3)]

    same_gradients(net, make, each)


def direct(net: Net, x: Any) -> Any:
    return net.other(x)


def test_what_backward_does_not_come_to_has_no_gradient(net: Net) -> None:
    """Neither a weight that another sample uses, nor its inputs, although the losses are of one step."""

    def make() -> list[Sample]:
        return [Sample(words, torch.tensor([1])), Sample(direct, torch.ones(2, 3).requires_grad_())]

    same_gradients(net, make, last)
    same_gradients(net, lambda: make()[::-1], last)


def test_inputs_that_nothing_uses_have_no_gradient(net: Net) -> None:
    def second(net: Net, x: Any, y: Any) -> Any:
        return net.dense(y)

    def make() -> list[Sample]:
        tensors = [torch.randn(3).requires_grad_() for _ in range(4)]
        return [Sample(second, *tensors[:2]), Sample(second, *tensors[2:])]

    torch.manual_seed(1)
    given = make()
    same_gradients(net, lambda: copy.deepcopy(given), total)


def test_rows_of_other_samples_have_no_gradient(net: Net) -> None:
    """Of nodes with any number of rows, too."""

    def program(net: Net, x: Any) -> Any:
        return net.dense(x).tanh() * 2

    torch.manual_seed(1)
    given = [Sample(program, torch.randn(rows, 3).requires_grad_()) for rows in (2, 1, 3, 2)]
    same_gradients(net, lambda: copy.deepcopy(given), last)
    same_gradients(net, lambda: copy.deepcopy(given), each)


def test_targets_that_must_not_learn_do_not(net: Net) -> None:
    def program(net: Net, x: Any) -> Any:
        y = net.dense(x).clamp(-2, 2)
        return F.soft_margin_loss(y, torch.sign(y.detach() + 0.0123))

    torch.manual_seed(1)
    given = [Sample(program, torch.randn(2, 3)) for _ in range(3)]
    same_gradients(net, lambda: given, total)


def test_rows_that_are_read_one_by_one_have_no_gradient_where_backward_does_not_come_from_them(net: Net) -> None:
    def turned(net: Net, x: Any) -> Any:
        return torch.stack([*reversed(net.dense(x).unbind(0))])

    torch.manual_seed(1)
    programs = [turned, turned, lambda net, x: net.dense(x), lambda net, x: net.dense(x)]
    given = [Sample(program, torch.randn(2, 3).requires_grad_()) for program in programs]
    same_gradients(net, lambda: copy.deepcopy(given), last, flush_at=4)
    same_gradients(net, lambda: copy.deepcopy(given[::-1]), last, flush_at=4)


def test_unread_results_in_cycles_of_garbage_are_collected() -> None:
    """The collector may take a value apart before the tensor that stands for it."""
    spec = intern_spec((3,), "float32", "cpu", "stack")

    def lost() -> None:
        value = Value(0, 0, spec, None, False)
        value.result = [wrap(value)]

    for _ in range(3):
        lost()
        assert gc.collect() > 0


def test_sequences_of_one_step_go_through_layers_of_sequences(net: Net) -> None:
    layer = nn.LSTM(3, 3).double()

    def program(net: Net, x: Any) -> Any:
        return layer(x.reshape(1, 3))[1][0]

    same_values(net, [Sample(program, torch.randn(3, dtype=torch.float64)) for _ in range(3)])


def test_slices_without_elements(net: Net) -> None:
    def program(net: Net, x: Any) -> Any:
        return (x[2:1:1] * 2).sum()

    same_values(net, [Sample(program, torch.randn(3, 3)) for _ in range(2)])


def test_what_a_module_attaches_to_a_tensor_stays(net: Net) -> None:
    """A leaf of its own, and a hook on what it computes."""
    seen: list[Any] = []

    class Attaching(nn.Module):
        def forward(self, x: Any) -> Any:
            own = x.detach().clone().requires_grad_()
            y = (own * x).sum()
            y.register_hook(seen.append)
            return y

    module = gluonjit.hybridize(Attaching(), dynamic_batch=True)
    results = [module(torch.randn(3)) for _ in range(2)]
    gluonjit.add_n(results).backward()
    assert [float(gradient) for gradient in seen] == [1.0, 1.0]


def test_zeros_that_pytorch_only_tells_of_are_gradients() -> None:
    class Sign(nn.Module):
        def forward(self, which: int, *arrays: Any) -> Any:
            return arrays[which].sgn() * 0.3

    def of(net: Any) -> list[Any]:
        first, second = (torch.full((1, 3), number, requires_grad=True) for number in (0.3, -0.5))
        results = [net(0, first), net(1, torch.ones(1, 3), second)]
        sum((result * result).mean() for result in results).backward()
        return [first.grad, second.grad]

    found = of(gluonjit.hybridize(Sign(), dynamic_batch=True, expand=("Sign",)))
    assert all(map(torch.equal, found, of(Sign())))


def test_rows_of_a_weight_that_are_read_after_an_optimizers_step_are_those_before(net: Net) -> None:
    """What is put together of rows alone is read from where they lie, which may have been written to."""
    given = [torch.randn(1, 3).requires_grad_() for _ in range(2)]

    def program(net: Net, rows: Any) -> Any:
        return torch.cat([net.dense.bias.unsqueeze(0), rows])

    def run() -> list[Any]:
        net.zero_grad()
        found = [Sample(program, rows).on(net) for rows in given]
        (found[0].square().sum() + found[1].sin().sum()).backward(retain_graph=True)
        gradient = net.dense.bias.grad.clone()
        with torch.no_grad():
            net.dense.bias.add_(1.0)
        numbers = [value.detach().clone() for value in found]
        sum(value.sum() for value in found).backward()
        with torch.no_grad():
            net.dense.bias.sub_(1.0)
        return [*numbers, gradient, net.dense.bias.grad.clone()]

    gluonjit.hybridize(net, dynamic_batch=False)
    wanted = run()
    gluonjit.hybridize(net, dynamic_batch=True)
    for found, value in zip(run(), wanted):
        assert_close(found, value, "a value or a gradient")


def test_additions_that_give_rows_of_vectors_are_no_sums_of_these(net: Net) -> None:
    """A matrix that a cell gives is a list of rows, one that was cut out of a tensor is one piece."""
    matrices = torch.randn(16, 3, 3)

    def program(net: Net, given: Any) -> Any:
        copy = given.clone()
        pieces = [copy.select(0, k) for k in range(len(given))]
        return sum(one + other for one, other in zip(pieces[::2], pieces[1::2]))

    same_values(net, [Sample(program, matrices), Sample(program, matrices + 1)], granularity="op")


ASKED: dict[str, Callable[[Any, list[Any]], list[Any]]] = {
    "grad": lambda total, given: list(torch.autograd.grad(total, given)),
    "inputs": lambda total, given: total.backward(inputs=given) or [tensor.grad for tensor in given],
}


class Aside(Net):
    """Gives a number that learns, and others at which PyTorch's backward pass fails."""

    def forward(self, x: Any, y: Any) -> Any:
        z = y * 2
        log = z.log()
        z.add_(1)
        return torch.tanh(self.dense(x)).sum() + torch.heaviside(y, y).sum() + log.sum() + z.sum()


@pytest.mark.parametrize("granularity", ["op", "cell"])
@pytest.mark.parametrize("how", ASKED)
@pytest.mark.parametrize("to", ["weight", "input"])
def test_backward_goes_through_nothing_that_leads_to_what_was_not_asked_for(
    granularity: str, how: str, to: str
) -> None:
    """torch.heaviside has no derivative, and what log saves is written over: eagerly nobody comes there."""
    torch.manual_seed(0)
    net = Aside()

    def run(chosen: bool = True) -> tuple[Any, list[Any]]:
        net.zero_grad()
        inputs = [(torch.full((3,), k + 0.5).requires_grad_(), torch.ones(2).requires_grad_()) for k in range(3)]
        total = sum(net(*pair) for pair in inputs)
        given = [net.dense.weight] if to == "weight" else [x for x, _ in inputs]
        return total, ASKED[how](total, given if chosen else [y for _, y in inputs])

    wanted, expected = run()
    gluonjit.hybridize(net, dynamic_batch=True, granularity=granularity)
    for _ in range(3):
        total, found = run()
        assert_close(total, wanted, "the loss")
        for one, other in zip(found, expected):
            assert_close(one, other, "a gradient")
    with pytest.raises(RuntimeError, match=r"derivative for aten::heaviside|modified by an inplace"):
        run(chosen=False)
