/* The innermost place outside of the libraries: gluonjit.graph.origins.origin_of. */

#include "fast.h"
#include <frameobject.h>

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

PyObject *user_line(void) {
    PyFrameObject *frame = names.known == NULL ? NULL : PyEval_GetFrame(); /* no library is known yet */
    Py_XINCREF(frame);
    while (frame != NULL) {
        int inside = in_library(frame);
        PyFrameObject *back;
        if (inside < 0) {
            Py_DECREF(frame);
            return NULL;
        }
        if (!inside) {
            PyObject *code = (PyObject *)PyFrame_GetCode(frame), *origin;
            int at = place_of(frame);
            size_t place = (((size_t)code >> 5) ^ (size_t)(at >> 1)) % PLACES;
            Py_DECREF(frame);
            if (is_at(places[place], code, at)) {
                Py_DECREF(code);
                return Py_NewRef(places[place]);
            }
            origin = Py_BuildValue("(Ni)", code, at);
            if (origin != NULL) Py_XSETREF(places[place], Py_NewRef(origin));
            return origin;
        }
        back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    Py_RETURN_NONE;
}
