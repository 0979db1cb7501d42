"""ED-Batch's layout (Chen et al. 2023): a PQ tree of each arena, then orders that results and operands have in common.

What a step makes lies together, and so does each of its operands, unless that contradicts what came before. Then which
parts of one are next to each other is said of the others, to a fix point; children in any order get one, and lists that
may be read backwards a direction. An operand that contradicts the rest is left out: it is gathered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from experiments.schedulers.columns import Column, Rows
from experiments.schedulers.pqtree import Conflict, Node, PQTree

ROUNDS = 50
"""At most, of saying what all steps know."""


class Parts(NamedTuple):
    """Parts of a column that a node of a tree has, as nodes of the step, and whether their own order is backwards."""

    owner: Node
    ordered: bool
    of: list[frozenset[int]]
    backwards: bool | None


class Aligned:
    """A layout of the rows of a plan. `orders` has those of each arena, by their places in the plan."""

    def __init__(self, rows: Rows) -> None:
        self._trees = [PQTree(range(count)) for count, _ in rows.arenas]
        for arena, filled in rows.inputs:
            self._together(arena, filled)
        self._columns = [[column for column in step if column.distinct] for step in rows.steps]
        for made in (True, False):
            for columns in self._columns:
                for column in [column for column in columns if column.made == made]:
                    self._begin(columns, column)
        self._settle(self._columns)
        for columns in reversed(self._columns):
            for column in [*columns]:
                self._decide(columns, column)
        self._settle(self._columns)
        self._turns = self._directions()
        self.orders = {arena: [*self._frontier(tree.root)] for arena, tree in enumerate(self._trees)}

    def _together(self, arena: int, rows: Sequence[int]) -> bool:
        return len(rows) > 1 and self._trees[arena].reduce(rows)

    def _begin(self, columns: list[Column], column: Column) -> None:
        """Put the rows of a column together, and what one node has of them in its order."""
        try:
            self._together(column.arena, [*column.nodes])
            for rows in column.rows:
                for pair in zip(rows, rows[1:]):
                    self._together(column.arena, pair)
        except Conflict:
            columns.remove(column)

    def _settle(self, steps: Iterable[list[Column]]) -> None:
        """Say of all columns of each step what one of them knows, until nothing is new."""
        for _ in range(ROUNDS):
            if not any([self._align(columns) for columns in steps]):
                return

    def _align(self, columns: list[Column]) -> bool:
        changed = False
        for source in [*columns]:
            known = [*self._subsets(source)] if source in columns and all(source.rows) else []
            for other in [*columns]:
                for nodes in known:
                    if other is source or other not in columns or source not in columns:
                        break
                    try:
                        changed |= self._together(other.arena, [row for node in nodes for row in other.rows[node]])
                    except Conflict:
                        columns.remove(max(source, other, key=columns.index))
        return changed

    def _subsets(self, column: Column) -> Iterator[frozenset[int]]:
        """Yield the nodes of each part of a column that lies together, and of each two that are next to each other."""
        for parts in self._parts(column):
            yield from parts.of
            if parts.ordered:
                yield from [one | other for one, other in zip(parts.of, parts.of[1:])]

    def _parts(self, column: Column) -> Iterator[Parts]:
        top, run = self._trees[column.arena].top(column.nodes)
        waiting = [(top, True, run)] if len(run) > 1 else [(top, top.ordered, top.children)]
        while waiting:
            owner, ordered, children = waiting.pop()
            waiting += [(child, child.ordered, child.children) for child in children if child.children]
            found: list[frozenset[int]] = []
            some: list[Any] = []
            backwards = None
            for child in children:
                values = [*child.values()]
                if some:  # of the same node, so its order shows which way they lie
                    mine = column.rows[column.nodes[values[0]]]
                    if values[0] in mine and some[-1] in mine:
                        backwards = mine.index(values[0]) < mine.index(some[-1])
                some += values
                nodes = self._whole(column, some)
                if nodes:
                    found.append(nodes)
                    some = []
            if children and not some:
                yield Parts(owner, ordered, found, backwards)

    def _whole(self, column: Column, rows: Sequence[int]) -> frozenset[int] | None:
        """Return the nodes that have these rows, if they have no others."""
        nodes = frozenset([column.nodes[row] for row in rows])
        return nodes if sum([len(column.rows[node]) for node in nodes]) == len(rows) else None

    def _decide(self, columns: list[Column], column: Column) -> None:
        """Give an order to what may lie in any, that of the plan, and say it of the other columns of the step."""
        tree = self._trees[column.arena]
        while True:
            self._settle([columns])
            if column not in columns:
                return
            free = next((one for one in self._parts(column) if not one.ordered and len(one.of) > 2), None)
            if free is None:
                return
            children = sorted(free.owner.children, key=lambda child: min([column.nodes[one] for one in child.values()]))
            for pair in zip(children, children[1:]):
                tree.reduce([*chain(*[child.values() for child in pair])])

    def _directions(self) -> Directions:
        """Choose which lists are read backwards, so that those of one step agree."""
        found = Directions()
        for columns in self._columns:
            first: dict[frozenset[int], Parts] = {}
            for column in columns:
                for parts in self._parts(column):
                    if parts.backwards is not None:
                        found.join(parts.owner, None, parts.backwards)
                    if len(parts.of) > 1:
                        known = first.setdefault(frozenset().union(*parts.of), parts)
                        if parts.of[0] in (known.of[0], known.of[-1]):
                            found.join(parts.owner, known.owner, parts.of[0] != known.of[0])
        return found

    def _frontier(self, root: Node) -> Iterator[Any]:
        waiting = [root]
        while waiting:
            node = waiting.pop()
            waiting += node.children if self._turns.find(node)[1] else node.children[::-1]
            if not node.children:
                yield node.value


class Directions:
    """Nodes that are read backwards: sets of nodes that depend on each other. None is one that never is."""

    def __init__(self) -> None:
        self._above: dict[Node | None, tuple[Node | None, bool]] = {}

    def find(self, node: Node | None) -> tuple[Node | None, bool]:
        """Return the node that decides, and whether this one is read the other way."""
        other = False
        while node in self._above:
            node, turned = self._above[node]
            other ^= turned
        return node, other

    def join(self, one: Node | None, other: Node | None, turned: bool) -> None:
        """Let both be read in the same way, or if `turned` in different ones, unless that is decided."""
        (a, of_one), (b, of_other) = self.find(one), self.find(other)
        if a is not b:
            if a is None:
                a, b = b, a
            self._above[a] = b, turned ^ of_one ^ of_other
