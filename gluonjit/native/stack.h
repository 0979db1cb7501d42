/* The frames of this thread, of functions of Python alone; each is there for as long as its function runs, and all that
   these functions give is borrowed. In Python 3.11 to make an object of each frame takes longer than all else. */

#ifndef GLUONJIT_STACK_H
#define GLUONJIT_STACK_H

#include <Python.h>
#include <frameobject.h>
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>

typedef _PyInterpreterFrame Frame;

static inline Frame *frame_from(Frame *frame) {
    while (frame && _PyFrame_IsIncomplete(frame)) frame = frame->previous;
    return frame;
}

static inline Frame *frame_here(void) { return frame_from(PyThreadState_Get()->cframe->current_frame); }
static inline Frame *frame_before(Frame *frame) { return frame_from(frame->previous); }
static inline PyObject *globals_of(Frame *frame) { return frame->f_globals; }
static inline PyObject *code_of(Frame *frame) { return (PyObject *)frame->f_code; }
static inline int offset_in(Frame *frame) { return _PyInterpreterFrame_LASTI(frame) * (int)sizeof(_Py_CODEUNIT); }
#else
typedef PyFrameObject Frame;

/* An object that a frame or its function refers to as well. */
static inline void *borrowed(void *object) {
    Py_XDECREF((PyObject *)object);
    return object;
}

static inline Frame *frame_here(void) { return PyEval_GetFrame(); }
static inline Frame *frame_before(Frame *frame) { return borrowed(PyFrame_GetBack(frame)); }
static inline PyObject *code_of(Frame *frame) { return borrowed(PyFrame_GetCode(frame)); }
#if PY_VERSION_HEX >= 0x030B0000
static inline PyObject *globals_of(Frame *frame) { return borrowed(PyFrame_GetGlobals(frame)); }
static inline int offset_in(Frame *frame) { return PyFrame_GetLasti(frame); }
#else
static inline PyObject *globals_of(Frame *frame) { return frame->f_globals; }
static inline int offset_in(Frame *frame) {
#if PY_VERSION_HEX >= 0x030A0000
    return frame->f_lasti < 0 ? -1 : frame->f_lasti * (int)sizeof(_Py_CODEUNIT);
#else
    return frame->f_lasti;
#endif
}
#endif
#endif

#endif
