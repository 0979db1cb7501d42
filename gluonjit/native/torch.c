/* Calls of PyTorch's modules: what gluonjit.engines.torch.dynamic.call does for a cell inside of a sample. */

#include "fast.h"

/* The batch's record of a module without hooks: borrowed, or NULL. */
static PyObject *noted(PyObject *batch, PyObject *module) {
    PyObject *known = SLOT(batch, names.batch_noted), *found;
    if (!known || !PyDict_CheckExact(known)) return NULL;
    found = by_address(known, module);
    return found && PyTuple_CheckExact(found) && PyTuple_GET_SIZE(found) == 4 &&
                   PyTuple_GET_ITEM(found, 1) == Py_False
               ? found
               : NULL;
}

/* Tells whether a call can be given this as it is: no tensor in it must become lazy. */
static int is_ready(PyObject *arg) {
    PyTypeObject *type = Py_TYPE(arg);
    return type != names.torch.plain[0] && !PyTuple_Check(arg) && !PyList_Check(arg) && !PyDict_Check(arg);
}

/* Tells whether a call can be given all these as they are. */
static int are_ready(PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t k;
    for (k = 1; k < count; k++)
        if (!is_ready(args[k])) return 0;
    return 1;
}

/* The reason why a call is no node, if the class of an argument says so: borrowed, or NULL. */
static PyObject *foreign(PyObject *batch, PyObject *const *args, Py_ssize_t count) {
    PyObject *known = SLOT(batch, names.batch_foreign), *found = NULL;
    Py_ssize_t k;
    if (!known || !PyDict_CheckExact(known) || PyDict_GET_SIZE(known) == 0) return NULL;
    for (k = 1; k < count && !found && !PyErr_Occurred(); k++)
        if (Py_TYPE(args[k]) != names.torch.lazy[0]) found = PyDict_GetItemWithError(known, (PyObject *)Py_TYPE(args[k]));
    return found;
}

/* The reason why no call of a cell is a node with the present module and gradients: borrowed, or NULL. */
static PyObject *refused(PyObject *cell, PyObject *dict) {
    PyObject *known = SLOT(cell, names.torch.cell_refused), *training, *key, *found;
    int learning;
    if (!known || !PyDict_CheckExact(known) || PyDict_GET_SIZE(known) == 0) return NULL;
    training = PyDict_GetItemWithError(dict, str_training);
    learning = !training ? -1 : is_learning();
    key = learning < 0 ? NULL : PyTuple_Pack(2, learning ? Py_True : Py_False, training);
    if (!key) return NULL;
    found = PyDict_GetItemWithError(known, key);
    Py_DECREF(key);
    return found;
}

/* A call that is no node, inside of a sample: it runs, and what it calls is captured. NULL without an exception where
   Python has to see to it; `plain`: as to all but modules that run as they are. */
static PyObject *expand(PyObject *state, PyObject *batch, PyObject *cell, PyObject *why, int plain, PyObject *const *args,
                        Py_ssize_t count) {
    PyObject *known = noted(batch, args[0]), *result, *done;
    if (!known || !are_ready(args, count) || (plain && PyTuple_GET_ITEM(known, 2) != Py_True)) return NULL;
    Py_INCREF(batch);
    Py_INCREF(why);
    numbers_of(state)->inside++;
    result = PyTuple_GET_ITEM(known, 2) == Py_True
                 ? PyObject_VectorcallMethod(str_forward, args, (size_t)count, NULL)
                 : PyObject_Vectorcall(names.torch.original, args, (size_t)count, NULL);
    numbers_of(state)->inside--;
    if (result) {
        done = PyObject_CallFunctionObjArgs(names.expanded, batch, cell, args[0], why, NULL);
        if (!done) Py_CLEAR(result);
        Py_XDECREF(done);
    }
    Py_DECREF(why);
    Py_DECREF(batch);
    return result;
}

/* A call in a batch whose nodes are operators: it runs, without PyTorch's look for hooks, of which there are none. */
static PyObject *pass(PyObject *state, PyObject *batch, PyObject *const *args, Py_ssize_t count) {
    PyObject *known = noted(batch, args[0]), *result;
    if (!known || PyTuple_GET_ITEM(known, 2) != Py_True || !has_room(batch) || !are_ready(args, count)) return NULL;
    numbers_of(state)->inside++;
    result = PyObject_VectorcallMethod(str_forward, args, (size_t)count, NULL);
    numbers_of(state)->inside--;
    return result;
}

/* A call of a cell that is nothing but a look-up. */
static PyObject *look_up(PyObject *batch, PyObject *cell, PyObject *const *args, Py_ssize_t count) {
    PyObject *result;
    int learning = is_learning();
    if (learning < 0 || count != 2 || !has_room(batch)) return NULL;
    result = PyObject_CallFunctionObjArgs(names.torch.look_up, cell, batch, args[1], learning ? Py_True : Py_False, NULL);
    if (result == Py_None) Py_CLEAR(result);
    return result;
}

/* capture(cell, owner, args, kwargs) -> what a call gives that is one node of the open batch, or None where Python has
   to see to it. */
PyObject *capture_call(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyObject *state, *result;
    const Framework *of = count == 4 && Py_TYPE(args[0]) == names.mxnet.cell_type ? &names.mxnet : &names.torch;
    if (count != 4 || !PyTuple_CheckExact(args[2]) || !PyDict_CheckExact(args[3]) || !of->cell_type)
        return PyErr_Format(PyExc_TypeError, "capture() takes a cell, an owner, a tuple and a dict");
    if (of == &names.mxnet && PyDict_GET_SIZE(args[3])) Py_RETURN_NONE; /* names are an argument in Python's signature */
    state = state_here();
    if (!state) return NULL;
    result = !is_running(state) ? NULL
                                : capture(of, state, args[0], args[1], &PyTuple_GET_ITEM(args[2], 0),
                                          PyTuple_GET_SIZE(args[2]), args[3]);
    Py_DECREF(state);
    if (!result && !PyErr_Occurred()) Py_RETURN_NONE;
    return result;
}

int is_open(PyObject *state, PyObject *batch) {
    if (!is_running(state) || !batch || Py_TYPE(batch) != names.batch_type) return 0;
    return SLOT(batch, names.batch_engine) == names.engine;
}

int is_inside(PyObject *state, PyObject *batch) {
    return is_open(state, batch) && numbers_of(state)->inside > 0;
}

/* Tells whether a module is a part of a hybridized model, as far as can be seen. */
static int is_ours(PyObject *module) {
    PyObject *dict = PyObject_GenericGetDict(module, NULL);
    int found = !dict || PyDict_Contains(dict, names.key);
    Py_XDECREF(dict);
    PyErr_Clear();
    return found;
}

/* torch.nn.Module.__call__ */
PyObject *quick_module(PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *state, *batch, *dict = NULL, *cell = NULL, *result = NULL, *why;
    int spare;
    if (!names.engine) return NULL;
    state = state_here();
    if (!state) return NULL;
    if (numbers_of(state)->paused > 0 && SLOT(state, names.state_trace) == Py_None) { /* what runs eagerly costs no more than this */
        Py_DECREF(state);
        return run_module(args, (size_t)count, keywords);
    }
    if (SLOT(state, names.state_batch) == Py_None && SLOT(state, names.state_trace) == Py_None && !is_ours(args[0])) {
        Py_DECREF(state);
        return PyObject_Vectorcall(names.torch.original, args, (size_t)count, keywords);
    }
    if (keywords) {
        Py_DECREF(state);
        return NULL;
    }
    batch = Py_XNewRef(SLOT(state, names.state_batch));
    spare = is_running(state) && numbers_of(state)->spare > 0 && numbers_of(state)->inside == 0;
    if (!spare && !is_inside(state, batch)) goto done;
    dict = PyObject_GenericGetDict(args[0], NULL);
    if (!dict) {
        PyErr_Clear();
        goto done;
    }
    cell = Py_XNewRef(PyDict_GetItemWithError(dict, names.key));
    if (!cell || Py_TYPE(cell) != names.torch.cell_type) goto done;
    if (spare) {
        int learning = is_learning();
        if (learning >= 0) result = spare_call(&names.torch, state, cell, 2 * learning, args, count);
        goto done;
    }
    if (!unhooked(dict, str_hooks) || !unhooked(dict, str_pre_hooks)) goto done;
    why = foreign(batch, args, count);
    if (why)
        result = expand(state, batch, cell, why, 0, args, count);
    else if (!PyErr_Occurred() && !((BatchRoom *)batch)->fine && (why = refused(cell, dict)) != NULL)
        result = expand(state, batch, cell, why, 1, args, count);
    else if (PyErr_Occurred())
        result = NULL;
    else if (SLOT(cell, names.torch.cell_lookup) != Py_None)
        result = noted(batch, args[0]) ? look_up(batch, cell, args, count) : NULL;
    else if (((BatchRoom *)batch)->fine)
        result = pass(state, batch, args, count);
    else /* of what the batch has no records since something has last changed it finds none */
        result = capture(&names.torch, state, cell, args[0], args + 1, count - 1, NULL);
done:
    Py_XDECREF(cell);
    Py_XDECREF(dict);
    Py_XDECREF(batch);
    Py_DECREF(state);
    return result;
}
