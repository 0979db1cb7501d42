"""From a function's expressions to blocks: tensor expressions that may run together, each a future cell.

An expression is split in the order in which Python evaluates it. Expressions that compute tensors from tensors collect
in the open block; everything else (recursion, items, attributes, tensors made of numbers) is evaluated before it, under
a name. So a tensor may be computed later than before, but only past clean expressions (see `effects`): before
everything else, and before control flow, the block ends. `sum(layer(rec(c)) for c in children)` is split in two: a list
evaluated for each child, and a sum in the block.
"""

from __future__ import annotations

import ast
import copy
from typing import Any

from gluonjit.hybrid.capture.guards.owners import is_user_function
from gluonjit.hybrid.capture.guards.rewriting import named
from gluonjit.hybrid.capture.guards.sources import deep_copy
from gluonjit.hybrid.capture.outlining.effects import Effects
from gluonjit.hybrid.capture.outlining.known import LAYER, PREFIX, WEIGHT, FunctionNames, loads, stores


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


_PARTED = (ast.Call, ast.Subscript, ast.Attribute, ast.Tuple, ast.List)
_FIXED = (ast.Constant, ast.Slice, ast.Tuple, ast.UnaryOp, ast.USub, ast.Load)
_TELLING = (ast.Is, ast.IsNot, ast.In, ast.NotIn)


class NotSplittable(Exception):
    """A comprehension that cannot be split."""


class Block:
    """Statements that may be a cell: `weight` operators; `writes` are the names they bind, in order.

    again: whether they are in a loop; tensors: names of which methods are called; parts: those of the model that it
    uses; evidence: whether something in it takes nothing but tensors.
    """

    def __init__(self) -> None:
        self.body: list[Any] = []
        self.writes: dict[str, None] = {}
        self.weight, self.evidence, self.again = 0, False, False
        self.tensors: set[str] = set()
        self.parts: dict[str, str] = {}

    def note_names(self, scope: FunctionNames) -> None:
        """Notes the names that its statements use."""
        for node in [n for s in self.body for n in ast.walk(s)]:
            name = scope.own_name(node)
            if name:
                self.parts[name] = scope.part(node)
            if isinstance(node, ast.Call):
                self.evidence |= scope.value(node.func) is not sum
                func = node.func
                if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id != scope.own:
                    self.tensors.update({func.value.id} & scope.variables)
            elif isinstance(node, ast.Subscript):
                self.evidence = True
                self.tensors.update(set(loads(node.value)) & scope.variables)

    @property
    def lines(self) -> str:
        """The source lines of the block."""
        first = min(s.lineno for s in self.body)
        last = max(s.end_lineno for s in self.body)
        return f"line {first}" if first == last else f"lines {first}-{last}"


class CellPlaceholder(ast.Pass):
    """A placeholder for the call of a block's cell."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.block = block


class Expressions:
    """Splits expressions into what is evaluated before the open block and what goes into it.

    minimum: so many operators are worth a cell.
    """

    count = 0
    pieces: list[Any] | None = None  # within a comprehension: what is evaluated for each item
    each = ""  # its variable

    def __init__(self, scope: FunctionNames, minimum: int = 2) -> None:
        self.scope, self.effects, self.minimum = scope, Effects(scope), minimum
        self.blocks: list[Block] = []
        self.block = Block()
        self.out: list[Any] = []
        self.loops: list[Any] = []  # around the statement that is looked at
        self.lists: set[str] = set()  # names of lists that are made here

    def flush(self) -> None:
        """Ends the block: a cell, if it has enough operators."""
        block, self.block = self.block, Block()
        if block.weight < self.minimum:
            self.out += block.body
        else:
            block.note_names(self.scope)
            block.again = bool(self.loops)
            self.blocks.append(block)
            self.out.append(ast.copy_location(CellPlaceholder(block), block.body[0]))

    def pure(self, node: Any) -> Any:
        """Returns the expression as part of the block; non-operators in it are evaluated before."""
        if isinstance(node, ast.Name) and node.id in self.scope.variables and node.id != self.scope.own:
            return self.opaque(node) if node.id == self.each else node
        if not loads(node) and not any(isinstance(n, ast.Call) for n in ast.walk(node)):
            return node
        if self.scope.part(node) == WEIGHT:
            return copy.copy(node)
        if isinstance(node, (ast.Tuple, ast.List, ast.Slice, ast.keyword)):
            return self._parts(node, 0)
        if self._is_operator(node):
            return self._parts(node, max(self.scope.operators(self.scope.value(getattr(node, "func", node))), 1))
        if isinstance(node, ast.ListComp):
            return self._comprehension(node) or self.opaque(node)
        if self.scope.sized(node) in self.block.writes:  # which is there only within the block
            return copy.copy(node)
        return self.opaque(node)

    def _is_operator(self, node: ast.AST) -> bool:
        if isinstance(node, (ast.UnaryOp, ast.Compare, ast.BinOp)) and self.scope.counters.issuperset(loads(node)):
            return False
        if isinstance(node, ast.UnaryOp):
            return not isinstance(node.op, ast.Not)
        if isinstance(node, ast.Compare):
            return len(node.ops) == 1 and not isinstance(node.ops[0], _TELLING)
        if isinstance(node, ast.BinOp):
            return not (isinstance(node.op, ast.Mod) and isinstance(node.left, (ast.Constant, ast.JoinedStr)))
        if isinstance(node, ast.Subscript):
            fixed = all(isinstance(n, _FIXED) for n in ast.walk(node.slice))
            computed = isinstance(node.value, ast.Call) and self._is_operator(node.value)
            part = self.scope.part(node.value)
            return fixed and (computed or part == WEIGHT or (not part and self._is_sliced(node)))
        if not isinstance(node, ast.Call):
            return False
        if self.scope.calls_operator(node) or self._is_sum(node):
            return True
        return self.scope.calls_method(node) and self._may_be_array(node.func.value)  # type: ignore[attr-defined]

    def _is_sliced(self, node: ast.Subscript) -> bool:
        """True of `x[..., 0]` and `x[:, 1:]`: what takes such an index is an array, neither a list nor a dictionary."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        along = any(isinstance(n, ast.Slice) or getattr(n, "value", 0) is ... for n in parts)
        several = len(parts) > 1 or not isinstance(node.slice, ast.Slice)
        return along and several and self._may_be_array(node.value)

    def _may_be_array(self, node: ast.AST) -> bool:
        """True if a method's object is checked to be a tensor at run time, or is an operator's result.

        What a library makes is not: arrays of numbers that are known stay so. Nor is what computed indices give, whose
        length is theirs.
        """
        if isinstance(node, ast.Name):
            return node.id in self.scope.variables - self.scope.objects and self.pieces is None
        if self._is_operator(node):
            return True
        if not isinstance(node, (ast.Subscript, ast.Call)) or self.pieces is not None:
            return False
        inner: Any = node
        while isinstance(inner, (ast.Subscript, ast.Call, ast.Attribute)):
            called = self.scope.value(inner.func) if isinstance(inner, ast.Call) else None
            if called is not None and not is_user_function(called):
                return False
            if isinstance(inner, ast.Subscript):
                if not all(isinstance(n, (*_FIXED, ast.Name)) for n in ast.walk(inner.slice)):
                    return False
            inner = inner.func if isinstance(inner, ast.Call) else inner.value
        return True

    def _is_sum(self, node: ast.Call) -> bool:
        if self.scope.value(node.func) is not sum or len(node.args) != 1 or node.keywords:
            return False
        (arg,) = node.args
        if isinstance(arg, ast.GeneratorExp):
            return self._comprehension(arg, tried=True) is not None
        return isinstance(arg, (ast.Name, ast.ListComp, ast.List, ast.Tuple))

    def _parts(self, node: Any, weight: int) -> Any:
        """Returns the node with its parts in the block."""
        new = copy.copy(node)
        func: Any = getattr(node, "func", None)
        of_tensor = isinstance(func, ast.Attribute) and self.scope.value(func) is None
        if of_tensor and self.scope.part(func) != LAYER:
            rest = [*node.args, *node.keywords]
            new.func = copy.copy(func)
            new.func.value = self._before(func.value, rest)
            new.func.weight = weight_of(new.func.value)
        slots = [(name, k, child) for name, k, child in children(node) if name != "func"]
        for number, (name, k, child) in enumerate(slots):
            rest = [other for _, _, other in slots[number + 1 :]]
            if isinstance(child, ast.GeneratorExp):
                found = self._comprehension(child) or self.opaque(child)
            else:
                found = self._before(child, rest)
            replace_child(new, node, name, k, found)
        new.weight = weight + sum(map(weight_of, ast.iter_child_nodes(new)))
        return new

    def _before(self, node: Any, rest: list[Any]) -> Any:
        """Returns a part of the block before `rest`: it runs by itself first if something in `rest` is not clean."""
        new = self.pure(node)
        held = weight_of(new) or any(self.scope.part(n) == WEIGHT for n in ast.walk(new))
        if held and not all(map(self.effects.clean, rest)):
            return self.gather(self._named(node), new)
        return new

    def opaque(self, node: Any, target: Any = None) -> Any:
        """Evaluates an expression before the block, under a name; without a name if `target` is False."""
        if self.pieces is not None:
            if not self.effects.clean(node):
                raise NotSplittable
            self.pieces.append(node)
            return self._named(node, f"{PREFIX}p{len(self.pieces)}")
        new = self._taken_apart(node) if isinstance(node, _PARTED) and self._has_operators(node) else node
        target = self._named(node) if target is None else target
        bound = set(stores(target)) | set(loads(target)) if target else set()
        block = self.block
        touched = not block.writes.keys().isdisjoint([*loads(new), *bound]) or not bound.isdisjoint(loads(*block.body))
        if touched or not self.effects.clean(node):
            self.flush()
        if target is False:
            return new
        self.out.append(assign(target, new))
        return target

    def _has_operators(self, node: ast.AST) -> bool:
        """True if something below an expression would be worth a cell."""
        if isinstance(node, ast.Subscript) and _is_of_numbers(node.slice):
            return self.counts(node.value)
        if isinstance(node, ast.Call) and any(isinstance(n, (ast.Starred, ast.GeneratorExp)) for n in node.args):
            return False
        if isinstance(node, ast.Call) and any(word.arg is None for word in node.keywords):
            return False
        return any(self.counts(n) for n in ast.iter_child_nodes(node))

    def counts(self, node: ast.AST) -> bool:
        if isinstance(node, ast.expr) and self._is_operator(node):
            return True
        return isinstance(node, (*_PARTED, ast.keyword)) and self._has_operators(node)

    def _taken_apart(self, node: Any) -> Any:
        """Returns a non-operator expression with its parts evaluated before, in order."""
        new = copy.copy(node)
        for name, k, child in children(node):
            if name == "slice" and _is_of_numbers(child):
                found = child
            elif isinstance(child, ast.keyword):
                found = copy.copy(child)
                found.value = self.atom(child.value)
            elif name == "func":
                found = child if self._stays(child, node) else self._atomic_callee(child)
            else:
                found = self.atom(child)
            replace_child(new, node, name, k, found)
        return new

    def _stays(self, func: ast.AST, node: ast.Call) -> bool:
        """True if the callee may be looked up after its arguments are evaluated."""
        simple = isinstance(func, ast.Name) or self.scope.own_name(func) or self.scope.value(func) is not None
        return bool(simple) and all(map(self.effects.clean, [*node.args, *node.keywords]))

    def _atomic_callee(self, func: Any) -> Any:
        if isinstance(func, ast.Attribute) and self._has_operators(func):
            func = copy.copy(func)
            func.value = self.atom(func.value)
        return self.opaque(func)

    def atom(self, node: Any) -> Any:
        """Returns a part of a non-operator: a constant, or a name."""
        if isinstance(node, (ast.Constant, ast.Slice)):
            return node
        new = self.pure(node)
        if isinstance(new, (ast.Name, ast.Constant)):
            return new
        return self.gather(self._named(node), new)

    def _named(self, node: Any, name: str = "") -> Any:
        self.count += 1
        name = name or f"{PREFIX}{self.count}"
        self.scope.variables.add(name)
        return ast.copy_location(named(name), node)

    def gather(self, target: Any, value: Any) -> Any:
        statement = assign(target, value)
        self.block.body.append(statement)
        self.block.writes.update(dict.fromkeys(stores(*statement.targets)))
        self.block.weight += weight_of(value)
        return target

    def _comprehension(self, node: Any, tried: bool = False) -> Any:
        """Cuts a comprehension in two, or gives None: a list of what is evaluated for each item, and the rest of that.

        tried: only tell whether it can be.
        """
        loop = node.generators[0]
        single = len(node.generators) == 1 and not loop.ifs and not loop.is_async and isinstance(loop.target, ast.Name)
        if not single or self.pieces is not None or not self.effects.clean(loop.iter):
            return None
        before = self.block, self.count, set(self.scope.variables)
        self.block = block = Block()
        self.pieces, self.each = [], loop.target.id
        self.scope.variables.add(loop.target.id)
        try:
            elt = self.pure(deep_copy(node.elt))
            pieces = self.pieces
        except NotSplittable:
            pieces = []
        finally:
            self.pieces, self.each = None, ""
            self.block = before[0]
        if not pieces or not weight_of(elt) or block.body or tried:
            self.count, self.scope.variables = before[1], before[2]
            return node if pieces and weight_of(elt) and not block.body else None
        names = [f"{PREFIX}p{number + 1}" for number in range(len(pieces))]
        places: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
        one = len(pieces) == 1
        listed = ast.ListComp(pieces[0] if one else ast.Tuple(pieces, ast.Load()), [loop])
        found = self.opaque(ast.copy_location(listed, node))
        self.scope.variables = before[2] | {found.id}
        self.lists.add(found.id)
        target = places[0] if one else ast.Tuple(places, ast.Store())
        new = ast.copy_location(type(node)(elt, [ast.comprehension(target, found, [], 0)]), node)
        new.weight = weight_of(elt)
        return new


def _is_of_numbers(index: ast.AST) -> bool:
    """True of an index whose arithmetic is taken for that of numbers, as `t - 1`: it calls nothing."""
    return not any(isinstance(n, ast.Call) for n in ast.walk(index))
