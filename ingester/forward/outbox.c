/*
 * Pushes add entries on the committer's thread, in two steps: into the batch, without a lock, and
 * after the write into spans and pins. The sender's loop and workers, operators and the eviction of
 * chunks share these under one lock, which nobody holds while the store is read or written.
 *
 * Reports only collect what is to be written (outbox_write.c). A span that was reported stays in
 * memory as ENDING until that is done: so its chunks stay, and nothing of it is taken again before
 * its other entries are gone.
 */
#include "common/base/time.h"
#include "common/runtime/log.h"
#include "ingester/forward/outbox_impl.h"

#include <stdlib.h>

/* Numbers are reserved in META for so many entries at a time. */
#define RESERVE (UINT64_C(1) << 20)

/* As SENDER_LOG_NS: a queue that stays full drops with every push. */
static const int64_t FULL_LOG_NS = 5 * FG_MINUTE_NS;

const char *const ing_outbox_reasons[OUTBOX_REASONS] = {
    [OUTBOX_BY_FULL] = "full", [OUTBOX_BY_REFUSED] = "refused",   [OUTBOX_BY_EXPIRED] = "expired",
    [OUTBOX_BY_GONE] = "gone", [OUTBOX_BY_OPERATOR] = "operator", [OUTBOX_BY_DELETED] = "deleted",
};

bool ing_outbox_is_resending(const struct outbox_target *target)
{
    return target->resend.state == RESEND_COMMITS || target->resend.state == RESEND_READS;
}

/* ---- telling the sender, and the log ---- */

/* Locked. */
static void note_ready(struct outbox_target *target)
{
    if (!target->told && !target->paused)
        target->to_tell = true;
}

/* Returns how many profiles a full queue has dropped that the log is to have: a loss is there at
 * once, and every FULL_LOG_NS while it goes on. Locked. */
static uint64_t take_dropped(const struct ing_outbox *outbox, struct outbox_target *target)
{
    uint64_t dropped = target->dropped[OUTBOX_BY_FULL] - target->told_full;
    int64_t now_ns;

    if (dropped == 0)
        return 0;
    now_ns = fg_mono_ns(outbox->config.clock);
    if (target->told_full > 0 && now_ns - target->told_full_mono_ns < FULL_LOG_NS)
        return 0;
    target->told_full += dropped;
    target->told_full_mono_ns = now_ns;
    return dropped;
}

/* Not locked: whoever reads the log may be slow. */
static void tell_dropped(const struct outbox_target *target, uint64_t dropped)
{
    if (dropped > 0)
        fg_log_error("the queue of a forward target is full, its oldest profiles are dropped",
                     fg_ls("target", target->name), fg_lu("profiles", dropped),
                     fg_lu("queue_max_bytes", target->config.queue_max_bytes));
}

void ing_outbox_tell(struct ing_outbox *outbox)
{
    uint64_t dropped[OUTBOX_TARGETS_MAX] = {0};
    uint32_t tell = 0;

    (void)pthread_mutex_lock(&outbox->lock);
    for (unsigned i = 0; i < outbox->n_targets; i++) {
        struct outbox_target *target = &outbox->targets[i];

        dropped[i] = take_dropped(outbox, target);
        if (!target->to_tell)
            continue;
        target->to_tell = false;
        target->told = true;
        tell |= UINT32_C(1) << i;
    }
    (void)pthread_mutex_unlock(&outbox->lock);
    for (unsigned i = 0; i < outbox->n_targets; i++)
        tell_dropped(&outbox->targets[i], dropped[i]);
    if (tell == 0)
        return;
    (void)pthread_mutex_lock(&outbox->ready_lock);
    for (unsigned i = 0; i < outbox->n_targets && outbox->on_ready != NULL; i++)
        if ((tell >> i & 1) != 0)
            outbox->on_ready(outbox->on_ready_arg, i);
    (void)pthread_mutex_unlock(&outbox->ready_lock);
}

void ing_outbox_on_ready(struct ing_outbox *outbox, void (*on_ready)(void *arg, unsigned target),
                         void *arg)
{
    (void)pthread_mutex_lock(&outbox->ready_lock);
    outbox->on_ready = on_ready;
    outbox->on_ready_arg = arg;
    (void)pthread_mutex_unlock(&outbox->ready_lock);
    if (on_ready == NULL)
        return;
    /* What waits already, for example since the start. */
    (void)pthread_mutex_lock(&outbox->lock);
    for (unsigned i = 0; i < outbox->n_targets; i++) {
        outbox->targets[i].told = false;
        if (outbox->targets[i].spans.count > 0 || ing_outbox_is_resending(&outbox->targets[i]))
            note_ready(&outbox->targets[i]);
    }
    (void)pthread_mutex_unlock(&outbox->lock);
    ing_outbox_tell(outbox);
}

/* ---- pushes ---- */

uint32_t ing_outbox_wants(const struct ing_outbox *outbox, struct fg_slice tenant)
{
    uint32_t wanted = 0;

    if (outbox == NULL)
        return 0;
    for (unsigned i = 0; i < outbox->n_targets; i++) {
        const struct ing_outbox_target *config = &outbox->targets[i].config;

        wanted |= (uint32_t)config->wants(config->arg, tenant) << i;
    }
    return wanted;
}

enum fg_code ing_outbox_admits(struct ing_outbox *outbox, struct fg_slice tenant,
                               struct fg_err *err)
{
    if (outbox == NULL)
        return FG_OK;
    for (unsigned i = 0; i < outbox->n_targets; i++) {
        struct outbox_target *target = &outbox->targets[i];

        const char *why = atomic_load(&target->full);

        if (target->config.when_full != OUTBOX_REFUSE || why == NULL ||
            !target->config.wants(target->config.arg, tenant))
            continue;
        (void)atomic_fetch_add(&target->refused_pushes, 1);
        return fg_fail(err, FG_E_LIMIT,
                       "the queue of forward target %s is full (%s), try again later", target->name,
                       why);
    }
    return FG_OK;
}

/* Reserves numbers in META, in the batch that needs them: so a start gives greater ones. */
static void reserve(struct ing_outbox *outbox, struct outbox_target *target,
                    struct fg_store_batch *batch)
{
    (void)pthread_mutex_lock(&outbox->lock);
    target->reserve = target->next_seq + RESERVE;
    ing_outbox_put_target(outbox, target, batch);
    target->batch_reserved = target->reserve;
    (void)pthread_mutex_unlock(&outbox->lock);
}

static struct outbox_added *new_added(struct ing_outbox *outbox)
{
    if (outbox->n_added == outbox->cap_added) {
        outbox->cap_added = FG_MAX(64, outbox->cap_added * 2);
        outbox->added = fg_realloc(outbox->added, outbox->cap_added * sizeof *outbox->added);
    }
    return &outbox->added[outbox->n_added++];
}

void ing_outbox_add(struct ing_outbox *outbox, uint32_t targets,
                    const struct ing_head_profile_key *key, size_t bytes,
                    const struct ing_outbox_via *via, struct fg_store_batch *batch,
                    struct fg_store_batch *undo)
{
    struct fg_buf value, seq_key;

    if (targets == 0)
        return;
    if (outbox->n_added == 0)
        outbox->added_wall_ns = fg_wall_ns(outbox->config.clock);
    fg_buf_init(&value, OUTBOX_ENTRY_MAX_BYTES);
    fg_buf_init(&seq_key, OUTBOX_KEY_BYTES);
    ing_outbox_put_entry(
        &value,
        &(struct ing_outbox_entry){
            .key = *key, .received_wall_ns = outbox->added_wall_ns, .bytes = bytes, .via = *via});
    for (unsigned i = 0; i < outbox->n_targets; i++) {
        struct outbox_target *target = &outbox->targets[i];

        if ((targets >> i & 1) == 0)
            continue;
        if (target->next_seq >= target->batch_reserved)
            reserve(outbox, target, batch);
        fg_buf_clear(&seq_key);
        ing_outbox_put_key(&seq_key, target->number, target->next_seq);
        fg_store_put(batch, HEAD_OUTBOX, fg_buf_slice(&seq_key), fg_buf_slice(&value));
        fg_store_delete(undo, HEAD_OUTBOX, fg_buf_slice(&seq_key));
        *new_added(outbox) = (struct outbox_added){key->chunk.group, i, target->next_seq, bytes};
        target->next_seq++; /* also if the batch fails: its numbers are not given again */
    }
    fg_buf_done(&value);
    fg_buf_done(&seq_key);
}

uint32_t ing_outbox_added(const struct ing_outbox *outbox)
{
    return outbox == NULL ? 0 : outbox->n_added;
}

/* Lets the entries of a batch that was written wait. Locked. */
static void apply_added(struct ing_outbox *outbox)
{
    uint32_t touched = 0;

    for (uint32_t i = 0; i < outbox->n_added; i++) {
        const struct outbox_added *added = &outbox->added[i];

        ing_spans_add(&outbox->targets[added->target].spans, added->seq, added->bytes,
                      outbox->added_wall_ns);
        ing_pins_add(&outbox->pins, &added->group, added->target, added->seq, outbox->spans);
        touched |= UINT32_C(1) << added->target;
    }
    for (unsigned i = 0; i < outbox->n_targets; i++)
        if ((touched >> i & 1) != 0)
            note_ready(&outbox->targets[i]);
    ing_outbox_bound(outbox);
}

void ing_outbox_end(struct ing_outbox *outbox, bool written)
{
    if (outbox == NULL || outbox->n_added == 0)
        return;
    for (unsigned i = 0; i < outbox->n_targets; i++) {
        struct outbox_target *target = &outbox->targets[i];

        if (written)
            target->reserved = target->batch_reserved;
        else
            target->batch_reserved = target->reserved;
    }
    if (written) {
        (void)pthread_mutex_lock(&outbox->lock);
        apply_added(outbox);
        (void)pthread_mutex_unlock(&outbox->lock);
    }
    outbox->n_added = 0;
    if (written)
        ing_outbox_tell(outbox);
}

bool ing_outbox_pins(struct ing_outbox *outbox, const struct ing_head_group_key *group)
{
    bool pinned;

    if (outbox == NULL)
        return false;
    (void)pthread_mutex_lock(&outbox->lock);
    pinned = ing_pins_has(&outbox->pins, group, outbox->spans);
    (void)pthread_mutex_unlock(&outbox->lock);
    return pinned;
}

/* ---- the bound ---- */

/* Ranges that are next to each other, so that one delete is enough for them. */
struct drop_run {
    bool any;
    uint64_t first, last;
};

/* Ends the run, whose spans are out of memory. */
static void delete_run(struct ing_outbox *outbox, unsigned target, struct drop_run *run)
{
    if (run->any)
        ing_outbox_write_delete(outbox, target, run->first, run->last);
    run->any = false;
}

/* The bound for a target's spans: no more is pending afterwards, or nothing waits. */
struct drop_limit {
    uint64_t bytes, profiles;
};

/* Drops spans that wait, the oldest first. Returns how many profiles. Locked. */
static uint64_t drop_down_to(struct ing_outbox *outbox, unsigned target, struct drop_limit left)
{
    struct ing_spans *spans = &outbox->targets[target].spans;
    struct drop_run run = {0};
    uint64_t profiles = 0;
    struct ing_span span;

    while ((spans->bytes > left.bytes || spans->count > left.profiles) &&
           ing_spans_drop_first(spans, &span)) {
        if (run.any && ing_spans_meet(spans, run.last, span.first))
            delete_run(outbox, target, &run); /* a taken span is in between */
        if (!run.any)
            run = (struct drop_run){.any = true, .first = span.first};
        run.last = span.last;
        profiles += span.count;
    }
    delete_run(outbox, target, &run);
    return profiles;
}

/* Drops a sixteenth of the target that has waited for longest. Returns false if none drops
 * anything. */
static bool drop_some(struct ing_outbox *outbox)
{
    struct outbox_target *oldest = NULL;
    struct drop_limit left = {.bytes = UINT64_MAX};

    for (unsigned i = 0; i < outbox->n_targets; i++) {
        struct outbox_target *at = &outbox->targets[i];

        if (at->config.when_full == OUTBOX_DROP && at->spans.count > at->spans.taken_count &&
            (oldest == NULL ||
             ing_spans_oldest_wall_ns(&at->spans) < ing_spans_oldest_wall_ns(&oldest->spans)))
            oldest = at;
    }
    if (oldest == NULL)
        return false;
    left.profiles = oldest->spans.count - oldest->spans.count / 16 - 1;
    oldest->dropped[OUTBOX_BY_FULL] +=
        drop_down_to(outbox, (unsigned)(oldest - outbox->targets), left);
    return true;
}

/* Returns true if too many groups are pinned and nothing can be dropped. */
static bool bound_groups(struct ing_outbox *outbox)
{
    /* A sixteenth of all comes before the next sweep, which takes time for each pin. */
    const uint32_t max = outbox->config.groups_max, enough = max - max / 16;

    if (outbox->pins.n <= max && !outbox->crowded)
        return false;
    ing_pins_sweep(&outbox->pins, outbox->spans);
    while (outbox->pins.n > enough && drop_some(outbox))
        ing_pins_sweep(&outbox->pins, outbox->spans);
    return outbox->pins.n > enough;
}

void ing_outbox_bound(struct ing_outbox *outbox)
{
    for (unsigned i = 0; i < outbox->n_targets; i++) {
        struct outbox_target *at = &outbox->targets[i];
        const struct drop_limit left = {at->config.queue_max_bytes, UINT64_MAX};

        if (at->config.when_full == OUTBOX_DROP)
            at->dropped[OUTBOX_BY_FULL] += drop_down_to(outbox, i, left);
    }
    outbox->crowded = bound_groups(outbox);
    for (unsigned i = 0; i < outbox->n_targets; i++) {
        struct outbox_target *at = &outbox->targets[i];
        const char *why = NULL;

        if (outbox->crowded && at->spans.count > 0)
            why = "ingester.catalog_max_bytes";
        if (at->spans.bytes >= at->config.queue_max_bytes)
            why = "forward.targets: queue_max_bytes";
        atomic_store(&at->full, why);
    }
}

/* ---- the sender ---- */

struct ing_outbox_span ing_outbox_span_of(unsigned target, const struct ing_span *span)
{
    return (struct ing_outbox_span){
        .target = target,
        .first = span->first,
        .last = span->last,
        .count = span->count,
        .bytes = span->bytes,
        .oldest_wall_ns = span->oldest_wall_ns,
        .newest_wall_ns = span->newest_wall_ns,
    };
}

bool ing_outbox_take(struct ing_outbox *outbox, unsigned target, enum ing_outbox_lane lane,
                     struct ing_outbox_span *ret_span)
{
    /* Without a lock: if it begins to fail after this, the report waits. */
    bool failing = ing_head_writer_is_failing(outbox->config.writer);
    int64_t wall_ns = fg_wall_ns(outbox->config.clock);
    struct outbox_target *at = &outbox->targets[target];
    const struct ing_span *span;

    fg_assert(target < outbox->n_targets);
    if (failing)
        atomic_store(&outbox->turned_away, true);
    (void)pthread_mutex_lock(&outbox->lock);
    (void)ing_spans_release(&at->spans, fg_mono_ns(outbox->config.clock));
    span = failing || at->paused ? NULL : ing_spans_take(&at->spans, lane, wall_ns);
    if (span != NULL)
        *ret_span = ing_outbox_span_of(target, span);
    else
        at->told = false;
    (void)pthread_mutex_unlock(&outbox->lock);
    return span != NULL;
}

void ing_outbox_put_span_back(struct ing_outbox *outbox, const struct ing_outbox_span *span)
{
    struct outbox_target *target = &outbox->targets[span->target];
    struct ing_span *taken = ing_spans_find(&target->spans, span->first);

    if (taken->dropped) {
        const struct ing_span nothing = {0};

        /* Nothing of it is sent any more, since an operator has dropped it. */
        target->dropped[OUTBOX_BY_OPERATOR] += taken->count;
        ing_outbox_write_delete(outbox, span->target, taken->first, taken->last);
        ing_outbox_write_end(outbox, span->target, taken->first, &nothing);
        ing_spans_end(&target->spans, taken);
    } else {
        const struct ing_span left = *taken;

        ing_spans_put_back(&target->spans, taken, &left);
        ing_outbox_bound(outbox);
    }
}

void ing_outbox_put_back(struct ing_outbox *outbox, const struct ing_outbox_span *span)
{
    (void)pthread_mutex_lock(&outbox->lock);
    ing_outbox_put_span_back(outbox, span);
    (void)pthread_mutex_unlock(&outbox->lock);
}

/* ---- holds ---- */

bool ing_outbox_hold(struct ing_outbox *outbox, unsigned target, uint32_t tenant, int64_t for_ns)
{
    int64_t until_mono_ns = fg_time_add(fg_mono_ns(outbox->config.clock), for_ns);
    bool held;

    (void)pthread_mutex_lock(&outbox->lock);
    held = ing_spans_hold(&outbox->targets[target].spans, tenant, until_mono_ns);
    (void)pthread_mutex_unlock(&outbox->lock);
    return held;
}

bool ing_outbox_holds(struct ing_outbox *outbox, unsigned target, uint32_t tenant)
{
    struct ing_spans *spans = &outbox->targets[target].spans;
    bool held;

    (void)pthread_mutex_lock(&outbox->lock);
    (void)ing_spans_release(spans, fg_mono_ns(outbox->config.clock));
    held = ing_spans_holds(spans, tenant);
    (void)pthread_mutex_unlock(&outbox->lock);
    return held;
}

int64_t ing_outbox_held_ns(struct ing_outbox *outbox, unsigned target)
{
    int64_t now_ns = fg_mono_ns(outbox->config.clock), next_mono_ns, resend_mono_ns;
    struct outbox_target *at = &outbox->targets[target];

    (void)pthread_mutex_lock(&outbox->lock);
    next_mono_ns = ing_spans_release(&at->spans, now_ns);
    (void)ing_resend_tenants_held(&at->resend_tenants, now_ns, &resend_mono_ns);
    (void)pthread_mutex_unlock(&outbox->lock);
    next_mono_ns = FG_MIN(next_mono_ns, resend_mono_ns);
    return next_mono_ns == INT64_MAX ? INT64_MAX : next_mono_ns - now_ns;
}

/* ---- reports ---- */

/* An item waits again. */
static void leave(const struct ing_spans *spans, struct ing_span *left,
                  const struct ing_outbox_item *item)
{
    int64_t wall_ns = item->entry.received_wall_ns;

    if (left->count == 0)
        *left = (struct ing_span){
            .first = item->seq, .oldest_wall_ns = wall_ns, .newest_wall_ns = wall_ns};
    if (item->outcome == OUTBOX_HELD)
        ing_spans_note_held(spans, item->entry.key.chunk.group.tenant, left);
    else
        left->of_tenant = 0;
    left->last = item->seq;
    left->count++;
    left->bytes += item->entry.bytes;
    left->oldest_wall_ns = FG_MIN(left->oldest_wall_ns, wall_ns);
    left->newest_wall_ns = FG_MAX(left->newest_wall_ns, wall_ns);
}

/* Keeps an item that nobody will take. Locked. */
static void keep_dead(struct ing_outbox *outbox, unsigned target,
                      const struct ing_outbox_item *item)
{
    struct fg_buf bytes;

    if (item->outcome == OUTBOX_DAMAGED) {
        ing_outbox_write_dead(outbox, target, item->seq, FG_LIT("the entry cannot be read"),
                              item->record);
        return;
    }
    fg_buf_init(&bytes, OUTBOX_ENTRY_MAX_BYTES);
    ing_outbox_put_entry(&bytes, &item->entry);
    ing_outbox_write_dead(outbox, target, item->seq, fg_cstr(item->reason), fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

/* Counts an item that does not wait again. Locked. */
static void count_item(struct ing_outbox *outbox, unsigned target,
                       const struct ing_outbox_item *item)
{
    struct outbox_target *at = &outbox->targets[target];

    switch (item->outcome) {
    case OUTBOX_AGAIN: /* of a span that an operator has dropped meanwhile */
    case OUTBOX_HELD:
        at->dropped[OUTBOX_BY_OPERATOR]++;
        return;
    case OUTBOX_DONE:
        at->done++;
        return;
    case OUTBOX_REFUSED:
    case OUTBOX_DAMAGED:
        at->dropped[OUTBOX_BY_REFUSED]++;
        keep_dead(outbox, target, item);
        return;
    case OUTBOX_GONE:
        at->dropped[OUTBOX_BY_GONE]++;
        return;
    case OUTBOX_EXPIRED:
        at->dropped[OUTBOX_BY_EXPIRED]++;
        return;
    case OUTBOX_DELETED:
        at->dropped[OUTBOX_BY_DELETED]++;
        return;
    }
    fg_assert(false);
}

static bool waits_again(const struct ing_outbox_item *item, const struct ing_span *taken)
{
    return (item->outcome == OUTBOX_AGAIN || item->outcome == OUTBOX_HELD) && !taken->dropped;
}

/* Deletes what does not wait again: all of the span at once, or runs of it. Locked. */
static void delete_ended(struct ing_outbox *outbox, const struct ing_outbox_span *span,
                         const struct ing_span *taken, const struct ing_outbox_item *items,
                         size_t count, bool all)
{
    size_t end;

    if (all) {
        ing_outbox_write_delete(outbox, span->target, span->first, span->last);
        return;
    }
    for (size_t i = 0; i < count; i = end + 1) {
        for (end = i; end < count && !waits_again(&items[end], taken);)
            end++;
        if (end > i)
            ing_outbox_write_delete(outbox, span->target, items[i].seq, items[end - 1].seq);
    }
}

void ing_outbox_report_items(struct ing_outbox *outbox, const struct ing_outbox_span *span,
                             const struct ing_outbox_item *items, size_t count)
{
    struct outbox_target *target = &outbox->targets[span->target];
    struct ing_span left = {0}, *taken = ing_spans_find(&target->spans, span->first);

    for (size_t i = 0; i < count; i++) {
        fg_assert(items[i].seq >= span->first && items[i].seq <= span->last &&
                  (i == 0 || items[i - 1].seq < items[i].seq));
        if (waits_again(&items[i], taken))
            leave(&target->spans, &left, &items[i]);
        else
            count_item(outbox, span->target, &items[i]);
    }
    if (left.count == count && count > 0) { /* nothing to write */
        ing_spans_put_back(&target->spans, taken, &left);
        ing_outbox_bound(outbox);
    } else {
        delete_ended(outbox, span, taken, items, count, left.count == 0);
        ing_outbox_write_end(outbox, span->target, span->first, &left);
        ing_spans_end(&target->spans, taken);
    }
}

void ing_outbox_report(struct ing_outbox *outbox, const struct ing_outbox_span *span,
                       const struct ing_outbox_item *items, size_t count)
{
    (void)pthread_mutex_lock(&outbox->lock);
    ing_outbox_report_items(outbox, span, items, count);
    (void)pthread_mutex_unlock(&outbox->lock);
}

/* ---- operators ---- */

int ing_outbox_find(const struct ing_outbox *outbox, struct fg_slice name)
{
    for (unsigned i = 0; i < outbox->n_targets; i++)
        if (fg_slice_is(name, outbox->targets[i].name))
            return (int)i;
    return -1;
}

unsigned ing_outbox_count(const struct ing_outbox *outbox)
{
    return outbox->n_targets;
}

const char *ing_outbox_name(const struct ing_outbox *outbox, unsigned target)
{
    fg_assert(target < outbox->n_targets);
    return outbox->targets[target].name;
}

enum fg_code ing_outbox_pause(struct ing_outbox *outbox, unsigned target, bool paused,
                              struct fg_err *err)
{
    struct outbox_target *at = &outbox->targets[target];
    enum fg_code code;

    fg_assert(target < outbox->n_targets);
    (void)pthread_mutex_lock(&outbox->lock);
    at->paused = paused;
    at->meta_changes++;
    if (!paused) {
        at->told = false;
        note_ready(at);
    }
    code = ing_outbox_write_wait(outbox, err);
    (void)pthread_mutex_unlock(&outbox->lock);
    ing_outbox_tell(outbox);
    return code;
}

/* Returns false if none is under way. Locked. */
static bool end_resend(const struct ing_outbox *outbox, struct outbox_target *target)
{
    if (!ing_outbox_is_resending(target))
        return false;
    target->resend.state = RESEND_DONE;
    target->resend_tenants = (struct ing_resend_tenants){0};
    target->resend.incomplete = true;
    target->resend.ended_wall_ns = fg_wall_ns(outbox->config.clock);
    target->meta_changes++;
    return true;
}

enum fg_code ing_outbox_drop(struct ing_outbox *outbox, unsigned target, uint64_t *ret_profiles,
                             struct fg_err *err)
{
    struct outbox_target *at = &outbox->targets[target];
    uint64_t profiles;
    enum fg_code code;

    fg_assert(target < outbox->n_targets);
    (void)pthread_mutex_lock(&outbox->lock);
    profiles = drop_down_to(outbox, target, (struct drop_limit){0});
    at->dropped[OUTBOX_BY_OPERATOR] += profiles;
    ing_spans_drop_taken(&at->spans);
    (void)end_resend(outbox, at);
    ing_outbox_bound(outbox);
    code = ing_outbox_write_wait(outbox, err);
    (void)pthread_mutex_unlock(&outbox->lock);
    if (code == FG_OK)
        *ret_profiles = profiles;
    return code;
}

/* ---- resending ---- */

bool ing_outbox_get_resending(struct ing_outbox *outbox, unsigned target,
                              struct ing_resend *ret_resend)
{
    bool failing = ing_head_writer_is_failing(outbox->config.writer), goes_on;
    int64_t now_ns = fg_mono_ns(outbox->config.clock);
    struct outbox_target *at = &outbox->targets[target];

    fg_assert(target < outbox->n_targets);
    if (failing)
        atomic_store(&outbox->turned_away, true);
    (void)pthread_mutex_lock(&outbox->lock);
    *ret_resend = at->resend;
    goes_on = ing_outbox_is_resending(at) && !at->paused && !failing &&
              (at->resend.state != RESEND_READS ||
               ing_resend_tenants_next(&at->resend_tenants, now_ns, ret_resend));
    (void)pthread_mutex_unlock(&outbox->lock);
    return goes_on;
}

/* Takes over what a page has done. Locked. */
static void note_page(struct outbox_target *target, const struct ing_resend *now)
{
    struct ing_resend_tenants *tenants = &target->resend_tenants;

    if (now->state == RESEND_DONE && tenants->n > 0) { /* no other tenant follows those that wait */
        ing_resend_tenants_note_all_begun(tenants);
        return;
    }
    if (now->state == RESEND_READS)
        ing_resend_tenants_note(tenants, now);
    target->resend = *now;
    target->meta_changes++;
}

bool ing_outbox_note_resend(struct ing_outbox *outbox, unsigned target,
                            const struct ing_resend *before, const struct ing_resend *now)
{
    struct outbox_target *at = &outbox->targets[target];
    bool same, done;

    (void)pthread_mutex_lock(&outbox->lock);
    /* No other page of it was read meanwhile, but an operator may have ended it. */
    same = at->resend.state == before->state && at->resend.begun_wall_ns == before->begun_wall_ns;
    if (same)
        note_page(at, now);
    done = same && at->resend.state == RESEND_DONE;
    (void)pthread_mutex_unlock(&outbox->lock);
    return done;
}

void ing_outbox_hold_resend(struct ing_outbox *outbox, unsigned target, const char *tenant,
                            int64_t for_ns)
{
    int64_t until_mono_ns = fg_time_add(fg_mono_ns(outbox->config.clock), for_ns);

    (void)pthread_mutex_lock(&outbox->lock);
    ing_resend_tenants_hold(&outbox->targets[target].resend_tenants, tenant, until_mono_ns);
    (void)pthread_mutex_unlock(&outbox->lock);
}

enum fg_code ing_outbox_resend(struct ing_outbox *outbox, unsigned target, int64_t from_ns,
                               int64_t until_ns, struct fg_err *err)
{
    int64_t wall_ns = fg_wall_ns(outbox->config.clock);
    struct outbox_target *at = &outbox->targets[target];
    enum fg_code code;

    fg_assert(target < outbox->n_targets && from_ns <= until_ns);
    (void)pthread_mutex_lock(&outbox->lock);
    if (ing_outbox_is_resending(at)) {
        code = fg_fail(err, FG_E_EXISTS, "a resend to %s is under way", at->name);
    } else {
        at->resend = (struct ing_resend){.state = RESEND_COMMITS,
                                         .from_ns = from_ns,
                                         .until_ns = until_ns,
                                         .begun_wall_ns = wall_ns};
        at->resend_tenants = (struct ing_resend_tenants){0};
        at->meta_changes++;
        at->told = false;
        note_ready(at);
        code = ing_outbox_write_wait(outbox, err);
    }
    (void)pthread_mutex_unlock(&outbox->lock);
    ing_outbox_tell(outbox);
    return code;
}

enum fg_code ing_outbox_end_resend(struct ing_outbox *outbox, unsigned target, struct fg_err *err)
{
    enum fg_code code = FG_OK;

    fg_assert(target < outbox->n_targets);
    (void)pthread_mutex_lock(&outbox->lock);
    if (end_resend(outbox, &outbox->targets[target]))
        code = ing_outbox_write_wait(outbox, err);
    (void)pthread_mutex_unlock(&outbox->lock);
    return code;
}

struct ing_outbox_numbers ing_outbox_numbers(struct ing_outbox *outbox, unsigned target)
{
    int64_t now_ns = fg_mono_ns(outbox->config.clock), next_mono_ns;
    struct outbox_target *at = &outbox->targets[target];
    struct ing_outbox_numbers numbers;

    fg_assert(target < outbox->n_targets);
    (void)pthread_mutex_lock(&outbox->lock);
    numbers = (struct ing_outbox_numbers){
        .pending_profiles = at->spans.count,
        .pending_bytes = at->spans.bytes,
        .taken_profiles = at->spans.taken_count,
        .oldest_wall_ns = ing_spans_oldest_wall_ns(&at->spans),
        .done = at->done,
        .refused_pushes = atomic_load(&at->refused_pushes),
        .dead = at->dead,
        .queue_max_bytes = at->config.queue_max_bytes,
        .spans = ing_spans_count(&at->spans),
        .held_tenants = at->spans.n_holds,
        .paused = at->paused,
        .resend = at->resend,
        .resend_held_tenants = ing_resend_tenants_held(&at->resend_tenants, now_ns, &next_mono_ns),
    };
    memcpy(numbers.dropped, at->dropped, sizeof numbers.dropped);
    (void)pthread_mutex_unlock(&outbox->lock);
    return numbers;
}

/* ---- life ---- */

enum fg_code ing_outbox_create(const struct ing_outbox_config *config,
                               struct ing_outbox **ret_outbox, struct fg_err *err)
{
    struct ing_outbox *outbox = fg_new(struct ing_outbox);
    enum fg_code code;
    bool any = false;

    outbox->config = *config;
    (void)pthread_mutex_init(&outbox->lock, NULL);
    (void)pthread_mutex_init(&outbox->ready_lock, NULL);
    (void)pthread_cond_init(&outbox->moved, NULL);
    fg_store_batch_init(&outbox->filling.batch);
    fg_store_batch_init(&outbox->writing.batch);
    outbox->filling.number = 1;
    code = ing_outbox_load(outbox, &any, err);
    if (code != FG_OK || !any) {
        ing_outbox_destroy(outbox);
        outbox = NULL;
    }
    if (code == FG_OK)
        *ret_outbox = outbox;
    return code;
}

static void writes_done(struct outbox_writes *writes)
{
    fg_store_batch_done(&writes->batch);
    free(writes->ends);
}

void ing_outbox_destroy(struct ing_outbox *outbox)
{
    if (outbox == NULL)
        return;
    for (unsigned i = 0; i < outbox->n_targets; i++) {
        ing_spans_done(&outbox->targets[i].spans);
        free(outbox->targets[i].name);
    }
    ing_pins_done(&outbox->pins);
    writes_done(&outbox->filling);
    writes_done(&outbox->writing);
    free(outbox->added);
    (void)pthread_cond_destroy(&outbox->moved);
    (void)pthread_mutex_destroy(&outbox->ready_lock);
    (void)pthread_mutex_destroy(&outbox->lock);
    free(outbox);
}
