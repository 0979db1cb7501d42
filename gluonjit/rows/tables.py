# cython: language_level=3, wraparound=False, initializedcheck=False
"""Tables of the steps that may run in C, from which `Blocks` are made: what each step reads and writes.

In Cython's pure-Python mode, like `blocks`.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

try:
    import cython
except ImportError:
    from gluonjit import standin as cython

if cython.compiled:
    from cython.cimports.gluonjit._arrays import Number, Numbers, Size
else:
    from gluonjit.standin import Number, Numbers, Size


def read(steps: tuple, programs: list, unfit: Any) -> tuple:
    """Reads steps, each with the number of its program and the spaces of its operands, or None.

    Steps whose rows are not one a node or one a child are given to `unfit`, with why. Returns the first 16 tables of
    `Blocks`, and its packed indices.
    """
    tables: list = [[], [], [], [], [], [], [0], [], [], [], [], [], [0], [], [], []]
    program, nodes, children, counts, apart, first, operand_at = tables[:7]
    arenas, _, sizes, spaces, _, result_at, result_arenas, result_begins, result_spaces = tables[7:]
    wanted: list = []
    parents: list = []
    packed: Number = 0
    k: Size
    number: Size
    rows: Number
    for number in range(len(steps)):
        step = steps[number]
        known = programs[number]
        why: str = ""
        if known is not None:
            arities = _arities(step)
            why = _why_not(step, arities, known)
            if why:
                unfit(number, why)
        if known is None or why:
            _leave_out(tables)
            continue
        kind = step.kind
        program.append(known[0])
        rows = step.count if kind.apart else step.places[0].end - step.places[0].begin
        units: Number = rows if kind.poly else step.count
        nodes.append(rows)
        counts.append(units)
        apart.append(kind.poly and step.count != rows)
        packed = _read_gathers(kind.groups, step.gathers, tables, wanted, packed)
        of: tuple = known[1]
        family: Number = _total(arities)
        for k in range(len(arenas) - operand_at[number]):
            spaces.append(of[k])
            if of[k]:
                family = sizes[operand_at[number] + k]
        children.append(family)
        first.append(-1)
        if family:
            parents.append((number, arities))
        operand_at.append(len(arenas))
        for place in step.places:
            result_arenas.append(place.arena)
            result_begins.append(place.begin)
        result_spaces += known[2]
        result_at.append(len(result_arenas))
    return tables, _packed(steps, wanted, packed, parents, tables)


@cython.cfunc
def _leave_out(tables: list) -> None:
    """Notes that a step runs as no program."""
    program, nodes, children, counts, apart, first, operand_at = tables[:7]
    for table in (nodes, children, counts, apart):
        table.append(0)
    program.append(-1)
    first.append(-1)
    operand_at.append(len(tables[7]))
    tables[12].append(len(tables[13]))


@cython.cfunc
def _read_gathers(groups: tuple, gathers: tuple, tables: list, wanted: list, packed: Number) -> Number:
    """Notes where the operands of a step lie; their indices go into `wanted`. Returns the length of all indices."""
    arenas: list = tables[7]
    begins: list = tables[8]
    sizes: list = tables[9]
    indices: list = tables[11]
    k: Size
    rows: Number
    each: Number
    for k in range(len(gathers)):
        gather = gathers[k]
        place = gather.place
        index = gather.index
        rows = place.end - place.begin if index is None else len(index)
        each = rows // len(groups[k])
        for position in range(len(groups[k])):
            arenas.append(place.arena)
            sizes.append(each)
            begins.append(place.begin + position * each if index is None else 0)
            indices.append(-1 if index is None else packed + position * each)
        if index is not None:
            wanted.append(index)
            packed += rows
    return packed


@cython.cfunc
def _arities(step: Any) -> Any:
    """The number of children of each node, or of its rows of any number; None if all have as many."""
    if not step.kind.apart:
        return step.arities
    parts = [(record.kind.program.lengths[0], len(nodes)) for record, nodes in step.parts]
    return np.repeat(*np.array(parts, np.int64).T)


@cython.cfunc
def _total(arities: Any) -> Number:
    """Counts the children of all nodes; 0 if there are none."""
    k: Size
    found: Number = 0
    if arities is None:
        return 0
    each: Numbers = arities
    for k in range(len(each)):
        found += each[k]
    return found


@cython.cfunc
def _packed(steps: tuple, wanted: list, packed: Number, parents: list, tables: list) -> Any:
    """Joins the indices, and after them the place where the children of each node of `parents` begin."""
    k: Size
    at: Size = packed
    begin: Number
    each: Number
    nodes: list = tables[1]
    children: list = tables[2]
    first: list = tables[5]
    for number, _ in parents:
        packed += nodes[number] + 1
    found = array("i", (0,)) * (packed + 1)
    into: cython.int[::1] = found
    if wanted:
        np.concatenate(wanted, out=np.frombuffer(found, dtype=np.int32)[:at], casting="same_kind")
    for number, arities in parents:
        first[number] = at
        begin = 0
        if arities is None:  # then each node has as many
            each = children[number] // nodes[number]
            for k in range(nodes[number] + 1):
                into[at + k] = k * each
        else:
            taken: Numbers = arities
            into[at] = 0
            for k in range(nodes[number]):
                begin += taken[k]
                into[at + k + 1] = begin
        at += nodes[number] + 1
    return found


@cython.cfunc
def _why_not(step: Any, arities: Any, known: tuple) -> str:
    """Says why a program cannot take the rows of a step, if it cannot."""
    k: Size
    place = step.places[0]
    nodes: Number = step.count if step.kind.apart else place.end - place.begin
    children: Number = -1 if arities is None else _total(arities)
    rows: Number
    operand: Size = 0
    spaces: tuple = known[1]
    for k in range(len(step.places)):
        place = step.places[k]
        if place.end - place.begin != (children if known[2][k] else nodes) or not nodes:
            return "rows of one step that are not one a node"
    groups: tuple = step.kind.groups
    gathers: tuple = step.gathers
    for k in range(len(gathers)):
        gather = gathers[k]
        place = gather.place
        rows = place.end - place.begin if gather.index is None else len(gather.index)
        if rows % len(groups[k]):
            return "operands of one group that have unlike numbers of rows"
        rows //= len(groups[k])
        for _ in range(len(groups[k])):
            if spaces[operand] and children < 0:
                children = rows // nodes * nodes
            if rows != (children if spaces[operand] else nodes):
                return "rows of one step that are not one a node"
            operand += 1
    if arities is not None and len(arities) != nodes:
        return "nodes of several rows with children"
    return ""
