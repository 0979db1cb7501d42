"""From a function's statements to blocks: the statements between two of them stay, the blocks become cells."""

from __future__ import annotations

import ast
import copy
from typing import Any

from gluonjit.hybrid.capture.outlining.expressions import Expressions, weight_of
from gluonjit.hybrid.capture.outlining.known import loads, stores


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
