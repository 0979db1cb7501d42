/* The places of the slots of the package's own classes, and the functions that the fast path calls. */

#include "names.h"

Names names;
#define STRING_DEFINED(name, text) PyObject *str_##name;
STRINGS(STRING_DEFINED)

/* Sections of names, each given by one call of configure(). */
enum { PACKAGE, MXNET, TORCH, SECTIONS };
static const char *const sections[] = {"package", "mxnet", "torch"};

typedef struct {
    int section;
    const char *type;
    const char *slot;
    Py_ssize_t *offset;
} Where;

#define SLOT_OF(section, type, slot, field) {section, #type, #slot, &names.field},
static Where slots[] = {
    SLOT_OF(PACKAGE, State, batch, state_batch)
    SLOT_OF(PACKAGE, State, explicit, state_explicit)
    SLOT_OF(PACKAGE, State, spare_of, state_spare_of)
    SLOT_OF(PACKAGE, State, trace, state_trace)
    SLOT_OF(PACKAGE, Batch, engine, batch_engine)
    SLOT_OF(PACKAGE, Batch, foreign, batch_foreign)
    SLOT_OF(PACKAGE, Batch, graph, batch_graph)
    SLOT_OF(PACKAGE, Batch, noted, batch_noted)
    SLOT_OF(PACKAGE, Batch, parameters, batch_parameters)
    SLOT_OF(PACKAGE, Batch, records, batch_records)
    SLOT_OF(PACKAGE, Batch, signatures, batch_signatures)
    SLOT_OF(MXNET, Cell, chooses, cell_chooses)
    SLOT_OF(MXNET, Cell, is_node, cell_is_node)
    SLOT_OF(MXNET, Cell, keys, mxnet.cell_keys)
    SLOT_OF(MXNET, Cell, lookup, mxnet.cell_lookup)
    SLOT_OF(MXNET, Cell, paces, mxnet.cell_paces)
    SLOT_OF(MXNET, NDArrayBase, handle, array_handle)
    SLOT_OF(MXNET, LazyArray, _v, mxnet.lazy_v[0])
    SLOT_OF(MXNET, LazyArray, _c, mxnet.lazy_c[0])
    SLOT_OF(MXNET, LazyArray, _b, mxnet.lazy_b[0])
    SLOT_OF(MXNET, LazyArray, _k, mxnet.lazy_k[0])
    SLOT_OF(MXNET, LazyNumpy, _v, mxnet.lazy_v[1])
    SLOT_OF(MXNET, LazyNumpy, _c, mxnet.lazy_c[1])
    SLOT_OF(MXNET, LazyNumpy, _b, mxnet.lazy_b[1])
    SLOT_OF(MXNET, LazyNumpy, _k, mxnet.lazy_k[1])
    SLOT_OF(TORCH, Cell, keys, torch.cell_keys)
    SLOT_OF(TORCH, Cell, laid, cell_laid)
    SLOT_OF(TORCH, Cell, lookup, torch.cell_lookup)
    SLOT_OF(TORCH, Cell, paces, torch.cell_paces)
    SLOT_OF(TORCH, Cell, refused, torch.cell_refused)
    SLOT_OF(TORCH, LazyTensor, _v, torch.lazy_v[0])
    SLOT_OF(TORCH, LazyTensor, _c, torch.lazy_c[0])
    SLOT_OF(TORCH, LazyTensor, _b, torch.lazy_b[0])
    SLOT_OF(TORCH, LazyTensor, _k, torch.lazy_k[0])
    SLOT_OF(TORCH, LazyTensor, _n, torch.lazy_n)
    {0, NULL, NULL, NULL},
};

static struct {
    int section;
    const char *name;
    PyTypeObject **type;
} types[] = {
#define TYPE_OF(section, type, field) {section, #type, &names.field},
    TYPE_OF(PACKAGE, State, state_type)
    TYPE_OF(PACKAGE, Batch, batch_type)
    TYPE_OF(PACKAGE, Graph, graph_type)
    TYPE_OF(PACKAGE, Spec, spec_type)
    TYPE_OF(PACKAGE, Repeated, repeated_type)
    TYPE_OF(MXNET, Cell, mxnet.cell_type)
    TYPE_OF(MXNET, LazyArray, mxnet.lazy[0])
    TYPE_OF(MXNET, LazyNumpy, mxnet.lazy[1])
    TYPE_OF(MXNET, NDArray, mxnet.plain[0])
    TYPE_OF(MXNET, ndarray, mxnet.plain[1])
    TYPE_OF(MXNET, HybridBlock, hybrid_type)
    TYPE_OF(MXNET, Embedding, embedding_type)
    TYPE_OF(MXNET, Block, mxnet.block_type)
    TYPE_OF(TORCH, Cell, torch.cell_type)
    TYPE_OF(TORCH, LazyTensor, torch.lazy[0])
    TYPE_OF(TORCH, Tensor, torch.plain[0])
    TYPE_OF(TORCH, Parameter, parameter_type)
    TYPE_OF(TORCH, dtype, dtype_type)
    TYPE_OF(TORCH, device, device_type)
    TYPE_OF(TORCH, Module, torch.block_type)
    {0, NULL, NULL},
};

static struct {
    int section;
    const char *name;
    PyObject **object;
} objects[] = {
#define OF_PACKAGE(name) {PACKAGE, #name, &names.name},
#define OF_MXNET(name) {MXNET, #name, &names.name},
#define OF_TORCH(name) {TORCH, #name, &names.name},
#define OF_EACH(name) {MXNET, #name, &names.mxnet.name}, {TORCH, #name, &names.torch.name},
    OF_MXNET(key) OF_TORCH(key)
    OBJECTS_OF_EACH(OF_EACH)
    OBJECTS_OF_PACKAGE(OF_PACKAGE)
    OBJECTS_OF_MXNET(OF_MXNET)
    OBJECTS_OF_TORCH(OF_TORCH)
    {0, NULL, NULL},
};

static struct {
    const char *name;
    void **address;
} addresses[] = {
#define ADDRESS_OF(name) {#name, &names.name},
    ADDRESSES_OF_MXNET(ADDRESS_OF)
    {NULL, NULL},
};

int names_init(void) {
#define STRING_MADE(name, text) \
    if ((str_##name = PyUnicode_InternFromString(text)) == NULL) return -1;
    STRINGS(STRING_MADE)
    return 0;
}

PyObject *no_such_slot(PyObject *content, PyTypeObject *type) {
    return PyErr_Format(PyExc_TypeError, "a slot of an open batch holds %s, not %s; nobody but gluonjit writes to it",
                        !content ? "nothing" : Py_TYPE(content)->tp_name, type->tp_name);
}

/* The thread that asked last, and a weak reference to its state, which ends with it: threading.local is slow. */
static struct {
    uint64_t thread;
    PyObject *local, *state;
} latest;

PyObject *state_here(void) {
    uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
    PyObject *state, *old;
    if (latest.state && latest.thread == thread && latest.local == names.local) {
        state = PyWeakref_GET_OBJECT(latest.state);
        if (state != Py_None) return Py_NewRef(state);
    }
    state = PyObject_GetAttr(names.local, str_state);
    if (!state) return NULL;
    if (Py_TYPE(state) != names.state_type) {
        no_such_slot(state, names.state_type);
        Py_DECREF(state);
        return NULL;
    }
    old = latest.state;
    latest.thread = thread;
    latest.local = names.local;
    latest.state = PyWeakref_NewRef(state, NULL);
    Py_XDECREF(old);
    if (!latest.state) Py_CLEAR(state);
    return state;
}

PyObject *spare_call(const Framework *of, PyObject *state, PyObject *cell, int mode, PyObject *const *args, Py_ssize_t count) {
    PyObject *scopes, *result, *paces = SLOT(cell, of->cell_paces);
    StateNumbers *numbers = numbers_of(state);
    if (numbers->spare <= 0 || !paces || paces != SLOT(state, names.state_spare_of)) return NULL;
    if (numbers->spare_mode != mode) return NULL;
    scopes = list_at(state, names.state_explicit);
    if (!scopes || PyList_GET_SIZE(scopes) > 0) return NULL;
    numbers->spare--;
    numbers->paused++;
    numbers->eagerly++;
    result = of == &names.torch ? run_module(args, (size_t)count, NULL)
                                : PyObject_Vectorcall(of->original, args, (size_t)count, NULL);
    numbers->eagerly--;
    numbers->paused--;
    return result;
}

/* The offset of a slot, which a class has as a member descriptor; -1 where it has none. */
static Py_ssize_t offset_of(PyObject *type, const char *slot) {
    Py_ssize_t offset = -1;
    PyObject *found = PyObject_GetAttrString(type, slot);
    if (!found) return -1;
    if (Py_IS_TYPE(found, &PyMemberDescr_Type) && ((PyMemberDescrObject *)found)->d_member->type == T_OBJECT_EX)
        offset = ((PyMemberDescrObject *)found)->d_member->offset;
    else
        PyErr_Format(PyExc_TypeError, "%s is no slot of %R", slot, type);
    Py_DECREF(found);
    return offset;
}

/* The object that configure() was given by a name: borrowed, or NULL and an exception. */
static PyObject *given(PyObject *kwargs, const char *name) {
    PyObject *found = PyDict_GetItemString(kwargs, name);
    if (!found && !PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "configure() has no keyword %s", name);
    return found;
}

/* Looks at all that a section needs, and with `put` lets it count: 0, or -1 and an exception where something is missing or
   of another kind. */
static int fill_section(int section, PyObject *kwargs, int put) {
    PyObject *found;
    int k;
    for (k = 0; slots[k].type; k++) {
        Py_ssize_t offset;
        if (slots[k].section != section) continue;
        found = given(kwargs, slots[k].type);
        offset = !found ? -1 : offset_of(found, slots[k].slot);
        if (offset < 0) return -1;
        if (put) *slots[k].offset = offset;
    }
    for (k = 0; types[k].name; k++) {
        if (types[k].section != section) continue;
        found = given(kwargs, types[k].name);
        if (!found) return -1;
        if (!PyType_Check(found)) {
            PyErr_Format(PyExc_TypeError, "%s is no class", types[k].name);
            return -1;
        }
        if (put) Py_XSETREF(*types[k].type, (PyTypeObject *)Py_NewRef(found));
    }
    if (section == PACKAGE && !(PyType_IsSubtype((PyTypeObject *)given(kwargs, "Graph"), core.graph_type) &&
                                given(kwargs, "Spec") == core.spec_type &&
                                PyType_IsSubtype((PyTypeObject *)given(kwargs, "Batch"), core.batch_type) &&
                                PyType_IsSubtype((PyTypeObject *)given(kwargs, "State"), core.state_type))) {
        PyErr_SetString(PyExc_TypeError, "a graph or a spec has no rows, a batch no room, or a state no numbers");
        return -1;
    }
    for (k = 0; section == MXNET && addresses[k].name; k++) {
        void *address;
        found = given(kwargs, addresses[k].name);
        if (!found) return -1;
        address = PyLong_AsVoidPtr(found);
        if (!address) {
            if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "%s is no address", addresses[k].name);
            return -1;
        }
        if (put) *addresses[k].address = address;
    }
    for (k = 0; objects[k].name; k++) {
        if (objects[k].section != section) continue;
        found = given(kwargs, objects[k].name);
        if (!found) return -1;
        if (put) Py_XSETREF(*objects[k].object, Py_NewRef(found));
    }
    return 0;
}

/* configure(section, **named): the classes and functions of a section of the tables above, by name. */
PyObject *configure(PyObject *module, PyObject *args, PyObject *kwargs) {
    const char *asked;
    int section = 0;
    if (!PyArg_ParseTuple(args, "s:configure", &asked)) return NULL;
    while (section < SECTIONS && strcmp(sections[section], asked) != 0) section++;
    if (section == SECTIONS || !kwargs)
        return PyErr_Format(PyExc_TypeError, "configure() has no section %s, or was given nothing for it", asked);
    if (fill_section(section, kwargs, 0) < 0 || fill_section(section, kwargs, 1) < 0) return NULL; /* all of it counts, or nothing */
    Py_RETURN_NONE;
}
