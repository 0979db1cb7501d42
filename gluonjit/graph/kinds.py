"""A kind: the properties that nodes share to run together, and the results of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from gluonjit.graph.values import Spec

Arrays = Sequence[Any]
"""Arrays of a framework, such as operands."""
Group = tuple[tuple[int, ...], ...]
"""Operands that are gathered together: (roles, positions of a role). The rows of one role come after those of another,
and of one role node by node; a role has one position, or for operands that children bring one for each child."""


@dataclass(frozen=True)
class Output:
    """One result of a node: its spec and how many rows lie before it in the node's run of row numbers."""

    spec: Spec
    offset: int


def outputs_of(specs: Sequence[Spec]) -> tuple[tuple[Output, ...], int]:
    """Returns the outputs of a node with these specs, one after the other, and their number of rows."""
    outputs, offset = [], 0
    for spec in specs:
        outputs.append(Output(spec, offset))
        offset += spec.rows
    return tuple(outputs), offset


class Work(NamedTuple):
    """The work of ONE node of a kind.

    ops: operators in its program, whatever the number of nodes; flops: floating-point operations; bytes: operands and
    results of those operators; weights: bytes of what is the same for all nodes, read once a launch.
    """

    ops: int = 1
    flops: float = 0.0
    bytes: int = 0
    weights: int = 0


ONE_OPERATOR = Work()


class Split(NamedTuple):
    """A split of a kind: products of single arguments, which are separate nodes, and the rest.

    Operands of the rest are the arguments that it has `kept`, then the results of each of `products`: (argument, kind).
    The rows of a node's products come before those of its results.
    """

    rest: Kind
    kept: tuple[int, ...]
    products: tuple[tuple[int, Kind], ...]


class Checks:
    """Comparisons of a batched program with its trace: nodes that were compared, by what ran them.

    distrusted: what has differed, if anything did: then its nodes run one by one, from their traces.
    """

    __slots__ = ("compared", "distrusted")

    def __init__(self) -> None:
        self.compared: dict[str, int] = {}
        self.distrusted = ""

    def left(self, ran: str) -> int:
        """The number of nodes that are still to be compared."""
        return 0 if self.distrusted else max(ENOUGH - self.compared.get(ran, 0), 0)


ENOUGH = 2


class BatchedProgram:
    """A program that runs all nodes of a step. Engines derive their own from it, and decide how they call it.

    consts: the arrays that are the same for all nodes; operators: how many of them one call runs, or where nodes run
    alone one node; fused: a row program that does the same in C, or why there is none: None if nobody has asked;
    checks: comparisons with its trace, None where that is what runs; children: what it was made from instead of a
    trace, if it is for any number of these; stages: those of nodes of any length, which it is told apart in a step.
    """

    consts: Sequence[Any] = ()
    operators = 1
    fused: Any = None
    checks: Checks | None = None
    children: Any = None
    stages: Any = None
    __call__: Any


_numbers = count(1)


@dataclass(eq=False)
class Kind:
    """Nodes of one signature, which `program` runs.

    Kinds whose operands may have any number of rows (`poly`) share one `program`, so `family`, not the kind,
    says what runs together. So do kinds whose nodes have any number of children: `children` says for each role which
    operands those are, child by child. Where operands have numbers of rows of their own they are gathered `apart`.
    `number` is its own, and no other's ever: who knows a kind by it keeps nothing of it alive. `call` is the engine's
    note of what one node does, if it was traced.
    """

    name: str
    operands: tuple[Spec, ...]
    outputs: tuple[Output, ...]
    rows: int
    program: BatchedProgram
    pure: bool = True
    lone: str | None = None  # why its nodes run alone, if they do
    operator: bool = False  # a single operator of the program, not a cell
    poly: bool = False
    sum_of: int = 0  # > 0: adds up that many operands of equal spec
    split: Split | None = None  # what it runs as, where that is more than one node, or takes fewer operands
    family: Any = None
    work: Work = ONE_OPERATOR
    call: Any = None
    structure: Any = None  # how the engine puts the results together again
    children: tuple[tuple[int, ...], ...] = ()
    apart: bool = False
    bytes: int = field(init=False, default=0)
    groups: tuple[Group, ...] = field(init=False, default=())
    form: Any = field(init=False, default=None)  # the analysis's view of it, which is found out once
    number: int = field(init=False, default_factory=_numbers.__next__)

    def __post_init__(self) -> None:
        self.bytes = sum(output.spec.bytes for output in self.outputs)
        if self.lone is None and not self.apart:
            self.groups = operand_groups(self.operands, self.poly, self.children)
        else:
            self.groups = tuple(((position,),) for position in range(len(self.operands)))
        if self.family is None:
            self.family = self

    def rest_by(self, rest: Kind) -> None:
        """Runs its split calls by another rest from now on; plans with the old one are no longer valid."""
        assert self.split is not None
        if rest is not self.split.rest:
            self.split, self.program = self.split._replace(rest=rest), rest.program
            self.number = next(_numbers)

    @property
    def arity(self) -> int:
        """The number of children of a node, or of rows that it sums; 0 if that does not matter."""
        return self.rows_of(self.children[0]) if self.children else 0

    def rows_of(self, role: tuple[int, ...]) -> int:
        """The number of rows of a role that one node takes."""
        return sum([self.operands[position].rows for position in role])


def split_kind(
    arguments: tuple[Spec, ...], rest: Kind, kept: tuple[int, ...], products: Sequence[tuple[int, Kind]]
) -> Kind:
    """Returns the kind of calls that run as products of arguments and the rest of the cell."""
    before = sum([kind.rows for _, kind in products])
    work = [rest.work, *[kind.work for _, kind in products]]
    return Kind(
        rest.name,
        arguments,
        tuple([Output(output.spec, before + output.offset) for output in rest.outputs]),
        before + rest.rows,
        rest.program,
        rest.pure,
        structure=rest.structure,
        work=Work(*[sum(of) for of in zip(*work)]),
        split=Split(rest, kept, tuple(products)),
    )


def family_key(spec: Spec) -> tuple[Any, ...]:
    """The key of an operand shared by kinds of one family: everything but the number of rows."""
    rows = None if spec.mode == "rows" else spec.rows
    return spec.row_shape, spec.dtype, spec.device, rows


def operand_groups(operands: Sequence[Spec], poly: bool, children: Sequence[tuple[int, ...]] = ()) -> tuple[Group, ...]:
    """Operands that are gathered together, because a node takes equally many rows of one shape.

    Those of children are gathered role by role: they are many, and to take them apart would be another copy of all.
    """
    of_children = {position for role in children for position in role}
    groups: dict[Any, list[tuple[int, ...]]] = {}
    for position, spec in enumerate(operands):
        if position not in of_children:
            key = family_key(spec) if poly else (spec.row_shape, spec.dtype, spec.device, spec.rows)
            groups.setdefault((False, key), []).append((position,))
    for role in children:
        groups[True, role] = [role]
    return tuple(tuple(group) for group in groups.values())
