/*
 * Drops what users have deleted from the queues, also of targets that are away: else such profiles
 * would be sent when the target is back, and their chunks would stay until then, which the deletion
 * waits for.
 *
 * A thread of its own looks through all entries that are pending when a look begins, target by
 * target. It takes spans as the sender does, reads their entries without the profiles, and reports
 * those that are deleted. A span that the sender has is waited for: afterwards it is gone, or it is
 * looked at. So no entry is passed over, and when the reports are written nothing is pending that
 * the deletions of the beginning name. Only then are the pins narrowed to the entries that the look
 * has found, and only then does ing_outbox_clean() say so.
 *
 * The manifests are read after the number was asked, and deletions are in them before that
 * (compactor/completion_core.h), so a look finds all deletions that wait for the number.
 */
#include "common/base/time.h"
#include "common/runtime/log.h"
#include "ingester/forward/outbox_impl.h"

#include <stdlib.h>

enum {
    DELETIONS_MAX_BYTES = 64 << 20, /* of all tenants that have profiles pending */
    ENTRIES_MAX_BYTES = 1 << 20,    /* of a span: 256 entries of 200 bytes */
};

/* While somebody else has a span, or a write is awaited, a look goes on after so long. */
#define LOOK_NS FG_SECOND_NS
/* The log has a lasting fault once in so long. */
#define LOOK_LOG_NS (5 * FG_MINUTE_NS)

/* The deletions of a tenant. */
struct outbox_deleted_tenant {
    bool all;
    struct fg_deletions deletions;
};

/* ---- what is deleted ---- */

bool ing_outbox_is_deleted(const struct ing_outbox *outbox, uint32_t tenant)
{
    const struct ing_deleted *deleted = outbox->config.deleted;

    return deleted != NULL && ing_catalog_has_tenant(outbox->config.catalog, tenant) &&
           deleted->is_tenant(deleted->arg, ing_catalog_tenant_name(ing_catalog_tenant_at(
                                                outbox->config.catalog, tenant)));
}

static bool is_named(const struct ing_outbox *outbox, const struct outbox_deleted_tenant *tenant,
                     const struct ing_head_profile_key *key)
{
    static const struct fg_labels none = {NULL, 0};
    struct ing_catalog *catalog = outbox->config.catalog;
    const struct ing_catalog_series *series =
        ing_catalog_find_series(catalog, ing_catalog_tenant_at(catalog, key->chunk.group.tenant),
                                key->series); /* NULL: its record is lost */
    bool named = false;

    for (uint32_t i = 0; i < tenant->deletions.count && !named; i++) {
        const struct fg_deletion *deletion = &tenant->deletions.items[i];

        named = fg_deletion_meets(deletion, key->time_ns, key->time_ns) &&
                fg_selector_matches(&deletion->selector, series == NULL ? &none : &series->labels);
    }
    return named;
}

/* Decides the items that are deleted. Returns how many. */
static size_t choose(const struct ing_outbox *outbox, struct ing_outbox_item *items, size_t n)
{
    const struct outbox_look *look = &outbox->look;
    unsigned entered = ing_catalog_enter(outbox->config.catalog);
    size_t chosen = 0;

    for (size_t i = 0; i < n; i++) {
        const struct ing_head_profile_key *key = &items[i].entry.key;
        const struct outbox_deleted_tenant *tenant =
            items[i].outcome == OUTBOX_AGAIN && key->chunk.group.tenant < look->n_tenants
                ? look->tenants[key->chunk.group.tenant]
                : NULL;

        if (tenant != NULL && (tenant->all || is_named(outbox, tenant, key)))
            items[i].outcome = OUTBOX_DELETED;
        chosen += items[i].outcome != OUTBOX_AGAIN;
    }
    ing_catalog_leave(outbox->config.catalog, entered);
    return chosen;
}

/* ---- a look ---- */

static void end_look(struct ing_outbox *outbox)
{
    struct outbox_look *look = &outbox->look;

    for (uint32_t i = 0; look->tenants != NULL && i < look->n_tenants; i++)
        if (look->tenants[i] != NULL)
            fg_deletions_done(&look->tenants[i]->deletions);
    for (unsigned i = 0; i < outbox->n_targets; i++)
        ing_pins_done(&look->found[i]);
    fg_arena_destroy(look->arena);
    *look = (struct outbox_look){.logged_mono_ns = look->logged_mono_ns};
}

/* Reads what is deleted of a tenant. */
static enum fg_code read_tenant(struct ing_outbox *outbox, uint32_t number, struct fg_err *err)
{
    const struct ing_deleted *deleted = outbox->config.deleted;
    struct outbox_look *look = &outbox->look;
    struct outbox_deleted_tenant tenant = {.all = ing_outbox_is_deleted(outbox, number)};
    struct fg_slice name;

    if (!ing_catalog_has_tenant(outbox->config.catalog, number))
        return FG_OK;
    name = ing_catalog_tenant_name(ing_catalog_tenant_at(outbox->config.catalog, number));
    if (!tenant.all &&
        deleted->read(deleted->arg, name, look->arena, &tenant.deletions, err) != FG_OK)
        return fg_wrap(err, "deletions of tenant %.*s", FG_S(name));
    if (!tenant.all && tenant.deletions.count == 0)
        return FG_OK;
    look->tenants[number] = fg_arena_new(look->arena, struct outbox_deleted_tenant, 1);
    if (look->tenants[number] == NULL) {
        fg_deletions_done(&tenant.deletions);
        return fg_fail(err, FG_E_LIMIT, "deletions of tenant %.*s", FG_S(name));
    }
    *look->tenants[number] = tenant;
    look->any = true;
    return FG_OK;
}

/* Reads what is deleted of all tenants that have profiles pending. */
static enum fg_code read_tenants(struct ing_outbox *outbox, const bool *pending, struct fg_err *err)
{
    struct outbox_look *look = &outbox->look;

    look->tenants = fg_arena_new(look->arena, struct outbox_deleted_tenant *, look->n_tenants);
    if (look->tenants == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u tenants", look->n_tenants);
    for (uint32_t i = 0; i < look->n_tenants; i++)
        if (pending[i] && (atomic_load(&outbox->look_ends) || read_tenant(outbox, i, err) != FG_OK))
            return err->code;
    return FG_OK;
}

static void tell_failure(struct ing_outbox *outbox, const struct fg_err *err)
{
    int64_t now_ns = fg_mono_ns(outbox->config.clock);
    struct outbox_look *look = &outbox->look;

    if (look->logged_mono_ns != 0 && now_ns - look->logged_mono_ns < LOOK_LOG_NS)
        return;
    look->logged_mono_ns = now_ns;
    fg_log_warn("deleted profiles could not be looked for in the queues of forwarding, will retry; "
                "deletions wait meanwhile",
                fg_ls("err", err->msg));
}

/* Begins a look if one is wanted. Returns false if there is none. */
static bool begin_look(struct ing_outbox *outbox)
{
    struct outbox_look *look = &outbox->look;
    uint32_t n_tenants = ing_catalog_count_tenants(outbox->config.catalog);
    bool *pending = fg_malloc(n_tenants + (size_t)1);
    struct fg_err err = {.code = FG_OK};
    bool wanted, ready;

    memset(pending, 0, n_tenants + (size_t)1);
    (void)pthread_mutex_lock(&outbox->lock);
    wanted = outbox->look_wanted || outbox->asked > outbox->clean;
    outbox->look_wanted = false;
    look->asked = outbox->asked;
    look->n_tenants = n_tenants;
    for (unsigned i = 0; i < outbox->n_targets; i++)
        look->until[i] = ing_spans_until(&outbox->targets[i].spans);
    for (uint32_t i = 0; i < outbox->pins.n; i++)
        if (outbox->pins.items[i].group.tenant < n_tenants)
            pending[outbox->pins.items[i].group.tenant] = true;
    (void)pthread_mutex_unlock(&outbox->lock);
    if (wanted) {
        look->arena = fg_arena_create(DELETIONS_MAX_BYTES);
        look->under_way = read_tenants(outbox, pending, &err) == FG_OK;
    }
    ready = wanted && look->under_way;
    free(pending);
    if (wanted && !ready) {
        if (!atomic_load(&outbox->look_ends))
            tell_failure(outbox, &err);
        end_look(outbox);
        (void)pthread_mutex_lock(&outbox->lock);
        outbox->look_wanted = true;
        (void)pthread_mutex_unlock(&outbox->lock);
    }
    return ready;
}

/* Takes the next span of the look. Returns false if nothing is left, or the next one is busy. */
static bool take_next(struct ing_outbox *outbox, struct ing_outbox_span *ret_span, bool *ret_busy)
{
    struct outbox_look *look = &outbox->look;
    const struct ing_span *span = NULL;

    *ret_busy = false;
    (void)pthread_mutex_lock(&outbox->lock);
    while (span == NULL && !*ret_busy && look->target < outbox->n_targets) {
        struct ing_spans *spans = &outbox->targets[look->target].spans;

        if (look->from < look->until[look->target] &&
            ing_spans_meet(spans, look->from, look->until[look->target] - 1))
            span = ing_spans_take_from(spans, look->from, ret_busy);
        if (span == NULL && !*ret_busy) {
            look->target++;
            look->from = 0;
        }
    }
    if (span != NULL)
        *ret_span = ing_outbox_span_of(look->target, span);
    (void)pthread_mutex_unlock(&outbox->lock);
    return span != NULL;
}

/* Reports what is deleted of a span, and notes which groups the rest names. */
static void report(struct ing_outbox *outbox, const struct ing_outbox_span *span,
                   const struct ing_outbox_item *items, size_t n, size_t chosen)
{
    struct outbox_target *target = &outbox->targets[span->target];
    struct outbox_look *look = &outbox->look;

    (void)pthread_mutex_lock(&outbox->lock);
    for (size_t i = 0; i < n; i++) {
        look->dropped += items[i].outcome == OUTBOX_DELETED;
        if (items[i].outcome == OUTBOX_AGAIN)
            ing_pins_add(&look->found[span->target], &items[i].entry.key.chunk.group, span->target,
                         items[i].seq, outbox->spans);
    }
    if (chosen == 0) {
        ing_outbox_put_span_back(outbox, span);
    } else {
        ing_outbox_report_items(outbox, span, items, n);
        look->write = outbox->filling.number;
    }
    /* The sender may have found nothing while the span was here. */
    target->to_tell |= !target->told && !target->paused;
    (void)pthread_mutex_unlock(&outbox->lock);
}

/* Looks at the next span. Returns false if none can be looked at now. */
static bool look_at_span(struct ing_outbox *outbox, bool *ret_done)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ENTRIES_MAX_BYTES);
    struct outbox_look *look = &outbox->look;
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    struct fg_err err;
    bool busy;
    size_t n;

    *ret_done = false;
    if (!take_next(outbox, &span, &busy)) {
        *ret_done = !busy;
        return false;
    }
    if (ing_outbox_read_entries(outbox, &span, arena, &items, &n, &err) != FG_OK) {
        tell_failure(outbox, &err);
        report(outbox, &span, NULL, 0, 0);
        return false;
    }
    report(outbox, &span, items, n, choose(outbox, items, n));
    look->from = span.last + 1;
    return true;
}

/* All entries were looked at: says so once the reports are written. */
static void finish_look(struct ing_outbox *outbox)
{
    struct outbox_look *look = &outbox->look;
    bool written;

    (void)pthread_mutex_lock(&outbox->lock);
    written = outbox->written >= look->write;
    for (unsigned i = 0; written && look->any && i < outbox->n_targets; i++)
        ing_pins_narrow(&outbox->pins, i, &look->found[i], look->until[i]);
    if (written)
        outbox->clean = look->asked;
    (void)pthread_mutex_unlock(&outbox->lock);
    if (!written)
        return;
    if (look->dropped > 0)
        fg_log_info("deleted profiles are not forwarded any more",
                    fg_lu("profiles", look->dropped));
    end_look(outbox);
}

static void tick(void *arg)
{
    struct ing_outbox *outbox = arg;
    bool done;

    /* No report could be written. */
    if (ing_head_writer_is_failing(outbox->config.writer))
        return;
    if (!outbox->look.under_way && !begin_look(outbox))
        return;
    done = !outbox->look.any;
    while (!done && !atomic_load(&outbox->look_ends) && look_at_span(outbox, &done))
        continue;
    ing_outbox_tell(outbox);
    if (done)
        finish_look(outbox);
}

/* ---- the rest of the ingester ---- */

uint64_t ing_outbox_clean(struct ing_outbox *outbox, uint64_t asked)
{
    uint64_t clean;

    (void)pthread_mutex_lock(&outbox->lock);
    if (asked > outbox->asked) {
        outbox->asked = asked;
        if (outbox->looker != NULL)
            fg_ticker_wake(outbox->looker);
    }
    clean = outbox->clean;
    (void)pthread_mutex_unlock(&outbox->lock);
    return clean;
}

void ing_outbox_drop_deleted(struct ing_outbox *outbox)
{
    if (outbox == NULL)
        return;
    (void)pthread_mutex_lock(&outbox->lock);
    outbox->look_wanted = true;
    if (outbox->looker != NULL)
        fg_ticker_wake(outbox->looker);
    (void)pthread_mutex_unlock(&outbox->lock);
}

enum fg_code ing_outbox_start_looks(struct ing_outbox *outbox, struct fg_err *err)
{
    struct fg_ticker *looker;

    if (outbox->config.deleted == NULL)
        return FG_OK;
    if (fg_ticker_create(&(struct fg_ticker_config){"outbox-deleted", LOOK_NS, tick, outbox},
                         &looker, err) != FG_OK)
        return err->code;
    (void)pthread_mutex_lock(&outbox->lock);
    outbox->looker = looker;
    (void)pthread_mutex_unlock(&outbox->lock);
    return FG_OK;
}

void ing_outbox_stop_looks(struct ing_outbox *outbox)
{
    struct fg_ticker *looker;

    (void)pthread_mutex_lock(&outbox->lock);
    looker = fg_take(outbox->looker);
    (void)pthread_mutex_unlock(&outbox->lock);
    atomic_store(&outbox->look_ends, true);
    fg_ticker_destroy(looker);
    end_look(outbox);
}
