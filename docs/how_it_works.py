"""Just-in-time dynamic batching in numpy: the idea of gluonjit, to be read from top to bottom and run.

    python docs/how_it_works.py

A model is written for one sample, here a tree, with recursion, loops, and any other Python. Sample after sample it runs
many small operators. Given lazy values instead of arrays, the same program computes nothing: it records what it would
compute, for all samples, and equal kinds of work then run together. gluonjit does this for MXNet and PyTorch, with
everything else that a library needs; each part below names the folder that does it there.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

# 1. The user's program, for one sample. It does not mention batches. `p` holds the parameters.


def encode(tree, p):
    """The state of a node, from its word and the sum over its children."""
    word, children = tree
    state = p.W @ p.words[word] + p.b
    for child in children:
        state = state + p.U @ encode(child, p)
    return np.tanh(state)


def loss(tree, label, p):
    """The squared error of one sample."""
    error = label - p.v @ encode(tree, p)
    return error * error


# 2. Capture (gluonjit/engines, gluonjit/graph): calls are recorded as nodes of a graph.


class Lazy(NDArrayOperatorsMixin):
    """A value not yet computed: the result of a node. numpy passes each operator on it to `__array_ufunc__`."""

    def __init__(self, graph, kind, operands, shape, payload):
        self.graph, self.kind, self.operands, self.shape = graph, kind, operands, shape
        self.payload = payload  # the number of a word, an input, or the parameter among the arguments
        self.depth = 1 + max((x.depth for x in operands), default=-1)  # nodes on the longest path to here
        self.row = None  # where the value will lie, once planned

    def __array_ufunc__(self, function, method, *inputs):
        return self.graph.call(function, inputs)


class Graph:
    """The calls of all samples. Programs get `p`: the parameters themselves, with look-ups that are captured."""

    def __init__(self, parameters):
        self.parameters, self.names = parameters, {id(array): name for name, array in vars(parameters).items()}
        self.nodes, self.calls = {}, 0  # nodes by function and operands: an equal call finds the existing one
        self.p = SimpleNamespace(**{**vars(parameters), "words": self})

    def __getitem__(self, word):  # p.words[word], a row of the table
        return self.node(("words",), (), self.parameters.words.shape[1:], word, word)

    def call(self, function, inputs):
        """Capture `function(*inputs)`. Nodes of one kind share the parameter (W); values (x) have equal shapes."""
        own = [x for x in inputs if not isinstance(x, Lazy) and id(x) not in self.names]  # the sample's own arrays
        leaves = {id(x): self.node(("inputs", np.shape(x)), (), np.shape(x), id(x), x) for x in own}
        given = [leaves.get(id(x), x) for x in inputs]
        operands = tuple(x for x in given if isinstance(x, Lazy))
        assert len({x.shape for x in operands}) == 1, "shapes are not broadcast here"
        parameter = next((x for x in given if not isinstance(x, Lazy)), None)
        pattern = "".join("x" if isinstance(x, Lazy) else "W" for x in given)
        kind = (function, pattern, id(parameter), *(x.shape for x in operands))
        shape = function(*[np.zeros(x.shape) if isinstance(x, Lazy) else x for x in given]).shape
        return self.node(kind, operands, shape, tuple(map(id, operands)), parameter)

    def node(self, kind, operands, shape, key, payload):
        self.calls += 1
        if (kind, key) not in self.nodes:
            self.nodes[kind, key] = Lazy(self, kind, operands, shape, payload)
        return self.nodes[kind, key]


# 3. The plan (gluonjit/analysis): which nodes run together, in which order, and where each value will lie.


class Step(NamedTuple):
    """Nodes of one kind and one depth: none can use another's result."""

    nodes: list[Lazy]
    shape: tuple[int, ...]  # of a value; values of one shape lie in one arena, one per row
    rows: slice  # of the results in their arena, contiguous: one write for all
    gathers: list[tuple[tuple[int, ...], list[int]]]  # for each operand the arena, and its row for each node
    parameter: list[np.ndarray]  # at most one


def planned(graph):
    """Return the steps in a valid order, and the arenas."""
    groups, rows, steps = {}, Counter(), []
    for node in graph.nodes.values():
        groups.setdefault((node.depth, node.kind), []).append(node)
    for _, nodes in sorted(groups.items(), key=lambda group: group[0][0]):
        shape = nodes[0].shape
        begin, rows[shape] = rows[shape], rows[shape] + len(nodes)
        for row, node in enumerate(nodes, begin):
            node.row = row
        gathers = [(of[0].shape, [x.row for x in of]) for of in zip(*(node.operands for node in nodes))]
        parameter = [nodes[0].payload] if id(nodes[0].payload) in graph.names else []
        steps.append(Step(nodes, shape, slice(begin, rows[shape]), gathers, parameter))
    return steps, {shape: np.zeros((count, *shape)) for shape, count in rows.items()}


# 4. Rules (gluonjit/engines/*/operators): how a function of one sample runs for many, with operands stacked along a new
# first axis. A rule computes the results Y, from their gradient G the gradients of the operands, one row per node, and
# the gradient of the parameter, summed over all nodes.

RULES = {
    (np.add, "xx"): (lambda x, y: x + y, lambda G, Y, x, y: [G, G], None),
    (np.subtract, "xx"): (lambda x, y: x - y, lambda G, Y, x, y: [G, -G], None),
    (np.multiply, "xx"): (lambda x, y: x * y, lambda G, Y, x, y: [G * y, G * x], None),
    (np.tanh, "x"): (lambda x: np.tanh(x), lambda G, Y, x: [G * (1 - Y * Y)], None),
    (np.add, "xW"): (lambda x, W: x + W, lambda G, Y, x, W: [G], lambda G, x: G.sum(0)),
    (np.matmul, "Wx"): (  # W is a matrix, or a vector if the result is a number
        lambda x, W: x @ W.T,
        lambda G, Y, x, W: [G.reshape(len(G), -1) @ np.atleast_2d(W)],
        lambda G, x: G.T @ x,
    ),
}


# 5. Running it (gluonjit/hybrid, gluonjit/hybrid/run/session.py): one launch per step, for any number of nodes.


def forward(graph, steps, arenas):
    """Fill the arenas."""
    for step in steps:
        if step.nodes[0].kind[0] == "words":
            arenas[step.shape][step.rows] = graph.parameters.words[[node.payload for node in step.nodes]]
        elif step.nodes[0].kind[0] == "inputs":
            arenas[step.shape][step.rows] = [node.payload for node in step.nodes]
        else:
            results, _, _ = RULES[step.nodes[0].kind[:2]]
            operands = [arenas[arena][rows] for arena, rows in step.gathers]
            arenas[step.shape][step.rows] = results(*operands, *step.parameter)


def backward(graph, steps, arenas, losses):
    """Return gradients of the sum of the losses: the steps in reverse. Gathered rows are scattered, and add up."""
    grads = {shape: np.zeros_like(arena) for shape, arena in arenas.items()}
    found = {name: np.zeros_like(array) for name, array in vars(graph.parameters).items()}
    np.add.at(grads[()], [node.row for node in losses], 1.0)  # two equal samples have one node
    for step in reversed(steps):
        Y, G = arenas[step.shape][step.rows], grads[step.shape][step.rows]
        if step.nodes[0].kind[0] == "words":
            np.add.at(found["words"], [node.payload for node in step.nodes], G)
        elif step.nodes[0].kind[0] != "inputs":
            _, of_operands, of_parameter = RULES[step.nodes[0].kind[:2]]
            operands = [arenas[arena][rows] for arena, rows in step.gathers]
            for (arena, rows), gradient in zip(step.gathers, of_operands(G, Y, *operands, *step.parameter)):
                np.add.at(grads[arena], rows, gradient)
            for array in step.parameter:
                found[graph.names[id(array)]] += of_parameter(G, *operands)
    return found


# 6. Is it the same? Compare with losses computed sample by sample, without any of the above, and with gradients by a
# step of 1e-30 along the imaginary axis for each number of each parameter (Squire and Trapp 1998), exact to rounding.


def gradient_one_by_one(samples, parameters, name):
    found = np.zeros_like(getattr(parameters, name))
    for place in np.ndindex(found.shape):
        moved = getattr(parameters, name).astype(complex)
        moved[place] += 1e-30j
        p = SimpleNamespace(**{**vars(parameters), name: moved})
        found[place] = sum(loss(*sample, p) for sample in samples).imag / 1e-30
    return found


if __name__ == "__main__":
    draw = np.random.RandomState(0)
    shapes = {"words": (12, 4), "W": (5, 4), "U": (5, 5), "b": (5,), "v": (5,)}
    parameters = SimpleNamespace(**{name: draw.normal(size=shape) for name, shape in shapes.items()})

    def drawn(most):
        return draw.randint(12), [drawn(most - 1) for _ in range(draw.randint(most))]

    samples = [(drawn(4), np.array(draw.normal())) for _ in range(25)]
    graph = Graph(parameters)
    losses = [loss(*sample, graph.p) for sample in samples]  # captured: nothing is computed yet
    steps, arenas = planned(graph)
    forward(graph, steps, arenas)
    gradients = backward(graph, steps, arenas, losses)

    np.testing.assert_allclose(arenas[()][[node.row for node in losses]], [loss(*one, parameters) for one in samples])
    for name, gradient in gradients.items():
        wanted = gradient_one_by_one(samples, parameters, name)
        np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    print(f"{len(samples)} samples, {graph.calls} calls: {len(graph.nodes)} nodes in {len(steps)} launches")
