/* Where the slots of the package's own classes lie, and what the fast path calls. */

#include "fast.h"

Names names;
PyObject *str_state, *str_hooks, *str_pre_hooks, *str_rows_mode, *str_name, *str_value, *str_index, *str_forward;

typedef struct {
    const char *type;
    const char *slot;
    Py_ssize_t *offset;
} Where;

static Where slots[] = {
    {"State", "batch", &names.state_batch},
    {"State", "inside", &names.state_inside},
    {"State", "mode", &names.state_mode},
    {"State", "numpy", &names.state_numpy},
    {"State", "paused", &names.state_paused},
    {"State", "trace", &names.state_trace},
    {"Batch", "graph", &names.batch_graph},
    {"Batch", "imports", &names.batch_imports},
    {"Batch", "records", &names.batch_records},
    {"Batch", "room", &names.batch_room},
    {"Batch", "sharing", &names.batch_sharing},
    {"Batch", "signatures", &names.batch_signatures},
    {"Batch", "tables", &names.batch_tables},
    {"Graph", "lookups", &names.graph_lookups},
    {"Graph", "rows", &names.graph_rows},
    {"Graph", "single_rows", &names.graph_single_rows},
    {"Record", "bases", &names.record_bases},
    {"Record", "calls", &names.record_calls},
    {"Record", "depths", &names.record_depths},
    {"Record", "kind", &names.record_kind},
    {"Record", "memo", &names.record_memo},
    {"Record", "mode", &names.record_mode},
    {"Record", "operands", &names.record_operands},
    {"Record", "origins", &names.record_origins},
    {"Record", "share", &names.record_share},
    {"Record", "values", &names.record_values},
    {"Spec", "mode", &names.spec_mode},
    {"Spec", "of_rows", &names.spec_of_rows},
    {"Spec", "row_shape", &names.spec_row_shape},
    {"Spec", "rows", &names.spec_rows},
    {"Cell", "is_node", &names.cell_is_node},
    {"Cell", "lookup", &names.cell_lookup},
    {"Table", "known", &names.table_known},
    {"Table", "row", &names.table_row},
    {"Table", "size", &names.table_size},
    {"Table", "taped", &names.table_taped},
    {"NDArrayBase", "handle", &names.array_handle},
    {"LazyArray", "_v", &names.lazy_v[0]},
    {"LazyArray", "_c", &names.lazy_c[0]},
    {"LazyNumpy", "_v", &names.lazy_v[1]},
    {"LazyNumpy", "_c", &names.lazy_c[1]},
    {NULL, NULL, NULL},
};

static struct {
    const char *name;
    PyTypeObject **type;
} types[] = {
    {"Batch", &names.batch_type},    {"Graph", &names.graph_type},    {"Record", &names.record_type},
    {"Spec", &names.spec_type},      {"Cell", &names.cell_type},      {"LazyArray", &names.lazy[0]},
    {"LazyNumpy", &names.lazy[1]},   {"NDArray", &names.plain[0]},    {"ndarray", &names.plain[1]},
    {"Table", &names.table_type},    {"HybridBlock", &names.hybrid_type},
    {NULL, NULL},
};

static struct {
    const char *name;
    PyObject **object;
} objects[] = {
    {"local", &names.local},       {"key", &names.key},     {"known", &names.known}, {"is_library", &names.is_library},
    {"value_of", &names.value_of}, {"empty", &names.empty}, {"zero", &names.zero}, {"rebuild", &names.rebuild},
    {"automatic", &names.automatic}, {"note", &names.note}, {"clock", &names.clock}, {"after", &names.after},
    {NULL, NULL},
};

static struct {
    const char *name;
    void **address;
} addresses[] = {
    {"get_shape", &names.get_shape},
    {"get_dtype", &names.get_dtype},
    {"get_context", &names.get_context},
    {"copy_out", &names.copy_out},
    {NULL, NULL},
};

int names_init(void) {
    str_state = PyUnicode_InternFromString("state");
    str_hooks = PyUnicode_InternFromString("_forward_hooks");
    str_pre_hooks = PyUnicode_InternFromString("_forward_pre_hooks");
    str_rows_mode = PyUnicode_InternFromString("rows");
    str_name = PyUnicode_InternFromString("__name__");
    str_value = PyUnicode_InternFromString("value");
    str_index = PyUnicode_InternFromString("index");
    str_forward = PyUnicode_InternFromString("forward");
    if (!str_value || !str_index || !str_forward) return -1;
    return str_state && str_hooks && str_pre_hooks && str_rows_mode && str_name ? 0 : -1;
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

/* configure(**named): the classes and functions of the tables above, by name. */
PyObject *configure(PyObject *module, PyObject *args, PyObject *kwargs) {
    int k;
    if (PyTuple_GET_SIZE(args) || kwargs == NULL) {
        PyErr_SetString(PyExc_TypeError, "configure() takes keywords");
        return NULL;
    }
#define NAMED(name, into)                                                      \
    PyObject *into = PyDict_GetItemString(kwargs, name);                       \
    if (into == NULL) {                                                        \
        PyErr_Format(PyExc_TypeError, "configure() has no keyword %s", name);  \
        return NULL;                                                           \
    }
    for (k = 0; slots[k].type != NULL; k++) {
        NAMED(slots[k].type, type)
        *slots[k].offset = offset_of(type, slots[k].slot);
        if (*slots[k].offset < 0) return NULL;
    }
    for (k = 0; types[k].name != NULL; k++) {
        NAMED(types[k].name, type)
        if (!PyType_Check(type)) {
            PyErr_Format(PyExc_TypeError, "%s is no class", types[k].name);
            return NULL;
        }
        Py_INCREF(type);
        Py_XSETREF(*types[k].type, (PyTypeObject *)type);
    }
    for (k = 0; addresses[k].name != NULL; k++) {
        NAMED(addresses[k].name, address)
        *addresses[k].address = PyLong_AsVoidPtr(address);
        if (PyErr_Occurred()) return NULL;
    }
    for (k = 0; objects[k].name != NULL; k++) {
        NAMED(objects[k].name, object)
        Py_INCREF(object);
        Py_XSETREF(*objects[k].object, object);
    }
    Py_RETURN_NONE;
}
