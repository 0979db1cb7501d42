"""Costs of a plan, in numbers that are the same on every machine."""

from __future__ import annotations

from gluonjit.analysis.plan import Plan, Step
from gluonjit.graph.values import Spec


def launches(step: Step) -> int:
    """Launches of a step: one, or one a node where its nodes run alone."""
    return step.count if step.kind.lone else 1


def gathers(step: Step) -> int:
    """Launches of a step that put operands together; those that lie together already need none."""
    return sum([gather.copied for gather in step.gathers])


def gathered_bytes(plan: Plan, step: Step) -> int:
    """Bytes of a step's operands that do not lie together and are copied."""
    return sum(
        [gather.rows * row_bytes(plan.arenas[gather.place.arena].spec) for gather in step.gathers if gather.copied]
    )


def arena_bytes(plan: Plan) -> int:
    """Bytes of all rows: inputs and results of one flush, forward."""
    return sum(arena.rows * row_bytes(arena.spec) for arena in plan.arenas)


def row_bytes(spec: Spec) -> int:
    """Bytes of one row."""
    return spec.bytes // spec.rows if spec.rows else 0
