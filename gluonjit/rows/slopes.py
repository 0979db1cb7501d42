"""Slopes: for each instruction what it adds to its operands' gradients, in other instructions."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

Form = Optional[tuple[Any, ...]]
"""An instruction by its `op` and its operands `a` and `b`, number and constant, as far as there are any; each is
another form, a number, or a name: of what the instruction has (`a`, `b`, `number`, `weight`), of its result (`y`) or of
the gradient of that (`dy`). Empty for a gradient of 0, None if there is no rule."""


class Slope(NamedTuple):
    """The gradients of the operands, and of a constant row whose gradient is the sum of this over all rows."""

    a: Form
    b: Form = None
    weight: Any = None


_COPY, _NEG, _TIMES_A = ("COPY", "dy"), ("NEG", "dy"), ("MUL", "dy", "a")
_OVER_A = Slope(("NEG", ("DIV", ("MUL", "dy", "y"), "a")))  # of 1/a, or of x/a

CONSTANT = frozenset({"FILL", "SIGN", "GE", "LT", "WHOLE", "ARGMAX"})
"""Instructions whose result changes with no operand."""

RULES: dict[str, Slope] = {
    **dict.fromkeys(CONSTANT, Slope((), ())),
    **dict.fromkeys(("COPY", "ADDS"), Slope(_COPY)),
    **dict.fromkeys(("NEG", "RSUBS"), Slope(_NEG)),
    **{op: Slope((f"D{op}", "dy", "y")) for op in ("SIGMOID", "TANH", "RELU", "LOGSOFTMAX", "SOFTMAX")},
    **{op: Slope((f"D{op}", ("COPY", "dy"), "y")) for op in ("SEGLOGSOFTMAX", "SEGSOFTMAX")},
    "POSITIVE": Slope(("DRELU", "dy", "y")),
    "SPREAD": Slope(("SEGSUM", "dy")),
    "SEGSUM": Slope(("SPREAD", "dy")),
    "EXP": Slope(("MUL", "dy", "y")),
    "LOG": Slope(("DIV", "dy", "a")),
    "SQRT": Slope(("MULS", ("DIV", "dy", "y"), None, 0.5)),
    "SQUARE": Slope(("MULS", ("MUL", "dy", "a"), None, 2.0)),
    "ABS": Slope(("MUL", "dy", ("SIGN", "a"))),
    "SOFTRELU": Slope(("MUL", "dy", ("SIGMOID", "a"))),
    "RECIPROCAL": _OVER_A,
    "RDIVS": _OVER_A,
    "ADD": Slope(_COPY, _COPY),
    "SUB": Slope(_COPY, _NEG),
    "MUL": Slope(("MUL", "dy", "b"), _TIMES_A),
    "DIV": Slope(("DIV", "dy", "b"), ("NEG", ("DIV", ("MUL", "dy", "y"), "b"))),
    "XLOGY": Slope(None, ("DIV", _TIMES_A, "b")),
    "MAX": Slope(("DRELU", "dy", ("GE", "a", "b")), ("DRELU", "dy", ("LT", "a", "b"))),
    "MIN": Slope(("DRELU", "dy", ("GE", "b", "a")), ("DRELU", "dy", ("LT", "b", "a"))),
    "MULS": Slope(("MULS", "dy", None, "number")),
    "MAXS": Slope(("DRELU", "dy", ("GE", "a", "y"))),
    "MINS": Slope(("DRELU", "dy", ("GE", "y", "a"))),
    "ADDV": Slope(_COPY, weight="dy"),
    "SUBV": Slope(_COPY, weight=_NEG),
    "MULV": Slope(("MULV", "dy", None, 0.0, "weight"), weight=_TIMES_A),
    "SUMW": Slope(("BCASTW", "dy")),
    "BCASTW": Slope(("SUMW", "dy")),
    "ADDW": Slope(_COPY, ("SUMW", "dy")),
    "SUBW": Slope(_COPY, ("SUMW", _NEG)),
    "MULW": Slope(("MULW", "dy", "b"), ("SUMW", _TIMES_A)),
    "DIVW": Slope(("DIVW", "dy", "b"), ("NEG", ("DIV", ("SUMW", ("MUL", "dy", "y")), "b"))),
    "PICK": Slope(("DPICK", "dy", "b"), ()),
    "LOGSUMEXP": Slope(("MULW", ("EXP", ("SUBW", "a", "y")), "dy")),
}
"""By instruction; but for GEMM, in `derivative`."""
