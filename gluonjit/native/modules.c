/* Modules of PyTorch's outside of captures: calls of those without hooks, and what they have by name. Neither is
   different from PyTorch's own, which takes most of a microsecond for a call, and a third of one for a part. */

#include "fast.h"

static int is_dict(PyObject *object) {
    return object && (PyDict_CheckExact(object) || Py_IS_TYPE(object, &PyODict_Type));
}

/* torch.nn.Module.__getattr__, where the name is that of a parameter, a buffer or a part. */
PyObject *attribute(PyObject *const *args, Py_ssize_t count) {
    PyObject *const where[] = {str_parameters, str_buffers, str_modules};
    PyObject *dict, *found = NULL;
    int k;
    if (count != 2 || !PyUnicode_CheckExact(args[1])) return NULL;
    dict = PyObject_GenericGetDict(args[0], NULL);
    if (!dict) {
        PyErr_Clear();
        return NULL;
    }
    for (k = 0; k < 3 && !found && !PyErr_Occurred(); k++) {
        PyObject *named = PyDict_GetItemWithError(dict, where[k]);
        if (!is_dict(named)) break;
        found = PyDict_GetItemWithError(named, args[1]);
    }
    Py_XINCREF(found);
    Py_DECREF(dict);
    return found;
}

/* Tells whether there are hooks of all modules, or PyTorch traces a program. */
static int is_special(void) {
    PyObject *found;
    Py_ssize_t k;
    int traced;
    if (!PyTuple_CheckExact(names.global_hooks)) return 1;
    for (k = 0; k < PyTuple_GET_SIZE(names.global_hooks); k++) {
        PyObject *hooks = PyTuple_GET_ITEM(names.global_hooks, k);
        if (!PyDict_Check(hooks) || PyDict_GET_SIZE(hooks) > 0) return 1;
    }
    found = PyObject_CallNoArgs(names.tracing);
    traced = found != Py_None;
    Py_XDECREF(found);
    PyErr_Clear();
    return traced;
}

/* Tells whether a call of a module is nothing but one of its forward. */
static int is_forward(PyObject *module) {
    PyObject *const hooks[] = {str_hooks, str_pre_hooks, str_backward_hooks, str_backward_pre_hooks};
    PyTypeObject *type = Py_TYPE(module);
    PyObject *dict = PyObject_GenericGetDict(module, NULL);
    int plain = dict && _PyType_Lookup(type, str_call_impl) == names.call_impl &&
                _PyType_Lookup(type, str_compiled_call_impl) == Py_None;
    size_t k;
    for (k = 0; plain && k < sizeof(hooks) / sizeof(hooks[0]); k++) plain = unhooked(dict, hooks[k]);
    if (plain) {
        PyObject *compiled = PyDict_GetItemWithError(dict, str_compiled_call_impl);
        plain = (!compiled || compiled == Py_None) && !PyErr_Occurred();
    }
    Py_XDECREF(dict);
    PyErr_Clear();
    return plain && !is_special();
}

PyObject *run_module(PyObject *const *args, size_t flags, PyObject *keywords) {
    if (PyObject_TypeCheck(args[0], names.torch.block_type) && is_forward(args[0]))
        return PyObject_VectorcallMethod(str_forward, args, PyVectorcall_NARGS(flags), keywords);
    return PyObject_Vectorcall(names.torch.original, args, PyVectorcall_NARGS(flags), keywords);
}

#if PY_VERSION_HEX < 0x030C0000
/* What a class looks up: borrowed, or NULL. */
static PyObject *of_class(PyTypeObject *type, const char *name) {
    PyObject *key = PyUnicode_InternFromString(name), *found = !key ? NULL : _PyType_Lookup(type, key);
    Py_XDECREF(key);
    return found;
}

/* An attribute of a module of PyTorch's, as its class finds it: parts, parameters and buffers are no attributes, and
   Python words an AttributeError for each before it asks Module.__getattr__ for them. From 3.12 on it does not. */
static PyObject *module_attribute(PyObject *module, PyObject *name) {
    PyObject *args[2] = {module, name}, *found = NULL, *dict, *otherwise, *type, *error, *trace;
    if (PyUnicode_CheckExact(name) && !_PyType_Lookup(Py_TYPE(module), name)) {
        dict = PyObject_GenericGetDict(module, NULL);
        if (!dict) return NULL;
        found = Py_XNewRef(PyDict_GetItemWithError(dict, name));
        Py_DECREF(dict);
        if (!found && !PyErr_Occurred()) found = attribute(args, 2);
        if (found || PyErr_Occurred()) return found;
    }
    found = PyObject_GenericGetAttr(module, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Fetch(&type, &error, &trace); /* with an error set, Python finds nothing in a class, and drops it */
    otherwise = Py_XNewRef(of_class(Py_TYPE(module), "__getattr__"));
    PyErr_Restore(type, error, trace);
    if (!otherwise) return NULL;
    PyErr_Clear();
    found = PyObject_Vectorcall(otherwise, args, 2, NULL);
    Py_DECREF(otherwise);
    return found;
}
#endif

/* quick_attributes(class, module): let a class derived from torch.nn.Module, `module`, find what is its modules' sooner,
   unless it has a way of its own. Whoever changes that later gives the class Python's again. */
PyObject *quick_attributes(PyObject *module, PyObject *args) {
    PyTypeObject *type, *base;
    if (!PyArg_ParseTuple(args, "O!O!:quick_attributes", &PyType_Type, &type, &PyType_Type, &base)) return NULL;
#if PY_VERSION_HEX < 0x030C0000
    if (type != base && PyType_IsSubtype(type, base) && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) &&
        type->tp_getattro == base->tp_getattro && of_class(type, "__getattr__") == of_class(base, "__getattr__") &&
        of_class(type, "__getattribute__") == of_class(&PyBaseObject_Type, "__getattribute__"))
        type->tp_getattro = module_attribute;
    if (PyErr_Occurred()) return NULL;
#endif
    Py_RETURN_NONE;
}
