"""Hooks on the import of a framework: ``import gluonjit`` needs none, and either import may come first.

* ``when_imported(name, install)`` calls ``install(module)`` once the import of ``name`` has wholly finished:
  at once when it already has, after the framework's own import otherwise.
* ``before_import(name, prepare)`` calls ``prepare()`` just before ``name`` is executed, and never where that
  has happened already. An error from it is the error of the import.

Both take a callable or ``"package.module:attribute"``, which is imported when it is called. ``install`` is
called once for each module object: a reload does not call it, a failed import leaves it for the next try. An
``install`` that fails gives a warning and leaves the framework as it is: that may be all the program wants.
"""

from __future__ import annotations

import importlib
import importlib.abc
import sys
import threading
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, Union

from gluonjit.errors import GluonJITWarning

Install = Union[str, Callable[[ModuleType], object]]
Prepare = Union[str, Callable[[], object]]


class _FrameworkHooks:
    """The hooks on one framework, and the module object of their last call."""

    def __init__(self) -> None:
        self.prepares: list[Prepare] = []
        self.installs: list[Install] = []
        self.installed: list[tuple[Install, ModuleType]] = []


_watches: dict[str, _FrameworkHooks] = {}
# Guards the table alone, and is never held while anything is imported or called.
_lock = threading.Lock()


def when_imported(name: str, install: Install) -> None:
    """Calls ``install(module)`` when the import of ``name`` has finished, which may be now."""
    _watch(name, install=install)
    module = sys.modules.get(name)
    if module is None:
        return
    if _is_being_imported(module):
        # Another thread's import is waited for here; one that this thread is inside of is not.
        module = importlib.import_module(name)
        if _is_being_imported(module):
            _warn(name, "gluonjit was imported during that import; import it before or after")
            return
    _call_installs(name, module)


def before_import(name: str, prepare: Prepare) -> None:
    """Calls ``prepare()`` just before ``name`` is executed, if it has not been yet."""
    _watch(name, prepare=prepare)


def _watch(name: str, install: Install | None = None, prepare: Prepare | None = None) -> None:
    with _lock:
        watch = _watches.setdefault(name, _FrameworkHooks())
        if install is not None and install not in watch.installs:
            watch.installs.append(install)
        if prepare is not None and prepare not in watch.prepares:
            watch.prepares.append(prepare)
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _call_prepares(name: str) -> None:
    with _lock:
        prepares = list(_watches[name].prepares)
    for prepare in prepares:
        _resolve(prepare)()


def _call_installs(name: str, module: ModuleType) -> None:
    for install in _claim_installs(name, module):
        try:
            _resolve(install)(module)
        except Exception as error:
            _warn(name, f"{type(error).__name__}: {error}")


def _claim_installs(name: str, module: ModuleType) -> list[Install]:
    """Returns the hooks not yet called for this module object; the caller calls them."""
    with _lock:
        watch = _watches[name]
        done = [install for install, for_module in watch.installed if for_module is module]
        claimed = [install for install in watch.installs if install not in done]
        # Only the newest module object is kept: an older one can't be imported again.
        watch.installed = [(install, module) for install in watch.installs]
        return claimed


def _resolve(hook: str | Callable[..., object]) -> Callable[..., object]:
    if not isinstance(hook, str):
        return hook
    module_name, _, attribute = hook.partition(":")
    return getattr(importlib.import_module(module_name), attribute)  # type: ignore[no-any-return]


def _warn(name: str, reason: str) -> None:
    warnings.warn(
        f"gluonjit could not hook into {name}, which works as without gluonjit: {reason}. 'python -m gluonjit "
        "doctor' says what to do.",
        GluonJITWarning,
        stacklevel=3,
    )


class _Finder(importlib.abc.MetaPathFinder):
    """A finder that puts a ``_Loader`` around the loader that others find for a watched name."""

    def __init__(self) -> None:
        self._inside = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Other libraries' finders of this kind ask all finders too, this one included.
        if fullname not in _watches or getattr(self._inside, "asking", False):
            return None
        self._inside.asking = True
        try:
            spec = self._ask_others(fullname, path, target)
        finally:
            self._inside.asking = False
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader)
        return spec

    def _ask_others(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find_spec = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find_spec(fullname, path, target) if find_spec else None
            if spec is not None:
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """The framework's own loader, with the hooks before and after; everything else is delegated."""

    def __init__(self, loader: Any) -> None:
        self._gluonjit_loader = loader

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "_gluonjit_loader":  # not set yet, as while it is being copied
            raise AttributeError(attribute)
        return getattr(self._gluonjit_loader, attribute)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._gluonjit_loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        # From here on nobody can tell the module from one that was imported without hooks.
        module.__loader__ = self._gluonjit_loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._gluonjit_loader
        _call_prepares(module.__name__)
        self._gluonjit_loader.exec_module(module)
        _call_installs(module.__name__, sys.modules.get(module.__name__, module))


_finder = _Finder()
