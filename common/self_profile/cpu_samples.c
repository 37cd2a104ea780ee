#include "common/self_profile/cpu_samples.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/self_profile/own_stack.h"
#include "common/self_profile/stack_ring.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    STACKS_MAX = 4096,   /* 2.3 MiB */
    THREADS_MAX = 1024,  /* further ones are not profiled */
    NAMES_MAX = 64,      /* further ones are "other" */
    NAME_MAX_BYTES = 16, /* of a thread, with NUL: TASK_COMM_LEN */
};

struct cpu_thread {
    pid_t tid; /* 0: unused */
    timer_t timer;
    uint32_t tag;
    bool seen;     /* in the search under way */
    bool has_name; /* for certain: a new thread names itself only after it has started */
};

struct fg_cpu_samples {
    int64_t period_ns;
    struct fg_stack_ring *ring;
    struct fg_stack_counts *stacks;
    uint64_t table_full;
    struct cpu_thread threads[THREADS_MAX];
    uint32_t n_threads; /* that were ever used */
    char names[NAMES_MAX][NAME_MAX_BYTES];
    uint32_t n_names;
};

/* For the handler. NULL: none may be put any more. It is never freed, since a handler may run. */
static struct fg_stack_ring *_Atomic ring;

/* ---- the handler: nothing here may lock, allocate or fail ---- */

static struct fg_stack_registers registers_of(const void *context)
{
    const ucontext_t *user = context;
    const mcontext_t *machine = &user->uc_mcontext;

#if defined(__x86_64__)
    return (struct fg_stack_registers){.pc = (uintptr_t)machine->gregs[REG_RIP],
                                       .fp = (uintptr_t)machine->gregs[REG_RBP],
                                       .sp = (uintptr_t)machine->gregs[REG_RSP],
                                       .high = fg_own_stack_high()};
#elif defined(__aarch64__)
    return (struct fg_stack_registers){.pc = (uintptr_t)machine->pc,
                                       .fp = (uintptr_t)machine->regs[29],
                                       .sp = (uintptr_t)machine->sp,
                                       .high = fg_own_stack_high()};
#else
#error "self_profile: say where the registers of this processor are"
#endif
}

static void on_tick(int signal, siginfo_t *info, void *context)
{
    struct fg_stack_ring *to = atomic_load_explicit(&ring, memory_order_acquire);
    struct fg_stack_registers registers;

    (void)signal;
    if (to == NULL || info->si_code != SI_TIMER) /* someone else's */
        return;
    registers = registers_of(context);
    (void)fg_stack_ring_put(to, (uint32_t)info->si_value.sival_int,
                            1 + (uint32_t)FG_MAX(info->si_overrun, 0), fg_unwind_map(), &registers);
}

static void handle_with(void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_flags = SA_RESTART | SA_SIGINFO};

    if (handler != NULL)
        action.sa_sigaction = handler;
    else
        action = (struct sigaction){.sa_handler = SIG_IGN};
    fg_assert(sigaction(SIGPROF, &action, NULL) == 0);
}

/* ---- threads ---- */

static void read_name(const char *tid, char name[NAME_MAX_BYTES])
{
    char path[64];
    ssize_t len = -1;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/self/task/%.10s/comm", tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        len = read(fd, name, NAME_MAX_BYTES - 1);
        (void)close(fd);
    }
    name[FG_MAX(len, 0)] = '\0';
}

/* Returns the tag of a thread's name; the number at its end is left out: workers of a pool are one.
 */
static uint32_t tag_of(struct fg_cpu_samples *cpu, const char *tid)
{
    char name[NAME_MAX_BYTES];
    struct fg_slice text;
    uint32_t tag;

    read_name(tid, name);
    text = fg_trim(fg_cstr(name));
    while (text.len > 1 && ((text.ptr[text.len - 1] >= '0' && text.ptr[text.len - 1] <= '9') ||
                            strchr("-_:", text.ptr[text.len - 1]) != NULL))
        text.len--;
    for (tag = 0; tag < cpu->n_names; tag++)
        if (fg_slice_is(text, cpu->names[tag]))
            return tag;
    if (tag == NAMES_MAX - 1)
        text = FG_LIT("other");
    if (tag == NAMES_MAX)
        return NAMES_MAX - 1;
    (void)snprintf(cpu->names[tag], NAME_MAX_BYTES, "%.*s", FG_S(text));
    return cpu->n_names++;
}

/* The kernel's encoding of the clock of a thread's processor time, which glibc has a function for
 * only if there is a pthread_t: ~tid << 3 | CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED. */
static clockid_t clock_of(pid_t tid)
{
    return (clockid_t)(~(unsigned)tid << 3 | 4 | 2);
}

static bool make_timer(const struct fg_cpu_samples *cpu, struct cpu_thread *thread)
{
    const struct timespec period = {cpu->period_ns / FG_SECOND_NS, cpu->period_ns % FG_SECOND_NS};
    const struct itimerspec times = {.it_interval = period, .it_value = period};
    struct sigevent event = {
        .sigev_notify = SIGEV_THREAD_ID,
        .sigev_signo = SIGPROF,
        .sigev_value.sival_int = (int)(thread - cpu->threads),
    };

    event._sigev_un._tid = thread->tid;
    if (timer_create(clock_of(thread->tid), &event, &thread->timer) != 0)
        return false; /* the thread has ended, or there are too many timers */
    if (timer_settime(thread->timer, 0, &times, NULL) == 0)
        return true;
    (void)timer_delete(thread->timer);
    return false;
}

/* Marks a thread as seen. Gives it a timer if it is new. */
static void see(struct fg_cpu_samples *cpu, const char *tid_text)
{
    struct cpu_thread *unused = NULL;
    uint64_t tid = 0;

    if (!fg_parse_u64(fg_cstr(tid_text), &tid) || tid == 0)
        return;
    for (uint32_t i = 0; i < cpu->n_threads; i++) {
        struct cpu_thread *thread = &cpu->threads[i];

        if (thread->tid == (pid_t)tid) {
            if (!thread->has_name)
                thread->tag = tag_of(cpu, tid_text);
            thread->seen = thread->has_name = true;
            return;
        }
        if (thread->tid == 0)
            unused = thread;
    }
    if (unused == NULL) {
        if (cpu->n_threads == THREADS_MAX)
            return;
        unused = &cpu->threads[cpu->n_threads++];
    }
    *unused = (struct cpu_thread){.tid = (pid_t)tid, .tag = tag_of(cpu, tid_text), .seen = true};
    if (!make_timer(cpu, unused))
        unused->tid = 0;
}

void fg_cpu_samples_find_threads(struct fg_cpu_samples *cpu)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;

    if (tasks == NULL)
        return;
    for (uint32_t i = 0; i < cpu->n_threads; i++)
        cpu->threads[i].seen = false;
    while ((task = readdir(tasks)) != NULL) /* NOLINT(concurrency-mt-unsafe): of its own stream */
        see(cpu, task->d_name);
    (void)closedir(tasks);
    for (uint32_t i = 0; i < cpu->n_threads; i++) {
        struct cpu_thread *thread = &cpu->threads[i];

        if (thread->tid == 0 || thread->seen)
            continue;
        (void)timer_delete(thread->timer);
        thread->tid = 0;
    }
}

/* ---- the profile ---- */

enum fg_code fg_cpu_samples_start(int64_t period_ns, struct fg_cpu_samples **ret_cpu,
                                  struct fg_err *err)
{
    static struct fg_stack_ring *only; /* stays: see `ring` */
    struct fg_cpu_samples *cpu;
    struct timespec resolution;

    if (clock_getres(CLOCK_THREAD_CPUTIME_ID, &resolution) != 0)
        return fg_fail_errno(err, errno, "timers of processor time");
    if (only == NULL) {
        only = mmap(NULL, sizeof *only, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (only == MAP_FAILED) {
            only = NULL;
            return fg_fail_errno(err, errno, "ring of stacks");
        }
        fg_stack_ring_init(only);
    }
    cpu = fg_new(struct fg_cpu_samples);
    cpu->period_ns = period_ns;
    cpu->ring = only;
    cpu->stacks = fg_stack_counts_create(STACKS_MAX);
    atomic_store(&ring, only);
    handle_with(on_tick);
    *ret_cpu = cpu;
    return FG_OK;
}

void fg_cpu_samples_stop(struct fg_cpu_samples *cpu)
{
    if (cpu == NULL)
        return;
    for (uint32_t i = 0; i < cpu->n_threads; i++)
        if (cpu->threads[i].tid != 0)
            (void)timer_delete(cpu->threads[i].timer);
    /* Signals that are on their way would end the process without a handler. */
    handle_with(NULL);
    atomic_store(&ring, NULL);
    while (fg_stack_ring_take(cpu->ring) != NULL) /* of the next profile */
        fg_stack_ring_release(cpu->ring);
    fg_stack_counts_destroy(cpu->stacks);
    free(cpu);
}

void fg_cpu_samples_collect(struct fg_cpu_samples *cpu)
{
    const struct fg_stack_slot *slot;

    while ((slot = fg_stack_ring_take(cpu->ring)) != NULL) {
        uint32_t tag = cpu->threads[slot->tag].tag;
        uint32_t stack = fg_stack_counts_find(cpu->stacks, tag, slot->pcs, slot->depth);

        if (stack == FG_STACK_NONE)
            cpu->table_full += slot->count;
        else
            fg_stack_counts_at(cpu->stacks, stack)->values[FG_CPU_TICKS] += slot->count;
        fg_stack_ring_release(cpu->ring);
    }
}

void fg_cpu_samples_sweep(struct fg_cpu_samples *cpu,
                          void (*each)(void *arg, const struct fg_stack_entry *entry), void *arg)
{
    struct fg_stack_batch *batch = fg_new(struct fg_stack_batch);
    uint32_t from = 0;
    bool more = true;

    while (more) {
        more = fg_stack_counts_take(cpu->stacks, FG_STACK_ALL_VALUES, &from, batch);
        for (uint32_t i = 0; i < batch->count; i++)
            each(arg, &batch->entries[i]);
    }
    free(batch);
}

const char *fg_cpu_samples_thread(const struct fg_cpu_samples *cpu, uint32_t tag)
{
    return tag < cpu->n_names ? cpu->names[tag] : "other";
}

uint64_t fg_cpu_samples_dropped(const struct fg_cpu_samples *cpu)
{
    return cpu->table_full + atomic_load_explicit(&cpu->ring->dropped, memory_order_relaxed);
}
