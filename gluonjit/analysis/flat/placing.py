"""The place of each row, and how the operands of each step are put together.

In Cython's pure-Python mode. The arrays are those of `reading` and `ordering`.
"""
# cython: language_level=3, wraparound=False, initializedcheck=False

from __future__ import annotations

try:
    import cython
except ImportError:
    from gluonjit import standin as cython


def place_inputs(
    given: list,
    sizes: cython.longlong[::1],
    arena: cython.longlong[::1],
    position: cython.longlong[::1],
) -> None:
    """Give places to rows that were there before the batch: `given` has pairs of an arena and a list of rows."""
    number: cython.longlong
    row: cython.longlong
    k: cython.Py_ssize_t
    place: cython.longlong
    for number, listed in given:
        rows: list = listed
        place = sizes[number]
        for k in range(len(rows)):
            row = rows[k]
            arena[row] = number
            position[row] = place
            place += 1
        sizes[number] = place


def lay_out(
    starts: list,
    order: cython.longlong[::1],
    begins: cython.longlong[::1],
    kinds: cython.longlong[::1],
    bases: cython.longlong[::1],
    firsts: cython.longlong[::1],
    operands: cython.longlong[::1],
    forms: cython.longlong[::1],
    form_at: cython.longlong[::1],
    arenas: list,
    sizes: cython.longlong[::1],
    arena: cython.longlong[::1],
    position: cython.longlong[::1],
    indices: cython.longlong[::1],
    arities: cython.longlong[::1],
    found: list,
) -> cython.Py_ssize_t:
    """Give places to the results of all steps, step by step, and find the rows that each step reads.

    Step k has the nodes from `starts[k]` to `starts[k + 1]` of `order`, and `arenas[k]` says in which arena each of
    its results lies. `forms` has for each record, from `form_at` on, the numbers of its `Form`, and before them its
    arity, which goes into `arities` for each node in `order`. `sizes` are the rows in each arena so far. Into `found`
    goes for each step (parts, gathers, places): a part is (record, where it begins, where it ends); a gather is
    (arena, first row, row after the last, where its `indices` begin, where they end), the last two being equal where
    it is all of these rows; a place is (arena, first row, row after the last). From then on nodes in `order` are
    counted from the first of their record. Returns how many indices there are.
    """
    step: cython.Py_ssize_t
    number: cython.Py_ssize_t
    begin: cython.Py_ssize_t
    end: cython.Py_ssize_t
    at: cython.longlong
    used: cython.Py_ssize_t = 0
    filled: cython.Py_ssize_t
    place: cython.longlong
    own: cython.longlong
    for step in range(len(starts) - 1):
        begin, end = starts[step], starts[step + 1]
        at = form_at[kinds[order[begin]]]
        gathers: list = []
        for number in range(forms[at]):
            filled = _gather(number, begin, end, order, kinds, firsts, operands, forms, form_at, indices, used)
            if filled == used:
                raise ValueError("a step reads nothing where it should read rows")
            own = arena[indices[used]]
            together = _position(indices, used, filled, position)
            gathers.append((own, indices[used], indices[filled - 1] + 1, used, used if together else filled))
            if not together:
                used = filled
        places: list = []
        of: tuple = arenas[step]
        for number in range(len(of)):
            own = of[number]
            place = _place(number, begin, end, order, kinds, bases, forms, form_at, own, sizes, arena, position)
            places.append((own, place, sizes[own]))
        found.append((_parts(begin, end, order, kinds, begins, forms, form_at, arities), gathers, places))
    return used


@cython.cfunc
def _parts(
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    order: cython.longlong[::1],
    kinds: cython.longlong[::1],
    begins: cython.longlong[::1],
    forms: cython.longlong[::1],
    form_at: cython.longlong[::1],
    arities: cython.longlong[::1],
) -> list:
    """Count the nodes of a step from the first of their record; returns where the nodes of each record are."""
    i: cython.Py_ssize_t
    kind: cython.longlong = kinds[order[begin]]
    found: list = []
    for i in range(begin, end):
        if kinds[order[i]] != kind:
            found.append((kind, begin, i))
            begin, kind = i, kinds[order[i]]
        order[i] -= begins[kind]
        arities[i] = forms[form_at[kind] - 1]
    found.append((kind, begin, end))
    return found


@cython.cfunc
def _gather(
    number: cython.Py_ssize_t,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    order: cython.longlong[::1],
    kinds: cython.longlong[::1],
    firsts: cython.longlong[::1],
    operands: cython.longlong[::1],
    forms: cython.longlong[::1],
    form_at: cython.longlong[::1],
    indices: cython.longlong[::1],
    used: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Append the rows of a group of operands to `indices`, role by role; returns where they end."""
    role: cython.Py_ssize_t
    i: cython.Py_ssize_t
    c: cython.Py_ssize_t
    first: cython.longlong
    columns: cython.longlong = 0
    at: cython.longlong = form_at[kinds[order[begin]]]
    width: cython.longlong = 0
    kind: cython.longlong
    for role in range(forms[at + forms[at + 2 + number]]):
        kind = -1
        for i in range(begin, end):
            if kinds[order[i]] != kind:
                kind = kinds[order[i]]
                at = form_at[kind]
                columns = at + forms[at + forms[at + 2 + number] + 1 + role]
                width = forms[columns]
            first = firsts[order[i]]
            if width == 1:
                indices[used] = operands[first + forms[columns + 1]]
                used += 1
            else:
                for c in range(width):
                    indices[used] = operands[first + forms[columns + 1 + c]]
                    used += 1
    return used


@cython.cfunc
def _position(
    indices: cython.longlong[::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t, position: cython.longlong[::1]
) -> cython.bint:
    """Put their positions in the place of rows; tells whether these go up one by one."""
    i: cython.Py_ssize_t
    place: cython.longlong
    expected: cython.longlong = position[indices[begin]]
    together: cython.bint = True
    for i in range(begin, end):
        place = position[indices[i]]
        indices[i] = place
        if place != expected:
            together = False
        expected += 1
    return together


@cython.cfunc
def _place(
    number: cython.Py_ssize_t,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    order: cython.longlong[::1],
    kinds: cython.longlong[::1],
    bases: cython.longlong[::1],
    forms: cython.longlong[::1],
    form_at: cython.longlong[::1],
    own: cython.longlong,
    sizes: cython.longlong[::1],
    arena: cython.longlong[::1],
    position: cython.longlong[::1],
) -> cython.longlong:
    """Give places in an arena to one result of a step's nodes; returns the first."""
    i: cython.Py_ssize_t
    row: cython.longlong
    at: cython.longlong
    first: cython.longlong
    place: cython.longlong = sizes[own]
    for i in range(begin, end):
        at = form_at[kinds[order[i]]]
        at += 2 + forms[at] + 2 * number
        first = bases[order[i]] + forms[at]
        for row in range(first, first + forms[at + 1]):
            arena[row] = own
            position[row] = place
            place += 1
    first = sizes[own]
    sizes[own] = place
    return first
