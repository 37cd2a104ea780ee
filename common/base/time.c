#include "common/base/time.h"

#include <stdatomic.h>

/* 64 bits of nanoseconds reach to the year 2262. */
static int64_t read_clock(clockid_t id)
{
    struct timespec now;

    fg_assert(clock_gettime(id, &now) == 0);
    return (int64_t)now.tv_sec * FG_SECOND_NS + now.tv_nsec;
}

static int64_t real_wall(struct fg_clock *clock)
{
    (void)clock;
    return read_clock(CLOCK_REALTIME);
}

/* Stands still while the machine sleeps, and never jumps: for deadlines and durations only. */
static int64_t real_mono(struct fg_clock *clock)
{
    (void)clock;
    return read_clock(CLOCK_MONOTONIC);
}

struct fg_clock *fg_clock_real(void)
{
    static const struct fg_clock_ops ops = {real_wall, real_mono};
    static struct fg_clock real = {&ops};

    return &real;
}

int64_t fg_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

static int64_t manual_wall(struct fg_clock *clock)
{
    return fg_container(clock, struct fg_clock_manual, clock)->wall_ns;
}

static int64_t manual_mono(struct fg_clock *clock)
{
    return fg_container(clock, struct fg_clock_manual, clock)->mono_ns;
}

void fg_clock_manual_init(struct fg_clock_manual *manual, int64_t wall_ns)
{
    static const struct fg_clock_ops ops = {manual_wall, manual_mono};

    manual->clock.ops = &ops;
    atomic_init(&manual->wall_ns, wall_ns);
    atomic_init(&manual->mono_ns, 0);
}

void fg_clock_manual_advance(struct fg_clock_manual *manual, int64_t by_ns)
{
    manual->wall_ns += by_ns;
    manual->mono_ns += by_ns;
}
