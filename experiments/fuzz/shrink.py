"""Shrinks a failing case: it drops everything that the difference does not need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

from experiments.fuzz.case import Action, Carried, Case, Minibatch, Sample, Way
from experiments.fuzz.run import Step

Fails = Callable[[Case], bool]


def shrink(case: Case, fails: Fails, seconds: float = 20.0) -> Case:
    """The smallest case found that still fails; stops when nothing helps any more, or when time is up."""
    end = perf_counter() + seconds
    progress = True
    while progress:
        progress = False
        for candidates in (_fewer_minibatches, _fewer_samples, _fewer_steps, _plainer, _fewer_inputs, _smaller_numbers):
            case, better = _try_all(case, candidates, fails, end)
            progress = progress or better
        if perf_counter() > end:
            break
    return case


def _try_all(case: Case, candidates: Callable[[Case], Iterator[Case]], fails: Fails, end: float) -> tuple[Case, bool]:
    """Go on from each candidate that fails, until none does."""
    better = False
    found = True
    while found:
        found = False
        for candidate in candidates(case):
            if perf_counter() > end:
                return case, better
            if candidate != case and fails(candidate):
                case, found, better = candidate, True, True
                break
    return case, better


def _fewer_minibatches(case: Case) -> Iterator[Case]:
    for k in range(len(case.minibatches)):
        if len(case.minibatches) > 1:
            yield case._replace(minibatches=case.minibatches[:k] + case.minibatches[k + 1 :])


def _fewer_samples(case: Case) -> Iterator[Case]:
    for number, minibatch in enumerate(case.minibatches):
        count = len(minibatch.samples)
        size = count // 2
        while size:
            for begin in range(0, count, size):
                kept = minibatch.samples[:begin] + minibatch.samples[begin + size :]
                if kept:
                    yield _with(case, number, minibatch._replace(samples=kept))
            size //= 2


def _fewer_steps(case: Case) -> Iterator[Case]:
    """Drop runs of instructions: from every sample with the same program at once, then from one."""
    for steps in sorted({s.steps for m in case.minibatches for s in m.samples}, key=len, reverse=True):
        size = len(steps)
        while size:
            for begin in range(0, len(steps), size):
                yield _replaced(case, steps, steps[:begin] + steps[begin + size :])
            size //= 2
    for number, minibatch in enumerate(case.minibatches):
        for k, sample in enumerate(minibatch.samples):
            for at in range(len(sample.steps)):
                shorter = sample._replace(steps=sample.steps[:at] + sample.steps[at + 1 :])
                yield _with_sample(case, number, k, shorter)


def _replaced(case: Case, steps: tuple[Step, ...], by: tuple[Step, ...]) -> Case:
    return case._replace(
        minibatches=tuple(
            m._replace(samples=tuple(s._replace(steps=by) if s.steps == steps else s for s in m.samples))
            for m in case.minibatches
        )
    )


def _plainer(case: Case) -> Iterator[Case]:
    """The usual way of running, one thing at a time."""
    plain = Way()
    for k in range(len(case.way.options)):
        yield case._replace(way=case.way._replace(options=case.way.options[:k] + case.way.options[k + 1 :]))
    for name, value in plain._asdict().items():
        if name != "options":
            yield case._replace(way=case.way._replace(**{name: value}))
    yield case._replace(way=case.way._replace(record=False))
    for number, minibatch in enumerate(case.minibatches):
        for k in range(len(minibatch.actions)):
            actions: tuple[Action, ...] = minibatch.actions[:k] + minibatch.actions[k + 1 :]
            yield _with(case, number, minibatch._replace(actions=actions))
        yield _with(case, number, minibatch._replace(loss="gluonjit.add_n({})"))
        yield _with(case, number, minibatch._replace(backward="total"))
        yield _with(case, number, minibatch._replace(reading="after"))
    for k, given in enumerate(case.arrays):
        for changes in ({"learn": False}, {"dtype": "float32"} if given.dtype.startswith("float") else {}):
            yield case._replace(arrays=(*case.arrays[:k], given._replace(**changes), *case.arrays[k + 1 :]))


def _fewer_inputs(case: Case) -> Iterator[Case]:
    for number, minibatch in enumerate(case.minibatches):
        for k, sample in enumerate(minibatch.samples):
            if sample.outputs > 1:
                yield _with_sample(case, number, k, sample._replace(outputs=1))
            for at, given in enumerate(sample.inputs):
                if len(sample.inputs) > 1:
                    fewer = sample.inputs[:at] + sample.inputs[at + 1 :]
                    yield _with_sample(case, number, k, sample._replace(inputs=fewer))
                if isinstance(given, Carried) and given.detach:
                    changed = (*sample.inputs[:at], given._replace(detach=False), *sample.inputs[at + 1 :])
                    yield _with_sample(case, number, k, sample._replace(inputs=changed))


def _smaller_numbers(case: Case) -> Iterator[Case]:
    """Smaller numbers of instructions, shorter numbers and leading axes of arrays."""
    for steps in {s.steps for m in case.minibatches for s in m.samples}:
        for at, step in enumerate(steps):
            for field in ("a", "b", "c"):
                value = getattr(step, field)
                for smaller in {0, value // 2, value - 1} - {value, -1}:
                    changed = (*steps[:at], step._replace(**{field: smaller}), *steps[at + 1 :])
                    yield _replaced(case, steps, changed)
    for k, given in enumerate(case.arrays):
        for changes in ({"digits": 1}, {"shape": (1, *given.shape[1:])}):
            yield case._replace(arrays=(*case.arrays[:k], given._replace(**changes), *case.arrays[k + 1 :]))


def _with(case: Case, number: int, minibatch: Minibatch) -> Case:
    """The case with another minibatch of this number."""
    return case._replace(minibatches=(*case.minibatches[:number], minibatch, *case.minibatches[number + 1 :]))


def _with_sample(case: Case, number: int, k: int, sample: Sample) -> Case:
    minibatch = case.minibatches[number]
    samples = (*minibatch.samples[:k], sample, *minibatch.samples[k + 1 :])
    return _with(case, number, minibatch._replace(samples=samples))
