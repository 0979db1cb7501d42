# cython: language_level=3, wraparound=False, initializedcheck=False
"""Schedules with fewer launches than by depth, phase by phase: by a rule, and by a beam over the same states.

Phases lose nothing: each step of a schedule is of one type, and so of one phase, and the steps of all phases, one
phase after the other, are a schedule as well. In Cython's pure-Python mode. The arrays are those of `ordering`.
"""

from __future__ import annotations

from gluonjit.compiled import room

try:
    import cython
    from cython import bint, cclass, cfunc
except ImportError:
    from gluonjit import standin as cython
    from gluonjit.standin import cclass, cfunc

if cython.compiled:
    from cython.cimports.gluonjit._arrays import Number, Numbers, Size
else:
    from gluonjit.standin import Number, Numbers, Size


@cclass
class Search:
    """The nodes of one phase, each after those that it uses, and which of them have run.

    types: the number of each one's type; rest: the most nodes of its type on a path that begins with it; waiting: the
    uses of others by it that have not run; following: the next node that is ready, of its type, -1 after the last;
    counts: the nodes of type k that have not run, by their rest, from `places[k]` on.
    now: for each type the first ready node, the number of those, of how many of them the rest is the longest, the
    nodes that remain, and what the longest rest is, one sort of number after the other; then the launches so far, the
    fewest that remain, and the nodes that remain. Types whose nodes run alone (`alone`) are not counted as launches.
    """

    count: Size
    kinds: Size
    size: Size
    types: Numbers
    alone: Numbers
    begins: Numbers
    users: Numbers
    uses: Numbers
    rest: Numbers
    places: Numbers
    totals: Numbers
    waiting: Numbers
    following: Numbers
    counts: Numbers
    turn: Numbers
    now: Numbers

    def __init__(self, types: Numbers, alone: Numbers, sources: Numbers, targets: Numbers, edges: Size) -> None:
        """Node `targets[i]` uses node `sources[i]`, for each i below `edges`."""
        count: Size = len(types)
        kinds: Size = len(alone)
        v: Size
        i: Size
        k: Size
        self.count, self.kinds, self.size = count, kinds, 5 * kinds + 3
        self.types, self.alone = types, alone
        begins: Numbers = room(count + 2)  # at first of the node before
        uses: Numbers = room(count)
        for i in range(edges):
            begins[sources[i] + 2] += 1
            uses[targets[i]] += 1
        for v in range(count):
            begins[v + 2] += begins[v + 1]
        users: Numbers = room(edges)
        for i in range(edges):
            v = sources[i] + 1
            users[begins[v]] = targets[i]
            begins[v] += 1
        self.begins, self.users, self.uses = begins, users, uses
        self.rest, self.places = room(count), room(kinds + 1)
        for k in range(kinds):
            self.places[k + 1] = self.places[k] + self._measure(k) + 1
        self.totals = room(self.places[kinds])
        for v in range(count):
            self.totals[self.places[types[v]] + self.rest[v]] += 1
        self.counts, self.waiting = room(self.places[kinds]), room(count)
        self.following, self.turn, self.now = room(count), room(count), room(self.size)
        self._begin()

    @cfunc
    def _measure(self, kind: Size) -> Number:
        """Finds the rest of each node of a type; returns the longest."""
        v: Size
        i: Size
        own: Number
        most: Number = 1
        rest: Numbers = self.rest
        begins: Numbers = self.begins
        users: Numbers = self.users
        types: Numbers = self.types
        length: Numbers = room(self.count)
        for v in range(self.count - 1, -1, -1):
            own = 0
            for i in range(begins[v], begins[v + 1]):
                if length[users[i]] > own:
                    own = length[users[i]]
            if types[v] == kind:
                own = 1 if self.alone[kind] else own + 1
                rest[v] = own
                if own > most:
                    most = own
            length[v] = own
        return most

    @cfunc
    def _begin(self) -> None:
        """Starts again: nothing has run."""
        v: Size
        k: Size
        kinds: Size = self.kinds
        now: Numbers = self.now
        for k in range(self.size):
            now[k] = 0
        for k in range(self.places[kinds]):
            self.counts[k] = self.totals[k]
        for k in range(kinds):
            now[k] = -1
            now[4 * kinds + k] = self.places[k + 1] - self.places[k] - 1
            if not self.alone[k]:
                now[5 * kinds + 1] += now[4 * kinds + k]
        now[5 * kinds + 2] = self.count
        for v in range(self.count):
            self.waiting[v] = self.uses[v]
            now[3 * kinds + self.types[v]] += 1
            if not self.uses[v]:
                self._release(v)

    @cfunc
    def _release(self, v: Size) -> None:
        """Notes that a node is ready."""
        kind: Size = self.types[v]
        kinds: Size = self.kinds
        now: Numbers = self.now
        self.following[v] = now[kind]
        now[kind] = v
        now[kinds + kind] += 1
        now[2 * kinds + kind] += self.rest[v] == now[4 * kinds + kind]

    @cfunc
    def _take(self, kind: Size, turn: Size) -> None:
        """Runs all ready nodes of a type, and notes whose turn it was."""
        v: Number
        i: Size
        kinds: Size = self.kinds
        now: Numbers = self.now
        counts: Numbers = self.counts
        first: Number = now[kind]
        place: Size = self.places[kind]
        longest: Number = now[4 * kinds + kind]
        v = first
        while v >= 0:
            counts[place + self.rest[v]] -= 1
            self.turn[v] = turn
            v = self.following[v]
        while longest and not counts[place + longest]:
            longest -= 1
        if not self.alone[kind]:
            now[5 * kinds] += 1
            now[5 * kinds + 1] -= now[4 * kinds + kind] - longest
        now[5 * kinds + 2] -= now[kinds + kind]
        now[4 * kinds + kind] = longest
        now[kind] = -1
        now[3 * kinds + kind] -= now[kinds + kind]
        now[kinds + kind] = now[2 * kinds + kind] = 0
        v = first
        while v >= 0:
            for i in range(self.begins[v], self.begins[v + 1]):
                self.waiting[self.users[i]] -= 1
                if not self.waiting[self.users[i]]:
                    self._release(self.users[i])
            v = self.following[v]

    @cfunc
    def _take_back(self, kind: Size, before: Numbers) -> None:
        """Undoes `_take`; `before` is what was in `now`."""
        v: Number = before[kind]
        i: Size
        place: Size = self.places[kind]
        while v >= 0:
            self.counts[place + self.rest[v]] += 1
            for i in range(self.begins[v], self.begins[v + 1]):
                self.waiting[self.users[i]] += 1
            v = self.following[v]
        for i in range(self.size):
            self.now[i] = before[i]

    @cfunc
    def _next(self) -> Size:
        """The type to run: of whose remaining nodes with the longest rest the largest share is ready.

        If all of them are, its longest chain is shorter then, at no loss. Of equal shares the one of most nodes, and of
        these the first. Types whose nodes run alone come before, as they gain nothing by waiting.
        """
        k: Size
        kinds: Size = self.kinds
        best: Number = -1
        share: Number
        of: Number
        larger: Number
        best_share: Number = 0
        best_of: Number = 1
        now: Numbers = self.now
        for k in range(kinds):
            if not now[kinds + k]:
                continue
            if self.alone[k]:
                return k
            share, of = now[2 * kinds + k], self.counts[self.places[k] + now[4 * kinds + k]]
            larger = share * best_of - best_share * of
            if best < 0 or larger > 0 or (larger == 0 and share > best_share):
                best, best_share, best_of = k, share, of
        return best

    def fewest(self) -> Number:
        """The launches that any schedule needs at least."""
        self._begin()
        return self.now[5 * self.kinds + 1]

    def by_rule(self) -> list:
        """Returns the types in the order of the rule."""
        kind: Size
        found: list = []
        self._begin()
        while self.now[5 * self.kinds + 2]:
            kind = self._next()
            self._take(kind, 0)
            found.append(kind)
        return found

    def launches(self, found: list) -> Number:
        """Runs types in this order; returns the launches, and leaves in `turn` which of them ran each node."""
        k: Size
        self._begin()
        for k in range(len(found)):
            self._take(found[k], k)
        return self.now[5 * self.kinds]

    def by_beam(self, breadth: Size, most: Number) -> list:
        """Returns the types in an order with less than `most` launches, or an empty list if none was found.

        Of all states after as many steps the `breadth` best ones go on: those with the fewest launches, so far and at
        least to come, and of these the fewest nodes left. States are a tree; the nodes of the present one have run.
        """
        kinds: Size = self.kinds
        kind: Size
        only: Number
        here: Size = 0
        state: Size
        end: Number = -1
        now: Numbers = self.now
        parents: list = [0]
        taken: list = [0]
        self._begin()
        states: list = [self._saved()]
        front: list = [0]
        while front:
            found: list = []
            for state in front:
                self._move(here, state, parents, taken, states)
                here = state
                only = -1
                for kind in range(kinds):  # what cannot gain by waiting
                    if now[kinds + kind] and (self.alone[kind] or now[kinds + kind] == now[3 * kinds + kind]):
                        only = kind
                before: Numbers = states[state]
                for kind in range(kinds):
                    if not before[kinds + kind] or (only >= 0 and kind != only):
                        continue
                    self._take(kind, 0)
                    if not now[5 * kinds + 2]:
                        if now[5 * kinds] < most:
                            most, end, last = now[5 * kinds], state, kind
                    elif now[5 * kinds] + now[5 * kinds + 1] < most:
                        score = now[5 * kinds] + now[5 * kinds + 1]
                        found.append((score, now[5 * kinds + 2], len(found), self._look(), state, kind))
                    self._take_back(kind, before)
            found.sort()
            front = []
            seen: set = set()
            for score, _, _, look, state, kind in found:
                if len(front) == breadth or score >= most:
                    break
                if look in seen:
                    continue
                seen.add(look)
                self._move(here, state, parents, taken, states)
                self._take(kind, 0)
                here = len(states)
                parents.append(state)
                taken.append(kind)
                states.append(self._saved())
                front.append(here)
        if end < 0:
            return []
        path: list = [last]
        while end:
            path.append(taken[end])
            end = parents[end]
        path.reverse()
        return path

    @cfunc
    def _saved(self) -> object:
        i: Size
        of: object = room(self.size)
        found: Numbers = of
        for i in range(self.size):
            found[i] = self.now[i]
        return of

    @cfunc
    def _look(self) -> Number:
        """A number that is equal for states that look equal: in what remains, and what is ready of each type."""
        i: Size
        found: Number = self.now[5 * self.kinds + 1]
        for i in range(self.kinds, 2 * self.kinds):
            found = (found * 1000003 + self.now[i]) & 0x3FFFFFFFFFF  # so that no product is too large
        return found

    @cfunc
    def _move(self, here: Size, there: Size, parents: list, taken: list, states: list) -> None:
        """Goes from one state to another, by way of the last one that both come from."""
        path: list = []
        while here != there:
            if here > there:
                self._take_back(taken[here], states[parents[here]])
                here = parents[here]
            else:
                path.append(taken[there])
                there = parents[there]
        while path:
            self._take(path.pop(), 0)


@cfunc
def _of_phase(
    breadth: Size,
    most: Number,
    first: Size,
    end: Size,
    local: Numbers,
    alone: Numbers,
    families: Numbers,
    phase: Numbers,
    widths: Numbers,
    kinds: Numbers,
    firsts: Numbers,
    operands: Numbers,
    keep: Numbers,
    producer: Numbers,
    order: Numbers,
    place: Numbers,
    turn: Numbers,
    steps: Size,
) -> Size:
    """Finds an order with less than `most` launches of the nodes from `first` to `end`; returns its number of steps.

    Counted from `steps`, they go into `turn`. 0 if there is none. What is searched is this graph, and it backwards:
    where chains end at different depths, steps are best counted from there.
    """
    i: Size
    k: Size
    n: Size
    trial: Size
    made: Number
    needs: Number
    source: Number
    edges: Size = 0
    count: Size = end - first
    best: Size = 0
    backward: bint
    own: Number = phase[families[kinds[order[first]]]]
    for k in range(first, end):
        edges += widths[kinds[order[k]]]
    sources: Numbers = room(edges)
    targets: Numbers = room(edges)
    types: Numbers = room(count)
    edges = 0
    for k in range(count):
        n = order[first + k]
        types[k] = local[families[kinds[n]]] - 1
        source = -1
        for i in range(firsts[n], firsts[n] + widths[kinds[n]]):
            made = producer[operands[i]]
            if made and keep[made - 1] and phase[families[kinds[made - 1]]] == own:
                if place[made - 1] - first != source:
                    source = place[made - 1] - first
                    sources[edges], targets[edges] = source, k
                    edges += 1
    search: Search = Search(types, alone, sources, targets, edges)
    least: Number = search.fewest()
    searches: list = [search]
    for trial in range(4 if breadth else 2):
        if most == least:
            break
        backward = trial % 2
        if trial == 1:
            searches.append(_backwards(types, alone, sources, targets, edges))
        search = searches[backward]
        found: list = search.by_rule() if trial < 2 else search.by_beam(breadth, most)
        needs = search.launches(found) if found else most
        if needs >= most:
            continue
        most, best = needs, len(found)
        for k in range(count):
            n = order[first + (count - 1 - k if backward else k)]
            turn[n] = steps + (best - 1 - search.turn[k] if backward else search.turn[k])
    return best


@cfunc
def _backwards(types: Numbers, alone: Numbers, sources: Numbers, targets: Numbers, edges: Size) -> Search:
    """The same nodes from the last one to the first, each used by what it uses."""
    i: Size
    count: Size = len(types)
    new_types: Numbers = room(count)
    new_sources: Numbers = room(edges)
    new_targets: Numbers = room(edges)
    for i in range(count):
        new_types[i] = types[count - 1 - i]
    for i in range(edges):
        new_sources[i], new_targets[i] = count - 1 - targets[i], count - 1 - sources[i]
    return Search(new_types, alone, new_sources, new_targets, edges)


def shortened(
    breadth: Size,
    starts: list,
    count: Size,
    families: Numbers,
    alone: Numbers,
    phase: Numbers,
    widths: Numbers,
    kinds: Numbers,
    firsts: Numbers,
    operands: Numbers,
    keep: Numbers,
    producer: Numbers,
    order: Numbers,
) -> list:
    """Puts the nodes of `order`, which are there by depth, into an order with no more launches, often fewer.

    breadth: of the beam; 0: by the rule alone. alone: of each record, whether its nodes run alone. `starts` are those
    of the steps: returns those of the new ones.
    """
    i: Size
    n: Size
    step: Size
    last: Size = 0
    steps: Size = 0
    made: Size
    launches: Size
    total: Size = starts[len(starts) - 1]
    family: Number
    own: Number
    fewer: bint = False
    place: Numbers = room(count)
    turn: Numbers = room(count)
    local: Numbers = room(len(phase))  # the number of each family in its phase, and one more
    for i in range(total):
        place[order[i]] = i
    while last < len(starts) - 1:
        step = last
        own = phase[families[kinds[order[starts[step]]]]]
        found: list = []  # of the families of this phase, whether they run alone
        launches = 0
        while last < len(starts) - 1:
            family = families[kinds[order[starts[last]]]]
            if phase[family] != own:
                break
            if not local[family]:
                found.append(alone[kinds[order[starts[last]]]])
                local[family] = len(found)
            launches += not alone[kinds[order[starts[last]]]]
            last += 1
        made = 0
        if 1 < len(found) < last - step:
            flags: Numbers = room(len(found))
            for i in range(len(found)):
                flags[i] = found[i]
            made = _of_phase(
                breadth,
                launches,
                starts[step],
                starts[last],
                local,
                flags,
                families,
                phase,
                widths,
                kinds,
                firsts,
                operands,
                keep,
                producer,
                order,
                place,
                turn,
                steps,
            )
        if made:
            fewer = True
            steps += made
        else:
            while step < last:
                for i in range(starts[step], starts[step + 1]):
                    turn[order[i]] = steps
                steps += 1
                step += 1
    if not fewer:
        return starts
    ends: Numbers = room(steps + 1)
    for i in range(total):
        ends[turn[order[i]] + 1] += 1
    for i in range(steps):
        ends[i + 1] += ends[i]
    result: list = list(ends)
    for n in range(count):  # in each step record by record
        if keep[n]:
            order[ends[turn[n]]] = n
            ends[turn[n]] += 1
    return result
