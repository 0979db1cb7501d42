"""The table of all rules, and `batch_op`, which applies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import (
    alone,
    axes,
    creation,
    drawing,
    elementwise,
    indexing,
    joining,
    layers,
    linalg,
    linear,
    numpy_arrays,
    numpy_products,
    sequences,
    shapes,
)
from .attributes import Attributes
from .failing import marked
from .rule import OperatorCall, Rule, Spec
from .symbols import canonical
from .values import SHARED, NotBatchable, Shape, Val


def _merge(*tables: Mapping[str, Rule]) -> dict[str, Rule]:
    merged: dict[str, Rule] = {}
    for table in tables:
        twice = merged.keys() & table.keys()
        if twice:
            raise ValueError(f"two rules for {sorted(twice)}")
        merged.update(table)
    return merged


RULES: Mapping[str, Rule] = marked(
    _merge(
        elementwise.RULES,
        axes.RULES,
        shapes.RULES,
        joining.RULES,
        indexing.RULES,
        linear.RULES,
        linalg.RULES,
        layers.RULES,
        sequences.RULES,
        drawing.RULES,
        creation.RULES,
        alone.RULES,
        numpy_arrays.RULES,
        numpy_products.RULES,
    )
)


def batch_op(
    name: str, attrs: Mapping[str, str], inputs: Sequence[Val], outputs: Sequence[Spec], learning: bool = False
) -> list[Val]:
    """Emits operator `name` for all samples at once.

    `outputs` are the shapes and dtypes that one sample's call has. Raises NotBatchable if the call
    has to run for each sample alone.
    """
    rule = _rule(name)
    call = OperatorCall(canonical(name), Attributes(attrs), tuple(inputs), tuple(outputs), learning)
    if any(size <= 0 for shape in _shapes(call) for size in shape):
        raise NotBatchable(f"{name}: zero-size arrays")
    if not call.batched and rule.kind != "constant":
        return _once(call, rule)
    try:
        results = rule.emit(call)
    except ValueError as error:  # attributes that the rule does not understand: the operator itself may
        raise NotBatchable(f"{name}: {error}") from error
    _verify(call, results)
    return results


def _rule(name: str) -> Rule:
    try:
        return RULES[canonical(name)]
    except (KeyError, ValueError):
        raise NotBatchable(f"no rule for operator {name}") from None


def _shapes(call: OperatorCall) -> list[Shape]:
    return [value.shape for value in call.inputs] + [shape for shape, _ in call.outputs]


def _verify(call: OperatorCall, results: Sequence[Val]) -> None:
    """Checks what every rule must satisfy, whatever the operator."""
    if [(value.shape, value.dtype) for value in results] != list(call.outputs):
        raise NotBatchable(f"{call.name}: its rule delivers {results} instead of {call.outputs}")
    numbers = {value.shape[0] for value in (*call.inputs, *results) if value.poly}
    if numbers and (len(numbers) > 1 or not all(value.poly for value in results)):
        raise NotBatchable(f"{call.name}: does not keep the number of rows, which varies")
    deepest = max(len(shape) for shape in _shapes(call))
    if deepest >= _MOST_AXES and not all(value.rows for value in (*call.batched, *results)):
        raise NotBatchable(f"{call.name}: {deepest} axes and one for the samples are too many for MXNet's kernels")


# Several kernels (slice, broadcast, reductions) take five axes at most, and only say so when they run.
_MOST_AXES = 5


def _once(call: OperatorCall, rule: Rule) -> list[Val]:
    """Inputs equal for all samples give outputs equal for all, unless something else has a say."""
    if rule.draws(call.attrs):
        raise NotBatchable(f"{call.name}: draws for each sample, but does not know how many there are")
    if rule.stateful or rule.kind == "alone":
        raise NotBatchable(f"{call.name}: {rule.reason or 'has effects beyond its outputs'}")
    if any(not shape for shape, _ in call.outputs) or any(not value.ndim for value in call.inputs):
        raise NotBatchable(f"{call.name}: a value without axes, the same for all samples")
    return call.deliver(call.same([value.sym for value in call.inputs]), SHARED)
