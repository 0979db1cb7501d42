# cython: language_level=3, binding=False
"""Entries of a table as rows: equal ones are equal rows, and those that nobody has asked for before get the next ones.

In Cython's pure-Python mode, as `recorder` (`entries.pxd` has the types).
"""

from __future__ import annotations

from ctypes import c_float
from math import copysign

try:
    import cython
except ImportError:
    from gluonjit import standin as cython

if not cython.compiled:
    from gluonjit.graph.recorder import new_value

_MOST: cython.Py_ssize_t = 2**31 - 1  # rows of a graph: indices have 32 bits
_LEAST, _MOST_EXACT = 2.0**-126, 2.0**53


def rows_of(graph: GraphRows, entries: dict, numbers) -> tuple:
    """Returns the rows of the entries with these numbers; `entries` has the known ones, and gets the others."""
    k: cython.Py_ssize_t
    rows: list = list(numbers)
    for k in range(len(rows)):
        row = entries.get(rows[k])
        if row is None:
            if not 0 <= graph.rows < _MOST:
                raise OverflowError(f"a batch has no row after {graph.rows}")
            row = entries[rows[k]] = graph.rows
            graph.rows += 1
        rows[k] = row
    return tuple(rows)


def entries_value(graph: GraphRows, rows: tuple, spec: Spec, taped: cython.bint, base=None):
    """A value of rows each of which looks like `spec`."""
    count: cython.Py_ssize_t = len(rows)
    whole = spec.of_rows.get(~count)
    if whole is None:
        whole = spec.stacked(count)
    return new_value(rows[0] if count == 1 else rows, 0, whole, graph, taped, base)


def entries_at(graph: GraphRows, entries: dict, numbers, size: cython.Py_ssize_t, spec: Spec, taped: cython.bint):
    """Returns the value of a look-up in a table of this many entries; None if a number is out of range.

    numbers: a list, or a single one, whose value is one entry by itself.
    """
    single: cython.bint = type(numbers) is not list
    listed: list = [numbers] if single else numbers
    for each in listed:
        if type(each) is not int or not 0 <= each < size:
            return None
    if not listed:
        return None
    rows: tuple = rows_of(graph, entries, listed)
    return new_value(rows[0], 0, spec, graph, taped, None) if single else entries_value(graph, rows, spec, taped)


def is_exact(number) -> cython.bint:
    """True if entries tell a number from all others: it is no -0.0, nor does it come near to 0 or to infinity."""
    return _LEAST <= abs(number) < _MOST_EXACT if number else copysign(1.0, number) > 0.0


def number_in(graph: GraphRows, known: tuple, number):
    """A number as a value like those of a table, of which `known` has the entries and the spec.

    None if it is not exact.
    """
    row: Spec = known[1]
    if not is_exact(number):
        return None
    if row.dtype == "float32":
        number = c_float(number).value  # equal ones are one row
    return new_value(rows_of(graph, known[0], (number,))[0], 0, row, graph, False, None)
