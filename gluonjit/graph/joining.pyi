"""Values of whole rows, one after the other, and copies of one."""

from collections.abc import Iterable

from gluonjit.graph.recorder import Value

def joined(values: Iterable[Value], mode: str) -> Value | None: ...
def copied(value: Value) -> Value: ...
