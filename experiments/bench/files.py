"""Files written atomically, and arrays and JSON read without trusting them."""

from __future__ import annotations

import ast
import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from gluonjit.writing import read_regular, write_whole

MOST_JSON = 64 << 20
_HEADER = 4096  # bytes of an array's header, at most


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; a device or a pipe is written to directly."""
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())


def save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a figure of matplotlib's in the format that the path's suffix names, or as a PNG where it has none."""
    data = BytesIO()
    figure.savefig(data, dpi=dpi, format=path.suffix[1:] or "png")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data.getvalue())


def read_json(path: Path) -> Any:
    """Read JSON, without NaN and without a key that comes twice. Raises OSError and ValueError."""
    try:
        return json.loads(read_regular(path, MOST_JSON), parse_constant=_no_number, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"it holds {name}, which is not a number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def read_arrays(path: Path, most: int) -> dict[str, np.ndarray]:
    """Read the float32 arrays of an .npz file, of this many bytes together, without unpickling anything.

    Raises OSError, and ValueError for any other file or numbers that are not finite.
    """
    found: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(BytesIO(read_regular(path, most))) as archive:
            for info in archive.infolist():
                name = info.filename[: -len(".npy")] if info.filename.endswith(".npy") else info.filename
                if name in found:
                    raise ValueError(f"{name} comes twice")
                with archive.open(info) as stream:
                    data = stream.read(most + 1)
                most -= len(data)
                if most < 0:
                    raise ValueError("it is larger than all weights together")
                found[name] = _array(name, data)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OverflowError) as error:
        raise ValueError(f"it is truncated or damaged: {error}") from error
    except Exception as error:
        if type(error).__module__ in ("zlib", "struct", "lzma"):
            raise ValueError(f"it is truncated or damaged: {error}") from error
        raise
    return found


def _array(name: str, data: bytes) -> np.ndarray:
    """An array of version 1 of NumPy's format, which is all that is written here."""
    length = int.from_bytes(data[8:10], "little")
    if data[:8] != b"\x93NUMPY\x01\x00" or length > _HEADER or len(data) < 10 + length:
        raise ValueError(f"{name} is not a NumPy array")
    try:
        header = ast.literal_eval(data[10 : 10 + length].decode("latin1").strip())
        shape, kind, columns = tuple(header["shape"]), header["descr"], header["fortran_order"]
        right = kind == "<f4" and all(type(extent) is int and 0 <= extent < 2**40 for extent in shape)
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise ValueError(f"{name} has no NumPy header") from error
    if not right or len(shape) > 8 or len(data) - 10 - length != 4 * int(np.prod(shape, dtype=object)):
        raise ValueError(f"{name} is of type {kind!r:.20} and shape {shape!s:.40}, which does not fit its content")
    array = np.frombuffer(data, np.float32, offset=10 + length).reshape(shape, order="F" if columns else "C").copy()
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds numbers that are not finite")
    return array
