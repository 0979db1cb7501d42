"""Effects of expressions and methods: which certainly only return a result, so that others may run later."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

from gluonjit.hybrid.capture.guards.facts import class_attribute
from gluonjit.hybrid.capture.guards.sources import plain_source
from gluonjit.hybrid.capture.outlining.known import FunctionNames

_NEVER = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda)
_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.Return, ast.If, ast.For, ast.While, ast.Pass, ast.Break, ast.Continue)


class Effects:
    """Finds clean code: it writes nothing, draws nothing, and calls only clean code.

    methods: those of the model that this rests on, by name; parts: the parts of the model, with their sort.
    """

    def __init__(self, scope: FunctionNames) -> None:
        self.scope = scope
        self.methods: dict[str, Any] = {}
        self.parts: dict[str, str] = {}
        self._seen: dict[str, set[str] | None] = {}  # methods that are clean if these others are

    def clean(self, node: ast.AST) -> bool:
        """True if evaluating an expression of the function itself is clean."""
        called: set[str] = set()
        if not self._clean(self.scope, node, called):
            return False
        reached: set[str] = set()
        pending = list(called)
        while pending:
            name = pending.pop()
            if name not in reached:
                reached.add(name)
                further = self._method(name)
                if further is None:
                    return False
                pending.extend(further)
        self.methods.update((name, getattr(type(self.scope.owner), name)) for name in reached)
        return True

    def _clean(self, scope: FunctionNames, node: ast.AST, called: set[str]) -> bool:
        for inner in ast.walk(node):
            if isinstance(inner, _NEVER):
                return False
            if isinstance(inner, ast.Call) and not self._clean_call(scope, inner, called):
                return False
        return True

    def _clean_call(self, scope: FunctionNames, node: ast.Call, called: set[str]) -> bool:
        if scope.calls_operator(node) or scope.harmless(node):
            name = scope.own_name(node.func)
            if name:
                self.parts[name] = scope.part(node.func)
            return True
        if scope.value(node.func) is sum or scope.sized(node):
            return True
        if scope.calls_method(node) and isinstance(node.func, ast.Attribute):
            return isinstance(node.func.value, ast.Call) and scope.calls_operator(node.func.value)
        name = scope.own_name(node.func)
        if name and isinstance(class_attribute(type(scope.owner), name), FunctionType):
            called.add(name)
            return True
        return False

    def _method(self, name: str) -> set[str] | None:
        """Returns the methods that a method calls if it is clean whenever they are; else None."""
        if name not in self._seen:
            self._seen[name] = self._look(class_attribute(type(self.scope.owner), name))
        return self._seen[name]

    def _look(self, function: Any) -> set[str] | None:
        node = plain_source(function)
        if node is None or not function.__code__.co_argcount:
            return None
        scope, called = FunctionNames(function, self.scope.owner, self.scope.known), set[str]()
        clean = all(self._statement(scope, statement, called) for statement in node.body)
        stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        return called if clean and scope.own not in stored else None

    def _statement(self, scope: FunctionNames, node: ast.stmt, called: set[str]) -> bool:
        if isinstance(node, ast.Expr):
            return isinstance(node.value, ast.Constant)
        if not isinstance(node, _STATEMENTS):
            return False
        bound = (ast.Attribute, ast.Subscript)
        if any(isinstance(n, bound) and not isinstance(n.ctx, ast.Load) for n in ast.walk(node)):
            return False
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                if not self._statement(scope, child, called):
                    return False
            elif not self._clean(scope, child, called):
                return False
        return True
