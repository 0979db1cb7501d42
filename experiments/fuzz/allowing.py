"""A variant of a case in whose graphs MXNet has no more than a batch, so that it accepts the same writes.

A batch never runs calls that nobody reads, and knows them only as long as they are pending. To a batch, what requires
no gradient is in no graph, whatever recorded calls have read it beside a weight.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

_ARRAY = re.compile(r"[av]\d+|tokens")
_LEARNED = "from gluonjit.engines.mxnet.run.results import is_learned\n"


def allowing(text: str, refused: Iterable[str] = ()) -> str:
    """Return the text of a case without unread lines, with arrays of no graph of a batch detached; `refused` raise."""
    for name in refused:
        text = re.sub(rf'(attempt\(found, "{name}", lambda: ).*\)', r"\g<1>1 / 0)", text)
    tree = ast.parse(_LEARNED + text)
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.name.startswith("program"):
            while _dropped(function):
                pass
            _Detaching().visit(function)
    return ast.unparse(tree) + "\n"


class _Detaching(ast.NodeTransformer):
    """Detaches arrays that gradients do not go back from wherever they are read."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load) or not _ARRAY.fullmatch(node.id):
            return node
        return ast.parse(f"{node.id} if is_learned({node.id}) else {node.id}.detach()", mode="eval").body


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
