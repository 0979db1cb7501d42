"""From a case to the text of a Python program, which is run, and printed when it fails."""

from __future__ import annotations

from typing import Any, NamedTuple

from experiments.fuzz.case import Action, Carried, Case, Minibatch, Sample, dtype_of, numbers_of
from experiments.fuzz.framework import Framework
from experiments.fuzz.habits import BEFORE_BACKWARD, STATEFUL, changed
from experiments.fuzz.net import layers_in
from experiments.fuzz.run import FLOATS, Run, dtype_name

_TURNS = """from itertools import cycle
    from gluonjit.hybrid.choose import pacing
    pacing.FORCED[:] = [cycle({}).__next__]
    """


class Rendered(NamedTuple):
    """The text of a case: a function for each program, and `run(net, batched)`; the layers it uses; the dtypes."""

    text: str
    layers: list[str]
    dtypes: frozenset[str]


def render(case: Case, net: Any, framework: Framework) -> Rendered:
    """Write the text of a case. Shapes determine the operands: each program is run once to know them."""
    return _Writer(case, net, framework).written()


class _Writer:
    def __init__(self, case: Case, net: Any, framework: Framework) -> None:
        self.case = case
        self.net = net
        self.framework = framework
        self.names = framework.names
        self.functions: dict[str, str] = {}  # the name of each function, by its text
        self.known: dict[Any, tuple[str, list[Any] | None]] = {}
        self.dtypes: set[str] = set()
        self.arrays = [framework.array(numbers_of(given), dtype_of(given)) for given in case.arrays]

    def written(self) -> Rendered:
        case, way, framework = self.case, self.case.way, self.framework
        body: list[str] = []
        used = sorted(
            {k for m in case.minibatches for s in m.samples for k in (*s.inputs, s.tokens) if isinstance(k, int)}
        )
        for k in used:
            given = case.arrays[k]
            learn = given.learn and dtype_of(given) in FLOATS
            body += framework.given(f"x{k}", numbers_of(given), dtype_of(given), learn)
        if way.how != "scope":
            named = dict(way.options) if way.turns else {"granularity": "batched", **dict(way.options)}
            options = "".join(f", {name}={value!r}" for name, value in named.items())
            turns = _TURNS.format(way.turns) if way.turns else ""
            body.append(f"if batched:\n    {turns}{framework.hybridize(options)}")
        if any(action.what == "trainer" for m in case.minibatches for action in m.actions):
            body.append(framework.trainer())
        outputs: list[list[Any] | None] = []
        late: list[str] = []
        for number, minibatch in enumerate(case.minibatches):
            lines, outputs, reads = self.minibatch(number, minibatch, outputs, used)
            body += [f"# minibatch {number}", *lines]
            late += reads
        body += late
        body.append("record_all(found, net, names)")
        if "net.noting" in "".join([*self.functions, *body]):
            body.append("keep_notes(found, net.noting, keep)")
        functions = "".join(f"def {name}{text}\n\n" for text, name in self.functions.items())
        rest = "\n".join(body)
        layers = layers_in(framework, functions + rest)
        head = f'found = {{}}\nnames = {layers}\nfill(net, names, "{way.dtype}")\n'
        head += "".join(f"net.{name}.begin()\n" for name in STATEFUL if name in layers)
        indented = "\n".join("    " + line for line in (head + rest + "\nreturn found").split("\n"))
        return Rendered(f"{functions}def run(net, batched):\n{indented}\n", layers, frozenset(self.dtypes))

    def minibatch(
        self, number: int, minibatch: Minibatch, before: list[list[Any] | None], used: list[int]
    ) -> tuple[list[str], list[list[Any] | None], list[str]]:
        way, framework = self.case.way, self.framework
        learned = [f"x{k}" for k in used if self.case.arrays[k].learn]
        own = [f"x{k}" for k in used if self.case.arrays[k].learn and _uses(minibatch, k)]
        outputs: list[list[Any] | None] = []
        inner: list[str] = []
        beside: list[tuple[str, str]] = []  # samples that have not begun, where they run side by side
        outs = [f"out{number}_{k}" for k in range(len(minibatch.samples))]
        for k, sample in enumerate(minibatch.samples):
            actions = [line for action in minibatch.actions if action.at == k for line in self.action(action, used)]
            if actions:
                inner += [*self.together(beside), *actions]
            name, arguments, results = self.program(number, sample, before)
            outputs.append(results)
            call = f'attempt(found, "minibatch {number}, sample {k}", lambda: {framework.call(name, arguments, way)})'
            if way.side is None:
                inner.append(f"{outs[k]} = {call}")
            else:
                beside.append((outs[k], call))
        inner += self.together(beside)
        loss = framework.loss(self.case, minibatch, own)
        inner.append(f"losses = [{loss} for out in ({', '.join(outs)},) if out is not None]")
        inner.append(f"total = {minibatch.loss.format('losses')} if losses else None")
        mode = framework.mode(way)
        options = "".join(f", {name}={value!r}" for name, value in way.options)
        opened = f"scope(batched{options}), {mode}" if way.how in ("both", "scope") else mode
        lines = [f"with {opened}:", *("    " + line for line in inner)]
        if number and way.record:
            lines = [*framework.forget(number, self.case, learned), *lines]
        keeps = [f'keep(found, "minibatch {number}, sample {k}", {out})' for k, out in enumerate(outs)]
        keeps.append(f'keep(found, "minibatch {number}, loss", [total] if losses else None)')
        lines += {"before": keeps, "some": keeps[:1]}.get(minibatch.reading, [])
        for action in minibatch.actions:
            lines += self.action(action, used) if action.at == BEFORE_BACKWARD else []
        if way.record:
            lines += framework.backward(number, self.case, own)
        lines += keeps if minibatch.reading == "after" else []
        for action in minibatch.actions:
            lines += self.action(action, used) if action.at == -1 else []
        return lines, outputs, keeps if minibatch.reading == "end" else []

    def together(self, beside: list[tuple[str, str]]) -> list[str]:
        """The line that runs samples side by side, of which none is left then."""
        way, names = self.case.way, [name for name, _ in beside]
        calls = ", ".join(f"lambda: {call}" for _, call in beside)
        named = {} if way.how in ("both", "scope") else {"granularity": "batched", **dict(way.options)}
        options = "".join(f", {name}={value!r}" for name, value in named.items())
        beside.clear()
        return (
            [f"[{', '.join(names)}] = side_by_side(batched, [{calls}], {way.side or None}{options})"] if names else []
        )

    def program(
        self, number: int, sample: Sample, before: list[list[Any] | None]
    ) -> tuple[str, list[str], list[Any] | None]:
        """The function of a sample's program, its arguments, and results to know the shapes of."""
        arguments, arrays = [], []
        for item in sample.inputs:
            if isinstance(item, Carried):
                source = before[item.sample] if item.sample < len(before) else None
                if source is None or dtype_name(source[item.output % len(source)].dtype) not in FLOATS:
                    continue
                place = item.output % len(source)
                text = f"out{number - 1}_{item.sample}[{place}]"
                arguments.append(self.framework.carried(text, item.detach, self.case.minibatches[number - 1]))
                arrays.append(source[place])
            else:
                arguments.append(f"x{item}")
                arrays.append(self.arrays[item])
        if not arrays:
            arguments.append(self.framework.cast(f"x{sample.tokens}", "float32"))
            arrays.append(self.framework.array(numbers_of(self.case.arrays[sample.tokens]), "float32"))
        arguments.append(f"x{sample.tokens}")
        arrays.append(self.arrays[sample.tokens])
        key = (sample.steps, sample.outputs, tuple((array.shape, array.dtype) for array in arrays))
        if key not in self.known:
            self.known[key] = self.function(sample, arrays)
        name, results = self.known[key]
        return name, arguments, results

    def function(self, sample: Sample, arrays: list[Any]) -> tuple[str, list[Any] | None]:
        """Run a program to write its function; it ends where it raises."""
        inputs = [f"a{k}" for k in range(len(arrays) - 1)]
        names = {**self.names, "net": self.net, **dict(zip([*inputs, "tokens"], arrays))}
        run = Run(names, inputs, "tokens", self.framework.dialect, self.case.way.dtype)
        results: list[Any] | None = None
        try:
            for line in self.framework.begin(self.case, inputs):
                run.do(line + "\n")
            for step in sample.steps:
                self.framework.choices.table.perform(run, step)
            chosen = run.env[-min(sample.outputs, len(run.env)) :]
            results = [names[var.name] for var in chosen]
            last = f"return [{', '.join(map(str, chosen))}]"
        except Exception:
            last = run.failing
        self.dtypes.update(var.dtype for var in run.env)
        lines = "\n".join("    " + line for text in [*run.lines, last] for line in text.split("\n") if line)
        text = f"(net, {', '.join([*inputs, 'tokens'])}):\n{lines}\n"
        return self.functions.setdefault(text, f"program_{len(self.functions)}"), results

    def action(self, action: Action, used: list[int]) -> list[str]:
        """A change of a parameter or of an input."""
        if action.what == "state":
            return [changed(action.number)]
        if action.what == "weight":
            return [f"touch(net, {'names' if action.number % 2 else ['squash']}, {action.number})"]
        arrays = self.case.arrays
        inputs = [(f"x{k}", arrays[k]) for k in used if dtype_of(arrays[k]) in FLOATS]
        return self.framework.action(action, self.case.way, inputs)


def _uses(minibatch: Minibatch, k: int) -> bool:
    return any(k in sample.inputs for sample in minibatch.samples)
