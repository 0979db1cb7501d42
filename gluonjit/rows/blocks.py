# cython: language_level=3, wraparound=False, initializedcheck=False
"""Argument blocks: what the row programs of a stretch of steps are called with, as flat arrays of whole numbers.

In Cython's pure-Python mode. A block is a line of slots, as `gluonjit._rows` has them: an address and the bytes there.
"""

from __future__ import annotations

from array import array
from typing import Any

try:
    import cython
    from cython import bint, cfunc
except ImportError:
    from gluonjit import standin as cython
    from gluonjit.standin import cfunc

if cython.compiled:
    from cython.cimports.gluonjit._arrays import Flags, Number, Numbers, Size
else:
    from gluonjit.standin import Flags, Number, Numbers, Size

WHAT = {"constant": 0, "index": 1, "operand": 2, "base": 2, "gradient": 3, "result": 4, "seed": 5, "saved": 6}
"""What a slot of a form is: two numbers as they are; of an operand its index, rows or gradients; of a result its rows
or gradients; or a saved register, the numbers being the columns that are saved before it, of nodes and of children."""


@cython.cclass
class BlockForm:
    """The number of a program, and its slots after the first two, as three numbers each: what it is, and two more.

    node_columns, child_columns: what it saves of each node and each child.
    """

    program: Number
    count: Size
    node_columns: Number
    child_columns: Number
    slots: Numbers

    def __init__(self, program: int, slots: Any, node_columns: int, child_columns: int) -> None:
        self.program, self.count = program, len(slots) // 3 + 2
        self.node_columns, self.child_columns = node_columns, child_columns
        self.renew(slots)

    def renew(self, slots: Any) -> None:
        """Takes the slots of another flush: the same but for addresses of weights."""
        self.slots = slots or array("q", (0,))  # a view of Cython's is of something


@cfunc
def _part(whole: Numbers, ends: list, k: Size) -> Numbers:
    """Part k of an array."""
    begin: Size = ends[k]
    end: Size = ends[k + 1]
    return whole[begin:end]


@cython.cclass
class Blocks:
    """Steps of a plan as numbers: what each reads and writes, and the places of these rows.

    Of step k, `program[k]` is the number of its program or -1, its operands are those from `operand_at[k]` to
    `operand_at[k + 1]`, and its results likewise. Operands are rows from `begins` on, or those of the index from
    `indices` on where that is not -1. `flags`, as `choose` and `reach` take them, have a byte for each row of each
    arena, one arena after the other.
    """

    program: Numbers
    nodes: Numbers
    children: Numbers
    counts: Numbers
    apart: Numbers
    first: Numbers
    operand_at: Numbers
    arenas: Numbers
    begins: Numbers
    sizes: Numbers
    spaces: Numbers
    indices: Numbers
    result_at: Numbers
    result_arenas: Numbers
    result_begins: Numbers
    result_spaces: Numbers
    rows: Numbers
    strides: Numbers
    offsets: Numbers
    addresses: Numbers
    saved: Numbers
    packed: cython.int[::1]
    packed_at: Number
    at: Size

    def __init__(self, tables: list, rows: list, strides: list, packed: Any) -> None:
        """Joins the tables of `rows.tables`, the rows and bytes of a row of each arena, and packed indices."""
        k: Size
        arenas: Size = len(rows)
        found: list = [*tables, rows, strides, [0] * (arenas + 1)]
        numbers: list = []
        ends: list = [0]
        for table in found:
            numbers += table
            ends.append(len(numbers))
        whole: Numbers = array("q", numbers)  # one for all: each has its price
        self.program = _part(whole, ends, 0)
        self.nodes = _part(whole, ends, 1)
        self.children = _part(whole, ends, 2)
        self.counts = _part(whole, ends, 3)
        self.apart = _part(whole, ends, 4)
        self.first = _part(whole, ends, 5)
        self.operand_at = _part(whole, ends, 6)
        self.arenas = _part(whole, ends, 7)
        self.begins = _part(whole, ends, 8)
        self.sizes = _part(whole, ends, 9)
        self.spaces = _part(whole, ends, 10)
        self.indices = _part(whole, ends, 11)
        self.result_at = _part(whole, ends, 12)
        self.result_arenas = _part(whole, ends, 13)
        self.result_begins = _part(whole, ends, 14)
        self.result_spaces = _part(whole, ends, 15)
        self.rows = _part(whole, ends, 16)
        self.strides = _part(whole, ends, 17)
        self.offsets = _part(whole, ends, 18)
        for k in range(arenas):
            self.offsets[k + 1] = self.offsets[k] + self.rows[k]
        self.packed = packed
        self.packed_at = packed.buffer_info()[0]
        self._begin()

    @cfunc
    def _begin(self) -> None:
        """Makes room for what belongs to each flush: places of arenas, and what steps save."""
        arenas: Size = len(self.offsets)
        steps: Size = len(self.program)
        own: Numbers = array("q", (0,)) * (arenas + steps + 1)
        self.addresses, self.saved = own[:arenas], own[arenas:]
        self.at = -1

    def again(self) -> Blocks:
        """The same steps for another flush."""
        found: Blocks = Blocks.__new__(Blocks)
        found.program, found.nodes, found.children, found.counts = self.program, self.nodes, self.children, self.counts
        found.apart, found.first, found.operand_at, found.arenas = self.apart, self.first, self.operand_at, self.arenas
        found.begins, found.sizes, found.spaces, found.indices = self.begins, self.sizes, self.spaces, self.indices
        found.result_at, found.result_arenas = self.result_at, self.result_arenas
        found.result_spaces = self.result_spaces
        found.result_begins, found.rows, found.strides = self.result_begins, self.rows, self.strides
        found.offsets, found.packed, found.packed_at = self.offsets, self.packed, self.packed_at
        found._begin()
        return found

    def forget(self, arenas: list) -> None:
        """Asks anew where these arenas lie."""
        for number in arenas:
            self.addresses[number] = 0

    def clear(self) -> None:
        """Forgets what a flush has of its own: the next one begins."""
        k: Size
        for k in range(len(self.addresses)):
            self.addresses[k] = 0
        for k in range(len(self.saved)):
            self.saved[k] = 0

    def choose(
        self,
        begin: Size,
        end: Size,
        recorded: list,
        learned: Flags,
        read: Flags,
        ways: list,
        marks: list,
        make: Any,
    ) -> list:
        """Finds in which way each step is called, up to one that has none; returns their numbers.

        A way is found in `ways[program]` by bytes: 1 where the step is recorded, then for each operand 1 where its rows
        follow each other, 2 where one of them learns, or both. `make(step, bytes)` makes one, -1 for none. Rows that
        recorded steps read go into `read`, and results of `marks[way]` into `learned`.
        """
        step: Size
        k: Size
        at: Size
        row: Number
        chosen: list = []
        for step in range(begin, end):
            at = self.operand_at[step]
            look: bytearray = bytearray(self.operand_at[step + 1] - at + 1)
            taped: bint = recorded[step]
            look[0] = taped
            for k in range(at, self.operand_at[step + 1]):
                sign: cython.int = self.indices[k] < 0
                if taped and self._learns(k, learned, read):
                    sign += 2
                look[k - at + 1] = sign
            key: bytes = bytes(look)
            known: dict = ways[self.program[step]]
            way = known.get(key)
            if way is None:
                way = known[key] = make(step, key)
            if way < 0:
                break
            chosen.append(way)
            for number in marks[way]:
                k = number
                k += self.result_at[step]
                for row in range(self._flag(step, k, 0), self._flag(step, k, self.counts[step])):
                    learned[row] = 1
        return chosen

    @cfunc
    def _learns(self, k: Size, learned: Flags, read: Flags) -> bint:
        """Notes that the rows of an operand are read; tells whether one of them learns."""
        i: Number
        row: Number
        found: bint = False
        offset: Number = self.offsets[self.arenas[k]]
        for i in range(self.sizes[k]):
            row = offset + (self.begins[k] + i if self.indices[k] < 0 else self.packed[self.indices[k] + i])
            read[row] = 1
            if learned[row]:
                found = True
        return found

    def room(self, steps: list, forms: list) -> tuple:
        """Counts the slots, and saved numbers, in blocks of these steps, each of this form."""
        k: Size
        slots: Number = 0
        floats: Number = 0
        for k in range(len(steps)):
            form: BlockForm = forms[k]
            step: Size = steps[k]
            slots += form.count
            floats += form.node_columns * self.nodes[step] + form.child_columns * self.children[step]
        return slots, floats

    def save(self, steps: list, forms: list, address: Number) -> None:
        """Sets the address from which on steps save what backward needs."""
        k: Size
        for k in range(len(steps)):
            form: BlockForm = forms[k]
            step: Size = steps[k]
            self.saved[step] = address
            address += 4 * (form.node_columns * self.nodes[step] + form.child_columns * self.children[step])

    def fill(
        self,
        steps: list,
        forms: list,
        launches: Numbers,
        args: Numbers,
        gradients: Numbers,
        arena: Any,
        gradient: Any,
    ) -> None:
        """Fills in blocks of steps, each of its form, and their launches.

        The address of each arena is requested once.
        """
        k: Size
        i: Size
        o: Size
        r: Size
        what: Number
        slot: Size = 0
        for k in range(len(steps)):
            form: BlockForm = forms[k]
            step: Size = steps[k]
            self.at = step
            self._head(5 * k, step, form, launches, args, slot)
            slot += 4
            for i in range(0, 3 * (form.count - 2), 3):
                what = form.slots[i]
                args[slot], args[slot + 1] = form.slots[i + 1], form.slots[i + 2]
                if what == 1:  # index
                    o = self.operand_at[step] + form.slots[i + 1]
                    args[slot] = self.packed_at + 4 * self.indices[o] if self.indices[o] >= 0 else 0
                    args[slot + 1] = 4 * self.sizes[o] if self.indices[o] >= 0 else 0
                elif what == 2 or what == 3:  # of an operand
                    o = self.operand_at[step] + form.slots[i + 1]
                    self._rows(
                        self.arenas[o],
                        self.begins[o] if self.indices[o] < 0 else 0,
                        args,
                        slot,
                        self.addresses if what == 2 else gradients,
                        arena if what == 2 else gradient,
                    )
                elif what == 4 or what == 5:  # of a result
                    r = self.result_at[step] + form.slots[i + 1]
                    self._rows(
                        self.result_arenas[r],
                        self.result_begins[r],
                        args,
                        slot,
                        self.addresses if what == 4 else gradients,
                        arena if what == 4 else gradient,
                    )
                elif what == 6:  # saved
                    args[slot] = form.slots[i + 1] * self.nodes[step] + form.slots[i + 2] * self.children[step]
                    args[slot + 1] = 0
                slot += 2

    @cfunc
    def _head(
        self,
        at: Size,
        step: Size,
        form: BlockForm,
        launches: Numbers,
        args: Numbers,
        slot: Size,
    ) -> None:
        """Fills in a launch, and what each block begins with: the first child of each node, and room to save."""
        launches[at] = form.program
        launches[at + 1] = slot // 2
        launches[at + 2] = form.count
        launches[at + 3] = self.nodes[step]
        args[slot] = self.packed_at + 4 * self.first[step] if self.first[step] >= 0 else 0
        args[slot + 1] = 4 * (self.nodes[step] + 1) if self.first[step] >= 0 else 0
        args[slot + 2] = self.saved[step]
        args[slot + 3] = 4 * (form.node_columns * self.nodes[step] + form.child_columns * self.children[step])

    def filled(self) -> int:
        """Returns the step whose block was filled in last, or failed to be."""
        return self.at

    @cfunc
    def _rows(
        self,
        number: Number,
        begin: Number,
        args: Numbers,
        slot: Size,
        addresses: Numbers,
        ask: Any,
    ) -> None:
        """Fills in a slot with the rows of an arena, or of its gradients, from one row on."""
        if addresses[number] == 0:
            addresses[number] = ask(number)
        args[slot] = addresses[number] + begin * self.strides[number]
        args[slot + 1] = (self.rows[number] - begin) * self.strides[number]

    def reach(self, steps: list, ways: list, reached: Flags, passed: Any, known: dict, make: Any, other: Any) -> list:
        """Goes back through steps from their reached results to their operands.

        `known` has by way and results, a byte each that is 1 where it has been reached, numbers of results with those
        of the operands that their gradients go to, and something else, which `make(step, way, bytes)` makes where it
        is missing. Steps of `passed`, a collection or None, are not gone through. Where `other` is not None a node is
        one: what is reached of it is so with all its results, and `other(step)` goes through steps of which that is not
        seen here. Returns steps that are gone through, each with that something.
        """
        k: Size
        r: Size
        row: Number
        found: list = []
        for k in range(len(steps)):
            step: Size = steps[k]
            given: bytearray = bytearray(self.result_at[step + 1] - self.result_at[step])
            some: bint = False
            over: bint = passed is not None and step in passed
            for r in range(self.result_at[step], self.result_at[step + 1]):
                for row in range(self._flag(step, r, 0), self._flag(step, r, self.counts[step])):
                    if over:
                        reached[row] = 0
                    elif reached[row]:
                        given[r - self.result_at[step]] = 1
                        some = True
                        break
            if not some:
                continue
            key: tuple = (ways[k], bytes(given))
            way = known.get(key)
            if way is None:
                way = known[key] = make(step, ways[k], key[1])
            if other is not None and self.apart[step] and not self._all(step, reached):
                other(step)
            else:
                for results, operands in way[0]:
                    self._spread(step, results, operands, reached)
                if other is not None and not self.apart[step]:
                    self._complete(step, reached)
            found.append((step, way[1]))
        return found

    @cfunc
    def _all(self, step: Size, reached: Flags) -> bint:
        """True if all rows of the results of a step have been reached."""
        r: Size
        row: Number
        for r in range(self.result_at[step], self.result_at[step + 1]):
            for row in range(self._flag(step, r, 0), self._flag(step, r, self.counts[step])):
                if not reached[row]:
                    return False
        return True

    @cfunc
    def _first(self, step: Size, space: Number, unit: Number) -> Number:
        """The first row of what can be told apart: nodes, or where they have any number of rows these; or children."""
        row: Number = unit * (self.nodes[step] // self.counts[step])
        if not space:
            return row
        return self.packed[self.first[step] + row] if self.first[step] >= 0 else 0

    @cfunc
    def _flag(self, step: Size, r: Size, unit: Number) -> Number:
        """The place of the first row of a unit's result among all flags."""
        place: Number = self.offsets[self.result_arenas[r]] + self.result_begins[r]
        return place + self._first(step, self.result_spaces[r], unit)

    @cfunc
    def _units(self, step: Size, results: Any, reached: Flags) -> bytearray:
        """Tells for each unit whether a row of these results has been reached."""
        r: Size
        i: Number
        row: Number
        found: bytearray = bytearray(self.counts[step])
        for number in results:
            r = number
            r += self.result_at[step]
            for i in range(self.counts[step]):
                for row in range(self._flag(step, r, i), self._flag(step, r, i + 1)):
                    if reached[row]:
                        found[i] = 1
                        break
        return found

    @cfunc
    def _spread(self, step: Size, results: tuple, operands: tuple, reached: Flags) -> None:
        """Notes which rows of operands are reached: those of units of which a result is."""
        o: Size
        i: Number
        row: Number
        place: Number
        units: bytearray = self._units(step, results, reached)
        for number in operands:
            o = number
            o += self.operand_at[step]
            place = self.offsets[self.arenas[o]]
            for i in range(len(units)):
                if units[i]:
                    for row in range(self._first(step, self.spaces[o], i), self._first(step, self.spaces[o], i + 1)):
                        reached[place + self._row(o, row)] = 1

    @cfunc
    def _complete(self, step: Size, reached: Flags) -> None:
        """Counts all rows of a node as reached of which one is."""
        r: Size
        i: Number
        row: Number
        count: Size = self.result_at[step + 1] - self.result_at[step]
        units: bytearray = self._units(step, range(count), reached)
        for r in range(self.result_at[step], self.result_at[step + 1]):
            for i in range(len(units)):
                if units[i]:
                    for row in range(self._flag(step, r, i), self._flag(step, r, i + 1)):
                        reached[row] = 1

    @cfunc
    def _row(self, o: Size, i: Number) -> Number:
        """A row of an operand's arena."""
        return self.begins[o] + i if self.indices[o] < 0 else self.packed[self.indices[o] + i]
