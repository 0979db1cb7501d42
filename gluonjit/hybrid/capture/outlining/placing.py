"""From a function's statements to blocks, and from these to code.

Statements between two blocks stay; each block becomes a cell, which the function calls in its place.
"""

from __future__ import annotations

import ast
import copy
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from gluonjit.hybrid.capture.entrances import asks, entrance_of
from gluonjit.hybrid.capture.guards.rewriting import Unfollowable, located
from gluonjit.hybrid.capture.guards.sources import deep_copy, give_source, replacing, source_of
from gluonjit.hybrid.capture.outlining.expressions import Block, Expressions, weight_of
from gluonjit.hybrid.capture.outlining.known import PREFIX, FrameworkFunctions, FunctionNames, helpers_in, loads, stores
from gluonjit.hybrid.capture.outlining.questions import asking
from gluonjit.replaced import code_of, stands_for


class Outliner(Expressions):
    """Splits one function into blocks."""

    def statements(self, body: list[Any]) -> list[Any]:
        """A list of statements, with places for cells."""
        outer, self.out = self.out, []
        for statement in body:
            self._statement(statement)
        self.flush()
        found, self.out = self.out, outer
        return found

    def _statement(self, s: Any) -> None:
        value: Any = getattr(s, "value", None)
        if isinstance(s, ast.Assign) and self._adds_up(s.targets, value):
            total = copy.copy(value)
            total.right = self.atom(value.right)
            self.flush()
            self.out.append(ast.copy_location(ast.Assign(s.targets, total), s))
        elif isinstance(s, ast.Assign) and len(s.targets) == 1 and _is_names(s.targets[0]):
            self._assign(s.targets[0], value)
        elif isinstance(s, ast.AnnAssign) and value is not None and isinstance(s.target, ast.Name):
            self._assign(s.target, value)
        elif isinstance(s, ast.Return) and value is not None:
            new = self._returned(value) if self.counts(value) else value
            self.flush()
            self.out.append(ast.copy_location(ast.Return(new), s))
        elif isinstance(s, ast.Expr) and not isinstance(value, ast.Constant):
            self.out.append(ast.copy_location(ast.Expr(self.opaque(value, False)), s))
        elif isinstance(s, (ast.Assign, ast.AugAssign)):
            new = copy.copy(s)
            if self.counts(value) and (isinstance(s, ast.Assign) or self._is_bound_here(s.target, value)):
                new.value = self.atom(value)
            self.flush()
            self.out.append(new)
        else:
            self._compound(s)

    def _adds_up(self, targets: list[Any], value: Any) -> bool:
        """True of `total = total + f(x)` in a loop that reads no total but here: such sums are taken apart later on.

        Methods of models and recursions add up few terms, which depend on each other as it is.
        """
        adds = isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub))
        if not adds or not self.loops or self.scope.owner is not None:
            return False
        name = getattr(value.left, "id", "")
        alone = stores(*targets) == [name] and loads(*self.loops[-1].body).count(name) == 1
        recursive = self.scope.function.__name__ in loads(value.right)
        return alone and not recursive and self.counts(value.right) and self._is_bound_here(value.left, value.right)

    def _is_bound_here(self, target: Any, value: Any) -> bool:
        """True if what a target stands for does not change while a value is evaluated."""
        return (_is_name(target) and target.id not in self.scope.shared) or self.effects.clean(value)

    def _returned(self, value: Any) -> Any:
        """Returns a value with its parts evaluated: each of several by itself, as one may already have a name."""
        if not isinstance(value, ast.Tuple) or any(isinstance(n, ast.Starred) for n in value.elts):
            return self.atom(value)
        new = copy.copy(value)
        new.elts = [self.atom(n) for n in value.elts]
        return new

    def _assign(self, target: Any, value: Any) -> None:
        pairs = [(target, value)]
        kept: tuple[type, ...] = (ast.Constant, ast.Name, ast.Tuple, ast.List)
        if isinstance(value, ast.Tuple) and isinstance(target, ast.Tuple) and len(value.elts) == len(target.elts):
            if all(map(_is_name, target.elts)) and not any(isinstance(n, ast.Starred) for n in value.elts):
                if set(loads(value)).isdisjoint(loads(target) + stores(target)):
                    pairs = list(zip(target.elts, value.elts))
                else:  # `a, b = f(b), g(a)`
                    kept = (ast.Constant, ast.Name)
        for each, part in pairs:
            new = part if isinstance(part, kept) else self.pure(part)
            if weight_of(new):
                self.gather(each, new)
            else:
                self.opaque(new, each)

    def _compound(self, statement: ast.stmt) -> None:
        s = copy.copy(statement)
        if isinstance(s, ast.If) and self.counts(s.test) and not self._compares_names(s.test):
            s.test = self.atom(s.test)
        self.flush()
        if isinstance(s, (ast.If, ast.For, ast.While, ast.With)):
            loops = self.loops
            self.loops = [*loops, s] if isinstance(s, (ast.For, ast.While)) else loops
            s.body = self.statements(s.body)
            self.loops = loops
            if not isinstance(s, ast.With) and s.orelse:
                s.orelse = self.statements(s.orelse)
        self.out.append(s)

    def _compares_names(self, test: Any) -> bool:
        """True if a test computes nothing before it compares, as in `i == 0`: mostly numbers, read at once."""
        return isinstance(test, ast.Compare) and not any(map(self.counts, [test.left, *test.comparators]))


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def _is_names(node: ast.AST) -> bool:
    return all(isinstance(n, (ast.Name, ast.Tuple, ast.Store)) for n in ast.walk(node))


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
    asked = asks(node, entrance) if entrance else []  # where there are cells, a sample is open
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
