"""Read named entities: a character and its tag per line, an empty line after each sentence; and words found in them.

Tags are O outside of entities, and inside B, M, E (first, middle, last character) or S (the only one), with a type.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.data.errors import DataError
from experiments.data.reading import lines_of

WHAT = "the files of ResumeNER"
SHORTEST, LONGEST = 2, 4  # characters of a word
LEAST = 20  # times that a word occurs

_TAG = re.compile(r"O|[BMES]-\S+")


class Tagged(NamedTuple):
    """A sentence: its characters, and a tag for each."""

    characters: tuple[str, ...]
    tags: tuple[str, ...]


def read(path: Path) -> list[Tagged]:
    """Read the sentences of one file."""
    sentences: list[Tagged] = []
    fields: list[list[str]] = []
    for number, line in enumerate([*lines_of(path, WHAT), ""], start=1):
        if line.strip():
            fields.append(_fields(path, number, line))
        elif fields:
            characters, tags = zip(*fields)
            sentences.append(Tagged(characters, tags))
            fields = []
    if not sentences:
        raise DataError(path, None, "holds no sentence; a character and its tag are expected on each line")
    return sentences


def _fields(path: Path, number: int, line: str) -> list[str]:
    """Return the character and the tag of one line."""
    fields = line.split()
    if len(fields) != 2:
        raise DataError(path, number, f"{len(fields)} fields in {line!r}; a character and its tag are expected")
    if not _TAG.fullmatch(fields[1]):
        raise DataError(path, number, f"tag {fields[1]!r}; O, or one of B, M, E, S with a type (B-ORG) is expected")
    return fields


def lexicon(sentences: Sequence[Tagged]) -> list[str]:
    """Return the words of a lexicon that the sentences make: frequent first.

    They are the strings of SHORTEST to LONGEST characters that occur at least LEAST times within one entity or between
    entities. A segmenter's lexicon is better for tagging; this one gives a lattice as many words to a character.
    """
    counter: Counter[str] = Counter()
    for sentence in sentences:
        for run in runs(sentence):
            counter.update(run[first:last] for first, last in places(len(run)))
    return [word for word, count in sorted(counter.items(), key=lambda item: (-item[1], item[0])) if count >= LEAST]


def runs(sentence: Tagged) -> Iterator[str]:
    """Yield the entities of a sentence, and the text between them."""
    run, outside = "", False
    for character, tag in zip(*sentence):
        if run and (tag[0] in "BS" or (tag == "O") != outside):
            yield run
            run = ""
        run, outside = run + character, tag == "O"
    yield run


def places(length: int) -> Iterator[tuple[int, int]]:
    """Yield where words can stand in a text: first character, and the one after the last; by where they end."""
    for last in range(SHORTEST, length + 1):
        for first in range(max(0, last - LONGEST), last - SHORTEST + 1):
            yield first, last


def matches(characters: Sequence[str], words: Collection[str]) -> list[tuple[int, int, str]]:
    """Return the words in a sentence, as (first character, last character, word), by where they end."""
    text = list(characters)
    found = ((first, last, "".join(text[first:last])) for first, last in places(len(text)))
    return [(first, last - 1, word) for first, last, word in found if word in words]
