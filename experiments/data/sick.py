"""Read the SICK pairs, tokenised and parsed: `{train,dev,test}/{a,b}.{toks,parents}` and `sim.txt`."""

from __future__ import annotations

from pathlib import Path

from experiments.data.errors import DataError
from experiments.data.reading import lines_of
from experiments.data.trees import CLASSES, Pair, Sentence, TreeError

SPLITS = ("train", "dev", "test")
WHAT = "the parsed SICK files"


def read_split(folder: Path) -> list[Pair]:
    """Read one split; the sentences are not numbered yet."""
    left = _read_side(folder, "a")
    right = _read_side(folder, "b")
    scores = _read_scores(folder / "sim.txt")
    if not len(left) == len(right) == len(scores):
        raise DataError(
            folder,
            None,
            f"a.toks has {len(left)} lines, b.toks {len(right)} and sim.txt {len(scores)}; "
            "each line is one pair, so all need the same number",
        )
    return [Pair(a, b, score) for a, b, score in zip(left, right, scores)]


def _read_side(folder: Path, side: str) -> list[Sentence]:
    """Read one side of the pairs: tokens and heads, line by line."""
    tokens = folder / f"{side}.toks"
    heads = folder / f"{side}.parents"
    words, parents = lines_of(tokens, WHAT), lines_of(heads, WHAT)
    if len(words) != len(parents):
        raise DataError(heads, None, f"has {len(parents)} lines, but {tokens.name} has {len(words)}")
    return [
        _sentence(heads, number, toks.split(), line.split())
        for number, (toks, line) in enumerate(zip(words, parents), start=1)
    ]


def _sentence(path: Path, number: int, words: list[str], fields: list[str]) -> Sentence:
    """Make the sentence of one line, or name the line that is broken."""
    try:
        parents = [int(field) for field in fields]
    except ValueError as error:
        raise DataError(path, number, f"a head is not an integer: {error}") from error
    if len(words) != len(parents) or not words:
        raise DataError(path, number, f"{len(parents)} heads for {len(words)} tokens {' '.join(words)!r}")
    try:
        return Sentence(words, parents)
    except TreeError as error:
        raise DataError(path, number, str(error)) from error


def _read_scores(path: Path) -> list[float]:
    """Read one relatedness score a line, 1 to 5."""
    scores = []
    for number, line in enumerate(lines_of(path, WHAT), start=1):
        try:
            score = float(line)
        except ValueError as error:
            raise DataError(path, number, f"{line!r} is not a number; a score from 1 to 5 is expected") from error
        if not 1 <= score <= CLASSES:
            raise DataError(path, number, f"score {score} is outside 1 to {CLASSES}")
        scores.append(score)
    return scores
