"""Where a habit's body lies: in a module that is one node, in a cell, or in a net that takes arrays itself.

A body is a method `body(self, F, *args)` of a subclass of `trial.Part`; F is `torch`, `mx.nd` or `mx.sym`.

* "module": a torch.nn.Module or a HybridBlock, called from a net that takes a sample, which makes it the node.
* "cell": a method declared with `gluonjit.cell`, called from such a net.
* "whole": the net is called with arrays, so that in PyTorch all of it is one node, in MXNet a plain Block's operators.
"""

from __future__ import annotations

from typing import Any

import gluonjit

WIDTH = 4


class Sample:
    """What no call can be one node with: an object of the user's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


def _read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if args and isinstance(args[0], Sample):
        return args[0].args, args[0].kwargs
    return args, kwargs


def torch_classes(form: str) -> tuple[Any, Any]:
    """The base classes of parts and of nets in PyTorch."""
    import torch

    class Part(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(WIDTH, WIDTH)
            self.setup()

        def setup(self) -> None:
            pass

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x))

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return self.body(torch, *args, **kwargs)

        @gluonjit.cell
        def run(self, *args: Any, **kwargs: Any) -> Any:
            return self.body(torch, *args, **kwargs)

    class Net(torch.nn.Module):
        def __init__(self, part: Any) -> None:
            super().__init__()
            self.part = part
            self.out = torch.nn.Linear(WIDTH, 2)
            self.setup()

        def setup(self) -> None:
            pass

        def inner(self, *args: Any, **kwargs: Any) -> Any:
            return (self.part.run if form == "cell" else self.part)(*args, **kwargs)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            args, kwargs = _read(args, kwargs)
            return self.body(torch, *args, **kwargs)

        def body(self, F: Any, *args: Any, **kwargs: Any) -> Any:
            return self.out(self.inner(*args, **kwargs))

    return Part, Net


def mxnet_classes(form: str) -> tuple[Any, Any]:
    """The base classes of parts and of nets in Gluon."""
    import mxnet as mx
    from mxnet import gluon

    class _Part:
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():  # type: ignore[attr-defined]
                self.layer = gluon.nn.Dense(WIDTH, in_units=WIDTH)
                self.setup()

        def setup(self) -> None:
            pass

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x))

        @gluonjit.cell
        def run(self, *args: Any, **kwargs: Any) -> Any:
            return self.body(mx.nd, *args, **kwargs)

    class HybridPart(_Part, gluon.HybridBlock):
        def hybrid_forward(self, F: Any, *args: Any, **kwargs: Any) -> Any:
            return self.body(F, *args, **kwargs)

    class PlainPart(_Part, gluon.Block):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return self.body(mx.nd, *args, **kwargs)

    class Net(gluon.Block):
        def __init__(self, part: Any) -> None:
            super().__init__()
            with self.name_scope():
                self.part = part
                self.out = gluon.nn.Dense(2, in_units=WIDTH)
                self.setup()

        def setup(self) -> None:
            pass

        def inner(self, *args: Any, **kwargs: Any) -> Any:
            return (self.part.run if form == "cell" else self.part)(*args, **kwargs)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            args, kwargs = _read(args, kwargs)
            return self.body(mx.nd, *args, **kwargs)

        def body(self, F: Any, *args: Any, **kwargs: Any) -> Any:
            return self.out(self.inner(*args, **kwargs))

    return (HybridPart if form == "module" else PlainPart), Net
