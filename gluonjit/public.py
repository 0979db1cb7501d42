"""Functions of the package's top level that dispatch to the engine of their arguments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any

from gluonjit.errors import GluonJITWarning, OptionError
from gluonjit.graph import clear_lines
from gluonjit.hybrid.capture.functions import cell
from gluonjit.hybrid.capture.outlining.free_functions import forget_functions
from gluonjit.hybrid.choose.choosing import clear_choices
from gluonjit.hybrid.choose.costs import clear_curves
from gluonjit.hybrid.choose.pacing import clear_paces
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.run.engine import ENGINES
from gluonjit.hybrid.run.places import clear_places
from gluonjit.rows.running import clear_spare

__all__ = ["add_n", "cache_info", "cell", "clear_caches", "hybridize", "verify"]


def hybridize(net: Any, dynamic_batch: bool | None = None, **options: Any) -> Any:
    """Runs a model written for one sample as one batched program over many samples, and returns the model.

    net: a torch.nn.Module, or a Gluon Block (the same as its own `hybridize(dynamic_batch=True, ...)`).
    dynamic_batch: whether to; with False the model runs eagerly, as before. Without it, and without options, a warning
        says that it is taken to be True.
    options: those of `gluonjit.Options`, for the whole model.

    Raises OptionError for unusable options, before anything has changed, and TypeError if `net` is not a model.
    """
    if dynamic_batch is None:
        dynamic_batch = True
        if not options:
            model = f"gluonjit.hybridize({type(net).__name__}"
            warnings.warn(
                f"{model}): calls are batched dynamically from here on, where that is faster. Type {model}, "
                "dynamic_batch=True), or dynamic_batch=False for a model that runs eagerly",
                GluonJITWarning,
                stacklevel=2,
            )
    elif not isinstance(dynamic_batch, bool):
        raise OptionError(f"gluonjit.hybridize(): dynamic_batch={dynamic_batch!r}, but it must be True or False")
    for engine in ENGINES:
        if engine.owns_block(net):
            engine.hybridize(net, dynamic_batch, options)
            return net
    raise TypeError(
        f"gluonjit.hybridize({type(net).__name__}, ...): the first argument must be a model, a torch.nn.Module or "
        "a gluon.Block"
    )


def add_n(arrays: Iterable[Any]) -> Any:
    """Returns the sum of arrays of one shape, for example of the losses of a minibatch.

    Under dynamic batching this is one node; otherwise it is the framework's own sum. Raises ValueError for no arrays,
    and TypeError for what cannot be listed.
    """
    listed = _listed("add_n", "arrays", arrays)
    if not listed:
        raise ValueError("gluonjit.add_n() of no arrays: pass at least one, for example the minibatch's losses")
    for engine in ENGINES:
        if engine.owns(listed[0]):
            return engine.add_n(listed)
    return reduce(add, listed)


def _listed(function: str, what: str, given: Iterable[Any]) -> list[Any]:
    try:
        items = iter(given)
    except TypeError:
        raise TypeError(f"gluonjit.{function}(): {what} must be a list of them, not {type(given).__name__}") from None
    return list(items)


def verify(
    net: Any,
    samples: Sequence[Any],
    loss: Callable[[Any, Any], Any] | None = None,
    rtol: float | None = None,
    train_mode: bool = False,
    **options: Any,
) -> Report:
    """Runs samples eagerly and batched, compare outputs and gradients, and returns the report of the batched run.

    net: the model, called as `net(*sample)` if samples are tuples that its `forward` takes so, else as `net(sample)`.
    samples: at least one sample, better a minibatch.
    loss: a function of output and sample; gradients are those of the sum of `loss(output, sample)`. None: those of a
        weighted sum of all outputs. Gradients of parameters and of inputs with `attach_grad` are compared.
    rtol: the tolerance relative to the largest element; None: 1e-5, for float16 1e-2, for float64 1e-9. Gradients may
        also differ by `rtol` times a tenth of the largest of all gradients: one that cancels to about 0 is rounding.
    train_mode: whether layers behave as in training; random draws then differ.
    options: those of `hybridize(dynamic_batch=True)`.

    State is compared too: attributes of the net, of `loss` and of the samples, and objects reachable from them;
    globals, closures and classes that their functions read; and printed lines. Each run starts from the current
    state, with the same random numbers of Python, numpy and PyTorch; afterwards state, gradients and options are
    restored. Not restored and not compared: state visible only to C (generators, files), MXNet's generators and
    auxiliary states, more than 50,000 items, and values that differ from one eager run to the next (a clock).
    Existing caches are used, so that a stale one shows; options given here make new ones. Additional runs capture
    calls as nodes wherever possible: in this mode and, if nothing draws, the other one, recording or not.

    Raises VerifyError that names the first call whose result or gradient differs, its sample and line, or the state
    that differs and the call after which it does.
    """
    listed = _listed("verify", "samples", samples)
    if not listed:
        raise ValueError("gluonjit.verify() of no samples: pass at least one, better a minibatch")
    for engine in ENGINES:
        if engine.owns_block(net):
            return engine.verify(net, listed, loss, rtol, train_mode, options)  # type: ignore[no-any-return]
    raise TypeError(
        f"gluonjit.verify({type(net).__name__}, ...): the first argument must be a model: a gluon.Block or a "
        "torch.nn.Module"
    )


def cache_info() -> dict[str, int]:
    """Returns the number of entries in each cache, keyed `engine.cache`."""
    return {f"{engine.name}.{name}": count for engine in ENGINES for name, count in engine.cache_info().items()}


def clear_caches() -> None:
    """Drops traced cells, cells of functions, batched graphs, measured costs and choices, to be made when needed."""
    clear_curves()
    clear_choices()
    clear_paces()
    clear_spare()
    clear_lines()
    clear_places()
    forget_functions()
    for engine in ENGINES:
        engine.clear_caches()
