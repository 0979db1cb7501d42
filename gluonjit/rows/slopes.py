"""Slopes: a rule for each instruction, which adds to its operands' gradients from the gradient of its result, `dy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gluonjit.rows.program import Instr, NotFusable, View, Weight


class Deriving(Protocol):
    """The means of a rule: see `gluonjit.rows.derivative`."""

    code: list[Instr]

    def temporary(self, op: str, a: View, b: View | None = None, width: int | None = None, number: float = 0.0) -> View:
        """The result of an instruction."""

    def wants(self, view: View | None) -> bool:
        """Tells whether the gradient of an operand of an instruction is needed."""

    def learns(self, weight: Weight | None) -> bool:
        """Tells whether the gradient of a constant is needed."""

    def add(self, target: View | None, instr: Instr) -> None:
        """Adds the result of an instruction (without `out`) to the gradient of a view, if that is needed."""


Rule = Callable[[Deriving, Instr, View], None]


def _product(to: Deriving, instr: Instr, dy: View) -> None:
    weight, a = instr.weight, instr.a
    assert weight is not None and a is not None
    to.add(a, Instr("GEMM", a=dy, weight=weight, turned=not instr.turned))
    if to.learns(weight):
        to.code.append(Instr("GEMM_DW", a=a if instr.turned else dy, b=dy if instr.turned else a, weight=weight))
    if to.learns(instr.bias):
        to.code.append(Instr("COLSUM", a=dy, weight=instr.bias))


def _by_output(op: str) -> Rule:
    def rule(to: Deriving, instr: Instr, dy: View) -> None:
        to.add(instr.a, Instr(op, a=dy, b=instr.out))

    return rule


def _by_input(op: str) -> Rule:
    def rule(to: Deriving, instr: Instr, dy: View) -> None:
        to.add(instr.a, Instr(op, a=dy, b=instr.a))

    return rule


def _passed(op: str = "COPY") -> Rule:
    def rule(to: Deriving, instr: Instr, dy: View) -> None:
        to.add(instr.a, Instr(op, a=dy))

    return rule


def _scaled_input(factor: str) -> Rule:
    """dy times a function of the operand."""

    def rule(to: Deriving, instr: Instr, dy: View) -> None:
        if to.wants(instr.a):
            assert instr.a is not None
            to.add(instr.a, Instr("MUL", a=dy, b=to.temporary(factor, instr.a)))

    return rule


def _sqrt(to: Deriving, instr: Instr, dy: View) -> None:
    assert instr.out is not None
    if to.wants(instr.a):
        to.add(instr.a, Instr("MULS", a=to.temporary("DIV", dy, instr.out), number=0.5))


def _square(to: Deriving, instr: Instr, dy: View) -> None:
    if to.wants(instr.a):
        to.add(instr.a, Instr("MULS", a=to.temporary("MUL", dy, instr.a), number=2.0))


def _reciprocal(to: Deriving, instr: Instr, dy: View) -> None:
    """1/a or x/a: -dy y / a."""
    if to.wants(instr.a):
        to.add(instr.a, Instr("NEG", a=to.temporary("DIV", to.temporary("MUL", dy, instr.out), instr.a)))


def _add(to: Deriving, instr: Instr, dy: View) -> None:
    to.add(instr.a, Instr("COPY", a=dy))
    to.add(instr.b, Instr("COPY", a=dy))


def _subtract(to: Deriving, instr: Instr, dy: View) -> None:
    to.add(instr.a, Instr("COPY", a=dy))
    to.add(instr.b, Instr("NEG", a=dy))


def _multiply(to: Deriving, instr: Instr, dy: View) -> None:
    to.add(instr.a, Instr("MUL", a=dy, b=instr.b))
    to.add(instr.b, Instr("MUL", a=dy, b=instr.a))


def _divide(to: Deriving, instr: Instr, dy: View) -> None:
    to.add(instr.a, Instr("DIV", a=dy, b=instr.b))
    if to.wants(instr.b):
        to.add(instr.b, Instr("NEG", a=to.temporary("DIV", to.temporary("MUL", dy, instr.out), instr.b)))


def _x_log_y(to: Deriving, instr: Instr, dy: View) -> None:
    if to.wants(instr.a):
        raise NotFusable("XLOGY has no derivative by its first operand")
    if to.wants(instr.b):
        to.add(instr.b, Instr("DIV", a=to.temporary("MUL", dy, instr.a), b=instr.b))


def _chosen(first: str, other: str, swapped: bool) -> Rule:
    """Passes the gradient where a comparison of the two operands holds, `other` being its opposite."""

    def rule(to: Deriving, instr: Instr, dy: View) -> None:
        a, b = (instr.b, instr.a) if swapped else (instr.a, instr.b)
        assert a is not None
        for target, comparison in ((instr.a, first), (instr.b, other)):
            if to.wants(target):
                to.add(target, Instr("DRELU", a=dy, b=to.temporary(comparison, a, b)))

    return rule


def _limited(above: bool) -> Rule:
    """Passes the gradient where the operand lies on its side of the number, or on it."""

    def rule(to: Deriving, instr: Instr, dy: View) -> None:
        if to.wants(instr.a):
            assert instr.a is not None and instr.out is not None
            first, second = (instr.out, instr.a) if above else (instr.a, instr.out)
            to.add(instr.a, Instr("DRELU", a=dy, b=to.temporary("GE", first, second)))

    return rule


def _added_row(sign: str) -> Rule:
    """A constant row added or subtracted: `sign` is COPY or NEG."""

    def rule(to: Deriving, instr: Instr, dy: View) -> None:
        to.add(instr.a, Instr("COPY", a=dy))
        if to.learns(instr.weight):
            to.code.append(Instr("COLSUM", a=dy if sign == "COPY" else to.temporary(sign, dy), weight=instr.weight))

    return rule


def _multiplied_row(to: Deriving, instr: Instr, dy: View) -> None:
    to.add(instr.a, Instr("MULV", a=dy, weight=instr.weight))
    if to.learns(instr.weight):
        to.code.append(Instr("COLSUM", a=to.temporary("MUL", dy, instr.a), weight=instr.weight))


def _by_column(op: str) -> Rule:
    """ADDW, SUBW: b is one column for all of a's."""

    def rule(to: Deriving, instr: Instr, dy: View) -> None:
        to.add(instr.a, Instr("COPY", a=dy))
        if to.wants(instr.b):
            total = Instr("SUMW", a=dy if op == "ADDW" else to.temporary("NEG", dy))
            to.add(instr.b, total)

    return rule


def _times_column(to: Deriving, instr: Instr, dy: View) -> None:
    to.add(instr.a, Instr("MULW", a=dy, b=instr.b))
    if to.wants(instr.b):
        to.add(instr.b, Instr("SUMW", a=to.temporary("MUL", dy, instr.a)))


def _over_column(to: Deriving, instr: Instr, dy: View) -> None:
    to.add(instr.a, Instr("DIVW", a=dy, b=instr.b))
    if to.wants(instr.b):
        assert instr.b is not None
        total = to.temporary("SUMW", to.temporary("MUL", dy, instr.out), width=1)
        to.add(instr.b, Instr("NEG", a=to.temporary("DIV", total, instr.b)))


def _pick(to: Deriving, instr: Instr, dy: View) -> None:
    to.add(instr.a, Instr("DPICK", a=dy, b=instr.b))


def _log_of_sum(to: Deriving, instr: Instr, dy: View) -> None:
    """dy exp(a - y)."""
    if to.wants(instr.a):
        assert instr.a is not None
        to.add(instr.a, Instr("MULW", a=to.temporary("EXP", to.temporary("SUBW", instr.a, instr.out)), b=dy))


def _none(to: Deriving, instr: Instr, dy: View) -> None:
    """The result does not change with the operands."""


def unknown(to: Deriving, instr: Instr, dy: View) -> None:
    """Raises NotFusable for an instruction without a rule."""
    raise NotFusable(f"{instr.op} has no derivative")


CONSTANT = frozenset({"FILL", "SIGN", "GE", "LT", "WHOLE", "ARGMAX"})
"""Instructions whose result changes with no operand."""

RULES: dict[str, Rule] = {
    "GEMM": _product,
    "COPY": _passed(),
    "NEG": _passed("NEG"),
    "SPREAD": _passed("SEGSUM"),
    "SEGSUM": _passed("SPREAD"),
    "SIGMOID": _by_output("DSIGMOID"),
    "TANH": _by_output("DTANH"),
    "RELU": _by_output("DRELU"),
    "POSITIVE": _by_output("DRELU"),
    "EXP": _by_output("MUL"),
    "LOG": _by_input("DIV"),
    "SQRT": _sqrt,
    "SQUARE": _square,
    "ABS": _scaled_input("SIGN"),
    "RECIPROCAL": _reciprocal,
    "SOFTRELU": _scaled_input("SIGMOID"),
    "ADD": _add,
    "SUB": _subtract,
    "MUL": _multiply,
    "DIV": _divide,
    "XLOGY": _x_log_y,
    "MAX": _chosen("GE", "LT", False),
    "MIN": _chosen("GE", "LT", True),
    "ADDS": _passed(),
    "MULS": lambda to, instr, dy: to.add(instr.a, Instr("MULS", a=dy, number=instr.number)),
    "RSUBS": _passed("NEG"),
    "RDIVS": _reciprocal,
    "MAXS": _limited(False),
    "MINS": _limited(True),
    "ADDV": _added_row("COPY"),
    "SUBV": _added_row("NEG"),
    "MULV": _multiplied_row,
    "SUMW": lambda to, instr, dy: to.add(instr.a, Instr("BCASTW", a=dy)),
    "BCASTW": _passed("SUMW"),
    "ADDW": _by_column("ADDW"),
    "SUBW": _by_column("SUBW"),
    "MULW": _times_column,
    "DIVW": _over_column,
    "LOGSOFTMAX": _by_output("DLOGSOFTMAX"),
    "SOFTMAX": _by_output("DSOFTMAX"),
    "PICK": _pick,
    "LOGSUMEXP": _log_of_sum,
    **dict.fromkeys(CONSTANT, _none),
}
"""By instruction."""
