"""Recorders, which run the two halves of a static plan: as plain functions, or as CUDA graphs of their launches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import torch

Run = Callable[[], None]
Memory = Sequence[Any]
_NEAR = 1e-3  # of the largest number: what adds up in another order in each run
_MOST_WANTED = 4
"""Backward passes of one static plan, by which results have gradients, that become graphs."""


class Replayer(Protocol):
    """Runs functions that read and write the same memory in each run."""

    captures: int
    remembers: bool  # whether what the forward function has left in Python belongs to later runs too

    def begin(self) -> None:
        """Begins to use the memory, after whatever the last runs do with it."""

    def forward(self, run: Run, memory: Memory) -> None:
        """Runs the forward function, which writes to this memory."""

    def backward(self, key: Hashable, run: Run, memory: Memory) -> None:
        """Runs a backward function, the same for the same key, of the last forward run."""


class HostRecorder:
    """Calls them."""

    captures = 0
    remembers = False

    def begin(self) -> None:
        """Everything is done in its order."""

    def forward(self, run: Run, memory: Memory) -> None:
        """Runs the forward function."""
        run()

    def backward(self, key: Hashable, run: Run, memory: Memory) -> None:
        """Runs a backward function."""
        run()


class CudaRecorder:
    """Captures them as CUDA graphs that share one pool of memory.

    The first forward run, on a stream beside, is the warm-up. For the second one it is captured, and so is each
    backward pass that has been asked for until then; one that is new runs operator by operator once. A new graph has to
    give the numbers that its operators give. What autograd has recorded during the capture is kept: its tensors are
    those that each replay fills, so no graph may use their memory for something else.
    """

    remembers = True

    def __init__(self, device: Any, pool: Any = None) -> None:
        self.captures = 0
        self._device, self._pool = device, pool
        self._warm = False
        self._forward: Any = None
        self._backwards: dict[Hashable, Any] = {}
        self._wanted: dict[Hashable, tuple[Run, Memory]] = {}
        self._open()

    def begin(self) -> None:
        """Lets the current stream wait for the one on which the last runs were."""
        self._turn()

    def forward(self, run: Run, memory: Memory) -> None:
        """Runs the forward function. Raises RuntimeError if a graph gives other numbers than its operators."""
        if not self._warm:
            self._warm = True
            self._aside(run)
            return
        if self._forward is None:
            self._forward = self._checked(run, memory)
        else:
            self._replay(self._forward)
        for key, (backward, written) in self._wanted.items():
            self._backwards[key] = self._checked(backward, written)
        self._wanted.clear()

    def backward(self, key: Hashable, run: Run, memory: Memory) -> None:
        """Runs a backward function, the same for the same key, of the last forward run."""
        graph = self._backwards.get(key)
        if graph is not None:
            self._replay(graph)
            return
        if len(self._backwards) + len(self._wanted) < _MOST_WANTED:
            self._wanted[key] = (run, memory)
        self._aside(run)

    def _open(self) -> None:
        self._stream = _side_stream(self._device)
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        self._last: Any = None

    def _checked(self, run: Run, memory: Memory) -> Any:
        """The graph of a function that has just run as this graph."""
        before = [room.clone() for room in memory]
        self._aside(run)
        expected = [room.clone() for room in memory]
        for room, numbers in zip(memory, before):
            room.copy_(numbers)
        graph = self._capture(run)
        self._replay(graph)
        if not all(map(_alike, memory, expected)):
            raise RuntimeError("a CUDA graph gave other numbers than the operators that it was captured from")
        return graph

    def _capture(self, run: Run) -> Any:
        """Records what a function launches, without running it."""
        self.captures += 1
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device), _graph(graph, self._pool, self._stream):
            run()
        return graph

    def _aside(self, run: Run) -> None:
        """Runs on the stream on which captures are made: autograd's nodes remember their stream."""
        current = self._turn()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            run()
        current.wait_stream(self._stream)

    def _replay(self, graph: Any) -> None:
        self._turn()
        graph.replay()

    def _turn(self) -> Any:
        """The current stream, when what another one does with this plan's memory comes before."""
        current = torch.cuda.current_stream(self._device)
        if self._last is not None and self._last != current:
            current.wait_stream(self._last)
        self._last = current
        return current


def _alike(found: Any, expected: Any) -> bool:
    if not found.dtype.is_floating_point:
        return bool(torch.equal(found, expected))
    scale = expected.nan_to_num(0.0, 0.0, 0.0).abs().max() if expected.numel() else 0.0
    return bool(torch.isclose(found, expected, rtol=0.0, atol=_NEAR * float(scale), equal_nan=True).all())


def _graph(graph: Any, pool: Any, stream: Any) -> Any:
    """Other threads, as those that load data, may go on using the device during a capture."""
    return torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local")


_streams: dict[Any, Any] = {}


def _side_stream(device: Any) -> Any:
    if device not in _streams:
        _streams[device] = torch.cuda.Stream(device)
    return _streams[device]


def recorder_for(device: Any) -> Replayer:
    """Returns what runs static plans on a device."""
    return CudaRecorder(device) if device.type == "cuda" else HostRecorder()


_pools: dict[Any, Any] = {}


def step_recorder_for(device: Any, stream: int) -> Replayer:
    """Returns what runs static steps that are used on this stream of a device alone.

    They share a pool of memory, of which each would take some megabytes at least: they run one after the other, and
    what one keeps for its backward pass is not given to others, as it is alive.
    """
    if device.type != "cuda":
        return HostRecorder()
    key = (device, stream)
    if key not in _pools:
        _pools[key] = torch.cuda.graph_pool_handle()
    return CudaRecorder(device, _pools[key])


def stream_of(device: Any) -> int:
    """The current stream of a device."""
    return int(torch.cuda.current_stream(device).cuda_stream) if device.type == "cuda" else 0
