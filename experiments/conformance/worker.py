"""The process that compares: names come in as lines, what was found of them goes out as lines of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from importlib import import_module
from time import process_time
from typing import Any

import gluonjit


def main(engine: str, samples: int, seconds: int, gigabytes: int) -> None:
    """Compare what stdin names until it ends; `engine` is a module. What frameworks print goes nowhere."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    compared = import_module(engine)
    compared.prepare()
    with contextlib.suppress(ValueError, OSError):  # a system may allow less, or have no such limit
        resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))

    def say(**message: Any) -> None:
        out.write(json.dumps(message, default=str) + "\n")

    for line in sys.stdin:
        group, name = line.rstrip("\n").split(" ", 1)
        begin = process_time()
        _limit(seconds)
        gluonjit.clear_caches()
        record = compared.check(group, name, samples, lambda case: say(at=case))
        record.name, record.seconds = f"{group} {name}", round(process_time() - begin, 1)
        say(record=record.to_json())


def _limit(seconds: int) -> None:
    """Let this process be ended after so many seconds of computing from now on."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + seconds, hard))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
