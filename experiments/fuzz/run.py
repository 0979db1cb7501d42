"""A program of one sample while it is written and run: every instruction becomes a line of Python.

An instruction is the name of an operation and three small numbers. The operation chooses its operands among the
existing arrays, and its attributes, by these numbers modulo the number of possibilities. So every list of instructions
is valid for every sample, and dropping any of them leaves a program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from types import CodeType
from typing import Any, NamedTuple, Protocol

WIDTH = 3  # columns of the arrays that cells take
WORDS = 7
MOST = 48  # elements of an array
AXES = 4
FLOATS = ("float16", "float32", "float64")


class Step(NamedTuple):
    """One instruction."""

    op: str
    a: int = 0
    b: int = 0
    c: int = 0


@dataclass(frozen=True)
class Var:
    """An array of the program, as text its name."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return self.name

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of its elements."""
        return prod(self.shape)


def fits(*shape: int) -> bool:
    """True if there is room for an array of this shape."""
    return prod(shape) <= MOST and len(shape) <= AXES


class Spoken(Protocol):
    """The lines of a framework, as a run needs them (`vocabulary.table.Dialect`)."""

    spelling: Any

    def say(self, name: str, a: int, b: int, c: int, values: Mapping[str, Any]) -> str | None:
        """A line of an instruction; None if none has room."""


class Run:
    """A program in the middle of its run. Arrays that were made last are chosen by small numbers.

    `names` are what the text may use: modules, the net, the sample's arrays. `lines` is the text so far.
    """

    def __init__(
        self, names: dict[str, Any], inputs: Sequence[str], tokens: str, dialect: Spoken, dtype: str = "float32"
    ) -> None:
        self.names = names
        self.dialect = dialect
        self.spelling = dialect.spelling
        self.env = [var_of(name, names[name]) for name in inputs]
        self.inputs = len(self.env)
        self.tokens = var_of(tokens, names[tokens])
        self.dtype = dtype  # of the net's weights
        self.lines: list[str] = []
        self.failing = ""  # the text that was run last
        self._made = 0

    def pick(self, k: int, suits: Callable[[Var], bool] = lambda x: True) -> Any:
        """An array that suits, or None. Integers are left to the operations on tokens."""
        found = [x for x in reversed(self.env) if x.dtype in FLOATS and suits(x)]
        return found[k % len(found)] if found else None

    def like(self, x: Var, k: int) -> Var:
        """An array that looks like x: itself at least."""
        found: Var = self.pick(k, lambda y: y.shape == x.shape and y.dtype == x.dtype)
        return found

    def exact(self, k: int) -> Var:
        """An array that was given, not computed: operations that jump may be used on it."""
        return self.env[k % self.inputs]

    def rows(self, k: int) -> Var:
        """A matrix that cells take, from a look-up if there is no other."""
        found: Var | None = self.pick(
            k, lambda x: x.ndim == 2 and x.shape[1] == WIDTH and x.dtype == self.dtype and x.shape[0] <= 8
        )
        return self.do(f"net.embed({self.tokens})")[0] if found is None else found

    def shaped(self, k: int, suits: Callable[[Var], bool] = lambda x: True) -> Any:
        """An array that has an axis and suits, or None."""
        return self.pick(k, lambda x: x.ndim > 0 and suits(x))

    def states(self, k: int) -> Var:
        """Operands of cells: a matrix, or a vector where the framework's cells take it."""
        if not self.spelling.vectors:
            return self.rows(k)
        found: Var | None = self.pick(
            k, lambda x: x.ndim in (1, 2) and x.shape[-1] == WIDTH and x.dtype == self.dtype and x.size <= 24
        )
        return self.rows(k) if found is None else found

    def say(self, instruction: str, a: int, b: int, c: int, **values: Any) -> str | None:
        """A line of an instruction on these values, as the framework spells it."""
        return self.dialect.say(instruction, a, b, c, {"run": self, **values})

    def do(self, code: str) -> list[Var]:
        """Run text and bind the value of its last line, which is empty if there is none, to new names."""
        *before, last = code.split("\n")
        self.failing = code
        if before:
            exec(_compiled("\n".join(before), "exec"), self.names)
        if not last:
            self.lines += before
            return []
        result = eval(_compiled(last, "eval"), self.names)
        made: list[Var] = []
        target = self._bind(result, made)
        self.lines += [*before, f"{target} = {last}"]
        self.env += made
        return made

    def _bind(self, result: Any, made: list[Var]) -> str:
        if isinstance(result, (list, tuple)):
            inner = ", ".join(self._bind(part, made) for part in result)
            return f"[{inner}]"
        name = f"v{self._made}"
        self._made += 1
        self.names[name] = result
        made.append(var_of(name, result))
        return name


def var_of(name: str, array: Any) -> Var:
    """An array's name with the properties that instructions use."""
    return Var(name, tuple(array.shape), dtype_name(array.dtype))


def dtype_name(dtype: Any) -> str:
    """The name of a dtype as numpy spells it, of either framework."""
    return str(getattr(dtype, "__name__", dtype)).split(".")[-1]


@lru_cache(8192)
def _compiled(code: str, mode: str) -> CodeType:
    return compile(code, "<program>", mode)
