#include "common/program/watchdog.h"

#include "common/program/liveness.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    TICKS_PER_WATCHDOG = 4, /* two ticks may be late or find no progress */
    STATUS_MAX_BYTES = 2048,
    LINE_MAX_BYTES = 2 * STATUS_MAX_BYTES, /* line breaks become longer */
    LINES_MAX_BYTES = 2 * LINE_MAX_BYTES,
};

static const int64_t TICK_MAX_NS = 5 * FG_SECOND_NS; /* how old a status may be */

/* A message that a loop has to answer. */
struct probe {
    struct fg_msg msg;
    _Atomic bool away;
    _Atomic uint64_t answered;
};

struct fg_watchdog {
    struct fg_watchdog_config config;
    struct fg_ticker *ticker;
    struct probe *probes; /* one for each loop */
    /* The ticker's: loops, then lanes. */
    struct fg_liveness *parts;
    struct fg_liveness_sight *sights;
    size_t n_parts;
    pthread_mutex_t lock;
    bool hushed;          /* under the lock, as calls of put_status() and looks at the workers */
    int64_t ping_mono_ns; /* the last one */
    bool reported;        /* that none has come since */
    struct fg_buf told;   /* the last status */
};

static void answer(struct fg_msg *msg)
{
    struct probe *probe = fg_container(msg, struct probe, msg);

    (void)atomic_fetch_add(&probe->answered, 1);
    atomic_store(&probe->away, false);
}

static void send_probe(struct fg_watchdog *watchdog, size_t i)
{
    struct probe *probe = &watchdog->probes[i];

    if (!atomic_exchange(&probe->away, true))
        fg_loop_post(watchdog->config.loops[i], &probe->msg);
}

/* Warns once when half of the time is over: short of that workers may just have long jobs. */
static void report_stuck(struct fg_watchdog *watchdog, size_t part)
{
    size_t n_loops = watchdog->config.n_loops;
    int64_t silent_ns = fg_mono_ns(fg_clock_real()) - watchdog->ping_mono_ns;

    if (watchdog->reported || silent_ns < watchdog->config.notify->watchdog_ns / 2)
        return;
    fg_log_warn("no progress, the service manager is not told that this program is alive",
                fg_ls("part", part < n_loops ? "loop" : "lane"),
                fg_lu("number", part < n_loops ? part : part - n_loops));
    watchdog->reported = true;
}

/* Lanes of workers that end are not waited for: a service destroys them as it stops. */
static void look_at_workers(struct fg_watchdog *watchdog)
{
    struct fg_liveness_sight *lanes = watchdog->sights + watchdog->config.n_loops;

    fg_assert(pthread_mutex_lock(&watchdog->lock) == 0);
    for (unsigned i = 0; i < FG_LANES; i++) {
        struct fg_lane_state state = {0};

        if (!watchdog->hushed)
            fg_work_state(watchdog->config.work, (enum fg_lane)i, &state);
        lanes[i] = (struct fg_liveness_sight){.ended = state.ended, .waits = state.queued > 0};
    }
    fg_assert(pthread_mutex_unlock(&watchdog->lock) == 0);
}

static void put_ping(struct fg_watchdog *watchdog, struct fg_buf *out)
{
    size_t stuck;

    /* Reads the answers to the last probes and sends the next ones. */
    for (size_t i = 0; i < watchdog->config.n_loops; i++) {
        struct probe *probe = &watchdog->probes[i];

        /* Always waiting: a loop that has answered no probe has not moved. */
        watchdog->sights[i] =
            (struct fg_liveness_sight){.ended = atomic_load(&probe->answered), .waits = true};
        send_probe(watchdog, i);
    }
    look_at_workers(watchdog);
    stuck = fg_liveness_stuck(watchdog->parts, watchdog->sights, watchdog->n_parts);
    if (stuck < watchdog->n_parts) {
        report_stuck(watchdog, stuck);
        return;
    }
    fg_buf_puts(out, "WATCHDOG=1\n");
    watchdog->ping_mono_ns = fg_mono_ns(fg_clock_real());
    watchdog->reported = false;
}

/* Appends the status if it is another one than before. */
static void put_status(struct fg_watchdog *watchdog, struct fg_buf *out)
{
    struct fg_buf text, line;

    fg_buf_init(&text, STATUS_MAX_BYTES);
    fg_buf_init(&line, LINE_MAX_BYTES);
    fg_assert(pthread_mutex_lock(&watchdog->lock) == 0);
    if (watchdog->hushed)
        fg_buf_puts(&text, "stopping");
    else
        watchdog->config.put_status(watchdog->config.arg, &text);
    fg_assert(pthread_mutex_unlock(&watchdog->lock) == 0);
    fg_notify_put_status(fg_buf_slice(&text), &line);
    if (!fg_slice_eq(fg_buf_slice(&line), fg_buf_slice(&watchdog->told))) {
        fg_buf_put(out, fg_buf_slice(&line));
        fg_buf_clear(&watchdog->told);
        fg_buf_put(&watchdog->told, fg_buf_slice(&line));
    }
    fg_buf_done(&line);
    fg_buf_done(&text);
}

static void tick(void *arg)
{
    struct fg_watchdog *watchdog = arg;
    struct fg_buf lines;
    struct fg_err err;

    fg_buf_init(&lines, LINES_MAX_BYTES);
    if (watchdog->config.notify->watchdog_ns > 0)
        put_ping(watchdog, &lines);
    put_status(watchdog, &lines);
    if (lines.len > 0) {
        fg_buf_putc(&lines, '\0');
        if (fg_notify_send(watchdog->config.notify, (const char *)lines.ptr, &err) != FG_OK)
            fg_log_warn("the service manager was not told how the program is",
                        fg_ls("err", err.msg));
    }
    fg_buf_done(&lines);
}

static void nothing(void *arg)
{
    (void)arg;
}

/* Probes belong to their loops until they are answered, and messages run in order. */
static void take_probes_back(struct fg_watchdog *watchdog)
{
    struct fg_watchdog_config *config = &watchdog->config;

    for (size_t i = 0; i < config->n_loops; i++)
        fg_loop_call(config->loops[i], nothing, NULL);
}

static void release(struct fg_watchdog *watchdog)
{
    fg_assert(pthread_mutex_destroy(&watchdog->lock) == 0);
    fg_buf_done(&watchdog->told);
    free(watchdog->probes);
    free(watchdog->parts);
    free(watchdog->sights);
    free(watchdog);
}

enum fg_code fg_watchdog_create(const struct fg_watchdog_config *config,
                                struct fg_watchdog **ret_watchdog, struct fg_err *err)
{
    int64_t watchdog_ns = config->notify->watchdog_ns, period_ns = TICK_MAX_NS;
    struct fg_watchdog *watchdog;

    *ret_watchdog = NULL;
    if (config->notify->address_bytes == 0)
        return FG_OK;
    if (watchdog_ns > 0)
        period_ns = FG_MIN(watchdog_ns / TICKS_PER_WATCHDOG, period_ns);
    watchdog = fg_new(struct fg_watchdog);
    watchdog->config = *config;
    watchdog->n_parts = config->n_loops + FG_LANES;
    watchdog->probes = fg_calloc(config->n_loops, sizeof *watchdog->probes);
    watchdog->parts = fg_calloc(watchdog->n_parts, sizeof *watchdog->parts);
    watchdog->sights = fg_calloc(watchdog->n_parts, sizeof *watchdog->sights);
    fg_assert(pthread_mutex_init(&watchdog->lock, NULL) == 0);
    fg_buf_init(&watchdog->told, LINE_MAX_BYTES);
    for (size_t i = 0; i < config->n_loops; i++) {
        watchdog->probes[i].msg.run = answer;
        send_probe(watchdog, i); /* the first tick finds it answered */
    }
    watchdog->ping_mono_ns = fg_mono_ns(fg_clock_real());
    if (fg_ticker_create(
            &(struct fg_ticker_config){
                .name = "watchdog", .period_ns = period_ns, .tick = tick, .arg = watchdog},
            &watchdog->ticker, err) != FG_OK) {
        take_probes_back(watchdog);
        release(watchdog);
        return err->code;
    }
    *ret_watchdog = watchdog;
    return FG_OK;
}

void fg_watchdog_hush(struct fg_watchdog *watchdog)
{
    if (watchdog == NULL)
        return;
    fg_assert(pthread_mutex_lock(&watchdog->lock) == 0);
    watchdog->hushed = true;
    fg_assert(pthread_mutex_unlock(&watchdog->lock) == 0);
}

void fg_watchdog_destroy(struct fg_watchdog *watchdog)
{
    if (watchdog == NULL)
        return;
    fg_ticker_destroy(watchdog->ticker);
    take_probes_back(watchdog);
    release(watchdog);
}
