/* gluonjit._fast: the usual case of a capture in C. Without it everything runs in Python, with equal results. */

#include "fast.h"

static PyMethodDef methods[] = {
    {"configure", (PyCFunction)(void (*)(void))configure, METH_VARARGS | METH_KEYWORDS,
     "Tell the fast path the classes and functions of the package that it works with."},
    {"look", look, METH_O, "Shape and codes of dtype and device of an array, or None where Python has to look."},
    {"entry", entry, METH_O, "What of a record and its kind a capture needs."},
    {"capture", (PyCFunction)(void (*)(void))capture_call, METH_FASTCALL,
     "What a call of PyTorch's gives that is one node, or None where Python has to see to it."},
    {"main_door", main_door, METH_NOARGS, "What stands in the place of __torch_function__ of lazy tensors."},
    {"find_modes", find_modes, METH_VARARGS, "Read PyTorch's modes in these libraries from now on, if they are there."},
    {"modes", modes, METH_NOARGS, "Whether gradients are recorded, something is cast, and functions are overridden."},
    {"due", due, METH_NOARGS, "Whether a call that is found now is to be traced again; it is counted anew from then."},
    {"tensor", tensor, METH_O, "A lazy tensor of PyTorch's of a value."},
    {"spare_bodies", spare_bodies, METH_NOARGS, "How many tensors lie ready to be lazy ones."},
    {"quicken", quicken, METH_VARARGS, "Let calls of a function of Python try the fast path first."},
    {"replay", replay, METH_VARARGS, "Capture the nodes of a recording in the open batch; their values."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "gluonjit._fast",
    .m_doc = "The usual case of a capture, in C.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__fast(void) {
    PyTypeObject *types[] = {&ValueType, &SignaturesType, &HookType, &SilentType, &GuardsType, &DoorType};
    const char *named[] = {"Value", "Signatures", "Hook", "Silent", "Guards", "Door"};
    PyObject *module;
    size_t k;
    if (names_init() < 0) return NULL;
    module = PyModule_Create(&definition);
    for (k = 0; module != NULL && k < sizeof(types) / sizeof(types[0]); k++) {
        Py_INCREF(types[k]);
        if (PyType_Ready(types[k]) < 0 || PyModule_AddObject(module, named[k], (PyObject *)types[k]) < 0)
            Py_CLEAR(module);
    }
    return module;
}
