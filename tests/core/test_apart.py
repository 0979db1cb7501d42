"""The report says what keeps calls of one name apart, and what to type instead."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import gluonjit  # noqa: E402

GENERATOR = torch.Generator().manual_seed(0)
WEIGHTS = [torch.nn.Parameter(torch.randn(3, 6000, generator=GENERATOR)) for _ in range(5)]  # small ones: operands


class Net(torch.nn.Module):
    def __init__(self, program: Any) -> None:
        super().__init__()
        self.first, self.program = torch.nn.Linear(3, 3), program

    def forward(self, number: int) -> Any:
        words = torch.randn(number + 2, 3, generator=GENERATOR)
        return self.program(self.first(words), number)


PROGRAMS: dict[str, tuple[Any, str, str]] = {
    "a length": (lambda h, n: h.softmax(0), "softmax", "the size of axis 0 of operand 1 differs (2, 3, 4, ...): "),
    "a constant": (lambda h, n: h[:2].clamp(min=n / 8), "clamp", "differs (0.0, 0.125, 0.25, ...): pass the number"),
    "a weight": (lambda h, n: h[:2] @ WEIGHTS[n], "matmul", "each has weights of its own: stack the weights"),
    "a shape": (lambda h, n: h.view(1, *[1] * n, -1).amax(-1), "amax", "the shape of operand 1 differs"),
}


def report_of(program: Any) -> Any:
    gluonjit.clear_caches()
    net = gluonjit.hybridize(Net(program), dynamic_batch=True, granularity="op")
    with gluonjit.batching(without=("arity",)) as batch:  # else those of other lengths run together
        results = [net(number) for number in range(5)]
    assert len(results) == 5
    return batch.report


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_difference_is_named(name: str) -> None:
    program, operator, said = PROGRAMS[name]
    report = report_of(program)
    assert said in report.apart[operator], report.apart
    assert f"apart: {operator}: 5 kinds, as" in str(report)


def test_a_few_kinds_and_those_that_run_together_need_no_reason() -> None:
    assert report_of(lambda h, n: h.tanh() * 2).apart == {}
    assert report_of(lambda h, n: h[:2].clamp(min=n % 3)).apart == {}
