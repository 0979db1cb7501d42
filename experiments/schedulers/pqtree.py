"""A PQ tree (Booth and Lueker 1976): all orders of some values in which those of each of several sets lie together.

A node is a leaf, or it has children in any order (P), or, if it is `ordered` (Q), in this order or backwards. A set is
taken in by `reduce`, from its leaves up to the lowest node that has them all; nothing else is looked at. Of what lies
below that node children are full (all their leaves are of the set), empty (none is), or partial.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

EMPTY, PARTIAL, FULL = range(3)


class Node:
    """A leaf, which has a value, or a node with two children or more; size: its leaves."""

    __slots__ = ("children", "ordered", "parent", "size", "value")

    def __init__(self, children: Sequence[Node] = (), ordered: bool = False, value: Hashable = None) -> None:
        self.children, self.value = list(children), value
        self.ordered = ordered and len(self.children) > 2
        self.parent: Node | None = None
        self.size: int = sum([child.size for child in self.children]) or 1

    def values(self) -> Iterator[Any]:
        """Yield the values of its leaves, from left to right."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            waiting += reversed(node.children)
            if not node.children:
                yield node.value


class Conflict(Exception):
    """No order has the values of all sets together."""


class PQTree:
    """A tree of these values, in any order at first."""

    def __init__(self, values: Iterable[Hashable]) -> None:
        self.leaves = {value: Node(value=value) for value in values}
        (root,) = _group([*self.leaves.values()])
        self.root = _adopted(root)
        self._counts: dict[Node, int] = {}

    def top(self, values: Iterable[Hashable]) -> tuple[Node, list[Node]]:
        """Return the lowest node that has all these leaves, and itself or those of its children that have any."""
        leaves = [self.leaves[value] for value in values]
        counts: dict[Node, int] = {}
        for leaf in leaves:
            node: Node | None = leaf
            while node is not None:
                counts[node] = counts.get(node, 0) + 1
                node = node.parent
        found = leaves[0]
        while counts[found] < len(leaves):
            assert found.parent is not None
            found = found.parent
        self._counts = counts
        full = self._label(found) == FULL
        return found, [found] if full else [child for child in found.children if child in counts]

    def reduce(self, values: Iterable[Hashable]) -> bool:
        """Leave the orders in which these values, each named once, lie together. Returns whether others were left out.

        Raises Conflict, and changes nothing, if there are none.
        """
        top, _ = self.top(values)
        made = top if self._label(top) == FULL else self._made(top)
        if made is top:
            return False
        parent = top.parent
        if parent is None:
            self.root = _adopted(made)
        else:
            parent.children[parent.children.index(top)] = _adopted(made)
            made.parent = parent
        return True

    def _label(self, node: Node) -> int:
        count = self._counts.get(node, 0)
        return EMPTY if not count else FULL if count == node.size else PARTIAL

    def _made(self, top: Node) -> Node:
        """Return what stands in the place of the lowest node that has all of the set."""
        if top.ordered:
            of, labels = top.children, [self._label(child) for child in top.children]
            some = [place for place, label in enumerate(labels) if label != EMPTY]
            begin, end = some[0], some[-1]
            if any(label != FULL for label in labels[begin + 1 : end]):
                raise Conflict
            if PARTIAL not in labels:
                return top
            first, last = self._sorted(of[begin]), self._sorted(of[end])[::-1]
            return Node([*of[:begin], *first, *of[begin + 1 : end], *last, *of[end + 1 :]], True)
        empty, partial, full = self._parted(top)
        if len(partial) > 2:
            raise Conflict
        if partial:
            parts = [self._sorted(node) for node in partial]
            full = [Node([*parts[0], *_group(full), *[part for of in parts[1:] for part in reversed(of)]], True)]
        return Node([*empty, *_group(full)]) if empty else full[0] if partial else top

    def _parted(self, node: Node) -> list[list[Node]]:
        """Return its children by their labels."""
        return [[child for child in node.children if self._label(child) == label] for label in (EMPTY, PARTIAL, FULL)]

    def _sorted(self, node: Node) -> list[Node]:
        """Return the parts of a node that lies at an end of the set: first those that are empty, then the full ones."""
        if self._label(node) != PARTIAL:
            return [node]
        empty, partial, full = self._parted(node)
        if len(partial) > 1:
            raise Conflict
        middle = self._sorted(partial[0]) if partial else []
        if not node.ordered:
            return [*_group(empty), *middle, *_group(full)]
        backwards = self._label(node.children[0]) > self._label(node.children[-1])
        children = node.children[::-1] if backwards else node.children
        labels = [self._label(child) for child in children]
        if labels != sorted(labels):
            raise Conflict
        return [*children[: len(empty)], *middle, *children[len(empty) + len(partial) :]]


def _group(nodes: list[Node]) -> list[Node]:
    """Return one node for those that may be in any order, if there are any."""
    return [Node(nodes)] if len(nodes) > 1 else nodes


def _adopted(made: Node) -> Node:
    """Tell the children of new nodes, which have no parents yet, whose they are."""
    waiting = [made]
    while waiting:
        node = waiting.pop()
        waiting += [child for child in node.children if child.parent is None]
        for child in node.children:
            child.parent = node
    return made
