/*
 * Pushes read two atomics; everything else is the ticker's. It counts what was refused and reports
 * it, so that a full disk does not fill the log with a line for each push.
 */
#include "ingester/intake.h"

#include "common/base/time.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"

#include <stdatomic.h>
#include <stdlib.h>

/* The texts of the disk and of one error. */
enum { WHY_MAX_BYTES = 1024 };

/* With the pause of head_writer.c: pushes are taken within five seconds after the disk works again.
 */
static const int64_t TICK_NS = FG_SECOND_NS;
static const int64_t REPORT_NS = 30 * FG_SECOND_NS; /* between two lines of the log */

/* clang-format off */
#define INTAKE_METRICS(M)                                                                          \
    M(COUNTER, INTAKE_REFUSED_FULL, "flamegrid_ingester_pushes_refused_total{reason=\"disk_full\"}", "Pushes refused because the head is not writable, by reason") \
    M(COUNTER, INTAKE_REFUSED_FAILED, "flamegrid_ingester_pushes_refused_total{reason=\"write_failed\"}", "Pushes refused because the head is not writable, by reason") \
    M(GAUGE, INTAKE_OPEN, "flamegrid_ingester_takes_pushes", "1 if pushes are accepted, 0 if they are refused because the disk is full or a write failed")
/* clang-format on */
FG_METRICS_ENUM(intake_metric, INTAKE_METRICS)
FG_METRICS_TABLE(intake_metrics, INTAKE_METRICS)

struct ing_intake {
    struct ing_intake_config config;
    struct fg_metrics *metrics;
    struct ing_committer *committer; /* NULL: not started */
    struct fg_ticker *ticker;
    struct ing_committer_visit visit;
    atomic_bool visiting; /* the committer has it */

    /* The ticker's. */
    bool refused_before;                  /* at the last tick */
    uint64_t counted;                     /* refusals at the last tick */
    uint64_t counted_begin, counted_said; /* when refusals began, and at the last report */
    int64_t since_mono_ns, said_mono_ns;
};

static bool is_full(const struct ing_intake *intake)
{
    return fg_disk_state(intake->config.disk) == FG_DISK_FULL;
}

/* ---- reports ---- */

bool ing_intake_refuses(struct ing_intake *intake, struct fg_buf *why)
{
    bool full = is_full(intake), failing = ing_head_writer_is_failing(intake->config.writer);

    if (full) {
        fg_buf_puts(why, "disk full: ");
        fg_disk_describe(intake->config.disk, why);
    }
    if (failing) {
        fg_buf_puts(why, full ? "; a write failed: " : "a write failed: ");
        ing_head_writer_describe(intake->config.writer, why);
    }
    if (full || failing)
        fg_buf_puts(why, "; pushes are refused, queries are answered");
    return full || failing;
}

static void report(struct ing_intake *intake)
{
    int64_t now_mono_ns = fg_mono_ns(fg_clock_real());
    uint64_t refused = fg_metric_get(intake->metrics, INTAKE_REFUSED_FULL) +
                       fg_metric_get(intake->metrics, INTAKE_REFUSED_FAILED);
    struct fg_buf why;
    bool refuses;

    fg_buf_init(&why, WHY_MAX_BYTES);
    refuses = ing_intake_refuses(intake, &why);
    if (refuses && !intake->refused_before) { /* refusals since the last tick belong to this time */
        intake->since_mono_ns = intake->said_mono_ns = now_mono_ns;
        intake->counted_begin = intake->counted_said = intake->counted;
    }
    intake->counted = refused;
    if (refuses && now_mono_ns - intake->said_mono_ns >= REPORT_NS) {
        if (refused > intake->counted_said)
            fg_log_warn("pushes were refused", fg_lu("refused", refused - intake->counted_said),
                        fg_li("in_s", (now_mono_ns - intake->said_mono_ns) / FG_SECOND_NS),
                        fg_lb("why", fg_buf_slice(&why)));
        intake->said_mono_ns = now_mono_ns;
        intake->counted_said = refused;
    }
    if (!refuses && intake->refused_before)
        fg_log_info("pushes are accepted again", fg_lu("refused", refused - intake->counted_begin),
                    fg_li("in_s", (now_mono_ns - intake->since_mono_ns) / FG_SECOND_NS));
    intake->refused_before = refuses;
    fg_buf_done(&why);
}

static void on_visit(struct ing_committer_visit *visit)
{
    atomic_store(&fg_container(visit, struct ing_intake, visit)->visiting, false);
}

static void tick(void *arg)
{
    struct ing_intake *intake = arg;

    report(intake);
    /* Without pushes nothing else wakes the committer, which alone may write. One visit at a time:
     * the struct is on its list until on_visit() clears the mark. */
    if (ing_head_writer_is_failing(intake->config.writer) && !is_full(intake) &&
        !atomic_exchange(&intake->visiting, true))
        ing_committer_post(intake->committer, &intake->visit); /* after visits it heals */
}

/* ---- pushes ---- */

/* Agents need to know that they may retry; the fault of our disk is in the log and /ready. */
enum fg_code ing_intake_admits(struct ing_intake *intake, struct fg_err *err)
{
    bool full = is_full(intake);

    if (!full && !ing_head_writer_is_failing(intake->config.writer))
        return FG_OK;
    fg_metric_add(intake->metrics, full ? INTAKE_REFUSED_FULL : INTAKE_REFUSED_FAILED, 1);
    return fg_fail(err, FG_E_UNAVAILABLE, "%s, try again later",
                   full ? "the disk of the ingester is full"
                        : "the disk of the ingester rejects writes");
}

static void on_scrape(void *arg)
{
    const struct ing_intake *intake = arg;

    fg_metric_set(intake->metrics, INTAKE_OPEN,
                  !is_full(intake) && !ing_head_writer_is_failing(intake->config.writer));
}

/* ---- life ---- */

struct ing_intake *ing_intake_create(const struct ing_intake_config *config)
{
    struct ing_intake *intake = fg_new(struct ing_intake);

    intake->config = *config;
    intake->metrics =
        fg_metrics_register(config->registry, intake_metrics, FG_COUNT(intake_metrics));
    fg_registry_on_scrape(config->registry, on_scrape, intake);
    return intake;
}

enum fg_code ing_intake_start(struct ing_intake *intake, struct ing_committer *committer,
                              struct fg_err *err)
{
    intake->committer = committer;
    intake->visit.run = on_visit;
    return fg_ticker_create(&(struct fg_ticker_config){"intake", TICK_NS, tick, intake},
                            &intake->ticker, err);
}

void ing_intake_stop(struct ing_intake *intake)
{
    if (intake == NULL)
        return;
    fg_ticker_destroy(intake->ticker);
    intake->ticker = NULL;
}

void ing_intake_destroy(struct ing_intake *intake)
{
    if (intake == NULL)
        return;
    fg_registry_off_scrape(intake->config.registry, intake);
    ing_intake_stop(intake);
    free(intake);
}
