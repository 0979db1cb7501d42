"""Programs that differed from eager execution when PyTorch's own operators were compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gluonjit

GRANULARITIES = pytest.mark.parametrize("granularity", ["op", "cell"])


class Program(nn.Module):
    """A function of a sample's tensor, which waits."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.ones(()))
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x * self.one)


def outcome(function: Callable[[Any], Any], granularity: str | None, train: bool, *shape: int) -> list[Any]:
    """Results, gradients of inputs and of the weight for three samples; eagerly without a granularity."""
    net = Program(function)
    if granularity is not None:
        gluonjit.hybridize(net, dynamic_batch=True, granularity=granularity)
    torch.manual_seed(0)
    inputs = [torch.rand(shape).requires_grad_(train) for _ in range(3)]
    with torch.set_grad_enabled(train):
        results = [net(x) for x in inputs]
        results = [result if isinstance(result, tuple) else (result,) for result in results]
        if train:
            weighted = [each.flatten() for result in results for each in result]
            sum((each * torch.linspace(0.5, 1.5, each.numel())).sum() for each in weighted).backward()
    read = [each.detach().numpy().copy() if isinstance(each, torch.Tensor) else each for r in results for each in r]
    return read + [None if x.grad is None else x.grad.numpy() for x in (*inputs, net.one)]


def check(function: Callable[[Any], Any], granularity: str, *shape: int, train: bool = True) -> None:
    wanted = outcome(function, None, train, *shape)
    got = outcome(function, granularity, train, *shape)
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted):
        assert type(a) is type(b), (a, b)
        if b is not None and not isinstance(b, (int, torch.Size)):
            assert a.shape == b.shape and a.dtype == b.dtype
            torch.testing.assert_close(torch.from_numpy(a), torch.from_numpy(b), rtol=1e-4, atol=1e-5, equal_nan=True)
        else:
            assert a == b


def filled_by_tensor(x: Any) -> Any:
    return torch.index_fill(x, 0, torch.tensor([0, 2]), x[1].mean())


def masked_softmax(x: Any) -> Any:
    hidden = torch.zeros(3, 4).index_fill(0, torch.tensor([1]), -float("inf"))
    return torch.ops.aten._safe_softmax(x + hidden, -1)


def pooled_backward(x: Any) -> Any:
    places = F.max_pool2d(x, 2, return_indices=True)[1]
    return torch.ops.aten.max_pool2d_with_indices_backward(
        torch.ones(1, 1, 2, 2), x, [2, 2], [2, 2], [0, 0], [1, 1], False, places
    )


def legit_norm(x: Any) -> Any:
    return torch._native_batch_norm_legit(x, None, None, True, 0.1, 1e-5)


DIFFERED = {
    "index_fill by a tensor": (filled_by_tensor, (3, 4)),
    "index_fill by a number": (lambda x: torch.index_fill(x, 1, torch.tensor([0]), 2.0) * x, (3, 4)),
    "fill": (lambda x: torch.fill(x, 2.0), (3, 4)),
    "fill by a tensor": (lambda x: torch.fill(x, x.sum()), (3, 4)),
    "slice_scatter over all": (lambda x: torch.slice_scatter(x, x.detach() * 2, 0, 0, 3), (3, 4)),
    "select_scatter over all": (lambda x: torch.select_scatter(x, torch.ones(4), 0, 0), (1, 4)),
    "gradients of a pool's input": (pooled_backward, (1, 1, 4, 4)),
    "written over by ones": (lambda x: (x * 1).copy_(torch.ones_like(x)), (3, 4)),
    "fill, then used": (lambda x: torch.fill(x, 2.0).exp() + x.sum() * 0, (3, 4)),
    "_safe_softmax of rows without finite numbers": (masked_softmax, (3, 4)),
    "_native_batch_norm_legit": (legit_norm, (4, 3)),
    "statistics of groups": (lambda x: tuple(torch.native_group_norm(x, None, None, 2, 6, 3, 2, 0.5))[:1], (2, 6, 3)),
    "nearest points of a grid": (
        lambda x: F.grid_sample(x, x[:, :1].permute(0, 2, 3, 1).repeat(1, 1, 1, 2), "nearest", align_corners=True),
        (1, 2, 4, 4),
    ),
    "points between those of a grid": (
        lambda x: F.grid_sample(x, x[:, :1].permute(0, 2, 3, 1).repeat(1, 1, 1, 2), align_corners=True),
        (1, 2, 4, 4),
    ),
}


@GRANULARITIES
@pytest.mark.parametrize("name", DIFFERED)
def test_values_and_gradients(name: str, granularity: str) -> None:
    function, shape = DIFFERED[name]
    check(function, granularity, *shape)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.matrix_rank,
        lambda x, **out: torch.linalg.matrix_rank(x, hermitian=True, **out),
        lambda x, **out: torch.linalg.matrix_rank(x, atol=torch.tensor(0.1), **out),
        lambda x, **out: torch.linalg.pinv(x, rtol=x.mean(), **out),
        lambda x, **out: torch.kron(x, x, **out),
        lambda x, **out: torch.count_nonzero(x, 0) if not out else out["out"].copy_(torch.count_nonzero(x, 0)),
    ],
)
def test_out_is_written_by_functions_that_give_subclasses_another_tensor(
    function: Callable[..., Any], whole: bool
) -> None:
    def run(x: Any) -> Any:
        out = torch.full(function(x).shape, 1, dtype=function(x).dtype)
        function(x, out=out)
        return out + x.sum()

    check(Program(run) if whole else run, "cell" if whole else "op", 3, 3, train=False)


def test_a_refused_trace_leaves_the_dispatcher_as_it_was() -> None:
    """PyTorch asks a stand-in for its repr within an operator, and would keep gradients switched off for ever."""

    def run(x: Any) -> Any:
        out = torch.full_like(x, 1)
        torch.linalg.pinv(x, rtol=x.mean(), out=out)
        return out

    check(run, "op", 3, 3, train=False)
    assert (torch.ones(3) * nn.Parameter(torch.ones(()))).requires_grad
    check(torch.tanh, "op", 3)


def test_shapes_that_a_cell_returns_are_of_numbers() -> None:
    class Shapes(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.broadcast_shapes(x.shape, (2, 1, 1)), x.shape, x * 2

    net = Shapes()
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell")
    for joined, shape, _ in [net(torch.rand(3, 4)) for _ in range(2)]:
        assert joined == (2, 3, 4) and shape == (3, 4)
        assert {type(size) for size in (*joined, *shape)} == {int}


@GRANULARITIES
@pytest.mark.parametrize("nested", [True, False])
def test_an_encoder_returns_zeros_for_padding_where_eager_does(nested: bool, granularity: str) -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)

        def forward(self, x: Any, hidden: Any) -> Any:
            return self.encoder(x * 2, src_key_padding_mask=hidden) + 1

    torch.manual_seed(0)
    net = Encoder().eval()
    hidden = torch.tensor([[False, False, True]])
    samples = [torch.rand(1, 3, 4) for _ in range(3)]
    with torch.no_grad():
        wanted = [net(x, hidden) for x in samples]
        gluonjit.hybridize(net, dynamic_batch=True, granularity=granularity)
        got = [net(x, hidden).numpy() for x in samples]
        assert (wanted[0][0, 2] == 1).all() == nested
    for a, b in zip(got, wanted):
        torch.testing.assert_close(torch.from_numpy(a), b, rtol=1e-4, atol=1e-5)


LEARNED: dict[str, Callable[[Any], Any]] = {
    "weight": lambda x: F.nll_loss(x, torch.tensor([1, 0, 3]), weight=x[0] * 2),
    "target": lambda x: F.soft_margin_loss(x, x * 2),
    "pos_weight": lambda x: F.binary_cross_entropy_with_logits(x, torch.ones(3, 4), pos_weight=x[0] * 2),
}


@pytest.mark.parametrize("name", LEARNED)
def test_a_computed_argument_that_learns_is_refused(name: str) -> None:
    net = gluonjit.hybridize(Program(LEARNED[name]), dynamic_batch=True, granularity="op")
    with pytest.raises(RuntimeError, match=f"not differentiable with respect to argument '{name}'"):
        sum(net(torch.rand(3, 4)) for _ in range(4)).backward()
    assert not gluonjit.explain().distrusted


@GRANULARITIES
@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss, F.multi_margin_loss])
def test_a_weight_of_classes_that_learns_is_refused(loss: Callable[..., Any], granularity: str) -> None:
    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.rand(4))

        def forward(self, x: Any) -> Any:
            return loss(x * 2, torch.tensor([1, 0, 3]), weight=self.weight)

    net = Loss()
    gluonjit.hybridize(net, dynamic_batch=True, granularity=granularity)
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'weight'"):
        sum(net(torch.rand(3, 4)) for _ in range(2)).backward()
    with torch.no_grad():
        assert net(torch.rand(3, 4)).item() > -10


@GRANULARITIES
def test_a_complex_number_is_not_written_into_whole_ones(granularity: str) -> None:
    def fill(x: Any) -> Any:
        return torch.masked_fill((x * 9).long(), x > 0.5, torch.complex(x[0, 0], x[0, 1]))

    net = Program(fill)
    gluonjit.hybridize(net, dynamic_batch=True, granularity=granularity)
    with pytest.raises(RuntimeError, match="cannot be converted to type int64_t"), torch.no_grad():
        [result.sum().item() for result in [net(torch.rand(3, 4) + 0.1) for _ in range(3)]]


def without_gradients(x: Any) -> Any:
    with torch.no_grad():
        return x * 3


PARTLY: dict[str, Callable[[Any], Any]] = {
    "detached": lambda x: (x * 2, (x * 3).detach()),
    "shown without history": lambda x: (y := x * 2, y.detach()),
    "without gradients": lambda x: (x * 2, without_gradients(x)),
    "of truths": lambda x: (x * 2, (x > 0.5).float()),
    "of places": lambda x: tuple(part.float() for part in x.sort()),
    "made": lambda x: (x * 2, torch.ones(2) * 3),
    "factors": torch.linalg.lu,
    "a factor": lambda x: torch.nn.functional.tanhshrink(torch.linalg.lu(x)[0].cummax(0)[0].vsplit([1])[0]),
    "order": lambda x: x.sort()[1].float() * 2,
}


@GRANULARITIES
@pytest.mark.parametrize("name", PARTLY)
def test_each_result_says_whether_it_has_a_history(name: str, granularity: str) -> None:
    def learning(net: Any) -> list[bool]:
        results = [net(x) for x in torch.rand(3, 4, 4).requires_grad_()]
        found = [part for result in results for part in (result if isinstance(result, tuple) else (result,))]
        before = [flag.requires_grad for part in found for flag in (part, part * 2)]
        assert [part.detach().clone() for part in found]
        return before + [part.requires_grad for part in found]

    inner = Program(PARTLY[name])
    outer = nn.Sequential(Program(lambda x: x), inner)
    wanted = learning(outer)
    assert learning(gluonjit.hybridize(outer, dynamic_batch=True, granularity=granularity)) == wanted


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "expanded": lambda x, weight: F.binary_cross_entropy(x, x.detach(), weight.expand(3, 4)),
    "made of an operand": lambda x, weight: F.binary_cross_entropy(x, x.detach(), weight * 2),
    "logits": lambda x, weight: F.binary_cross_entropy_with_logits(x, x.detach(), weight * 2, pos_weight=weight),
}


@GRANULARITIES
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.filterwarnings("error::gluonjit.errors.RuleWarning")
def test_a_weight_that_learns_is_refused_as_eagerly(name: str, before: bool, granularity: str) -> None:
    class Loss(nn.Module):
        def forward(self, x: Any, weight: Any) -> Any:
            return REFUSED[name](x, weight)

    def losses(net: Any, learns: bool) -> Any:
        torch.manual_seed(0)
        return sum(net(torch.rand(3, 4).requires_grad_() * 1, torch.rand(4).requires_grad_(learns) * 1) for _ in "ab")

    wanted = losses(Loss(), False).item()
    for _ in range(2):  # at the call, and where a signature was traced whose weight does not learn, at the flush
        net = gluonjit.hybridize(Loss(), dynamic_batch=True, granularity=granularity)
        if before:
            assert losses(net, False).item() == pytest.approx(wanted)
        with pytest.raises(RuntimeError, match=r"derivative|not differentiable"):
            losses(net, True).backward()
        assert losses(net, False).item() == pytest.approx(wanted)


@GRANULARITIES
@pytest.mark.parametrize("shape", [(1, 6, 3), (2, 6, 3)])
def test_statistics_of_group_norm_have_gradients(shape: tuple[int, ...], granularity: str) -> None:
    check(lambda x: torch.native_group_norm(x, None, None, shape[0], 6, 3, 2, 1e-5), granularity, *shape)


@pytest.mark.filterwarnings("ignore::gluonjit.errors.AloneWarning")
def test_nodes_that_run_alone_and_read_some_operands_run_in_a_kept_plan() -> None:
    class Line(nn.Module):
        waits = False

        def __init__(self) -> None:
            super().__init__()
            self.zero = nn.Parameter(torch.zeros(()))

        def forward(self, begin: Any, end: Any) -> Any:
            zero = (self.zero.detach() * 0).to(torch.int64)
            return torch.linspace(*([begin + zero, end + zero] if self.waits else [begin, end]), 1)

    for waits in (False, False, True, True):
        net = gluonjit.hybridize(Line(), dynamic_batch=True, granularity="op")
        net.waits = waits
        with torch.no_grad():
            results = [net(torch.tensor(3), torch.tensor(5)) for _ in range(3)]
        assert [result.tolist() for result in results] == [[3]] * 3
