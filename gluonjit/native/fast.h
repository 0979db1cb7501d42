/* Declarations that the files of gluonjit._fast share. Each of its functions does what a Python function does, for the
   usual case; every other case is left to that function. */

#ifndef GLUONJIT_FAST_H
#define GLUONJIT_FAST_H

#include "names.h"

/* Put what is written in C into the module; the types are those of recorder.py. */
int fill_module(PyObject *module, PyObject *value, PyObject *record, PyObject *graph, PyObject *batch, PyObject *state);

/* modes.c: PyTorch's modes of this thread: 1 or 0, or -1 and an exception */

int is_learning(void);   /* whether gradients are recorded */
int is_casting(void);    /* whether autocast is on */
int is_overridden(void); /* whether functions go to a TorchFunctionMode first, or not to the classes of their arguments */
PyObject *find_modes(PyObject *module, PyObject *args);
PyObject *modes(PyObject *module, PyObject *ignored);

/* bodies.c: a lazy tensor of a value, of a body that lies ready or a new one */

PyObject *tensor_of(PyObject *value);
int is_stale(PyObject *tensor);
PyObject *keep_bodies(PyObject *module, PyObject *lazy);
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
    PyObject *operands; /* the specs of its kind's */
    char pure, operator, apart; /* apart: rows of its operands may lie otherwise than those of a call's arguments */
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

/* A version that every change of a dict or a class changes: 0 where there is none. */
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
PyObject *capture_call(PyObject *module, PyObject *const *args, Py_ssize_t count);
/* Tells whether a state is that of a call inside of a sample of PyTorch's. */
int is_inside(PyObject *state, PyObject *batch);
/* The same of a call anywhere in a batch that is open. */
int is_open(PyObject *state, PyObject *batch);
PyObject *quicken(PyObject *module, PyObject *args);
PyObject *watch_calls(PyObject *module, PyObject *args);
PyObject *quick_module(PyObject *const *args, Py_ssize_t count, PyObject *keywords);

/* modules.c: modules of PyTorch's outside of captures */

PyObject *attribute(PyObject *const *args, Py_ssize_t count);
PyObject *quick_attributes(PyObject *module, PyObject *args);

/* graph/frames.py: the user's line */

PyObject *user_line(void);

/* capture.c and slices.c: NULL without an exception leaves the case to Python */

#define MOST 96 /* parts of a signature; calls with more are left to Python */

typedef struct {
    const Framework *of;
    PyObject *batch, *graph, *owner;
    PyObject *laid; /* how arguments lie that are plain tensors, where that is not the natural way: borrowed; or NULL */
    Signatures *signatures;
    const void *parts[MOST];
    Value *values[MOST]; /* references of our own: calling Python may change the arrays */
    PyObject *given[MOST]; /* in PyTorch, the arrays that they are of: references, too */
    PyObject *held[MOST];   /* the same of parts that are no one's else */
    int count, arguments, holds;
    int itself; /* whether it returns its arguments themselves, not others of the same value */
} Call;

/* Tells whether a call can be one of the open batch, of which it then holds what it needs; `what` is called. */
int call_open(Call *call, const Framework *of, PyObject *state, const void *what);
void call_close(Call *call);

/* Begins a signature with what comes before the arguments: 1; 0 under autocast, left to Python; -1 and an exception. */
int call_begin(Call *call, PyObject *state);

/* Append a part that only an argument keeps alive, which may change while others are looked at. */
static inline void call_hold(Call *call, PyObject *part) {
    call->held[call->holds++] = Py_NewRef(part);
    call->parts[call->count++] = part;
}

/* Append the value of an array, if it is one of this graph, with the spec that the signature has of it, or its own. */
static inline int call_take(Call *call, PyObject *array, PyObject *value, PyObject *spec) {
    if (!value || Py_TYPE(value) != core.value_type || ((Value *)value)->graph != call->graph) return 0;
    Py_INCREF(value);
    call->given[call->arguments] = call->of == &names.torch ? Py_NewRef(array) : NULL;
    call->values[call->arguments++] = (Value *)value;
    call_hold(call, !spec ? ((Value *)value)->spec : spec);
    return 1;
}

/* Append bits that are no address. The hash leaves out the lowest ones of a part, which in addresses are equal. */
int append_bits(Call *call, const void *sort, uint64_t bits);

/* Append a number, equal ones of which are found by what they are: 0 where Python has to look. */
int append_number(Call *call, PyObject *arg);

/* The value of a lazy array: borrowed, or NULL where it has none yet, or an argument is something else. */
static inline Value *value_in(PyObject *array, const Framework *of, int interface) {
    PyObject *value = Py_TYPE(array) == of->lazy[interface] ? SLOT(array, of->lazy_v[interface]) : NULL;
    return value && Py_TYPE(value) == core.value_type ? (Value *)value : NULL;
}

/* How such a value looks: borrowed, or NULL. */
static inline Spec *spec_of(Value *value) {
    return value && value->spec && Py_TYPE(value->spec) == names.spec_type ? (Spec *)value->spec : NULL;
}

static inline int is_text(PyObject *text, const char *wanted) {
    return text && PyUnicode_Check(text) && PyUnicode_CompareWithASCIIString(text, wanted) == 0;
}

/* What a dict has by the address of an object: borrowed, or NULL and maybe an exception. */
static inline PyObject *by_address(PyObject *known, void *object) {
    PyObject *place = !known ? NULL : PyLong_FromVoidPtr(object);
    PyObject *found = !place ? NULL : PyDict_GetItemWithError(known, place);
    Py_XDECREF(place);
    return found;
}

/* These objects as a tuple. */
static inline PyObject *tuple_from(PyObject *const *items, Py_ssize_t count) {
    PyObject *found = PyTuple_New(count);
    Py_ssize_t k;
    for (k = 0; found && k < count; k++) PyTuple_SET_ITEM(found, k, Py_NewRef(items[k]));
    return found;
}

/* Lazy arrays of the values of a node, in a list or a tuple. */
PyObject *wrapped_all(const Framework *of, int interface, PyObject *record, Py_ssize_t node, int list);

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

/* graph/entries.py: a list of numbers of rows of a Value, how many it has, and how many there are, as values: a tuple, or
   None where Python has to see to it; a whole number as a value, or None */
PyObject *numbers_into(PyObject *base, PyObject *source, PyObject *numbers);
PyObject *whole_number(PyObject *graph, PyObject *number);

PyObject *keep_call(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* graph/joining.py: values one after the other, a list of them, or None where Python has to see to it; a copy of one */
PyObject *joined_rows(PyObject *values, PyObject *mode);
PyObject *copied_rows(PyObject *value);
PyObject *rows_shown_as(PyObject *value, PyObject *spec); /* a view */
PyObject *rows_seen_as(PyObject *value, PyObject *spec);  /* with its own memory */

/* slices.c */

extern PyTypeObject ItemsType;

PyObject *slice_of(const Framework *of, int interface, PyObject *array, PyObject *key);
/* The numbers of a lazy tensor of one axis of them, which is known: a list, or NULL and maybe an exception. */
PyObject *known_numbers(PyObject *key);

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

PyObject *main_door(PyObject *module, PyObject *ignored);
PyObject *forget_doors(PyObject *module, PyObject *ignored);

/* Calls a method of PyTorch's whose first argument is a lazy tensor, or a plain one before a lazy one: a node
   of `func`, with which PyTorch would call __torch_function__, or else what the method says. */
PyObject *operate(PyObject *func, PyObject *method, PyObject *const *args, Py_ssize_t count);

/* cells.c: functions and methods that are cells */

extern PyTypeObject CelledType;

PyObject *quick_cells(PyObject *module, PyObject *type);

/* hooks.c: what stands in the place of a Python function, and calls it where the fast path does not apply */

extern PyTypeObject HookType, SilentType;

#endif
