"""Damaged and hostile files: each ends in one clear line that names the file, and runs no code."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.bench.base import BaseSystem, check_shapes
from experiments.data import builtin
from experiments.treelstm import checkpoint
from experiments.treelstm.cli import main
from gluonjit.commands import simulate
from gluonjit.writing import write_whole

WEIGHTS = {"a": np.ones((2, 3), np.float32), "b": np.ones(4, np.float32)}
SETTING = {"mode": "plain", "epochs": 1}
EPOCH = {"epoch": 1, "loss": 1.0, "dev_pearson": 0.5}
RAN = "ran.txt"
Harm = Callable[[Path], None]


class Plain(BaseSystem):
    """A system that keeps arrays."""

    def __init__(self) -> None:
        super().__init__("plain")
        self.kept = {name: array.copy() for name, array in WEIGHTS.items()}
        self.remembered = {name: 2 * array for name, array in WEIGHTS.items()}

    def weights(self) -> dict[str, np.ndarray]:
        return self.kept

    def set_weights(self, weights: dict[str, np.ndarray]) -> None:
        self.kept = weights

    def states(self) -> dict[str, np.ndarray]:
        return self.remembered

    def set_states(self, states: dict[str, np.ndarray]) -> None:
        self.remembered = check_shapes(states, {name: array.shape for name, array in WEIGHTS.items()})


class Bomb:
    """What runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch {RAN}",)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "run"
    progress = checkpoint.Progress([dict(EPOCH)], 1, {name: array.copy() for name, array in WEIGHTS.items()})
    checkpoint.save(made, SETTING, progress, Plain())
    return made


def content(data: bytes) -> Harm:
    def harm(path: Path) -> None:
        path.write_bytes(data)

    return harm


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(bytes(data))


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def as_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def gone(path: Path) -> None:
    path.unlink()


def arrays(**named: Any) -> Harm:
    def harm(path: Path) -> None:
        with path.open("wb") as stream:
            np.savez(stream, **{**WEIGHTS, **named})

    return harm


def zipped(**members: bytes) -> Harm:
    def harm(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(f"{name}.npy", data)

    return harm


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def state(**changed: Any) -> Harm:
    given = {"setting": SETTING, "epochs": [EPOCH], "best_epoch": 1, "files": "epoch-0001", **changed}
    return content(json.dumps(given).encode())


OF_ARRAYS: dict[str, Harm] = {
    "empty": content(b""),
    "cut off": cut,
    "flipped": flipped,
    "no zip": content(b"nothing" * 1000),
    "a pickle": content(pickle.dumps(Bomb())),
    "an array of objects": arrays(a=np.array([Bomb()], object)),
    "another shape": arrays(a=np.ones((3, 2), np.float32)),
    "doubles": arrays(a=np.ones((2, 3))),
    "one too many": arrays(c=np.ones(1, np.float32)),
    "NaN": arrays(a=np.full((2, 3), np.nan, np.float32)),
    "infinity": arrays(a=np.full((2, 3), np.inf, np.float32)),
    "one too few": zipped(a=b""),
    "a zip bomb": zipped(a=bytes(8 << 20)),
    "a pickle in a zip": zipped(a=pickle.dumps(Bomb()), b=pickle.dumps(Bomb())),
    "a huge shape": zipped(a=header("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627775,)}")),
    "a negative shape": zipped(a=header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -4)}")),
    "a deep header": zipped(a=header("(" * 3000)),
    "code in a header": zipped(a=header(f"__import__('os').system('touch {RAN}')")),
    "a folder": as_folder,
    "a pipe": as_fifo,
    "a loop of links": as_loop,
    "a device": as_device,
    "not there": gone,
}
OF_STATE: dict[str, Harm] = {
    "empty": content(b""),
    "cut off": cut,
    "no text": content(b"\xff\xfe\x00"),
    "a list": content(b"[]"),
    "deep": content(b"[" * 200_000),
    "twice": content(b'{"files": "epoch-0001", "files": "epoch-0001"}'),
    "NaN": content(b'{"setting": {}, "epochs": [{"epoch": 1, "dev_pearson": NaN}], "best_epoch": 1}'),
    "a way out": state(files="../../elsewhere"),
    "a number for files": state(files=3),
    "no epochs": state(epochs=[]),
    "epochs of text": state(epochs="many"),
    "an epoch of text": state(epochs=["one"]),
    "an epoch of lists": state(epochs=[{"epoch": 1, "dev_pearson": []}]),
    "another epoch": state(epochs=[{"epoch": 7, "dev_pearson": 0.5}]),
    "a huge number": state(epochs=[{"epoch": 1, "dev_pearson": 10**400}]),
    "a best that is negative": state(best_epoch=-1),
    "a best that is later": state(best_epoch=10**30),
    "a setting of text": state(setting="mine"),
}
FILES = {"weights.npz": OF_ARRAYS, "best.npz": OF_ARRAYS, checkpoint.STATES: OF_ARRAYS}
CASES = [(f"epoch-0001/{file}", name) for file, harms in FILES.items() for name in harms]
CASES += [("state.json", name) for name in OF_STATE]


@pytest.mark.parametrize(("file", "name"), CASES)
def test_a_damaged_checkpoint_is_named_in_a_line(file: str, name: str, folder: Path) -> None:
    harms = OF_STATE if file == "state.json" else OF_ARRAYS
    harms[name](folder / file)
    system = Plain()
    with pytest.raises(checkpoint.DamagedCheckpoint) as caught:
        checkpoint.load(folder, SETTING, system)
    said = str(caught.value)
    assert said.startswith(f"{folder / file}: ") and said.endswith("start again in another folder")
    assert "\n" not in said and len(said) < 600
    assert not Path(RAN).exists()


def test_a_checkpoint_is_what_was_saved(folder: Path) -> None:
    system = Plain()
    system.kept, system.remembered = {}, {}
    system.kept = {name: 0 * array for name, array in WEIGHTS.items()}
    progress = checkpoint.load(folder, SETTING, system)
    assert all((system.kept[name] == WEIGHTS[name]).all() for name in WEIGHTS)
    assert all((system.remembered[name] == 2 * WEIGHTS[name]).all() for name in WEIGHTS)
    assert (progress.epochs, progress.best_epoch) == ([EPOCH], 1)


def test_states_of_an_earlier_version_are_not_unpickled(folder: Path) -> None:
    (folder / "epoch-0001" / checkpoint.STATES).unlink()
    (folder / "epoch-0001" / "trainer.states").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(checkpoint.DamagedCheckpoint, match="an earlier version wrote it, as a pickle"):
        checkpoint.load(folder, SETTING, Plain())
    assert not Path(RAN).exists()


def test_the_command_says_it_in_a_line(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtin, "SCENES", 8)
    monkeypatch.setattr(builtin, "SIZES", {"train": 16, "dev": 2, "test": 2})
    command = ["train", "--mode", "dynamic", "--engine", engine, "--limit", "8", "--batch-size", "4", "--epochs", "1"]
    assert main([*command, "--checkpoint", str(tmp_path)]) == 0
    again = [*command[:-1], "2", "--checkpoint", str(tmp_path), "--resume"]
    assert main(again) == 0
    states = tmp_path / "epoch-0002" / checkpoint.STATES
    states.write_bytes(pickle.dumps(Bomb()))
    capsys.readouterr()
    assert main([*again[:-4], "3", *again[-3:]]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert said[-1].startswith(f"error: {states}: it is no part of a checkpoint")
    assert not any("Traceback" in line for line in said)
    assert main([*command, "--json", str(tmp_path)]) == 1
    assert capsys.readouterr().err.strip().endswith("it is a folder; choose another place")


def gzipped(text: bytes) -> Harm:
    return content(gzip.compress(text))


def bomb(path: Path) -> None:
    """300 MB of spaces in less than 1."""
    gzipped(b" " * (300 << 20))(path)


TRACES: dict[str, Harm] = {
    "empty": content(b""),
    "a gzip of nothing": content(gzip.compress(b"")),
    "a gzip cut off": content(gzip.compress(b'{"format": 1}')[:-6]),
    "a trace of the version before": content(b'{"format": "gluonjit-trace", "version": 2}'),
    "a trace in arrays": content(b"PK\x03\x04"),
    "a bomb": bomb,
    "numbers larger than any": gzipped(b'{"version": ' + b"9" * 1_000_000 + b"}"),
    "lists in lists": gzipped(b"[" * 1_000_000),
    "a pickle": content(pickle.dumps(Bomb())),
    "a pickle in it": gzipped(pickle.dumps(Bomb())),
    "a number": content(b"9" * 100_000),
    "a folder": as_folder,
    "a pipe": as_fifo,
    "a loop of links": as_loop,
    "a device": as_device,
    "not there": gone,
}


@pytest.mark.parametrize("name", TRACES)
def test_a_hostile_trace_is_named_in_a_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.npz"
    path.touch()
    TRACES[name](path)
    assert simulate.main(str(path), [], [], None) == 1
    said = capsys.readouterr().err.strip()
    assert f"{path}: " in said and "Next: " in said and "\n" not in said and len(said) < 600
    assert not (tmp_path / RAN).exists()


def test_links_are_written_through_and_devices_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    write_whole(link, b"one")
    write_whole(link, b"two")
    assert link.is_symlink() and real.read_bytes() == b"two" and len(list(tmp_path.iterdir())) == 2
    write_whole(Path("/dev/null"), b"nothing")
    assert Path("/dev/null").is_char_device()
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)


@pytest.mark.parametrize("harm", [as_folder, as_fifo, as_loop])
def test_what_is_no_file_is_not_replaced(harm: Harm, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.touch()
    harm(path)
    with pytest.raises(OSError):
        write_whole(path, b"x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"] and not path.is_file()


def test_arrays_are_read_as_numpy_writes_them(tmp_path: Path) -> None:
    from experiments.bench.files import read_arrays

    stream = io.BytesIO()
    given = {"x": np.arange(6, dtype=np.float32).reshape(2, 3).T, "y": np.float32(3) * np.ones((), np.float32)}
    np.savez(stream, **given)
    (tmp_path / "x.npz").write_bytes(stream.getvalue())
    found = read_arrays(tmp_path / "x.npz", 10_000)
    assert all((found[name] == array).all() and found[name].shape == array.shape for name, array in given.items())
