"""A failing case as a script to paste: it needs only the framework and gluonjit."""

from __future__ import annotations

import inspect
from types import ModuleType

from experiments.fuzz import comparing
from experiments.fuzz.framework import Framework
from experiments.fuzz.habits import pasted
from experiments.fuzz.net import blocks_in, net_source
from experiments.fuzz.render import Rendered

_BEGIN = "from __future__ import annotations"
_END = """
{ready}
wanted = run(net, False)
found = run(net, True)
wrong = difference(found, wanted, {tolerance})
for name, how in wrong:
    print(f"{{name}}: {{how}}")
    if not isinstance(found.get(name), (Exception, type(None))):
        for run_, numbers in (("batched", found.get(name)), ("eager  ", wanted.get(name))):
            print(f"{{run_}} {{numbers.tolist() if hasattr(numbers, 'tolist') else numbers}}")
raise SystemExit(f"{{len(wrong)}} differences" if wrong else 0)
"""


def script(framework: Framework, rendered: Rendered, dtype: str, tolerance: float) -> str:
    """The text of the script: exit status 1 and the differences if there are any."""
    net = net_source(framework, rendered.layers)
    blocks = [pasted(rendered.text), *blocks_in(framework, net + rendered.text)]
    parts = [_BEGIN, _plain(comparing), _plain(framework.prelude), *filter(None, blocks), net, rendered.text]
    end = _END.format(ready=framework.net.ready.format(dtype=dtype), tolerance=tolerance)
    return "\n\n".join(part.strip("\n") for part in parts) + "\n\n" + end


def _plain(module: ModuleType) -> str:
    """The text of a module without its imports from the fuzzer."""
    lines = inspect.getsource(module).split("\n")
    return "\n".join(line for line in lines if not line.startswith(("from __future__", "from experiments")))
