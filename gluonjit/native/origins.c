/* The innermost place outside of the libraries: gluonjit.graph.origins.origin_of. */

#include "fast.h"
#include <frameobject.h>
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#endif

#if PY_VERSION_HEX < 0x030B0000
static PyObject *globals_of(PyFrameObject *frame) { return Py_NewRef(frame->f_globals); }
#if PY_VERSION_HEX < 0x030A0000
static int place_of(PyFrameObject *frame) { return frame->f_lasti; }
#else
static int place_of(PyFrameObject *frame) {
    return frame->f_lasti < 0 ? -1 : frame->f_lasti * (int)sizeof(_Py_CODEUNIT);
}
#endif
#else
#define globals_of PyFrame_GetGlobals
#define place_of PyFrame_GetLasti
#endif

/* 1 or 0, or -1 and an exception. */
static int in_library(PyFrameObject *frame) {
    PyObject *globals = globals_of(frame), *name, *found = NULL;
    int inside = -1;
    if (globals == NULL) return -1;
    name = PyDict_GetItemWithError(globals, str_name); /* an unhashable name is no module's */
    if (name != NULL) found = PyDict_GetItemWithError(names.known, name);
    if (found != NULL) {
        inside = found == Py_True;
    } else {
        PyErr_Clear();
        found = PyObject_CallOneArg(names.is_library, (PyObject *)frame);
        if (found != NULL) {
            inside = PyObject_IsTrue(found);
            Py_DECREF(found);
        }
    }
    Py_DECREF(globals);
    return inside;
}

/* Places that were asked for lately, so that one place is one object. Each keeps its code alive, by whose address it is
   found: 256 of them at most. */
enum { PLACES = 256 };
static PyObject *places[PLACES];

static inline int is_at(PyObject *origin, PyObject *code, int at) {
    return origin != NULL && PyTuple_GET_ITEM(origin, 0) == code && PyLong_AsLong(PyTuple_GET_ITEM(origin, 1)) == at;
}

/* A place as Python has it; the reference to `code` is taken over. */
static PyObject *origin_at(PyObject *code, int at) {
    size_t place = (((size_t)code >> 5) ^ (size_t)(at >> 1)) % PLACES;
    PyObject *origin;
    if (is_at(places[place], code, at)) {
        Py_DECREF(code);
        return Py_NewRef(places[place]);
    }
    origin = Py_BuildValue("(Ni)", code, at);
    if (origin != NULL) Py_XSETREF(places[place], Py_NewRef(origin));
    return origin;
}

#ifdef Py_BUILD_CORE
/* The same without an object for each frame, which takes longer than all else: the code, or NULL where a module is met
   of which nobody knows yet whether it is a library. */
static PyObject *quick_place(int *at) {
    _PyInterpreterFrame *frame = PyThreadState_Get()->cframe->current_frame;
    for (; frame != NULL; frame = frame->previous) {
        PyObject *name, *known;
        if (_PyFrame_IsIncomplete(frame)) continue;
        name = PyDict_GetItemWithError(frame->f_globals, str_name);
        known = name == NULL || !PyUnicode_CheckExact(name) ? NULL : PyDict_GetItemWithError(names.known, name);
        if (known == Py_True) continue;
        PyErr_Clear();
        if (known == NULL) return NULL;
        *at = _PyInterpreterFrame_LASTI(frame) * (int)sizeof(_Py_CODEUNIT);
        return *at < 0 ? NULL : Py_NewRef((PyObject *)frame->f_code);
    }
    return NULL;
}
#else
#define quick_place(at) NULL
#endif

PyObject *user_line(void) {
    PyFrameObject *frame;
    int at = 0;
    PyObject *code = names.known == NULL ? NULL : quick_place(&at);
    if (code != NULL) return origin_at(code, at);
    frame = names.known == NULL ? NULL : PyEval_GetFrame(); /* no library is known yet */
    Py_XINCREF(frame);
    while (frame != NULL) {
        int inside = in_library(frame);
        PyFrameObject *back;
        if (inside < 0) {
            Py_DECREF(frame);
            return NULL;
        }
        if (!inside) {
            code = (PyObject *)PyFrame_GetCode(frame);
            at = place_of(frame);
            Py_DECREF(frame);
            return origin_at(code, at);
        }
        back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    Py_RETURN_NONE;
}
