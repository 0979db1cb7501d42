"""Static plans by skeleton: which one takes a plan, when one grows, and how many exist."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import isqrt
from typing import Any
from weakref import ref

from gluonjit.analysis.plan import Plan
from gluonjit.engines.torch.replay.padding import Padding, joined
from gluonjit.engines.torch.replay.skeleton import SizedSkeleton
from gluonjit.engines.torch.replay.static import StaticPlan
from gluonjit.hybrid.explain.counts import Counts

MOST_SKELETONS = 256
MANY = 8  # skeletons that have to be known before it is said that they do not come again
MOST_PLANS = 4  # of one skeleton: sizes far apart, and plans whose backward pass is still to come
MOST_BYTES = 4_000_000_000  # at fixed addresses
_WASTE = 2  # a static plan with more than this many times the rows is left to larger plans


@dataclass
class Skeleton:
    """Plans of one skeleton. `sizes` are the largest that were met; `unfit`: why there is none."""

    seen: int = 0
    sizes: tuple[int, ...] = ()
    plans: list[StaticPlan] = field(default_factory=list)
    unfit: str = ""

    def note(self, sized: SizedSkeleton) -> None:
        """Another plan of it has come."""
        self.seen += 1
        self.sizes = _largest(self.sizes, sized.sizes) if self.sizes else sized.sizes


_skeletons: OrderedDict[int, Any] = OrderedDict()
"""Weak references: the programs of a skeleton own it, so that it goes when their model does."""


def skeleton_of(sized: SizedSkeleton) -> Skeleton:
    """The skeleton of a plan."""
    owner, known = _beside(sized)
    found = known.get(sized.key)
    if found is None:
        found = known[sized.key] = Skeleton()
        _skeletons[id(found)] = (ref(found), ref(owner))  # the key would keep programs
        while len(_skeletons) > MOST_SKELETONS:
            _drop(next(iter(_skeletons)))
    _skeletons.move_to_end(id(found))
    found.note(sized)
    return found


def _beside(sized: SizedSkeleton) -> tuple[Any, dict[Hashable, Skeleton]]:
    """Finds who owns a plan's skeleton, and all skeletons that it owns."""
    owner = next((step.program for step in sized.steps if step.program.consts), sized.steps[0].program)
    return owner, owner.__dict__.setdefault("skeletons", {})


def new_often(sized: SizedSkeleton) -> bool:
    """Tells whether most plans of the same model have a skeleton that has not come before."""
    _, known = _beside(sized)
    return len(known) >= MANY and 2 * sum([skeleton.seen == 1 for skeleton in known.values()]) > len(known)


def _drop(number: int) -> None:
    skeleton, owner = (reference() for reference in _skeletons.pop(number))
    if owner is not None:
        known = owner.__dict__["skeletons"]
        for key in [key for key, other in known.items() if other is skeleton]:
            del known[key]


def _known() -> list[tuple[int, Skeleton]]:
    found = [(number, entry[0]()) for number, entry in _skeletons.items()]
    for number, skeleton in found:
        if skeleton is None:
            del _skeletons[number]
    return [(number, skeleton) for number, skeleton in found if skeleton is not None]


def plan_count() -> int:
    """Static plans that are kept."""
    return sum([len(skeleton.plans) for _, skeleton in _known()])


def clear_plans() -> None:
    """Forgets them."""
    for number, _ in _known():
        _drop(number)


def static_plan(skeleton: Skeleton, plan: Plan, sized: SizedSkeleton, report: Counts) -> StaticPlan | None:
    """A static plan that is free and takes this plan, made or enlarged if need be; None if all are in use."""
    for old in [static for static in skeleton.plans if not static.current]:
        skeleton.plans.remove(old)
    free = [static for static in skeleton.plans if not static.busy]
    near = [static for static in free if _work(static.padding.sizes, sized) <= _WASTE * _work(sized.sizes, sized)]
    fitting = [static for static in near if static.padding.fits(sized)]
    if fitting:
        best = min(fitting, key=lambda static: _work(static.padding.sizes, sized))
        skeleton.plans.remove(best)
        skeleton.plans.append(best)  # the one that was used last
        return best
    wholes, sizes = dict(sized.wholes), sized.sizes
    if near:
        padding = near[0].padding
        wholes = {at: place for at, place in padding.wholes.items() if wholes.get(at) == place}
        sizes = _largest(sizes, padding.sizes)
        skeleton.plans.remove(near[0])
    elif len(skeleton.plans) >= MOST_PLANS:
        if not free:
            return None
        skeleton.plans.remove(free[0])
    known = _work(skeleton.sizes, sized) <= _WASTE * _work(sized.sizes, sized)
    largest = skeleton.sizes if known else sized.sizes
    sizes = _largest(sizes, tuple(map(roomy, largest)))
    made = StaticPlan(plan, sized, Padding(sized, joined(sized, wholes, sizes), wholes, len(plan.arenas)))
    skeleton.plans.append(made)
    report.executed.recordings += 1
    _make_room(made)
    return made


def roomy(size: int) -> int:
    """The room that is made for the largest size so far: counts of minibatches differ by about their square root."""
    return size + isqrt(size) + 1 if size else 0


def _largest(sizes: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(max, sizes, others))


def _work(sizes: tuple[int, ...], sized: SizedSkeleton) -> int:
    """The number of nodes in all steps."""
    return sum([sizes[step.nodes] for step in sized.steps])


def _make_room(new: StaticPlan) -> None:
    """Forgets the least recently used plans if there are too many."""
    held = sum([static.bytes for _, skeleton in _known() for static in skeleton.plans])
    for _, skeleton in _known():
        for static in [static for static in skeleton.plans if static is not new]:
            if held <= MOST_BYTES:
                return
            held -= static.bytes
            skeleton.plans.remove(static)
