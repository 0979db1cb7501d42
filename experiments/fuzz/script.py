"""A failing case as a script to paste: it needs mxnet and gluonjit alone."""

from __future__ import annotations

import inspect

from experiments.fuzz import prelude
from experiments.fuzz.net import blocks_in, net_source
from experiments.fuzz.render import Rendered

_END = """
net = Net()
net.initialize()
net.cast("{dtype}")
wanted = run(net, False)
found = run(net, True)
wrong = difference(found, wanted, {tolerance})
for name, how in wrong:
    print(f"{{name}}: {{how}}")
    if not isinstance(found.get(name), (Exception, type(None))):
        print(f"batched {{found[name].tolist()}}")
        print(f"eager   {{wanted[name].tolist() if name in wanted else None}}")
raise SystemExit(f"{{len(wrong)}} differences" if wrong else 0)
"""


def script(rendered: Rendered, dtype: str, tolerance: float) -> str:
    """The text of the script: exit status 1 and the differences where there are any."""
    net = net_source(rendered.layers)
    parts = [inspect.getsource(prelude), *blocks_in(net + rendered.text), net, rendered.text]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n\n" + _END.format(dtype=dtype, tolerance=tolerance)
