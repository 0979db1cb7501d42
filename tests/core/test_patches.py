"""The list of patches in `help(gluonjit)` is that of the engines' tables, and both are all that is changed."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from frameworks_support import INSTALLED

import gluonjit

_LINE = re.compile(r"^    ([a-z]+(?:\.\w+)*): (.+)$", re.MULTILINE)

_TABLE = """
import json, sys, warnings
warnings.simplefilter("ignore")
import gluonjit, {framework}
from gluonjit.engines.{framework}.patches import PATCHES
named = [
    (f"{{owner.__module__}}.{{owner.__qualname__}}" if isinstance(owner, type) else owner.__name__, name)
    for owner, name, _ in PATCHES
]
modules = [name for name in sys.modules if name.split(".")[0] == "{framework}"]
print(json.dumps([named, modules]))
"""

# Without gluonjit the same modules are imported first; then what importing it changes in any of them, or in a class.
_CHANGED = """
import importlib, json, sys, types, warnings
warnings.simplefilter("ignore")
from gluonjit.install import compat
for name in [name for name in sys.modules if name.split(".")[0] == "gluonjit"]:
    del sys.modules[name]
sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("gluonjit")]
if "{framework}" == "mxnet":
    compat.prepare_mxnet()
for name in json.load(sys.stdin):
    importlib.import_module(name)

def ours(name):
    return str(name).split(".")[0] == "{framework}"

owners = {{name: module for name, module in sys.modules.items() if ours(name) and isinstance(module, types.ModuleType)}}
for module in list(owners.values()):
    for value in list(vars(module).values()):
        if isinstance(value, type) and ours(value.__module__):
            owners[f"{{value.__module__}}.{{value.__qualname__}}"] = value
before = {{name: dict(vars(owner)) for name, owner in owners.items()}}
assert "gluonjit" not in sys.modules
import gluonjit
absent = object()
changed = [
    (name, key)
    for name, owner in owners.items()
    for key in {{*before[name], *vars(owner)}}
    if before[name].get(key, absent) is not (now := vars(owner).get(key, absent))
    and not isinstance(now, (types.ModuleType, int))  # a counter of hooks
]
print(json.dumps(changed))
"""


def run(program: str, framework: str, given: str = "") -> list[list[str]]:
    command = [sys.executable, "-c", program.format(framework=framework)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[list[str]] = json.loads(done.stdout)
    return found


def listed(framework: str) -> list[tuple[str, str]]:
    """Owner and name of each patch, as the documentation has them."""
    text = str(gluonjit.__doc__)
    lines = [(owner, names) for owner, names in _LINE.findall(text) if owner.split(".")[0] == framework]
    return [(owner, name) for owner, names in lines for name in names.split(", ")]


def test_the_documentation_has_lines_of_both_frameworks() -> None:
    assert {owner.split(".")[0] for owner, _ in _LINE.findall(str(gluonjit.__doc__))} == {"mxnet", "torch"}


@pytest.mark.parametrize("framework", INSTALLED)
def test_the_documentation_lists_the_patches_and_they_are_what_is_changed(framework: str) -> None:
    table, modules = run(_TABLE, framework)
    patches, named = sorted(map(tuple, table)), listed(framework)
    assert len(patches) == len(set(patches)) >= 20
    methods = [patch for patch in patches if patch[0] == "torch.nn.parameter.Parameter" and patch not in named]
    assert not methods or framework == "torch"  # those that write, or give views: a name each would be all there are
    assert sorted([*named, *methods]) == patches, "gluonjit/__init__.py lists patches, engines/*/patches.py makes them"
    changed = run(_CHANGED, framework, json.dumps(modules))
    assert sorted(map(tuple, changed)) == patches
