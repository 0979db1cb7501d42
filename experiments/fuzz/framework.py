"""The parts of a framework that the fuzzer needs. Everything else is common to all frameworks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from experiments.bench.engines import engine_of
from experiments.fuzz import comparing, state
from experiments.fuzz.case import Action, Case, Choices, Given, Minibatch, Way
from experiments.fuzz.vocabulary import Dialect

Patch = tuple[Any, str, Any]


class Net(NamedTuple):
    """The net of all programs: its layers as text, so that a printed program holds those it uses.

    layers: what is assigned to the net's attributes, by name; functions: the cells in `blocks` that are no class;
    source: the class `Net` of such attributes; ready: lines that make `net` of it, of weights of a dtype.
    """

    blocks: ModuleType
    layers: Mapping[str, str]
    functions: tuple[str, ...]
    source: str
    ready: str


class Framework(ABC):
    """Draws, writes and judges programs of a framework."""

    name: str
    choices: Choices
    dialect: Dialect
    prelude: ModuleType
    net: Net
    plants: Mapping[str, Callable[[], list[Patch]]]

    # --- writing -------------------------------------------------------------------------------------------------

    @abstractmethod
    def array(self, numbers: Any, dtype: str) -> Any:
        """An array of these numbers."""

    @abstractmethod
    def given(self, name: str, numbers: Any, dtype: str, learn: bool) -> list[str]:
        """Lines that make it."""

    @abstractmethod
    def cast(self, text: str, dtype: str) -> str:
        """An expression for an array with another dtype."""

    @abstractmethod
    def hybridize(self, options: str) -> str:
        """The line that lets the net be batched."""

    @abstractmethod
    def trainer(self) -> str:
        """The line that makes the trainer or optimizer."""

    @abstractmethod
    def call(self, program: str, arguments: list[str], way: Way) -> str:
        """A sample: the call of the net with a program."""

    @abstractmethod
    def mode(self, way: Way) -> str:
        """The context in which samples are called."""

    @abstractmethod
    def loss(self, case: Case, minibatch: Minibatch, learned: list[str]) -> str:
        """The loss of a sample's results `out`."""

    @abstractmethod
    def carried(self, text: str, detach: bool, before: Minibatch) -> str:
        """A result of the minibatch before as input."""

    @abstractmethod
    def forget(self, number: int, case: Case, learned: list[str]) -> list[str]:
        """Lines that forget gradients before a minibatch."""

    @abstractmethod
    def backward(self, number: int, case: Case, learned: list[str]) -> list[str]:
        """Lines that go backward from `losses` and `total`, and keep the gradients; `learned` are inputs that learn."""

    @abstractmethod
    def action(self, action: Action, way: Way, inputs: list[tuple[str, Given]]) -> list[str]:
        """Lines that change a parameter or one of the inputs of floats."""

    def begin(self, case: Case, inputs: list[str]) -> list[str]:
        """Lines at the beginning of each program, which may change the names of its inputs."""
        return []

    # --- judging -------------------------------------------------------------------------------------------------

    @abstractmethod
    def nudged(self, text: str, by: float) -> str:
        """The text of a case with given arrays and weights changed a little."""

    @abstractmethod
    def end(self, net: Any, found: dict[str, Any], batched: bool) -> None:
        """Make the net eager again, and collect errors of pending work."""

    @abstractmethod
    def unusable(self, name: str, value: Any) -> bool:
        """True if the eager program's result is unusable as the oracle."""

    @abstractmethod
    def known(self, value: Any) -> bool:
        """True if an error of the eager program need not be one of the batched program."""

    def refused(self, value: Any) -> bool:
        """True if a result is the eager program's refusal of a backward through overwritten values."""
        return False

    def copied(self, text: str) -> bool:
        """True if a batch need not refuse this, because it has its own copies of the overwritten values."""
        return False

    def recorded(self, value: Any) -> bool:
        """True if a result is the eager program's refusal of a write to an array read by recorded calls."""
        return False

    def limit(self, wanted: Any, found: Any, text: str) -> bool:
        """True if an error that one of the runs raises, while the other gives None, is a documented limit."""
        return False

    @abstractmethod
    def tolerance(self, text: str, dtypes: frozenset[str]) -> float:
        """The difference that rounding may make in these programs, relative to the largest element."""

    @abstractmethod
    def operators(self) -> frozenset[str]:
        """The names of the framework's operators, which distinguish them from cells."""

    # --- of all frameworks ---------------------------------------------------------------------------------------

    @property
    def names(self) -> dict[str, Any]:
        """Names that the text of a case may use."""
        public = {name: item for name, item in vars(self.net.blocks).items() if not name.startswith("_")}
        return {**vars(comparing), **vars(self.prelude), **vars(state), **public}


def framework(name: str) -> Framework:
    """The framework of a name, which is imported. Raises ImportError if it is not installed."""
    found: Framework = engine_of("fuzz", name).FRAMEWORK
    return found
