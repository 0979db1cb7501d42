# cython: language_level=3, nonecheck=True, initializedcheck=False, binding=False
"""Rows of a lazy array of the open batch: the quick part of `__getitem__` of LazyArray, LazyNumpy and LazyTensor."""

from __future__ import annotations

from cython import bint, cfunc

__all__ = ["Items", "Silent"]


@cfunc
def _has_history(kind: LazyKind, state: StateNumbers, value: Value) -> bint:
    """True if a slice made now has the history of a value, which has one if it was taped."""
    if kind is torch.lazy:
        return is_running(state) and (not value.taped or is_learning())
    return not value.taped or state.mode >= 2


def slice_of(kind, array, key):
    """Returns rows of a lazy array, a view but for those at known numbers inside of a sample; or LEFT."""
    value: Value = value_in(kind, array)
    if value is None or (kind is torch.lazy and is_stale(array)):
        return LEFT
    state: StateNumbers = state_here()
    batch: BatchRoom = state.batch
    if batch is None or batch.graph is not value.graph or batch.graph is None or type(value.spec) is not Spec:
        return LEFT
    if not _has_history(kind, state, value):
        return LEFT
    found = sliced(value, key)
    if found is not None:
        result = wrap(kind, found)
        note_view(kind, result, array, key)
        return result
    if kind is not torch.lazy or state.inside == 0:
        return LEFT
    numbers: list = known_numbers(key)
    found = None if numbers is None else _picked(value, numbers)
    return LEFT if found is None else tensor_of(found)


class Items:
    """The items of lazy tensors: a base of theirs."""

    def __getitem__(self, key):
        """Returns rows, or by other constants a node."""
        if package.local is not None and type(self) is torch.lazy.kind:
            found = slice_of(torch.lazy, self, key)
            if found is LEFT and not is_overridden():  # by what has to see the call first
                given = (self, key)
                found = through(torch.getitem, items_of(given), 2, None)
            if found is not LEFT:
                return found
        if torch.item is None:
            raise TypeError(f"{type(self).__name__} has no items")
        return torch.item(self, key)


class Silent:
    """A base of lazy arrays, which end without a word where NDArray would call a function of Python."""

    def __del__(self):
        pass


never_listed(Items)
