"""Facts: what a traced call has read of Python's state, where it was, and whether it is still so."""

from collections.abc import Sequence
from typing import Any, NamedTuple

ENTRY: int
ITEM: int
SIZE: int
CELL: int
CLASS: int
DEFAULTS: int
CONTENTS: int
SLOT: int
KIND: int
CODE: int
OF_LIBRARY: int
ABSENT: Any

def is_plain(value: Any) -> bool: ...
def alike(one: Any, other: Any) -> bool: ...
def class_attribute(kind: type, name: str) -> Any: ...
def contents(container: Any) -> tuple[Any, ...]: ...
def read_at(way: int, container: Any, key: Any) -> Any: ...

class Fact(NamedTuple):
    way: int
    container: Any
    key: Any
    found: Any
    name: str
    def holds(self) -> bool: ...

class Fingerprint:
    def __init__(self, owner: Any) -> None: ...
    def holds(self, owner: Any) -> bool: ...

class Guards:
    def __init__(self, facts: Sequence[tuple[int, Any, Any, Any]]) -> None: ...
    def hold(self) -> bool: ...
