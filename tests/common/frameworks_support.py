"""The frameworks that tests find here."""

from __future__ import annotations

from importlib.util import find_spec

FRAMEWORKS = ("mxnet", "torch")
INSTALLED = [name for name in FRAMEWORKS if find_spec(name) is not None]
