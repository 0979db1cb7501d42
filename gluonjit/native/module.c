/* The additions of the C files to gluonjit._fast, the rest of which is graph/recorder.py. */

#include "fast.h"

static PyMethodDef methods[] = {
    {"configure", (PyCFunction)(void (*)(void))configure, METH_VARARGS | METH_KEYWORDS,
     "configure(section, **named): the classes and functions of a section, \"package\", \"mxnet\" or \"torch\"."},
    {"look", look, METH_O,
     "Shape and codes of dtype, type of device and its number of an array, or None where Python has to look."},
    {"address", address, METH_O,
     "The address of an array's numbers when it is computed; None where Python has to ask, -1 if MXNet has an error."},
    {"numbers", whole_numbers, METH_O,
     "The whole numbers of an array of one axis, -1 where out of range; None where Python has to look."},
    {"capture", (PyCFunction)(void (*)(void))capture_call, METH_FASTCALL,
     "capture(cell, owner, args, kwargs): captures a call as a node, or returns None where Python has to see to it."},
    {"keep", (PyCFunction)(void (*)(void))keep_call, METH_FASTCALL,
     "keep(cell, owner, args, kwargs, key, record): lets equal calls be nodes, or give their argument at ~record."},
    {"keep_operator", (PyCFunction)(void (*)(void))keep_operator, METH_FASTCALL,
     "keep_operator(handle, arrays, keys, vals, record): lets equal calls of an operator of MXNet be nodes of a record."},
    {"main_door", main_door, METH_NOARGS, "What stands in the place of __torch_function__ of lazy tensors."},
    {"forget_doors", forget_doors, METH_NOARGS, "Let doors be looked up anew: their table has changed."},
    {"find_modes", find_modes, METH_VARARGS,
     "find_modes(base, tensors, casting): reads modes in these libraries; casting: keys of autocast, as bits."},
    {"modes", modes, METH_NOARGS, "Whether gradients are recorded, something is cast, and functions are overridden."},
    {"due", due, METH_NOARGS, "Whether a call that is found now is to be traced again; it is counted anew from then."},
    {"tensor", tensor, METH_O, "A lazy tensor of PyTorch's of a value."},
    {"keep_bodies", keep_bodies, METH_O, "Keep tensors of the class of lazy ones when they end, to use them again."},
    {"spare_bodies", spare_bodies, METH_NOARGS, "How many tensors lie ready to be lazy ones."},
    {"quick_cells", quick_cells, METH_O,
     "Lets calls of what is of this class, which derives from Celled, try the fast path first."},
    {"quicken", quicken, METH_VARARGS,
     "quicken(way, function): lets \"call\" or \"attribute\" of modules try the fast path first."},
    {"quick_attributes", quick_attributes, METH_VARARGS,
     "quick_attributes(kind, module): lets a class find parts without an AttributeError before each."},
    {"watch_calls", watch_calls, METH_VARARGS,
     "watch_calls(notice, known): as sys.setprofile for calls of functions of Python, until that is used."},
    {NULL, NULL, 0, NULL},
};

Core core;

/* Tells whether C and Cython lay a type out alike. */
static int is_alike(PyObject *type, size_t size) {
    if (PyType_Check(type) && (size_t)((PyTypeObject *)type)->tp_basicsize >= size) return 1;
    PyErr_Format(PyExc_SystemError, "fast.h does not have the fields of %R", type);
    return 0;
}

int fill_module(PyObject *module, PyObject *value, PyObject *record, PyObject *graph, PyObject *batch, PyObject *state) {
    PyTypeObject *types[] = {&SignaturesType, &HookType, &SilentType, &ItemsType, &CelledType};
    const char *named[] = {"Signatures", "Hook", "Silent", "Items", "Celled"};
    size_t k;
    if (!is_alike(value, sizeof(Value)) || !is_alike(record, sizeof(Record)) || !is_alike(graph, sizeof(GraphRows)) ||
        !is_alike(batch, sizeof(BatchRoom)) ||
        !is_alike(state, sizeof(StateNumbers)) || names_init() < 0)
        return -1;
    core.value_type = (PyTypeObject *)Py_NewRef(value);
    core.record_type = (PyTypeObject *)Py_NewRef(record);
    core.graph_type = (PyTypeObject *)Py_NewRef(graph);
    core.batch_type = (PyTypeObject *)Py_NewRef(batch);
    core.state_type = (PyTypeObject *)Py_NewRef(state);
    for (k = 0; k < sizeof(types) / sizeof(types[0]); k++) {
        Py_INCREF(types[k]);
        if (PyType_Ready(types[k]) < 0 || PyModule_AddObject(module, named[k], (PyObject *)types[k]) < 0) return -1;
    }
    return PyModule_AddFunctions(module, methods);
}
