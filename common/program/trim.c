#include "common/program/trim.h"

#include "common/runtime/log.h"

#include <malloc.h>

enum {
    EVERY_MS = 1000,                   /* looks at three counters */
    PEAK_MIN_BYTES = 32 * 1024 * 1024, /* malloc may keep less than that */
    FALL = 4,                          /* little is a quarter of the peak */
    CALM_TICKS = 5,                    /* bursts of uploads follow one another by seconds */
    SMALL_TICKS = 10,                  /* a heap of 30 MiB takes a few milliseconds */
};

static enum fg_code run(struct fg_job *job, struct fg_err *err)
{
    const struct fg_trim *trim = fg_container(job, struct fg_trim, job);
    int64_t start_ns = fg_mono_ns(fg_clock_real());

    (void)err;
    /* Its result only says whether anything was returned. */
    (void)malloc_trim(0);
    if (!trim->small) /* else it is nothing that has happened */
        fg_log_info("freed memory returned to the operating system",
                    fg_li("took_ms", (fg_mono_ns(fg_clock_real()) - start_ns) / FG_MS_NS));
    return FG_OK;
}

static void done(struct fg_job *job)
{
    atomic_store(&fg_container(job, struct fg_trim, job)->busy, false);
}

/* Returns memory after so many calls in a row. */
static void trim_after(struct fg_trim *trim, unsigned ticks, uint64_t used_bytes)
{
    /* busy: the job before has not ended, and a job must not be submitted twice. */
    if (++trim->calm < ticks || atomic_exchange(&trim->busy, true))
        return;
    trim->job = (struct fg_job){.run = run, .done = done};
    /* If the lane is full the peak stays, and the next tick tries again. */
    if (!fg_work_submit(trim->work, FG_LANE_BACKGROUND, &trim->job)) {
        atomic_store(&trim->busy, false);
        return;
    }
    trim->peak_bytes = used_bytes;
    trim->calm = 0;
}

static void on_timer(uv_timer_t *timer)
{
    struct fg_trim *trim = timer->data;
    uint64_t used_bytes = 0;

    for (size_t i = 0; i < TRIM_BUDGETS_MAX && trim->budgets[i] != NULL; i++)
        used_bytes += fg_budget_used(trim->budgets[i]);
    trim->peak_bytes = FG_MAX(trim->peak_bytes, used_bytes);
    if (trim->small) {
        trim_after(trim, SMALL_TICKS, used_bytes);
        return;
    }
    /* Trims only after a peak is over, and not while load goes up and down: the memory would be
     * asked for again at once, page by page. */
    if (trim->peak_bytes < PEAK_MIN_BYTES || used_bytes > trim->peak_bytes / FALL) {
        trim->calm = 0;
        return;
    }
    trim_after(trim, CALM_TICKS, used_bytes);
}

static void start_on_loop(void *arg)
{
    struct fg_trim *trim = arg;

    fg_assert(uv_timer_init(fg_loop_uv(trim->loop), &trim->timer) == 0);
    trim->timer.data = trim;
    fg_assert(uv_timer_start(&trim->timer, on_timer, EVERY_MS, EVERY_MS) == 0);
}

static void stop_on_loop(void *arg)
{
    struct fg_trim *trim = arg;

    uv_close((uv_handle_t *)&trim->timer, NULL);
}

void fg_trim_start(struct fg_trim *trim)
{
    fg_loop_call(trim->loop, start_on_loop, trim);
}

void fg_trim_stop(struct fg_trim *trim)
{
    fg_loop_call(trim->loop, stop_on_loop, trim);
}
