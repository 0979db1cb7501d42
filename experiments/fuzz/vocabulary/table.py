"""Instructions by name, and the lines of code that each chooses among, as a framework spells them.

A line is the text of an f-string: braces hold the arrays and numbers that the instruction has chosen. `@name` is an
operator, a method or a keyword as the framework spells it. After ` ?? ` comes the condition of a line; if it does not
hold, the next line is taken. Lines common to all frameworks are written once, with their instruction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import CodeType
from typing import Any, NamedTuple

from experiments.fuzz.run import WIDTH, WORDS, Run, Step, fits

Op = Callable[[Run, int, int, int], "str | None"]
Compiled = tuple[CodeType, "CodeType | None"]

_NAME = re.compile(r"@(\w+)")
_FUNCTION_OF_X = re.compile(r"@(\w+)\(\{x\}(?:, |(?=\)))")


class Spelling(NamedTuple):
    """A framework's spelling of what every framework has.

    prefix: of its operators; names: those that are called otherwise than elsewhere; dtype, cat, stack: formats;
    methods: functions that arrays have as methods too; data: what follows a parameter to make an array of it;
    paused: how a region begins in which writes are allowed that are refused where calls are recorded; copied: what
    makes a slice a result of its own where only some slices are views; vectors: whether arrays may have no axes, or
    other numbers of axes than their neighbours, and cells take vectors; halves: whether operators on images have
    float16 on the host.
    """

    prefix: str
    names: Mapping[str, str]
    dtype: str
    cat: str
    stack: str
    methods: frozenset[str]
    data: str
    paused: str
    copied: str
    vectors: bool
    halves: bool

    def of(self, dtype: str) -> str:
        """The text of a dtype."""
        return self.dtype.format(dtype)

    def name(self, name: str) -> str:
        """The text of an operator's name."""
        return self.names.get(name, self.prefix + name)

    def joined(self, parts: Sequence[Any], axis: int) -> str:
        """The text of a concatenation."""
        return self.cat.format(parts=", ".join(map(str, parts)), axis=axis)

    def stacked(self, parts: Sequence[Any], axis: int) -> str:
        """The text of a stack."""
        return self.stack.format(parts=", ".join(map(str, parts)), axis=axis)

    def forms(self, line: str) -> list[str]:
        """A line as it is written, and where it begins with a function of x alone, as a method, too."""
        found = [_NAME.sub(lambda name: self.name(name[1]), line)]
        function = _FUNCTION_OF_X.search(line)
        method = self.name(function[1]).rsplit(".", 1)[-1] if function else ""
        if function and method in self.methods and self.name(function[1]) == self.prefix + method:
            turned = f"{line[: function.start()]}{{x}}.{method}({line[function.end() :]}"
            found.append(_NAME.sub(lambda name: self.name(name[1]), turned))
        return found


class Dialect:
    """A framework's spelling, and its lines for each instruction in addition to those of all frameworks."""

    def __init__(self, spelling: Spelling, *own: Mapping[str, str], **values: Any) -> None:
        """Take tables of lines, and the functions that only they use."""
        self.spelling = spelling
        self.own = own
        self.values = {
            **values,
            **{"fits": fits, "WIDTH": WIDTH, "WORDS": WORDS},
            **{"of": spelling.of, "cat": spelling.joined, "stack": spelling.stacked},
            **{"f32": spelling.of("float32"), "f64": spelling.of("float64"), "copied": spelling.copied},
        }

    @cached_property
    def lines(self) -> dict[str, list[Compiled]]:
        """All lines of each instruction, to be evaluated."""
        texts: dict[str, list[str]] = {}
        for table in (LINES, *self.own):
            for name, text in table.items():
                texts.setdefault(name, []).extend(form for line in listed(text) for form in self.spelling.forms(line))
        return {name: [_compiled(line) for line in lines] for name, lines in texts.items()}

    def say(self, name: str, a: int, b: int, c: int, values: Mapping[str, Any]) -> str | None:
        """A line of an instruction, chosen by its numbers among those that have room; None if there is none."""
        lines = self.lines[name]
        known = {**self.values, "a": a, "b": b, "c": c, **values}
        first = a + 7 * b + 13 * c
        for k in range(len(lines)):
            text, room = lines[(first + k) % len(lines)]
            if room is None or eval(room, known):
                return str(eval(text, known))[:-1]
        return None


def listed(text: str) -> list[str]:
    """The lines of a table."""
    return [line for line in text.strip("\n").split("\n") if line]


def _compiled(line: str) -> Compiled:
    text, _, room = line.partition(" ?? ")
    # The space keeps a quotation mark at the end apart from those around it.
    return compile(f'f"""{text} """', f"<{text}>", "eval"), compile(room, f"<{room}>", "eval") if room else None


LINES: dict[str, str] = {}
"""The lines of each instruction that every framework has."""


class Table:
    """The instructions by name; `errors` raise, each its own exception, `habits` come with habits.

    A framework's table has its own instructions beside those of `common`; habits are the same for all.
    """

    def __init__(self, common: Table | None = None) -> None:
        self.ops: dict[str, Op] = dict(common.ops) if common else {}
        self.errors: dict[str, Op] = dict(common.errors) if common else {}
        self.habits: dict[str, Op] = common.habits if common else {}

    def op(self, function: Op) -> Op:
        """Put an instruction into the table."""
        self.ops[function.__name__] = function
        return function

    def error(self, function: Op) -> Op:
        """Put an instruction that raises into its table."""
        self.errors[function.__name__] = function
        return function

    def habit(self, function: Op) -> Op:
        """Put an instruction of a habit into its table."""
        self.habits[function.__name__] = function
        return function

    def perform(self, run: Run, step: Step) -> None:
        """Run one instruction; one that finds nothing to work on does nothing."""
        function = self.ops.get(step.op) or self.errors.get(step.op) or self.habits[step.op]
        code = function(run, step.a, step.b, step.c)
        if code is not None:
            run.do(code)


COMMON = Table()
"""The instructions of all frameworks."""
