/* The additions of the C files to gluonjit._fast, the rest of which is graph/recorder.py. */

#include "fast.h"

static PyMethodDef methods[] = {
    {"configure", (PyCFunction)(void (*)(void))configure, METH_VARARGS | METH_KEYWORDS,
     "Tell the fast path the classes and functions of the package that it works with."},
    {"look", look, METH_O, "Shape and codes of dtype and device of an array, or None where Python has to look."},
    {"address", address, METH_O, "The address of an array's numbers when they are there, -1, or None: see arrays.c."},
    {"numbers", whole_numbers, METH_O, "The whole numbers of an array of one axis, or None where Python has to look."},
    {"capture", (PyCFunction)(void (*)(void))capture_call, METH_FASTCALL,
     "What a call gives that is one node, or None where Python has to see to it."},
    {"keep", (PyCFunction)(void (*)(void))keep_call, METH_FASTCALL, "Let equal calls be nodes of this record."},
    {"keep_operator", (PyCFunction)(void (*)(void))keep_operator, METH_FASTCALL,
     "Let equal calls of an operator of MXNet's be nodes of this record."},
    {"main_door", main_door, METH_NOARGS, "What stands in the place of __torch_function__ of lazy tensors."},
    {"forget_doors", forget_doors, METH_NOARGS, "Let doors be looked up anew: their table has changed."},
    {"find_modes", find_modes, METH_VARARGS, "Read PyTorch's modes in these libraries from now on, if they are there."},
    {"modes", modes, METH_NOARGS, "Whether gradients are recorded, something is cast, and functions are overridden."},
    {"due", due, METH_NOARGS, "Whether a call that is found now is to be traced again; it is counted anew from then."},
    {"tensor", tensor, METH_O, "A lazy tensor of PyTorch's of a value."},
    {"keep_bodies", keep_bodies, METH_O, "Keep tensors of the class of lazy ones when they end, to use them again."},
    {"spare_bodies", spare_bodies, METH_NOARGS, "How many tensors lie ready to be lazy ones."},
    {"set_sign", set_sign, METH_VARARGS, "Let a sign of lazy tensors do what a method of PyTorch's does."},
    {"quick_cells", quick_cells, METH_O, "Let calls of functions that are cells try the fast path first."},
    {"quicken", quicken, METH_VARARGS, "Let calls of a function of Python try the fast path first."},
    {"quick_attributes", quick_attributes, METH_VARARGS, "Let a class of PyTorch's modules find parts sooner."},
    {"watch_calls", watch_calls, METH_VARARGS, "Let functions of Python be told to this one before their first line."},
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
    PyTypeObject *types[] = {&SignaturesType, &HookType, &SilentType, &DoorType, &SignsType, &CelledType};
    const char *named[] = {"Signatures", "Hook", "Silent", "Door", "Signs", "Celled"};
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
