"""Public functions of mx.nd, mx.np and mx.npx: each with the arguments, of a list of usual ones, that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import mxnet as mx
import numpy as np

from experiments.conformance.compare import examine
from experiments.conformance.mxnet_operators import runs, written
from experiments.conformance.mxnet_programs import Minibatch, flat, program
from experiments.conformance.outcome import CELL, OP, Program, Record

SAMPLES, MOST = 4, 4  # samples in a minibatch, ways in which a function is called
MODULES = ("nd", "nd.linalg", "nd.contrib", "nd.random", "nd.image", "np", "np.linalg", "np.random", "npx")
# Functions that are no operators on arrays, or of which MXNet's own result is undefined.
LEFT_OUT = {
    "reads or writes files": "load load_frombuffer save genfromtxt imdecode",
    "asks or sets the state of a device, or of MXNet": """waitall cpu gpu cpu_pinned current_context num_gpus
        gpu_memory_info get_cuda_compute_capability set_np reset_np is_np_array is_np_shape set_printoptions seed""",
    "is a tool of MXNet's own, not of users": """check_call classproperty with_metaclass get_indexing_dispatch_code
        get_oshape_of_gather_nd_op indexing_key_expand_implicit_axes""",
    "shares memory with other libraries": """from_dlpack from_numpy to_dlpack_for_read to_dlpack_for_write
        may_share_memory shares_memory""",
    "takes functions or blocks": "foreach while_loop cond Custom apply_along_axis apply_over_axes piecewise",
    "leaves memory unwritten": "empty empty_like",
    "leaves the gradient of its labels unwritten": """LinearRegressionOutput LogisticRegressionOutput
        MAERegressionOutput SVMOutput""",
    "does not look at what it gets, and ends the process": """Reshape reshape reshape_like resize unravel_index
        ROIAlign quantize_asym multivariate_normal""",
    "is a derivative of another one": "backward_gradientmultiplier backward_hawkesll backward_index_copy",
}
_SKIPPED = {name for names in LEFT_OUT.values() for name in names.split()} | {"backward_quadratic"}
# Functions that do not look at what they get, and end the process: only these arguments.
ONLY = {"np.tensordot": ("x, y", "spd, spd"), "nd.elemwise_div": ("x, y", "vectors")}


class Draw:
    """Arrays for one sample."""

    def __init__(self, numpy: bool, seed: int) -> None:
        self.make = mx.np.array if numpy else mx.nd.array
        self.random = np.random.RandomState(seed)

    def x(self, *shape: int) -> Any:
        """Floats between 0.1 and 0.9."""
        return self.make(self.random.uniform(0.1, 0.9, shape).astype("float32"), dtype="float32")

    def i(self, *shape: int, high: int = 3, dtype: str = "int32") -> Any:
        """Whole numbers below `high`."""
        return self.make(self.random.randint(0, high, shape).astype(dtype), dtype=dtype)

    def spd(self, *batch: int) -> Any:
        """A symmetric positive definite matrix."""
        values = self.random.uniform(0.1, 0.9, (*batch, 3, 3))
        return self.make((values @ values.swapaxes(-1, -2) + 2 * np.eye(3)).astype("float32"), dtype="float32")


# Positional and named arguments for a sample; the first that a function takes are its own.
RECIPES: dict[str, Callable[[Draw], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "x": lambda d: ((d.x(3, 4),), {}),
    "x, y": lambda d: ((d.x(3, 4), d.x(3, 4)), {}),
    "x, y, z": lambda d: ((d.x(3, 4), d.x(3, 4), d.x(3, 4)), {}),
    "spd": lambda d: ((d.spd(),), {}),
    "spd, spd": lambda d: ((d.spd(), d.spd()), {}),
    "matrices": lambda d: ((d.x(3, 4), d.x(4, 3)), {}),
    "matrix, vector": lambda d: ((d.x(3, 4), d.x(4)), {}),
    "spd, vector": lambda d: ((d.spd(), d.x(3)), {}),
    "vector": lambda d: ((d.x(5),), {}),
    "vectors": lambda d: ((d.x(5), d.x(5)), {}),
    "i": lambda d: ((d.i(3, 4),), {}),
    "i, i": lambda d: ((d.i(3, 4), d.i(3, 4)), {}),
    "indices": lambda d: ((d.i(4),), {}),
    "x, indices": lambda d: ((d.x(3, 4), d.i(3)), {}),
    "vector, indices": lambda d: ((d.x(5), d.i(4)), {}),
    "x, number": lambda d: ((d.x(3, 4), 1), {}),
    "number, x": lambda d: ((2, d.x(3, 4)), {}),
    "x, fraction": lambda d: ((d.x(3, 4), 0.5), {}),
    "x, axis=0": lambda d: ((d.x(3, 4),), {"axis": 0}),
    "x, axis=-1": lambda d: ((d.x(2, 3, 4),), {"axis": -1}),
    "x, two numbers": lambda d: ((d.x(3, 4), 0, 1), {}),
    "x, shape": lambda d: ((d.x(3, 4), (4, 3)), {}),
    "x, wider shape": lambda d: ((d.x(3, 4), (2, 3, 4)), {}),
    "list": lambda d: (([d.x(3, 4), d.x(3, 4)],), {}),
    "list of vectors": lambda d: (([d.x(4), d.x(4)],), {}),
    "x, axes=": lambda d: ((d.x(3, 4),), {"axes": (1, 0)}),
    "x, shape=": lambda d: ((d.x(3, 4),), {"shape": (4, 3)}),
    "x, dtype=": lambda d: ((d.x(3, 4),), {"dtype": "float64"}),
    "x, act_type=": lambda d: ((d.x(3, 4),), {"act_type": "tanh"}),
    "x, num_outputs=": lambda d: ((d.x(2, 4),), {"num_outputs": 2}),
    "condition": lambda d: ((d.i(3, 4, high=2), d.x(3, 4), d.x(3, 4)), {}),
    "pictures": lambda d: ((d.x(1, 3, 6, 6),), {}),
    "picture": lambda d: ((d.x(6, 6, 3),), {}),
    "shape alone": lambda d: (((2, 3),), {}),
    "shape=": lambda d: ((), {"shape": (2, 3)}),
    "size=": lambda d: ((), {"size": (2, 3)}),
    "x, size=": lambda d: ((d.x(3, 1),), {"size": (3, 2)}),
    "number": lambda d: ((4,), {}),
    "two numbers": lambda d: ((1, 5), {}),
    "subscripts": lambda d: (("ij,jk->ik", d.x(3, 4), d.x(4, 2)), {}),
    "repeated subscripts": lambda d: (("ii", d.spd()), {}),
    "scalar=": lambda d: ((d.x(3, 4),), {"scalar": 2.0}),
    "lr=": lambda d: ((d.x(3, 4), d.x(3, 4)), {"lr": 0.1}),
    "state, lr=": lambda d: ((d.x(3, 4), d.x(3, 4), d.x(3, 4)), {"lr": 0.1}),
    "states, lr=": lambda d: ((d.x(3, 4), d.x(3, 4), d.x(3, 4), d.x(3, 4)), {"lr": 0.1}),
    "begin=, end=": lambda d: ((d.x(3, 4),), {"begin": (0, 1), "end": (2, 3)}),
    "boxes": lambda d: ((d.x(4, 4), d.x(3, 4)), {}),
    "rois": lambda d: ((d.x(1, 3, 6, 6), d.i(2, 5, dtype="float32")), {"pooled_size": (2, 2), "spatial_scale": 1.0}),
    "table": lambda d: ((d.x(3, 4), d.i(3, dtype="float32")), {}),
    "boolean": lambda d: ((d.i(3, 4, high=2).astype("bool"),), {}),
}


@cache
def functions(module: str) -> dict[str, Callable[..., Any]]:
    """Public functions of a module of MXNet's."""
    place: Any = mx
    for part in module.split("."):
        place = getattr(place, part)
    return {
        name: value
        for name, value in vars(place).items()
        if not name.startswith("_") and name not in _SKIPPED and callable(value) and not isinstance(value, type)
        if (getattr(value, "__module__", None) or "").split(".")[0] in ("mxnet", "ndarray")
    }


def check(module: str, name: str, at: Callable[[str], None]) -> Record:
    """Compare a function, called in the first ways that it takes."""
    record, function = Record(f"{module}.{name}"), functions(module)[name]
    numpy = module.startswith("np")
    with mx.util.np_shape(numpy), mx.util.np_array(numpy):
        for label in _ways(record.name, function, at):
            for made in _programs(module, name, function, label):
                examine(record, made, at)
    if not record.cases:
        record.skipped.append("takes none of the arguments")
    return record


def _ways(name: str, function: Callable[..., Any], at: Callable[[str], None]) -> list[str]:
    """Names of the first recipes that a function takes, with different results."""
    found: dict[str, str] = {}
    numpy = name.startswith("np")
    for label, recipe in RECIPES.items():
        if label not in ONLY.get(name, RECIPES):
            continue
        at(f"{label}, eagerly")
        args, kwargs = recipe(Draw(numpy, 0))
        try:
            result = function(*args, **kwargs)
            leaves = [x for x in flat(result, []) if isinstance(x, mx.nd.NDArray)]
            seen = str([(x.shape, str(x.dtype), x.asnumpy().tolist()) for x in leaves])
        except Exception:  # it takes other arguments
            continue
        if leaves and seen not in found:
            found[seen] = label
        if len(found) == MOST:
            break
    return list(found.values())


def _programs(module: str, name: str, function: Callable[..., Any], label: str) -> Iterator[Program]:
    """A function called in one way: inference, training, `out=` where it takes that."""
    numpy = module.startswith("np")
    args, kwargs = RECIPES[label](Draw(numpy, 0))
    holes = _arrays(args)

    def call(F: Any, *arrays: Any, **options: Any) -> Any:
        symbolic = any(isinstance(each, mx.sym.Symbol) for each in arrays)
        called = _of_symbols(module, name) if symbolic else function
        return called(*_filled(args, list(arrays)), **kwargs, **options)

    samples = [_arrays(RECIPES[label](Draw(numpy, seed))[0]) for seed in range(SAMPLES)]
    learning = tuple(k for k, x in enumerate(holes) if np.dtype(x.dtype).kind == "f")
    modes = (OP, CELL) if holes else (OP,)
    yield program(f"{label}, inference", Minibatch(call, samples), modes)
    if learning and _learns(call, holes):
        yield program(f"{label}, training", Minibatch(call, samples, learning=learning), modes)
        added = Minibatch(call, samples, learning=learning, request="add")
        yield program(f"{label}, added gradients", added, (OP,))
    if any(np.dtype(x.dtype).kind == "i" for x in holes):
        yield program(f"{label}, pending whole numbers", Minibatch(call, samples, whole=True), (OP,))
    if holes and runs(written(call), holes):
        yield program(f"{label}, out=", Minibatch(written(call), samples), (OP,))


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [x for each in value for x in _arrays(each)]
    return [value] if isinstance(value, mx.nd.NDArray) else []


def _filled(value: Any, arrays: list[Any]) -> Any:
    """The arguments with other arrays, which are taken from the front of the list."""
    if isinstance(value, (list, tuple)):
        return type(value)([_filled(each, arrays) for each in value])
    return arrays.pop(0) if isinstance(value, mx.nd.NDArray) else value


def _of_symbols(module: str, name: str) -> Any:
    root, *parts = module.split(".")
    place = mx.sym if root == "nd" else getattr(mx.sym, root)
    for part in parts:
        place = getattr(place, part)
    return getattr(place, name)


def _learns(call: Callable[..., Any], arrays: list[Any]) -> bool:
    """True if eager execution can go backward through the call."""
    own = [array.copy() for array in arrays]
    try:
        for array in own:
            array.attach_grad()
        with mx.autograd.record():
            leaves = [x for x in flat(call(mx.nd, *own), []) if isinstance(x, mx.nd.NDArray)]
            leaves = [x for x in leaves if np.dtype(x.dtype).kind == "f"]
        mx.autograd.backward(leaves)
        mx.nd.waitall()
    except Exception:  # no gradient of its own, or of these arguments
        return False
    return bool(leaves)
