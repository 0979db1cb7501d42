"""Leftovers of a program: the Python state it can reach, saved, restored, and compared by content.

It follows attributes, items of lists, dictionaries and sets, and what the program's functions read of globals, closures
and classes, ten steps deep. State visible only to C, such as a generator or a file, is left alone.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import count
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from gluonjit.graph import LIBRARIES
from gluonjit.hybrid.capture.functions import CellFunction

Items = dict[Any, Any]
"""What a container holds, by its keys."""
_DEEPEST = 10
_MOST = 50_000  # items: what is larger is a corpus, not the state of a program
_PARTS = ("_modules", "_children", "_buffers")  # dictionaries of models whose items are their attributes
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_CODE = (FunctionType, MethodType, CellFunction)
_NOT_FOLLOWED = (ModuleType, type, property, staticmethod, classmethod)


class Container(NamedTuple):
    """A container: its name, its items by name or number, what holds them, and how they are put into that."""

    path: str
    items: Items
    state: Any
    put: Callable[[Any, Items], None]
    joined: Callable[[str, Any], str] = "{}.{}".format  # the path of an item


class Framework(NamedTuple):
    """The framework's part: its arrays and models, their internal attributes, its generators."""

    array: type
    model: type
    own: frozenset[str]
    parameter: type  # of what is learned, which is no state of the program's
    numbers: Callable[[Any], Any]
    kept: Callable[[Any], Any]  # a copy of an array
    write: Callable[[Any, Any], None]  # numbers of such a copy to the array
    draws: Callable[[], Any]
    redraw: Callable[[Any], None]


class Leftovers:
    """The state that a program can reach from these roots, each with its name."""

    def __init__(self, framework: Framework, roots: Sequence[tuple[str, Any]]) -> None:
        self._framework = framework
        self._roots = roots
        self._saved: list[tuple[Container, Items]] = []
        self._arrays: list[tuple[Any, Any]] = []
        self._draws: tuple[Any, Any, Any] = (None, None, None)
        self.cut = False  # whether there was more than is followed

    def save(self) -> None:
        """Saves the current state."""
        self._saved, self._arrays = [], []
        for found in self._places():
            if isinstance(found, Container):
                self._saved.append((found, {key: _own(item) for key, item in found.items.items()}))
            else:
                self._arrays.append((found[1], self._framework.kept(found[1])))
        self._draws = random.getstate(), np.random.get_state(), self._framework.draws()

    def restore(self) -> None:
        """Restores the saved state."""
        for place, items in self._saved:
            place.put(place.state, {key: _own(item) for key, item in items.items()})
        for array, numbers in self._arrays:
            self._framework.write(array, numbers)
        random.setstate(self._draws[0])
        np.random.set_state(self._draws[1])
        self._framework.redraw(self._draws[2])

    def told(self) -> dict[str, Any]:
        """Contents by path: plain constants, numbers of arrays, and of everything else its class."""
        found: dict[str, Any] = {}
        for place in self._places():
            if not isinstance(place, Container):
                found[place[0]] = self._numbers(place[1])
                continue
            for key, item in place.items.items():
                if not isinstance(item, (_CODE, _NOT_FOLLOWED)):
                    told = item if isinstance(item, _PLAIN) else self._class_of(item)
                    found.setdefault(place.joined(place.path, key), told)
        return found

    def _class_of(self, item: Any) -> str:
        if isinstance(item, (self._framework.array, np.ndarray)):
            return "an array"  # lazy or not
        return repr(item) if type(item) is count else f"a {type(item).__name__}"

    def _numbers(self, array: Any) -> Any:
        try:
            return self._framework.numbers(array)
        except Exception as error:  # a placeholder that has left its trace: that is what is to be told
            return f"an array without numbers ({type(error).__name__})"

    def _places(self) -> Iterator[Container | tuple[str, Any]]:
        """Everything that holds something, and the arrays, each once."""
        waiting: deque[tuple[str, Any, int]] = deque([(path, root, 0) for path, root in self._roots])
        seen: dict[int, Any] = {}
        room = _MOST
        while waiting:
            path, item, depth = waiting.popleft()
            if id(item) in seen or isinstance(item, self._framework.parameter):
                continue
            seen[id(item)] = item
            if isinstance(item, (self._framework.array, np.ndarray)):
                yield path, item
                continue
            for place in _held(item, path, self._framework):
                room -= len(place.items) + 1
                if room < 0:
                    self.cut = True
                    return
                yield place
                if depth < _DEEPEST:
                    parts = [(key, part) for key, part in place.items.items() if not isinstance(part, _PLAIN)]
                    waiting.extend([(place.joined(place.path, key), part, depth + 1) for key, part in parts])


def _own(item: Any) -> Any:
    """Returns a copy of an `itertools.count`, and any other item itself."""
    return copy(item) if type(item) is count else item


def _held(item: Any, path: str, framework: Framework) -> list[Container]:
    """Lists what an object holds."""
    if isinstance(item, framework.model):
        state = vars(item)
        names = {name: part for name, part in state.items() if name not in framework.own}
        parts = [names.pop(name) for name in _PARTS if name in names]
        places = [Container(path, dict(held), held, _into) for held in parts]
        put = partial(_into, own=framework.own | {*_PARTS})
        return [Container(path, names, state, put), *places, *_of_class(type(item))]
    if isinstance(item, _CODE):
        return _of_function(item)
    if isinstance(item, dict):
        return [Container(path, dict(item), item, _into, _item)]
    if isinstance(item, (list, deque)):
        return [Container(path, dict(enumerate(item)), item, _fill, _item)]
    if isinstance(item, set):
        return [Container(path, dict.fromkeys(item, True), item, _fill, _item)]
    if isinstance(item, (tuple, frozenset)):
        return [Container(path, dict(enumerate(item)), item, lambda state, items: None, _item)]
    if isinstance(item, _NOT_FOLLOWED) or type(item).__module__.partition(".")[0] in LIBRARIES:
        return []
    places = _of_class(type(item)) if _is_user(type(item)) else []
    if hasattr(item, "__dict__"):
        places.insert(0, Container(path, dict(vars(item)), vars(item), _into))
    slots = [name for kind in type(item).__mro__ for name in _slots(kind) if hasattr(item, name)]
    if slots:
        names = {name: getattr(item, name) for name in slots}
        places.append(Container(path, names, item, _set_on))
    return places


def _of_class(kind: type) -> list[Container]:
    """Lists what classes of the user hold, and what their functions read."""
    places: list[Container] = []
    for base in kind.__mro__:
        if not _is_user(base):
            continue
        places.append(Container(base.__name__, _class_state(base), base, _into_class))
        for function in vars(base).values():
            if isinstance(function, _CODE):
                places += _of_function(function)
    return places


def _of_function(function: Any) -> list[Container]:
    """Lists what a function reads that is neither an argument nor a module, a class or another function's."""
    function = function.function if isinstance(function, CellFunction) else function
    function = getattr(function, "__func__", function)
    code, scope = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if code is None or not _is_user(function):
        return []
    places = []
    names = {name: scope[name] for name in _names(code) if name in scope}
    held = {name: part for name, part in names.items() if not isinstance(part, _NOT_FOLLOWED)}
    if held:
        places.append(Container(str(scope.get("__name__")), held, scope, _add))
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    bound = {name: cell.cell_contents for name, cell in cells.items() if name != "__class__" and _is_bound(cell)}
    if bound:
        places.append(Container(code.co_name, bound, cells, _into_cells))
    return places


def _names(code: CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _is_user(item: Any) -> bool:
    package = str(getattr(item, "__module__", "")).partition(".")[0]
    return package not in LIBRARIES and package not in ("builtins", "typing", "collections", "abc", "enum", "threading")


def _is_bound(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _slots(kind: type) -> Sequence[str]:
    names = vars(kind).get("__slots__", ())
    listed = (names,) if isinstance(names, str) else tuple(names)
    return [name for name in listed if name not in ("__dict__", "__weakref__")] if _is_user(kind) else []


def _item(path: str, key: Any) -> str:
    plain = isinstance(key, _PLAIN) or (isinstance(key, tuple) and all(isinstance(part, _PLAIN) for part in key))
    return f"{path}[{key!r:.60}]" if plain else f"{path}[a {type(key).__name__}]"


def _into(state: Items, items: Items, own: frozenset[str] = frozenset()) -> None:
    """Puts items into a dictionary, replacing all but its `own`."""
    for name in [name for name in state if name not in items and name not in own]:
        del state[name]
    _add(state, items)


def _add(state: Items, items: Items) -> None:
    for name, item in items.items():
        if name not in state or state[name] is not item:
            state[name] = item


def _fill(container: Any, items: Items) -> None:
    container.clear()
    container.update(items) if isinstance(container, set) else container.extend(items.values())


def _set_on(item: Any, items: Items) -> None:
    for name, part in items.items():
        if getattr(item, name, None) is not part:
            setattr(item, name, part)


def _class_state(kind: type) -> Items:
    state = {name: part for name, part in vars(kind).items() if not name.startswith("__")}
    return {name: part for name, part in state.items() if not hasattr(part, "__get__")}


def _into_class(kind: type, items: Items) -> None:
    for name in _class_state(kind).keys() - items.keys():
        delattr(kind, name)
    _set_on(kind, items)


def _into_cells(cells: dict[str, CellType], items: Items) -> None:
    for name, item in items.items():
        cells[name].cell_contents = item
