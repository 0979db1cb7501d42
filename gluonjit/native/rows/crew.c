/* The crew: POSIX threads, made when they are first asked for; a process that was forked begins without them. */

#define _GNU_SOURCE

#include "crew.h"

#if defined(_WIN32)
int crew_take(int threads) { return (void)threads, 1; }
void crew_leave(void) {}
void crew_share(int threads, ptrdiff_t pieces, Piece piece, void *work) {
    ptrdiff_t i;
    (void)threads;
    for (i = 0; i < pieces; i++) piece(work, 0, i);
}
#else

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define PAUSE() _mm_pause()
#define MODE() _mm_getcsr() /* how floats are rounded, and whether tiny ones are zero */
#define SET_MODE(mode) _mm_setcsr(mode)
#else
#define PAUSE() sched_yield()
#define MODE() 0
#define SET_MODE(mode) (void)(mode)
#endif

/* Nanoseconds: for which a thread looks for something to do before it sleeps; that the caller may wait for the others
   longer than it has worked, in all, before it does without them, as something else has the cores; and for how long it
   then does, at first and at most. */
enum { LOOKING = 50000, PATIENCE = 400000, REST = 20000000, LONGEST_REST = 1280000000 };

/* A thread: the pieces that are its own at first, how often it was called, and whether it sleeps. */
typedef struct {
    _Alignas(64) atomic_ptrdiff_t next; /* a line of the cache for each */
    ptrdiff_t end;
    atomic_uint turn;
    atomic_int asleep;
    pthread_cond_t called;
} Member;

static struct {
    int helpers, threads; /* how many there are beside the caller; who take part now */
    Piece piece;
    void *work;
    unsigned mode; /* how the caller rounds floats */
    int core;      /* which they leave to it */
    int64_t lost, rest, rested; /* how long it waited in vain; how long the last rest was, and when it ends */
    atomic_int taken, open, inside, waiting;
    pthread_mutex_t lock;
    pthread_cond_t left;
    Member members[MOST_THREADS];
} crew = {.lock = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

#if defined(__linux__)
static int core(void) { return sched_getcpu(); }

/* Leave the caller's core to it, if this process may use others: some kernels keep threads together on one that others
   have to themselves. */
static void move_away(int from) {
    cpu_set_t cores;
    if (from < 0 || core() != from || sched_getaffinity(getpid(), sizeof cores, &cores) != 0) return;
    CPU_CLR((unsigned)from, &cores);
    if (CPU_COUNT(&cores) > 0) sched_setaffinity(0, sizeof cores, &cores);
}
#else
static int core(void) { return -1; }
static void move_away(int from) { (void)from; }
#endif

/* Look for a while whether a number is no longer what it was; whether it is not. */
static int changes(atomic_uint *number, unsigned was) {
    const int64_t begun = now();
    int i;
    do {
        for (i = 0; i < 32; i++) {
            if (atomic_load(number) != was) return 1;
            PAUSE();
        }
    } while (now() - begun < LOOKING);
    return 0;
}

/* Own pieces first, then what others have left. */
static void do_pieces(int thread) {
    const int threads = crew.threads;
    int k;
    for (k = 0; k < threads; k++) {
        Member *member = &crew.members[(thread + k) % threads];
        for (;;) {
            const ptrdiff_t number = atomic_fetch_add_explicit(&member->next, 1, memory_order_relaxed);
            if (number >= member->end) break;
            crew.piece(crew.work, thread, number);
        }
    }
}

/* Take part in what is open, if it still is: nobody closes it and goes on while somebody is inside. */
static void help(int thread) {
    atomic_fetch_add(&crew.inside, 1);
    if (atomic_load(&crew.open) && thread < crew.threads) {
        SET_MODE(crew.mode);
        move_away(crew.core);
        do_pieces(thread);
    }
    if (atomic_fetch_sub(&crew.inside, 1) == 1 && atomic_load(&crew.waiting)) {
        pthread_mutex_lock(&crew.lock);
        pthread_cond_signal(&crew.left);
        pthread_mutex_unlock(&crew.lock);
    }
}

static void *helper(void *argument) {
    const int thread = (int)(intptr_t)argument;
    Member *self = &crew.members[thread];
    unsigned seen = 0;
    for (;;) {
        if (!changes(&self->turn, seen)) {
            pthread_mutex_lock(&crew.lock);
            atomic_store(&self->asleep, 1);
            while (atomic_load(&self->turn) == seen) pthread_cond_wait(&self->called, &crew.lock);
            atomic_store(&self->asleep, 0);
            pthread_mutex_unlock(&crew.lock);
        }
        seen = atomic_load(&self->turn);
        help(thread);
    }
    return NULL;
}

/* Starts anew in the child of a fork, which has none of the threads. */
static void begin_anew(void) {
    crew.helpers = 0;
    atomic_store(&crew.taken, 0);
    atomic_store(&crew.open, 0);
    atomic_store(&crew.inside, 0);
    atomic_store(&crew.waiting, 0);
    pthread_mutex_init(&crew.lock, NULL);
    pthread_cond_init(&crew.left, NULL);
}

/* Have one more thread, on which no signal is handled: 0, or -1 where the system gives none. */
static int hire(void) {
    Member *member = &crew.members[crew.helpers + 1];
    pthread_t thread;
    sigset_t all, before;
    int failed;
    atomic_store(&member->turn, 0);
    atomic_store(&member->asleep, 0);
    pthread_cond_init(&member->called, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&thread, NULL, helper, (void *)(intptr_t)(crew.helpers + 1));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) return -1;
    pthread_detach(thread);
    crew.helpers++;
    return 0;
}

static int rests(void) { return crew.rest && now() < crew.rested; }

int crew_take(int threads) {
    static atomic_int watched;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads <= 1 || atomic_exchange(&crew.taken, 1)) return 1;
    if (rests()) {
        atomic_store(&crew.taken, 0);
        return 1;
    }
    if (!atomic_exchange(&watched, 1)) pthread_atfork(NULL, NULL, begin_anew);
    while (crew.helpers + 1 < threads && hire() == 0) continue;
    if (crew.helpers + 1 < threads) threads = crew.helpers + 1;
    if (threads == 1) crew_leave();
    return threads;
}

void crew_leave(void) {
    if (!rests()) crew.rest /= 2;
    atomic_store(&crew.taken, 0);
}

/* Wait until no helper is inside, after so many nanoseconds of work. */
static void wait_for_all(int64_t worked) {
    const int64_t begun = now();
    while (atomic_load(&crew.inside) && now() - begun < LOOKING) PAUSE();
    if (atomic_load(&crew.inside)) {
        pthread_mutex_lock(&crew.lock);
        atomic_store(&crew.waiting, 1);
        while (atomic_load(&crew.inside)) pthread_cond_wait(&crew.left, &crew.lock);
        atomic_store(&crew.waiting, 0);
        pthread_mutex_unlock(&crew.lock);
    }
    crew.lost += now() - begun - worked;
    if (crew.lost < 0) crew.lost = 0;
    if (crew.lost > PATIENCE) {
        crew.lost = 0;
        crew.rest = crew.rest < REST / 2 ? REST : crew.rest > LONGEST_REST / 2 ? LONGEST_REST : 2 * crew.rest;
        crew.rested = now() + crew.rest;
    }
}

static void call_member(Member *member) {
    atomic_fetch_add(&member->turn, 1);
    if (!atomic_load(&member->asleep)) return;
    pthread_mutex_lock(&crew.lock);
    pthread_cond_signal(&member->called);
    pthread_mutex_unlock(&crew.lock);
}

void crew_share(int threads, ptrdiff_t pieces, Piece piece, void *work) {
    int64_t begun;
    int k;
    if (threads > pieces) threads = (int)pieces;
    if (rests()) threads = 1;
    crew.threads = threads;
    crew.piece = piece;
    crew.work = work;
    crew.mode = MODE();
    crew.core = core();
    for (k = 0; k < threads; k++) {
        atomic_store_explicit(&crew.members[k].next, pieces * k / threads, memory_order_relaxed);
        crew.members[k].end = pieces * (k + 1) / threads;
    }
    if (threads <= 1) {
        do_pieces(0);
        return;
    }
    begun = now();
    atomic_store(&crew.open, 1);
    for (k = 1; k < threads; k++) call_member(&crew.members[k]);
    do_pieces(0);
    begun = now() - begun;
    atomic_store(&crew.open, 0);
    wait_for_all(begun);
}
#endif
