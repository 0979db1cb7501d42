"""A case without the calls that nobody reads: a batch never runs them, and knows of them only as long as they wait."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable


def without_unread(text: str, refused: Iterable[str] = ()) -> str:
    """The text of a case, of whose programs what nobody reads is left out; samples of these names raise at once."""
    for name in refused:
        text = re.sub(rf'(attempt\(found, "{name}", lambda: ).*\)', r"\g<1>1 / 0)", text)
    tree = ast.parse(text)
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.name.startswith("program"):
            while _dropped(function):
                pass
    return ast.unparse(tree) + "\n"


def _dropped(function: ast.FunctionDef) -> bool:
    """Whether there was something to leave out."""
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    kept = [line for line in function.body if not _is_unread(line, read)]
    found = len(kept) < len(function.body)
    function.body = kept
    return found


def _is_unread(line: ast.stmt, read: set[str]) -> bool:
    """Whether a line makes numbers, and nobody reads them."""
    if isinstance(line, ast.Expr):
        return isinstance(line.value, ast.BinOp)
    names = [node.id for node in ast.walk(line) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return isinstance(line, ast.Assign) and bool(names) and read.isdisjoint(names)
