"""PyTorch's OpInfos: the sample inputs of every operator, and errors, as minibatches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch

from experiments.conformance.compare import examine
from experiments.conformance.outcome import CELL, OP, Mode, Outcome, Program, Record
from experiments.conformance.torch_programs import Apply, Net, Sample, internal, is_float, nudged, run, seeded

SAMPLES = 4  # in a minibatch
DTYPES = (torch.float32, torch.float64, torch.complex64, torch.bfloat16, torch.int64, torch.bool)
UNWRITTEN = ("empty", "resize_", "resize_as_", "new_empty")  # memory that nobody has written: only shapes agree
# PyTorch's own gradients of its mean and deviation are wrong, says gradcheck.
LEFT_OUT = ("native_group_norm",)
MOST_ERRORS = 3
_MOST_INPUTS, _MOST_ELEMENTS = 60, 300_000


@cache
def infos() -> dict[str, Any]:
    """All OpInfos by name."""
    database = internal("common_methods_invocations")
    # Random operators would set a seed at each call, and give every sample the same draw.
    database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return {
        info.name + (f".{info.variant_test_name}" if info.variant_test_name else ""): info for info in database.op_db
    }


def check(name: str, each: int, at: Callable[[str], None]) -> Record:
    """Compare an operator, with so many of its sample inputs a dtype."""
    info, record = infos()[name], Record(name)
    supported = info.supported_dtypes("cpu")
    usual = next((dtype for dtype in DTYPES if dtype in supported), None)
    for dtype in DTYPES:
        if dtype in supported:
            try:
                groups = list(_groups(info, dtype, each if dtype is usual else 1))
            except Exception as error:
                record.skipped.append(f"sample inputs of {dtype}: {error!r}"[:200])
                continue
            for program in _programs(info, dtype, groups, dtype is usual):
                examine(record, program, at)
    for program in _errors(info, record):
        examine(record, program, at)
    return record


def _learns(info: Any, dtype: Any) -> bool:
    learning = info.supported_backward_dtypes("cpu") if info.supports_autograd else ()
    return dtype in learning and (dtype.is_floating_point or dtype.is_complex)


def _groups(info: Any, dtype: Any, limit: int) -> Iterator[tuple[int, list[Sample], Any]]:
    """Numbers of sample inputs, spread over all, and each as a minibatch of one shape with different numbers."""
    rows = []
    for seed in range(1, SAMPLES + 1):
        seeded(seed)
        made = info.sample_inputs("cpu", dtype, requires_grad=_learns(info, dtype), set_seed=False)
        rows.append(list(itertools.islice(made, _MOST_INPUTS)))
    count = min(map(len, rows))
    for place in sorted({min(count - 1, round((k + 0.6) * count / limit)) for k in range(limit if count else 0)}):
        inputs = [row[place] for row in rows]
        samples = [Sample((s.input, *s.args), s.kwargs, s.output_process_fn_grad) for s in inputs]
        first = samples[0]
        samples = [s if s.form() == first.form() else _scaled(first, 1 - 0.02 * k) for k, s in enumerate(samples)]
        if sum(x.numel() for x in first.tensors()) < _MOST_ELEMENTS:
            yield place, samples, inputs[0]


def _scaled(sample: Sample, factor: float) -> Sample:
    def one(x: Any) -> Any:
        if not x.is_floating_point() or x.layout is not torch.strided:
            return x
        return (x.detach() * factor).requires_grad_(x.requires_grad)

    return sample.map(one)


def _programs(info: Any, dtype: Any, groups: list[tuple[int, list[Sample], Any]], usual: bool) -> Iterator[Program]:
    """The minibatches of one dtype: all that is tried of the usual one, the operator itself of the others."""
    values = not any(word in info.name for word in UNWRITTEN)
    learns, tag = _learns(info, dtype), str(dtype)[6:]

    def made(
        label: str,
        function: Any,
        samples: list[Sample],
        train: bool,
        modes: tuple[Mode, ...] = (OP,),
        whole: bool = False,
    ) -> Program:
        return minibatch(f"{tag} {label}", function, dtype, samples, train, modes, whole, values)

    for place, samples, _ in groups:
        samples = samples if usual else samples[:3]
        for train in (True, False) if learns and usual else (learns,):
            yield made(
                f"{place}{'' if train else ' inference'}", info.op, samples, train, (OP, CELL) if usual else (OP,)
            )
    of_numbers = [each for each in groups if any(not is_float(x) for x in each[1][0].tensors())]
    for place, samples, _ in of_numbers[-1:]:
        yield made(f"{place} pending whole numbers", info.op, samples, learns, whole=True)
    if not usual or not groups:
        return
    if len(groups) > 1:
        (p, a, _), (q, b, _) = groups[:2]
        mixed = [a[0], b[0], a[1], b[1], a[2], b[2]]
        yield made(f"{p} and {q}, two shapes", info.op, mixed, learns, (CELL if p % 2 else OP,))
    place, samples, given = groups[len(groups) // 2]
    if isinstance(given.input, torch.Tensor):
        if info.method_variant is not None:
            yield made(f"{place} method", info.method_variant, samples, learns)
        if info.inplace_variant is not None and not given.broadcasts_input:
            yield made(f"{place} in place", InPlace(info.inplace_variant), samples, learns)
    if info.supports_out:
        yield made(f"{place} out=", Out(info.op), samples, False)


def minibatch(
    name: str,
    function: Any,
    dtype: Any,
    samples: list[Sample],
    train: bool,
    modes: tuple[Mode, ...],
    whole: bool = False,
    values: bool = True,
) -> Program:
    """A function on one minibatch."""

    def ran(mode: Mode | None, seed: int, moved: bool) -> Outcome:
        given = [nudged(sample) for sample in samples] if moved else samples
        return run(Net(Apply(function), dtype, whole), [given], train, mode, seed, 0.0)

    return Program(name, ran, modes, values)


def _errors(info: Any, record: Record) -> Iterator[Program]:
    """Inputs that the operator refuses."""
    if info.error_inputs_func is None:
        return
    try:
        inputs = list(itertools.islice(info.error_inputs("cpu"), MOST_ERRORS))
    except Exception as error:
        record.skipped.append(f"error inputs: {error!r}"[:200])
        return
    for number, each in enumerate(inputs):
        given = each.sample_input
        sample = Sample((given.input, *given.args), given.kwargs)
        dtype = given.input.dtype if isinstance(given.input, torch.Tensor) else torch.float32
        yield minibatch(f"error {number}", info.op, dtype, [sample, sample], False, (OP if number % 2 else CELL,))


class InPlace:
    """The in-place variant on a copy; what was written to and a view of it are the result."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        own = x.clone()
        view = own.reshape(-1)
        self.function(own, *args, **kwargs)
        return view * 1, own


class Out:
    """The operator with `out=`, tensors that the sample has made."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            shown = self.function(*args, **kwargs)
            single = isinstance(shown, torch.Tensor)
            out = torch.full_like(shown, 1) if single else tuple(torch.full_like(each, 1) for each in shown)
            self.function(*args, **kwargs, out=out)
        return out
