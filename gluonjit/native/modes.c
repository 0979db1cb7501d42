/* PyTorch's modes of this thread, read where PyTorch keeps them: calling its functions of Python takes thirty times as
   long. Where they are not found there, or say something else, the functions are called. */

#include "fast.h"
#ifndef _WIN32
#include <dlfcn.h>
#endif

static struct {
    _Bool (*learning)(void);
    _Bool (*excluded)(uint64_t); /* whether all of a set of dispatch keys are: of autocast, then nothing is cast */
    signed char (*disabled)(void);
    int64_t (*modes)(void);
    uint64_t casting;
} direct;

static int asked(PyObject *function) {
    PyObject *found = PyObject_CallNoArgs(function);
    int on = !found ? -1 : found == Py_True;
    Py_XDECREF(found);
    return on;
}

int is_learning(void) { return direct.learning ? direct.learning() : asked(names.learning); }

int is_casting(void) { return direct.learning ? !direct.excluded(direct.casting) : asked(names.autocast); }

int is_overridden(void) {
    return direct.learning ? direct.disabled() != 0 || direct.modes() > 0 : asked(names.overridden);
}

#ifndef _WIN32
static void *found_in(const char *library, const char *name) {
    void *opened = dlopen(library, RTLD_LAZY | RTLD_NOLOAD), *found = !opened ? NULL : dlsym(opened, name);
    if (opened) dlclose(opened); /* which stays as long as PyTorch has it open */
    return found;
}

static int find(const char *base, const char *tensors) {
    *(void **)&direct.excluded = found_in(base, "_ZN3c104impl31tls_is_dispatch_keyset_excludedENS_14DispatchKeySetE");
    *(void **)&direct.disabled = found_in(tensors, "_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv");
    *(void **)&direct.modes = found_in(tensors, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv");
    *(void **)&direct.learning = found_in(base, "_ZN3c108GradMode10is_enabledEv");
    return direct.excluded && direct.disabled && direct.modes && direct.learning;
}
#else
static int find(const char *base, const char *tensors) { return 0; }
#endif

/* find_modes(base, tensors, casting) -> whether modes are read in these libraries from now on */
PyObject *find_modes(PyObject *module, PyObject *args) {
    const char *base, *tensors;
    unsigned long long casting;
    if (!PyArg_ParseTuple(args, "ssK:find_modes", &base, &tensors, &casting)) return NULL;
    direct.casting = casting;
    if (find(base, tensors)) Py_RETURN_TRUE;
    direct.learning = NULL;
    Py_RETURN_FALSE;
}

/* modes() -> (whether gradients are recorded, whether something is cast, whether functions are overridden) */
PyObject *modes(PyObject *module, PyObject *ignored) {
    int learning, casting, overridden;
    if (!names.engine) return PyErr_Format(PyExc_TypeError, "modes() knows nothing of PyTorch");
    learning = is_learning();
    casting = learning < 0 ? -1 : is_casting();
    overridden = casting < 0 ? -1 : is_overridden();
    return overridden < 0 ? NULL : Py_BuildValue("(NNN)", PyBool_FromLong(learning), PyBool_FromLong(casting),
                                                 PyBool_FromLong(overridden));
}
