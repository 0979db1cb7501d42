"""The objects of a framework, as an engine tells the follower of a call about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gluonjit.hybrid.capture.guards.sizes import traced


class Refused(BaseException):
    """The reason why a call is not a node; it passes the program's handlers for `Exception`."""


class Eagerly(str):
    """The reason why a call runs eagerly, and all that it calls: it asks what only the arrays themselves can answer."""

    __slots__ = ()


OWN_ARRAY = "an argument is a {}, an array of the program's own class, which says itself what functions do with it"


class FrameworkObjects:
    """The engine's knowledge of objects that a program uses. An engine derives from this class.

    followed: functions of the framework that call the user's, and are followed for that. counters: attributes in which
    the framework's blocks count calls, for names of operators: no result depends on them. flags: what arrays that
    outlive the call have beside numbers, by name, as their class has it. instead: what is called in place of functions
    of the framework, by whatever names the program has them. modes: what tells or sets whether gradients are recorded.
    arrays, traced, blocks: the classes of arrays, of those that stand for values of a trace, and of models. constants:
    those of objects that never change, such as a dtype; framework: the package's name; shape: the class of shapes.
    """

    arrays: type
    traced: type
    blocks: Any = ()  # no class
    constants: tuple[type, ...] = ()
    framework = ""
    shape: Any = tuple

    followed: frozenset[Any] = frozenset()
    counters: frozenset[str] = frozenset()
    flags: Mapping[str, Any] = {}
    instead: Mapping[Any, Any] = {}
    modes: frozenset[Any] = frozenset()

    def array(self, item: Any) -> bool:
        """True if this is an array of the framework's, whose operations the engine sees itself."""
        return isinstance(item, self.arrays)

    def own(self, item: Any) -> bool:
        """True if this array stands for a value of the trace."""
        return isinstance(item, self.traced)

    def writes(self, out: Any) -> list[int]:
        """Counts the writes to what stands for values of the trace among arrays."""
        return []

    def answers(self, item: Any, name: str) -> bool:
        """True if this attribute of an array follows from its place in a program, or is an operator on it."""
        return True

    def constant(self, item: Any) -> bool:
        """True of an object that never changes, such as a dtype."""
        return isinstance(item, self.constants)

    def sizes(self, item: Any, asked: list[int]) -> Any:
        """Returns what an array of the trace gives; a size, or several, as ones that note what is asked of them."""
        if type(item) is int:
            return traced(item, asked)
        if type(item) is not self.shape or not all(type(size) is int for size in item):
            return item
        return self.shape([traced(size, asked) for size in item])

    def operates(self, function: Any) -> bool:
        """True if this is a function of the framework's, which does the same for arrays of any size."""
        owner = getattr(function, "__self__", None)
        if self.array(owner) or owner is self.shape:
            return True
        module = getattr(function, "__module__", None) or type(owner).__module__
        return module.partition(".")[0] == self.framework

    def block(self, item: Any) -> bool:
        """True if this is a module or block, whose calls come back to the follower."""
        return isinstance(item, self.blocks)

    def watched(self, item: Any) -> bool:
        """True if changes of this object's attributes are detected anyway."""
        return False

    def settable(self, item: Any, name: str) -> bool:
        """True if a call may set this attribute of a block, which is done again for each call."""
        return False

    def is_result(self, item: Any, name: str) -> bool:
        """True if calls have set this attribute of a block."""
        return False

    def spaces(self, item: Any) -> Sequence[dict[str, Any]]:
        """Returns the containers of attributes of a framework's object other than its __dict__."""
        return ()

    def state(self, item: Any) -> Iterator[tuple[dict[str, Any], str]]:
        """Returns the attributes that a module or block of the framework's own reads when it is called."""
        return iter(())
