/* What the files of gluonjit._fast share. Each of its functions does what a Python function beside it does, for the
   usual case; every other case is left to that function. */

#ifndef GLUONJIT_FAST_H
#define GLUONJIT_FAST_H

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
    PyObject *single_rows, *lookups;
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

/* Put what is written in C into the module; the types are those of recorder.py. */
int fill_module(PyObject *module, PyObject *value, PyObject *record, PyObject *graph, PyObject *batch, PyObject *state);

/* names.c: where the slots of the package's own classes lie */

typedef struct {
    PyTypeObject *lazy[2];  /* LazyArray and LazyNumpy, or LazyTensor */
    PyTypeObject *plain[2]; /* NDArray and mx.np.ndarray, or Tensor */
    PyTypeObject *cell_type;
    PyTypeObject *block_type; /* gluon.Block, or torch.nn.Module */
    Py_ssize_t lazy_v[2], lazy_c[2], cell_keys, cell_lookup, cell_paces, cell_refused;
    Py_ssize_t lazy_b[2], lazy_k[2]; /* what it is a view of, and which */
    Py_ssize_t lazy_n;               /* of LazyTensor: how often that was written to */
    PyObject *value_of; /* (batch, array) -> Value, or raises `empty` */
    PyObject *empty;
    PyObject *original; /* the call of a block or module as it was */
    PyObject *look_up;  /* (cell, batch, indices, mode) -> a Value; in PyTorch (cell, batch, indices, learning) -> a lazy
                           tensor; None where that is no look-up */
    PyObject *again;    /* (batch, cell, owner, key of another batch) -> (Record, key), or None */
    PyObject *rebuild;  /* (structure, values) -> what the call returns; in PyTorch (structure, values, arguments) */
} Framework;

typedef struct {
    Framework mxnet, torch;
    PyTypeObject *state_type, *batch_type, *graph_type, *spec_type, *hybrid_type, *embedding_type;
    Py_ssize_t state_batch, state_explicit, state_spare_of, state_trace;
    Py_ssize_t batch_engine, batch_foreign, batch_graph, batch_noted, batch_parameters, batch_records,
        batch_signatures;
    Py_ssize_t cell_chooses;
    Py_ssize_t cell_is_node;
    Py_ssize_t array_handle;
    PyObject *local;       /* the thread's state is its attribute `state` */
    PyObject *key;         /* of a block's cell in its __dict__ */
    PyObject *zero;        /* what the value of an array refers to that the program has made of zeros */
    PyObject *automatic;   /* (block, args) -> the cell of a block that has none in its __dict__, or None */
    PyObject *note;        /* (batch, cell, begin): a call outside of all samples was captured */
    PyObject *clock;       /* () -> what it takes for `begin` */
    PyObject *after;       /* (block, args, out): what follows a forward beside its result */
    PyObject *engine;      /* PyTorch's */
    PyObject *learning;    /* () -> whether gradients are recorded on this thread */
    PyObject *autocast;    /* () -> whether autocast is on */
    PyObject *overridden;  /* () -> whether functions go somewhere else first */
    PyTypeObject *parameter_type, *dtype_type;
    PyObject *doors;       /* function -> (its cell, sort of its door) */
    PyObject *operate;     /* (func, types, args, kwargs): what a call without a door gives */
    PyObject *error_of;    /* (func, args, kwargs, error) -> what is raised for an error in such a call */
    PyObject *make;        /* (value) -> a new LazyTensor */
    PyObject *steps_of;    /* (func, args, kwargs, how many results): the ways to the views that a call gives, or None */
    PyObject *getitem;     /* torch.Tensor.__getitem__ */
    PyObject *item;        /* (lazy tensor, key): what lazy[key] gives, of any key */
    PyObject *expanded;    /* (batch, cell, module, why): a call was expanded, and why it was no node */
    void *get_shape, *get_dtype, *get_context, *copy_out, *wait, *get_data; /* MXNDArrayGetShapeEx64 and so on */
} Names;

extern Names names;
extern PyObject *str_state, *str_hooks, *str_pre_hooks, *str_value,
    *str_forward, *str_training, *str_parameters, *str_buffers, *str_modules,
    *str_dim, *str_inplace, *str_out, *str_call, *str_mxnet, *str_torch, *str_tolist;

int names_init(void);
PyObject *configure(PyObject *module, PyObject *args, PyObject *kwargs);

/* modes.c: PyTorch's modes of this thread: 1 or 0, or -1 and an exception */

int is_learning(void);   /* whether gradients are recorded */
int is_casting(void);    /* whether autocast is on */
int is_overridden(void); /* whether functions go to a TorchFunctionMode first, or not to the classes of their arguments */
PyObject *find_modes(PyObject *module, PyObject *args);
PyObject *modes(PyObject *module, PyObject *ignored);

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

/* An exception: a slot holds nothing, or something of another class. Gives NULL. */
PyObject *no_such_slot(PyObject *content, PyTypeObject *type);

/* What a slot holds, which has to be of a class: borrowed, or NULL and an exception. */
static inline PyObject *held_at(void *object, Py_ssize_t offset, PyTypeObject *type) {
    PyObject *content = SLOT(object, offset);
    if (content != NULL && PyObject_TypeCheck(content, type)) return content;
    return no_such_slot(content, type);
}

static inline PyObject *dict_at(void *object, Py_ssize_t offset) { return held_at(object, offset, &PyDict_Type); }

static inline PyObject *list_at(void *object, Py_ssize_t offset) { return held_at(object, offset, &PyList_Type); }

/* The whole number in a slot, without a call of Python: -1 may be an exception. */
static inline Py_ssize_t number_at(void *object, Py_ssize_t offset) {
    PyObject *content = held_at(object, offset, &PyLong_Type);
    return content == NULL ? -1 : PyLong_AsSsize_t(content);
}

/* Put an object into a slot; the reference is taken over. */
static inline void set_slot(void *object, Py_ssize_t offset, PyObject *content) {
    PyObject *old = SLOT(object, offset);
    SLOT(object, offset) = content;
    Py_XDECREF(old);
}

/* The state of this thread: a new reference. */
PyObject *state_here(void);

/* Whether a batch has room for more. */
static inline int has_room(PyObject *batch) { return ((BatchRoom *)batch)->room >= 0; }

/* What a state counts: see hybrid/run/state.py. */
static inline StateNumbers *numbers_of(PyObject *state) { return (StateNumbers *)state; }

/* Whether the state is that of a program that runs, and not of one that is traced or paused. */
static inline int is_running(PyObject *state) {
    return SLOT(state, names.state_trace) == Py_None && numbers_of(state)->paused == 0;
}

/* What `begin` of gluonjit.hybrid.choose.pacing lets run eagerly without a question: an outermost call of a model in a mode, 2 for
   training. NULL where Python has to be asked, or with an exception. */
PyObject *spare_call(const Framework *of, PyObject *state, PyObject *cell, int mode, PyObject *const *args, Py_ssize_t count);

/* bodies.c: a lazy tensor of a value, of a body that lies ready or a new one */

PyObject *tensor_of(PyObject *value);
int is_stale(PyObject *tensor);
int bodies_init(PyTypeObject *lazy);
PyObject *tensor(PyObject *module, PyObject *value);
PyObject *spare_bodies(PyObject *module, PyObject *ignored);

/* A lazy array of a value. In MXNet there are two interfaces, 0: NDArray's, 1: mx.np's. */
PyObject *wrap(const Framework *of, int interface, PyObject *value);

/* signatures.c: the records of an open batch by what the calls of one have in common */

typedef struct {
    Py_hash_t hash;
    int count;
    const void **parts;
    PyObject *key; /* keeps what the parts point to alive */
    PyObject *record, *structure;
    PyObject *steps; /* of a call that gives views: the ways to them, by result; None where they are none; or NULL */
    char pure, operator;
    int busy; /* calls that are at it now */
} Entry;

typedef struct {
    PyObject_HEAD
    Entry **table;
    Py_ssize_t size, used;
} Signatures;

extern PyTypeObject SignaturesType;

void entry_free(Entry *entry);
Entry *signatures_find(Signatures *self, const void **parts, int count, Py_hash_t hash);
/* `key` keeps alive what the parts point to; without a record it is all that is kept. NULL and an exception. */
Entry *signatures_add(Signatures *self, PyObject *record, PyObject *key, const void **parts, int count, Py_hash_t hash);
Py_hash_t hash_parts(const void **parts, int count);

/* The record of a signature for what Python's state is now: 1, 0 where Python has to see to it, -1 and an exception. */
int signatures_current(Entry *entry, PyObject *batch);

/* hybrid/capture/guards/facts.py: what of Python's state has to hold for a traced call to be that of now: 1, 0, or -1
   and an exception */
int guards_hold(PyObject *guards);

/* What every change of a dict or a class changes: 0 where there is nothing of the sort. */
static inline int64_t version_of(PyObject *container) {
    if (PyType_Check(container) && PyType_HasFeature((PyTypeObject *)container, Py_TPFLAGS_VALID_VERSION_TAG))
        return (int64_t)((PyTypeObject *)container)->tp_version_tag;
#if PY_VERSION_HEX < 0x030C0000
    if (PyDict_Check(container)) return (int64_t)((PyDictObject *)container)->ma_version_tag;
#endif
    return 0;
}

/* capture.c: whether a call that was found is to be traced again */

PyObject *due(PyObject *module, PyObject *ignored);

/* torch.c: calls of PyTorch's modules */

int unhooked(PyObject *dict, PyObject *name); /* of hooks.c */
int is_fine(PyObject *state, PyObject *block);
PyObject *capture_call(PyObject *module, PyObject *const *args, Py_ssize_t count);
/* Whether a state is that of a call inside of a sample of PyTorch's. */
int is_inside(PyObject *state, PyObject *batch);
/* The same of a call anywhere in a batch that is open. */
int is_open(PyObject *state, PyObject *batch);
PyObject *quicken(PyObject *module, PyObject *args);
PyObject *watch_calls(PyObject *module, PyObject *notice);
PyObject *quick_module(PyObject *const *args, Py_ssize_t count);

/* graph/frames.py: the user's line */

PyObject *user_line(void);

/* capture.c and slices.c: NULL without an exception leaves the case to Python */

#define MOST 96 /* parts of a signature; calls with more are left to Python */

typedef struct {
    const Framework *of;
    PyObject *batch, *graph, *owner;
    Signatures *signatures;
    const void *parts[MOST];
    Value *values[MOST]; /* references of our own: calling Python may change the arrays */
    PyObject *held[MOST];   /* the same of parts that are no one's else */
    int count, arguments, holds;
} Call;

/* Whether a call can be one of the open batch, of which it then holds what it needs; `what` is called. */
int call_open(Call *call, const Framework *of, PyObject *state, const void *what);
void call_close(Call *call);

/* What comes before the arguments in a signature: 1; 0 under autocast, which Python tells apart; -1 and an exception. */
int call_begin(Call *call, PyObject *state);

/* Append a part that only an argument keeps alive, which may change while others are looked at. */
static inline void call_hold(Call *call, PyObject *part) {
    call->held[call->holds++] = Py_NewRef(part);
    call->parts[call->count++] = part;
}

/* Append the value of a lazy array, if it is one of this graph. */
static inline int call_take(Call *call, PyObject *value) {
    if (value == NULL || Py_TYPE(value) != core.value_type || ((Value *)value)->graph != call->graph) return 0;
    Py_INCREF(value);
    call->values[call->arguments++] = (Value *)value;
    call_hold(call, ((Value *)value)->spec);
    return 1;
}

/* Append bits that are no address. The hash leaves out the lowest ones of a part, which in addresses are equal. */
int append_bits(Call *call, const void *sort, uint64_t bits);

/* Append a number, equal ones of which are found by what they are: 0 where Python has to look. */
int append_number(Call *call, PyObject *arg);

/* A lazy array of the k-th value of a node. */
PyObject *wrapped(const Framework *of, int interface, PyObject *record, Py_ssize_t node, Py_ssize_t k);

PyObject *capture(const Framework *of, PyObject *state, PyObject *cell, PyObject *owner, PyObject *const *args, Py_ssize_t count, PyObject *named);
/* The same of a function of PyTorch's; where it gives views of its first argument (`viewing`) they know that. */
PyObject *capture_function(PyObject *state, PyObject *cell, PyObject *viewing, PyObject *const *args, Py_ssize_t count, PyObject *named);

/* Remember what an array is a view of: a whole array and a key of it, or of a view those of that and the key. */
int note_view(const Framework *of, int interface, PyObject *view, PyObject *array, PyObject *key);
PyObject *through(PyObject *func, PyObject *const *args, Py_ssize_t count, PyObject *kwargs); /* of doors.c */

/* graph/slices.py: rows of a Value by a slice or a number, or None where Python has to see to it */
PyObject *rows_by(PyObject *value, PyObject *key);
PyObject *rows_at(PyObject *value, PyObject *numbers);

PyObject *keep_call(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* graph/joining.py: values one after the other, a list of them, or None where Python has to see to it; a copy of one */
PyObject *joined_rows(PyObject *values, PyObject *mode);
PyObject *copied_rows(PyObject *value);
PyObject *rows_seen_as(PyObject *value, PyObject *spec);

/* slices.c */

PyObject *slice_of(const Framework *of, int interface, PyObject *array, PyObject *key);

/* arrays.c */

PyObject *look(PyObject *module, PyObject *array);
PyObject *whole_numbers(PyObject *module, PyObject *array);
PyObject *address(PyObject *module, PyObject *array);

/* operators.c: calls of MXNet's operators */

PyObject *quick_operator(PyObject *const *args, Py_ssize_t count);
PyObject *keep_operator(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *quick_verify(PyObject *const *args, Py_ssize_t count);
PyObject *quick_numpy_verify(PyObject *const *args, Py_ssize_t count);

/* doors.c: calls of PyTorch's functions */

extern PyTypeObject DoorType;

PyObject *main_door(PyObject *module, PyObject *ignored);
PyObject *forget_doors(PyObject *module, PyObject *ignored);

/* What a method of PyTorch's gives, where its first argument is a lazy tensor, or a plain one before a lazy one: a node
   of `func`, with which PyTorch would call __torch_function__, or else what the method says. */
PyObject *operate(PyObject *func, PyObject *method, PyObject *const *args, Py_ssize_t count);

/* signs.c: signs of lazy tensors */

extern PyTypeObject SignsType;

PyObject *set_sign(PyObject *module, PyObject *args);

/* cells.c: functions and methods that are cells */

extern PyTypeObject CelledType;

PyObject *quick_cells(PyObject *module, PyObject *type);

/* hooks.c: what stands in the place of a Python function, and calls it where the fast path does not apply */

extern PyTypeObject HookType, SilentType;

#endif
