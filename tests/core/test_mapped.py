"""Arguments of programs: `mapped` reaches what is in any structure, and leaves alone what does not change."""

from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import pytest

from gluonjit.graph.recorder import mapped


class Point(NamedTuple):
    name: str
    at: Any


class Thing:
    """Stands for an array."""


THING, OTHER = Thing(), Thing()


def _visit(item: Any) -> Any:
    return OTHER if item is THING else item


def _default() -> Any:
    found: Any = defaultdict(list)
    found["x"] = THING
    return found


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (THING, OTHER),
        ([1, (THING, "a"), None], [1, (OTHER, "a"), None]),
        ((THING,), (OTHER,)),
        (Point("p", [THING]), Point("p", [OTHER])),
        (OrderedDict(a=1, b=THING), OrderedDict(a=1, b=OTHER)),
        (_default(), {"x": OTHER}),
    ],
)
def test_what_changes_is_another_structure_of_the_same_sort(item: Any, expected: Any) -> None:
    found = mapped(item, _visit)
    assert (found == expected and type(found) is type(item)) or found is expected
    assert item is THING or found is not item


def test_a_default_dictionary_keeps_its_default() -> None:
    assert mapped(_default(), _visit)["y"] == []


@pytest.mark.parametrize(
    "item", [3, "s", None, True, 1.5, OTHER, [1, [2, "s"]], (1, (OTHER,)), Point("p", 3), {"a": 1}]
)
def test_what_does_not_change_is_the_same_object(item: Any) -> None:
    assert mapped(item, _visit) is item


def test_an_error_of_the_visit_is_raised() -> None:
    def fail(item: Any) -> Any:
        raise KeyError("no")

    with pytest.raises(KeyError):
        mapped([1, THING], fail)
