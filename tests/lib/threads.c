#include "tests/lib/threads.h"

#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/runtime/rwlock.h"
#include "tests/lib/fiber.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

enum {
    NAME_BYTES = 16,
    HELD_MAX = 32, /* mutexes that one thread has at a time */
    STEPS_WITHOUT_TIME =
        1000000, /* more of them in a second: it is a loop that waits for nothing */
};

static const int64_t LOCK_MAX_NS = FG_HOUR_NS; /* nobody waits so long for a lock */

/* Who waits for a thing, in the order of arrival. */
struct queue {
    struct thread *first, *last;
};

enum what { RUNS, MUTEX, CONDITION, SEMAPHORE, READING, WRITING, JOIN, SLEEP, WAKE };

struct thread {
    unsigned machine;
    char name[NAME_BYTES];
    void *(*run)(void *arg);
    void (*run_plain)(void *arg); /* of threads_spawn() */
    void *arg, *result;
    struct fiber *fiber;
    bool ended, joined;
    enum what waits_for;
    const void *thing;   /* it waits for */
    void *at;            /* where in the program */
    struct queue *queue; /* it is in */
    struct thread *next_in_queue;
    struct queue joiners;
    struct mutex *held[HELD_MAX];
    unsigned n_held;
    struct thread *next; /* of all */
};

/* What the memory of a pthread_mutex_t holds; zeroed is what PTHREAD_MUTEX_INITIALIZER makes. */
struct mutex {
    struct thread *owner;
    struct queue waiting;
    unsigned depth;
    bool recursive;
};

struct condition {
    struct queue waiting;
    bool wall; /* its times are of CLOCK_REALTIME */
};

struct semaphore {
    struct queue waiting;
    unsigned value;
};

struct rwlock {
    struct queue waiting;
    struct thread *writer;
    unsigned readers, writers_waiting;
};

_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "fits");
_Static_assert(sizeof(struct condition) <= sizeof(pthread_cond_t), "fits");
_Static_assert(sizeof(struct semaphore) <= sizeof(sem_t), "fits");
_Static_assert(sizeof(struct rwlock) <= sizeof(struct fg_rwlock), "fits");

static struct {
    struct fibers *fibers;
    uint64_t seed, drawn;
    struct thread *threads, *running;
    unsigned pinned;
    bool over;
    int64_t second; /* of virtual time */
    unsigned steps; /* in it */
    void (*first)(void *arg);
    void *first_arg;
} all;

void (*threads_on_fault)(const char *why);

/* ---- faults ---- */

void threads_describe(void)
{
    static const char *const names[] = {"runs",          "mutex",          "condition",
                                        "semaphore",     "lock (reading)", "lock (writing)",
                                        "end of thread", "sleeps",         "to be woken"};

    for (const struct thread *thread = all.threads; thread != NULL; thread = thread->next)
        if (!thread->ended)
            (void)fprintf(stderr, "  machine %u thread %s: %s %p at %p\n", thread->machine,
                          thread->name, names[thread->waits_for], thread->thing, thread->at);
}

static void fault(const char *why, ...) fg_printf(1, 2);
static void fault(const char *why, ...)
{
    char text[256];
    va_list args;

    va_start(args, why);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it was begun in the line above */
    (void)vsnprintf(text, sizeof text, why, args);
    va_end(args);
    threads_on_fault(text);
    abort();
}

/* ---- who runs ---- */

uint64_t threads_draw(uint64_t below)
{
    return fg_mix64(all.seed + ++all.drawn * UINT64_C(0x9e3779b97f4a7c15)) % below;
}

int64_t threads_now_ns(void)
{
    return FG_HOUR_NS + (all.fibers == NULL ? 0 : fibers_now_ns(all.fibers));
}

struct thread *threads_self(void)
{
    return all.running;
}

static void count_step(void)
{
    int64_t second = threads_now_ns() / FG_SECOND_NS;

    if (second != all.second)
        all.steps = 0;
    all.second = second;
    if (++all.steps > STEPS_WITHOUT_TIME)
        fault("thread %s: more than %d steps within one second of virtual time", all.running->name,
              STEPS_WITHOUT_TIME);
}

/* How long a thread that could go on does not. */
static int64_t draw_delay(void)
{
    uint64_t kind = threads_draw(10000);

    if (kind == 0)
        return (int64_t)threads_draw((uint64_t)(3 * FG_SECOND_NS));
    if (kind < 100)
        return (int64_t)threads_draw((uint64_t)(20 * FG_MS_NS));
    return (int64_t)threads_draw(1000);
}

/* The running thread waits, and is the running one again; false: the time is over. */
static bool block(enum what what, const void *thing, void *at, int64_t ns)
{
    struct thread *self = all.running;
    bool woken;

    self->waits_for = what;
    self->thing = thing;
    self->at = at;
    woken = fibers_wait(all.fibers, ns);
    all.running = self;
    self->waits_for = RUNS;
    return woken;
}

/* Others may run here. */
static void yield(void *at)
{
    struct thread *self = all.running;

    if (self == NULL || all.pinned > 0)
        return;
    count_step();
    if (threads_draw(4) == 0)
        (void)block(SLEEP, NULL, at, draw_delay());
}

static void enqueue(struct queue *queue, struct thread *thread)
{
    thread->queue = queue;
    thread->next_in_queue = NULL;
    if (queue->first == NULL)
        queue->first = thread;
    else
        queue->last->next_in_queue = thread;
    queue->last = thread;
}

static void dequeue(struct thread *thread)
{
    struct queue *queue = thread->queue;
    struct thread *before = NULL;

    if (queue == NULL)
        return;
    for (struct thread *at = queue->first; at != thread; at = at->next_in_queue)
        before = at;
    if (before == NULL)
        queue->first = thread->next_in_queue;
    else
        before->next_in_queue = thread->next_in_queue;
    if (queue->last == thread)
        queue->last = before;
    thread->queue = NULL;
}

static void wake_first(struct queue *queue)
{
    struct thread *thread = queue->first;

    if (thread == NULL)
        return;
    dequeue(thread);
    fibers_wake(all.fibers, thread->fiber, draw_delay());
}

static void wake_all(struct queue *queue)
{
    while (queue->first != NULL)
        wake_first(queue);
}

/* Waits in the queue for a lock; it may be another's again by then. */
static void block_for_lock(struct queue *queue, enum what what, const void *thing, void *at)
{
    if (all.running == NULL)
        fault("a lock is held by nobody who runs");
    enqueue(queue, all.running);
    if (!block(what, thing, at, LOCK_MAX_NS))
        fault("thread %s has waited for a lock for an hour", all.running->name);
}

/* ---- threads ---- */

static void body(void *arg)
{
    struct thread *thread = arg;

    all.running = thread;
    if (thread->run_plain != NULL)
        thread->run_plain(thread->arg);
    else
        thread->result = thread->run(thread->arg);
    if (thread->n_held > 0)
        fault("thread %s ends with a mutex", thread->name);
    thread->ended = true;
    wake_all(&thread->joiners);
    all.running = NULL;
}

static struct thread *make(unsigned machine, const char *name)
{
    struct thread *thread = fg_new(struct thread);

    thread->machine = machine;
    (void)snprintf(thread->name, sizeof thread->name, "%s", name);
    thread->next = all.threads;
    all.threads = thread;
    return thread;
}

void threads_spawn(unsigned machine, const char *name, void (*run)(void *arg), void *arg)
{
    struct thread *thread = make(machine, name);

    thread->run_plain = run;
    thread->arg = arg;
    thread->joined = true;
    thread->fiber = fibers_spawn(all.fibers, draw_delay(), body, thread);
}

/* Frees what nobody can join any more. */
static void collect(void)
{
    struct thread **at = &all.threads;

    while (*at != NULL) {
        struct thread *thread = *at;

        if (thread->ended && thread->joined && thread != all.running) {
            *at = thread->next;
            free(thread);
        } else {
            at = &thread->next;
        }
    }
}

static void mutex_release(struct mutex *mutex)
{
    mutex->owner = NULL;
    mutex->depth = 0;
    wake_all(&mutex->waiting); /* not one alone, which may be killed before it goes on */
}

void threads_kill(unsigned machine)
{
    for (struct thread *thread = all.threads; thread != NULL; thread = thread->next) {
        if (thread->machine != machine || thread->ended)
            continue;
        fg_assert(thread != all.running);
        dequeue(thread);
        fibers_kill(all.fibers, thread->fiber);
        thread->ended = thread->joined = true;
    }
    /* Only now: those who wait may have been killed, too. */
    for (struct thread *thread = all.threads; thread != NULL; thread = thread->next)
        while (thread->machine == machine && thread->ended && thread->n_held > 0)
            mutex_release(thread->held[--thread->n_held]);
    collect();
}

unsigned threads_count(unsigned machine)
{
    unsigned count = 0;

    for (const struct thread *thread = all.threads; thread != NULL; thread = thread->next)
        count += thread->machine == machine && !thread->ended;
    return count;
}

unsigned threads_machine(void)
{
    return all.running->machine;
}

void threads_sleep(int64_t ns)
{
    (void)block(SLEEP, NULL, __builtin_return_address(0), ns);
}

bool threads_wait(int64_t ns)
{
    return block(WAKE, NULL, __builtin_return_address(0), ns);
}

void threads_wake(struct thread *thread)
{
    if (thread->waits_for == WAKE)
        fibers_wake(all.fibers, thread->fiber, draw_delay());
}

void threads_pin(void)
{
    all.pinned++;
}

void threads_unpin(void)
{
    fg_assert(all.pinned > 0);
    all.pinned--;
}

static void run_first(void *arg)
{
    (void)arg;
    all.first(all.first_arg);
    all.over = true;
}

void threads_run(uint64_t seed, void (*run)(void *arg), void *arg)
{
    fg_assert(all.fibers == NULL);
    all.fibers = fibers_create();
    all.seed = fg_mix64(seed + 1);
    all.first = run;
    all.first_arg = arg;
    threads_spawn(0, "first", run_first, NULL);
    while (!all.over)
        if (!fibers_turn(all.fibers))
            fault("nothing will ever happen again");
}

/* ---- what the linker redirects ----
 * Each is what its manual page says of the function, for what the tree uses of it. */

#define WRAP(name) __wrap_##name
#define HERE       __builtin_return_address(0)

int WRAP(pthread_create)(pthread_t *ret_thread, const pthread_attr_t *attr, void *(*run)(void *arg),
                         void *arg);
int WRAP(pthread_join)(pthread_t id, void **ret_result);
int WRAP(pthread_detach)(pthread_t id);
pthread_t WRAP(pthread_self)(void);
int WRAP(pthread_setname_np)(pthread_t id, const char *name);
int WRAP(pthread_once)(pthread_once_t *once, void (*run)(void));
int WRAP(pthread_mutex_init)(pthread_mutex_t *memory, const pthread_mutexattr_t *attr);
int WRAP(pthread_mutex_destroy)(pthread_mutex_t *memory);
int WRAP(pthread_mutex_lock)(pthread_mutex_t *memory);
int WRAP(pthread_mutex_unlock)(pthread_mutex_t *memory);
int WRAP(pthread_cond_init)(pthread_cond_t *memory, const pthread_condattr_t *attr);
int WRAP(pthread_cond_destroy)(pthread_cond_t *memory);
int WRAP(pthread_cond_wait)(pthread_cond_t *memory, pthread_mutex_t *mutex);
int WRAP(pthread_cond_timedwait)(pthread_cond_t *memory, pthread_mutex_t *mutex,
                                 const struct timespec *until);
int WRAP(pthread_cond_signal)(pthread_cond_t *memory);
int WRAP(pthread_cond_broadcast)(pthread_cond_t *memory);
int WRAP(sem_init)(sem_t *memory, int shared, unsigned value);
int WRAP(sem_destroy)(sem_t *memory);
int WRAP(sem_wait)(sem_t *memory);
int WRAP(sem_post)(sem_t *memory);
void WRAP(fg_rwlock_init)(struct fg_rwlock *memory);
void WRAP(fg_rwlock_done)(struct fg_rwlock *memory);
void WRAP(fg_rwlock_read)(struct fg_rwlock *memory);
void WRAP(fg_rwlock_write)(struct fg_rwlock *memory);
void WRAP(fg_rwlock_unlock)(struct fg_rwlock *memory);
int WRAP(clock_gettime)(clockid_t id, struct timespec *ret_now);
int WRAP(nanosleep)(const struct timespec *ns, struct timespec *ret_left);
ssize_t WRAP(getrandom)(void *bytes, size_t len, unsigned flags);

static struct thread *thread_of(pthread_t id)
{
    return (struct thread *)(uintptr_t)id;
}

int WRAP(pthread_create)(pthread_t *ret_thread, const pthread_attr_t *attr, void *(*run)(void *arg),
                         void *arg)
{
    struct thread *thread = make(all.running->machine, "new");

    (void)attr;
    thread->run = run;
    thread->arg = arg;
    thread->fiber = fibers_spawn(all.fibers, draw_delay(), body, thread);
    *ret_thread = (pthread_t)(uintptr_t)thread;
    return 0;
}

int WRAP(pthread_join)(pthread_t id, void **ret_result)
{
    struct thread *thread = thread_of(id);

    while (!thread->ended) {
        enqueue(&thread->joiners, all.running);
        (void)block(JOIN, thread, HERE, INT64_MAX);
    }
    if (ret_result != NULL)
        *ret_result = thread->result;
    thread->joined = true;
    collect();
    return 0;
}

int WRAP(pthread_detach)(pthread_t id)
{
    thread_of(id)->joined = true;
    return 0;
}

pthread_t WRAP(pthread_self)(void)
{
    return (pthread_t)(uintptr_t)all.running;
}

int WRAP(pthread_setname_np)(pthread_t id, const char *name)
{
    (void)snprintf(thread_of(id)->name, NAME_BYTES, "%s", name);
    return 0;
}

int WRAP(pthread_once)(pthread_once_t *once, void (*run)(void))
{
    if (*once == PTHREAD_ONCE_INIT) {
        *once = PTHREAD_ONCE_INIT + 1;
        threads_pin();
        run();
        threads_unpin();
    }
    return 0;
}

/* ---- mutexes ---- */

static void lock(struct mutex *mutex, void *at)
{
    struct thread *self = all.running;

    if (self == NULL) /* before threads_run(), and at the end: there is nobody else */
        return;
    if (mutex->owner == self && !mutex->recursive)
        fault("thread %s locks a mutex that it has", self->name);
    while (mutex->owner != NULL && mutex->owner != self)
        block_for_lock(&mutex->waiting, MUTEX, mutex, at);
    mutex->owner = self;
    if (mutex->depth++ > 0)
        return;
    fg_assert(self->n_held < HELD_MAX);
    self->held[self->n_held++] = mutex;
}

static void unlock(struct mutex *mutex)
{
    struct thread *self = all.running;
    unsigned i = self == NULL ? 0 : self->n_held;

    if (self == NULL)
        return;
    if (mutex->owner != self)
        fault("thread %s unlocks a mutex that it does not have", self->name);
    if (--mutex->depth > 0)
        return;
    while (self->held[i - 1] != mutex)
        i--;
    self->held[i - 1] = self->held[--self->n_held];
    mutex_release(mutex);
}

int WRAP(pthread_mutex_init)(pthread_mutex_t *memory, const pthread_mutexattr_t *attr)
{
    struct mutex *mutex = (void *)memory;
    int type = PTHREAD_MUTEX_NORMAL;

    *mutex = (struct mutex){0};
    if (attr != NULL)
        (void)pthread_mutexattr_gettype(attr, &type);
    mutex->recursive = type == PTHREAD_MUTEX_RECURSIVE;
    return 0;
}

int WRAP(pthread_mutex_destroy)(pthread_mutex_t *memory)
{
    const struct mutex *mutex = (void *)memory;

    if (mutex->owner != NULL || mutex->waiting.first != NULL)
        fault("a mutex is destroyed that thread %s has",
              mutex->owner != NULL ? mutex->owner->name : "(one that waits)");
    return 0;
}

int WRAP(pthread_mutex_lock)(pthread_mutex_t *memory)
{
    yield(HERE);
    lock((void *)memory, HERE);
    return 0;
}

int WRAP(pthread_mutex_unlock)(pthread_mutex_t *memory)
{
    unlock((void *)memory);
    yield(HERE);
    return 0;
}

/* ---- conditions ---- */

int WRAP(pthread_cond_init)(pthread_cond_t *memory, const pthread_condattr_t *attr)
{
    struct condition *condition = (void *)memory;
    clockid_t clock = CLOCK_REALTIME;

    *condition = (struct condition){0};
    if (attr != NULL)
        (void)pthread_condattr_getclock(attr, &clock);
    condition->wall = clock == CLOCK_REALTIME;
    return 0;
}

int WRAP(pthread_cond_destroy)(pthread_cond_t *memory)
{
    const struct condition *condition = (void *)memory;

    if (condition->waiting.first != NULL)
        fault("a condition is destroyed that thread %s waits for", condition->waiting.first->name);
    return 0;
}

/* false: the time is over. */
static bool cond_wait(pthread_cond_t *memory, pthread_mutex_t *mutex, int64_t ns, void *at)
{
    struct condition *condition = (void *)memory;
    struct thread *self = all.running;
    bool for_nothing = threads_draw(64) == 0;
    int64_t early_ns = (int64_t)threads_draw((uint64_t)(10 * FG_MS_NS));
    bool woken;

    count_step();
    enqueue(&condition->waiting, self);
    unlock((void *)mutex);
    for_nothing &= early_ns < ns;
    woken = block(CONDITION, condition, at, for_nothing ? early_ns : FG_MAX(ns, 0));
    dequeue(self);
    lock((void *)mutex, at);
    return woken || for_nothing;
}

int WRAP(pthread_cond_wait)(pthread_cond_t *memory, pthread_mutex_t *mutex)
{
    (void)cond_wait(memory, mutex, INT64_MAX, HERE);
    return 0;
}

static int64_t offset_of(clockid_t clock)
{
    /* 22 November 2023: wall time of a run's start. */
    return clock == CLOCK_REALTIME ? INT64_C(1700600000) * FG_SECOND_NS : 0;
}

int WRAP(pthread_cond_timedwait)(pthread_cond_t *memory, pthread_mutex_t *mutex,
                                 const struct timespec *until)
{
    const struct condition *condition = (void *)memory;
    clockid_t clock = condition->wall ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    int64_t ns = INT64_MAX;

    if (until->tv_nsec < 0 || until->tv_nsec >= FG_SECOND_NS)
        return EINVAL;
    if (until->tv_sec < INT64_MAX / FG_SECOND_NS)
        ns = (int64_t)until->tv_sec * FG_SECOND_NS + until->tv_nsec - offset_of(clock) -
             threads_now_ns();
    return cond_wait(memory, mutex, ns, HERE) ? 0 : ETIMEDOUT;
}

int WRAP(pthread_cond_signal)(pthread_cond_t *memory)
{
    wake_first(&((struct condition *)(void *)memory)->waiting);
    yield(HERE);
    return 0;
}

int WRAP(pthread_cond_broadcast)(pthread_cond_t *memory)
{
    wake_all(&((struct condition *)(void *)memory)->waiting);
    yield(HERE);
    return 0;
}

/* ---- semaphores ---- */

int WRAP(sem_init)(sem_t *memory, int shared, unsigned value)
{
    struct semaphore *semaphore = (void *)memory;

    fg_assert(shared == 0);
    *semaphore = (struct semaphore){.value = value};
    return 0;
}

int WRAP(sem_destroy)(sem_t *memory)
{
    const struct semaphore *semaphore = (void *)memory;

    if (semaphore->waiting.first != NULL)
        fault("a semaphore is destroyed that thread %s waits for", semaphore->waiting.first->name);
    return 0;
}

int WRAP(sem_wait)(sem_t *memory)
{
    struct semaphore *semaphore = (void *)memory;

    yield(HERE);
    while (semaphore->value == 0) {
        enqueue(&semaphore->waiting, all.running);
        (void)block(SEMAPHORE, semaphore, HERE, INT64_MAX);
    }
    semaphore->value--;
    return 0;
}

int WRAP(sem_post)(sem_t *memory)
{
    struct semaphore *semaphore = (void *)memory;

    semaphore->value++;
    wake_first(&semaphore->waiting);
    yield(HERE);
    return 0;
}

/* ---- read-write locks: writers first ---- */

void WRAP(fg_rwlock_init)(struct fg_rwlock *memory)
{
    *(struct rwlock *)(void *)memory = (struct rwlock){0};
}

void WRAP(fg_rwlock_done)(struct fg_rwlock *memory)
{
    const struct rwlock *rwlock = (void *)memory;

    if (rwlock->writer != NULL || rwlock->readers > 0 || rwlock->waiting.first != NULL)
        fault("a read-write lock is destroyed that somebody has");
}

void WRAP(fg_rwlock_read)(struct fg_rwlock *memory)
{
    struct rwlock *rwlock = (void *)memory;

    yield(HERE);
    while (rwlock->writer != NULL || rwlock->writers_waiting > 0)
        block_for_lock(&rwlock->waiting, READING, rwlock, HERE);
    rwlock->readers++;
}

void WRAP(fg_rwlock_write)(struct fg_rwlock *memory)
{
    struct rwlock *rwlock = (void *)memory;

    yield(HERE);
    rwlock->writers_waiting++;
    while (rwlock->writer != NULL || rwlock->readers > 0)
        block_for_lock(&rwlock->waiting, WRITING, rwlock, HERE);
    rwlock->writers_waiting--;
    rwlock->writer = all.running;
}

void WRAP(fg_rwlock_unlock)(struct fg_rwlock *memory)
{
    struct rwlock *rwlock = (void *)memory;

    if (rwlock->writer != NULL) {
        if (rwlock->writer != all.running)
            fault("a read-write lock is unlocked by another thread");
        rwlock->writer = NULL;
    } else {
        fg_assert(rwlock->readers > 0);
        rwlock->readers--;
    }
    wake_all(&rwlock->waiting);
    yield(HERE);
}

/* ---- time and chance ---- */

int WRAP(clock_gettime)(clockid_t id, struct timespec *ret_now)
{
    int64_t now_ns = threads_now_ns() + offset_of(id);

    *ret_now = (struct timespec){now_ns / FG_SECOND_NS, now_ns % FG_SECOND_NS};
    return 0;
}

int WRAP(nanosleep)(const struct timespec *ns, struct timespec *ret_left)
{
    (void)ret_left;
    threads_sleep((int64_t)ns->tv_sec * FG_SECOND_NS + ns->tv_nsec);
    return 0;
}

ssize_t WRAP(getrandom)(void *bytes, size_t len, unsigned flags)
{
    uint8_t *out = bytes;

    (void)flags;
    for (size_t i = 0; i < len; i++)
        out[i] = (uint8_t)threads_draw(256);
    return (ssize_t)len;
}
