"""Edges of what a program may do, as in eager execution: no rows, history that is gone, masks of bytes, inference."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gluonjit
from tests.common.torch_support import assert_close, assert_same, gradients


class Net(nn.Module):
    """Two layers of which a program is given."""

    def __init__(self, program: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.nodes, self.edges = nn.Linear(4, 4), nn.Linear(4, 4)
        self.program = program

    def forward(self, *args: Any) -> Any:
        return self.program(self, *args)


def both(program: Callable[..., Any], run: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What `run` makes of an eager and of a batched model."""
    return run(Net(program)), run(gluonjit.hybridize(Net(program), dynamic_batch=True, granularity="cell"))


# --- no rows ---------------------------------------------------------------------------------------------------------


def passed(net: Any, x: Any, numbers: Any) -> Any:
    h = net.nodes(x)
    return h + torch.zeros_like(h).index_add(0, numbers, net.edges(h[numbers]))


def passed_in_place(net: Any, x: Any, numbers: Any) -> Any:
    h = net.nodes(x)
    out = torch.zeros_like(h) * h.sum()
    out.index_add_(0, numbers, net.edges(h[numbers]))
    return out


def kept_largest(net: Any, x: Any, numbers: Any) -> Any:
    h = net.nodes(x)
    m = net.edges(h[numbers])
    return h.scatter_reduce(0, numbers[:, None].expand(-1, 4), m, "amax")


@pytest.mark.parametrize("program", [passed, passed_in_place, kept_largest])
@pytest.mark.parametrize("counts", [(0, 0, 0), (0, 2, 0), (1, 0, 3)])
def test_graphs_without_edges_have_gradients_of_zeros(program: Any, counts: tuple[int, ...]) -> None:
    def run(net: Any) -> Any:
        draw = torch.Generator().manual_seed(1)
        results = [net(torch.randn(k + 2, 4, generator=draw), torch.arange(count)) for k, count in enumerate(counts)]
        sum(result.square().sum() for result in results).backward()
        return results, gradients(net)

    (wanted, expected), (results, found) = both(program, run)
    for a, b in zip(wanted, results):
        assert_close(b, a, "a result")
    for name, gradient in expected.items():
        assert gradient is not None and found[name] is not None, name
        assert_close(found[name], gradient, name)


def test_nothing_put_into_what_does_not_learn_learns_where_the_source_does() -> None:
    def program(net: Any, x: Any) -> Any:
        return torch.zeros(3, 4).index_add(0, torch.arange(0), net.edges(x)[:0])

    wanted, found = both(program, lambda net: net(torch.ones(2, 4)))
    assert wanted.requires_grad and found.requires_grad
    assert_close(found, wanted, "the result")


# --- history ---------------------------------------------------------------------------------------------------------


def states(net: Any, x: Any) -> Any:
    return torch.tanh(net.nodes(x))


def one_result(net: Any) -> list[Any]:
    return [net(torch.ones(2, 4))]


def equal_results(net: Any) -> list[Any]:
    x = torch.ones(2, 4)
    first, second = net(x), net(x)
    first.tolist()  # what is computed from here on is not part of their batch
    return [first, second]


def a_part(net: Any) -> list[Any]:
    return [net(torch.ones(2, 4))[0]]


def rows(net: Any) -> list[Any]:
    y = net(torch.ones(3, 4))
    return [y[1:], y[:1]]


@pytest.mark.parametrize("given", [one_result, equal_results, a_part, rows])
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_history_is_gone_after_a_pass_that_was_not_told_to_keep_it(given: Any, kept: int) -> None:
    def run(net: Any) -> Any:
        results = given(net)
        for k in range(kept + 1):
            sum((result * 1).sum() for result in results).backward(retain_graph=k < kept)
        seen = gradients(net)
        with pytest.raises(RuntimeError, match="a second time"):
            sum((result * 1).sum() for result in results).backward()
        return seen

    expected, found = both(states, run)
    assert_close(found["nodes.weight"], expected["nodes.weight"], "after the passes")


def test_each_of_equal_results_may_be_gone_through_once() -> None:
    def run(net: Any) -> Any:
        first, second = equal_results(net)
        first.sum().backward()
        second[0].sum().backward()
        with pytest.raises(RuntimeError, match="a second time"):
            first.sum().backward()
        return gradients(net)

    expected, found = both(states, run)
    assert_close(found["nodes.weight"], expected["nodes.weight"], "after one pass each")


# --- masks of bytes --------------------------------------------------------------------------------------------------

MASK = torch.tensor([1, 0, 1], dtype=torch.uint8)


def number_by_known(net: Any, x: Any) -> Any:
    y = net.nodes(x) * 1
    y[MASK] = 0.0
    return y


def number_by_computed(net: Any, x: Any) -> Any:
    y = net.nodes(x) * 1
    y[(y > 0).to(torch.uint8)] = 0.0
    return y


def rows_by_known(net: Any, x: Any) -> Any:
    y = net.nodes(x) * 1
    y[MASK] = x[:2] * 3
    return y


def number_by_truth(net: Any, x: Any) -> Any:
    y = net.nodes(x) * 1
    y[MASK.bool()] = 0.0
    return y


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize("program", [number_by_known, number_by_computed, rows_by_known, number_by_truth])
def test_writes_by_a_mask_of_bytes_are_what_pytorch_makes_of_them(program: Any) -> None:
    def run(net: Any) -> Any:
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
        try:
            y = net(x)
            y.square().sum().backward()
        except RuntimeError as error:
            return "masked_fill_ only supports boolean masks" in str(error)
        return y, gradients(net)

    wanted, found = both(program, run)
    if isinstance(wanted, bool):
        assert found is wanted
        return
    assert_close(found[0], wanted[0], "the result")
    assert_close(found[1]["nodes.weight"], wanted[1]["nodes.weight"], "the gradient")


# --- inference -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("region", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_what_is_made_in_inference_mode_says_so(region: Any) -> None:
    seen: list[bool] = []

    def program(net: Any, x: Any) -> Any:
        y = torch.tanh(net.nodes(x))
        z = y * 2
        for tensor in (x, y, z, z[0], z.detach()):
            seen.extend([tensor.is_inference(), torch.is_inference(tensor)])
        return z

    def run(net: Any) -> Any:
        seen.clear()
        outside = torch.ones(2, 4)
        with region():
            for x in (torch.ones(2, 4), outside):
                y = net(x)
                seen.extend([y.is_inference(), torch.is_inference(y)])
        return [*seen]

    wanted, found = both(program, run)
    assert found == wanted and len(found) == 24
    assert any(wanted) is (region is torch.inference_mode)


def test_a_cell_that_asks_whether_it_is_in_inference_mode_is_asked_each_time() -> None:
    class Asking(nn.Module):
        def forward(self, x: Any) -> Any:
            y = x * 2
            return y + 1 if torch.is_inference(y) else y - 1

    asking = Asking()

    def run(net: Any) -> Any:
        net.asking = asking
        with torch.inference_mode():
            first = net(torch.ones(2, 4)).clone()
        with torch.no_grad():
            return first, net(torch.ones(2, 4))

    wanted, found = both(lambda net, x: net.asking(net.nodes(x)), run)
    for a, b in zip(wanted, found):
        assert_close(b.clone(), a.clone(), "a result")


# --- overwritten values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("call", ["backward", "grad"])
def test_what_is_overwritten_matters_where_a_path_leads_to_what_is_asked_for(call: str, used: bool) -> None:
    """The input is read by a call of an earlier batch, of which a later one has another result."""

    def program(net: Any, x: Any) -> Any:
        other = torch.relu(x)
        h = torch.tanh(net.nodes(torch.ones(2, 4)))
        if float(h.detach().sum()) > 100:  # which runs the batch
            return other
        p = torch.tanh(net.edges(h + other if used else h))
        p += 1
        return p * 1.0, other

    def run(net: Any) -> Any:
        x = torch.ones(2, 4, requires_grad=True)
        y, _ = net(x)
        try:
            if call == "grad":
                return torch.autograd.grad(y.sum(), x, allow_unused=True)[0]
            y.sum().backward(inputs=[x])
            return x.grad
        except RuntimeError as error:
            return "modified by an inplace operation" in str(error)

    wanted, found = both(program, run)
    assert wanted is (True if used else None)
    assert found is wanted


class Pooled(nn.Module):
    """Pools a map to two by two, of whatever size."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 1)

    def forward(self, image: Any) -> Any:
        return F.adaptive_max_pool2d(self.conv(image), 2).pow(2).sum()


def test_sizes_that_pytorch_takes_no_operator_apart_for() -> None:
    images = [torch.randn(1, 1, height, 5) for height in (4, 3, 5, 3)]  # it does for those that two divides
    for granularity in ("cell", "op"):
        report = assert_same(Pooled(), images, lambda net, image: net(image), granularity=granularity)
        assert report.flushes == 1 and not report.unbatched


# --- several views of one result -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "views",
    [
        lambda h: (h[:, 1:3], h[:, 3]),
        lambda h: (h[:, 1:3], h[:, 2], h.diagonal()),
        lambda h: (h.view(-1, 2, 2).permute(2, 0, 1), h[:, ::2]),
    ],
)
def test_a_call_may_return_views_of_one_result_that_lie_apart_in_memory(views: Any) -> None:
    def run(net: Any) -> Any:
        draw = torch.Generator().manual_seed(1)
        results = [net(torch.randn(rows, 4, generator=draw)) for rows in (2, 2, 3)]
        sum(view.sum() * k for result in results for k, view in enumerate(result, 1)).backward()
        return [view.detach() for result in results for view in result] + [net.nodes.weight.grad, net.nodes.bias.grad]

    for wanted, found in zip(*both(lambda net, x: views(net.nodes(x)), run)):
        assert_close(found, wanted, "a view or a gradient")
