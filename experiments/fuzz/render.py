"""From a case to the text of a Python program, which is what runs, and what is printed when it fails."""

from __future__ import annotations

from typing import Any, NamedTuple

from mxnet import nd

from experiments.fuzz.case import Action, Carried, Case, Minibatch, Sample, dtype_of, numbers_of
from experiments.fuzz.net import layers_in
from experiments.fuzz.run import FLOATS, Run, perform


class Rendered(NamedTuple):
    """The text of a case: a function for each program, and `run(net, batched)`; the layers it uses; the dtypes."""

    text: str
    layers: list[str]
    dtypes: frozenset[str]


def render(case: Case, net: Any, names: dict[str, Any]) -> Rendered:
    """Write the text of a case. What decides on operands is shapes: each program is run once to know them."""
    return _Writer(case, net, names).written()


class _Writer:
    def __init__(self, case: Case, net: Any, names: dict[str, Any]) -> None:
        self.case = case
        self.net = net
        self.names = names
        self.functions: dict[str, str] = {}  # the name of each function, by its text
        self.known: dict[Any, tuple[str, list[Any] | None]] = {}
        self.dtypes: set[str] = set()
        self.arrays = [nd.array(numbers_of(given), dtype=dtype_of(given)) for given in case.arrays]

    def written(self) -> Rendered:
        case, way = self.case, self.case.way
        body: list[str] = []
        used = sorted(
            {k for m in case.minibatches for s in m.samples for k in (*s.inputs, s.tokens) if isinstance(k, int)}
        )
        for k in used:
            given = case.arrays[k]
            body.append(f'x{k} = nd.array({numbers_of(given).tolist()}, dtype="{dtype_of(given)}")')
            body += [f"x{k}.attach_grad()"] if given.learn and dtype_of(given) in FLOATS else []
        if way.how != "scope":
            options = "".join(f", {name}={value!r}" for name, value in way.options)
            body.append(f"if batched:\n    net.hybridize(dynamic_batch=True{options})")
        if any(action.what == "trainer" for m in case.minibatches for action in m.actions):
            body.append('trainer = gluon.Trainer(parameters(net, names), "sgd", {"learning_rate": 0.1})')
        outputs: list[list[Any] | None] = []
        late: list[str] = []
        for number, minibatch in enumerate(case.minibatches):
            lines, outputs, reads = self.minibatch(number, minibatch, outputs, used)
            body += [f"# minibatch {number}", *lines]
            late += reads
        body += late
        body.append("record_all(found, net, names)")
        functions = "".join(f"def {name}{text}\n\n" for text, name in self.functions.items())
        rest = "\n".join(body)
        layers = layers_in(functions + rest)
        head = f'found = {{}}\nnames = {layers}\nfill(net, names, "{way.dtype}")\n'
        indented = "\n".join("    " + line for line in (head + rest + "\nreturn found").split("\n"))
        return Rendered(f"{functions}def run(net, batched):\n{indented}\n", layers, frozenset(self.dtypes))

    def minibatch(
        self, number: int, minibatch: Minibatch, before: list[list[Any] | None], used: list[int]
    ) -> tuple[list[str], list[list[Any] | None], list[str]]:
        way = self.case.way
        outputs: list[list[Any] | None] = []
        inner: list[str] = []
        outs = [f"out{number}_{k}" for k in range(len(minibatch.samples))]
        for k, sample in enumerate(minibatch.samples):
            for action in minibatch.actions:
                inner += self.action(action, used) if action.at == k else []
            name, arguments, results = self.program(number, sample, before)
            outputs.append(results)
            call = f"net({name}{''.join(', ' + argument for argument in arguments)})"
            inner.append(f'{outs[k]} = attempt(found, "minibatch {number}, sample {k}", lambda: {call})')
        losses = f"[loss_of(out{self.tied(minibatch, used)}) for out in ({', '.join(outs)},) if out is not None]"
        inner.append(f"losses = {losses}")
        inner.append(f"total = {minibatch.loss.format('losses')} if losses else None")
        mode = f"autograd.record({way.train_mode})" if way.record else "autograd.predict_mode()"
        options = "".join(f", {name}={value!r}" for name, value in way.options)
        opened = f"scope(batched{options}), {mode}" if way.how != "hybridize" else mode
        lines = [f"with {opened}:", *("    " + line for line in inner)]
        if number and way.record:
            learned = [f"x{k}" for k in used if self.case.arrays[k].learn]
            lines.insert(0, f"forget_gradients(net, names, [{', '.join(learned)}])")
        keeps = [f'keep(found, "minibatch {number}, sample {k}", {out})' for k, out in enumerate(outs)]
        keeps.append(f'keep(found, "minibatch {number}, loss", [total] if losses else None)')
        early = {"before": keeps, "some": keeps[:1]}.get(minibatch.reading, [])
        lines += early
        if way.record:
            lines += self.backward(number, minibatch, used)
        lines += keeps if minibatch.reading == "after" else []
        for action in minibatch.actions:
            lines += self.action(action, used) if action.at < 0 else []
        return lines, outputs, keeps if minibatch.reading == "end" else []

    def tied(self, minibatch: Minibatch, used: list[int]) -> str:
        """What every loss has to depend on, where MXNet would refuse the whole call for one that does not."""
        if not self.case.way.record or minibatch.backward not in ("list", "heads", "grad"):
            return ""
        learned = [f"x{k}" for k in used if self.case.arrays[k].learn and _uses(minibatch, k)]
        arrays = ["net.vector.data()", *(learned if minibatch.backward == "grad" else [])]
        return f", [{', '.join(arrays)}]"

    def program(
        self, number: int, sample: Sample, before: list[list[Any] | None]
    ) -> tuple[str, list[str], list[Any] | None]:
        """The function of a sample's program, its arguments, and results to know the shapes of."""
        arguments, arrays = [], []
        for item in sample.inputs:
            if isinstance(item, Carried):
                source = before[item.sample] if item.sample < len(before) else None
                if source is None or str(source[item.output % len(source)].dtype.__name__) not in FLOATS:
                    continue
                place = item.output % len(source)
                arguments.append(f"out{number - 1}_{item.sample}[{place}]" + (".detach()" if item.detach else ""))
                arrays.append(source[place])
            else:
                arguments.append(f"x{item}")
                arrays.append(self.arrays[item])
        if not arrays:
            arguments.append(f'x{sample.tokens}.astype("float32")')
            arrays.append(self.arrays[sample.tokens].astype("float32"))
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
        run = Run(names, inputs, "tokens", self.case.way.dtype)
        results: list[Any] | None = None
        try:
            for step in sample.steps:
                perform(run, step)
            chosen = run.env[-min(sample.outputs, len(run.env)) :]
            results = [names[var.name] for var in chosen]
            last = f"return [{', '.join(map(str, chosen))}]"
        except Exception:
            last = run.failing
        self.dtypes.update(var.dtype for var in run.env)
        lines = "\n".join("    " + line for text in [*run.lines, last] for line in text.split("\n") if line)
        text = f"(net, {', '.join([*inputs, 'tokens'])}):\n{lines}\n"
        return self.functions.setdefault(text, f"program_{len(self.functions)}"), results

    def backward(self, number: int, minibatch: Minibatch, used: list[int]) -> list[str]:
        learned = [f"x{k}" for k in used if self.case.arrays[k].learn and _uses(minibatch, k)]
        style = minibatch.backward
        if style == "grad" and learned:
            call = f"autograd.grad(total, [{', '.join(learned)}])"
            return [
                "if losses:",
                f'    found_gradients = attempt(found, "minibatch {number}, grad", lambda: {call})',
                f'    keep(found, "minibatch {number}, grad", found_gradients)',
            ]
        calls = {
            "list": ["autograd.backward(losses)"],
            "each": [f"losses[{k}].backward()" for k in range(len(minibatch.samples))],
            "twice": ["total.backward(retain_graph=True)", "total.backward()"],
            "heads": ["autograd.backward(losses, [nd.array([0.5 + k]) for k in range(len(losses))])"],
            "scaled": ["total.backward(nd.array([0.3]))"],
        }.get(style, ["total.backward()"])
        lines = [f'    attempt(found, "minibatch {number}, {call}", lambda: {call})' for call in calls]
        lines += [f'    keep(found, "minibatch {number}, gradient of {name}", [{name}.grad])' for name in learned]
        lines.append(f'    record_gradients(found, "minibatch {number}", net, names)')
        return ["if losses:", *lines]

    def action(self, action: Action, used: list[int]) -> list[str]:
        """A change of a parameter or of an input."""
        if action.what == "trainer":
            return ['attempt(found, "trainer", lambda: trainer.step(1, ignore_stale_grad=True))']
        if action.what == "set_data":
            return [f'change(net, names, {action.number}, "{self.case.way.dtype}")']
        floats = [k for k in used if dtype_of(self.case.arrays[k]) in FLOATS]
        if not floats:
            return []
        k = floats[action.number % len(floats)]
        given = self.case.arrays[k]
        if action.what == "write":
            return [f'x{k}[:] = values({given.shape}, {action.number}, "{dtype_of(given)}")']
        return [f"x{k} += 0.125"]


def _uses(minibatch: Minibatch, k: int) -> bool:
    return any(k in sample.inputs for sample in minibatch.samples)
