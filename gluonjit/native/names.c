/* The places of the slots of the package's own classes, and the functions that the fast path calls. */

#include "names.h"

Names names;
PyObject *str_state, *str_hooks, *str_pre_hooks, *str_backward_hooks, *str_backward_pre_hooks, *str_call_impl,
    *str_compiled_call_impl, *str_value, *str_forward, *str_training,
    *str_parameters, *str_buffers, *str_modules, *str_dim, *str_inplace, *str_out,
    *str_call, *str_mxnet, *str_torch, *str_tolist, *str_dtype, *str_is_cpu;

/* Sections of names, each given by one call of configure(). */
enum { PACKAGE, MXNET, TORCH, SECTIONS };
static const char *const sections[] = {"package", "mxnet", "torch"};

typedef struct {
    int section;
    const char *type;
    const char *slot;
    Py_ssize_t *offset;
} Where;

static Where slots[] = {
    {PACKAGE, "State", "batch", &names.state_batch},
    {PACKAGE, "State", "explicit", &names.state_explicit},
    {PACKAGE, "State", "spare_of", &names.state_spare_of},
    {PACKAGE, "State", "trace", &names.state_trace},
    {PACKAGE, "Batch", "engine", &names.batch_engine},
    {PACKAGE, "Batch", "foreign", &names.batch_foreign},
    {PACKAGE, "Batch", "graph", &names.batch_graph},
    {PACKAGE, "Batch", "noted", &names.batch_noted},
    {PACKAGE, "Batch", "parameters", &names.batch_parameters},
    {PACKAGE, "Batch", "records", &names.batch_records},
    {PACKAGE, "Batch", "signatures", &names.batch_signatures},
    {MXNET, "Cell", "chooses", &names.cell_chooses},
    {MXNET, "Cell", "is_node", &names.cell_is_node},
    {MXNET, "Cell", "keys", &names.mxnet.cell_keys},
    {MXNET, "Cell", "lookup", &names.mxnet.cell_lookup},
    {MXNET, "Cell", "paces", &names.mxnet.cell_paces},
    {MXNET, "NDArrayBase", "handle", &names.array_handle},
    {MXNET, "LazyArray", "_v", &names.mxnet.lazy_v[0]},
    {MXNET, "LazyArray", "_c", &names.mxnet.lazy_c[0]},
    {MXNET, "LazyArray", "_b", &names.mxnet.lazy_b[0]},
    {MXNET, "LazyArray", "_k", &names.mxnet.lazy_k[0]},
    {MXNET, "LazyNumpy", "_v", &names.mxnet.lazy_v[1]},
    {MXNET, "LazyNumpy", "_c", &names.mxnet.lazy_c[1]},
    {MXNET, "LazyNumpy", "_b", &names.mxnet.lazy_b[1]},
    {MXNET, "LazyNumpy", "_k", &names.mxnet.lazy_k[1]},
    {TORCH, "Cell", "keys", &names.torch.cell_keys},
    {TORCH, "Cell", "laid", &names.cell_laid},
    {TORCH, "Cell", "lookup", &names.torch.cell_lookup},
    {TORCH, "Cell", "paces", &names.torch.cell_paces},
    {TORCH, "Cell", "refused", &names.torch.cell_refused},
    {TORCH, "LazyTensor", "_v", &names.torch.lazy_v[0]},
    {TORCH, "LazyTensor", "_c", &names.torch.lazy_c[0]},
    {TORCH, "LazyTensor", "_b", &names.torch.lazy_b[0]},
    {TORCH, "LazyTensor", "_k", &names.torch.lazy_k[0]},
    {TORCH, "LazyTensor", "_n", &names.torch.lazy_n},
    {0, NULL, NULL, NULL},
};

static struct {
    int section;
    const char *name;
    PyTypeObject **type;
} types[] = {
    {PACKAGE, "State", &names.state_type},
    {PACKAGE, "Batch", &names.batch_type},
    {PACKAGE, "Graph", &names.graph_type},
    {PACKAGE, "Spec", &names.spec_type},
    {PACKAGE, "Repeated", &names.repeated_type},
    {MXNET, "Cell", &names.mxnet.cell_type},
    {MXNET, "LazyArray", &names.mxnet.lazy[0]},
    {MXNET, "LazyNumpy", &names.mxnet.lazy[1]},
    {MXNET, "NDArray", &names.mxnet.plain[0]},
    {MXNET, "ndarray", &names.mxnet.plain[1]},
    {MXNET, "HybridBlock", &names.hybrid_type},
    {MXNET, "Embedding", &names.embedding_type},
    {MXNET, "Block", &names.mxnet.block_type},
    {TORCH, "Cell", &names.torch.cell_type},
    {TORCH, "LazyTensor", &names.torch.lazy[0]},
    {TORCH, "Tensor", &names.torch.plain[0]},
    {TORCH, "Parameter", &names.parameter_type},
    {TORCH, "dtype", &names.dtype_type},
    {TORCH, "device", &names.device_type},
    {TORCH, "Module", &names.torch.block_type},
    {0, NULL, NULL},
};

static struct {
    int section;
    const char *name;
    PyObject **object;
} objects[] = {
    {PACKAGE, "local", &names.local},
    {PACKAGE, "note", &names.note},
    {PACKAGE, "clock", &names.clock},
    {MXNET, "original", &names.mxnet.original},
    {MXNET, "key", &names.key},
    {MXNET, "value_of", &names.mxnet.value_of},
    {MXNET, "empty", &names.mxnet.empty},
    {MXNET, "rebuild", &names.mxnet.rebuild},
    {MXNET, "again", &names.mxnet.again},
    {MXNET, "automatic", &names.automatic},
    {MXNET, "after", &names.after},
    {MXNET, "look_up", &names.mxnet.look_up},
    {TORCH, "key", &names.key},
    {TORCH, "value_of", &names.torch.value_of},
    {TORCH, "empty", &names.torch.empty},
    {TORCH, "rebuild", &names.torch.rebuild},
    {TORCH, "engine", &names.engine},
    {TORCH, "learning", &names.learning},
    {TORCH, "autocast", &names.autocast},
    {TORCH, "overridden", &names.overridden},
    {TORCH, "doors", &names.doors},
    {TORCH, "operate", &names.operate},
    {TORCH, "error_of", &names.error_of},
    {TORCH, "make", &names.make},
    {TORCH, "look_up", &names.torch.look_up},
    {TORCH, "original", &names.torch.original},
    {TORCH, "int64", &names.int64},
    {TORCH, "call_impl", &names.call_impl},
    {TORCH, "global_hooks", &names.global_hooks},
    {TORCH, "tracing", &names.tracing},
    {TORCH, "expanded", &names.expanded},
    {TORCH, "again", &names.torch.again},
    {TORCH, "steps_of", &names.steps_of},
    {TORCH, "getitem", &names.getitem},
    {TORCH, "item", &names.item},
    {TORCH, "laid_out", &names.laid_out},
    {TORCH, "lay", &names.lay},
    {TORCH, "leaf_laid", &names.leaf_laid},
    {0, NULL, NULL},
};

static struct {
    const char *name;
    void **address;
} addresses[] = {
    {"get_shape", &names.get_shape},
    {"get_dtype", &names.get_dtype},
    {"get_context", &names.get_context},
    {"copy_out", &names.copy_out},
    {"wait", &names.wait},
    {"get_data", &names.get_data},
    {NULL, NULL},
};

int names_init(void) {
    str_state = PyUnicode_InternFromString("state");
    str_hooks = PyUnicode_InternFromString("_forward_hooks");
    str_pre_hooks = PyUnicode_InternFromString("_forward_pre_hooks");
    str_backward_hooks = PyUnicode_InternFromString("_backward_hooks");
    str_backward_pre_hooks = PyUnicode_InternFromString("_backward_pre_hooks");
    str_call_impl = PyUnicode_InternFromString("_call_impl");
    str_compiled_call_impl = PyUnicode_InternFromString("_compiled_call_impl");
    str_value = PyUnicode_InternFromString("value");
    str_forward = PyUnicode_InternFromString("forward");
    str_training = PyUnicode_InternFromString("training");
    str_parameters = PyUnicode_InternFromString("_parameters");
    str_buffers = PyUnicode_InternFromString("_buffers");
    str_modules = PyUnicode_InternFromString("_modules");
    str_dim = PyUnicode_InternFromString("dim");
    str_inplace = PyUnicode_InternFromString("inplace");
    str_out = PyUnicode_InternFromString("out");
    str_call = PyUnicode_InternFromString("__call__");
    str_mxnet = PyUnicode_InternFromString("mxnet");
    str_torch = PyUnicode_InternFromString("torch");
    str_tolist = PyUnicode_InternFromString("tolist");
    str_dtype = PyUnicode_InternFromString("dtype");
    str_is_cpu = PyUnicode_InternFromString("is_cpu");
    if (!str_call || !str_mxnet || !str_torch || !str_tolist || !str_dtype || !str_is_cpu) return -1;
    if (!str_backward_hooks || !str_backward_pre_hooks || !str_call_impl || !str_compiled_call_impl) return -1;
    if (!str_dim || !str_inplace || !str_out) return -1;
    if (!str_value || !str_forward || !str_training) return -1;
    if (!str_parameters || !str_buffers || !str_modules) return -1;
    return str_state && str_hooks && str_pre_hooks ? 0 : -1;
}

PyObject *no_such_slot(PyObject *content, PyTypeObject *type) {
    return PyErr_Format(PyExc_TypeError, "a slot of an open batch holds %s, not %s; nobody but gluonjit writes to it",
                        content == NULL ? "nothing" : Py_TYPE(content)->tp_name, type->tp_name);
}

/* The thread that asked last, and a weak reference to its state, which ends with it: threading.local is slow. */
static struct {
    uint64_t thread;
    PyObject *local, *state;
} latest;

PyObject *state_here(void) {
    uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
    PyObject *state, *old;
    if (latest.state != NULL && latest.thread == thread && latest.local == names.local) {
        state = PyWeakref_GET_OBJECT(latest.state);
        if (state != Py_None) return Py_NewRef(state);
    }
    state = PyObject_GetAttr(names.local, str_state);
    if (state == NULL) return NULL;
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
    if (latest.state == NULL) Py_CLEAR(state);
    return state;
}

PyObject *spare_call(const Framework *of, PyObject *state, PyObject *cell, int mode, PyObject *const *args, Py_ssize_t count) {
    PyObject *scopes, *result, *paces = SLOT(cell, of->cell_paces);
    StateNumbers *numbers = numbers_of(state);
    if (numbers->spare <= 0 || paces == NULL || paces != SLOT(state, names.state_spare_of)) return NULL;
    if (numbers->spare_mode != mode) return NULL;
    scopes = list_at(state, names.state_explicit);
    if (scopes == NULL || PyList_GET_SIZE(scopes) > 0) return NULL;
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
    if (found == NULL) return -1;
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
    if (found == NULL && !PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "configure() has no keyword %s", name);
    return found;
}

/* Checks that all that a section needs is there and of its kind, before any of it counts: 0, or -1 and an exception. */
static int check_section(int section, PyObject *kwargs) {
    PyObject *found;
    int k;
    for (k = 0; slots[k].type != NULL; k++) {
        if (slots[k].section != section) continue;
        found = given(kwargs, slots[k].type);
        if (found == NULL || offset_of(found, slots[k].slot) < 0) return -1;
    }
    for (k = 0; types[k].name != NULL; k++) {
        if (types[k].section != section) continue;
        found = given(kwargs, types[k].name);
        if (found == NULL) return -1;
        if (!PyType_Check(found)) {
            PyErr_Format(PyExc_TypeError, "%s is no class", types[k].name);
            return -1;
        }
    }
    if (section == PACKAGE && !(PyType_IsSubtype((PyTypeObject *)given(kwargs, "Graph"), core.graph_type) &&
                                given(kwargs, "Spec") == core.spec_type &&
                                PyType_IsSubtype((PyTypeObject *)given(kwargs, "Batch"), core.batch_type) &&
                                PyType_IsSubtype((PyTypeObject *)given(kwargs, "State"), core.state_type))) {
        PyErr_SetString(PyExc_TypeError, "a graph or a spec has no rows, a batch no room, or a state no numbers");
        return -1;
    }
    for (k = 0; section == MXNET && addresses[k].name != NULL; k++) {
        found = given(kwargs, addresses[k].name);
        if (found == NULL) return -1;
        if (PyLong_AsVoidPtr(found) == NULL) {
            if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "%s is no address", addresses[k].name);
            return -1;
        }
    }
    for (k = 0; objects[k].name != NULL; k++)
        if (objects[k].section == section && given(kwargs, objects[k].name) == NULL) return -1;
    return 0;
}

/* configure(section, **named): the classes and functions of a section of the tables above, by name. */
PyObject *configure(PyObject *module, PyObject *args, PyObject *kwargs) {
    const char *asked;
    int section = 0, k;
    if (!PyArg_ParseTuple(args, "s:configure", &asked)) return NULL;
    while (section < SECTIONS && strcmp(sections[section], asked) != 0) section++;
    if (section == SECTIONS || kwargs == NULL)
        return PyErr_Format(PyExc_TypeError, "configure() has no section %s, or was given nothing for it", asked);
    if (check_section(section, kwargs) < 0) return NULL;
    for (k = 0; slots[k].type != NULL; k++)
        if (slots[k].section == section) *slots[k].offset = offset_of(given(kwargs, slots[k].type), slots[k].slot);
    for (k = 0; types[k].name != NULL; k++)
        if (types[k].section == section)
            Py_XSETREF(*types[k].type, (PyTypeObject *)Py_NewRef(given(kwargs, types[k].name)));
    for (k = 0; section == MXNET && addresses[k].name != NULL; k++)
        *addresses[k].address = PyLong_AsVoidPtr(given(kwargs, addresses[k].name));
    for (k = 0; objects[k].name != NULL; k++)
        if (objects[k].section == section)
            Py_XSETREF(*objects[k].object, Py_NewRef(given(kwargs, objects[k].name)));
    Py_RETURN_NONE;
}
