"""Running a case of one of PyTorch's rules batched and sample by sample, and comparing values and gradients."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch_rule_cases import CASES, Arg, Case
from torch_support import assert_near

from gluonjit.engines.torch.framework.arrays import name_of_device, name_of_dtype
from gluonjit.engines.torch.operators.binding import Writer, operator_named
from gluonjit.engines.torch.operators.examples import Examples
from gluonjit.engines.torch.operators.table import batch_op
from gluonjit.engines.torch.run.program import stored
from gluonjit.program.axes.values import ROWS, NotBatchable, Values

seed = torch.default_generator.manual_seed
"""What `torch.manual_seed` does on the host; for devices that are not there yet it keeps a traceback, a millisecond."""

NAMES = {op: [each.name for each in operator_named(op)._schema.arguments] for op in {test.op for test in CASES}}
"""The arguments of operators; read here, as a module that reads a schema while it runs is no node."""


def arguments(test: Case) -> list[Arg]:
    """The tensors of a case, in their order."""
    return [part for value in (*test.args, *test.kwargs.values()) for part in _parts(value) if isinstance(part, Arg)]


def _parts(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def with_tensors(test: Case, tensors: Sequence[Any], listed: type) -> dict[str, Any]:
    """The arguments by name, with these in the place of tensors; a list of them is of this type."""
    left = iter(tensors)

    def placed(value: Any) -> Any:
        if isinstance(value, list):
            return listed([placed(item) for item in value])
        return next(left) if isinstance(value, Arg) else value

    return {
        **dict(zip(NAMES[test.op], map(placed, test.args))),
        **{name: placed(value) for name, value in test.kwargs.items()},
    }


def run_one(test: Case, tensors: Sequence[Any]) -> list[Any]:
    """The operator on one sample."""
    given = with_tensors(test, tensors, list)
    layer = test.op.removesuffix(".input")  # the operator itself is taken apart before it can be seen
    found = operator_named(test.op)(**given) if layer == test.op else getattr(torch._VF, layer)(*given.values())
    return list(found) if isinstance(found, (list, tuple)) else [found]


def draw(test: Case, count: int, rows: Sequence[int] | None = None) -> list[list[Any]]:
    """The tensors of some samples; `rows` says how many rows those of each have."""
    seed(0)
    args = arguments(test)
    shared = {number: arg.draw() for number, arg in enumerate(args) if arg.shared}
    return [
        [shared[n] if arg.shared else arg.draw(rows and rows[sample]) for n, arg in enumerate(args)]
        for sample in range(count)
    ]


def layouts_of(test: Case) -> list[tuple[str, ...]]:
    """Ways in which operands may lie, for any number of rows aside: all alike, and one that is mixed."""
    ways = [("shared",) if arg.shared else ("stack", "rows") if arg.shape else ("stack",) for arg in arguments(test)]
    found = list(itertools.product(*ways))
    return found if len(found) <= 2 else [found[0], found[1], found[-1]]


def _val(slot: int, arg: Arg, layout: str) -> Values:
    shape = arg.shape
    lead, rest = {
        "shared": (None, shape),
        "stack": (1, shape),
        "rows": (shape[0] if shape else 1, shape[1:]),
        "any": (ROWS, shape[1:]),
    }[layout]
    return Values(slot, shape, arg.dtype, lead, rest)


class Program:
    """The batched program of a case, for operands that lie in these ways. Raises NotBatchable."""

    def __init__(self, test: Case, layouts: Sequence[str], sample: Sequence[Any]) -> None:
        args = arguments(test)
        outputs = [(tuple(one.shape), name_of_dtype(one.dtype)) for one in run_one(test, sample)]
        used = [test.compared is None or number < test.compared for number in range(len(outputs))]
        vals = [_val(slot, arg, layout) for slot, (arg, layout) in enumerate(zip(args, layouts))]
        examples = Examples(name_of_device(sample[0].device), [size for arg in args for size in arg.shape])
        examples.operator = test.op
        for val, tensor in zip(vals, sample):
            examples.add(val, tensor if val.shared else None)
        self._writer = Writer(len(args), examples.run)
        self._writer.device = name_of_device(sample[0].device)
        with torch.no_grad():
            found = batch_op(test.op, with_tensors(test, vals, tuple), outputs, self._writer)
            examples.check(found, outputs, used)
            self.results = [self._kept(val) for val, wanted in zip(found, used) if wanted]

    def _kept(self, val: Values) -> Values:
        """A result as it is stored; of any number of rows, row by row."""
        if val.lead == ROWS:
            return self._writer.form(val, ROWS, val.shape[1:])
        return stored(val, self._writer)

    def __call__(self, operands: Sequence[Any], count: int) -> list[Any]:
        slots = dict(enumerate(operands))
        for step in self._writer.code:
            counts = [eval(step.counts, {"count": count})] if step.counts else []
            made = step.function(*counts, *[slots[slot] for slot in step.inputs])
            slots.update(zip(step.outputs, made if len(step.outputs) > 1 else (made,)))
        return [slots[val.slot] for val in self.results]


def _joined(tensors: Sequence[Any], layout: str) -> Any:
    """The tensors of all samples as they lie; gradients go on to each."""
    if layout == "shared":
        return tensors[0]
    return torch.stack(list(tensors)) if layout == "stack" else torch.cat(list(tensors))


def run_program(test: Case, layouts: Sequence[str], samples: list[list[Any]]) -> list[Any]:
    """The results of all samples by one program, on their device."""
    return _run(test, layouts, samples, samples[0])[1]


def _run(test: Case, layouts: Sequence[str], samples: list[list[Any]], shown: list[Any]) -> tuple[Program, list[Any]]:
    program = Program(test, layouts, shown)
    operands = [_joined([sample[n] for sample in samples], layout) for n, layout in enumerate(layouts)]
    return program, program(operands, len(samples))


def check(test: Case, layouts: Sequence[str], samples: list[list[Any]], shown: list[Any] | None = None) -> None:
    """Values and gradients of the program, made from the sample that is shown, are those of each sample."""
    args = arguments(test)
    floats = [
        one
        for sample in samples
        for arg, one in zip(args, sample)
        if arg.learnt and one.is_floating_point() and test.grad
    ]
    learnt = [one.requires_grad_() for one in {id(one): one for one in floats}.values() if not test.drawn]
    program, found = _run(test, layouts, samples, shown or samples[0])
    alone = [run_one(test, sample)[: test.compared] for sample in samples]
    any_rows = [val.lead == ROWS for val in program.results]
    wanted = [torch.cat([one[k] if wide else _rows(one[k]) for one in alone]) for k, wide in enumerate(any_rows)]
    assert len(args) == len(layouts) and len(found) == len(alone[0])
    for number, (actual, expected) in enumerate(zip(found, wanted)):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), (number, actual.shape, expected.shape)
        if not test.drawn:
            assert_near(actual, expected, rtol=1e-5, atol=1e-5, equal_nan=True)
    for number, (actual, expected) in enumerate(zip(_gradients(found, learnt), _gradients(wanted, learnt))):
        assert (actual is None) == (expected is None), f"gradient {number}: {actual} instead of {expected}"
        if expected is not None:
            assert_near(_dense(actual), _dense(expected), rtol=1e-4, atol=1e-5, equal_nan=True)


def _rows(tensor: Any) -> Any:
    """A result as it is kept: see `stored`."""
    return tensor if tensor.dim() > 1 or tuple(tensor.shape) == (1,) else tensor.unsqueeze(0)


def _dense(gradient: Any) -> Any:
    return gradient.to_dense() if gradient.is_sparse else gradient


def _gradients(results: Sequence[Any], learnt: Sequence[Any]) -> list[Any]:
    """Of the sum of all results, each element times a number of its own."""
    seed(1)
    total = sum((one * torch.rand(one.shape)).sum() for one in results if one.requires_grad)
    if not learnt or not isinstance(total, torch.Tensor):
        return [None] * len(learnt)
    return list(torch.autograd.grad(total, list(learnt), allow_unused=True))


def refused(test: Case) -> str:
    """Why a case is refused, or nothing."""
    layouts = ["shared" if arg.shared else "rows" if arg.shape else "stack" for arg in arguments(test)]
    try:
        Program(test, layouts, draw(test, 1)[0])
    except NotBatchable as error:
        return str(error)
    return ""
