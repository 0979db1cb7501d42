"""Habits of authors: what programs do besides computing, between and inside of calls. This module knows no framework.

A habit is drawn separately from its case, which stays what it was without: its instructions go into the samples'
programs, its actions between samples, after minibatches, and between a minibatch and its backward pass.
"""

from __future__ import annotations

from collections.abc import Collection
from inspect import getsource
from typing import NamedTuple

import numpy as np

from experiments.fuzz import HABITS, state
from experiments.fuzz.case import NUMBERS, Action, Case, Choices, Minibatch, Sample, draw
from experiments.fuzz.run import Run, Step
from experiments.fuzz.vocabulary import COMMON

BEFORE_BACKWARD = -2
"""Of an action: it happens between a minibatch and its backward pass."""

PLACES = {
    "object": ("{cell}.cfg.rate", "{cell}.cfg.rate = {value}"),
    "dict": ('{cell}.opt["rate"]', '{cell}.opt["rate"] = {value}'),
    "list": ("{cell}.scales[1]", "{cell}.scales[1] = {value}"),
    "nested": ('{cell}.cfg.inner["rates"][0]', '{cell}.cfg.inner["rates"][0] = {value}'),
    "global": ("", "set_rate({value})"),
    "class": ("{cell}.share", "Reads.share = {value}"),
    "closure": ("read_closure()", "write_closure({value})"),
    "default": ("by_default()", 'by_default.__defaults__[0]["rate"] = {value}'),
    "property": ("{cell}.gain", "{cell}.cfg.gain = {value}"),
    "flag": ("(0.5 if {cell}.cfg.flip else 2)", "{cell}.cfg.flip = {value} > 1"),
    "turns": ("{cell}.cfg.turns", "{cell}.cfg.turns = int({value} * 2)"),
    "sum": ("sum({cell}.scales)", "{cell}.scales.append({value})"),
    "values": ("sum({cell}.opt.values())", '{cell}.opt["new"] = {value}'),
    "function": ("{cell}.cfg.chosen(0.7)", "{cell}.cfg.chosen = double if {value} > 1 else half"),
    "getattr": ('getattr({cell}.cfg, "ra" + "te")', "{cell}.cfg = Plain(**{{**{cell}.cfg.__dict__, 'rate': {value}}})"),
}
"""Where state is: how plain code reads it, and how it is changed."""

NOTES = ("count", "step", "object", "once", "seen", "kept", "detached", "cache", "counts", "mean", "global", "stream")

STATEFUL = ("annealed", "noting")
"""The cells of every net that have state and take notes."""


class Drawn(NamedTuple):
    """The lines that a habit puts into a case."""

    steps: tuple[Step, ...] = ()
    actions: tuple[tuple[int, Action], ...] = ()  # with the number of their minibatch


@COMMON.habit
def read_state(run: Run, a: int, b: int, c: int) -> str | None:
    """Read state in a cell, a cell that is a method, or in plain code."""
    where = _place(c)
    plain = PLACES[where][0].format(cell="net.annealed")
    if b % 3 == 0 and plain:
        return f"{run.pick(a)} * {plain}"
    return f'net.annealed{"" if b % 2 else ".part"}({run.rows(a)}, "{where}")'


@COMMON.habit
def change_state(run: Run, a: int, b: int, c: int) -> str | None:
    """Change it in the middle of a sample."""
    return changed(c) + "\n" if b % 3 == 0 else changed(c, b) + "\n"


@COMMON.habit
def take_note(run: Run, a: int, b: int, c: int) -> str | None:
    """Take a note in a cell, a cell that is a method, or in plain code."""
    where = NOTES[c % len(NOTES)]
    if b % 4 == 0:
        x = run.pick(a)
        return [
            "net.noting.calls += 1\n",
            f"net.noting.seen.append({b})\n",
            f"net.noting.kept.append({x} * 0.5)\n",
            f"net.noting.log.calls += 1\n{x} * net.noting.log.calls",
            "count_call()\n",
        ][c % 5]
    return f'net.noting{"" if b % 2 else ".part"}({run.rows(a)}, "{where}")'


@COMMON.habit
def call_twice(run: Run, a: int, b: int, c: int) -> str | None:
    """Go through a weight twice, so that backward reads it."""
    return f"net.squash(net.squash({run.rows(a)}) * 0.9)"


@COMMON.habit
def decide(run: Run, a: int, b: int, c: int) -> str | None:
    """Go on by values: each round reads one."""
    x = run.pick(a)
    return run.say("decide", a, b, c, x=x) if x is not None else None


@COMMON.habit
def branch(run: Run, a: int, b: int, c: int) -> str | None:
    """Run parts of a sample side by side, which read values, or raise."""
    x = run.pick(a)
    return run.say("branch", a, b, c, x=x, y=run.like(x, b)) if x is not None else None


def changed(number: int, more: int = 0) -> str:
    """The line that changes the state of a place, both told by a number."""
    value = 0.25 + 0.25 * ((number // len(PLACES) + more) % 7)
    return PLACES[_place(number)][1].format(cell="net.annealed", value=value)


def pasted(text: str) -> str:
    """The source of `state` for the text of a program that uses it."""
    used = any(f"net.{name}" in text for name in STATEFUL)
    return getsource(state).split(f"# {'-' * 117}\n")[1] if used else ""


def _place(number: int) -> str:
    return list(PLACES)[number % len(PLACES)]


def draw_with_habits(choices: Choices, seed: int, number: int, without: Collection[str] = ()) -> Case:
    """The case of this number, with habits in three of five; `without` leaves some of them out."""
    case = draw(choices, seed, number)
    random = np.random.RandomState([seed % 2**32, number, 2])
    if random.uniform() < 0.4:
        return case
    meant = [habit for habit in HABITS if case.way.record or habit != "weights"]  # else nothing goes backward
    chosen = list(random.permutation(meant)[: 1 + (random.uniform() < 0.3)])
    for habit in chosen:
        drawn = _Draw(random, case).habit(str(habit))
        if habit not in without:
            case = _put(case, drawn, random.randint(100))
    return case


def draw_side_by_side(choices: Choices, seed: int, number: int) -> Case:
    """The case of this number with samples that run side by side, and decide by values.

    Habits whose effects depend on which sample comes first are left out.
    """
    case = draw_with_habits(choices, seed, number, ("state", "effects"))
    random = np.random.RandomState([seed % 2**32, number, 3])
    names = ["decide", "decide", "branch"][: 1 + random.randint(3)]
    steps = tuple(Step(name, *random.randint(NUMBERS, size=3).tolist()) for name in names)
    case = _put(case, Drawn(steps), random.randint(100))
    return case._replace(way=case.way._replace(side=(0, 0, 1, 2, 3)[random.randint(5)]))


class _Draw:
    """Draws of one habit."""

    def __init__(self, random: np.random.RandomState, case: Case) -> None:
        self.random = random
        self.case = case

    def habit(self, name: str) -> Drawn:
        drawn: Drawn = getattr(self, name)()
        return drawn

    def number(self, high: int = NUMBERS) -> int:
        return int(self.random.randint(high))

    def step(self, op: str, c: int | None = None) -> Step:
        return Step(op, self.number(), self.number(), self.number() if c is None else c)

    def at(self, what: str, number: int, early: bool = True) -> tuple[int, Action]:
        """An action somewhere; `early`: also between samples and after a minibatch."""
        which = self.number(len(self.case.minibatches))
        place = self.number(3) if early else 2
        at = (1 + self.number(len(self.case.minibatches[which].samples) - 1), -1, BEFORE_BACKWARD)[place]
        return which, Action(what, number, at)

    def state(self) -> Drawn:
        place = self.number(len(PLACES))
        steps = [self.step("read_state", place) for _ in range(1 + self.number(2))]
        if self.number(3) == 0:
            steps.append(self.step("change_state", place))
        actions = [self.at("state", place + len(PLACES) * self.number(7)) for _ in range(2 + self.number(3))]
        return Drawn(tuple(steps), tuple(actions))

    def effects(self) -> Drawn:
        return Drawn(tuple(self.step("take_note") for _ in range(2 + self.number(2))))

    def writes(self) -> Drawn:
        return Drawn(tuple(self.step("write") for _ in range(2 + self.number(2))))

    def weights(self) -> Drawn:
        actions = [self.at("weight", self.number(999), early=False) for _ in range(1 + self.number(2))]
        return Drawn((self.step("call_twice"),), tuple(actions))

    def buffers(self) -> Drawn:
        return Drawn(actions=tuple(self.at("buffer", self.number(999)) for _ in range(1 + self.number(3))))


def _put(case: Case, drawn: Drawn, at: int) -> Case:
    """The case with a habit; instructions go to the same place of all programs."""
    minibatches = []
    for number, minibatch in enumerate(case.minibatches):
        samples = tuple(_with_steps(sample, drawn.steps, at) for sample in minibatch.samples)
        actions = tuple(action for which, action in drawn.actions if which == number)
        minibatches.append(_with_actions(minibatch._replace(samples=samples), actions))
    return case._replace(minibatches=tuple(minibatches))


def _with_steps(sample: Sample, steps: tuple[Step, ...], at: int) -> Sample:
    """Insert steps, mostly at the end, because a program returns what it computes last."""
    made = sample.steps
    for k, step in enumerate(steps):
        place = len(made) if (at + k) % 3 else (at + 7 * k) % (len(made) + 1)
        made = (*made[:place], step, *made[place:])
    return sample._replace(steps=made)


def _with_actions(minibatch: Minibatch, actions: tuple[Action, ...]) -> Minibatch:
    """Insert actions; before a write to a weight, its uses mostly run, as when a loss is printed."""
    made = minibatch._replace(actions=(*minibatch.actions, *actions))
    numbers = [action.number for action in actions if action.what == "weight"]
    if numbers and numbers[0] % 5:
        made = made._replace(reading="some")
    if numbers and numbers[0] % 4:
        made = made._replace(backward="total")
    return made
