#include "common/runtime/foreground.h"

#include "common/base/time.h"
#include "common/runtime/thread.h"

#include <stdatomic.h>

enum { WAITS_PER_WORK = 4 }; /* of any longer time, a fifth is left for work */
static const int64_t PATIENCE_MAX_NS = 20 * FG_MS_NS;

static atomic_uint under_way;
static atomic_uint waiting; /* threads; changed under the lock */
static _Atomic int64_t waited_ns;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over sleep and wake only */
static pthread_cond_t none_left;                         /* no foreground work is under way */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static _Thread_local struct fg_patience mine;

static void init(void)
{
    fg_cond_init(&none_left);
}

void fg_foreground_begin(void)
{
    (void)atomic_fetch_add(&under_way, 1);
}

void fg_foreground_end(void)
{
    unsigned before = atomic_fetch_sub(&under_way, 1);

    fg_assert(before > 0);
    /* Sequentially consistent: either this sees the thread that waits, or that sees that none is
     * under way. */
    if (before > 1 || atomic_load(&waiting) == 0)
        return;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&none_left);
    pthread_mutex_unlock(&lock);
}

bool fg_foreground_is_under_way(void)
{
    return atomic_load(&under_way) > 0;
}

void fg_patience_worked(struct fg_patience *patience, int64_t now_mono_ns)
{
    int64_t worked = FG_MIN(now_mono_ns - patience->since_mono_ns, PATIENCE_MAX_NS);

    if (patience->since_mono_ns != 0)
        patience->left_ns = FG_MIN(patience->left_ns + worked * WAITS_PER_WORK, PATIENCE_MAX_NS);
    patience->since_mono_ns = now_mono_ns;
}

void fg_patience_waited(struct fg_patience *patience, int64_t now_mono_ns)
{
    patience->left_ns -= FG_MIN(now_mono_ns - patience->since_mono_ns, patience->left_ns);
    patience->since_mono_ns = now_mono_ns;
}

/* It does not look again and again: a thread that wakes up is one that waits for a processor. */
static void sleep_until(int64_t until_mono_ns)
{
    const struct timespec until = {until_mono_ns / FG_SECOND_NS, until_mono_ns % FG_SECOND_NS};
    int rv = 0;

    (void)pthread_once(&once, init);
    pthread_mutex_lock(&lock);
    (void)atomic_fetch_add(&waiting, 1);
    while (rv == 0 && fg_foreground_is_under_way())
        rv = pthread_cond_timedwait(&none_left, &lock, &until);
    (void)atomic_fetch_sub(&waiting, 1);
    pthread_mutex_unlock(&lock);
}

void fg_foreground_let_pass(void)
{
    int64_t began_ns;

    if (!fg_thread_has_low_priority())
        return;
    began_ns = fg_mono_ns(fg_clock_real());
    fg_patience_worked(&mine, began_ns);
    if (mine.left_ns == 0 || !fg_foreground_is_under_way())
        return;
    sleep_until(began_ns + mine.left_ns);
    fg_patience_waited(&mine, fg_mono_ns(fg_clock_real()));
    (void)atomic_fetch_add(&waited_ns, mine.since_mono_ns - began_ns);
}

int64_t fg_foreground_waited_ns(void)
{
    return atomic_load(&waited_ns);
}
