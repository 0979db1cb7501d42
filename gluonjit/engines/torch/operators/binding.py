"""Operators of ATen by name, as instructions of batched programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, reduce
from typing import Any, ClassVar

import torch

from gluonjit.engines.torch.framework.arrays import dtype_named
from gluonjit.engines.torch.operators import moving
from gluonjit.program.axes import writer
from gluonjit.program.axes.row import SUM
from gluonjit.program.axes.values import Operand

RANDOM = torch.Tag.nondeterministic_seeded
_SPACES = [torch._C._VariableFunctions, *[getattr(torch._C, f"_{name}") for name in "nn linalg special fft".split()]]
_operators: dict[str, Any] = {}


def operator_named(name: str) -> Any:
    """The operator of ATen of a name with its overload."""
    found = _operators.get(name)
    if found is None:
        space, _, rest = ("aten." + name if not name.startswith("prim") else name).partition(".")
        base, _, overload = rest.partition(".")
        found = _operators[name] = getattr(getattr(getattr(torch.ops, space), base), overload)
    return found


@cache
def may_draw(name: str) -> bool:
    """True if an operator may draw at random."""
    return RANDOM in operator_named(name).tags


def draws(func: Any, args: Mapping[str, Any]) -> bool:
    """True if a call of an operator draws at random: not a recurrent layer that drops nothing."""
    return RANDOM in func.tags and bool(args.get("dropout", True))


class Writer(writer.Writer):
    """Writes programs of ATen's operators, for tensors on a device."""

    device = "cpu"

    def bound(self, name: str, attrs: Mapping[str, Any], outputs: int) -> tuple[Callable[..., Any], str]:
        """An operator of ATen as a function of its tensors, and the text of its instruction."""
        func = operator_named(name)
        schema = func._schema
        lists = bool(schema.returns) and str(schema.returns[0].type) == "List[Tensor]"
        template = {key: list(value) if isinstance(value, tuple) else value for key, value in attrs.items()}
        bound = _bound(func, schema.arguments, template)
        text = f"{func}{template!r}"
        return (_first_of(bound), f"{text}[0]") if outputs == 1 and lists else (bound, text)

    def of_arrays(self, name: str, key: str) -> str:
        """The operator of arithmetic that takes a tensor where this one takes a number. Raises NotBatchable."""
        base = name.partition(".")[0]
        if key != "other" or base not in ("add", "sub", "mul", "div"):
            return super().of_arrays(name, key)
        return f"{base}.Tensor"

    prims: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "reshape": lambda tensor, rest: tensor.reshape(-1, *rest),
        "shape": lambda tensor, shape: tensor.reshape(shape),
        "permute": lambda tensor, order: tensor.permute(order),
        "expand": lambda tensor, count, shape: tensor.expand(count, *shape),
        "widen": lambda tensor, shape: tensor.expand(-1, *shape),
        "matrices": lambda one, other, many: torch.bmm(one, other) if many else torch.mm(one, other),
        "take": moving.take,
        "put": moving.put,
        "pick": lambda tensor, places: tensor.index_select(0, places),
        "among": moving.among,
        "spread": moving.spread,
        "fill": lambda tensor, hole, number: tensor.masked_fill(hole, number),
        "begin": lambda tensor, axis, size: tensor.narrow(axis, 0, size),
        "each row": lambda masks, rows, rest: masks.reshape(-1, 1, *rest).expand(-1, rows, *rest).reshape(-1, *rest),
        "pad": lambda tensor, margins, value: torch.nn.functional.pad(
            tensor, [size for before, now, then in margins for size in (before, then - now - before)], value=value
        ),
        "rows": lambda *tensors: torch.cat(tensors),
        "divide": torch.div,
        "add": torch.add,
        "total": lambda *tensors: reduce(torch.add, tensors),
        "segments": lambda tensor, owners, count, how: _segments(tensor, owners, count, how),
        "scale": torch.mul,
        "cast": lambda tensor, dtype: tensor.to(dtype_named(dtype)),
    }


def _segments(tensor: Any, owners: Any, count: int, how: str) -> Any:
    """The sum of the rows of each owner, or their mean, or the largest or smallest entries."""
    found = tensor.new_zeros((count, *tensor.shape[1:]))
    if how == SUM:
        return found.index_add(0, owners, tensor)
    places = owners.view(-1, *(1,) * (tensor.dim() - 1)).expand_as(tensor)
    return found.scatter_reduce(0, places, tensor, how, include_self=False)


def _first_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *tensors: function(*tensors)[0]


@cache
def _quick(func: Any) -> Any:
    """The function of torch that takes what an operator of ATen does, in less time; itself where there is none."""
    name = func._schema.name.removeprefix("aten::")
    if any("Optional[Tensor]]" in str(argument.type) for argument in func._schema.arguments):  # lists with None in them
        return func
    return next((found for space in _SPACES if (found := getattr(space, name, None)) is not None), func)


def _bound(func: Any, arguments: Sequence[Any], template: Mapping[str, Any]) -> Callable[..., Any]:
    """The operator as a function of its tensors alone."""
    given = dict(template)
    listed = []
    for argument in arguments:  # functions of torch have another name for `self`
        if argument.kwarg_only or argument.name not in given:
            break
        listed.append(given.pop(argument.name))
    function = func if "self" in given else _quick(func)
    count = sum([value.__class__ is Operand for value in listed])
    if not _has_operands(given.values()) and listed[:count] == [*range(count)] and not _has_operands(listed[count:]):
        if not given and count == len(listed):
            return function  # type: ignore[no-any-return]
        rest = listed[count:]
        return lambda *tensors: function(*tensors, *rest, **given)

    def call(*tensors: Any) -> Any:
        named = {name: _given(value, tensors) for name, value in given.items()}
        return function(*[_given(value, tensors) for value in listed], **named)

    return call


def _given(value: Any, tensors: Sequence[Any]) -> Any:
    """An argument with tensors in the place of operands."""
    if value.__class__ is list:
        return [_given(item, tensors) for item in value]
    return tensors[value] if value.__class__ is Operand else value


def _has_operands(values: Iterable[Any]) -> bool:
    """True if tensors are given in the place of one of these, or in a list."""
    return any([value.__class__ is Operand or (value.__class__ is list and _has_operands(value)) for value in values])
