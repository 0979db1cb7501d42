"""Questions of a program's own code that arrays answer by who they are, where the program runs on lazy ones.

`type(x)`, `x.__class__`, `id(x)` and `x is y` cannot be overridden: in methods of a model, and in functions that these
name, they are replaced by calls that answer for the array that a lazy one stands for; so are `id` and `operator.is_`
that others call.
"""

from __future__ import annotations

import ast
import builtins
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from opcode import opmap
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakSet

from gluonjit.hybrid.capture.guards.objects import Eagerly
from gluonjit.hybrid.capture.guards.owners import is_user_function, is_user_module
from gluonjit.hybrid.capture.guards.rewriting import Unfollowable, call
from gluonjit.hybrid.capture.guards.scopes import FUNCTIONS, Scope
from gluonjit.hybrid.capture.guards.sources import deep_copy, replacing, source_of
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.replaced import code_of, stands_for

ANSWERS: dict[type, tuple[type, Callable[[Any], Any]]] = {}
"""Classes of lazy arrays, each with that of what they stand for, and what gives the program's own array or None."""
_NAME = "__gluonjit_asks__"
_NAMES = {"type", "id", "__class__", "is_", "is_not"}
_seen: WeakSet[FunctionType] = WeakSet()


def note_question(question: str) -> None:
    """Lets later calls of the model that is being called run eagerly: only their arrays could answer for certain."""
    batch = LOCAL.state.batch
    if batch is None or LOCAL.state.trace is not None or not LOCAL.state.inside:
        return
    asking = batch.asking
    if asking is not None and not asking.asked:
        reason = Eagerly(
            f"it asks for {question}, which only the array itself could answer: pass what it decides as an argument"
        )
        asking.asked[:] = [reason]
        batch.report.unbatched[asking.name] = reason


def _own(item: Any) -> Any:
    answer = ANSWERS.get(item.__class__)
    found = None if answer is None else answer[1](item)
    return item if found is None else found


def is_sought(lazy: Any, other: Any) -> bool:
    """True where a dictionary, set or list that code asks comes upon the array that it looks for, and no `==` asks."""
    own = _own(lazy)
    if own is lazy or own is not _own(other):
        return False
    frame = sys._getframe(2)
    return frame.f_code.co_code[frame.f_lasti] != opmap["COMPARE_OP"]


class _Asked:
    """Answers to a program's questions, of lazy arrays among others."""

    @staticmethod
    def type_of(item: Any) -> type:
        """type(item)"""
        answer = ANSWERS.get(item.__class__)
        return type(item) if answer is None else answer[0]

    @staticmethod
    def class_of(item: Any) -> type:
        """item.__class__"""
        answer = ANSWERS.get(item.__class__)
        return item.__class__ if answer is None else answer[0]

    @staticmethod
    def id_of(item: Any) -> int:
        """id(item)"""
        if item.__class__ in ANSWERS:
            note_question("the id() of an array")
        return id(_own(item))

    @staticmethod
    def same(left: Any, right: Any) -> bool:
        """left is right"""
        if left is right:
            return True
        one, other = left.__class__, right.__class__
        if one in ANSWERS or other in ANSWERS:
            if issubclass(one, _arrays()) and issubclass(other, _arrays()):
                note_question("whether one array is another")
            return _own(left) is _own(right)
        return False

    @staticmethod
    def twin(item: Any) -> Any:
        """The function that answers in place of one."""
        return next((own for asked, own in _TWINS if asked is item), item)


_TWINS: list[tuple[Any, Callable[..., Any]]] = [
    (type, _Asked.type_of),
    (id, _Asked.id_of),
    (operator.is_, _Asked.same),
    (operator.is_not, lambda left, right: not _Asked.same(left, right)),
]


def _arrays() -> tuple[type, ...]:
    return tuple(own for own, _ in ANSWERS.values())


class _Asking(ast.NodeTransformer):
    """Replaces the questions of one function."""

    def __init__(self, node: Any, code: CodeType, space: dict[str, Any]) -> None:
        self.asks = False
        self._space = {**vars(builtins), **space}
        self._bound = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        for inner in ast.walk(node):
            self._bound |= Scope(inner).bound if isinstance(inner, FUNCTIONS) else set()
        named = [*node.args.posonlyargs, *node.args.args]
        self._own = named[0].arg if named else None

    def _asked(self, name: str, node: ast.AST, *args: ast.expr) -> Any:
        self.asks = True
        return ast.fix_missing_locations(ast.copy_location(call(name, *args, owner=_NAME), node))

    def visit_Call(self, node: ast.Call) -> Any:
        """type(x), id(x), and calls that are given `type`"""
        called = self._meant(node.func)
        if called in (type, id):
            node.args = [self.visit(arg) for arg in node.args]
            plain = len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)
            name = "type_of" if called is type else "id_of"
            return self._asked(name, node, node.args[0]) if plain and not self._is_own(node.args[0]) else node
        self.generic_visit(node)
        if called not in (isinstance, issubclass):
            node.args = [self._asked("twin", arg, arg) if self._meant(arg) is type else arg for arg in node.args]
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        """id, given to others"""
        meant = self._meant(node)
        return self._asked("twin", node, node) if meant is not type and _Asked.twin(meant) is not meant else node

    def _meant(self, node: ast.AST) -> Any:
        """The object that a name stands for outside of the function."""
        free = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in self._bound
        return self._space.get(node.id) if free else None  # type: ignore[attr-defined]

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """x.__class__, operator.is_"""
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or self._is_own(node.value):
            return node
        if node.attr in ("is_", "is_not"):
            return self._asked("twin", node, node)
        return self._asked("class_of", node, node.value) if node.attr == "__class__" else node

    def visit_Compare(self, node: ast.Compare) -> Any:
        """x is y"""
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return node
        sides = [node.left, node.comparators[0]]
        if any(isinstance(side, ast.Constant) or self._is_own(side) or _is_asked(side) for side in sides):
            return node
        found = self._asked("same", node, *sides)
        return found if isinstance(node.ops[0], ast.Is) else ast.copy_location(ast.UnaryOp(ast.Not(), found), node)

    def _is_own(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self._own


def _is_asked(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("type_of", "class_of")
    )


def asking(node: Any, function: FunctionType) -> Any:
    """Returns the source of a function with its questions replaced; itself where it has none."""
    code = code_of(function)  # the program's own, also where its questions are replaced by now
    if not _may_ask(code):
        return node
    maker = _Asking(node, code, function.__globals__)
    made = maker.visit(deep_copy(node))
    if maker.asks:
        function.__globals__.setdefault(_NAME, _Asked)
    return made if maker.asks else node


def _may_ask(code: CodeType) -> bool:
    if not _NAMES.isdisjoint(code.co_names) or opmap["IS_OP"] in code.co_code[::2]:
        return True
    return any(_may_ask(part) for part in code.co_consts if isinstance(part, CodeType))


def _named_by(function: FunctionType) -> Iterator[Any]:
    """Lists the objects that a function names: globals, entries of user modules, variables of outer functions."""
    names, space = code_of(function).co_names, function.__globals__
    for name in names:
        item = space.get(name)
        yield item
        if isinstance(item, ModuleType) and is_user_module(item):
            yield from [vars(item).get(other) for other in names]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty
            yield cell.cell_contents


def answer(parts: Iterable[Any]) -> None:
    """Replaces the questions in the methods of the classes of these models, and in the functions that these name."""
    pending = [item for part in parts for base in type(part).__mro__ for item in vars(base).values()]
    while pending:
        function = pending.pop()
        function = getattr(function, "function", function)  # of a cell
        if not is_user_function(function) or function in _seen:
            continue
        _seen.add(function)
        pending += _named_by(function)
        if function.__code__ is not code_of(function) or not _may_ask(function.__code__):
            continue
        try:
            node, around = source_of(function)
            made = asking(node, function)
            if made is not node:
                original = function.__code__
                code = replacing(function, made, around)
                stands_for(code, original)
                function.__code__ = code
        except (Unfollowable, ValueError):  # it has no source, or variables that another code would not have
            continue
