"""Batched programs through torch.compile (option `executor="compiled"`): counted, and bounded in number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gluonjit.analysis import Plan
from gluonjit.engines.torch.hooked import original_compile
from gluonjit.engines.torch.stepwise import StepwiseSession
from gluonjit.engines.torch.tape import Tape, TapeEntry
from gluonjit.hybrid import Report

MOST_COMPILATIONS = 6
"""Of one program: with gradients and without, and what the compiler tells apart else. Sizes are dynamic."""


class CompiledProgram:
    """A runner of a program: compiled, or where that cannot be or is not worth while as it is."""

    def __init__(self, program: Any) -> None:
        self.compilations = 0
        self.refused = ""
        run = getattr(program, "function", None)
        if run is None:
            self.refused = "a program that runs node by node"
        else:
            self._run: Callable[..., Any] = original_compile(run, backend=self._backend, dynamic=True, fullgraph=True)

    def _backend(self, graph: Any, inputs: Any) -> Any:
        from torch._functorch import config
        from torch._inductor.compile_fx import compile_fx

        self.compilations += 1
        # A backward pass may come several times (retain_graph), so its inputs are no scratch memory.
        with config.patch(donated_buffer=False):
            return compile_fx(graph, inputs)

    def call(self, program: Any, report: Report, operands: Any, consts: Any, count: int, besides: Any) -> Any:
        """The results of a step."""
        # A size of one would be another program to the compiler.
        if self.refused or count < 2:
            return program(operands, consts, count, besides)
        before = self.compilations
        try:
            found = self._run(count, *operands, *consts, *besides)
        except Exception as error:  # run as it is next, it raises again what is the program's own
            self.refused = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
            found = program(operands, consts, count, besides)
        report.executed.compilations += self.compilations - before
        if not self.refused and self.compilations >= MOST_COMPILATIONS:
            self.refused = f"it has been compiled {self.compilations} times"
        return found


def _compiled(plan: Plan, report: Report, number: int) -> Callable[..., Any]:
    """Returns what runs the program of a step."""
    kind = plan.steps[number].kind
    program = kind.program
    compiled: CompiledProgram | None = program.__dict__.get("compiled")
    if compiled is None:
        compiled = program.__dict__["compiled"] = CompiledProgram(program)

    def run(operands: Sequence[Any], consts: Sequence[Any], count: int, besides: Sequence[Any] = ()) -> Any:
        found = compiled.call(program, report, operands, consts, count, besides)
        if compiled.refused:
            report.executed.decline(f"{kind.name} is not compiled: {compiled.refused}")
        return found

    return run


class CompiledTape(Tape):
    """The history of compiled steps."""

    # As `torch.autograd.grad` does it: compiled functions see settings of the compiler through what this passes on.
    engine: Any = staticmethod(torch.autograd.graph._engine_run_backward)

    def _backward(self, ran: TapeEntry, *args: Any) -> bool:
        from torch._functorch import config

        with config.patch(donated_buffer=False):  # it is asked for again when a backward pass runs
            return super()._backward(ran, *args)


class CompiledSession(StepwiseSession):
    """Runs each step by the compiled program of its kind."""

    taping = CompiledTape

    running = staticmethod(_compiled)
