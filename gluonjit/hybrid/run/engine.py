"""An engine as capture and the top level see it, and the list of engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gluonjit.errors import EngineError, OptionError
from gluonjit.graph.frames import LIBRARIES
from gluonjit.graph.values import clear_specs, spec_count
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.places import clear_places
from gluonjit.program.lengths.nodes import nodes_of


class Engine:
    """The part of an engine that does not involve plans; `protocol.Adapter`, from which engines derive, has the rest.

    name: the package that users import, by which the engine is found.
    versions: of the framework; measured costs belong to them.
    reuses: whether the option `reuse` is supported.
    title: the framework's name in sentences.
    array, block: the classes of its arrays and models.

    * `waits(args)`: true if an argument is a pending array, possibly in lists and tuples.
    * `call_cell(function, args, kwargs)`: captures a call of a CellFunction; its `caches` hold the engine's data
      about it.
    * `hybridize(net, dynamic_batch, options)`: turns dynamic batching of a model on or off. Raises OptionError
      before anything has changed.
    """

    waits: Callable[..., bool]
    call_cell: Callable[..., Any]
    hybridize: Callable[..., None]
    name: str
    array: type = object
    block: Any = ()  # no class: it has no models
    versions: Mapping[str, str] = {}
    reuses = False

    # What the framework is doing on this thread

    def current_mode(self) -> int:
        """Returns the framework's recording and training flags, as a number made by `graph.modes.mode_of`."""
        return 0

    def set_mode(self, mode: int) -> None:
        """Sets these flags."""

    def held(self) -> Any:
        """Returns what C code of the framework has of the stack that this thread is on: who leaves it gives it back."""
        return None

    def hold(self, held: Any) -> None:
        """Gives it back where the thread is on that stack again."""

    def flags(self) -> Any:
        """Returns what else of the framework's a thread has in force: samples with other flags are not left halfway."""

    def wait(self) -> None:
        """Waits until the framework has finished its work."""

    def may_choose(self) -> bool:
        """True if this process may run calls eagerly while others that train with it run them batched."""
        return True

    # What is the framework's

    def owns(self, array: Any) -> bool:
        """True if this is an array of the framework."""
        return isinstance(array, self.array)

    def owns_block(self, net: Any) -> bool:
        """True if this is a model of the framework."""
        return isinstance(net, self.block)

    # Capture

    def account(self) -> Any:
        """Returns the engine's own data for an open batch: `Batch.own` until the batch is closed."""
        return None

    def owes(self, own: Any) -> bool:
        """True if captured calls run although an exception ends their region: `own` says what else they do."""
        return False

    def check(self, call: str, options: Options) -> None:
        """Raises OptionError if the engine does not support an option; `call` is the user's call."""
        if options.reuse is not None and not self.reuses:
            raise OptionError(
                f"{call}: reuse=..., but calls of models of {self.title} are not reused. Leave reuse= out: equal "
                "calls are still shared (sharing=True)."
            )

    @property
    def title(self) -> str:
        return self.name

    def add_n(self, arrays: Sequence[Any]) -> Any:
        """Returns the sum of arrays of one shape: by default in pairs, so that a batch needs few launches for it."""
        listed = list(arrays)
        while len(listed) > 1:
            pairs = [left + right for left, right in zip(listed[::2], listed[1::2])]
            listed = pairs + listed[2 * len(pairs) :]
        return listed[0]

    # What an engine may have besides

    def verify(
        self, net: Any, samples: Sequence[Any], loss: Any, rtol: float | None, train_mode: bool, options: dict[str, Any]
    ) -> Any:
        """Compares eager and batched execution and returns the report of the batched run; see `gluonjit.verify`."""
        raise EngineError(f"gluonjit.verify(): the engine of {self.title} does not support verify")

    def cache_info(self) -> dict[str, int]:
        """Returns the number of entries in each of the engine's caches."""
        return {"specs": spec_count()}

    def clear_caches(self) -> None:
        """Empty the caches."""
        clear_specs()
        clear_places()
        nodes_of.cache_clear()


ENGINES: list[Engine] = []
"""The engines whose frameworks have been imported."""


def register(engine: Engine, patches: Sequence[tuple[Any, str, Any]]) -> bool:
    """Registers an engine whose framework has been imported, and applies its patches (owner, name, replacement).

    Returns False if it was registered before.
    """
    if engine in ENGINES:
        return False
    LIBRARIES.update((engine.name, type(engine).__module__.partition(".")[0]))
    for owner, name, replacement in patches:
        setattr(owner, name, replacement)
    ENGINES.append(engine)
    return True


def engine_of(name: str | None = None) -> Engine:
    """Returns the engine of this name, or the only one. Raises EngineError if no framework has been imported."""
    for engine in ENGINES:
        if name in (None, engine.name):
            return engine
    raise EngineError("batching(): no framework has been imported yet; `import mxnet` or `import torch` first")
