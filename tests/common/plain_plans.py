"""Random graphs, and what their plans have to be: found out slowly, node by node, with nothing of the analysis."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

from gluonjit.analysis import Plan
from gluonjit.graph import Graph, Kind, Output, Record, Spec, Value, intern_spec, split_kind
from gluonjit.graph.entries import rows_of

ROW = intern_spec((4,), "float32", "cpu(0)", "stack")
WIDE = intern_spec((8,), "float32", "cpu(0)", "stack")
TWO = intern_spec((2, 4), "float32", "cpu(0)", "rows")
LONG = 8  # terms of a chain of additions that is one sum


class Kinds:
    """Kinds of every sort, made anew: what a kind is found to be is kept in it."""

    def __init__(self) -> None:
        product = Kind("product", (ROW,), (Output(WIDE, 0),), 1, None)
        rest = Kind("rest", (ROW, WIDE), (Output(ROW, 0), Output(WIDE, 1)), 2, None)
        first = Kind("child 1", (ROW, ROW), (Output(ROW, 0),), 1, None, children=((1,),))
        self.sums: dict[tuple[Spec, int], Kind] = {}
        self.all = [
            Kind("one", (ROW,), (Output(ROW, 0),), 1, None),
            Kind("pair", (ROW, ROW), (Output(ROW, 0),), 1, None),
            Kind("widen", (ROW,), (Output(WIDE, 0), Output(ROW, 1)), 2, None),
            Kind("narrow", (WIDE, ROW), (Output(ROW, 0),), 1, None),
            Kind("rows", (TWO, ROW), (Output(TWO, 0), Output(ROW, 2)), 3, None),
            Kind("lone", (ROW, WIDE), (Output(ROW, 0),), 1, None, lone="it has to"),
            Kind("impure", (ROW,), (Output(ROW, 0),), 1, None, pure=False),
            Kind("none", (), (Output(ROW, 0),), 1, None),
            Kind("add", (ROW, ROW), (Output(ROW, 0),), 1, None, operator=True, sum_of=2),
            Kind("add of two rows", (TWO, TWO), (Output(TWO, 0),), 2, None, operator=True, sum_of=2),
            Kind("add of three", (ROW, ROW, ROW), (Output(ROW, 0),), 1, None, operator=True, sum_of=3),
            split_kind((ROW, ROW), rest, (1,), ((0, product),)),
            first,
            Kind("child 2", (ROW, ROW, ROW), (Output(ROW, 0),), 1, None, children=((1, 2),), family=first),
        ]

    def sum_kind(self, spec: Spec, count: int) -> Kind:
        operand = intern_spec((count * spec.rows, *spec.row_shape), spec.dtype, spec.device, "rows")
        known = self.sums.get((spec, count))
        if known is None:
            known = self.sums[spec, count] = Kind(f"sum of {count}", (operand,), (Output(spec, 0),), spec.rows, None)
        return known


def random_graph(seed: int) -> tuple[Graph, Kinds, list[Value]]:
    """A graph, its kinds, and the values that somebody holds."""
    rng = random.Random(seed)
    graph, kinds = Graph(), Kinds()
    some = rng.sample(kinds.all, rng.randint(1, 6)) + kinds.all[-2:] * (rng.random() < 0.3)
    rows: dict[Spec, list[Any]] = {ROW: [], WIDE: [], TWO: []}
    for number in range(rng.randint(1, 4)):
        for spec in rows:
            rows[spec].append(graph.add_leaf((spec, number), None, spec).base)
    rows[ROW] += rows_of(graph, graph.entries("table", ROW), [rng.randrange(4) for _ in range(4)])
    held: list[Value] = []
    for number in range(rng.randint(1, 60)):
        if rng.random() < 0.2:
            graph.marks.append((graph.rows, None if rng.random() < 0.3 else number))
        if rng.random() < 0.05:
            held += _chain(rng, graph, kinds, rows)
        else:
            held += _node(rng, graph, rng.choice(some), rows)
    return graph, kinds, held


def _node(rng: random.Random, graph: Graph, kind: Kind, rows: dict[Spec, list[Any]]) -> list[Value]:
    operands = []
    for spec in kind.operands:
        recent = rows[spec][-4:] if rng.random() < 0.7 else rows[spec]
        operand = rng.choice(recent)
        if spec is TWO and rng.random() < 0.3:
            operand = (rng.choice(rows[ROW]), rng.choice(rows[ROW]))
        operands.append(operand)
    values = _record(graph, kind, rng.randrange(2) * 2).append(graph, tuple(operands), 0, None)
    for output, value in zip(kind.outputs, values):
        rows[output.spec].append(value.rows)
    return [value for value in values if rng.random() < 0.3]


def _chain(rng: random.Random, graph: Graph, kinds: Kinds, rows: dict[Spec, list[Any]]) -> list[Value]:
    """Additions one after the other, of which now and then one is read by somebody."""
    alike = rng.choice((kinds.all[8:9], kinds.all[9:10], [kinds.all[8], kinds.all[10]]))
    spec, held = alike[0].operands[0], []
    total = rng.choice(rows[spec])
    for _ in range(rng.randint(1, 14)):
        kind = rng.choice(alike)
        terms = [total, *[rng.choice(rows[spec]) for _ in kind.operands[1:]]]
        (value,) = _record(graph, kind, 0).append(graph, tuple(terms), 0, None)
        total = value.rows
        if rng.random() < 0.05:
            held.append(value)
    rows[spec].append(total)
    return [*held, value]


def _record(graph: Graph, kind: Kind, mode: int) -> Record:
    record = graph.records.get((kind, mode))
    if record is None:
        record = graph.records[kind, mode] = Record(kind, mode, 0.0)
    record.calls += 1
    return record


class Node(NamedTuple):
    """A node by the rows that it reads, operand by operand."""

    kind: Kind
    mode: int
    base: int
    reads: tuple[tuple[int, ...], ...]
    alive: bool

    @property
    def rows(self) -> range:
        return range(self.base, self.base + self.kind.rows)

    @property
    def all_read(self) -> list[int]:
        return [row for rows in self.reads for row in rows]


def plain_nodes(graph: Graph, kinds: Kinds, held: list[Value], sharing: bool) -> list[Node]:
    """The nodes that run, by their first row: products apart, long chains of additions as sums, and what is needed."""
    read = {id(value) for value in held}
    calls = sorted(
        (
            Node(
                record.kind,
                record.mode,
                base,
                tuple(
                    rows if isinstance(rows, tuple) else tuple(range(rows, rows + spec.rows))
                    for rows, spec in zip(operands, record.kind.operands)
                ),
                any(id(value) in read for value in record.values(node)),
            )
            for record in graph.records.values()
            for node, (operands, base) in enumerate(zip(record.operands, record.bases))
        ),
        key=lambda node: node.base,
    )
    return _needed(_folded([node for call in _apart(calls, sharing) for node in call], kinds))


def _apart(calls: list[Node], sharing: bool) -> list[list[Node]]:
    """Each call as the nodes that it runs as."""
    known: dict[Any, int] = {}
    found = []
    for call in calls:
        split = call.kind.split
        if split is None:
            found.append([call])
            continue
        base, reads, nodes = call.base, [call.reads[of] for of in split.kept], []
        for argument, kind in split.products:
            key = kind, call.mode, call.reads[argument], None if sharing else base
            made = known.setdefault(key, base)
            if made == base:
                nodes.append(Node(kind, call.mode, base, (call.reads[argument],), False))
            reads.append((made,))
            base += kind.rows
        found.append([*nodes, Node(split.rest, call.mode, base, tuple(reads), call.alive)])
    return found


def _folded(nodes: list[Node], kinds: Kinds) -> list[Node]:
    uses = Counter(row for node in nodes for row in node.all_read)
    by_first = {node.base: node for node in nodes if node.kind.sum_of}
    added = {
        (rows[0], node.kind.outputs[0].spec, node.mode)
        for node in by_first.values()
        for rows in node.reads
        if list(rows) == list(range(rows[0], rows[0] + len(rows)))
    }
    inner = {
        base
        for base, node in by_first.items()
        if not node.alive
        and (base, node.kind.outputs[0].spec, node.mode) in added
        and all(uses[row] == 1 for row in node.rows)
    }

    def terms(node: Node) -> list[tuple[int, ...]]:
        return [term for rows in node.reads for term in (terms(by_first[rows[0]]) if rows[0] in inner else [rows])]

    def members(node: Node) -> list[int]:
        return [node.base, *[base for rows in node.reads if rows[0] in inner for base in members(by_first[rows[0]])]]

    roots = [node for base, node in by_first.items() if base not in inner and len(terms(node)) >= LONG]
    gone = {base for root in roots for base in members(root)}
    sums = []
    for root in roots:
        kind = kinds.sum_kind(root.kind.outputs[0].spec, len(terms(root)))
        reads = tuple(row for term in terms(root) for row in term)
        sums.append(Node(kind, root.mode, root.base, (reads,), root.alive))
    return sorted([node for node in nodes if node.base not in gone] + sums, key=lambda node: node.base)


def _needed(nodes: list[Node]) -> list[Node]:
    found: list[Node] = []
    wanted: set[int] = set()
    for node in reversed(nodes):
        if node.alive or not node.kind.pure or wanted.intersection(node.rows):
            found.append(node)
            wanted.update(node.all_read)
    return found[::-1]


def plain_steps(nodes: list[Node]) -> set[frozenset[int]]:
    """The nodes of each step by phase and depth, by their first rows."""
    makers = {row: node for node in nodes for row in node.rows}
    below: dict[Any, set[Any]] = {(node.kind.family, node.mode): set() for node in nodes}
    for node in nodes:
        below[node.kind.family, node.mode] |= {
            (makers[row].kind.family, makers[row].mode) for row in node.all_read if row in makers
        }
    changed = True
    while changed:
        changed = False
        for reached in below.values():
            more = set().union(*[below[family] for family in reached]) - reached if reached else set()
            changed = changed or bool(more)
            reached |= more
    depth: dict[int, int] = {}
    steps: dict[Any, set[int]] = {}
    for node in nodes:
        family = node.kind.family, node.mode
        inside = [
            depth[makers[row].base]
            for row in node.all_read
            if row in makers and family in below[makers[row].kind.family, makers[row].mode]
        ]
        depth[node.base] = 1 + max(inside, default=0) if family in below[family] else 0
        steps.setdefault((family, depth[node.base]), set()).add(node.base)
    return {frozenset(step) for step in steps.values()}


def described(plan: Plan, bound: int) -> dict[str, Any]:
    """All that there is in a plan, by value."""
    return {
        "arenas": [(str(arena.spec), arena.rows, arena.sole) for arena in plan.arenas],
        "inputs": [tuple(chunk.place) for chunk in plan.inputs],
        "steps": [
            (
                step.kind.name,
                step.mode,
                step.count,
                [(record.kind.name, record.mode, nodes.tolist()) for record, nodes in step.parts],
                [
                    (tuple(gather.place), None if gather.index is None else gather.index.tolist())
                    for gather in step.gathers
                ],
                [tuple(place) for place in step.places],
                None if step.arities is None else step.arities.tolist(),
            )
            for step in plan.steps
        ],
        "rows": (plan.arena.tolist(), plan.position.tolist()),
        "live": [(record.kind.name, record.mode, nodes.tolist()) for _, record, nodes in plan.live],
        "numbers": (plan.nodes, plan.dropped, bound),
    }
