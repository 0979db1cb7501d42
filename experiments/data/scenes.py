"""The subjects of the built-in corpus: scenes, small changes to them, and how related two scenes are.

The rule of relatedness. A scene is a set of facts: what happens, who does it, to whom or what, where, how, and
which quality each thing has. Two scenes with fact sets A and B have the overlap 2 |A and B| / (|A| + |B|); where
one of them is denied and the other is not, it counts 0.6 times. The score is 1 + 4 * overlap. Words alone do not
decide it: "a dog is chasing a man" shares no role with "a man is chasing a dog", while synonyms, passives and
"there is a ..." change words and order and leave the facts as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from experiments.data.lexicon import Concept, concepts, frequencies

DENIAL = 0.6

Fact = tuple[object, ...]
Place = tuple[Concept, "Thing"]


@dataclass(frozen=True)
class Thing:
    """Someone or something, alone or several, with qualities and perhaps something at or with it."""

    noun: Concept
    several: bool = False
    qualities: tuple[Concept, ...] = ()
    beside: Place | None = None


@dataclass(frozen=True)
class Scene:
    """A scene: who does what, to whom or what, where and how, and what else happens."""

    verb: Concept
    agent: Thing
    patient: Thing | None = None
    places: tuple[Place, ...] = ()
    manner: Concept | None = None
    denied: bool = False
    also: Scene | None = None


def facts(scene: Scene) -> set[Fact]:
    """Return the facts that a scene states."""
    verb = scene.verb
    found: set[Fact] = {("happens", verb), ("who", verb, scene.agent.noun)}
    things = [scene.agent]
    if scene.patient:
        found.add(("whom", verb, scene.patient.noun))
        things.append(scene.patient)
    for link, thing in scene.places:
        found.add(("where", verb, link, thing.noun))
        things.append(thing)
    if scene.manner:
        found.add(("how", verb, scene.manner))
    for thing in things:
        found |= _facts_of(thing)
    return found | (facts(scene.also) if scene.also else set())


def _facts_of(thing: Thing) -> set[Fact]:
    """Return what is stated of one thing."""
    found: set[Fact] = {("there is", thing.noun)}
    found |= {("has", thing.noun, quality) for quality in thing.qualities}
    if thing.beside:
        link, other = thing.beside
        found |= {("at", thing.noun, link, other.noun)} | _facts_of(other)
    return found


def relatedness(left: Scene, right: Scene) -> float:
    """Score two scenes from 1 to 5 by the rule above."""
    a, b = facts(left), facts(right)
    overlap = 2 * len(a & b) / (len(a) + len(b))
    if left.denied != right.denied:
        overlap *= DENIAL
    return round(1 + 4 * overlap, 1)


class Imagination:
    """Draws scenes and changes to scenes."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def chance(self, probability: float) -> bool:
        """Return True as often as asked."""
        return bool(self.rng.random() < probability)

    def concept(self, kind: str) -> Concept:
        """Draw a concept of a class."""
        return concepts(kind)[self.rng.choice(len(concepts(kind)), p=frequencies(kind))]

    def thing(self, kind: str, depth: int = 0) -> Thing:
        """Draw a thing; at greater depth it has less beside it."""
        qualities = tuple(self.concept("quality") for _ in range(self.rng.choice(3, p=[0.78, 0.19, 0.03])))
        beside = None
        if depth < 3 and self.chance((0.10, 0.10, 0.15)[depth]):
            beside = (self.concept("link"), self.thing("thing" if self.chance(0.6) else "place", depth + 1))
        return Thing(self.concept(kind), self.chance(0.2), qualities, beside)

    def scene(self, depth: int = 0) -> Scene:
        """Draw a scene."""
        agent = self.thing("being")
        patient = self.thing("thing" if self.chance(0.75) else "being", 1) if self.chance(0.5) else None
        count = self.rng.choice(3, p=[0.52, 0.42, 0.06] if patient else [0.25, 0.66, 0.09])
        places = tuple((self.concept("link"), self.thing("place", 1)) for _ in range(count))
        manner = self.concept("manner") if self.chance(0.12) else None
        also = self.scene(depth + 1) if depth < 3 and self.chance(0.12) else None
        if also and self.chance(0.6):
            also = replace(also, agent=agent)
        verb = self.concept("deed" if patient else "action")
        return Scene(verb, agent, patient, places, manner, not depth and self.chance(0.04), also)

    def change(self, scene: Scene) -> Scene:
        """Make one small change."""
        changes: list[Callable[[Scene], Scene]] = [self._other_verb, self._other_agent, self._manner]
        changes += [self._denied] if self.chance(0.4) else []
        changes += [self._plainer, self._swapped] if scene.patient else [self._plainer]
        changes += [self._elsewhere] if scene.places else []
        return changes[self.rng.integers(len(changes))](scene)

    def _other_verb(self, scene: Scene) -> Scene:
        return replace(scene, verb=self.concept(scene.verb.kind))

    def _other_agent(self, scene: Scene) -> Scene:
        return replace(scene, agent=replace(scene.agent, noun=self.concept("being")))

    def _denied(self, scene: Scene) -> Scene:
        return replace(scene, denied=not scene.denied)

    def _manner(self, scene: Scene) -> Scene:
        return replace(scene, manner=None if scene.manner else self.concept("manner"))

    def _plainer(self, scene: Scene) -> Scene:
        """Leave qualities and what stands beside the agent out, or give it a quality."""
        agent = scene.agent
        bare = Thing(agent.noun, agent.several)
        return replace(scene, agent=bare if agent != bare else replace(bare, qualities=(self.concept("quality"),)))

    def _swapped(self, scene: Scene) -> Scene:
        assert scene.patient is not None
        return replace(scene, agent=scene.patient, patient=scene.agent)

    def _elsewhere(self, scene: Scene) -> Scene:
        return replace(scene, places=((self.concept("link"), self.thing("place", 1)), *scene.places[1:]))
