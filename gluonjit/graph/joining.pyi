"""Values of whole rows, one after the other, and copies of one."""

from collections.abc import Iterable

from gluonjit.graph.recorder import Value

class Copied:
    """A reference by an operator that need not run: its rows are the operand's, its memory is its own."""

    value: Value
    def __init__(self, value: Value) -> None: ...

def joined(values: Iterable[Value], mode: str) -> Value | None: ...
def copied(value: Value) -> Value: ...
