"""PQ trees: all orders that the sets allow and no others; layouts by them; and the command that compares them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path

import pytest

from experiments.schedulers.aligning import Aligned
from experiments.schedulers.columns import Column, Rows
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


@pytest.mark.parametrize("seed", range(30))
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


def step(*columns: tuple[int, list[list[int]]]) -> list[Column]:
    """A step, whose first column is its result: arenas, and the rows of each node."""
    return [
        Column(arena, [row for rows in of for row in rows], [len(rows) for rows in of], not number)
        for number, (arena, of) in enumerate(columns)
    ]


def singly(*rows: int) -> list[list[int]]:
    return [[row] for row in rows]


def test_steps_that_read_rows_in_another_order_are_laid_out_in_one() -> None:
    steps = [step((0, singly(0, 1, 2, 3))), step((0, singly(4, 5, 6, 7)), (0, singly(2, 0, 3, 1)))]
    steps.append(step((0, singly(8, 9)), (0, singly(7, 4)), (0, singly(2, 3))))
    rows = Rows(steps, [(10, 4)], [])
    assert rows.bytes(rows.copied()) == 4 * (4 + 2)
    assert rows.copied(Aligned(rows).orders) == []


def test_an_operand_that_contradicts_others_is_gathered() -> None:
    pairs = [(0, 1), (1, 2), (0, 2)]  # three of the same three rows: in no order are all of them neighbours
    steps = [step((0, singly(0, 1, 2)))]
    steps += [step((0, singly(3 + 2 * k, 4 + 2 * k)), (0, singly(*pair))) for k, pair in enumerate(pairs)]
    rows = Rows(steps, [(9, 4)], [])
    assert [sorted(copied.tolist()) for _, copied in rows.copied(Aligned(rows).orders)] == [[0, 2]]


def test_rows_that_come_twice_are_gathered_and_children_come_in_their_order() -> None:
    leaves = [[0], [1], [2], [3], [4]]
    children = step((0, singly(5, 6)), (0, [[3, 1], [4, 0]]), (1, singly(0, 0)))
    rows = Rows([step((0, leaves)), children], [(7, 4), (1, 8)], [(1, range(1))])
    copied = rows.copied(Aligned(rows).orders)
    assert [(arena, found.tolist()) for arena, found in copied] == [(1, [0, 0])] and rows.bytes(copied) == 16
    assert len(rows.copied()) == 2


@pytest.mark.parametrize("seed", range(15))
def test_a_layout_is_an_order_of_all_rows_and_no_worse_than_one_may_be(seed: int) -> None:
    rng = random.Random(seed)
    first, second = rng.randint(2, 4), rng.randint(2, 3)
    steps = [step((0, singly(*range(first))))]
    steps.append(step((1, singly(*range(second))), (0, singly(*[rng.randrange(first) for _ in range(second)]))))
    steps.append(step((2, singly(0, 1)), (1, singly(*rng.sample(range(second), 2))), (0, singly(0, 1))))
    rows = Rows(steps, [(first, 4), (second, 4), (2, 4)], [])
    orders = Aligned(rows).orders
    assert [sorted(order) for order in orders.values()] == [[*range(first)], [*range(second)], [0, 1]]
    found = rows.bytes(rows.copied(orders))
    every = product(*[permutations(range(count)) for count, _ in rows.arenas])
    best = min(rows.bytes(rows.copied(dict(enumerate(each)))) for each in every)
    assert found >= best and (found == 0 or best > 0)


def test_the_command_compares_layouts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    from experiments.schedulers.cli import main

    page, figures = tmp_path / "page.md", tmp_path / "figures.json"
    options = "--engine torch --layouts --models mv-rnn,dag-rnn,bilstm-char --workloads treelstm-builtin --batch-size 4"
    assert main([*options.split(), "--markdown", str(page), "--json", str(figures)]) == 0
    rows = json.loads(figures.read_text(encoding="utf-8"))["rows"]
    assert [row["name"] for row in rows] == ["mv-rnn", "dag-rnn", "bilstm-char", "treelstm-builtin"]
    assert all(row["single"][0] >= row["trees"][0] > 0 and row["trees"][1] > 0 for row in rows)
    said = capsys.readouterr().out
    assert "| `dag-rnn` |" in said and said.strip() in page.read_text(encoding="utf-8")
