/*
 * What reports and operators change in the store is collected (filling) and written in a visit of
 * the committer, at most every OUTBOX_TICK_NS, so that many reports share an fsync and pushes
 * rarely wait for one. A write that fails is kept (writing) and repeated before anything newer:
 * deletes of what was sent, and copies of what is dead, do no harm however often they are done.
 * That is why they need no undo.
 *
 * Records of targets are not collected but put as they are when they are written: an old one that
 * is repeated would otherwise replace a newer one, which a push has written in between.
 */
#include "common/base/time.h"
#include "common/runtime/log.h"
#include "ingester/forward/outbox_impl.h"

#include <stdlib.h>

enum {
    DEAD_MAX_BYTES = 1024,      /* of the bytes of an entry that cannot be read */
    WRITE_SOON_BYTES = 1 << 20, /* worth an fsync: it waits no longer */
};

/* How often dead entries are looked through for old ones. */
#define SWEEP_NS (10 * FG_MINUTE_NS)

/* ---- collecting: locked ---- */

static void put_range(struct fg_store_batch *batch, unsigned family, uint16_t number,
                      uint64_t first, uint64_t last)
{
    struct fg_buf from, to;

    fg_buf_init(&from, OUTBOX_KEY_BYTES);
    fg_buf_init(&to, OUTBOX_KEY_BYTES);
    ing_outbox_put_key(&from, number, first);
    if (first == last) { /* a delete costs readers less than a range */
        fg_store_delete(batch, family, fg_buf_slice(&from));
    } else {
        ing_outbox_put_key(&to, number, last + 1);
        fg_store_delete_range(batch, family, fg_buf_slice(&from), fg_buf_slice(&to));
    }
    fg_buf_done(&from);
    fg_buf_done(&to);
}

static void wake_if_large(const struct ing_outbox *outbox)
{
    if (outbox->ticker != NULL && outbox->filling.batch.ops.len >= WRITE_SOON_BYTES)
        fg_ticker_wake(outbox->ticker);
}

void ing_outbox_write_delete(struct ing_outbox *outbox, unsigned target, uint64_t first,
                             uint64_t last)
{
    put_range(&outbox->filling.batch, HEAD_OUTBOX, outbox->targets[target].number, first, last);
    wake_if_large(outbox);
}

void ing_outbox_write_dead(struct ing_outbox *outbox, unsigned target, uint64_t seq,
                           struct fg_slice reason, struct fg_slice entry)
{
    struct outbox_target *at = &outbox->targets[target];

    if (at->dead >= OUTBOX_DEAD_MAX)
        return;
    at->dead++;
    ing_outbox_put_dead_entry(at->number, seq, fg_wall_ns(outbox->config.clock), reason, entry,
                              &outbox->filling.batch);
    wake_if_large(outbox);
}

void ing_outbox_write_end(struct ing_outbox *outbox, unsigned target, uint64_t first,
                          const struct ing_span *left)
{
    struct outbox_writes *writes = &outbox->filling;

    if (writes->n_ends == writes->cap_ends) {
        writes->cap_ends = FG_MAX(16, writes->cap_ends * 2);
        writes->ends = fg_realloc(writes->ends, writes->cap_ends * sizeof *writes->ends);
    }
    writes->ends[writes->n_ends++] = (struct outbox_end){target, first, *left};
}

void ing_outbox_put_dead_entry(uint16_t number, uint64_t seq, int64_t died_wall_ns,
                               struct fg_slice reason, struct fg_slice entry,
                               struct fg_store_batch *out)
{
    struct fg_buf key, value;

    fg_buf_init(&key, OUTBOX_KEY_BYTES);
    fg_buf_init(&value, SIZE_MAX); /* both parts are cut */
    ing_outbox_put_key(&key, number, seq);
    ing_outbox_put_dead(&value, died_wall_ns, reason, fg_slice_sub(entry, 0, DEAD_MAX_BYTES));
    fg_store_put(out, HEAD_OUTBOX_DEAD, fg_buf_slice(&key), fg_buf_slice(&value));
    fg_buf_done(&key);
    fg_buf_done(&value);
}

void ing_outbox_put_next_number(uint32_t next, struct fg_store_batch *out)
{
    struct fg_buf key, value;

    fg_buf_init(&key, 1);
    fg_buf_init(&value, SIZE_MAX);
    ing_outbox_put_meta_key(&key, FG_LIT(""));
    fg_buf_varint(&value, next);
    fg_store_put(out, HEAD_META, fg_buf_slice(&key), fg_buf_slice(&value));
    fg_buf_done(&key);
    fg_buf_done(&value);
}

/* The places of a resend, which it has while it reads. */
static void put_resend_tenants(const struct outbox_target *target, struct fg_store_batch *out)
{
    struct fg_buf key, value;

    fg_buf_init(&key, SIZE_MAX);
    fg_buf_init(&value, SIZE_MAX);
    ing_outbox_put_resend_tenants_key(&key, fg_cstr(target->name));
    ing_outbox_put_resend_tenants(&value, target->resend.begun_wall_ns, &target->resend_tenants);
    if (target->resend.state == RESEND_READS)
        fg_store_put(out, HEAD_META, fg_buf_slice(&key), fg_buf_slice(&value));
    else
        fg_store_delete(out, HEAD_META, fg_buf_slice(&key));
    fg_buf_done(&key);
    fg_buf_done(&value);
}

static void put_resend(const struct outbox_target *target, struct fg_store_batch *out)
{
    struct ing_resend resend = target->resend;
    struct fg_buf key, value;

    if (resend.state == RESEND_NONE) /* the store has none either */
        return;
    if (resend.state == RESEND_READS)
        ing_resend_tenants_least(&target->resend_tenants, &resend);
    fg_buf_init(&key, SIZE_MAX);
    fg_buf_init(&value, SIZE_MAX);
    ing_outbox_put_resend_key(&key, fg_cstr(target->name));
    ing_outbox_put_resend(&value, &resend);
    fg_store_put(out, HEAD_META, fg_buf_slice(&key), fg_buf_slice(&value));
    put_resend_tenants(target, out);
    fg_buf_done(&key);
    fg_buf_done(&value);
}

void ing_outbox_put_target(const struct ing_outbox *outbox, const struct outbox_target *target,
                           struct fg_store_batch *out)
{
    struct fg_buf key, value;

    fg_buf_init(&key, SIZE_MAX);
    fg_buf_init(&value, SIZE_MAX);
    ing_outbox_put_meta_key(&key, fg_cstr(target->name));
    ing_outbox_put_meta(&value,
                        &(struct ing_outbox_meta){target->number, target->reserve, target->paused});
    fg_store_put(out, HEAD_META, fg_buf_slice(&key), fg_buf_slice(&value));
    fg_buf_done(&key);
    fg_buf_done(&value);
    put_resend(target, out);
    ing_outbox_put_next_number(outbox->next_number, out);
}

/* ---- writing: the committer's thread ---- */

static bool is_empty(const struct outbox_writes *writes)
{
    return writes->batch.count == 0 && writes->n_ends == 0;
}

/* Makes what was collected the next write, and puts all of it into `out`, with records of targets
 * that have changed. Returns false if there is nothing to write. Locked. */
static bool begin_write(struct ing_outbox *outbox, struct fg_store_batch *out,
                        uint64_t meta_changes[OUTBOX_TARGETS_MAX])
{
    const struct outbox_writes spare = outbox->writing;

    if (is_empty(&outbox->writing)) {
        outbox->writing = outbox->filling;
        outbox->filling = spare;
        outbox->filling.number = outbox->writing.number + 1;
    }
    fg_store_batch_clear(out);
    fg_store_batch_append(out, &outbox->writing.batch);
    for (unsigned i = 0; i < outbox->n_targets; i++) {
        const struct outbox_target *target = &outbox->targets[i];

        meta_changes[i] = target->meta_changes;
        if (target->meta_changes != target->meta_written)
            ing_outbox_put_target(outbox, target, out);
    }
    return out->count > 0;
}

/* Ends a span whose report is in the store. Locked. */
static void apply_end(struct ing_outbox *outbox, const struct outbox_end *end)
{
    struct outbox_target *target = &outbox->targets[end->target];
    struct ing_span *span = ing_spans_find(&target->spans, end->first);

    if (end->left.count == 0) {
        ing_spans_remove(&target->spans, span);
    } else if (!span->dropped) {
        ing_spans_put_back(&target->spans, span, &end->left);
        target->to_tell |= !target->told && !target->paused;
    } else { /* by an operator, while the report was written: the rest goes with the next write */
        const struct ing_span nothing = {0};

        target->dropped[OUTBOX_BY_OPERATOR] += end->left.count;
        ing_outbox_write_delete(outbox, end->target, end->left.first, end->left.last);
        ing_outbox_write_end(outbox, end->target, end->first, &nothing);
    }
}

/* Takes over in memory what was written. Locked. */
static void apply_write(struct ing_outbox *outbox, const uint64_t meta_changes[OUTBOX_TARGETS_MAX])
{
    struct outbox_writes *writing = &outbox->writing;

    for (uint32_t i = 0; i < writing->n_ends; i++)
        apply_end(outbox, &writing->ends[i]);
    for (unsigned i = 0; i < outbox->n_targets; i++)
        outbox->targets[i].meta_written = meta_changes[i];
    ing_outbox_bound(outbox);
    outbox->written = writing->number;
    writing->n_ends = 0;
    fg_store_batch_clear(&writing->batch);
}

/* Writes all that was collected. Returns false if a write failed. */
static bool write_all(struct ing_outbox *outbox)
{
    uint64_t meta_changes[OUTBOX_TARGETS_MAX] = {0};
    enum fg_code code = FG_OK;
    struct fg_store_batch batch;
    struct fg_err err;

    fg_store_batch_init(&batch);
    (void)pthread_mutex_lock(&outbox->lock);
    while (code == FG_OK && begin_write(outbox, &batch, meta_changes)) {
        (void)pthread_mutex_unlock(&outbox->lock);
        code = ing_head_writer_write(outbox->config.writer, &batch, NULL, &err);
        (void)pthread_mutex_lock(&outbox->lock);
        if (code == FG_OK)
            apply_write(outbox, meta_changes);
        else
            outbox->failures++;
        (void)pthread_cond_broadcast(&outbox->moved);
    }
    if (code == FG_OK) { /* nothing is left to write: who asked for it need not wait any more */
        outbox->written = outbox->writing.number;
        (void)pthread_cond_broadcast(&outbox->moved);
    }
    (void)pthread_mutex_unlock(&outbox->lock);
    fg_store_batch_done(&batch);
    /* The writer tells of the fault itself (head_writer.h); this says what follows from it. */
    if (code != FG_OK && !outbox->told_failure)
        fg_log_warn("reports of forwarding could not be written, will retry; nothing is forwarded "
                    "meanwhile",
                    fg_ls("err", err.msg));
    outbox->told_failure = code != FG_OK;
    ing_outbox_tell(outbox);
    return code == FG_OK;
}

static void on_visit(struct ing_committer_visit *visit)
{
    struct ing_outbox *outbox = fg_container(visit, struct ing_outbox, visit);

    /* First, so that what is collected from now on is either written below or posts again. */
    atomic_store(&outbox->visiting, false);
    (void)write_all(outbox);
}

void ing_outbox_settle(struct ing_outbox *outbox)
{
    if (outbox == NULL || ing_head_writer_is_failing(outbox->config.writer))
        return;
    if (!is_empty(&outbox->writing) && !write_all(outbox))
        return;
    if (!atomic_exchange(&outbox->turned_away, false))
        return;
    (void)pthread_mutex_lock(&outbox->lock);
    for (unsigned i = 0; i < outbox->n_targets; i++) {
        struct outbox_target *target = &outbox->targets[i];

        target->to_tell |=
            !target->paused && (target->spans.count > 0 || ing_outbox_is_resending(target));
    }
    (void)pthread_mutex_unlock(&outbox->lock);
    ing_outbox_tell(outbox);
}

/* ---- the ticker ---- */

static void post(struct ing_outbox *outbox)
{
    if (!atomic_exchange(&outbox->visiting, true))
        ing_committer_post(outbox->committer, &outbox->visit);
}

static bool has_work(struct ing_outbox *outbox)
{
    bool work = atomic_load(&outbox->turned_away); /* after the last ing_outbox_settle() */

    (void)pthread_mutex_lock(&outbox->lock);
    work |= !is_empty(&outbox->filling);
    for (unsigned i = 0; i < outbox->n_targets; i++)
        work |= outbox->targets[i].meta_changes != outbox->targets[i].meta_written;
    (void)pthread_mutex_unlock(&outbox->lock);
    return work;
}

/* Returns true if the tenant of a dead entry is deleted. */
static bool is_of_deleted(const struct ing_outbox *outbox, struct fg_slice bytes)
{
    struct ing_outbox_entry entry;

    return ing_outbox_get_entry(bytes, &entry) &&
           ing_outbox_is_deleted(outbox, entry.key.chunk.group.tenant);
}

/* Deletes a dead entry that is old, or of a tenant that is deleted. Any other one stays. */
static void sweep_dead(struct ing_outbox *outbox, unsigned target, const struct fg_store_iter *iter,
                       int64_t before_wall_ns)
{
    struct outbox_target *at = &outbox->targets[target];
    struct fg_slice reason, entry;
    int64_t died_wall_ns;
    uint16_t number;
    uint64_t seq;

    /* One that cannot be read goes, too: there is nothing to inspect. */
    if (!ing_outbox_get_key(iter->key, &number, &seq) ||
        (ing_outbox_get_dead(iter->value, &died_wall_ns, &reason, &entry) &&
         died_wall_ns >= before_wall_ns && !is_of_deleted(outbox, entry)))
        return;
    (void)pthread_mutex_lock(&outbox->lock);
    put_range(&outbox->filling.batch, HEAD_OUTBOX_DEAD, at->number, seq, seq);
    at->dead -= at->dead > 0;
    (void)pthread_mutex_unlock(&outbox->lock);
}

/* Looks through all dead entries. */
static void sweep(struct ing_outbox *outbox)
{
    int64_t before_wall_ns = fg_wall_ns(outbox->config.clock) - OUTBOX_DEAD_KEPT_NS;

    for (unsigned i = 0; i < outbox->n_targets; i++) {
        struct fg_store_iter *iter =
            ing_outbox_iter(outbox, HEAD_OUTBOX_DEAD, i, 0, UINT64_MAX - 1);

        for (; iter->valid; fg_store_iter_next(iter))
            sweep_dead(outbox, i, iter, before_wall_ns);
        if (iter->err.code != FG_OK)
            fg_log_warn("dead entries of forwarding could not be read, will retry",
                        fg_ls("target", outbox->targets[i].name), fg_ls("err", iter->err.msg));
        fg_store_iter_destroy(iter);
    }
}

static void tick(void *arg)
{
    struct ing_outbox *outbox = arg;
    int64_t now_mono_ns = fg_mono_ns(outbox->config.clock);

    if (ing_head_writer_is_failing(outbox->config.writer)) /* ing_outbox_settle() goes on */
        return;
    if (now_mono_ns - outbox->swept_mono_ns >= SWEEP_NS) {
        outbox->swept_mono_ns = now_mono_ns;
        sweep(outbox);
    }
    if (has_work(outbox))
        post(outbox);
}

enum fg_code ing_outbox_write_wait(struct ing_outbox *outbox, struct fg_err *err)
{
    uint64_t number = outbox->filling.number, failures = outbox->failures;

    fg_assert(outbox->ticker != NULL);
    /* Not through the ticker, which waits while the store fails; the caller is to hear of that. */
    post(outbox);
    while (outbox->written < number && outbox->failures == failures)
        (void)pthread_cond_wait(&outbox->moved, &outbox->lock);
    if (outbox->written >= number)
        return FG_OK;
    return fg_fail(
        err, FG_E_UNAVAILABLE,
        "the store takes no writes now: the change holds until a restart, and longer if a "
        "write succeeds before");
}

enum fg_code ing_outbox_start(struct ing_outbox *outbox, struct ing_committer *committer,
                              struct fg_err *err)
{
    struct fg_ticker *ticker;

    if (outbox == NULL)
        return FG_OK;
    outbox->committer = committer;
    outbox->visit.run = on_visit;
    outbox->swept_mono_ns = fg_mono_ns(outbox->config.clock);
    if (fg_ticker_create(&(struct fg_ticker_config){"outbox", OUTBOX_TICK_NS, tick, outbox},
                         &ticker, err) != FG_OK)
        return err->code;
    (void)pthread_mutex_lock(&outbox->lock);
    outbox->ticker = ticker;
    (void)pthread_mutex_unlock(&outbox->lock);
    return ing_outbox_start_looks(outbox, err);
}

void ing_outbox_stop(struct ing_outbox *outbox)
{
    struct fg_ticker *ticker;

    if (outbox == NULL)
        return;
    ing_outbox_stop_looks(outbox); /* its reports are the last */
    (void)pthread_mutex_lock(&outbox->lock);
    ticker = fg_take(outbox->ticker);
    (void)pthread_mutex_unlock(&outbox->lock);
    if (ticker == NULL) /* not started */
        return;
    fg_ticker_destroy(ticker);
    /* The committer runs it before it ends. What it cannot write is sent again after the start. */
    post(outbox);
}
