"""Faults planted into programs of PyTorch's operators: found where they first run, and harmless."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from planted import Fault, Ran, assert_found, assert_survived, other_instruction, other_slope

import gluonjit
from gluonjit.engines.torch.operators import binding
from gluonjit.engines.torch.run import fused_steps, program
from gluonjit.program.lengths import running
from gluonjit.program.lengths.nodes import SizedNodes

pytestmark = pytest.mark.filterwarnings("ignore::gluonjit.errors.RuleWarning")
SIZE = 4
Wrong = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes an instruction's function go wrong."""


class Cell(torch.nn.Module):
    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body = body
        self.one, self.two = torch.nn.Linear(SIZE, SIZE), torch.nn.Linear(SIZE, SIZE, bias=False)
        self.norm = torch.nn.LayerNorm(SIZE)
        self.table = torch.nn.Parameter(torch.randn(6, SIZE))

    def forward(self, *given: Any) -> Any:
        return self.body(self, *given)


class Net(torch.nn.Module):
    """Calls a cell on each vector of a sample, or on all of them."""

    def __init__(self, body: Callable[..., Any], calls: Callable[..., Any]) -> None:
        super().__init__()
        self.cell, self.calls = Cell(body), calls

    def forward(self, words: Any) -> Any:
        return self.calls(self.cell, words)


def each(cell: Any, words: Any) -> Any:
    return sum([cell(word[None]).sum() * (k + 1) for k, word in enumerate(words)])


def chain(cell: Any, words: Any) -> Any:
    h = words[:1]
    for word in words[1:]:
        h = cell(word[None], h)
    return h


def tree(cell: Any, words: Any) -> Any:
    nodes = [cell(words[:1], words[1:2])]
    for k in range(len(words)):
        nodes.append(cell(words[k : k + 1], *nodes[-1 - k % 3 :]))
    return nodes[-1]


def beside(cell: Any, words: Any) -> Any:
    return each(cell, words) + cell.two(words).sum()


def whole(cell: Any, words: Any) -> Any:
    return cell(words)


def pair(body: Callable[..., Any]) -> Any:
    return body, each


def emitted(operator: str, wrong: Wrong, modules: tuple[Any, ...] = (program,)) -> Callable[..., None]:
    """Plants a fault into the last instruction that a rule writes down for an operator."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        batch_op = program.batch_op

        def faulty(name: str, args: Any, outputs: Any, writer: Any) -> Any:
            found = batch_op(name, args, outputs, writer)
            if name == operator:
                last = writer.code[-1]
                writer.code[-1] = last._replace(function=wrong(last.function), text=f"{last.text}, wrong")
            return found

        for module in modules:
            patch.setattr(module, "batch_op", faulty)

    return plant


class Slope(torch.autograd.Function):
    """The same numbers, with so many times their gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, times: float) -> Any:
        ctx.times = times
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * ctx.times, None


def after(change: Callable[[Any], Any]) -> Wrong:
    """The fault is in what an instruction gives."""

    def wrong(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            found = function(*given)
            return (change(found[0]), *found[1:]) if isinstance(found, tuple) else change(found)

        return run

    return wrong


def before(number: int, change: Callable[[Any], Any]) -> Wrong:
    """The fault is in what an instruction is given."""

    def wrong(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: function(*[change(item) if k == number else item for k, item in enumerate(given)])

    return wrong


def stale(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives what was computed first, of the first node."""
    return lambda *given: (found := function(*given)) * 0 + found[:1].detach()


def left_out(patch: pytest.MonkeyPatch) -> None:
    """The sum over children has one too few."""
    total = binding._segments
    patch.setattr(binding, "_segments", lambda rows, owners, *how: total(rows[:-1], owners[:-1], *how))


def off_by_one(patch: pytest.MonkeyPatch) -> None:
    """Whose child each is, is one too many."""
    total = binding._segments
    patch.setattr(
        binding, "_segments", lambda rows, owners, count, how: total(rows, (owners + 1) % max(count, 1), count, how)
    )


def needed(what: str, change: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Changes what padded programs are told of lengths."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        given = SizedNodes.need
        patch.setattr(
            SizedNodes,
            "need",
            lambda self, key, *numbers: (change if key[0] == what else lambda found: found)(given(self, key, *numbers)),
        )

    return plant


def attended(cell: Any, x: Any) -> Any:
    return torch.softmax(cell.one(x) @ cell.two(x).t(), -1) @ x


FAULTS = [
    Fault(
        "samples reversed",
        "addmm.default",
        pair(lambda c, x: c.one(x)),
        emitted("addmm.default", after(lambda y: y.flip(0))),
    ),
    Fault(
        "a gradient halved",
        "tanh.default",
        pair(lambda c, x: c.one(x).tanh()),
        emitted("tanh.default", after(lambda y: Slope.apply(y, 0.5))),
    ),
    Fault(
        "a lost history",
        "sin.default",
        (lambda c, x: c.one(x).sin(), beside),
        emitted("sin.default", after(torch.Tensor.detach)),
    ),
    Fault(
        "a weight's gradient doubled",
        "mm.default",
        pair(lambda c, x: c.two(x).sin()),
        emitted("mm.default", before(1, lambda w: Slope.apply(w, 2.0))),
    ),
    Fault(
        "softmax along another axis",
        "_softmax.default",
        pair(lambda c, x: torch.softmax(c.one(x), -1) * x),
        emitted("_softmax.default", lambda f: lambda x, *more: torch.softmax(x, 0)),
    ),
    Fault(
        "one axis too many",
        "sum.dim_IntList",
        pair(lambda c, x: c.one(x).sum(-1).sin()),
        emitted("sum.dim_IntList", after(lambda y: y * 0 + y.sum(0))),
    ),
    Fault(
        "swapped axes",
        "transpose.int",
        pair(lambda c, x: (c.table[:4] * x).transpose(0, 1) @ c.table[:4]),
        emitted("transpose.int", after(lambda y: y.transpose(-1, -2))),
    ),
    Fault(
        "a lost conjugate",
        "_conj_physical.default",
        pair(
            lambda c, x: (
                (torch.view_as_complex(c.one(x).view(2, 2)).conj_physical() * torch.view_as_complex(x.view(2, 2))).imag
            )
        ),
        emitted("_conj_physical.default", lambda f: torch.clone),
    ),
    Fault(
        "a neutral element that is none",
        "amax.default",
        pair(lambda c, x: (c.one(x) - 3).amax(-1)),
        emitted("amax.default", after(lambda y: y.clamp(min=0.0))),
    ),
    Fault(
        "a sum without its last term",
        "cumsum.default",
        pair(lambda c, x: c.one(x).cumsum(-1) * x),
        emitted("cumsum.default", lambda f: lambda x, *more: f(x, *more) - x),
    ),
    Fault(
        "another eps",
        "native_layer_norm.default",
        pair(lambda c, x: c.norm(c.one(x)) * x),
        emitted("native_layer_norm.default", after(lambda y: y * 0.9)),
    ),
    Fault(
        "an index off by one",
        "gather.default",
        pair(lambda c, x: c.one(x).gather(1, x.argsort(-1)) * x),
        emitted("gather.default", after(lambda y: y.roll(1, -1))),
    ),
    Fault(
        "an operand without gradient",
        "mul.Tensor",
        pair(lambda c, x: c.one(x) * c.two(x)),
        emitted("mul.Tensor", before(1, torch.Tensor.detach)),
    ),
    Fault(
        "the wrong sign",
        "rsub.Scalar",
        pair(lambda c, x: 1 - c.one(x).sigmoid()),
        emitted("rsub.Scalar", after(torch.neg)),
    ),
    Fault(
        "an instruction in C",
        "tanh.default",
        (lambda c, x, h: torch.tanh(c.one(x) + c.two(h)), chain),
        other_instruction(fused_steps.FusedSteps, "make", "TANH", "SIGMOID"),
        True,
    ),
    Fault(
        "an instruction with two operands in C",
        "mul.Tensor",
        (lambda c, x, h: c.one(x).sin() * c.two(h), chain),
        other_instruction(fused_steps.FusedSteps, "make", "MUL", "ADD"),
        True,
    ),
    Fault(
        "a slope in C",
        "tanh.default",
        (lambda c, x, h: torch.tanh(c.one(x) + c.two(h)), chain),
        other_slope("TANH", "SIGMOID"),
        True,
    ),
    Fault(
        "a child left out",
        "add.Tensor",
        (lambda c, x, *h: torch.tanh(c.one(x) + sum(c.two(k) for k in h)), tree),
        left_out,
    ),
    Fault(
        "children of the next",
        "add.Tensor",
        (lambda c, x, *h: torch.tanh(c.one(x) + sum(c.two(k) for k in h)), tree),
        off_by_one,
    ),
    Fault(
        "padding that counts",
        "_softmax.default",
        (attended, whole),
        needed("hole", torch.zeros_like),
    ),
    Fault(
        "lengths off by one",
        "mean.dim",
        (lambda c, x: torch.softmax(c.one(x) @ x.t(), -1).mean(0).amax(), whole),
        needed("counts", lambda n: n + 1),
    ),
    Fault(
        "a stale product of leaves",
        "addmm.default",
        (lambda c, x, h: torch.tanh(c.one(x) + c.two(h)), chain),
        emitted("addmm.default", stale),
    ),
]


def refused(*given: Any) -> Any:
    raise RuntimeError("shapes do not match")


class Refusing(torch.autograd.Function):
    """The same numbers, without a backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return refused()


def of_children(patch: pytest.MonkeyPatch) -> None:
    """Programs for any number of children raise an error."""
    given = program.Batched.__call__
    patch.setattr(program.Batched, "__call__", lambda self, *args: refused() if any(args[3:]) else given(self, *args))


def in_c(patch: pytest.MonkeyPatch) -> None:
    """Steps in C raise an error."""

    def run(self: Any, begin: int, *given: Any) -> Any:
        self.steps._launches.under_way = begin
        refused()

    patch.setattr(fused_steps.FusedSteps, "run", run)


RAISING = [
    Fault(
        "an operator",
        "tanh.default",
        pair(lambda c, x: c.one(x).tanh() * 2),
        emitted("tanh.default", lambda f: refused),
    ),
    Fault(
        "a sum over children",
        "add.Tensor",
        (lambda c, x, *h: torch.tanh(c.one(x) + sum(c.two(k) for k in h)), tree),
        of_children,
    ),
    Fault(
        "lengths",
        "_softmax.default",
        (attended, whole),
        lambda patch: patch.setattr(running.StageRun, "run", refused),
    ),
    Fault(
        "a row program",
        "tanh.default",
        (lambda c, x, h: torch.tanh(c.one(x) + c.two(h)), chain),
        in_c,
        True,
    ),
]
RAISING_BACKWARD = [
    Fault(
        "an operator",
        "tanh.default",
        pair(lambda c, x: c.one(x).tanh() * 2),
        emitted("tanh.default", after(Refusing.apply)),
    ),
    Fault(
        "a sum over children",
        "add.Tensor",
        (lambda c, x, *h: torch.tanh(c.one(x) + sum(c.two(k) for k in h)), tree),
        lambda patch: patch.setattr(
            binding, "_segments", lambda *given, total=binding._segments: Refusing.apply(total(*given))
        ),
    ),
]


def run(given: Any, **options: Any) -> Ran:
    """A minibatch; eagerly without options."""
    torch.manual_seed(0)
    net = Net(*given)
    samples = [torch.randn(length, SIZE) for length in (5, 3, 6, 4)]
    if options:
        gluonjit.hybridize(net, dynamic_batch=True, granularity="cell", expand=("Net",), **options)
    with gluonjit.batching(granularity="cell", expand=("Net",), **options) if options else nullcontext() as batch:
        results = [net(words) for words in samples]
        total = sum(
            [(result * torch.arange(1, 1 + result.numel()).view(result.shape).cos()).sum() for result in results]
        )
    total.backward()
    gradients = [weight.grad for weight in net.parameters() if weight.grad is not None]
    numbers = [[tensor.detach().numpy().copy() for tensor in of] for of in (map(torch.clone, results), gradients)]
    return Ran(*numbers, batch and batch.report)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    gluonjit.clear_caches()
    yield
    gluonjit.clear_caches()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found_at_once(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_found(fault, run, monkeypatch)


@pytest.mark.parametrize("check", ["first", "always", "never"])
@pytest.mark.parametrize("fault", RAISING, ids=lambda fault: fault.name)
def test_a_program_that_raises_an_error_is_not_used(fault: Fault, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_survived(fault, run, monkeypatch, check)


@pytest.mark.parametrize("check", ["first", "always"])
@pytest.mark.parametrize("fault", RAISING_BACKWARD, ids=lambda fault: fault.name)
def test_one_whose_backward_pass_does_is_not_either(fault: Fault, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_survived(fault, run, monkeypatch, check)
