#include "ingester/head_writer.h"

#include "common/base/time.h"
#include "common/runtime/log.h"
#include "ingester/keys.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Between two attempts to heal, each of which reads the store's log: once the disk works again,
 * pushes are taken after that long at most, and a tick of intake.c. */
static const int64_t HEAL_PAUSE_MIN_NS = FG_SECOND_NS / 2, HEAL_PAUSE_MAX_NS = 2 * FG_SECOND_NS;

/* clang-format off */
#define HEAD_WRITER_METRICS(M)                                                                     \
    M(COUNTER, WRITER_FAILED, "flamegrid_ingester_commit_failures_total", "Failed group commits")  \
    M(COUNTER, WRITER_HEALED, "flamegrid_ingester_store_healed_total", "Recoveries of the head store after a failed write") \
    M(GAUGE, WRITER_DAMAGED, "flamegrid_ingester_store_damaged", "1 if a table file of the head store is unreadable and the store no longer compacts")
/* clang-format on */
FG_METRICS_ENUM(head_writer_metric, HEAD_WRITER_METRICS)
FG_METRICS_TABLE(head_writer_metrics, HEAD_WRITER_METRICS)

struct ing_head_writer {
    struct ing_head_writer_config config;
    struct fg_metrics *metrics;

    atomic_bool failing;  /* the committer writes it; any thread reads it without the lock */
    pthread_mutex_t lock; /* of `why`, which other threads print */
    struct fg_err why;    /* the first failure: those after it follow from it and say less */

    /* The committer's. */
    struct fg_store_batch undo; /* of failed writes, not written yet */
    int64_t heal_mono_ns;       /* no attempt to heal before */
    int64_t heal_pause_ns;      /* the pause that led to it */
};

static void note_failure(struct ing_head_writer *writer, const struct fg_err *err)
{
    bool first;

    (void)pthread_mutex_lock(&writer->lock);
    /* `why` before `failing`, so a thread that sees `failing` prints the error that belongs to it.
     */
    first = !atomic_load(&writer->failing);
    if (first)
        writer->why = *err;
    atomic_store(&writer->failing, true);
    (void)pthread_mutex_unlock(&writer->lock);
    if (first)
        fg_log_error("head write failed, refusing pushes until it recovers",
                     fg_ls("err", err->msg));
}

static enum fg_code write_store(struct ing_head_writer *writer, struct fg_store_batch *batch,
                                struct fg_err *err)
{
    /* No lock is held here: a write may take as long as the disk does. */
    if (fg_store_write(writer->config.store, batch, err) == FG_OK)
        return FG_OK;
    fg_metric_add(writer->metrics, WRITER_FAILED, 1);
    if (err->code != FG_E_LIMIT) /* that is the batch's own fault */
        note_failure(writer, err);
    return err->code;
}

enum fg_code ing_head_writer_settle(struct ing_head_writer *writer, struct fg_err *err)
{
    if (writer->undo.count == 0)
        return FG_OK;
    if (write_store(writer, &writer->undo, err) != FG_OK)
        return err->code;
    /* Kept until it is written, however often that fails. It is idempotent, so it does no harm if a
     * failed attempt was written after all. */
    fg_store_batch_clear(&writer->undo);
    ing_head_chunks_settle(writer->config.chunks);
    return FG_OK;
}

enum fg_code ing_head_writer_write(struct ing_head_writer *writer, struct fg_store_batch *batch,
                                   const struct fg_store_batch *undo, struct fg_err *err)
{
    /* Check the undo before the write: one that is too large to be written later would leave a
     * failed write in place. */
    if (ing_head_writer_settle(writer, err) != FG_OK ||
        (undo != NULL && fg_store_batch_check(undo, err) != FG_OK))
        return err->code;
    fg_assert(writer->undo.count == 0); /* a failed write is undone before anything else */
    if (write_store(writer, batch, err) == FG_OK)
        return FG_OK;
    if (undo != NULL && err->code != FG_E_LIMIT) /* which says that nothing was written */
        fg_store_batch_append(&writer->undo, undo);
    return err->code;
}

/* ---- healing ---- */

/* Writes a value that nobody reads. */
static enum fg_code probe(struct ing_head_writer *writer, struct fg_err *err)
{
    struct fg_store_batch batch;
    enum fg_code code;

    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_META, FG_LIT("probe"), FG_LIT(""));
    code = ing_head_writer_write(writer, &batch, NULL, err);
    fg_store_batch_done(&batch);
    return code;
}

void ing_head_writer_heal(struct ing_head_writer *writer)
{
    struct fg_err err;

    /* On a full disk an attempt would only use up the room that is left. */
    if (!atomic_load(&writer->failing) || fg_disk_state(writer->config.disk) == FG_DISK_FULL ||
        fg_mono_ns(fg_clock_real()) < writer->heal_mono_ns)
        return;
    /* RocksDB may report that it has recovered while the disk still refuses writes, so test it. The
     * probe settles first, so nothing is left to undo once pushes are taken again. */
    if (fg_store_heal(writer->config.store, &err) == FG_OK && probe(writer, &err) == FG_OK) {
        atomic_store(&writer->failing, false);
        writer->heal_pause_ns = 0;
        fg_metric_add(writer->metrics, WRITER_HEALED, 1);
        fg_log_info("head write recovered");
    } else {
        writer->heal_pause_ns =
            FG_MIN(2 * writer->heal_pause_ns + HEAL_PAUSE_MIN_NS, HEAL_PAUSE_MAX_NS);
    }
    /* From the end of the attempt, which may have been slow itself. */
    writer->heal_mono_ns = fg_mono_ns(fg_clock_real()) + writer->heal_pause_ns;
}

bool ing_head_writer_is_failing(const struct ing_head_writer *writer)
{
    return atomic_load(&writer->failing);
}

void ing_head_writer_describe(struct ing_head_writer *writer, struct fg_buf *out)
{
    (void)pthread_mutex_lock(&writer->lock);
    fg_buf_puts(out, writer->why.msg);
    (void)pthread_mutex_unlock(&writer->lock);
}

/* ---- start and end ---- */

static void on_scrape(void *arg)
{
    const struct ing_head_writer *writer = arg;

    fg_metric_set(writer->metrics, WRITER_DAMAGED, fg_store_is_damaged(writer->config.store));
}

struct ing_head_writer *ing_head_writer_create(const struct ing_head_writer_config *config)
{
    struct ing_head_writer *writer = fg_new(struct ing_head_writer);
    struct fg_err err;

    writer->config = *config;
    fg_store_batch_init(&writer->undo);
    (void)pthread_mutex_init(&writer->lock, NULL);
    writer->metrics =
        fg_metrics_register(config->registry, head_writer_metrics, FG_COUNT(head_writer_metrics));
    fg_registry_on_scrape(config->registry, on_scrape, writer);
    /* A failure does not stop the start: queries are answered, and healing goes on. */
    if (fg_store_heal(config->store, &err) != FG_OK || probe(writer, &err) != FG_OK)
        note_failure(writer, &err);
    return writer;
}

void ing_head_writer_destroy(struct ing_head_writer *writer)
{
    if (writer == NULL)
        return;
    fg_registry_off_scrape(writer->config.registry, writer);
    fg_store_batch_done(&writer->undo);
    (void)pthread_mutex_destroy(&writer->lock);
    free(writer);
}
