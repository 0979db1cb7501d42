/* Functions of Python that are tried in C first, or seen before their first line. They stay what they are: torch.compile
 * reads their code. */

#include "fast.h"

static vectorcallfunc as_it_was; /* of all functions of Python, which has no public name from 3.13 on */

static PyObject *before_call(PyObject *function, PyObject *const *args, size_t flags, PyObject *keywords) {
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (count > 0 && names.local) {
        PyObject *result = quick_module(args, count, keywords);
        if (result || PyErr_Occurred()) return result;
    }
    return as_it_was(function, args, flags, keywords);
}

static PyObject *before_attribute(PyObject *function, PyObject *const *args, size_t flags, PyObject *keywords) {
    if (!keywords) {
        PyObject *result = attribute(args, PyVectorcall_NARGS(flags));
        if (result || PyErr_Occurred()) return result;
    }
    return as_it_was(function, args, flags, keywords);
}

static struct {
    const char *name;
    vectorcallfunc before;
} ways[] = {{"call", before_call}, {"attribute", before_attribute}};

/* quicken(way, function): let calls of a function try the fast path first. */
PyObject *quicken(PyObject *module, PyObject *args) {
    const char *name;
    PyFunctionObject *function;
    size_t k;
    if (!PyArg_ParseTuple(args, "sO!:quicken", &name, &PyFunction_Type, &function)) return NULL;
    for (k = 0; k < sizeof(ways) / sizeof(ways[0]) && strcmp(ways[k].name, name) != 0; k++) continue;
    if (k == sizeof(ways) / sizeof(ways[0])) return PyErr_Format(PyExc_ValueError, "there is no fast path %s", name);
    if (function->vectorcall != before_call && function->vectorcall != before_attribute) as_it_was = function->vectorcall;
#if PY_VERSION_HEX >= 0x030C0000
    PyFunction_SetVectorcall(function, ways[k].before);
#else
#if PY_VERSION_HEX >= 0x030B0000
    function->func_version = 0; /* calls of it that know it by its version look again */
#endif
    function->vectorcall = ways[k].before;
#endif
    return Py_NewRef((PyObject *)function);
}

static PyObject *event_call, *passed_over;

/* Whether nobody need be told of this code's calls. */
static int is_passed_over(PyFrameObject *frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *address = PyLong_FromVoidPtr(code);
    int found = !address ? -1 : PyDict_Contains(passed_over, address);
    Py_XDECREF(address);
    Py_DECREF(code);
    return found;
}

/* A function for sys.setprofile that sees only calls of Python's functions: Python makes a dict of a frame's names for
 * each call and return of anything before such a function is asked, and after. */
static int before_line(PyObject *notice, PyFrameObject *frame, int what, PyObject *arg) {
    PyObject *result;
    int passed;
    if (what != PyTrace_CALL) return 0;
    passed = is_passed_over(frame);
    if (passed) return passed < 0 ? -1 : 0;
    Py_INCREF(notice); /* which may end its own watch */
    result = PyObject_CallFunctionObjArgs(notice, (PyObject *)frame, event_call, Py_None, NULL);
    Py_DECREF(notice);
    if (!result) PyEval_SetProfile(NULL, NULL);
    Py_XDECREF(result);
    return !result ? -1 : 0;
}

/* watch_calls(notice, known): call notice(frame, "call", None) before the first line of each function of Python whose
 * code is not among the values of `known`, by address, until sys.setprofile says otherwise. */
PyObject *watch_calls(PyObject *module, PyObject *args) {
    PyObject *notice, *known;
    if (!PyArg_ParseTuple(args, "OO!:watch_calls", &notice, &PyDict_Type, &known)) return NULL;
    if (!PyCallable_Check(notice)) return PyErr_Format(PyExc_TypeError, "%.100s is not callable", Py_TYPE(notice)->tp_name);
    if (!event_call && (event_call = PyUnicode_InternFromString("call")) == NULL) return NULL;
    Py_XSETREF(passed_over, Py_NewRef(known));
    PyEval_SetProfile(before_line, notice);
    Py_RETURN_NONE;
}
