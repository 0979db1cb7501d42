"""From a batched symbolic graph to a fused program (see `gluonjit.rows`), if every operator has an instruction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod

import mxnet as mx

from gluonjit.engines.mxnet.fusing_operators import OPERATORS
from gluonjit.engines.mxnet.fusing_values import Anything, Beside, Const, Group, RowMatrix, rows_in
from gluonjit.engines.mxnet.operators.attributes import read
from gluonjit.graph import Kind
from gluonjit.rows.program import CHILD, NODE, Builder, NotFusable, RowProgram, Weight


def fused_program(graph: mx.sym.Symbol, kind: Kind, shapes: Sequence[tuple[int, ...]]) -> RowProgram:
    """The program of a batched graph whose constants have these shapes. Raises NotFusable.

    Operands are the roles of the kind's groups, one group after the other.
    """
    reading = _Reading(kind, shapes)
    loaded = json.loads(graph.tojson(remove_amp_cast=False))
    values: list[list[Anything]] = []
    for node in loaded["nodes"]:
        inputs = [values[number][output] for number, output, *_ in node["inputs"]]
        if node["op"] == "null":
            values.append([reading.variable(node["name"])])
            continue
        rule = OPERATORS.get(node["op"])
        if rule is None:
            raise NotFusable(f"{node['op']} has no instruction")
        made = rule(reading.builder, read(node.get("attrs", {})), *inputs)
        values.append(made if isinstance(made, list) else [made])
    results = [rows_in(values[number][output]) for number, output, *_ in loaded["heads"]]
    if any(reading.builder.space(result.view) != NODE for result in results):
        raise NotFusable("a result is per child")
    return reading.builder.finish([result.view for result in results])


class _Reading:
    """The variables of a graph."""

    def __init__(self, kind: Kind, shapes: Sequence[tuple[int, ...]]) -> None:
        self.builder = Builder()
        self._groups = []
        for group in kind.groups:
            spec = kind.operands[group[0][0]]
            if spec.dtype != "float32":
                raise NotFusable(f"an operand of {spec.dtype}")
            width = prod(spec.row_shape)
            if not width:
                raise NotFusable("an operand without elements")
            folded = kind.sum_of > 1 and len(kind.operands) == 1
            if folded and spec.rows != kind.sum_of:
                raise NotFusable("a sum of arrays of several rows")
            spaces = [CHILD if folded or role in kind.children else NODE for role in group]
            roles = [RowMatrix(self.builder.operand(space, width), spec.row_shape) for space in spaces]
            self._groups.append(Group(tuple(roles)) if len(roles) > 1 else roles[0])
        self._shapes = shapes

    def variable(self, name: str) -> Anything:
        if name.startswith("group"):
            return self._groups[int(name[5:])]
        if name.startswith("const"):
            number = int(name[5:])
            shape = self._shapes[number]
            if not 1 <= len(shape) <= 2:
                raise NotFusable(f"a constant of shape {shape}")
            rows, columns = shape if len(shape) == 2 else (1, shape[0])
            return Const(Weight(number, 0, rows, 0, columns), len(shape) == 1)
        return Beside(name)
