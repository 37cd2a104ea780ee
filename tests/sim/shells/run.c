#include "tests/sim/shells/run.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/runtime/log.h"
#include "tests/lib/threads.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LINES = 40, LINE_BYTES = 200 };

static struct {
    uint64_t seed;
    bool trace;
    char lines[LINES][LINE_BYTES];
    unsigned n_lines;
    run_seed *run;
    uint64_t *counts;
} current;

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t value;

    return text != NULL && fg_parse_u64(fg_cstr(text), &value) ? value : otherwise;
}

void run_trace(const char *fmt, ...)
{
    char *line = current.lines[current.n_lines++ % LINES];
    int n = snprintf(line, LINE_BYTES, "%11.3f ", (double)threads_now_ns() / 1e9);
    va_list args;

    va_start(args, fmt);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it was begun in the line above */
    (void)vsnprintf(line + n, LINE_BYTES - (size_t)n, fmt, args);
    va_end(args);
    if (current.trace)
        (void)fprintf(stderr, "%s\n", line);
}

void run_fault(const char *fmt, ...)
{
    va_list args;

    if (!current.trace)
        for (unsigned i = 0; i < FG_MIN(current.n_lines, LINES); i++)
            (void)fprintf(stderr, "%s\n",
                          current.lines[(FG_MAX(current.n_lines, LINES) + i) % LINES]);
    threads_describe();
    (void)fprintf(stderr, "seed %" PRIu64 ": ", current.seed);
    va_start(args, fmt);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it was begun in the line above */
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    (void)fputc('\n', stderr);
    _exit(1);
}

static void on_fault(const char *why)
{
    run_fault("%s", why);
}

static void run_one(void *arg)
{
    (void)arg;
    current.run(current.counts);
}

/* In a process of its own nobody is there to go on with the other tests. */
static void let_die(void)
{
    static const int signals[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS, SIGABRT};

    for (size_t i = 0; i < FG_COUNT(signals); i++)
        (void)signal(signals[i], SIG_DFL); /* not cmocka's */
}

static pid_t start(run_seed *run, uint64_t seed, uint64_t *counts)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    let_die();
    current.seed = seed;
    current.trace = setting("FG_SHELLS_TRACE", 0) != 0;
    current.run = run;
    current.counts = counts;
    threads_on_fault = on_fault;
    /* Logging takes a lock: a run is the same with and without it being seen. */
    if (!current.trace)
        fg_log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
    threads_run(seed, run_one, NULL);
    _exit(0);
}

void run_seeds(run_seed *run, unsigned seeds, uint64_t counts[RUN_COUNTS])
{
    uint64_t first = setting("FG_SHELLS_FIRST", 0), end = first + setting("FG_SHELLS_SEEDS", seeds);
    uint64_t jobs = FG_MAX(setting("FG_SHELLS_JOBS", 1), 1), running = 0, next = first;
    const size_t bytes = RUN_COUNTS * sizeof *counts;
    uint64_t *shared = mmap(NULL, (end - first) * bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t *pids = fg_calloc(end - first, sizeof *pids);
    unsigned failed = 0;

    assert_true(shared != MAP_FAILED);
    (void)fflush(NULL); /* or each process says again what was said before it */
    while (next < end || running > 0) {
        int status;
        pid_t pid;

        if (next < end && running < jobs && failed == 0) {
            pids[next - first] = start(run, next, shared + (next - first) * RUN_COUNTS);
            next++;
            running++;
            continue;
        }
        if (running == 0)
            break;
        pid = wait(&status);
        assert_true(pid > 0);
        running--;
        if (status == 0)
            continue;
        failed++;
        for (uint64_t i = 0; i < next - first; i++)
            if (pids[i] == pid)
                print_message("  seed %" PRIu64 " ended with status %x\n", first + i,
                              (unsigned)status);
    }
    memset(counts, 0, bytes);
    for (uint64_t i = 0; i < end - first; i++)
        for (unsigned c = 0; c < RUN_COUNTS; c++)
            counts[c] += shared[i * RUN_COUNTS + c];
    (void)munmap(shared, (end - first) * bytes);
    free(pids);
    if (failed > 0)
        fail_msg("%u of the seeds up to %" PRIu64 " found a fault, see above", failed, next - 1);
}

bool run_chance(unsigned permille)
{
    return threads_draw(1000) < permille;
}

int64_t run_draw_ns(int64_t most)
{
    return (int64_t)threads_draw((uint64_t)most);
}

void run_wait_until(const bool *done, int64_t max_ns, const char *what)
{
    int64_t begin_ns = threads_now_ns();

    while (!*done) {
        threads_sleep(10 * FG_MS_NS);
        if (threads_now_ns() - begin_ns > max_ns)
            run_fault("%s takes more than %lld s", what, (long long)(max_ns / FG_SECOND_NS));
    }
}
