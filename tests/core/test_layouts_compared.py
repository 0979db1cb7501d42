"""PQ trees: all orders that the sets allow and no others; layouts by them; and the command that compares them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations, product

import pytest

from experiments.schedulers.pqtree import Conflict, Node, PQTree


def orders(node: Node) -> Iterator[tuple[int, ...]]:
    """All orders that a node stands for."""
    if not node.children:
        yield (node.value,)
        return
    turns = [node.children, node.children[::-1]] if node.ordered else permutations(node.children)
    for turn in turns:
        for parts in product(*[[*orders(child)] for child in turn]):
            yield tuple([value for part in parts for value in part])


def together(order: tuple[int, ...], chosen: set[int]) -> bool:
    places = [place for place, value in enumerate(order) if value in chosen]
    return places[-1] - places[0] == len(places) - 1


def whole(node: Node) -> bool:
    """Whether sizes and parents are right, and all nodes have two children or more, three where they are ordered."""
    return node.size == max(sum(child.size for child in node.children), 1) and all(
        child.parent is node and len(node.children) >= 2 + node.ordered and whole(child) for child in node.children
    )


@pytest.mark.parametrize("seed", range(60))
def test_a_tree_has_all_orders_in_which_sets_lie_together_and_no_others(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(2, 6)
    tree, left = PQTree(range(count)), {*permutations(range(count))}
    for _ in range(rng.randint(1, 7)):
        chosen = {*rng.sample(range(count), rng.randint(1, count))}
        allowed = {order for order in left if together(order, chosen)}
        before = [*orders(tree.root)]
        try:
            changed = tree.reduce(chosen)
        except Conflict:
            assert not allowed and [*orders(tree.root)] == before
        else:
            found = [*orders(tree.root)]
            assert {*found} == allowed and len(found) == len(allowed), "each of them once"
            assert changed == (allowed != left)
            left = allowed
        assert tree.root.parent is None and whole(tree.root)
        assert tuple(tree.root.values()) in left
