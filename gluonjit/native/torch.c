/* Calls of PyTorch's modules: what gluonjit.engines.torch.dynamic.call does for a cell inside of a sample. */

#include "fast.h"

int torch_mode(PyObject *asked) {
    PyObject *found = PyObject_CallNoArgs(asked);
    int on = found == NULL ? -1 : found == Py_True;
    Py_XDECREF(found);
    return on;
}

/* Whether the batch knows the module, and that nothing in it has hooks. */
static int is_noted(PyObject *batch, PyObject *module) {
    PyObject *noted = SLOT(batch, names.batch_noted), *place, *found;
    if (noted == NULL || !PyDict_CheckExact(noted)) return 0;
    place = PyLong_FromVoidPtr(module);
    if (place == NULL) return 0;
    found = PyDict_GetItemWithError(noted, place);
    Py_DECREF(place);
    return found != NULL && PyTuple_CheckExact(found) && PyTuple_GET_ITEM(found, 1) == Py_False;
}

/* torch.nn.Module.__call__ */
PyObject *quick_module(PyObject *const *args, Py_ssize_t count) {
    PyObject *state, *batch, *paused, *dict = NULL, *cell, *result = NULL;
    if (names.engine == NULL) return NULL;
    state = state_here();
    if (state == NULL) return NULL;
    batch = SLOT(state, names.state_batch);
    paused = SLOT(state, names.state_paused);
    if (SLOT(state, names.state_trace) != Py_None || !PyLong_Check(paused) || PyLong_AsLong(paused) != 0) goto done;
    if (batch == NULL || Py_TYPE(batch) != names.batch_type || PyLong_AsLong(SLOT(state, names.state_inside)) <= 0)
        goto done;
    if (SLOT(batch, names.batch_engine) != names.engine) goto done;
    dict = PyObject_GenericGetDict(args[0], NULL);
    if (dict == NULL) {
        PyErr_Clear();
        goto done;
    }
    cell = PyDict_GetItemWithError(dict, names.key);
    if (cell == NULL || Py_TYPE(cell) != names.torch.cell_type) goto done;
    if (SLOT(cell, names.torch.cell_lookup) != Py_None || !is_noted(batch, args[0])) goto done;
    if (!unhooked(dict, str_hooks) || !unhooked(dict, str_pre_hooks)) goto done;
    Py_INCREF(cell);
    result = capture(&names.torch, state, cell, args[0], args + 1, count - 1);
    Py_DECREF(cell);
done:
    Py_XDECREF(dict);
    Py_DECREF(state);
    return result;
}
