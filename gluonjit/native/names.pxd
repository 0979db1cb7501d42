# What compiled code knows of the package and of each framework: see names.py.
cimport cython
from cpython.object cimport PyObject
from gluonjit._fast cimport BatchRoom, StateNumbers

ctypedef PyObject *Pointer
ctypedef PyObject **Args

cdef extern from "slots.h":
    ctypedef struct Tensors:
        void *type
        Py_ssize_t v, c, b, k, n
    Tensors tensors
    long long ADDRESS(object)
    object read_slot(object, Py_ssize_t)
    bint slot_is(object, Py_ssize_t, object)
    void fill_slot(object, Py_ssize_t, object)
    Py_ssize_t offset_of(object) except -1
    Args items_of(object)

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        pass
    PyThreadState *PyThreadState_Get()
    unsigned long long PyThreadState_GetID(PyThreadState *)
    PyObject *PyWeakref_GetObject(object)
    object PyObject_Vectorcall(object, Args, size_t, PyObject *)
    object PyObject_VectorcallMethod(object, Args, size_t, PyObject *)


@cython.final
cdef class LazyKind:
    cdef object kind
    cdef Py_ssize_t v, c, b, k, n


cdef class PackageNames:
    cdef public object Repeated, local, note, clock


cdef class FrameworkNames:
    cdef public LazyKind lazy
    cdef public object Array, Block, Cell, again, empty, key, lay, look_up, original, rebuild, value_of
    cdef LazyKind other
    cdef object second  # the class of arrays of the other interface, or None


@cython.final
cdef class MXNetNames(FrameworkNames):
    cdef public LazyKind lazy_np
    cdef public object Embedding, HybridBlock, after, automatic, handle, ndarray
    cdef Py_ssize_t handle_at
    cdef public size_t copy_out, get_context, get_data, get_dtype, get_shape, wait


@cython.final
cdef class TorchNames(FrameworkNames):
    cdef public object Parameter, autocast, call_impl, device, doors, dtype, engine, entry, error_of, expanded, getitem
    cdef public object global_hooks, int64, item, laid_out, leaf_laid, learning, make, operate, overridden, put
    cdef public object handle, mute, steps_of
    cdef public object InputVersion, MadeHere, Size, forward_ad, is_wrapped, leads_to, looks, new, strided, tensor, tried
    cdef public object as_known, cheap, repeated, traced_otherwise, tracing, whole, whole_types


cdef PackageNames package
cdef MXNetNames mxnet
cdef TorchNames torch
cdef object LEFT, _latest, _local
cdef unsigned long long _thread

cdef StateNumbers state_here()


cdef inline object item(Args args, Py_ssize_t k):
    return <object>args[k]


cdef inline tuple all_of(Args args, Py_ssize_t count):
    return tuple([<object>args[k] for k in range(count)])


cdef inline bint is_running(StateNumbers state) noexcept:  # and is not traced or paused
    return state.trace is None and state.paused == 0


cdef inline bint is_torch(BatchRoom batch) noexcept:
    return torch.engine is not None and batch.engine is torch.engine
