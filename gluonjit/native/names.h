/* The types of the package that C reads, and the slots of their instances: names.c is told where these lie. */

#ifndef GLUONJIT_NAMES_H
#define GLUONJIT_NAMES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#if PY_VERSION_HEX < 0x030A0000
static inline PyObject *Py_NewRef(PyObject *object) {
    Py_INCREF(object);
    return object;
}
static inline PyObject *Py_XNewRef(PyObject *object) {
    Py_XINCREF(object);
    return object;
}
#endif

/* The types of graph/recorder.py and graph/values.py, as far as C reads them. */

typedef struct {
    PyObject_HEAD
    PyObject *rows;
    PyObject *spec;
    PyObject *graph;
    PyObject *base;
    PyObject *result;
    Py_ssize_t depth;
    int taped;
} Value;

typedef struct {
    PyObject_HEAD
    PyObject *kind;
    PyObject *guards;
    double share;
    Py_ssize_t calls;
    int mode;
    int results;
    int arity;
} Record;

typedef struct {
    PyObject_HEAD
    PyObject *shape, *dtype, *device, *mode, *row_shape, *of_rows, *bodies, *bytes;
    Py_ssize_t rows;
} Spec;

typedef struct {
    PyObject_HEAD
    Py_ssize_t rows;
    PyObject *single_rows, *lookups, *wholes;
} GraphRows;

typedef struct {
    PyObject_HEAD
    double room;
    Py_ssize_t changes;
    int sharing, fine;
} BatchRoom;

typedef struct {
    PyObject_HEAD
    Py_ssize_t eagerly, inside, mode, numpy, paused, spare, spare_mode;
} StateNumbers;

/* Its functions that C calls: the node of a record on these values, found or new; a value of it, borrowed. */
typedef struct {
    Py_ssize_t (*node_of)(PyObject *batch, PyObject *graph, PyObject *record, PyObject **values, int count, int sharing);
    PyObject *(*value_of)(PyObject *record, Py_ssize_t node, Py_ssize_t k);
    PyTypeObject *value_type, *record_type, *graph_type, *batch_type, *state_type;
    PyObject *spec_type, *guards_type;
} Core;

extern Core core;

/* What configure() is given, by name: X(name) for each field of `Names`. */
#define OBJECT_FIELD(name) PyObject *name;
#define ADDRESS_FIELD(name) void *name;

#define OBJECTS_OF_EACH(X) /* of both frameworks */ \
    X(value_of) /* (batch, array) -> Value, or raises `empty` */ \
    X(empty) \
    X(original) /* the call of a block or module as it was */ \
    X(look_up)  /* (cell, batch, indices, mode) -> a Value; in PyTorch (cell, batch, indices, learning) -> a lazy
                   tensor; None where that is no look-up */ \
    X(lay)      /* (batch, value, spec) -> the value with rows that lie as this spec has them; in MXNet, or None */ \
    X(again)    /* (batch, cell, owner, key of another batch) -> (Record, key), or None */ \
    X(rebuild)  /* (structure, values) -> what the call returns; in PyTorch (structure, values, arguments) */

#define OBJECTS_OF_PACKAGE(X) \
    X(local) /* the thread's state is its attribute `state` */ \
    X(note)  /* (batch, cell, begin): a call outside of all samples was captured */ \
    X(clock) /* () -> what it takes for `begin` */

#define OBJECTS_OF_MXNET(X) \
    X(automatic) /* (block, args) -> the cell of a block that has none in its __dict__, or None */ \
    X(after)     /* (block, args, out): what follows a forward beside its result */

#define OBJECTS_OF_TORCH(X) \
    X(engine) \
    X(learning)     /* () -> whether gradients are recorded on this thread */ \
    X(autocast)     /* () -> whether autocast is on */ \
    X(overridden)   /* () -> whether functions go somewhere else first */ \
    X(doors)        /* function -> (its cell, sort of its door, and what else is captured in its place) */ \
    X(operate)      /* (func, types, args, kwargs): what a call without a door gives */ \
    X(error_of)     /* (func, args, kwargs, error) -> what is raised for an error in such a call */ \
    X(make)         /* (value) -> a new LazyTensor */ \
    X(steps_of)     /* (func, args, kwargs, how many results): the ways to the views that a call gives, or None */ \
    X(getitem)      /* torch.Tensor.__getitem__ */ \
    X(laid_out)     /* the cell of nodes that lay the rows of a value otherwise */ \
    X(leaf_laid)    /* (batch, tensor, modes, place) -> its value, in the mode for that place, and its natural spec */ \
    X(item)         /* (lazy tensor, key): what lazy[key] gives, of any key */ \
    X(int64)        /* torch.int64 */ \
    X(call_impl)    /* torch.nn.Module._call_impl */ \
    X(global_hooks) /* the dicts of hooks of all modules, a tuple */ \
    X(tracing)      /* () -> what PyTorch traces a program with, or None */ \
    X(expanded)     /* (batch, cell, module, why): a call was expanded, and why it was no node */

#define ADDRESSES_OF_MXNET(X) /* of MXNDArrayGetShapeEx64 and so on */ \
    X(get_shape) X(get_dtype) X(get_context) X(copy_out) X(wait) X(get_data)

typedef struct {
    PyTypeObject *lazy[2];  /* LazyArray and LazyNumpy, or LazyTensor */
    PyTypeObject *plain[2]; /* NDArray and mx.np.ndarray, or Tensor */
    PyTypeObject *cell_type;
    PyTypeObject *block_type; /* gluon.Block, or torch.nn.Module */
    Py_ssize_t lazy_v[2], lazy_c[2], cell_keys, cell_lookup, cell_paces, cell_refused;
    Py_ssize_t lazy_b[2], lazy_k[2]; /* what it is a view of, and which */
    Py_ssize_t lazy_n;               /* of LazyTensor: how often that was written to */
    OBJECTS_OF_EACH(OBJECT_FIELD)
} Framework;

typedef struct {
    Framework mxnet, torch;
    PyTypeObject *state_type, *batch_type, *graph_type, *spec_type, *repeated_type, *hybrid_type, *embedding_type;
    Py_ssize_t state_batch, state_explicit, state_spare_of, state_trace;
    Py_ssize_t batch_engine, batch_foreign, batch_graph, batch_noted, batch_parameters, batch_records,
        batch_signatures;
    Py_ssize_t cell_chooses;
    Py_ssize_t cell_is_node, cell_laid;
    Py_ssize_t array_handle;
    PyObject *key; /* of a block's cell in its __dict__ */
    PyTypeObject *parameter_type, *dtype_type, *device_type;
    OBJECTS_OF_PACKAGE(OBJECT_FIELD)
    OBJECTS_OF_MXNET(OBJECT_FIELD)
    OBJECTS_OF_TORCH(OBJECT_FIELD)
    ADDRESSES_OF_MXNET(ADDRESS_FIELD)
} Names;

extern Names names;

/* Strings, and the names of their variables after "str_". */
#define STRINGS(X) \
    X(state, "state") X(hooks, "_forward_hooks") X(pre_hooks, "_forward_pre_hooks") \
    X(backward_hooks, "_backward_hooks") X(backward_pre_hooks, "_backward_pre_hooks") X(call_impl, "_call_impl") \
    X(compiled_call_impl, "_compiled_call_impl") X(value, "value") X(forward, "forward") X(training, "training") \
    X(parameters, "_parameters") X(buffers, "_buffers") X(modules, "_modules") X(dim, "dim") X(inplace, "inplace") \
    X(out, "out") X(call, "__call__") X(mxnet, "mxnet") X(torch, "torch") X(tolist, "tolist") X(dtype, "dtype") \
    X(is_cpu, "is_cpu")

#define STRING_DECLARED(name, text) extern PyObject *str_##name;
STRINGS(STRING_DECLARED)

int names_init(void);
PyObject *configure(PyObject *module, PyObject *args, PyObject *kwargs);

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

/* An exception: a slot holds nothing, or something of another class. Gives NULL. */
PyObject *no_such_slot(PyObject *content, PyTypeObject *type);

/* The object in a slot, which must be of a class: borrowed, or NULL and an exception. */
static inline PyObject *held_at(void *object, Py_ssize_t offset, PyTypeObject *type) {
    PyObject *content = SLOT(object, offset);
    if (content && PyObject_TypeCheck(content, type)) return content;
    return no_such_slot(content, type);
}

static inline PyObject *dict_at(void *object, Py_ssize_t offset) { return held_at(object, offset, &PyDict_Type); }

static inline PyObject *list_at(void *object, Py_ssize_t offset) { return held_at(object, offset, &PyList_Type); }

/* The whole number in a slot, without a call of Python: -1 may be an exception. */
static inline Py_ssize_t number_at(void *object, Py_ssize_t offset) {
    PyObject *content = held_at(object, offset, &PyLong_Type);
    return !content ? -1 : PyLong_AsSsize_t(content);
}

/* Put an object into a slot; the reference is taken over. */
static inline void set_slot(void *object, Py_ssize_t offset, PyObject *content) {
    PyObject *old = SLOT(object, offset);
    SLOT(object, offset) = content;
    Py_XDECREF(old);
}

/* The state of this thread: a new reference. */
PyObject *state_here(void);

/* Tells whether a batch has room for more. */
static inline int has_room(PyObject *batch) { return ((BatchRoom *)batch)->room >= 0; }

/* The counts of a state: see hybrid/run/state.py. */
static inline StateNumbers *numbers_of(PyObject *state) { return (StateNumbers *)state; }

/* Tells whether the state is that of a program that runs, and not of one that is traced or paused. */
static inline int is_running(PyObject *state) {
    return SLOT(state, names.state_trace) == Py_None && numbers_of(state)->paused == 0;
}

/* Tells whether nodes of the open batch are operators, and this block, which is no look-up, runs as it is. */
static inline int is_fine(PyObject *state, PyObject *block) {
    PyObject *batch = SLOT(state, names.state_batch);
    if (!batch || Py_TYPE(batch) != names.batch_type || !((BatchRoom *)batch)->fine) return 0;
    if (names.engine && SLOT(batch, names.batch_engine) == names.engine) return 0; /* of the other framework */
    return names.embedding_type && !PyObject_TypeCheck(block, names.embedding_type);
}

/* modules.c: torch.nn.Module.__call__ as it was. */
PyObject *run_module(PyObject *const *args, size_t flags, PyObject *keywords);

/* Calls that `begin` of gluonjit.hybrid.choose.pacing lets run eagerly without a question: an outermost call of a
   model in a mode, 2 for training. NULL where Python has to be asked, or with an exception. */
PyObject *spare_call(const Framework *of, PyObject *state, PyObject *cell, int mode, PyObject *const *args, Py_ssize_t count);

#endif
