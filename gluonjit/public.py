"""Functions of the package's top level that need whatever engine the arrays belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any

from gluonjit.errors import OptionError
from gluonjit.graph import clear_lines
from gluonjit.hybrid.capture.functions import cell
from gluonjit.hybrid.choose.choosing import clear_choices
from gluonjit.hybrid.choose.costs import clear_curves
from gluonjit.hybrid.choose.pacing import clear_paces
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.run.engine import ENGINES
from gluonjit.rows.running import clear_spare

__all__ = ["add_n", "cache_info", "cell", "clear_caches", "hybridize", "verify"]


def hybridize(net: Any, dynamic_batch: bool = True, **options: Any) -> Any:
    """Let a model written for one sample run many samples as one batched program; returns the model.

    net: a torch.nn.Module, or a Gluon Block (as its own `hybridize(dynamic_batch=True, ...)`); options: those of
    `gluonjit.Options`, for the whole model. With `dynamic_batch=False` the model runs eagerly, as before.
    Raises OptionError for unusable options before anything has changed, and TypeError where `net` is no model.
    """
    if not isinstance(dynamic_batch, bool):
        raise OptionError(f"gluonjit.hybridize(): dynamic_batch={dynamic_batch!r}, but it is True or False")
    for engine in ENGINES:
        if engine.owns_block(net):
            engine.hybridize(net, dynamic_batch, options)
            return net
    raise TypeError(
        f"gluonjit.hybridize({type(net).__name__}, ...): the first argument is a model, a torch.nn.Module or a "
        f"gluon.Block"
    )


def add_n(arrays: Iterable[Any]) -> Any:
    """The sum of arrays of one shape, for example of the losses of a minibatch.

    Under dynamic batching this is one node; elsewhere the framework's own sum. Raises ValueError for no arrays.
    """
    listed = list(arrays)
    if not listed:
        raise ValueError("gluonjit.add_n() of no arrays: pass at least one, for example the minibatch's losses")
    for engine in ENGINES:
        if engine.owns(listed[0]):
            return engine.add_n(listed)
    return reduce(add, listed)


def verify(
    net: Any,
    samples: Sequence[Any],
    loss: Callable[[Any, Any], Any] | None = None,
    rtol: float | None = None,
    train_mode: bool = False,
    **options: Any,
) -> Report:
    """Run samples eagerly and batched, compare outputs and gradients, and return the report of the batched run.

    A sample is passed as `net(sample)`, or `net(*sample)` where it is a tuple. Gradients, of parameters and of inputs
    with `attach_grad`, are those of the sum of `loss(output, sample)`, or without `loss` of a weighted sum of all
    outputs. Arrays may differ by `rtol` times the largest element (by default 1e-5; float16 1e-2, float64 1e-9), and
    gradients by as much of a tenth of the largest of all gradients: what cancels to about 0 leaves rounding.
    `options` are those of `hybridize(dynamic_batch=True)`. With `train_mode` layers behave as in training, and what
    draws at random then differs.

    What the runs leave behind is compared too: attributes of the net, of `loss` and of the samples, what hangs on them,
    what their functions read of globals, closures and classes, and what is printed. Each run begins with this state as
    it is now, and with the same random numbers of Python, numpy and PyTorch, and in the end all of it, gradients and
    options are what they were. Left alone, and not compared, are what only C sees into (generators, files), MXNet's
    generators and auxiliary states, more than 50,000 items, and what differs from one eager run to the next (a clock).
    Caches are those that are there, so that a stale one shows; options given here make new ones. Runs with calls
    as nodes wherever they can be go with it: in this mode and, if nothing draws, the other one, recording or not.

    Raises VerifyError that names the first call whose result or gradient differs, its sample and line, or what is left
    behind otherwise and the call after which it is.
    """
    listed = list(samples)
    if not listed:
        raise ValueError("gluonjit.verify() of no samples: pass at least one, better a minibatch")
    for engine in ENGINES:
        if engine.owns_block(net):
            report: Report = engine.verify(net, listed, loss, rtol, train_mode, options)
            return report
    raise TypeError(
        f"gluonjit.verify({type(net).__name__}, ...): the first argument is a model: a gluon.Block or a torch.nn.Module"
    )


def cache_info() -> dict[str, int]:
    """The number of entries in each cache, as `engine.cache`."""
    return {f"{engine.name}.{name}": count for engine in ENGINES for name, count in engine.cache_info().items()}


def clear_caches() -> None:
    """Forget traced cells and batched graphs, what they were seen to cost, and what was chosen: all is made anew."""
    clear_curves()
    clear_choices()
    clear_paces()
    clear_spare()
    clear_lines()
    for engine in ENGINES:
        engine.clear_caches()
