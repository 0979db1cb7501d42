"""Sentences with their dependency trees from scenes, heads as the Stanford parser chooses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from experiments.data.lexicon import Concept, participle, plural, progressive
from experiments.data.scenes import Place, Scene, Thing
from experiments.data.trees import Sentence


@dataclass
class Word:
    """One token and its dependents, those that stand before it and those after."""

    text: str
    before: list[Word] = field(default_factory=list)
    after: list[Word] = field(default_factory=list)

    def flat(self) -> Iterator[Word]:
        """Yield the tokens in sentence order."""
        for word in self.before:
            yield from word.flat()
        yield self
        for word in self.after:
            yield from word.flat()


class Speaker:
    """Says a scene in one of the ways it can be said: synonyms, articles, active, passive, existential."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def say(self, scene: Scene) -> Sentence:
        """Return one sentence for a scene."""
        root = self._clause(scene)
        words = list(root.flat())
        _agree_articles(words)
        words[0].text = words[0].text[:1].upper() + words[0].text[1:]
        position = {id(word): place for place, word in enumerate(words, start=1)}
        heads = [0] * len(words)
        for word in words:
            for dependent in (*word.before, *word.after):
                heads[position[id(dependent)] - 1] = position[id(word)]
        return Sentence([word.text for word in words], heads)

    def _chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def _word(self, concept: Concept) -> str:
        """Choose one of the words for a concept, the first most often."""
        return concept.words[0 if len(concept.words) == 1 or self._chance(0.8) else 1]

    def _clause(self, scene: Scene) -> Word:
        """Choose how to say a scene."""
        if self._chance(0.12):
            clause = self._there_is(scene)
        elif scene.patient and self._chance(0.14):
            clause = self._passive(scene, scene.patient)
        else:
            clause = self._active(scene)
        if scene.also:
            clause.after += [Word("and"), self._second(scene, scene.also)]
        return clause

    def _second(self, scene: Scene, also: Scene) -> Word:
        """Say what else happens; who does it is not said twice."""
        if also.agent != scene.agent or also.also:
            return self._clause(also)
        verb = Word(progressive(self._word(also.verb)), after=self._complements(also))
        verb.before = self._be(also.agent, also.denied)
        return verb

    def _active(self, scene: Scene) -> Word:
        verb = Word(progressive(self._word(scene.verb)), after=self._complements(scene))
        verb.before = [self._noun(scene.agent), *self._be(scene.agent, scene.denied)]
        return verb

    def _passive(self, scene: Scene, patient: Thing) -> Word:
        verb = Word(participle(self._word(scene.verb)))
        verb.before = [self._noun(patient), *self._be(patient, scene.denied), Word("being")]
        verb.after = [Word("by", after=[self._noun(scene.agent)]), *self._circumstances(scene)]
        return verb

    def _there_is(self, scene: Scene) -> Word:
        doing = Word(progressive(self._word(scene.verb)), after=self._complements(scene))
        noun = self._noun(scene.agent, article="no" if scene.denied else None)
        noun.after.append(doing)
        return Word(_be(scene.agent), before=[Word("there")], after=[noun])

    def _be(self, subject: Thing, denied: bool) -> list[Word]:
        return [Word(_be(subject)), *([Word("not")] if denied else [])]

    def _complements(self, scene: Scene) -> list[Word]:
        return [*([self._noun(scene.patient)] if scene.patient else []), *self._circumstances(scene)]

    def _circumstances(self, scene: Scene) -> list[Word]:
        manner = [Word(self._word(scene.manner))] if scene.manner else []
        return manner + [self._place(place) for place in scene.places]

    def _place(self, place: Place) -> Word:
        link, thing = place
        return Word(self._word(link), after=[self._noun(thing)])

    def _noun(self, thing: Thing, article: str | None = None) -> Word:
        """Return a noun with its article, its qualities and what is beside it."""
        text = self._word(thing.noun)
        noun = Word(plural(text) if thing.several else text)
        article = article or self._article(thing)
        noun.before = [Word(article)] if article else []
        noun.before += [Word(self._word(quality)) for quality in thing.qualities]
        noun.after = [self._place(thing.beside)] if thing.beside else []
        return noun

    def _article(self, thing: Thing) -> str:
        if not thing.several:
            return "a" if self._chance(0.72) else "the"
        return str(self.rng.choice(["two", "the", "some", "three", ""], p=[0.3, 0.28, 0.15, 0.07, 0.2]))


def _be(subject: Thing) -> str:
    return "are" if subject.several else "is"


def _agree_articles(words: Sequence[Word]) -> None:
    """Write "an" before a vowel."""
    for word, following in zip(words, words[1:]):
        if word.text == "a" and following.text[0] in "aeiou":
            word.text = "an"
