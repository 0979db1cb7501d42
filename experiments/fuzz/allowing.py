"""A variant of a case in whose graphs MXNet has no more than a batch, so that it accepts the same writes.

A batch never runs calls that nobody reads, and knows them only as long as they are pending. To a batch, views of an
input are separate arrays: that captured calls have read the input together with a weight does not affect them, nor
anything computed from an input that requires no gradient.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

_VIEWED = re.compile(r"\b(a\d+)(?=\.reshape\(|\[)")
_GIVEN = re.compile(r"a\d+|tokens")


def allowing(text: str, refused: Iterable[str] = ()) -> str:
    """Return the text of a case without unread lines, with tensors of no graph of a batch detached; `refused` raise."""
    for name in refused:
        text = re.sub(rf'(attempt\(found, "{name}", lambda: ).*\)', r"\g<1>1 / 0)", text)
    tree = ast.parse(_VIEWED.sub(r"\1.detach()", text))
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.name.startswith("program"):
            while _dropped(function):
                pass
            _Detaching().visit(function)
    return ast.unparse(tree) + "\n"


class _Detaching(ast.NodeTransformer):
    """Detaches given arrays that do not learn wherever they are read."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return node if node.attr == "detach" else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load) or not _GIVEN.fullmatch(node.id):
            return node
        return ast.parse(f"{node.id}.detach() if {node.id}.grad is None else {node.id}", mode="eval").body


def _dropped(function: ast.FunctionDef) -> bool:
    """True if there was something to leave out."""
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    kept = [line for line in function.body if not _is_unread(line, read)]
    found = len(kept) < len(function.body)
    function.body = kept
    return found


def _is_unread(line: ast.stmt, read: set[str]) -> bool:
    """Tell whether a line computes numbers that are not read; a cell that takes notes does more."""
    if "net.noting" in ast.unparse(line):
        return False
    if isinstance(line, ast.Expr):
        return isinstance(line.value, ast.BinOp)
    names = [node.id for node in ast.walk(line) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return isinstance(line, ast.Assign) and bool(names) and read.isdisjoint(names)
