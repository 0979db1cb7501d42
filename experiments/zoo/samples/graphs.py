"""Directed acyclic graphs, and molecules."""

from __future__ import annotations

from typing import Any

from numpy.random import RandomState

from experiments.zoo.samples import floats, integers

FEATURES, CLASSES = 10, 4  # of a vertex
ELEMENTS, BONDS = 5, 3
VALENCES = (4, 3, 2, 1, 1)  # of the elements

Edges = list[list[int]]
"""For each vertex those it has edges from. Vertices are in topological order."""

Bonds = list[list[tuple[int, int]]]
"""For each atom its neighbours: (atom, kind of bond)."""


def random_dag(random: RandomState, size: int) -> Edges:
    """A graph in which each vertex but the first has one to three predecessors."""
    edges: Edges = [[]]
    for vertex in range(1, size):
        count = int(random.randint(1, min(vertex, 3) + 1))
        edges.append(sorted(random.choice(vertex, count, replace=False).tolist()))
    return edges


def reversed_edges(edges: Edges) -> Edges:
    """Return for each vertex those that it has edges to."""
    backwards: Edges = [[] for _ in edges]
    for vertex, sources in enumerate(edges):
        for source in sources:
            backwards[source].append(vertex)
    return backwards


def dags(count: int, random: RandomState) -> list[Any]:
    """Graphs of 2 to 12 vertices, with features and a class for each vertex."""
    samples = []
    for _ in range(count):
        size = int(random.randint(2, 13))
        features = floats(random.uniform(-1, 1, (size, FEATURES)))
        samples.append((features, random_dag(random, size), integers(random.randint(0, CLASSES, size))))
    return samples


def random_molecule(random: RandomState, size: int) -> tuple[list[int], Bonds]:
    """Elements and bonds of a connected molecule that keeps to the valences, with a ring now and then."""
    elements = [0] + random.randint(0, ELEMENTS, size - 1).tolist()
    bonds: Bonds = [[]]
    free = [VALENCES[elements[0]]]
    for atom in range(1, size):
        open_atoms = [other for other in range(atom) if free[other] > 0]
        if not open_atoms:
            return elements[:atom], bonds
        bonds.append([])
        free.append(VALENCES[elements[atom]])
        _bind(random, bonds, free, atom, int(random.choice(open_atoms)))
    ends = [atom for atom in range(2, size) if free[atom] > 0 and free[0] > 0 and not _bound(bonds, 0, atom)]
    if ends:
        _bind(random, bonds, free, ends[-1], 0)
    return elements, bonds


def _bind(random: RandomState, bonds: Bonds, free: list[int], one: int, two: int) -> None:
    """Bind two atoms, up to three times."""
    kind = int(random.randint(0, min(free[one], free[two], BONDS)))
    bonds[one].append((two, kind))
    bonds[two].append((one, kind))
    free[one] -= kind + 1
    free[two] -= kind + 1


def _bound(bonds: Bonds, one: int, two: int) -> bool:
    return any(atom == two for atom, _ in bonds[one])


def molecules(count: int, random: RandomState) -> list[Any]:
    """Molecules of 2 to 10 atoms with a number each."""
    samples = []
    for _ in range(count):
        elements, bonds = random_molecule(random, int(random.randint(2, 11)))
        samples.append((integers(elements), bonds, floats(random.uniform(-1, 1))))
    return samples
