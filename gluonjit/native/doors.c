/* Doors: calls of PyTorch's functions on lazy tensors of which nothing but a node can come, or rows of what is there:
   gluonjit.engines.torch.ops.call_operator, for what is in its table DOORS. */

#include "fast.h"

/* As in engines/torch/doors.py: a node always; for some arguments a reference; or nodes of other cells, by known numbers. */
enum { FREE, SUM, ROWS, STACK, VIEW, PICK, INTO, MEAN };

static Value *value_of(PyObject *arg) { return value_in(arg, &names.torch, 0); }

/* Whether a lazy tensor's value is there, and holds no whole numbers, which may be known; not one made from nothing. */
static int is_float(PyObject *arg) {
    Spec *spec = spec_of(value_of(arg));
    PyObject *dtype = !spec || SLOT(arg, names.torch.lazy_k[0]) == Py_Ellipsis ? NULL : spec->dtype;
    if (!dtype || !PyUnicode_Check(dtype) || PyUnicode_GET_LENGTH(dtype) < 2) return 0;
    return PyUnicode_READ_CHAR(dtype, 0) == 'f' ||
           (PyUnicode_READ_CHAR(dtype, 0) == 'b' && PyUnicode_READ_CHAR(dtype, 1) == 'f');
}

/* Whether a lazy tensor waits for this graph to run. */
static int is_waiting(PyObject *arg, PyObject *graph) {
    Value *value = value_of(arg);
    return value && !is_stale(arg) && SLOT(arg, names.torch.lazy_c[0]) == Py_None && value->graph == graph;
}

/* Whether a lazy tensor is a result that has yet to be computed by this graph: whatever it holds, it is not known. */
static int is_pending(PyObject *arg, PyObject *graph) { return is_waiting(arg, graph) && value_of(arg)->depth > 0; }

/* Whether one of these holds floats or is pending, and none is True, which may stand for `inplace`. */
static int is_unknown(PyObject *const *args, Py_ssize_t count, PyObject *graph) {
    int found = 0;
    Py_ssize_t k, n;
    for (k = 0; k < count; k++) {
        PyObject *arg = args[k];
        if (arg == Py_True) return 0;
        if (found) continue;
        found = is_float(arg) || is_pending(arg, graph);
        if (PyList_CheckExact(arg) || PyTuple_CheckExact(arg))
            for (n = 0; !found && n < PySequence_Fast_GET_SIZE(arg); n++) {
                PyObject *item = PySequence_Fast_GET_ITEM(arg, n);
                found = is_float(item) || is_pending(item, graph);
            }
    }
    return found;
}

/* Whether a call writes to nothing: -1 and an exception where that cannot be told. */
static int writes_nothing(PyObject *kwargs) {
    PyObject *out, *inplace;
    if (!kwargs) return 1;
    out = PyDict_GetItemWithError(kwargs, str_out);
    inplace = PyErr_Occurred() ? NULL : PyDict_GetItemWithError(kwargs, str_inplace);
    if (PyErr_Occurred()) return -1;
    return (!out || out == Py_None) && (!inplace || inplace == Py_False);
}

/* The value of a lazy tensor of this graph, as an operand: borrowed, or NULL. */
static Value *operand(PyObject *arg, PyObject *graph) {
    Value *value = value_of(arg);
    return spec_of(value) && !is_stale(arg) && value->graph == graph ? value : NULL;
}

/* The same of one whose rows may be referred to: NULL where Python has to look. */
static Value *sliceable(PyObject *arg, PyObject *graph) {
    Value *value = operand(arg, graph);
    return value && value->taped && is_learning() <= 0 ? NULL : value;
}

/* A lazy tensor of a new value, the reference to which is taken over; None has none. */
static PyObject *referring(PyObject *value) {
    PyObject *tensor = !value || value == Py_None ? NULL : tensor_of(value);
    Py_XDECREF(value);
    return tensor;
}

/* `0 + x`, with which the built-in `sum` begins. */
static PyObject *plus_nothing(PyObject *graph, PyObject *tensor) {
    PyObject *value = Py_XNewRef((PyObject *)sliceable(tensor, graph));
    PyObject *found = !value ? NULL : referring(copied_rows(value));
    Py_XDECREF(value);
    return found;
}

/* What torch.cat and torch.stack give along axis 0 of arrays that are whole rows. */
static PyObject *joined(PyObject *graph, PyObject *listed) {
    PyObject *values = PyList_New(0), *mode = NULL, *found = NULL;
    Py_ssize_t k;
    for (k = 0; values && k < PySequence_Fast_GET_SIZE(listed); k++) {
        PyObject *value = (PyObject *)sliceable(PySequence_Fast_GET_ITEM(listed, k), graph);
        if (!value || PyList_Append(values, value) < 0) Py_CLEAR(values);
        if (k == 0 && values) mode = Py_XNewRef(((Spec *)((Value *)value)->spec)->mode);
    }
    if (values && mode) found = referring(joined_rows(values, mode));
    Py_XDECREF(values);
    Py_XDECREF(mode);
    return found;
}

/* Whether a call of torch.cat or torch.stack joins along another axis than 0: -1 where Python has to look. */
static int has_axis(PyObject *const *args, Py_ssize_t count, PyObject *kwargs) {
    PyObject *axis = count == 2 ? args[1] : NULL;
    Py_ssize_t found;
    if (kwargs) {
        axis = count == 1 && PyDict_GET_SIZE(kwargs) == 1 ? PyDict_GetItemWithError(kwargs, str_dim) : NULL;
        if (!axis) return -1;
    }
    if (count < 1 || count > 2 || !(PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0]))) return -1;
    if (!axis) return 0;
    if (!PyLong_CheckExact(axis)) return -1;
    found = PyLong_AsSsize_t(axis);
    if (found == -1 && PyErr_Occurred()) PyErr_Clear();
    return found != 0; /* an axis from behind is a node, too */
}

/* Whether the first of these is an array of whole rows as this sort of call joins them. */
static int is_joined(PyObject *listed, int sort) {
    Spec *spec = PySequence_Fast_GET_SIZE(listed) ? spec_of(value_of(PySequence_Fast_GET_ITEM(listed, 0))) : NULL;
    if (!spec || !spec->mode || !PyUnicode_Check(spec->mode)) return 1;
    return is_text(spec->mode, sort == ROWS ? "rows" : "stack");
}

/* Whether there is no tensor in an argument, as far as that is not nested deeper than keys and shapes are. */
static int is_constant(PyObject *arg, int depth) {
    PyTypeObject *type = Py_TYPE(arg);
    Py_ssize_t k;
    if (PyTuple_CheckExact(arg) || PyList_CheckExact(arg)) {
        for (k = 0; depth > 0 && k < PySequence_Fast_GET_SIZE(arg); k++)
            if (!is_constant(PySequence_Fast_GET_ITEM(arg, k), depth - 1)) return 0;
        return depth > 0;
    }
    if (type == &PySlice_Type && depth > 0) {
        PySliceObject *slice = (PySliceObject *)arg;
        return is_constant(slice->start, 0) && is_constant(slice->stop, 0) && is_constant(slice->step, 0);
    }
    return arg == Py_None || arg == Py_Ellipsis || PyLong_CheckExact(arg) || type == names.dtype_type ||
           type == names.device_type || PyUnicode_CheckExact(arg);
}

/* Whether what a call gives of its first argument follows from constants alone: a view, where it was one before. */
static int is_view(PyObject *const *args, Py_ssize_t count, PyObject *kwargs) {
    PyObject *name, *arg;
    Py_ssize_t at = 0, k;
    for (k = 1; k < count; k++)
        if (!is_constant(args[k], 2)) return 0;
    while (kwargs && PyDict_Next(kwargs, &at, &name, &arg))
        if (!is_constant(arg, 2)) return 0;
    return count > 0;
}

static int is_zero(PyObject *arg) {
    int over;
    return PyLong_CheckExact(arg) && PyLong_AsLongAndOverflow(arg, &over) == 0 && !over;
}

/* What comes of a call without a node: 1 where that is nothing; 0 and maybe a result, or Python has to look. */
static int refers(PyObject *graph, int sort, PyObject *const *args, Py_ssize_t count, PyObject *kwargs, PyObject **result) {
    if (sort == SUM) {
        if (count != 2 || kwargs || !is_zero(args[1])) return 1;
        *result = plus_nothing(graph, args[0]);
        return 0;
    }
    if (sort == ROWS || sort == STACK) {
        int axis = has_axis(args, count, kwargs);
        if (axis > 0) return 1;
        if (axis < 0) return 0;
        if (!is_joined(args[0], sort)) return 1;
        *result = joined(graph, args[0]);
        return 0;
    }
    return sort == FREE || (sort == VIEW && is_view(args, count, kwargs));
}

/* `x.index_select(0, numbers)` of known numbers, which do not count from the end. */
static PyObject *picked(PyObject *graph, PyObject *const *args, Py_ssize_t count) {
    PyObject *numbers = count == 3 && is_zero(args[1]) ? known_numbers(args[2]) : NULL, *value, *found = NULL;
    Py_ssize_t k, size = !numbers ? 0 : PyList_GET_SIZE(numbers);
    int over;
    for (k = 0; k < size; k++) {
        PyObject *number = PyList_GET_ITEM(numbers, k);
        if (!PyLong_CheckExact(number) || PyLong_AsLongAndOverflow(number, &over) < 0 || over) size = 0;
    }
    value = size ? Py_XNewRef((PyObject *)sliceable(args[0], graph)) : NULL;
    if (value) found = referring(rows_at(value, numbers));
    Py_XDECREF(value);
    Py_XDECREF(numbers);
    return found;
}

/* `base.index_add(0, numbers, source)` of known numbers: see engines/torch/segments.py. The door has the cell, and what
   it is given after its operands. */
static PyObject *into(PyObject *state, PyObject *graph, PyObject *door, PyObject *const *args, Py_ssize_t count) {
    enum { OPERANDS = 5, ALL = 8 };
    PyObject *numbers = NULL, *operands = NULL, *given[ALL] = {NULL}, *base, *source, *result = NULL;
    Py_ssize_t more = PyTuple_GET_SIZE(door) - 3, k;
    if (count != 4 || !is_zero(args[1]) || more < 0 || OPERANDS + more > ALL) return NULL;
    base = Py_XNewRef((PyObject *)operand(args[0], graph));
    source = Py_XNewRef((PyObject *)operand(args[3], graph));
    if (base && source && is_float(args[0])) numbers = known_numbers(args[2]);
    if (numbers) operands = numbers_into(base, source, numbers);
    if (operands && PyTuple_CheckExact(operands) && PyTuple_GET_SIZE(operands) == OPERANDS - 2) {
        given[0] = Py_NewRef(args[0]);
        given[1] = Py_NewRef(args[3]);
        for (k = 2; k < OPERANDS && given[k - 1]; k++) given[k] = tensor_of(PyTuple_GET_ITEM(operands, k - 2));
        for (k = 0; k < more; k++) given[OPERANDS + k] = Py_NewRef(PyTuple_GET_ITEM(door, 3 + k));
        if (given[OPERANDS - 1])
            result = capture_function(state, PyTuple_GET_ITEM(door, 2), NULL, given, OPERANDS + more, NULL);
    }
    for (k = 0; k < ALL; k++) Py_XDECREF(given[k]);
    Py_XDECREF(operands);
    Py_XDECREF(numbers);
    Py_XDECREF(source);
    Py_XDECREF(base);
    return result;
}

/* Whether `mean` is asked for that of rows, whose number is then an operand. */
static int is_of_rows(PyObject *graph, PyObject *const *args, Py_ssize_t count, PyObject *kwargs) {
    PyObject *axis = count == 2 ? args[1] : NULL;
    Spec *spec = spec_of(count ? operand(args[0], graph) : NULL);
    if (kwargs)
        axis = count == 1 && PyDict_GET_SIZE(kwargs) == 1 ? PyDict_GetItemWithError(kwargs, str_dim) : NULL;
    if (!axis || !spec || !is_zero(axis) || !is_float(args[0])) return 0;
    return spec->shape && PyTuple_Check(spec->shape) && PyTuple_GET_SIZE(spec->shape) > 1 &&
           is_text(spec->mode, "rows") && is_text(spec->device, "cpu");
}

/* The sum of rows by their number, of which the door has the cells. */
static PyObject *mean(PyObject *state, PyObject *graph, PyObject *door, PyObject *tensor) {
    PyObject *value = Py_XNewRef((PyObject *)operand(tensor, graph)), *zero = PyLong_FromLong(0), *count = NULL;
    PyObject *number = NULL, *summed[2], *divided[2] = {NULL, NULL}, *result = NULL;
    if (value && zero && PyTuple_GET_SIZE(door) == 4) {
        count = PyLong_FromSsize_t(((Spec *)((Value *)value)->spec)->rows);
        number = !count ? NULL : whole_number(graph, count);
        divided[1] = !number || number == Py_None ? NULL : tensor_of(number);
        summed[0] = tensor;
        summed[1] = zero;
        if (divided[1]) divided[0] = capture_function(state, PyTuple_GET_ITEM(door, 2), NULL, summed, 2, NULL);
        if (divided[0]) result = capture_function(state, PyTuple_GET_ITEM(door, 3), NULL, divided, 2, NULL);
    }
    Py_XDECREF(divided[0]);
    Py_XDECREF(divided[1]);
    Py_XDECREF(number);
    Py_XDECREF(count);
    Py_XDECREF(zero);
    Py_XDECREF(value);
    return result;
}

/* What comes of a call by known numbers inside of a sample: 1 where it is a node like others; 0 and maybe a result. */
static int by_numbers(PyObject *state, PyObject *graph, PyObject *door, int sort, PyObject *const *args, Py_ssize_t count,
                      PyObject *kwargs, PyObject **result) {
    if (sort == MEAN && !is_of_rows(graph, args, count, kwargs)) return !PyErr_Occurred();
    if (sort == MEAN) *result = mean(state, graph, door, args[0]);
    if (sort == INTO && !kwargs) *result = into(state, graph, door, args, count);
    if (sort == PICK && !kwargs) *result = picked(graph, args, count);
    return 0;
}

/* Whether an argument waits for this graph to run. */
static int waits(PyObject *const *args, Py_ssize_t count, PyObject *graph) {
    Py_ssize_t k;
    for (k = 0; k < count; k++)
        if (is_waiting(args[k], graph)) return 1;
    return 0;
}

/* A node outside of all samples: the time it took is noted. */
static PyObject *outside(PyObject *state, PyObject *batch, PyObject *cell, PyObject *viewing, PyObject *const *args,
                         Py_ssize_t count, PyObject *kwargs) {
    PyObject *begin = PyObject_CallNoArgs(names.clock), *result, *noted;
    if (!begin) return NULL;
    result = capture_function(state, cell, viewing, args, count, kwargs);
    if (result) {
        noted = PyObject_CallFunctionObjArgs(names.note, batch, cell, begin, NULL);
        if (!noted) Py_CLEAR(result);
        Py_XDECREF(noted);
    }
    Py_DECREF(begin);
    return result;
}

/* What a call gives in an open batch: NULL without an exception leaves it to Python. */
static PyObject *entered(PyObject *state, PyObject *door, PyObject *func, PyObject *const *args, Py_ssize_t count, PyObject *kwargs) {
    PyObject *batch = Py_XNewRef(SLOT(state, names.state_batch)), *graph = NULL, *result = NULL;
    PyObject *cell = PyTuple_GET_ITEM(door, 0), *number = PyTuple_GET_ITEM(door, 1), *viewing;
    int sort = PyLong_Check(number) ? (int)PyLong_AsLong(number) : -1, inside;
    if (!is_open(state, batch) || !has_room(batch)) goto done;
    graph = Py_XNewRef(SLOT(batch, names.batch_graph));
    if (!graph || Py_TYPE(graph) != names.graph_type) goto done;
    if (!is_unknown(args, count, graph) || writes_nothing(kwargs) <= 0) goto done;
    inside = is_inside(state, batch);
    if (PyErr_Occurred() || (!inside && !waits(args, count, graph))) goto done;
    if (sort >= PICK && (!inside || !by_numbers(state, graph, door, sort, args, count, kwargs, &result))) goto done;
    if (sort < PICK && (!refers(graph, sort, args, count, kwargs, &result) || PyErr_Occurred())) goto done;
    viewing = sort == VIEW ? func : NULL;
    result = inside ? capture_function(state, cell, viewing, args, count, kwargs)
                    : outside(state, batch, cell, viewing, args, count, kwargs);
done:
    Py_XDECREF(graph);
    Py_XDECREF(batch);
    return result;
}

/* Raise what Python makes of an error in a call, as it is raised now. */
static void say(PyObject *func, PyObject *const *args, Py_ssize_t count, PyObject *kwargs) {
    PyObject *type, *error, *trace, *given = NULL, *said = NULL, *named = Py_XNewRef(kwargs);
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    given = tuple_from(args, count);
    if (!named) named = PyDict_New();
    if (given && named)
        said = PyObject_CallFunctionObjArgs(names.error_of, func, given, named, error, NULL);
    Py_XDECREF(given);
    Py_XDECREF(named);
    if (said && said != error && PyExceptionInstance_Check(said)) {
        PyErr_SetObject((PyObject *)Py_TYPE(said), said);
    } else if (said) {
        PyErr_Restore(type, error, trace);
        type = error = trace = NULL;
    }
    Py_XDECREF(said);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
}

/* Doors that were found lately, by the address of their function, until the table has changed. */
static struct {
    PyObject *func, *door;
} latest[64];

PyObject *forget_doors(PyObject *module, PyObject *ignored) {
    size_t k;
    for (k = 0; k < sizeof(latest) / sizeof(latest[0]); k++) {
        Py_CLEAR(latest[k].func);
        Py_CLEAR(latest[k].door);
    }
    Py_RETURN_NONE;
}

/* The door of a function: a new reference, or NULL where it has none, or with an exception. */
static PyObject *door_of(PyObject *func) {
    size_t place = ((size_t)func >> 4) % (sizeof(latest) / sizeof(latest[0]));
    PyObject *door, *old_func, *old_door;
    if (latest[place].func == func && latest[place].door) return Py_NewRef(latest[place].door);
    if (!names.doors || !PyDict_CheckExact(names.doors)) return NULL;
    door = PyDict_GetItemWithError(names.doors, func);
    if (!door) {
        PyErr_Clear(); /* Python says so */
        return NULL;
    }
    if (!PyTuple_CheckExact(door) || PyTuple_GET_SIZE(door) < 2) return no_such_slot(door, &PyTuple_Type);
    Py_INCREF(door);
    old_func = latest[place].func;
    old_door = latest[place].door;
    latest[place].func = Py_NewRef(func);
    latest[place].door = Py_NewRef(door);
    Py_XDECREF(old_func); /* only now: what ends with them may ask for a door */
    Py_XDECREF(old_door);
    return door;
}

/* What a call gives, where it has a door: NULL without an exception leaves it to Python. */
PyObject *through(PyObject *func, PyObject *const *args, Py_ssize_t count, PyObject *kwargs) {
    PyObject *door = door_of(func), *state, *result;
    if (!door) return NULL;
    state = state_here();
    if (!state) {
        Py_DECREF(door);
        return NULL;
    }
    if (kwargs && PyDict_GET_SIZE(kwargs) == 0) kwargs = NULL;
    result = entered(state, door, func, args, count, kwargs);
    if (!result && PyErr_Occurred()) say(func, args, count, kwargs);
    Py_DECREF(door);
    Py_DECREF(state);
    return result;
}

/* LazyTensor.__torch_function__(func, types, args=(), kwargs=None) */
static PyObject *torch_function(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    if (!keywords && (count == 3 || count == 4) && PyTuple_CheckExact(args[2])) {
        PyObject *kwargs = count == 3 || args[3] == Py_None ? NULL : args[3];
        if (!kwargs || PyDict_CheckExact(kwargs)) {
            PyObject *result = through(args[0], &PyTuple_GET_ITEM(args[2], 0), PyTuple_GET_SIZE(args[2]), kwargs);
            if (result || PyErr_Occurred()) return result;
        }
    }
    if (!names.operate) return PyErr_Format(PyExc_TypeError, "there is no function of Python behind this door");
    return PyObject_Vectorcall(names.operate, args, (size_t)count, keywords);
}

static PyMethodDef function = {"__torch_function__", (PyCFunction)(void (*)(void))torch_function,
                               METH_FASTCALL | METH_KEYWORDS, "Every operator and method that is not answered below."};

/* main_door() -> the function that stands in the place of LazyTensor.__torch_function__ */
PyObject *main_door(PyObject *module, PyObject *ignored) { return PyCFunction_New(&function, NULL); }

PyObject *operate(PyObject *func, PyObject *method, PyObject *const *args, Py_ssize_t count) {
    PyTypeObject *type = Py_TYPE(args[0]);
    PyObject *result;
    if (names.engine && (type == names.torch.lazy[0] || (count == 2 && type == names.torch.plain[0]))) {
        int overridden = is_overridden(); /* by what has to see the call first */
        if (overridden < 0) return NULL;
        result = overridden ? NULL : through(func, args, count, NULL);
        if (result || PyErr_Occurred()) return result;
    }
    if (Py_EnterRecursiveCall(" in a door")) return NULL; /* of a door of a door */
    result = PyObject_Vectorcall(method, args, (size_t)count, NULL);
    Py_LeaveRecursiveCall();
    return result;
}
