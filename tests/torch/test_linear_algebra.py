"""Inverses, factorizations and the like run together; their errors are raised where a program can catch them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch_support import assert_close  # noqa: E402

import gluonjit  # noqa: E402

SIZE = 4
COUNT = 6


class Net(nn.Module):
    def __init__(self, program: Any) -> None:
        super().__init__()
        self.lift, self.program = nn.Linear(SIZE, SIZE), program

    def forward(self, x: Any) -> Any:
        h = torch.tanh(self.lift(x))
        return self.program(h, h @ h.t() + torch.eye(SIZE))


PROGRAMS: dict[str, Any] = {
    "inverse": lambda h, a: torch.inverse(a).sum(),
    "method": lambda h, a: a.inverse() @ h[0],
    "solve": lambda h, a: torch.linalg.solve(a, h),
    "solve, a vector": lambda h, a: torch.linalg.solve(a, h[0]),
    "solve, several": lambda h, a: torch.linalg.solve(torch.stack([a, a * 2]), torch.stack([h, h])),
    "solve with what is shared": lambda h, a: torch.linalg.solve(torch.eye(SIZE) * 2, h),
    "cholesky": lambda h, a: torch.linalg.cholesky(a).diagonal().log().sum(),
    "triangular": lambda h, a: torch.linalg.solve_triangular(a.tril(), h, upper=False),
    "logdet": lambda h, a: torch.logdet(a),
    "slogdet": lambda h, a: torch.slogdet(a)[1],
    "det": lambda h, a: torch.det(a),
    "eigenvalues": lambda h, a: torch.linalg.eigh(a)[0],
    "singular values": lambda h, a: torch.linalg.svdvals(h + a),
    "qr": lambda h, a: torch.linalg.qr(a)[1].abs(),
    "exponential": lambda h, a: torch.matrix_exp(h),
}


def both(program: Any) -> tuple[Any, Any, list[Any]]:
    torch.manual_seed(0)
    eager = Net(program)
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    return eager, net, [torch.randn(SIZE, SIZE) for _ in range(COUNT)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_runs_together(name: str) -> None:
    eager, net, xs = both(PROGRAMS[name])
    wanted, found = [eager(x) for x in xs], [net(x) for x in xs]
    sum(y.pow(2).sum() for y in wanted).backward()
    sum(y.pow(2).sum() for y in found).backward()
    assert_close(torch.stack(found), torch.stack(wanted), "values")
    assert_close(net.lift.weight.grad, eager.lift.weight.grad, "gradient")
    report = gluonjit.explain()
    assert report.flushes == 1
    assert not report.alone


def jitter(h: Any, a: Any) -> Any:
    for power in range(4):
        try:
            return torch.linalg.cholesky(h @ h.t() - 0.5 * torch.eye(SIZE) + power * torch.eye(SIZE))
        except torch.linalg.LinAlgError:
            continue
    return a


def test_an_error_is_caught_where_the_program_catches_it() -> None:
    eager, net, xs = both(jitter)
    wanted, found = [eager(x).sum() for x in xs], [net(x).sum() for x in xs]
    sum(wanted).backward()
    sum(found).backward()
    assert_close(torch.stack(found), torch.stack(wanted), "values")
    assert_close(net.lift.weight.grad, eager.lift.weight.grad, "gradient")


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Net(lambda h, a: torch.linalg.cholesky(h @ h.t() - 0.5 * torch.eye(SIZE)).sum())

    def forward(self, x: Any) -> Any:
        try:
            return self.inner(x)
        except RuntimeError:
            return self.inner.lift(x).sum()


def test_an_error_of_a_part_is_caught_around_it() -> None:
    torch.manual_seed(0)
    eager = Outer()
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    xs = [torch.randn(SIZE, SIZE) * scale for scale in (0.1, 3.0, 10.0, 0.1)]
    assert_close(torch.stack([net(x) for x in xs]), torch.stack([eager(x) for x in xs]), "values")


def test_an_error_that_nothing_catches_is_raised() -> None:
    _, net, xs = both(lambda h, a: torch.inverse(h * 0).sum())
    with pytest.raises(torch.linalg.LinAlgError):
        sum(net(x) for x in xs).backward()
