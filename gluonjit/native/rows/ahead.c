/* One thread of the process that runs stretches in the order in which they were started, without the GIL. It is made
   when it is first needed. Before a fork all that was started ends, and the child begins without a thread. */

#define _GNU_SOURCE

#include "ahead.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "crew.h"

#define KEPT ((size_t)64 << 20) /* bytes of scratch that stay for the next stretch, at most */

enum { SIGNALS = 50000000 }; /* nanoseconds after which one who waits looks at signals */

typedef struct Flight {
    PyObject_HEAD
    Stretch stretch;
    PyObject *kept; /* what lies at the addresses of args */
    struct Flight *after;
    Caller caller;
    int64_t next, begun, ended; /* the launch that comes next; nanoseconds */
    const char *wrong; /* with that one */
    atomic_int over, unwanted;
} Flight;

static void fly(Flight *flight, Room *room) {
    const int64_t count = stretch_length(&flight->stretch);
    const int wanted = flight->stretch.threads;
    crew_follow(&flight->caller);
    flight->begun = rows_now();
    flight->stretch.threads = crew_take(wanted);
    while (flight->next < count && flight->wrong == NULL && !atomic_load(&flight->unwanted)) {
        flight->wrong = stretch_run(&flight->stretch, flight->next, room);
        flight->next += flight->wrong == NULL;
    }
    if (flight->stretch.threads > 1) crew_leave();
    flight->ended = rows_now();
}

#if defined(_WIN32)
static int is_begun(Flight *flight) { return (void)flight, 0; }
static void wait_for(Flight *flight, int64_t nanoseconds) { (void)flight, (void)nanoseconds; }
#else

#include <pthread.h>
#include <signal.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t called, ended;
    Flight *first, *last; /* the first one is under way */
    int there;            /* the thread */
} ahead = {.lock = PTHREAD_MUTEX_INITIALIZER, .called = PTHREAD_COND_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

static void *thread(void *nothing) {
    Room room = {0};
    (void)nothing;
    pthread_mutex_lock(&ahead.lock);
    for (;;) {
        while (ahead.first == NULL) pthread_cond_wait(&ahead.called, &ahead.lock);
        pthread_mutex_unlock(&ahead.lock);
        fly(ahead.first, &room);
        if (room.bytes > KEPT) {
            free(room.scratch);
            room.scratch = NULL;
            room.bytes = 0;
        }
        pthread_mutex_lock(&ahead.lock);
        atomic_store(&ahead.first->over, 1);
        ahead.first = ahead.first->after;
        pthread_cond_broadcast(&ahead.ended);
    }
    return NULL;
}

static void before_fork(void) {
    pthread_mutex_lock(&ahead.lock);
    while (ahead.first != NULL) pthread_cond_wait(&ahead.ended, &ahead.lock);
}

static void after_fork(void) { pthread_mutex_unlock(&ahead.lock); }

static void in_child(void) {
    ahead.there = 0;
    pthread_mutex_init(&ahead.lock, NULL);
    pthread_cond_init(&ahead.called, NULL);
    pthread_cond_init(&ahead.ended, NULL);
}

/* Have the thread, on which no signal is handled, with the lock held: whether it is there. */
static int hire(void) {
    static int watched;
    pthread_t made;
    sigset_t all, before;
    if (ahead.there) return 1;
    if (!watched) watched = pthread_atfork(before_fork, after_fork, in_child) == 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ahead.there = watched && pthread_create(&made, NULL, thread, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ahead.there) pthread_detach(made);
    return ahead.there;
}

/* Give a flight to the thread; 0 where the system gives none. */
static int is_begun(Flight *flight) {
    int there;
    pthread_mutex_lock(&ahead.lock);
    there = hire();
    if (there) {
        atomic_store(&flight->over, 0);
        if (ahead.first == NULL) ahead.first = flight;
        else ahead.last->after = flight;
        ahead.last = flight;
        pthread_cond_signal(&ahead.called);
    }
    pthread_mutex_unlock(&ahead.lock);
    return there;
}

/* Wait for so long at most, or where that is 0 as long as it takes. */
static void wait_for(Flight *flight, int64_t nanoseconds) {
    struct timespec until;
    int timely = 1;
    if (atomic_load(&flight->over)) return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += nanoseconds;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&ahead.lock);
    while (!atomic_load(&flight->over) && timely) {
        if (nanoseconds == 0)
            pthread_cond_wait(&ahead.ended, &ahead.lock);
        else
            timely = pthread_cond_timedwait(&ahead.ended, &ahead.lock, &until) != ETIMEDOUT;
    }
    pthread_mutex_unlock(&ahead.lock);
}

#endif

static PyObject *flight_wait(Flight *flight, PyObject *none) {
    (void)none;
    while (!atomic_load(&flight->over)) {
        Py_BEGIN_ALLOW_THREADS
        wait_for(flight, SIGNALS);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() != 0) return NULL;
    }
    return Py_BuildValue("ddz", (double)flight->begun / 1e9, (double)flight->ended / 1e9, flight->wrong);
}

static PyObject *flight_next(Flight *flight, void *nothing) {
    (void)nothing;
    return PyLong_FromLongLong(flight->next);
}

static void flight_dealloc(Flight *flight) {
    atomic_store(&flight->unwanted, 1);
    wait_for(flight, 0);
    stretch_release(&flight->stretch);
    Py_XDECREF(flight->kept);
    PyObject_Free(flight);
}

static PyMethodDef flight_methods[] = {
    {"wait", (PyCFunction)(void (*)(void))flight_wait, METH_NOARGS, "Wait until all have run: (begun, ended, wrong)."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef flight_members[] = {
    {"next", (getter)(void (*)(void))flight_next, NULL, "The number of the launch that comes next.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject flight_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gluonjit._rows.Flight",
    .tp_basicsize = sizeof(Flight),
    .tp_dealloc = (destructor)(void (*)(void))flight_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Launches that run while Python goes on.",
    .tp_methods = flight_methods,
    .tp_getset = flight_members,
};

int ahead_ready(PyObject *module) {
    return PyType_Ready(&flight_type) != 0 ? -1 : PyModule_AddObjectRef(module, "Flight", (PyObject *)&flight_type);
}

PyObject *ahead_start(PyObject *const *given, Py_ssize_t count, const Kernels *kernels, double least) {
    Flight *flight;
    long threads;
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "_rows.start takes programs, launches, args, block, threads and kept");
        return NULL;
    }
    threads = PyLong_AsLong(given[4]);
    if (threads == -1 && PyErr_Occurred()) return NULL;
    flight = PyObject_New(Flight, &flight_type);
    if (flight == NULL) return NULL;
    flight->stretch = (Stretch){.kernels = kernels, .least = least};
    flight->kept = Py_NewRef(given[5]);
    flight->after = NULL;
    flight->next = flight->begun = flight->ended = 0;
    flight->wrong = NULL;
    atomic_init(&flight->over, 1);
    atomic_init(&flight->unwanted, 0);
    if (stretch_hold(&flight->stretch, given) != 0) {
        Py_DECREF(flight);
        return NULL;
    }
    flight->stretch.threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : (int)threads;
    crew_note(&flight->caller);
    if (!is_begun(flight)) {
        Room room = {0};
        Py_BEGIN_ALLOW_THREADS
        fly(flight, &room);
        Py_END_ALLOW_THREADS
        free(room.scratch);
        free(room.sizes);
    }
    return (PyObject *)flight;
}
