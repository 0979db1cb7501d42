"""Read the Stanford Sentiment Treebank: `(3 (2 good) (2 film))`, one tree per line, a label 0 to 4 at each phrase."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from experiments.data.errors import DataError
from experiments.data.reading import lines_of
from experiments.data.trees import TreeError

CLASSES = 5
WHAT = "the files of the Stanford Sentiment Treebank"

Tree = Any
"""The index of a word, or a pair of trees."""

# A word may hold a space that does not break ("8 1/2").
_TOKEN = re.compile(r"\((?P<label>[^ ()]*)|(?P<word>[^ ()]+)|(?P<end>\))")


class Parsed(NamedTuple):
    """A sentence: its words, its binary tree, and the labels of its phrases in the order in which they end."""

    words: list[str]
    tree: Tree
    labels: list[int]


def read(path: Path) -> list[Parsed]:
    """Read the trees of one file."""
    found = []
    for number, line in enumerate(lines_of(path, WHAT), start=1):
        try:
            found.append(parse(line))
        except TreeError as error:
            raise DataError(path, number, str(error)) from error
    return found


def parse(line: str) -> Parsed:
    """Read one tree; raises TreeError where it is none."""
    words: list[str] = []
    labels: list[int] = []
    pending: list[tuple[int, list[Any]]] = []  # the phrases that have begun: label, parts so far
    whole: Tree = None
    for token in _TOKEN.finditer(line):
        if whole is not None:
            raise TreeError(f"the tree has ended, but {token.group()!r} follows at column {token.start() + 1}")
        if token["label"] is not None:
            pending.append((_label(token["label"]), []))
            continue
        if not pending:
            raise TreeError(f"{token.group()!r} at column {token.start() + 1} is outside of all brackets")
        if token["word"]:
            pending[-1][1].append(token["word"])
            continue
        label, parts = pending.pop()
        tree = _phrase(parts, words)
        labels.append(label)
        if pending:
            pending[-1][1].append(tree)
        else:
            whole = tree
    if pending or whole is None:
        raise TreeError(f"{len(pending)} brackets are not closed" if pending else "there is no tree")
    return Parsed(words, whole, labels)


def _label(text: str) -> int:
    """Read the label of a phrase."""
    if text not in map(str, range(CLASSES)):
        raise TreeError(f"label {text!r} after a bracket; a number from 0 to {CLASSES - 1} is expected")
    return int(text)


def _phrase(parts: list[Any], words: list[str]) -> Tree:
    """Return the tree of a phrase that ends: a new word, or two phrases."""
    if len(parts) == 1 and isinstance(parts[0], str):
        words.append(parts[0])
        return len(words) - 1
    if len(parts) == 2 and not any(isinstance(part, str) for part in parts):
        return tuple(parts)
    shown = " and ".join(repr(part) if isinstance(part, str) else "a phrase" for part in parts) or "nothing"
    raise TreeError(f"a phrase holds {shown}; one word or two phrases are expected")
