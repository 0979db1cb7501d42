"""Sentences whose words or characters have tags, and pairs of sentences."""

from __future__ import annotations

from typing import Any

from numpy.random import RandomState

from experiments.zoo.samples import integers

WORDS, LETTERS, TAGS = 30, 20, 6  # of sentences some of whose words are spelled
CHARACTERS, LEXICON, CHARACTER_TAGS = 30, 40, 4  # of sentences of characters
SOURCE, TARGET = 30, 25  # words of the two languages
START = 0

Spans = list[list[tuple[int, int]]]
"""For each character the words that end there: (first character, place among the sentence's words)."""


def spelled(count: int, random: RandomState) -> list[Any]:
    """Sentences of 1 to 10 words, every fourth word rare and of 2 to 8 letters, with their tags.

    A word is (whether it is rare, its letters or its number).
    """
    samples = []
    for _ in range(count):
        sentence = []
        for rare in (random.rand(random.randint(1, 11)) < 0.25).tolist():
            numbers = random.randint(0, LETTERS, random.randint(2, 9)) if rare else random.randint(0, WORDS, 1)
            sentence.append((rare, integers(numbers)))
        samples.append((sentence, integers(random.randint(0, TAGS, len(sentence)))))
    return samples


def random_spans(random: RandomState, length: int) -> tuple[Spans, int]:
    """Words of 2 to 4 characters, and their number."""
    spans: Spans = [[] for _ in range(length)]
    count = 0
    for first in range(length - 1):
        for last in range(first + 1, min(first + 4, length)):
            if random.rand() < 0.2:
                spans[last].append((first, count))
                count += 1
    return spans, count


def lattices(count: int, random: RandomState) -> list[Any]:
    """Sentences of 2 to 14 characters with the words found in them and the tags of the characters.

    A sentence without words has one that is not looked at: arrays of no numbers are none in MXNet.
    """
    samples = []
    for _ in range(count):
        length = int(random.randint(2, 15))
        spans, words = random_spans(random, length)
        samples.append(
            (
                integers(random.randint(0, CHARACTERS, length)),
                integers(random.randint(0, LEXICON, max(words, 1))),
                spans,
                integers(random.randint(0, CHARACTER_TAGS, length)),
            )
        )
    return samples


def translations(count: int, random: RandomState) -> list[Any]:
    """Pairs of sentences of 2 to 10 words: the source, the target without its last word, and the target."""
    samples = []
    for _ in range(count):
        source = random.randint(0, SOURCE, random.randint(2, 11))
        target = random.randint(1, TARGET, random.randint(2, 11))
        samples.append((integers(source), integers([START, *target[:-1].tolist()]), integers(target)))
    return samples
