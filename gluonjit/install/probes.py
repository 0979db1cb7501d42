"""The part of ``doctor`` in a process of its own for each framework: ``python -m gluonjit.install.probes mxnet``.

A framework that does not fit its machine can end the process at any point, so each stage prints one line of
JSON when it begins and one when it is through: the last line says how far it came.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from functools import partial
from typing import Any, Callable

from gluonjit.errors import GluonJITWarning


def main(framework: str) -> None:
    """Imports the framework as a user of gluonjit does, computes on its CPU, and then on each GPU."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GluonJITWarning)
        try:
            module = importlib.import_module(framework)
        except BaseException as error:
            _tell("import", ok=False, error=_first_line(error))
            return
    told = [str(item.message) for item in caught if issubclass(item.category, GluonJITWarning)]
    _tell("import", ok=True, version=str(module.__version__), warnings=told)
    compute = {"mxnet": _compute_mxnet, "torch": _compute_torch}[framework]
    _try("compute", partial(compute, module, None))
    for number in range(_gpus(framework, module)):
        _try(f"gpu {number}", partial(compute, module, number))


def _gpus(framework: str, module: Any) -> int:
    try:
        return int(module.context.num_gpus() if framework == "mxnet" else module.cuda.device_count())
    except Exception as error:
        _tell("gpus", ok=False, error=_first_line(error))
        return 0


def _compute_mxnet(mxnet: Any, gpu: int | None) -> str:
    context = mxnet.cpu() if gpu is None else mxnet.gpu(gpu)
    mxnet.nd.dot(mxnet.nd.ones((2, 2), ctx=context), mxnet.nd.ones((2, 2), ctx=context)).asnumpy()
    return str(context)


def _compute_torch(torch: Any, gpu: int | None) -> str:
    device = "cpu" if gpu is None else f"cuda:{gpu}"
    torch.ones((2, 2), device=device).mm(torch.ones((2, 2), device=device)).cpu()
    return device if gpu is None else f"{device} ({torch.cuda.get_device_name(gpu)})"


def _try(stage: str, work: Callable[[], str]) -> None:
    _tell(stage, begun=True)
    try:
        _tell(stage, ok=True, device=work())
    except Exception as error:
        _tell(stage, ok=False, error=_first_line(error))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}".strip(": ")


def _tell(stage: str, **facts: Any) -> None:
    print(json.dumps({"stage": stage, **facts}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
