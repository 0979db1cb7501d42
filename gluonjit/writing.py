"""Files written atomically, and files read up to a limit."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path
from secrets import token_hex

_STALE = 3600  # seconds after which nobody writes to a partial file any more


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file under another name and moves it into place; devices and pipes are written to directly.

    Raises OSError, also for a folder, a socket, and a pipe that nobody reads.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if not stat.S_ISREG(mode) or os.path.abspath(path).startswith(("/dev/", "/proc/")):
        _stream(path, mode, data)
        return
    replace_file(Path(os.path.realpath(path)), data)


def replace_file(target: Path, data: bytes) -> None:
    """Puts a file in a place, also in that of a link, which then no longer is one. Raises OSError."""
    for stale in target.parent.glob(".gluonjit-*.partial"):  # of a process that was killed
        if time.time() - stale.lstat().st_mtime > _STALE:
            stale.unlink(missing_ok=True)
    partial = target.with_name(f".gluonjit-{token_hex(8)}.partial")
    try:
        with partial.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _stream(path: Path, mode: int, data: bytes) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        raise OSError(errno.EINVAL, "it is not a file, pipe or terminal", str(path))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "it is a pipe without a reader", str(path)) from error
        raise
    os.set_blocking(descriptor, True)
    with open(descriptor, "wb") as stream:
        stream.write(data)


def read_regular(path: Path, most: int) -> bytes:
    """The content of a regular file of at most this many bytes. Raises OSError, and ValueError for a larger one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # or a pipe would be waited for
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it has more than {most} bytes")
    return data
