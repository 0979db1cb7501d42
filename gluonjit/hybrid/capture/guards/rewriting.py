"""The twin of a function: the same program, in which all reads and writes pass a follower."""

from __future__ import annotations

import ast
from typing import Any

from gluonjit.hybrid.capture.guards.scopes import Function, Scope, arguments_of

Body = list[ast.stmt]
"""Statements, one after the other."""
HIDDEN = "__gluonjit__"
"""The name by which a twin has its follower: a free variable."""


class Unfollowable(Exception):
    """The reason why a function cannot be followed."""


def named(text: str) -> ast.Name:
    """An expression that reads a name."""
    return ast.Name(text, ast.Load())


def call(name: str, *args: Any, owner: str = HIDDEN) -> ast.Call:
    """A call of one of the follower's methods, or another owner's, with expressions and constants."""
    method = ast.Attribute(named(owner), name, ast.Load())
    return ast.Call(method, [arg if isinstance(arg, ast.expr) else ast.Constant(arg) for arg in args], [])


def located(text: str, like: ast.AST) -> Any:
    """The module of such a text, all of it at the place of a node."""
    module = ast.parse(text)
    for part in ast.walk(module):
        ast.copy_location(part, like)
    return module


def placed(node: ast.expr, name: str, *args: Any) -> ast.Call:
    """Returns such a call in the place of an expression."""
    return ast.copy_location(call(name, *args), node)


class Rewriter(ast.NodeTransformer):
    """Rewrites one function. `free`: its free variables; `owner`: the class around it, for private names."""

    def __init__(self, free: frozenset[str], owner: str | None) -> None:
        self.free = free
        self.owner = (owner or "").lstrip("_")
        self.scopes: list[Scope] = []
        self.first: list[str | None] = []  # the first argument, for super()
        self.before: Body = []
        self.temporaries = 0

    def mangled(self, name: str) -> str:
        """Returns a private name as Python mangles it in a class."""
        return f"_{self.owner}{name}" if self.owner and name.startswith("__") and not name.endswith("__") else name

    def function(self, node: Function) -> Function:
        """The body of a function or lambda, with what its scope needs."""
        self.scopes.append(Scope(node))
        arguments = node.args
        given = [*arguments.posonlyargs, *arguments.args]
        self.first.append(given[0].arg if given else None)
        for argument in arguments_of(arguments):
            argument.annotation = None
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
        else:
            node.returns = None
            body = self.statements(node.body)
            if arguments.kwarg is not None:  # made anew for each call
                name = arguments.kwarg.arg
                body.insert(0, ast.Assign([ast.Name(name, ast.Store())], call("new", named(name))))
            node.body = body
        self.scopes.pop()
        self.first.pop()
        return node

    def statements(self, body: Body) -> Body:
        """A list of statements, rewritten."""
        found: Body = []
        for statement in body:
            rewritten = self.visit(statement)
            found += rewritten if isinstance(rewritten, list) else [rewritten]
        return found

    def visit(self, node: ast.AST) -> Any:
        """Rewrites a node; for a statement return also the statements before it."""
        if not isinstance(node, ast.stmt):
            return super().visit(node)
        outer, self.before = self.before, []
        found = super().visit(node)
        before, self.before = self.before, outer
        rewritten = [*before, *(found if isinstance(found, list) else [found])]
        for new in rewritten:
            ast.copy_location(new, node)
        return rewritten

    def refuse(self, reason: str) -> None:
        """Refuses the statement being rewritten."""
        self.before.append(ast.Expr(call("refuse", reason)))

    # Names

    def resolved(self, name: str) -> str:
        """Returns the scope of a name: "local", including enclosing functions; "free"; or "global"."""
        for depth, scope in enumerate(reversed(self.scopes)):
            if name in scope.globals and not depth:
                return "global"
            if name in scope.bound:
                return "local"
        return "free" if name in self.free else "global"

    def visit_Name(self, node: ast.Name) -> Any:
        name = self.mangled(node.id)
        where = self.resolved(node.id)
        if isinstance(node.ctx, ast.Load):
            return placed(node, "name", name) if where == "global" else node
        if where == "global":
            self.refuse(f"it sets the global {name}")
        elif where == "free":
            self.refuse(f"it sets {name}, a variable of the enclosing function")
        return node

    # Reading

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        value = self.visit(node.value)
        name = self.mangled(node.attr)
        if isinstance(node.ctx, ast.Load):
            return placed(node, "get", value, name)
        node.value = call("writable", value, name)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        value = self.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            return placed(node, "item", value, self.index(node.slice))
        node.value = call("writable", value, None)
        node.slice = self.visit(node.slice)
        return node

    def index(self, node: ast.expr) -> ast.expr:
        """Returns the index in brackets, as an expression."""
        if isinstance(node, ast.Slice):
            bounds = node.lower, node.upper, node.step
            parts = [None if part is None else self.visit(part) for part in bounds]
            return placed(node, "slice", *parts)
        if isinstance(node, ast.Tuple):
            items = [self.index(item) for item in node.elts]
            return ast.copy_location(ast.Tuple(items, ast.Load()), node)
        return self.visit(node)  # type: ignore[no-any-return]

    def operand(self, node: ast.expr, name: str, *args: Any) -> ast.expr:
        """A rewritten operand that a method of the follower looks at, unless it is a constant."""
        return node if isinstance(node, ast.Constant) else placed(node, name, node, *args)

    def truth(self, node: ast.expr) -> ast.expr:
        """Returns a rewritten expression tested for truth: an object's attributes do not count."""
        return self.operand(node, "whole", False)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        operator = type(node.op).__name__
        return placed(node, "binary", operator, self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            node.operand = self.truth(node.operand)
        else:
            node.operand = self.operand(node.operand, "operand")
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        node.values = list(map(self.truth, node.values))
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            found: ast.expr = call("contains", *sides)
            if isinstance(node.ops[0], ast.NotIn):
                found = ast.UnaryOp(ast.Not(), found)
            return ast.copy_location(found, node)
        if all(isinstance(operator, (ast.Is, ast.IsNot)) for operator in node.ops):
            if len(node.ops) > 1 or any(isinstance(side, ast.Constant) for side in sides):
                return node
            found = call("same", *sides)
            return ast.copy_location(found if isinstance(node.ops[0], ast.Is) else ast.UnaryOp(ast.Not(), found), node)
        if len(node.ops) == 1:
            return placed(node, "compare", type(node.ops[0]).__name__, *sides)
        node.left, *node.comparators = [self.operand(side, "compared") for side in sides]
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        self.generic_visit(node)
        node.value = self.operand(node.value, "whole")
        return node

    def visit_Starred(self, node: ast.Starred) -> Any:
        node.value = self.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            node.value = call("iterate", node.value)
        return node

    # What is made

    def _made(self, node: Any) -> Any:
        self.generic_visit(node)
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return node
        if isinstance(node, ast.Dict):  # {**more}
            pairs = zip(node.keys, node.values)
            node.values = [call("iterate", value) if key is None else value for key, value in pairs]
        return placed(node, "new", node)

    visit_List = visit_Dict = visit_Set = _made

    def _comprehension(self, node: Any) -> Any:
        first = node.generators[0]
        outer = call("iterate", self.visit(first.iter))  # of the scope around
        self.scopes.append(Scope(node))
        for generator in node.generators:
            if generator.is_async:
                raise Unfollowable("it is asynchronous")
            generator.iter = outer if generator is first else call("iterate", self.visit(generator.iter))
            generator.target = self.visit(generator.target)
            generator.ifs = [self.truth(self.visit(test)) for test in generator.ifs]
        for field in ("elt", "key", "value"):
            if hasattr(node, field):
                setattr(node, field, self.visit(getattr(node, field)))
        self.scopes.pop()
        return placed(node, "new", node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    # Calls

    def visit_Call(self, node: ast.Call) -> Any:
        function = node.func
        if isinstance(function, ast.Name) and function.id == "super" and self.resolved("super") == "global":
            first = next((name for name in reversed(self.first) if name), None)
            if not node.args and first is not None:
                node.args = [named("__class__"), named(first)]
                return node  # the builtin itself: what is asked of it passes `get`
        self.generic_visit(node)
        for keyword in node.keywords:
            if keyword.arg is None:
                keyword.value = call("iterate", keyword.value)
        found = call("call", node.func, *node.args)
        found.keywords = node.keywords
        return ast.copy_location(found, node)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        self._defaults(node)
        return self.function(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self._defaults(node)
        node.decorator_list = [call("decorator", self.visit(decorator)) for decorator in node.decorator_list]
        return self.function(node)

    def _defaults(self, node: Function) -> None:
        arguments = node.args
        arguments.defaults = [self.visit(default) for default in arguments.defaults]
        arguments.kw_defaults = [None if value is None else self.visit(value) for value in arguments.kw_defaults]

    # Statements

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        node.iter = call("iterate", node.iter)
        return node

    def _tested(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = self.truth(node.test)
        return node

    visit_If = visit_While = visit_Assert = visit_IfExp = _tested

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        if any(isinstance(target, (ast.Tuple, ast.List)) for target in node.targets):
            node.value = call("iterate", node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return ast.Pass()
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        operator = type(node.op).__name__
        target = node.target
        before: Body = []
        if isinstance(target, ast.Name):
            self.visit_Name(target)
            now: ast.expr = self.visit_Name(named(target.id))
        elif isinstance(target, ast.Attribute):
            base = self._kept(self.visit(target.value), before)
            name = self.mangled(target.attr)
            now, target.value = call("get", base, name), call("writable", base, name)
        else:
            base = self._kept(self.visit(target.value), before)
            key = self._kept(self.index(target.slice), before)
            now, target.value, target.slice = call("item", base, key), call("writable", base, None), key
        changed = call("change", operator, now, self.visit(node.value))
        return [*before, ast.Assign([target], changed)]

    def _kept(self, value: ast.expr, before: Body) -> ast.expr:
        """Binds a value to a new name."""
        self.temporaries += 1
        name = f"_gluonjit_{self.temporaries}"
        before.append(ast.Assign([ast.Name(name, ast.Store())], value))
        return named(name)

    def visit_With(self, node: ast.With) -> Any:
        self.generic_visit(node)
        for item in node.items:
            item.context_expr = call("manage", item.context_expr)
        return node

    def visit_YieldFrom(self, node: ast.YieldFrom) -> Any:
        node.value = call("iterate", self.visit(node.value))
        return node

    def visit_Import(self, node: ast.Import) -> Any:
        for alias in node.names:
            self.before.append(ast.Expr(call("imports", alias.name, None)))
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.level:
            raise Unfollowable("it has a relative import in its body")
        for alias in node.names:
            self.before.append(ast.Expr(call("imports", node.module, alias.name)))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        self.refuse("it defines a class")
        return ast.Pass()

    def visit_Match(self, node: Any) -> Any:
        if any(type(part).__name__ == "MatchClass" for part in ast.walk(node)):
            self.refuse("it matches attributes of classes")
        node.subject = self.operand(self.visit(node.subject), "whole")
        for case in node.cases:
            case.guard = None if case.guard is None else self.truth(self.visit(case.guard))
            case.body = self.statements(case.body)
        return node

    def _asynchronous(self, node: ast.AST) -> Any:
        raise Unfollowable("it is asynchronous")

    visit_AsyncFunctionDef = visit_AsyncFor = visit_AsyncWith = visit_Await = _asynchronous
