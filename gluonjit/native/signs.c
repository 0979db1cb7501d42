/* Signs: `x + y`, `x[k]` and their like on lazy tensors, in the slots of a class that they derive from, where Python
   finds them without looking up a name. What one gives is what PyTorch's method of its name gives. */

#include "fast.h"

#define EACH(X) \
    X(add, nb_add) X(sub, nb_subtract) X(mul, nb_multiply) X(truediv, nb_true_divide) X(floordiv, nb_floor_divide) \
    X(mod, nb_remainder) X(matmul, nb_matrix_multiply)
#define NUMBERED(name, slot) OF_##name,
#define NAMED(name, slot) #name,
enum { EACH(NUMBERED) SIGNS };
static const char *const named[] = {EACH(NAMED)};

static struct {
    PyObject *func, *method;      /* what PyTorch calls __torch_function__ with for `x + y`, and its method */
    PyObject *reflected, *turned; /* the same of `1 + x`, whose operands are turned round */
} signs[SIGNS];

static PyObject *sign(int which, PyObject *one, PyObject *other) {
    PyTypeObject *lazy = names.torch.lazy[0];
    PyObject *args[2] = {one, other}, *turned[2] = {other, one};
    if (lazy != NULL && signs[which].func != NULL) {
        /* For plain + lazy Python asks the right one first, as its class derives from the other's. */
        if (PyObject_TypeCheck(one, lazy) || Py_TYPE(one) == names.torch.plain[0])
            return operate(signs[which].func, signs[which].method, args, 2);
        if (PyObject_TypeCheck(other, lazy)) return operate(signs[which].reflected, signs[which].turned, turned, 2);
    }
    Py_RETURN_NOTIMPLEMENTED;
}

#define SIGN(name, slot) \
    static PyObject *name(PyObject *one, PyObject *other) { return sign(OF_##name, one, other); }
EACH(SIGN)

/* set_sign(name, func, method, reflected, turned): what a sign does from now on. */
PyObject *set_sign(PyObject *module, PyObject *args) {
    const char *name;
    PyObject *func, *method, *reflected, *turned;
    int k = 0;
    if (!PyArg_ParseTuple(args, "sOOOO:set_sign", &name, &func, &method, &reflected, &turned)) return NULL;
    while (k < SIGNS && strcmp(named[k], name) != 0) k++;
    if (k == SIGNS) return PyErr_Format(PyExc_ValueError, "there is no sign %s", name);
    Py_XSETREF(signs[k].func, Py_NewRef(func));
    Py_XSETREF(signs[k].method, Py_NewRef(method));
    Py_XSETREF(signs[k].reflected, Py_NewRef(reflected));
    Py_XSETREF(signs[k].turned, Py_NewRef(turned));
    Py_RETURN_NONE;
}

#define IN_SLOT(name, slot) .slot = name,
static PyNumberMethods numbers = {EACH(IN_SLOT)};

/* lazy[key]: rows, or by other constants a node. */
static PyObject *item(PyObject *lazy, PyObject *key) {
    PyObject *args[2] = {lazy, key}, *result = NULL;
    if (names.local != NULL && Py_TYPE(lazy) == names.torch.lazy[0]) {
        result = slice_of(&names.torch, 0, lazy, key);
        if (result == NULL && !PyErr_Occurred() && !is_overridden()) /* by what has to see the call first */
            result = through(names.getitem, args, 2, NULL);
        if (result != NULL || PyErr_Occurred()) return result;
    }
    if (names.item == NULL) return PyErr_Format(PyExc_TypeError, "%.100s has no items", Py_TYPE(lazy)->tp_name);
    return PyObject_Vectorcall(names.item, args, 2, NULL);
}

static PyMappingMethods items = {.mp_subscript = item};

PyTypeObject SignsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gluonjit._fast.Signs",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "The signs of lazy tensors.",
    .tp_as_number = &numbers,
    .tp_as_mapping = &items,
};
