# cython: language_level=3, nonecheck=True, binding=False
"""Arguments of a call whose parts are captured: arrays in them are lazy there.

Lists and dictionaries with arrays are copies; what the program has changed in these is changed in its own at the end.
In Cython's pure-Python mode, as `graph/recorder` (`arguments.pxd` has the types).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

from gluonjit.graph.recorder import mapped
from gluonjit.hybrid.capture.guards.facts import ABSENT, class_attribute

_FIELDS = "__dataclass_fields__"
_HOLDING = (list, tuple, dict)
_MOST = 64  # lists and dictionaries of a result that are looked through


class _Lent(NamedTuple):
    """A list or dictionary of the program's, the copy that the call has, and what is in each of them."""

    own: Any
    copy: Any
    before: list[Any]
    given: list[Any]

    def give_back(self) -> None:
        """Writes what has changed in the copy to the program's own."""
        now = _items(self.copy)
        if len(now) == len(self.given) and all([one is other for one, other in zip(now, self.given)]):
            return
        known = {id(lazy): item for lazy, item in zip(self.given, self.before)}
        items = [known.get(id(item), item) for item in now]
        self.own.clear()
        if isinstance(self.own, list):
            self.own.extend(items)
        else:
            self.own.update(zip(items[::2], items[1::2]))


def _items(container: Any) -> list[Any]:
    """Lists the items of a list, or the keys and values of a dictionary in turns."""
    return list(container) if isinstance(container, list) else [part for pair in container.items() for part in pair]


class LentArguments:
    """The arguments of one call, of which `lazy` makes what the call gets: `args`.

    bare: classes in which there is no array.
    """

    def __init__(self, args: Sequence[Any], lazy: Callable[[Any], Any], bare: Container[type] = ()) -> None:
        self._own: dict[int, Any] = {}
        self._lent: list[_Lent] = []
        self.args = [arg if arg.__class__ in bare else mapped(arg, lazy) for arg in args]
        for arg, given in zip(args, self.args):
            if given is not arg:
                self._note(arg, given)

    def _note(self, own: Any, given: Any) -> None:
        """Notes what stands for an array, and the lists and dictionaries that were copied, at any depth."""
        if not isinstance(own, _HOLDING):
            self._own[id(given)] = own
            return
        if isinstance(own, tuple):
            before, after = [*own], [*given]
        else:
            before, after = _items(own), _items(given)
            self._lent.append(_Lent(own, given, before, after))
        for one, other in zip(before, after):
            if one is not other:
                self._note(one, other)

    def returned(self, result: Any) -> Any:
        """Returns a result with the program's own arrays in the places of those that stood for them."""
        return returned(result, self._own)

    def give_back(self) -> None:
        """Writes to the program's own lists and dictionaries what the call has written to its copies."""
        for lent in self._lent:
            lent.give_back()


def returned(result: Any, own: Mapping[int, Any]) -> Any:
    """Returns a result with arrays in the places of those that stood for them, by whose addresses `own` has them."""
    if not own or result is None:
        return result
    containers: list[Any] = []
    found = _returned(result, own, containers)
    for container in containers:  # also what is put into it meanwhile
        items = container if isinstance(container, dict) else dict(enumerate(container))
        for key, item in items.items():
            new = _returned(item, own, containers)
            if new is not item:
                container[key] = new
        if len(containers) > _MOST:
            break
    return found


def _returned(item: Any, own: Mapping[int, Any], containers: list[Any]) -> Any:
    found = own.get(id(item))
    if found is not None:
        return found
    if isinstance(item, (list, dict)):
        if not any(item is known for known in containers):
            containers.append(item)
    elif isinstance(item, tuple) and len(item) <= _MOST:
        parts = [_returned(part, own, containers) for part in item]
        if any([new is not part for new, part in zip(parts, item)]):
            return item._make(parts) if hasattr(item, "_make") else tuple(parts)
    elif class_attribute(item.__class__, _FIELDS) is not ABSENT and hasattr(item, "__dict__"):
        containers.append(vars(item))
    return item
