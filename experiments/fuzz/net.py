"""The text of a net, with the layers that a program uses."""

from __future__ import annotations

import inspect
import linecache
import re
from types import CodeType
from typing import Any

from experiments.fuzz.framework import Framework


def net_source(framework: Framework, layers: list[str]) -> str:
    """The class of a net with these layers."""
    net = framework.net
    lines = [f"self.{name} = {net.layers[name]}" for name in layers or ["embed"]]
    found = re.search(r"^ *(?={layers})", net.source, re.MULTILINE)
    assert found is not None, "the source of a net has a line {layers}"
    return net.source.replace("{layers}", ("\n" + found.group()).join(lines))


def layers_in(framework: Framework, text: str) -> list[str]:
    """The layers that a program uses, in the order of the table."""
    used = set(re.findall(r"\bnet\.(\w+)", text))
    return [name for name in framework.net.layers if name in used]


def blocks_in(framework: Framework, text: str) -> list[str]:
    """The sources of the classes and functions of `blocks` that a text uses."""
    blocks = framework.net.blocks
    names = [
        name for name, item in vars(blocks).items() if inspect.isclass(item) and item.__module__ == blocks.__name__
    ]
    names += framework.net.functions
    return [source_of(getattr(blocks, name)) for name in names if re.search(rf"\b{name}\(", text)]


def source_of(item: Any) -> str:
    """The source of a class or a cell, without the types that only a checker needs."""
    source = inspect.getsource(getattr(item, "function", item))
    return re.sub(r"( -> [\w.\[\], ]+)(?=:\n)", "", re.sub(r": (Any|int|float)\b", "", source))


def compiled(text: str, name: str) -> CodeType:
    """The code of a text whose source is found by its name, as if it lay in a file."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    return compile(text, name, "exec")


def make_net(framework: Framework, dtype: str) -> Any:
    """The net with all layers, of weights of this dtype."""
    names = framework.names
    source = net_source(framework, list(framework.net.layers))
    text = f"{source}\n{framework.net.ready.format(dtype=dtype)}"
    exec(compiled(text, f"<net of {framework.name} and {dtype}>"), names)
    return names["net"]
