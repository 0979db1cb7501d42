"""Comparing many operators in processes, which are replaced where one hangs or crashes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any

from experiments.conformance.outcome import Finding, Record

NAMES_A_PROCESS = 40  # then it is replaced: memory, and what operators leave behind
WALL = 8  # times the seconds of computing that a comparison may wait
_STARTING = 300.0  # seconds that a process may take to import its framework
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Setting:
    """A framework, `samples` inputs of each operator, and `seconds` of computing for it at most."""

    engine: str
    samples: int
    seconds: int
    gigabytes: int

    @property
    def module(self) -> str:
        """The module that knows the framework."""
        return f"experiments.conformance.on_{self.engine}"


class Worker:
    """One process that compares, and the name and case it is at."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.names, self.late, self.differed = setting, 0, False, False
        numbers = (setting.samples, setting.seconds, setting.gigabytes)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "experiments.conformance.worker", setting.module, *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
            start_new_session=True,  # Ctrl-C ends it by its parent
        )

    def check(self, name: str) -> Record:
        """Compare one operator; a hang or a crash is a finding."""
        self.names += 1
        case, stdout = "", self.process.stdout
        assert stdout is not None
        timer = threading.Timer(_STARTING + WALL * self.setting.seconds, self._end_late)
        timer.daemon = True
        timer.start()
        try:
            self._send(name)
            for line in stdout:
                message = json.loads(line)
                if "record" in message:
                    record = Record.from_json(message["record"])
                    self.differed = bool(record.findings)
                    return record
                case = message["at"]
        finally:
            timer.cancel()
        code = self.process.wait()
        hangs = self.late or code == -signal.SIGXCPU
        text = f"no end after {self.setting.seconds} s" if hangs else f"the process ended with status {code}"
        return Record(name, findings=[Finding(case, "hang" if hangs else "crash", text)])

    def _send(self, name: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()

    def _end_late(self) -> None:
        self.late = True
        self.end()

    def end(self) -> None:
        """End the process and what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def spent(self) -> bool:
        """True if another process goes on, also after a difference: it may have spoiled what follows."""
        return self.names >= NAMES_A_PROCESS or self.differed or self.process.poll() is not None


def compare_all(names: Sequence[str], setting: Setting, jobs: int) -> Iterator[Record]:
    """Compare operators in so many processes at once; their records as they come."""
    waiting: SimpleQueue[str] = SimpleQueue()
    done: SimpleQueue[Record | BaseException] = SimpleQueue()
    for name in names:
        waiting.put(name)
    workers: dict[int, Worker] = {}
    stopped = threading.Event()

    def work(number: int) -> None:
        try:
            with contextlib.suppress(Empty):
                while not stopped.is_set():
                    name = waiting.get_nowait()
                    worker = workers.get(number)
                    if worker is None or worker.spent:
                        if worker is not None:
                            worker.end()
                        worker = workers[number] = Worker(setting)
                    done.put(worker.check(name))
        except BaseException as error:
            done.put(error)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(jobs)]
    try:
        for thread in threads:
            thread.start()
        for _ in names:
            record = done.get()
            if isinstance(record, BaseException):
                raise record
            yield record
    finally:
        stopped.set()
        for worker in list(workers.values()):
            worker.end()


class Results:
    """A file with one line for each operator, so that a run that was ended can be resumed."""

    def __init__(self, path: Path, setting: Setting) -> None:
        self.path, self.setting = path, setting

    def read(self) -> list[Record]:
        """Records of an earlier run with this setting. Raises ValueError for another one's."""
        if not self.path.exists():
            return []
        head, *lines = self.path.read_text(encoding="utf-8").splitlines() or [""]
        wanted = [self.setting.engine, self.setting.samples]
        if not head or json.loads(head) != wanted:
            raise ValueError(f"{self.path} holds results of {head or 'nothing'}, not of {wanted}: choose another file")
        return [Record.from_json(json.loads(line)) for line in lines if line.endswith("}")]

    def open(self, resume: bool) -> IO[Any]:
        """Open it for what comes, with what it holds if resumed."""
        kept = self.read() if resume else []
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.open("w", encoding="utf-8", buffering=1)
        file.write(json.dumps([self.setting.engine, self.setting.samples]) + "\n")
        for record in kept:
            file.write(record.to_line())
        return file
