"""Values, and the nodes of one signature."""

from collections.abc import Callable
from typing import Any

from gluonjit.graph.frames import Origin
from gluonjit.graph.kinds import Kind
from gluonjit.graph.values import Rows, Spec

class GraphRows:
    begun: float
    clock: Callable[[], float]
    leaves: dict[Any, Leaf]
    lookups: dict[Any, dict[int, int]]
    rows: int
    single_rows: dict[Any, Value]
    def add_leaf(self, key: Any, payload: Any, spec: Spec, taped: bool = False) -> Leaf: ...
    def begin(self) -> None: ...

class Leaf:
    base: int
    spec: Spec
    payload: Any
    taped: bool
    def __init__(self, base: int, spec: Spec, payload: Any, taped: bool) -> None: ...

class InputSlots:
    tensor: Any
    version: int
    _rows: Any
    raw: bytes | None
    spec: Spec | None
    apart: int
    first: Any
    noted: bool
    shared: bool
    taped: bool
    users: int
    written: int
    def __init__(
        self, tensor: Any, version: int, rows: Any, raw: bytes | None = None, spec: Spec | None = None, apart: int = 0
    ) -> None: ...

class BatchRoom:
    changes: int
    room: float
    sharing: bool

class StateNumbers:
    eagerly: int
    inside: int
    mode: int
    numpy: int
    paused: int
    spare: int
    spare_mode: int

class CellSlots: ...

class Uncaptured:
    local: Any
    back: tuple[Callable[[], object], ...]

    def __init__(self, local: Any) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

class Value:
    rows: Rows
    depth: int
    spec: Spec
    graph: Any
    taped: bool
    base: Any
    result: Any
    def __init__(self, rows: Rows, depth: int, spec: Spec, graph: Any, taped: bool, base: Any = None) -> None: ...
    def row_list(self) -> list[int]: ...

class Shares: ...

class Record:
    kind: Kind
    mode: int
    share: float
    guards: Any
    calls: int
    rows_read: Any
    base_rows: Any
    bases: Any
    def __init__(self, kind: Kind, mode: int, share: float) -> None: ...
    def __len__(self) -> int: ...
    def complete(self) -> None: ...
    def truncate(self, count: int) -> None: ...
    def release(self) -> None: ...
    @property
    def operands(self) -> list[tuple[Rows, ...]]: ...
    def operands_of(self, node: int) -> tuple[Rows, ...]: ...
    @property
    def depths(self) -> list[int]: ...
    @property
    def origins(self) -> list[Origin]: ...
    def until(self, row: int) -> int: ...
    def base(self, node: int) -> int: ...
    def depth(self, node: int) -> int: ...
    def values(self, node: int) -> tuple[Value, ...]: ...
    def held(self, begin: int, end: int, own: int = 0) -> bool: ...
    def append(self, graph: GraphRows, operands: tuple[Rows, ...], depth: int, origin: Origin) -> tuple[Value, ...]: ...
    def capture(
        self, batch: BatchRoom, graph: GraphRows, operands: tuple[Rows, ...], depth: int, sharing: bool
    ) -> tuple[Value, ...]: ...
    def put(
        self, operands: tuple[Rows, ...], depth: int, base: int, origin: Origin, values: tuple[Value, ...]
    ) -> None: ...
    def like(self, kind: Kind) -> Record: ...
    def forget(self, node: int) -> None: ...
    def set_aside(self) -> Shares: ...
    def put_back(self, shares: Shares, keep: bool) -> None: ...

def give_results(
    record: Record, nodes: list[int], arena: memoryview, position: memoryview, find: Any, give: Any
) -> None: ...
def mapped(item: Any, visit: Callable[[Any], Any]) -> Any: ...
