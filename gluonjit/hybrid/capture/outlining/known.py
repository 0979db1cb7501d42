"""Knowledge of a framework, and of one function's names, needed to interpret its source."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from gluonjit.hybrid.capture.guards.owners import is_user_function
from gluonjit.hybrid.capture.guards.sources import plain_source, source_of
from gluonjit.replaced import KEY

PREFIX = "_gluonjit_"
"""The beginning of names that are added to a function."""
LAYER, LOOKUP, WEIGHT = "layer", "look-up", "weight"
"""Parts of a model: a layer is sure to compute its result from its arguments and weights alone; so is a look-up, which
by itself costs nothing and stays out of cells."""


_NONE: dict[str, Any] = {}


class FrameworkFunctions:
    """Knows a framework's functions and the parts of models. An engine derives from it.

    arrays: classes of arrays; lazy: of those that are captured, where operators on others run at once; attaching:
    methods that attach something to the gradient of one array, between operators; sizing: methods that only return
    sizes of an array; engine: its name; cells: the class of its cells; helpers: how many operators functions of users
    have that do nothing but compute, by their code; tracing(): True while the framework's own tracer follows the
    program.

    * `waits(args)`: true if an operator on these arguments, called outside of samples, would be captured.
    * `function(item)`: true if this function returns arrays computed from its arguments, and does nothing else.
    * `method(name)`: true if the array method of this name returns arrays, and does nothing else.
    * `creates(item)`: true if this makes arrays of numbers, and does nothing else.
    * `part(owner, name)`: returns the sort of a model's attribute: LAYER, LOOKUP, WEIGHT, or "" for anything else.
    * `parts(owner)`: a model and all models in it.
    * `holder(owner, names)`: returns a model with only these parts of another.
    * `same(holder, owner, names)`: true if these are still the same parts.
    * `node(cell, holder, function, args, refused)`: captures a call of a made cell; if it is no node returns None, and
      passes the reason to `refused`.
    """

    waits: Callable[..., bool]
    function: Callable[..., bool]
    method: Callable[..., bool]
    creates: Callable[..., bool]
    part: Callable[..., str]
    parts: Callable[..., Iterable[Any]]
    holder: Callable[..., Any]
    same: Callable[..., bool]
    node: Callable[..., Any]
    cells: Callable[..., Any]
    arrays: frozenset[type] = frozenset()
    tracing: Callable[[], bool] | None = None
    lazy: type | None = None
    attaching: frozenset[str] = frozenset()
    sizing: frozenset[str] = frozenset()
    engine = ""

    def __init__(self) -> None:
        self.helpers: dict[CodeType, int] = {}
        FRAMEWORKS[self.engine] = self

    def captured(self, args: tuple[Any, ...], /) -> bool:
        """True if an operator on these arguments, called inside of a sample, would be captured."""
        return True

    def options(self, owner: Any) -> Any:
        """The options of a model that is dynamically batched, or None."""
        cell = getattr(owner, "__dict__", _NONE).get(KEY)
        return None if cell is None else cell.options

    def store(self, owner: Any) -> dict[Any, Any]:
        """Returns a dictionary for data of this model, which lives as long as the model is batched."""
        return vars(owner.__dict__[KEY]).setdefault("outlines", {})  # type: ignore[no-any-return]


FRAMEWORKS: dict[str, FrameworkFunctions] = {}
"""What is known of each framework, by its engine."""
_HARMLESS = (len, range, isinstance, int, float, bool)


class FunctionNames:
    """One function's names and what they stand for. `own` is its first argument, if it is a method of a model."""

    def __init__(self, function: FunctionType, owner: Any, known: FrameworkFunctions) -> None:
        code = function.__code__
        self.function, self.owner, self.known = function, owner, known
        self.own = f"{PREFIX}own" if owner is None else code.co_varnames[0]
        self.variables = {*code.co_varnames, *code.co_cellvars}
        self.free = set(code.co_freevars)
        self.shared = {*code.co_freevars, *code.co_cellvars}
        self.counters: set[str] = set()
        self.objects = {self.own}

    def note_uses(self, node: ast.FunctionDef) -> None:
        """Notes variables that are numbers, as nothing binds them but loops over `range` and `enumerate`, or no arrays,
        as they are asked for what no array has.
        """
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                if not any(hasattr(kind, part.attr) for kind in self.known.arrays):
                    self.objects.add(part.value.id)
        bound = [*stores(*node.body), *[arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)]]
        found: list[str] = []
        for loop in ast.walk(node):
            if isinstance(loop, (ast.For, ast.comprehension)) and isinstance(loop.iter, ast.Call):
                function, target = self.value(loop.iter.func), loop.target
                if function is enumerate and isinstance(target, ast.Tuple):
                    target = target.elts[0]
                if (function is range or function is enumerate) and isinstance(target, ast.Name):
                    found.append(target.id)
        self.counters = {name for name in found if found.count(name) == bound.count(name)}

    def value(self, node: ast.AST) -> Any:
        """The object that a name outside of the function stands for, attributes of modules included; else None."""
        if isinstance(node, ast.Name) and node.id not in self.variables | self.free and not is_private(node.id):
            return self.function.__globals__.get(node.id, getattr(builtins, node.id, None))
        if not isinstance(node, ast.Attribute):
            return None
        base = self.value(node.value)
        return vars(base).get(node.attr) if isinstance(base, ModuleType) else None

    def own_name(self, node: ast.AST) -> str:
        """The name of an attribute of the model itself; "" for any other expression."""
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or is_private(node.attr):
            return ""
        return node.attr if node.value.id == self.own else ""

    def part(self, node: ast.AST) -> str:
        """The sort of part of the model that an expression is, or "", as in a function that is no method."""
        name = "" if self.owner is None else self.own_name(node)
        return self.known.part(self.owner, name) if name else ""

    def calls_operator(self, node: ast.Call) -> bool:
        """True if a call is of a layer or of a framework function that only returns a result."""
        if not is_plain_call(node):
            return False
        return self.part(node.func) == LAYER or self.operators(self.value(node.func)) > 0

    def operators(self, value: Any) -> int:
        """The number of operators of a function that only returns a result: the framework's, or a helper's."""
        if value is None:
            return 0
        return 1 if self.known.function(value) else helper_weight(value, self.known)

    def calls_method(self, node: ast.Call) -> bool:
        """True if a call is of an array method, on something that may be an array."""
        func = node.func
        if not isinstance(func, ast.Attribute) or not self.known.method(func.attr) or not is_plain_call(node):
            return False
        own = isinstance(func.value, ast.Name) and func.value.id in self.objects
        return not own and self.value(func.value) is None and not self.own_name(func.value)

    def sized(self, node: ast.AST) -> str:
        """The name of the array whose sizes an expression asks for: `x.size(1)`, `x.shape[0]`, `len(x)`; or ""."""
        if not self.known.sizing:
            return ""
        if isinstance(node, ast.Call):
            if not is_plain_call(node) or node.keywords:
                return ""
            if self.value(node.func) is len and len(node.args) == 1:
                return self._variable(node.args[0])
            func = node.func
            asks = isinstance(func, ast.Attribute) and func.attr in self.known.sizing
            return self._variable(func.value) if asks and all(map(_is_number, node.args)) else ""  # type: ignore[attr-defined]
        if isinstance(node, ast.Subscript):
            return self.sized(node.value) if _is_number(node.slice) and isinstance(node.value, ast.Attribute) else ""
        return self._variable(node.value) if isinstance(node, ast.Attribute) and node.attr == "shape" else ""

    def _variable(self, node: ast.AST) -> str:
        found = isinstance(node, ast.Name) and node.id in self.variables and node.id != self.own
        return node.id if found else ""  # type: ignore[attr-defined]

    def harmless(self, node: ast.Call) -> bool:
        """True if a non-operator call only returns a result."""
        value = self.value(node.func)
        if not is_plain_call(node) or (value is None and self.part(node.func) != LOOKUP):
            return False
        known = value is not None and (any(value is each for each in _HARMLESS) or self.known.creates(value))
        return known or self.part(node.func) == LOOKUP


_PLAIN_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.Return, ast.If, ast.Pass)
_PLAIN_PARTS = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Tuple, ast.List, ast.Slice, ast.Call, ast.keyword),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp),
)
_MOST_HELPERS = 4096


def helper_weight(function: Any, known: FrameworkFunctions) -> int:
    """The number of operators of a user's function that only computes a result, without loops; 0 of any other."""
    if type(function) is not FunctionType or not is_user_function(function):
        return 0
    code = function.__code__
    if code not in known.helpers:
        if len(known.helpers) >= _MOST_HELPERS:
            known.helpers.clear()
        known.helpers[code] = 0  # of one that calls itself
        known.helpers[code] = _helper_weight(function, known)
    return known.helpers[code]


def helpers_in(function: FunctionType, known: FrameworkFunctions) -> list[tuple[dict[str, Any], str, Any]]:
    """Returns where a function finds its helpers, and theirs: the namespace, the name in it, and the helper."""
    found: list[tuple[dict[str, Any], str, Any]] = []
    pending, met = [function], {function}
    while pending:
        one = pending.pop()
        scope = FunctionNames(one, None, known)
        for call in ast.walk(source_of(one)[0]):
            helper = scope.value(call.func) if isinstance(call, ast.Call) else None
            if helper is None or known.function(helper) or not helper_weight(helper, known):
                continue
            func = call.func  # type: ignore[attr-defined]
            named = isinstance(func, ast.Name)
            space = one.__globals__ if named else vars(scope.value(func.value))
            found.append((space, func.id if named else func.attr, helper))
            if helper not in met:
                met.add(helper)
                pending.append(helper)
    return found


def _helper_weight(function: FunctionType, known: FrameworkFunctions) -> int:
    code = function.__code__
    if code.co_freevars or not code.co_argcount:
        return 0
    node = plain_source(function)
    if node is None or node.args.vararg or node.args.kwarg:
        return 0
    scope, weight = FunctionNames(function, None, known), 0
    for part in [inner for statement in node.body for inner in ast.walk(statement)]:
        if isinstance(part, ast.stmt):
            text = isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
            if not text and not isinstance(part, _PLAIN_STATEMENTS):
                return 0
        elif isinstance(part, ast.Call):
            found = scope.operators(scope.value(part.func)) if is_plain_call(part) else 0
            if not found and isinstance(part.func, ast.Attribute) and scope.value(part.func) is None:
                found = int(is_plain_call(part) and known.method(part.func.attr))
                if not found and part.func.attr in known.sizing:
                    continue
            if not found and not scope.harmless(part):
                return 0
            weight += found
        elif isinstance(part, (ast.Attribute, ast.Subscript)) and not isinstance(part.ctx, ast.Load):
            return 0
        elif isinstance(part, ast.expr) and not isinstance(part, _PLAIN_PARTS):
            return 0
    return weight and weight + sum(isinstance(part, ast.BinOp) for part in ast.walk(node))


def is_among(item: Any, known: Any) -> bool:
    """True if an object, hashable or not, is in a set."""
    try:
        return item in known
    except TypeError:  # it cannot be hashed
        return False


def is_private(name: str) -> bool:
    """True if Python mangles a name inside of a class."""
    return name.startswith("__") and not name.endswith("__")


def is_plain_call(node: ast.Call) -> bool:
    """True if a call passes its arguments one by one, and none of them is written to."""
    if any(isinstance(arg, ast.Starred) or (isinstance(arg, ast.Constant) and arg.value is True) for arg in node.args):
        return False
    return all(word.arg is not None and word.arg not in ("out", "inplace", "training") for word in node.keywords)


def _is_number(node: ast.AST) -> bool:
    """True if an expression is a number as it is written, such as -1."""
    node = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(node, ast.Constant)


def loads(*nodes: ast.AST) -> list[str]:
    """Names that are read or deleted, with repetitions."""
    walked = [n for node in nodes for n in ast.walk(node)]
    changed = [n.target.id for n in walked if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)]
    return [*changed, *[n.id for n in walked if isinstance(n, ast.Name) and not _binds(n)]]


def stores(*nodes: ast.AST) -> list[str]:
    """Names that are bound."""
    return [n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name) and _binds(n)]


def _binds(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
