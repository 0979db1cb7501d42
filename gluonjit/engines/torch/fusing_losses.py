"""Instructions of ATen operators that compute losses, or pick entries by integers; see `fusing_operators`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from gluonjit.engines.torch.fusing_values import Anything, Args, IntegerColumn, RowMatrix, Rule, Shapes, rows_in
from gluonjit.rows.program import Builder, NotFusable, View


def _picked(a: Anything, number: Anything, builder: Builder) -> View:
    """The entry of a row that an integer says."""
    a = rows_in(a)
    if a.lead or not isinstance(number, IntegerColumn) or a.shape[-1:] != (prod(a.shape),):
        raise NotFusable("entries of several rows")
    return builder.pick(a.view, number.view, number.operand)


def _index_select(builder: Builder, args: Args, shapes: Shapes) -> Anything:
    a = rows_in(args["self"])
    if len(a.shape) != 1:
        raise NotFusable("rows by number")
    return RowMatrix(_picked(a, args["index"], builder), shapes[0])


def _nll_loss(builder: Builder, args: Args, shapes: Shapes) -> list[Anything]:
    """The loss of one row, which its mean and its sum are, too; not the weight that it is divided by."""
    if args.get("weight") is not None:
        raise NotFusable("a loss with weights")
    picked = _picked(args["self"], args["target"], builder)
    return [RowMatrix(builder.emit("NEG", picked), shapes[0]), None]


def _loss(entries: Callable[[Builder, Args, View, View], View]) -> Rule:
    """A loss of each entry, and their mean (1, which is not told) or sum (2), or all of them (0)."""

    def emit(builder: Builder, args: Args, shapes: Shapes) -> Anything:
        a, b = rows_in(args["self"]), rows_in(args["target"])
        reduction = args.get("reduction", 1)
        if a.shape != b.shape or a.lead != b.lead or (a.lead and reduction):
            raise NotFusable("a loss over rows")
        view = entries(builder, args, a.view, b.view)
        return RowMatrix(builder.total(view, reduction == 1) if reduction else view, shapes[0], a.lead)

    return emit


def _squared_error(builder: Builder, args: Args, a: View, b: View) -> View:
    return builder.emit("SQUARE", builder.emit("SUB", a, b))


def _linear_from(limit: str, scaled: bool) -> Callable[[Builder, Args, View, View], View]:
    """The square of a difference up to a limit, and linear from there on: of the smaller of both, m, and the rest."""

    def entries(builder: Builder, args: Args, a: View, b: View) -> View:
        at = float(args.get(limit, 1.0))
        if at <= 0.0:
            raise NotFusable(f"{limit} of {at}")
        apart = builder.emit("ABS", builder.emit("SUB", a, b))
        near = builder.emit("MINS", apart, number=at)
        square = builder.with_number("MUL", builder.emit("SQUARE", near), 0.5 / at if scaled else 0.5)
        rest = builder.emit("SUB", apart, near)
        return builder.emit("ADD", square, rest if scaled else builder.with_number("MUL", rest, at))

    return entries


def _log_likelihood(builder: Builder, args: Args, a: View, b: View) -> View:
    """(1 - b) a + log(1 + exp(-a)), the loss of a number before the sigmoid."""
    if args.get("weight") is not None or args.get("pos_weight") is not None:
        raise NotFusable("a loss with weights")
    rest = builder.emit("MUL", builder.with_number("RSUB", b, 1.0), a)
    return builder.emit("ADD", rest, builder.emit("SOFTRELU", builder.emit("NEG", a)))


def _log_sigmoid(builder: Builder, args: Args, shapes: Shapes) -> list[Anything]:
    a = rows_in(args["self"])
    view = builder.emit("NEG", builder.emit("SOFTRELU", builder.emit("NEG", a.view)))
    return [a._replace(view=view), None]


LOSSES: dict[str, Rule] = {
    "index_select.default": _index_select,
    "nll_loss_forward.default": _nll_loss,
    "mse_loss.default": _loss(_squared_error),
    "smooth_l1_loss.default": _loss(_linear_from("beta", True)),
    "huber_loss.default": _loss(_linear_from("delta", False)),
    "binary_cross_entropy_with_logits.default": _loss(_log_likelihood),
    "log_sigmoid_forward.default": _log_sigmoid,
}
