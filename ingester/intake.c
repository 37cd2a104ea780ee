#include "ingester/intake.h"

#include "common/base/time.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"
#include "ingester/commit.h"
#include "ingester/keys.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WHY_MAX_BYTES = 1024 };

static const int64_t TICK_NS = FG_SECOND_NS;
static const int64_t REPORT_NS = 30 * FG_SECOND_NS;
/* Between two tries to heal, each of which reads the store's log: a disk that works again waits so
 * long at most, and a tick. */
static const int64_t HEAL_PAUSE_MIN_NS = FG_SECOND_NS / 2, HEAL_PAUSE_MAX_NS = 2 * FG_SECOND_NS;

/* clang-format off */
#define INTAKE_METRICS(M)                                                                          \
    M(COUNTER, INTAKE_REFUSED_FULL, "flamegrid_ingester_pushes_refused_total{reason=\"disk_full\"}", "Pushes refused because the head is not writable, by reason") \
    M(COUNTER, INTAKE_REFUSED_FAILED, "flamegrid_ingester_pushes_refused_total{reason=\"write_failed\"}", "Pushes refused because the head is not writable, by reason") \
    M(COUNTER, INTAKE_HEALED, "flamegrid_ingester_store_healed_total", "Recoveries of the head store after a failed write") \
    M(GAUGE, INTAKE_OPEN, "flamegrid_ingester_takes_pushes", "1 if pushes are accepted, 0 if they are refused because the disk is full or a write failed") \
    M(GAUGE, INTAKE_DAMAGED, "flamegrid_ingester_store_damaged", "1 if a table file of the head store is unreadable and the store no longer compacts")
/* clang-format on */
FG_METRICS_ENUM(intake_metric, INTAKE_METRICS)
static const struct fg_metric_def intake_metrics[] = FG_METRICS_DEFS(INTAKE_METRICS);

struct ing_intake {
    struct ing_intake_config config;
    struct fg_metrics *metrics;
    struct ing_commit *commit; /* NULL: not started */
    struct fg_ticker *ticker;
    atomic_bool failing;
    struct ing_commit_visit visit;
    atomic_bool visiting; /* the committer has it */

    pthread_mutex_t lock;
    struct fg_err why; /* under the lock: what failed first */

    /* The committer's. */
    int64_t heal_mono_ns, heal_pause_ns; /* not again before; the pause that led to it */

    /* The ticker's. */
    bool refused_before;                  /* at the last tick */
    uint64_t counted;                     /* refusals at the last tick */
    uint64_t counted_begin, counted_said; /* at the begin of this time, and at the last report */
    int64_t since_mono_ns, said_mono_ns;
};

/* ---- the store ---- */

static bool is_full(const struct ing_intake *intake)
{
    return fg_disk_state(intake->config.disk) == FG_DISK_FULL;
}

static enum fg_code probe(struct ing_intake *intake, struct fg_err *err)
{
    struct fg_store_batch batch;
    enum fg_code code;

    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_META, FG_LIT("probe"), FG_LIT(""));
    code = intake->commit == NULL ? fg_store_write(intake->config.store, &batch, err)
                                  : ing_commit_write(intake->commit, &batch, NULL, err);
    fg_store_batch_done(&batch);
    return code;
}

/* The first fault is what an operator has to know of: what follows from it says less. */
static void set_why(struct ing_intake *intake, const struct fg_err *err)
{
    (void)pthread_mutex_lock(&intake->lock);
    if (!atomic_load(&intake->failing))
        intake->why = *err;
    atomic_store(&intake->failing, true);
    (void)pthread_mutex_unlock(&intake->lock);
}

void ing_intake_failed(struct ing_intake *intake, const struct fg_err *err)
{
    bool first = !atomic_load(&intake->failing);

    set_why(intake, err);
    if (!first)
        return;
    fg_log_error("head write failed, refusing pushes until it recovers", fg_ls("err", err->msg));
}

static void try_to_heal(struct ing_intake *intake)
{
    struct fg_err err;

    if (fg_store_heal(intake->config.store, &err) != FG_OK || probe(intake, &err) != FG_OK)
        return;
    atomic_store(&intake->failing, false);
    fg_metric_add(intake->metrics, INTAKE_HEALED, 1);
    fg_log_info("head write recovered");
}

void ing_intake_heal(struct ing_intake *intake)
{
    int64_t now_mono_ns = fg_mono_ns(fg_clock_real());

    if (!atomic_load(&intake->failing) || is_full(intake) || now_mono_ns < intake->heal_mono_ns)
        return;
    try_to_heal(intake);
    intake->heal_pause_ns =
        atomic_load(&intake->failing)
            ? FG_MIN(2 * intake->heal_pause_ns + HEAL_PAUSE_MIN_NS, HEAL_PAUSE_MAX_NS)
            : 0;
    intake->heal_mono_ns = fg_mono_ns(fg_clock_real()) + intake->heal_pause_ns;
}

/* ---- what is said ---- */

static uint64_t count_refused(const struct ing_intake *intake)
{
    return fg_metric_get(intake->metrics, INTAKE_REFUSED_FULL) +
           fg_metric_get(intake->metrics, INTAKE_REFUSED_FAILED);
}

bool ing_intake_refuses(struct ing_intake *intake, struct fg_buf *why)
{
    bool full = is_full(intake), failing = atomic_load(&intake->failing);

    if (full) {
        fg_buf_puts(why, "disk full: ");
        fg_disk_describe(intake->config.disk, why);
    }
    if (failing) {
        (void)pthread_mutex_lock(&intake->lock);
        fg_buf_printf(why, "%sa write failed: %s", full ? "; " : "", intake->why.msg);
        (void)pthread_mutex_unlock(&intake->lock);
    }
    if (full || failing)
        fg_buf_puts(why, "; pushes are refused, queries are answered");
    return full || failing;
}

static void report(struct ing_intake *intake)
{
    int64_t now_mono_ns = fg_mono_ns(fg_clock_real());
    uint64_t refused = count_refused(intake);
    struct fg_buf why;
    bool refuses;

    fg_buf_init(&why, WHY_MAX_BYTES);
    refuses = ing_intake_refuses(intake, &why);
    if (refuses && !intake->refused_before) { /* those since the last tick are of this time */
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

static void on_visit(struct ing_commit_visit *visit)
{
    atomic_store(&fg_container(visit, struct ing_intake, visit)->visiting, false);
}

static void tick(void *arg)
{
    struct ing_intake *intake = arg;

    report(intake);
    if (atomic_load(&intake->failing) && !is_full(intake) &&
        !atomic_exchange(&intake->visiting, true))
        ing_commit_post(intake->commit, &intake->visit); /* after visits it heals */
}

/* ---- who asks ---- */

/* Agents need to know that they may try again; what is wrong with our disk is in the log and
 * /ready. */
enum fg_code ing_intake_admits(struct ing_intake *intake, struct fg_err *err)
{
    bool full = is_full(intake);

    if (!full && !atomic_load(&intake->failing))
        return FG_OK;
    fg_metric_add(intake->metrics, full ? INTAKE_REFUSED_FULL : INTAKE_REFUSED_FAILED, 1);
    return fg_fail(err, FG_E_UNAVAILABLE, "%s, try again later",
                   full ? "the disk of the ingester is full"
                        : "the disk of the ingester rejects writes");
}

static void on_scrape(void *arg)
{
    const struct ing_intake *intake = arg;

    fg_metric_set(intake->metrics, INTAKE_OPEN, !is_full(intake) && !atomic_load(&intake->failing));
    fg_metric_set(intake->metrics, INTAKE_DAMAGED, atomic_load(&intake->config.store->damaged));
}

/* ---- life ---- */

struct ing_intake *ing_intake_create(const struct ing_intake_config *config)
{
    struct ing_intake *intake = fg_new(struct ing_intake);
    struct fg_err err;

    intake->config = *config;
    (void)pthread_mutex_init(&intake->lock, NULL);
    intake->metrics =
        fg_metrics_register(config->registry, intake_metrics, FG_COUNT(intake_metrics));
    fg_registry_on_scrape(config->registry, on_scrape, intake);
    if (fg_store_heal(config->store, &err) != FG_OK || probe(intake, &err) != FG_OK)
        ing_intake_failed(intake, &err);
    return intake;
}

enum fg_code ing_intake_start(struct ing_intake *intake, struct ing_commit *commit,
                              struct fg_err *err)
{
    intake->commit = commit;
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
    ing_intake_stop(intake);
    (void)pthread_mutex_destroy(&intake->lock);
    free(intake);
}
