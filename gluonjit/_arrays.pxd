# Types of the files that work on arrays of numbers, in Cython's pure-Python mode.

ctypedef Py_ssize_t Size
ctypedef long long Number
ctypedef long long[::1] Numbers
ctypedef unsigned char[::1] Flags
