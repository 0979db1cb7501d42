"""Programs with phases, and with branches of unequal length that join, as functions of a framework's cells.

They are the cases of ACRoBat (Fegade et al. 2024) for which it counts phases, and pads the shorter branch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gluonjit

Cells = Sequence[Callable[..., Any]]
"""Three cells of two operands."""


class Phased(NamedTuple):
    """A program of one sample, and samples, which say which inputs it takes; launches by depth, by bound, at least.

    padded: those that it needs if the shorter branch is padded, so that all places of all samples line up.
    """

    run: Callable[[Cells, Sequence[Any], Sequence[int]], Any]
    samples: list[list[int]]
    depth: int
    bound: int
    least: int
    padded: int


def output_layer(cells: Cells, inputs: Sequence[Any], sample: Sequence[int]) -> Any:
    """Take a chain of any length, and then the output layer."""
    step, output, _ = cells
    state = inputs[0]
    for number in sample:
        state = step(state, inputs[number])
    return output(state, inputs[1])


def decoder(cells: Cells, inputs: Sequence[Any], sample: Sequence[int]) -> Any:
    """Read a sequence, and then take as many steps of another cell as its first number says."""
    encode, decode, output = cells
    state = inputs[0]
    for number in sample[1:]:
        state = encode(state, inputs[number])
    for _ in range(sample[0]):
        state = decode(state, inputs[0])
    return output(state, inputs[2])


def branches(cells: Cells, inputs: Sequence[Any], sample: Sequence[int]) -> Any:
    """Take one step, or two where the number is odd, and then what joins both."""
    short, longer, joined = cells
    state = short(inputs[0], inputs[sample[0]])
    if sample[0] % 2:
        state = longer(state, inputs[1])
    return joined(state, inputs[2])


def branches_in_a_loop(cells: Cells, inputs: Sequence[Any], sample: Sequence[int]) -> Any:
    """Do the same at each place of a sequence."""
    short, longer, joined = cells
    state = inputs[0]
    for number in sample:
        state = short(state, inputs[number])
        if number % 2:
            state = longer(state, inputs[1])
        state = joined(state, inputs[2])
    return state


def _samples(count: int, least: int, most: int) -> list[list[int]]:
    rng = random.Random(5)
    return [[rng.randrange(4) for _ in range(rng.randint(least, most))] for _ in range(count)]


def _padded(samples: list[list[int]]) -> int:
    """Count the launches where each place is a step, the longer branch if any sample takes it, and what joins them."""
    places = [[sample[place] for sample in samples if place < len(sample)] for place in range(max(map(len, samples)))]
    return sum([2 + any([number % 2 for number in numbers]) for numbers in places])


CHAINS, LONGER, SHORT = _samples(6, 1, 7), _samples(6, 2, 7), _samples(6, 1, 1)
EQUAL, UNEQUAL = _samples(6, 6, 6), _samples(6, 2, 8)
PHASED = {
    "output layer": Phased(output_layer, CHAINS, 8, 8, 8, 8),
    "decoder": Phased(decoder, LONGER, 9, 9, 9, 9),
    "branches": Phased(branches, SHORT, 3, 3, 3, _padded(SHORT)),
    "branches in a loop": Phased(branches_in_a_loop, EQUAL, 43, 18, 17, _padded(EQUAL)),
    "branches in a loop of any length": Phased(branches_in_a_loop, UNEQUAL, 36, 21, 21, _padded(UNEQUAL)),
}


def check(
    program: Phased,
    scheduler: str,
    trained: Callable[[Phased], list[Any]],
    results: Callable[[Phased], list[Any]],
    close: Callable[[Any, Any], None],
) -> None:
    """Batched results and gradients (`trained`) are `close` to eager ones; results alone take the known launches."""
    expected = trained(program)
    with gluonjit.batching(granularity="cell", scheduler=scheduler):
        found = trained(program)
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        close(one, other)
    with gluonjit.batching(granularity="cell", scheduler=scheduler, sharing=False) as batch:
        kept = results(program)
    assert len(kept) == len(program.samples)
    assert batch.report.launches == (program.depth if scheduler == "depth" else program.bound)
    assert batch.report.lower_bound == program.least and program.bound <= program.padded
