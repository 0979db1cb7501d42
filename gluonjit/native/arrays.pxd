# The types of arrays.py.
cimport cython
from gluonjit.native.names cimport mxnet, read_slot
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

ctypedef int (*GetShape)(void *, int *, const int64_t **) noexcept
ctypedef int (*GetCode)(void *, int *) noexcept
ctypedef int (*GetContext)(void *, int *, int *) noexcept
ctypedef int (*CopyOut)(void *, void *, size_t) noexcept nogil
ctypedef int (*Wait)(void *) noexcept nogil
ctypedef int (*GetData)(void *, void **) noexcept nogil
ctypedef const int64_t *Sizes

# Codes of MXNet's dtypes.
cdef enum:
    FLOAT32, FLOAT64, FLOAT16, UINT8, INT32, INT8, INT64
