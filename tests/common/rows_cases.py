"""What the operations of row programs give, in numpy."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import numpy as np
from rows_support import NONE, columns_of, sigmoid, softmax


class Case(NamedTuple):
    """An operation, its operands' columns (0: those of w) and what it gives in numpy."""

    op: str
    function: Callable[..., Any]
    a: int = 0
    b: int = NONE
    out: int = 0
    positive: bool = False
    x: float = 0.0


def pick(a: Any, b: Any) -> Any:
    return a[np.arange(len(a)), columns_of(b, a.shape[1])][:, None]


def by_node(function: Callable[..., Any], first: Any, *columns: Any) -> Any:
    """What a function gives of the entries of each node's children as a row."""
    found = np.zeros(columns[0].shape)
    for begin, end in zip(first, first[1:]):
        if end > begin:
            found[begin:end] = function(*[column[begin:end].T for column in columns]).T
    return found


UNARY = [
    Case("COPY", lambda a: a),
    Case("NEG", lambda a: -a),
    Case("SIGMOID", sigmoid),
    Case("TANH", np.tanh),
    Case("RELU", lambda a: np.maximum(a, 0)),
    Case("POSITIVE", lambda a: np.maximum(a, 0)),
    Case("EXP", np.exp),
    Case("LOG", np.log, positive=True),
    Case("SQRT", np.sqrt, positive=True),
    Case("SQUARE", np.square),
    Case("ABS", np.abs),
    Case("RECIPROCAL", lambda a: 1 / a, positive=True),
    Case("SOFTRELU", lambda a: np.log1p(np.exp(a))),
    Case("SIGN", np.sign),
    Case("ADDS", lambda a: a + 1.5, x=1.5),
    Case("MULS", lambda a: a * 1.5, x=1.5),
    Case("RSUBS", lambda a: 1.5 - a, x=1.5),
    Case("RDIVS", lambda a: 1.5 / a, x=1.5, positive=True),
    Case("MAXS", lambda a: np.maximum(a, 0.5), x=0.5),
    Case("MINS", lambda a: np.minimum(a, 0.5), x=0.5),
    Case("LOGSOFTMAX", lambda a: np.log(softmax(a))),
    Case("SOFTMAX", softmax),
    Case("SUMW", lambda a: a.sum(1, keepdims=True), out=1),
    Case("LOGSUMEXP", lambda a: np.log(np.exp(a).sum(1, keepdims=True)), out=1),
    Case("ARGMAX", lambda a: a.argmax(1)[:, None], out=1),
]
BINARY = [
    Case("ADD", np.add, b=0),
    Case("SUB", np.subtract, b=0),
    Case("MUL", np.multiply, b=0),
    Case("DIV", np.divide, b=0, positive=True),
    Case("MAX", np.maximum, b=0),
    Case("MIN", np.minimum, b=0),
    Case("GE", np.greater_equal, b=0),
    Case("LT", np.less, b=0),
    Case("XLOGY", lambda a, b: a * np.log(b), b=0, positive=True),
    Case("DSIGMOID", lambda a, b: a * b * (1 - b), b=0),
    Case("DTANH", lambda a, b: a * (1 - b * b), b=0),
    Case("DRELU", lambda a, b: a * (b > 0), b=0),
    Case("DLOGSOFTMAX", lambda a, b: a - np.exp(b) * a.sum(1, keepdims=True), b=0),
    Case("DSOFTMAX", lambda a, b: b * (a - (a * b).sum(1, keepdims=True)), b=0),
    Case("MULW", np.multiply, b=1),
    Case("DIVW", np.divide, b=1, positive=True),
    Case("ADDW", np.add, b=1),
    Case("SUBW", np.subtract, b=1),
    Case("PICK", pick, b=1, out=1),
]
COLUMNS: dict[str, Callable[..., Any]] = {
    "SEGSOFTMAX": softmax,
    "SEGLOGSOFTMAX": lambda a: np.log(softmax(a)),
    "DSEGSOFTMAX": lambda a, b: b * (a - (a * b).sum(1, keepdims=True)),
    "DSEGLOGSOFTMAX": lambda a, b: a - np.exp(b) * a.sum(1, keepdims=True),
}
