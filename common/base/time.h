/*
 * Clocks and durations. Wall time is nanoseconds since 1970 UTC (names end with _wall_ns, or _ns in
 * data that comes from outside). Monotonic time (_mono_ns) is for deadlines. Never mix the two in
 * one expression.
 *
 * The clock is one of the four interfaces between our logic and the world: code that decides by
 * time takes a clock, so that tests and the simulator can drive it.
 */
#ifndef FG_COMMON_BASE_TIME_H
#define FG_COMMON_BASE_TIME_H

#include "common/base/def.h"

#define FG_MS_NS     INT64_C(1000000)
#define FG_SECOND_NS INT64_C(1000000000)
#define FG_MINUTE_NS (60 * FG_SECOND_NS)
#define FG_HOUR_NS   (60 * FG_MINUTE_NS)

struct fg_clock {
    const struct fg_clock_ops *ops;
};

struct fg_clock_ops {
    int64_t (*wall_ns)(struct fg_clock *clock);
    int64_t (*mono_ns)(struct fg_clock *clock);
};

/* Returns the machine's clock, one for the process. Any thread. */
struct fg_clock *fg_clock_real(void);

/* Returns the CPU time of the calling thread. It is a measurement: nothing is decided by it. */
int64_t fg_thread_cpu_ns(void);

/* A clock that stands still until it is advanced. Threads may read it while one advances it. */
struct fg_clock_manual {
    struct fg_clock clock;
    _Atomic int64_t wall_ns, mono_ns;
};
/* Sets wall time; monotonic time starts at 0. */
void fg_clock_manual_init(struct fg_clock_manual *manual, int64_t wall_ns);
/* Advances both times. */
void fg_clock_manual_advance(struct fg_clock_manual *manual, int64_t by_ns);

/* Return the current time. */
static inline int64_t fg_wall_ns(struct fg_clock *clock)
{
    return clock->ops->wall_ns(clock);
}

static inline int64_t fg_mono_ns(struct fg_clock *clock)
{
    return clock->ops->mono_ns(clock);
}

/* Returns time + duration, clamped to 64 bits: both may come from clients. */
static inline int64_t fg_time_add(int64_t time_ns, int64_t duration_ns)
{
    int64_t sum;

    if (__builtin_add_overflow(time_ns, duration_ns, &sum))
        return duration_ns > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

/* Returns the last nanosecond of the millisecond that begins at time_ns: an inclusive end that a
 * client gave in milliseconds. */
static inline int64_t fg_time_ms_end(int64_t time_ns)
{
    return fg_time_add(time_ns, FG_MS_NS - 1);
}

/* Returns the smallest k >= 0 with start_ns + k * step_ns >= time_ns. step_ns > 0. */
static inline uint64_t fg_time_grid(int64_t start_ns, int64_t step_ns, int64_t time_ns)
{
    if (time_ns <= start_ns)
        return 0;
    return ((uint64_t)time_ns - (uint64_t)start_ns - 1) / (uint64_t)step_ns + 1;
}

#endif
