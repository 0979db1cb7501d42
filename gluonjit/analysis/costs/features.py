"""Amounts of each kind of work in a plan: for each part of a flush a table of coefficient -> amount."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gluonjit.analysis.plan import (
    LeafChunk,
    Place,
    Plan,
    Step,
    arena_bytes,
    gathered_bytes,
    gathers,
    launches,
    row_bytes,
)
from gluonjit.graph.modes import is_recorded

Amounts = Mapping[str, float]


class Totals(NamedTuple):
    """The work of all nodes of a step together."""

    rows: int
    flops: float
    bytes: float


def totals(step: Step) -> Totals:
    """Rows of results, arithmetic and memory: nodes of one family may differ in their number of rows."""
    rows, flops, moved = 0, 0.0, 0.0
    for record, nodes in step.parts:
        count, kind = len(nodes), record.kind
        rows += count * kind.rows
        flops += count * kind.work.flops
        moved += count * kind.work.bytes
    return Totals(rows, flops, moved)


def _place_bytes(plan: Plan, place: Place) -> int:
    rows: int = place.end - place.begin
    return rows * row_bytes(plan.arenas[place.arena].spec)


def capture(plan: Plan, calls: int) -> Amounts:
    """Calls are split like the nodes into those of cells and those of operators."""
    operators = sum(step.count for step in plan.steps if step.kind.operator)
    share = operators / plan.nodes if plan.nodes else 0.0
    return {
        "call_cell": calls * (1 - share),
        "call_op": calls * share,
        "capture_node": plan.nodes + plan.dropped,
        "capture_input": sum(
            len(chunk.leaves) if isinstance(chunk, LeafChunk) else len(chunk.indices) for chunk in plan.inputs
        ),
    }


def analysis(plan: Plan) -> tuple[float, float, float]:
    """One flush, its nodes, its steps."""
    return 1.0, plan.nodes + plan.dropped, len(plan.steps)


def inputs(plan: Plan) -> Amounts:
    """Allocation, and inputs from before the batch."""
    places = [chunk.place for chunk in plan.inputs]
    indices = [gather.index for step in plan.steps for gather in step.gathers if gather.index is not None]
    return {
        "session": 1,
        "session_step": len(plan.steps),
        "leaf": sum(len(chunk.leaves) for chunk in plan.inputs if isinstance(chunk, LeafChunk)),
        "input_byte": sum(_place_bytes(plan, place) for place in places),
        "arena": len(plan.arenas),
        "index_entry": sum(map(len, indices)),
    }


def in_c(step: Step) -> bool:
    """True if the step runs in C as a whole, which gathers as it goes."""
    fused = step.kind.program.fused
    return fused is not None and not isinstance(fused, str)


def gather(plan: Plan, step: Step) -> Amounts:
    """Contiguous operands, and gathered ones."""
    if in_c(step):
        return {}
    copied = gathers(step)
    return {
        "slice": len(step.gathers) - copied,
        "gather": copied,
        "gather_row": sum(found.rows for found in step.gathers if found.is_copied),
        "gather_byte": gathered_bytes(plan, step),
    }


def compute(step: Step) -> Amounts:
    """Launching a step, and its work."""
    times = launches(step)
    work, total = step.kind.work, totals(step)
    if in_c(step):
        return {"row_step": 1, "row_push": work.ops, "row_flop": total.flops, "row_byte": total.bytes}
    return {
        "launch": times,
        "record": times if is_recorded(step.mode) else 0,
        "push": times * work.ops,
        "flop": total.flops,
        "byte": total.bytes,
        "weight_byte": times * work.weights,
    }


def results(plan: Plan) -> Amounts:
    """The places copied out of arenas for the program to read: those with a node that it can still reach."""
    places: set[Place] = set()
    live = {number: nodes for number, _, nodes in plan.live if len(nodes)}
    for step in plan.steps:
        if any(number in live for number in step.numbers):
            places.update(step.places)
    return {
        "flush": 1,
        "result": sum(len(nodes) for nodes in live.values()),
        "copy": len(places),
        "copy_byte": sum(_place_bytes(plan, place) for place in places),
    }


def backward(plan: Plan, step: Step) -> Amounts:
    """Backward through a step: its work again, and gradients of gathers."""
    if in_c(step):
        return backward_alone(step)
    gathered = gather(plan, step)
    return {
        **backward_alone(step),
        "back_gather": gathered["gather"],
        "back_gather_row": gathered["gather_row"],
        "back_gather_byte": gathered["gather_byte"],
    }


def backward_alone(step: Step) -> Amounts:
    """Backward through a step, without gathers."""
    times = launches(step)
    work, total = step.kind.work, totals(step)
    if in_c(step):
        return {f"back_{name}": amount for name, amount in compute(step).items()}
    return {
        "back_step": times,
        "back_push": times * work.ops,
        "back_flop": total.flops,
        "back_byte": total.bytes,
        "back_weight_byte": times * work.weights,
    }


def backward_rest(plan: Plan) -> Amounts:
    """The costs of a backward independent of its steps: arenas of gradients, and the gradients of weights."""
    weights = {id(step.kind.family): step.kind.work.weights for step in plan.steps if is_recorded(step.mode)}
    return {
        "back": 1,
        "back_zero_byte": arena_bytes(plan),
        "back_reach": sum(is_recorded(step.mode) for step in plan.steps),
        "back_parameter_byte": sum(weights.values()),
    }
