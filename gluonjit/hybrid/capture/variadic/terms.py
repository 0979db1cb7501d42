"""Values as terms: two programs are equal if their results are equal terms, whatever the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gluonjit.hybrid.capture.variadic.program import ADD_UP, CHILD, GATHER_UP, SPREAD, Variadic
from gluonjit.hybrid.capture.variadic.reading import Dialect, Listed, Unlike, read
from gluonjit.hybrid.capture.variadic.roles import Roles
from gluonjit.program.trace import Attrs, Shaped, Trace


class Terms:
    """A domain in which a value is a number: equal terms have equal ones. `names` says what each operand is."""

    def __init__(self, names: Mapping[int, Any]) -> None:
        self._names = names  # a list of names for an operand of several children
        self._numbers: dict[Any, int] = {}

    def _number(self, term: Any) -> int:
        return self._numbers.setdefault(term, len(self._numbers))

    def operand(self, position: int) -> Any:
        """An operand by what it is to the call."""
        name = self._names[position]
        if isinstance(name, list):
            return Listed(tuple([self.named(part) for part in name]))
        return self.named(name)

    def named(self, name: Any) -> int:
        """The operand of this name."""
        return self._number(("operand", name))

    def constant(self, array: Any) -> int:
        """Constants are the same where they are the same array."""
        return self._number(("constant", id(array)))

    def apply(self, name: str, attrs: Attrs, inputs: Sequence[int], outputs: Sequence[Shaped]) -> list[int]:
        """One term a result."""
        return [self._number((name, attrs, tuple(inputs), number)) for number in range(len(outputs))]

    def add(self, terms: Sequence[int], shaped: Shaped) -> int:
        """The order of terms does not matter."""
        return self._number(("sum", tuple(sorted(terms)))) if len(terms) > 1 else terms[0]


def is_like(variadic: Variadic, trace: Trace, children: Roles, dialect: Dialect) -> bool:
    """Tells whether a trace equals a variadic program for this number of children."""
    names: dict[int, Any] = {}
    count = children.count(trace.operands)
    for role, positions in enumerate(children.roles):
        if children.of_rows:
            names[positions[0]] = [(role, child) for child in range(count)]
        else:
            names.update((position, (role, child)) for child, position in enumerate(positions))
    shared = [position for position in range(len(trace.operands)) if position not in names]
    names.update((position, number) for number, position in enumerate(shared))
    domain = Terms(names)
    try:
        found = read(trace, domain, dialect)
    except Unlike:
        return False
    return found == _unrolled(variadic, domain, len(shared), count)


def _unrolled(variadic: Variadic, domain: Terms, shared: int, count: int) -> list[int]:
    """The results of a variadic program for a node with `count` children."""
    terms: list[list[list[int]]] = []  # of each value its terms: of the node, or of each child
    for source in variadic.sources:
        if source.role is None and source.constant is None:
            terms.append([[domain.named(source.number)]])
        elif source.role is None:
            terms.append([[domain.constant(source.constant)]])
        else:
            terms.append([[domain.named((source.role, child))] for child in range(count)])

    def part(number: int, child: int) -> list[int]:
        return terms[number][child if variadic.spaces[number] == CHILD else 0]

    def value(number: int, child: int) -> int:
        return domain.add(part(number, child), variadic.shapes[number])

    for op in variadic.ops:
        many = range(count) if variadic.spaces[op.outputs[0]] == CHILD else range(1)
        if op.name == SPREAD:
            terms.append([terms[op.inputs[0]][0] for _ in many])
        elif op.name == GATHER_UP:
            terms.append([[term for part in terms[op.inputs[0]] for term in part]])
        elif op.name == ADD_UP:
            terms.append([[term for number in op.inputs for term in part(number, child)] for child in many])
        else:
            shaped = [variadic.shapes[number] for number in op.outputs]
            inputs = [[value(number, child) for number in op.inputs] for child in many]
            found = [domain.apply(op.name, op.attrs, given, shaped) for given in inputs]
            terms += [[[results[k]] for results in found] for k in range(len(op.outputs))]
    return [value(number, 0) for number in variadic.results]
