#include "compactor/billing.h"

#include "common/cluster/usage/documents.h"
#include "common/runtime/log.h"
#include "compactor/fetch.h"
#include "compactor/metrics.h"
#include "compactor/plan_core.h"

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "no room for what the tenant used");
}

/* ---- series ---- */

/* True if all of a block's profiles may be counted for this day: a block of the day, or of some
 * hours of it. */
static bool is_of_day(const struct fg_blocks_entry *block, int32_t day)
{
    return !block->derived && block->level <= PLAN_DAY &&
           block->start_ns >= fg_usage_day_start_ns(day) &&
           block->end_ns <= fg_usage_day_start_ns(day + 1);
}

/* Takes the numbers of series of a block's services. The blocks of a whole day divide its shards,
 * so their numbers add up. An hour or late data may have the series of another block; the greater
 * number is what is certain. */
static enum fg_code take_series(const struct cmp_billing *billing,
                                const struct fg_blocks_entry *block, struct fg_usage_day *whole,
                                struct fg_usage_day *parts, struct fg_err *err)
{
    bool adds = block->level == PLAN_DAY && !block->patch;
    struct fg_block_directory directory;
    char name[FG_NAME_MAX_BYTES];

    if (fg_name_block(name, billing->blocks->tenant, block->id, err) != FG_OK ||
        cmp_fetch_directory(billing->env,
                            &(struct cmp_fetch_place){name, block->bytes, block->directory_offset,
                                                      block->directory_bytes},
                            billing->arena, &directory, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < directory.n_parts; i++) {
        struct fg_usage_row *row =
            fg_usage_day_row(adds ? whole : parts, directory.parts[i].service, billing->arena);

        if (row == NULL)
            return no_memory(err);
        row->series = adds ? row->series + directory.parts[i].n_series
                           : FG_MAX(row->series, directory.parts[i].n_series);
    }
    return FG_OK;
}

/* Counts the distinct series of a day's services. */
static enum fg_code count_series(const struct cmp_billing *billing, struct fg_usage_day *day,
                                 struct fg_err *err)
{
    struct fg_usage_day whole = {.day = day->day}, parts = whole;
    uint32_t n = 0;

    for (uint32_t i = 0; i < billing->blocks->n_blocks && n < BILLING_BLOCKS_MAX; i++) {
        const struct fg_blocks_entry *block = &billing->blocks->blocks[i];
        enum fg_code code;

        if (!is_of_day(block, day->day))
            continue;
        n++;
        code = cmp_env_check(billing->env, err);
        if (code == FG_OK)
            code = take_series(billing, block, &whole, &parts, err);
        /* A block that is lost or damaged has no series; bills do not wait for its repair. */
        if (code != FG_OK && !fg_damage_unusable(code))
            return code;
    }
    if (!fg_usage_day_add(day, &whole, billing->arena) ||
        !fg_usage_day_add(day, &parts, billing->arena)) /* the greater number of both */
        return no_memory(err);
    return FG_OK;
}

/* ---- the freeze ---- */

/* Prepares what the ledger cannot know. Queries are counted for days that are frozen for the first
 * time: nothing comes for them later. */
static enum fg_code prepare(const struct cmp_billing *billing, struct fg_blocks_freeze *freeze,
                            struct fg_err *err)
{
    const struct fg_ledger *ledger = &billing->blocks->ledger;
    int32_t first = ledger->next_day;
    struct fg_ledger more = {.stored_wall_ns = 0};

    for (uint32_t i = 0; i < ledger->n_open; i++) {
        struct fg_usage_day *day;

        if (ledger->open[i].day > freeze->last || ledger->open[i].n_rows == 0)
            continue;
        day = fg_ledger_open(&more, ledger->open[i].day, billing->arena);
        if (day == NULL)
            return no_memory(err);
        if (count_series(billing, day, err) != FG_OK)
            return err->code;
    }
    /* A clock that was wrong must not make this a long way. */
    first = FG_MAX(first, freeze->last - FG_LEDGER_DAYS_MAX + 1);
    for (int32_t number = first; number <= freeze->last; number++) {
        struct fg_usage_day *day;
        struct fg_usage_queries queries;

        if (cmp_query_list_get(billing->queries, billing->env, number, billing->blocks->tenant,
                               &queries, err) != FG_OK)
            return err->code;
        if (queries.queries == 0)
            continue;
        day = fg_ledger_open(&more, number, billing->arena);
        if (day == NULL)
            return no_memory(err);
        fg_usage_queries_add(&day->queries, &queries);
    }
    freeze->more = more.open;
    freeze->n_more = more.n_open;
    return FG_OK;
}

static enum fg_code freeze_days(const struct cmp_billing *billing, int64_t wall_ns,
                                struct fg_err *err)
{
    const struct fg_ledger *ledger = &billing->blocks->ledger;
    struct cmp_edit_task task = {.kind = EDIT_FREEZE,
                                 .freeze = {.before = ledger->version,
                                            .version = fg_ledger_next_version(ledger, wall_ns),
                                            .last = fg_ledger_last_day(ledger, wall_ns)}};

    if (prepare(billing, &task.freeze, err) != FG_OK)
        return err->code;
    return cmp_edit_carry_out(billing->env, billing->blocks->tenant, &task, err);
}

/* ---- documents ---- */

static enum fg_code write_document(const struct cmp_billing *billing,
                                   const struct fg_usage_day *frozen, struct fg_err *err)
{
    const struct fg_usage_documents documents = {.bucket = billing->env->bucket,
                                                 .stop = billing->env->stop,
                                                 .clock = billing->env->clock,
                                                 .timeout_ns = ENV_REQUEST_TIMEOUT_NS};
    struct fg_slice tenant = billing->blocks->tenant;
    uint64_t version = billing->blocks->ledger.version;
    struct fg_usage_newest *newest;
    struct fg_usage_document before, next;
    uint32_t n;

    /* All below this version were complete before it was frozen, so everybody finds the same. */
    if (fg_usage_documents_list(&documents, tenant, frozen->day, frozen->day, version,
                                billing->arena, &newest, &n, err) != FG_OK ||
        (n > 0 && fg_usage_documents_read(&documents, tenant, frozen->day, newest[0].version,
                                          billing->arena, &before, err) != FG_OK) ||
        fg_usage_document_next(n == 0 ? NULL : &before, tenant, version, frozen, billing->arena,
                               &next, err) != FG_OK ||
        fg_usage_documents_write(&documents, &next, err) != FG_OK)
        return err->code;
    fg_metric_add(billing->env->metrics, COMPACTOR_USAGE_DOCUMENTS, 1);
    return FG_OK;
}

static enum fg_code write_documents(const struct cmp_billing *billing, struct fg_err *err)
{
    const struct fg_ledger *ledger = &billing->blocks->ledger;
    const struct cmp_edit_task task = {.kind = EDIT_DROP_FROZEN, .freeze.version = ledger->version};

    for (uint32_t i = 0; i < ledger->n_frozen; i++) {
        struct fg_arena_mark mark = fg_arena_mark(billing->arena);
        enum fg_code code = cmp_env_check(billing->env, err);

        if (code == FG_OK)
            code = write_document(billing, &ledger->frozen[i], err);
        fg_arena_release(billing->arena, mark);
        if (code != FG_OK)
            return code;
    }
    if (cmp_edit_carry_out(billing->env, billing->blocks->tenant, &task, err) != FG_OK)
        return err->code;
    fg_log_info("usage documented", fg_lb("tenant", billing->blocks->tenant),
                fg_lu("version", ledger->version), fg_lu("days", ledger->n_frozen));
    return FG_OK;
}

/* True if the tenant has blocks of a version without ledgers, or of a manifest that was rebuilt,
 * and no swap has begun to count what they store. */
static bool has_to_begin(const struct fg_blocks *blocks)
{
    return blocks->ledger.stored_wall_ns == 0 && blocks->n_blocks > 0;
}

enum fg_code cmp_billing_advance(const struct cmp_billing *billing, bool *ret_changed,
                                 struct fg_err *err)
{
    const struct fg_ledger *ledger = &billing->blocks->ledger;
    int64_t wall_ns = fg_wall_ns(billing->env->clock);
    int64_t due_ns = billing->settled ? wall_ns : fg_time_add(wall_ns, -BILLING_PATIENCE_NS);
    const struct cmp_edit_task begin_ledger = {
        /* a freeze of nothing */
        .kind = EDIT_FREEZE,
        .freeze = {.before = ledger->version,
                   .version = fg_ledger_next_version(ledger, wall_ns),
                   .last = fg_usage_day_of(wall_ns) - 1}};
    enum fg_code code = FG_OK;

    *ret_changed =
        ledger->n_frozen > 0 || has_to_begin(billing->blocks) || fg_ledger_is_due(ledger, due_ns);
    if (ledger->n_frozen > 0)
        code = write_documents(billing, err);
    else if (has_to_begin(billing->blocks))
        code = cmp_edit_carry_out(billing->env, billing->blocks->tenant, &begin_ledger, err);
    else if (*ret_changed)
        code = freeze_days(billing, wall_ns, err);
    return code == FG_OK ? FG_OK : fg_wrap(err, "usage");
}
