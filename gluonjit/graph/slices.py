# cython: language_level=3, binding=False
"""Rows of a value: one, several in a row, or some by their numbers: `x[i]`, `x[begin:end]`, `x[numbers]`.

In Cython's pure-Python mode, as `recorder` (`slices.pxd` has the types).
"""

from __future__ import annotations

try:
    import cython
    from cython import Py_ssize_t, cfunc
except ImportError:
    from gluonjit import standin as cython
    from gluonjit.standin import cfunc

if not cython.compiled:
    from gluonjit.graph.recorder import Value, new_value


@cython.freelist(1024)
@cython.no_gc
@cython.cclass
class Key:
    """A key of `[]` that is neither an integer nor a slice."""

    __slots__ = ("key",)

    def __init__(self, key: object) -> None:
        self.key = key

    def of(self, array):
        """Takes it of an array."""
        return array[self.key]


def sliced(value: Value, key):
    """Returns `x[key]` for an integer in range or a slice of some rows; None leaves the case to `references`."""
    spec: Spec = value.spec
    begin: Py_ssize_t
    end: Py_ssize_t
    row: Py_ssize_t
    if spec.mode != "rows":
        return None
    if type(key) is int:
        begin = _clipped(key)
        if begin < 0:
            begin += spec.rows
        if not 0 <= begin < spec.rows or not spec.row_shape:  # without a shape it is the engine's single number
            return None
        row = _row(value, begin)
        found = _spec(spec, -1)
        return _reference(value, row, found) if value.depth else _single(value, row, found, ~row)
    if type(key) is not slice:
        return None
    part: slice = key
    if part.step is not None:
        return None
    begin, end = _bound(part.start, 0, spec.rows), _bound(part.stop, spec.rows, spec.rows)
    if not 0 <= begin < end:
        return None
    found = _spec(spec, end - begin)
    if end - begin == 1:
        row = _row(value, begin)
        return _reference(value, row, found) if value.depth else _single(value, row, found, row)
    if isinstance(value.rows, tuple):
        rows: tuple = value.rows
        return _reference(value, rows[begin:end], found)
    return _reference(value, _row(value, begin), found)


def one_row(value: Value, row: Py_ssize_t, spec: Spec, place):
    """A row of a value, which looks like `spec`: of inputs equal ones, which have one `place`, are the same value."""
    return _reference(value, row, spec) if value.depth else _single(value, row, spec, place)


def picked(value: Value, numbers):
    """Returns `x[numbers]` for one or more integers. Raises IndexError if there is no such row."""
    found = _picked(value, [int(number) for number in numbers])
    if found is None and numbers and value.spec.mode == "rows":
        count = value.spec.rows
        wrong = next(number for number in numbers if not -count <= number < count)
        raise IndexError(f"index {wrong} is out of bounds for dimension 0 with size {count}")
    return found


@cfunc
def _picked(value: Value, numbers: list):
    """Does the same; also None for a row or number that does not exist."""
    spec: Spec = value.spec
    k: Py_ssize_t
    number: Py_ssize_t
    if spec.mode != "rows" or not numbers:
        return None
    rows: list = []
    for k in range(len(numbers)):
        if type(numbers[k]) is not int:
            return None
        number = _clipped(numbers[k])
        if number < 0:
            number += spec.rows
        if not 0 <= number < spec.rows:
            return None
        rows.append(_row(value, number))
    found: tuple = tuple(rows)
    value.graph.copies.append(found)
    return _reference(value, found if len(found) > 1 else found[0], _spec(spec, len(found)))


@cfunc
@cython.inline
@cython.exceptval(check=False)
def _bound(number, missing: Py_ssize_t, rows: Py_ssize_t) -> Py_ssize_t:
    """The row at which a slice begins or ends, of so many; -1 for what is no integer."""
    found: Py_ssize_t
    if number is None:
        return missing
    if type(number) is not int:
        return -1
    found = _clipped(number)
    if found < 0:
        found = max(found + rows, 0)
    return min(found, rows)


@cfunc
def _single(value: Value, row: Py_ssize_t, spec: Spec, place) -> Value:
    """A row of an input. A node's result is none: who holds a slice of it keeps it alive, a cache must not."""
    graph: GraphRows = value.graph
    singles: dict = graph.single_rows
    found = singles.get(place)
    if found is None:
        found = singles[place] = _reference(value, row, spec)
    return found


@cfunc
@cython.inline
@cython.exceptval(check=False)
def _clipped(number) -> Py_ssize_t:
    """Returns an integer, or one that is out of any range."""
    if cython.compiled:
        return PyNumber_AsSsize_t(number, cython.NULL)
    else:
        return number


@cfunc
@cython.inline
@cython.exceptval(-1)
def _row(value: Value, k: Py_ssize_t) -> Py_ssize_t:
    """The number of a value's k-th row."""
    number: Py_ssize_t
    if isinstance(value.rows, tuple):
        rows: tuple = value.rows
        if k >= len(rows):
            raise IndexError(f"a value of {len(rows)} rows has no row {k}")
        number = rows[k]
        return number
    number = value.rows
    return number + k


@cfunc
@cython.inline
def _spec(spec: Spec, rows: Py_ssize_t) -> Spec:
    """Returns the spec of this many rows of another, or for -1 of a single row."""
    found = spec.row if rows < 0 else spec.of_rows.get(rows)
    if found is None:
        found = spec.one_row() if rows < 0 else spec.with_rows(rows)
    return found


@cfunc
@cython.inline
def _reference(value: Value, rows, spec: Spec) -> Value:
    """A value that refers to rows of another."""
    return new_value(rows, value.depth, spec, value.graph, value.taped, value)
