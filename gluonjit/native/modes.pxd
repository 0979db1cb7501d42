# The types of modes.py.
from gluonjit.native.names cimport torch


cdef extern from *:
    """
    typedef _Bool (*Learning)(void);
    typedef _Bool (*Excluded)(uint64_t);
    typedef signed char (*Disabled)(void);
    typedef int64_t (*Stacked)(void);
    """
    ctypedef bint (*Learning)() noexcept
    ctypedef bint (*Excluded)(unsigned long long) noexcept
    ctypedef int (*Disabled)() noexcept
    ctypedef long long (*Stacked)() noexcept

cdef Learning _learning
cdef Excluded _excluded
cdef Disabled _disabled
cdef Stacked _stacked
cdef unsigned long long _casting


cdef inline bint is_learning() except -1:  # whether gradients are recorded
    return _learning() if _learning != NULL else torch.learning() is True


cdef inline bint is_casting() except -1:  # whether autocast is on: unless all of its keys are excluded
    return not _excluded(_casting) if _learning != NULL else torch.autocast() is True


cdef inline bint is_overridden() except -1:  # by a TorchFunctionMode, or else classes of arguments are not asked
    if _learning != NULL:
        return _disabled() != 0 or _stacked() > 0
    return torch.overridden() is True
