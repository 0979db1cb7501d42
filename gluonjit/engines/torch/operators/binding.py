"""Operators of ATen by name, as instructions of batched programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from typing import Any, ClassVar

import torch

from gluonjit.engines.torch.framework.arrays import dtype_named
from gluonjit.engines.torch.operators import moving
from gluonjit.program.axes import writer
from gluonjit.program.axes.row import SUM
from gluonjit.program.axes.values import Operand

RANDOM = torch.Tag.nondeterministic_seeded
FAST: dict[Any, Callable[..., Any]] = {}
"""Functions of torch that do the same as an operator of ATen in less time, for tensors alone."""

for _name in "add sub mul div sigmoid tanh relu exp abs clone detach t mm addmm bmm".split():
    _operator = getattr(torch.ops.aten, _name)
    FAST[_operator.Tensor if _name in ("add", "sub", "mul", "div") else _operator.default] = getattr(torch, _name)

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
        arguments, lists = _schema_of(func)
        template = {key: list(value) if isinstance(value, tuple) else value for key, value in attrs.items()}
        bound = _bound(func, arguments, template)
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
def _schema_of(func: Any) -> tuple[list[str], bool]:
    """The names of the arguments of an operator of ATen, and whether it gives a list."""
    schema = func._schema
    lists = bool(schema.returns) and str(schema.returns[0].type) == "List[Tensor]"
    return [argument.name for argument in schema.arguments], lists


def _bound(func: Any, arguments: Sequence[str], template: Mapping[str, Any]) -> Callable[..., Any]:
    """The operator as a function of its tensors alone."""
    plain = list(template.values())
    first = list(template) == arguments[: len(plain)]
    if first and all(value.__class__ is Operand and value == k for k, value in enumerate(plain)):
        return FAST.get(func, func)  # type: ignore[no-any-return]

    def call(*tensors: Any) -> Any:
        given = {
            name: tensors[value]
            if value.__class__ is Operand
            else [tensors[item] if item.__class__ is Operand else item for item in value]
            if value.__class__ is list
            else value
            for name, value in template.items()
        }
        return func(**given)

    return call
