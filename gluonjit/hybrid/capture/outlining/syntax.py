"""Parts of syntax trees: the weight of an expression, its children, and assignments."""

from __future__ import annotations

import ast
from typing import Any

from gluonjit.hybrid.capture.guards.sources import deep_copy


def weight_of(node: Any) -> int:
    """Counts the operators in an expression that are part of a block."""
    return getattr(node, "weight", 0)


def replace_child(new: Any, node: Any, name: str, k: int | None, child: Any) -> None:
    """Replaces a child of a copied node, by field name or as the k-th of several."""
    if k is None:
        setattr(new, name, child)
        return
    if getattr(new, name) is getattr(node, name):
        setattr(new, name, list(getattr(node, name)))
    getattr(new, name)[k] = child


def children(node: Any) -> list[tuple[str, int | None, Any]]:
    """The expressions that a node is made of, in the order of evaluation, each with its field and number there."""
    found: list[tuple[str, int | None, Any]] = []
    for name, field in ast.iter_fields(node):
        if isinstance(field, (ast.expr, ast.keyword)):
            found.append((name, None, field))
        elif isinstance(field, list):
            found += [(name, k, each) for k, each in enumerate(field) if isinstance(each, (ast.expr, ast.keyword))]
    return found


def assign(target: Any, value: Any) -> ast.Assign:
    """Adds a statement that binds a value to one or several names."""
    target = deep_copy(target)
    for n in ast.walk(target):
        if hasattr(n, "ctx"):
            n.ctx = ast.Store()
    return ast.copy_location(ast.Assign([target], value), value)
