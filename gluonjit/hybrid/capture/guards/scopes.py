"""Names of a function's scopes, determined from its source as Python determines them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Union

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Function = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda]


class Scope:
    """The names of a function or comprehension: those it binds, and those it declares global or nonlocal."""

    def __init__(self, node: ast.AST) -> None:
        self.bound: set[str] = set()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        if isinstance(node, FUNCTIONS):
            self.bound.update(argument.arg for argument in arguments_of(node.args))
            body = node.body if isinstance(node.body, list) else [node.body]
            self._collect(body)
        else:
            assert isinstance(node, COMPREHENSIONS)
            for generator in node.generators:
                self._collect([generator.target])
        self.bound -= self.globals | self.nonlocals

    def _collect(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.bound.add(node.name)
                self._collect(node.decorator_list)
                continue
            if isinstance(node, ast.Lambda):
                continue
            if isinstance(node, COMPREHENSIONS):  # := in it binds here
                self.bound.update(item.target.id for item in ast.walk(node) if isinstance(item, ast.NamedExpr))
                continue
            self._note(node)
            self._collect(ast.iter_child_nodes(node))

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self.bound.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self.bound.update((alias.asname or alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.Global):
            self.globals.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            self.nonlocals.update(node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            self.bound.add(node.name)
        else:  # patterns of `match`
            for field in ("name", "rest"):
                name = getattr(node, field, None)
                if type(node).__name__.startswith("Match") and isinstance(name, str):
                    self.bound.add(name)


def arguments_of(arguments: ast.arguments) -> list[ast.arg]:
    """All arguments that a function takes."""
    return [each for each in ast.iter_child_nodes(arguments) if isinstance(each, ast.arg)]
