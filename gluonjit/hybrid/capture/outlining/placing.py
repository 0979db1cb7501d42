"""From blocks to code: each block becomes a cell, and the function calls these in place of the blocks."""

from __future__ import annotations

import ast
import copy
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from gluonjit.hybrid.capture.entrances import asks, entrance_of
from gluonjit.hybrid.capture.guards.rewriting import Unfollowable, located
from gluonjit.hybrid.capture.guards.sources import deep_copy, give_source, replacing, source_of
from gluonjit.hybrid.capture.outlining.blocks import Outliner
from gluonjit.hybrid.capture.outlining.expressions import Block
from gluonjit.hybrid.capture.outlining.known import PREFIX, FrameworkFunctions, FunctionNames, helpers_in, loads, stores
from gluonjit.hybrid.capture.outlining.questions import asking
from gluonjit.replaced import code_of, stands_for

_CELLS = f"{PREFIX}cells"
_ENTER = f"{PREFIX}enter"
_TRACING = "__gluonjit_tracing__"
MOST_CHILDREN = 8
"""The longest list that a made cell takes: each length may be another kind."""

_READING = ("locals", "vars", "exec", "eval", "dir", "globals")
_REFUSED: dict[type, str] = {
    ast.NamedExpr: "it assigns in an expression (:=)",
    ast.Global: "it declares a name global",
    ast.Nonlocal: "it declares a name nonlocal",
    ast.Yield: "it is a generator",
    ast.YieldFrom: "it is a generator",
    ast.Await: "it is asynchronous",
    ast.AsyncFunctionDef: "it is asynchronous",
}


class Site(NamedTuple):
    """A block as a cell: its function of the model's parts and its inputs, and its source lines."""

    name: str
    function: FunctionType
    parts: dict[str, str]
    lines: str
    weight: int


class Outlined(NamedTuple):
    """A split function: its new code, its cells, and the assumptions of their order of evaluation."""

    code: CodeType
    sites: tuple[Site, ...]
    parts: dict[str, str]
    methods: dict[str, Any]
    helpers: list[tuple[dict[str, Any], str, Any]]


def outlined(function: FunctionType, owner: Any, known: FrameworkFunctions, enter: Any) -> Outlined:
    """Returns a function with its straight-line tensor code in cells. Raises Unfollowable with the reason.

    Its code calls `enter`, with the model if it is a method of one, the `owner`. That gives the cells (see `outlines`),
    or None: then it is as it was.
    """
    node, around = source_of(function)
    if not isinstance(node, ast.FunctionDef):
        raise Unfollowable("it is not a plain function")
    if owner is not None and not function.__code__.co_argcount:
        raise Unfollowable("it has no argument that is the model")
    scope = FunctionNames(function, owner, known)
    node = asking(node, function)
    _check(node, scope)
    scope.note_uses(node)
    maker = Outliner(scope)
    doc = node.body[:1] if len(node.body) > 1 and ast.get_docstring(node, False) is not None else []
    old = node.body[len(doc) :]
    body = maker.statements(deep_copy(old))
    if not maker.blocks:
        raise Unfollowable("no two operators in it may run together")
    placing = _Placing(maker, function, body)
    body = tidied([placing.visit(s) for s in body], loads(*body))
    if not placing.sites:
        raise Unfollowable("no two operators in it may run together")
    new = copy.copy(node)
    entrance = entrance_of(function)
    asked = asks(node, known.key, entrance) if entrance else []  # where there are cells, a sample is open
    text = f"{_CELLS} = {_ENTER!r}; {_CELLS} = {_CELLS}({'' if owner is None else scope.own})"
    if owner is None and known.tracing is not None:  # the framework's tracer knows no such constant
        function.__globals__.setdefault(_TRACING, known.tracing)
        text = f"if {_TRACING}(): {_CELLS} = None\nelse: {text}"
    entering = located(f"{text}\nif {_CELLS} is None: pass", old[0])
    entering.body[-1].body, entering.body[-1].orelse = [*asked, *old], body
    new.body = [*doc, *entering.body]
    made = replacing(function, new, around)
    made = made.replace(co_consts=tuple(enter if each == _ENTER else each for each in made.co_consts))
    stands_for(made, code_of(function))
    sites = tuple(placing.sites)
    parts = dict(maker.effects.parts)
    for site in sites:
        parts.update(site.parts)
    return Outlined(made, sites, parts, maker.effects.methods, helpers_in(function, known))


def _check(node: ast.FunctionDef, scope: FunctionNames) -> None:
    """Raises Unfollowable if a function cannot be split."""
    for inner in ast.walk(node):
        why = _REFUSED.get(type(inner))
        if why:
            raise Unfollowable(why)
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in _READING:
            raise Unfollowable(f"it calls {inner.func.id}()")
        if isinstance(inner, ast.Attribute) and inner.attr in scope.known.attaching:
            raise Unfollowable(f"it calls {inner.attr}()")
        if isinstance(inner, ast.Name) and inner.id == scope.own and not isinstance(inner.ctx, ast.Load):
            raise Unfollowable(f"it rebinds {scope.own}")
        if isinstance(inner, ast.Name) and inner.id.startswith(PREFIX):
            raise Unfollowable("it already uses such names")


class _Placing(ast.NodeTransformer):
    """Replaces blocks by calls of cells."""

    def __init__(self, maker: Outliner, function: FunctionType, body: list[Any]) -> None:
        self.maker, self.function = maker, function
        self.sites: list[Site] = []
        self.all = loads(*body, *[s for block in maker.blocks for s in block.body])

    def visit_CellPlaceholder(self, node: Any) -> Any:
        """Emits a call of the block's cell if its inputs may be tensors, else the original statements."""
        block = node.block
        reads, writes = self._reads(block), self._outputs(block)
        if not writes:
            return block.body
        self.sites.append(self._site(block, reads, writes))
        number = 2 * len(self.sites) - 1
        looks = [f"{_CELLS}[{number}] is not None"]
        for name in reads:
            if name in self.maker.lists:
                looks.append(f"len({name}) <= {MOST_CHILDREN}")
                continue
            look = f"{name}.__class__ in {_CELLS}[0]"
            numbers = block.evidence and name not in block.tensors
            looks.append(f"({look} or {_CELLS}[{number + 1}]({name}))" if numbers else look)
        made = f"{PREFIX}made"
        call = f"{made} = {_CELLS}[{number}]({', '.join(reads)}) if {' and '.join(looks)} else None"
        take = f"if {made} is None: pass\nelse: {', '.join(writes)} = {made}"
        found = located(f"{call}\n{take}", block.body[0]).body
        found[1].body = deep_copy(block.body)
        return found

    def _reads(self, block: Block) -> list[str]:
        """Names that a block reads before writing them, except the model's own."""
        written: set[str] = set()
        found: dict[str, None] = {}
        for s in block.body:
            inner = {n for g in ast.walk(s) if isinstance(g, ast.comprehension) for n in stores(g.target)}
            variables = self.maker.scope.variables
            found.update(dict.fromkeys(n for n in loads(s.value) if n in variables and n not in written | inner))
            written.update(stores(s.targets[0]))
        found.pop(self.maker.scope.own, None)
        return list(found)

    def _outputs(self, block: Block) -> list[str]:
        """Names that a block writes and that other code reads, or the block itself in a loop."""
        inside = loads(*block.body)
        before = self._reads(block) if block.again else []
        return [n for n in block.writes if self.all.count(n) > inside.count(n) or n in before]

    def _site(self, block: Block, reads: list[str], writes: list[str]) -> Site:
        function = self.function
        own = self.maker.scope.own
        module = located(f"def cell({', '.join([own, *reads])}):\n return {', '.join(writes)}", block.body[-1])
        made = module.body[0]
        name = made.name = code_of(function).co_name  # not that of the function, which may be any text
        made.lineno = block.body[0].lineno
        made.body[:0] = deep_copy(block.body)
        space: dict[str, Any] = {}
        code = compile(ast.fix_missing_locations(module), code_of(function).co_filename, "exec", 0, True)
        exec(code, function.__globals__, space)
        cell = space[name]
        cell.__qualname__ = f"{function.__qualname__}:{block.body[0].lineno}"
        give_source(cell.__code__, made)
        return Site(cell.__qualname__, cell, block.parts, block.lines, block.weight)


def tidied(body: list[Any], read: list[str]) -> list[Any]:
    """Returns statements without names that are bound only to be read by the next statement."""
    flat = [s for each in body for s in (each if isinstance(each, list) else [each])]
    done: list[Any] = []
    for s in flat:
        for name in ("body", "orelse"):
            if getattr(s, name, None):
                setattr(s, name, tidied(getattr(s, name), read))
        field = "test" if isinstance(s, ast.If) else "value"
        name = getattr(getattr(s, field, None), "id", "")
        last = done[-1] if done else None
        if name.startswith(PREFIX) and read.count(name) == 1 and isinstance(last, ast.Assign):
            if isinstance(s, (ast.Return, ast.Assign, ast.If)) and stores(*last.targets) == [name]:
                setattr(s, field, done.pop().value)
        done.append(s)
    return done
