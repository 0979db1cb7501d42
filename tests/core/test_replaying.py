"""Recordings that are captured again: the same nodes as calls append, and values only where somebody asks for them."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from gluonjit.graph import Graph, Kind, Record, intern_spec
from gluonjit.graph.entries import rows_of
from gluonjit.graph.kinds import BatchedProgram, outputs_of
from gluonjit.graph.recorder import BatchRoom
from gluonjit.graph.replay import Replay
from gluonjit.hybrid.capture.reuse.cache import renumbered
from gluonjit.hybrid.capture.reuse.replaying import Node, packed

SPEC = intern_spec((2,), "float32", "cpu", "stack")
WORDS = 5


def room(sharing: bool) -> Any:
    """What a batch says of its room."""
    found = BatchRoom()
    found.room, found.changes, found.sharing = 1.0, 0, sharing
    return found


def kind(name: str, operands: int, results: int, sizes: int = 1) -> Kind:
    """A kind of nodes."""
    spec = SPEC if sizes == 1 else SPEC.stacked(sizes)
    outputs, rows = outputs_of([SPEC] * results)
    return Kind(name, (spec,) * operands, outputs, rows, BatchedProgram())


KINDS = [kind("one", 1, 1), kind("both", 2, 2), kind("rows", 1, 1, 3)]


class Opened:
    """A graph with records, in which words have been looked up."""

    def __init__(self, sharing: bool) -> None:
        self.batch, self.graph = room(sharing), Graph()
        self.records = [Record(each, 0, 0.125) for each in KINDS]
        self.words = rows_of(self.graph, self.graph.entries("words", SPEC), range(WORDS))

    def call(self, number: int, operands: tuple[Any, ...], depth: int) -> Any:
        """Capture a call."""
        return self.records[number].capture(self.batch, self.graph, operands, depth, self.batch.sharing)

    def told(self) -> list[Any]:
        """All that planning reads of the nodes, but where they were called."""
        return [(record.operands, record.depths, record.bases, record.calls) for record in self.records]


def drawn(choose: random.Random, opened: Opened, size: int) -> list[Node]:
    """Capture so many calls; the nodes as a template has them, in the numbers of this graph's rows."""
    nodes: list[Node] = []
    depths = dict.fromkeys(opened.words, 0)
    for _ in range(size):
        number = choose.randrange(len(KINDS))
        read = choose.choices(sorted(depths), k=3)
        operands = (tuple(read),) if number == 2 else tuple(read[: len(KINDS[number].operands)])
        depth = 1 + max(depths[row] for row in (read if number == 2 else operands))
        record = opened.records[number]
        before = len(record)
        values = opened.call(number, operands, depth)
        if len(record) > before:
            nodes.append(Node(number, 1, depth, 0, operands))
        depths.update((value.rows, value.depth) for value in values)
    return nodes


def again(opened: Opened, nodes: list[Node], words: tuple[int, ...], rows: list[int]) -> Replay:
    """Capture nodes again, which were recorded with these words and whose results had these rows."""
    local = {row: place for place, row in enumerate([*words, *rows])}
    found = Replay(opened.graph, [None])
    found.records = list(opened.records)
    found.entries = [opened.graph.lookups["words"]]
    assert found.begin(tuple(range(len(KINDS))), ((0, tuple(range(len(words)))),)) == -1
    found.capture(opened.batch, packed(nodes, local))
    return found


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_a_recording_appends_the_nodes_that_its_calls_would(sharing: bool, seed: int) -> None:
    recorded = Opened(True)
    nodes = drawn(random.Random(seed), recorded, 40)
    rows = list(range(WORDS, recorded.graph.rows))
    called, replayed = Opened(sharing), Opened(sharing)
    for opened in (called, replayed):  # what was there before shares with it, or not
        opened.call(0, (opened.words[0],), 1)
    counts = []
    for _ in range(2):
        moved = dict(zip(recorded.words, called.words))
        for node in nodes:
            values = called.call(
                node.record, tuple([renumbered(rows, moved.__getitem__) for rows in node.operands]), node.depth
            )
            moved.update(zip(rows[len(moved) - WORDS :], [value.rows for value in values]))
        found = again(replayed, nodes, recorded.words, rows)
        assert replayed.told() == called.told()
        assert replayed.graph.rows == called.graph.rows and replayed.batch.room == called.batch.room
        counts.append(sum(map(len, replayed.records)))
        assert [found.row(place) for place in range(WORDS + len(rows))] == list(moved.values())
    assert (len(set(counts)) == 1) is sharing


def test_nodes_above_a_deeper_one_are_as_much_deeper() -> None:
    opened = Opened(True)
    record, word = opened.records[0], opened.words[0]
    record.append(opened.graph, (word,), 1, None)  # which nobody finds
    (there,) = opened.call(0, (word,), 4)
    nodes = [Node(0, 1, 1, 0, (word,)), Node(0, 1, 2, 0, (WORDS,)), Node(1, 1, 3, 0, (WORDS + 1, word))]
    found = again(opened, nodes, opened.words, [WORDS, WORDS + 1, WORDS + 2, WORDS + 3])
    assert [found.value(number, 0).depth for number in range(3)] == [4, 5, 6]
    assert found.value(0, 0) is there


def test_values_are_made_when_somebody_asks_and_hold_their_nodes_from_then_on() -> None:
    opened = Opened(True)
    word = opened.words[0]
    found = again(opened, [Node(0, 1, 1, 0, (word,)), Node(1, 1, 2, 0, (WORDS, word))], opened.words, [WORDS, 6, 7])
    one, both = opened.records[:2]
    assert not one.held(0, 1) and not both.held(0, 1)
    value = found.value(1, 1)
    assert (value.rows, value.depth, value.spec, value.taped) == (WORDS + 2, 2, SPEC, False)
    assert value.graph is opened.graph and value is both.values(0)[1] and value is found.values(1)[1]
    assert both.held(0, 1) and not one.held(0, 1)
    del value
    assert not both.held(0, 1)
    (again_found,) = opened.call(0, (word,), 1)
    assert len(one) == 1 and one.held(0, 1) and again_found.rows == WORDS
    for record in opened.records:
        record.release()
    with pytest.raises(IndexError):
        one.values(0)


def test_what_is_not_known_is_named_by_its_place() -> None:
    opened = Opened(True)
    found = Replay(opened.graph, [None])
    assert found.begin((2, 0), ()) == 0
    found.records = [opened.records[0], None, opened.records[2]]
    assert found.begin((2, 0), ()) == -1
    assert found.begin((2, 1), ()) == 1
    assert found.begin((2, 0), ((3, (1,)),)) == 2
    holds = [True]
    opened.records[0].guards = SimpleNamespace(hold=lambda: holds[0])
    assert found.begin((2, 0), ()) == -1
    holds[0] = False
    assert found.begin((2, 0), ()) == 1
