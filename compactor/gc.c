#include "compactor/gc.h"

#include "common/runtime/log.h"
#include "common/storage/bucket/kept.h"
#include "compactor/fetch.h"
#include "compactor/metrics.h"

#define QUERY_COUNTS_KEPT_NS (FG_HOUR_NS * 24 * 40)

enum {
    ARENA_BYTES = 64 * 1024 * 1024, /* of the names of one manifest's objects */
    AT_ONCE = 16,                   /* deletions under way */
};

/* ---- deleting objects ---- */

static void send_delete(struct cmp_env *env, struct fg_bucket_wave *wave,
                        struct fg_bucket_request *request, const char *name)
{
    *request = (struct fg_bucket_request){.verb = FG_BUCKET_DELETE,
                                          .name = name,
                                          .deadline_mono_ns =
                                              cmp_env_deadline(env, ENV_REQUEST_TIMEOUT_NS)};
    fg_bucket_wave_send(wave, env->bucket, request);
}

/* A missing object counts as deleted. */
static enum fg_code delete_all(struct cmp_env *env, const char *const *names, uint32_t count,
                               struct fg_err *err)
{
    struct fg_bucket_request requests[AT_ONCE] = {{0}}, *request;
    struct fg_bucket_wave *wave = fg_bucket_wave_create_until(env->stop);
    enum fg_code code = FG_OK;
    uint32_t sent = 0;

    for (; sent < FG_MIN(count, (uint32_t)AT_ONCE); sent++)
        send_delete(env, wave, &requests[sent], names[sent]);
    while ((request = fg_bucket_wave_next(wave)) != NULL) {
        if (request->code != FG_OK && code == FG_OK) {
            code = request->code;
            *err = request->err;
        }
        fg_bucket_clear(request);
        /* After a failure nothing more is sent, but what is under way has to come home: the wave
         * and the requests are on this stack. */
        if (sent < count && code == FG_OK)
            send_delete(env, wave, request, names[sent++]);
    }
    fg_bucket_wave_destroy(wave);
    fg_assert(code != FG_OK || sent == count);
    return code;
}

/* Deletes objects first and their entries second. A crash in between repeats deletions, which is
 * harmless; in the other order the objects would be orphans until a sweep. tenant: of the
 * manifest, empty for the L0 manifest. */
static enum fg_code delete_and_forget(struct cmp_env *env, struct fg_slice tenant,
                                      const char *const *names, const struct cmp_edit_task *task,
                                      struct fg_err *err)
{
    if (delete_all(env, names, task->count, err) != FG_OK)
        return err->code;
    fg_metric_add(env->metrics, COMPACTOR_OBJECTS_DELETED, task->count);
    return cmp_edit_carry_out(env, tenant, task, err);
}

static enum fg_code no_room(uint32_t count, struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "%u objects to delete", count);
}

/* Takes a page of a list. What it deletes is of pages that were listed. *ret_end, false before: no
 * further page is needed. */
typedef enum fg_code (*on_page)(void *arg, const struct fg_bucket_request *page, bool *ret_end,
                                struct fg_err *err);

/* Calls each() with each page of the list of names that begin with the prefix. */
static enum fg_code each_page(struct cmp_env *env, const char *prefix, on_page each, void *arg,
                              struct fg_err *err)
{
    struct fg_bucket_request page = {.verb = FG_BUCKET_LIST, .name = prefix};
    enum fg_code code = FG_OK;
    char *after = NULL;
    bool end = false;

    do {
        page.after = after;
        page.deadline_mono_ns = cmp_env_deadline(env, ENV_REQUEST_TIMEOUT_NS);
        code = cmp_env_check(env, err);
        if (code == FG_OK && cmp_env_call(env, &page) != FG_OK) {
            *err = page.err;
            code = err->code;
        } else if (code == FG_OK) {
            code = each(arg, &page, &end, err);
        }
        /* page.next is copied: it belongs to the request, which is cleared below. */
        free(after);
        after = code == FG_OK && !end && page.next != NULL ? fg_strdup(page.next) : NULL;
        fg_bucket_clear(&page);
    } while (after != NULL);
    return code;
}

/* ---- the L0 manifest ---- */

enum fg_code cmp_gc_retire(struct cmp_env *env, const struct cmp_gc_config *config,
                           const struct fg_l0 *l0, const struct fg_blocks *const *blocks,
                           struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct cmp_edit_task task = {.kind = EDIT_RETIRE};
    uint64_t *generations;

    if (cmp_gc_retirable(config, l0, blocks, fg_wall_ns(env->clock), arena, &generations,
                         &task.count, err) != FG_OK)
        return err->code;
    task.generations = generations;
    if (task.count == 0)
        return FG_OK;
    if (cmp_edit_carry_out(env, FG_LIT(""), &task, err) != FG_OK)
        return err->code;
    fg_metric_add(env->metrics, COMPACTOR_RETIRED, task.count);
    return FG_OK;
}

enum fg_code cmp_gc_delete_segments(struct cmp_env *env, const struct cmp_gc_config *config,
                                    const struct fg_l0 *l0, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct cmp_edit_task task = {.kind = EDIT_DELETED_SEGMENTS};
    struct fg_segment_id *ids;
    const char **names;
    char name[FG_NAME_MAX_BYTES];

    if (cmp_gc_deletable_segments(config, l0, fg_wall_ns(env->clock), arena, &ids, &task.count,
                                  err) != FG_OK)
        return err->code;
    if (task.count == 0)
        return FG_OK;
    names = fg_arena_new(arena, const char *, task.count);
    for (uint32_t i = 0; i < task.count && names != NULL; i++) {
        fg_name_segment(name, &ids[i]);
        names[i] = fg_arena_text(arena, fg_cstr(name));
        if (names[i] == NULL)
            return no_room(task.count, err);
    }
    if (names == NULL)
        return no_room(task.count, err);
    task.segments = ids;
    return delete_and_forget(env, FG_LIT(""), names, &task, err);
}

/* ---- a tenant's ---- */

enum fg_code cmp_gc_delete_blocks(struct cmp_env *env, const struct cmp_gc_config *config,
                                  const struct fg_blocks *blocks, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct cmp_edit_task task = {.kind = EDIT_DELETED_BLOCKS};
    struct fg_id *ids;
    const char **names;
    char name[FG_NAME_MAX_BYTES];

    if (cmp_gc_deletable_blocks(config, blocks, fg_wall_ns(env->clock), arena, &ids, &task.count,
                                err) != FG_OK)
        return err->code;
    if (task.count == 0)
        return FG_OK;
    names = fg_arena_new(arena, const char *, task.count);
    for (uint32_t i = 0; i < task.count && names != NULL; i++) {
        if (fg_name_block(name, blocks->tenant, ids[i], err) != FG_OK)
            return err->code;
        names[i] = fg_arena_text(arena, fg_cstr(name));
        if (names[i] == NULL)
            return no_room(task.count, err);
    }
    if (names == NULL)
        return no_room(task.count, err);
    task.blocks = ids;
    return delete_and_forget(env, blocks->tenant, names, &task, err);
}

/* ---- orphans ---- */

/* A sweep for orphans, page by page of the bucket's list. */
struct sweeping {
    struct cmp_env *env;
    const struct cmp_gc_config *config;
    struct fg_tenants *tenants;
    int64_t wall_ns;
    struct fg_manifest *l0, *blocks;
    char tenant[FG_TENANT_MAX_BYTES + 1];  /* of blocks */
    bool tenant_read;                      /* since the page was listed */
    bool tenant_lost;                      /* its manifest is lost, damaged or old */
    uint32_t n_unlisted;                   /* segments of cuts that the L0 manifest does not know */
    const char *names[FG_BUCKET_PAGE_MAX]; /* the page's, as the next */
    uint32_t n_names;
    const char *expired[FG_BUCKET_PAGE_MAX]; /* ad hoc profiles, counts of queries */
    uint32_t n_expired, n_adhoc;             /* of them: ad hoc profiles */
};

/* Names are sorted, so a tenant's blocks are next to each other and its manifest is read once per
 * page. */
static enum fg_code know_tenant(struct sweeping *sweeping, const struct fg_name *name,
                                struct fg_err *err)
{
    bool same = strcmp(sweeping->tenant, name->tenant) == 0;

    if (same && sweeping->tenant_read)
        return FG_OK;
    if (!same) {
        fg_manifest_unref(sweeping->blocks);
        sweeping->blocks = NULL;
        memcpy(sweeping->tenant, name->tenant, sizeof sweeping->tenant);
    }
    sweeping->tenant_read = true;
    sweeping->tenant_lost = false;
    if (cmp_env_read_manifest(sweeping->env, fg_cstr(sweeping->tenant), &sweeping->blocks, err) !=
        FG_OK) {
        if (err->code != FG_E_CORRUPT)
            return err->code;
        sweeping->tenant_lost = true;
    } else if (fg_blocks_check(&sweeping->blocks->blocks, &sweeping->l0->l0, err) != FG_OK) {
        sweeping->tenant_lost = true;
    }
    if (sweeping->tenant_lost) /* nobody knows its live blocks now, so all of them stay */
        fg_log_error("orphaned blocks of a tenant are kept: its manifest is lost or damaged",
                     fg_ls("tenant", name->tenant), fg_ls("err", err->msg));
    return FG_OK;
}

/* Objects that no manifest lists have their time in their names. */
static void add_expired(struct sweeping *sweeping, const struct fg_bucket_entry *entry)
{
    fg_assert(sweeping->n_expired <
              FG_BUCKET_PAGE_MAX); /* one for each entry of the page at most */
    sweeping->expired[sweeping->n_expired++] = entry->name;
}

/* Each file has its upload's time in its name, and no manifest lists it. */
static void look_at_adhoc(struct sweeping *sweeping, const struct fg_adhoc_name *name,
                          const struct fg_bucket_entry *entry)
{
    struct fg_limits *limits = fg_tenants_limits(sweeping->tenants, fg_cstr(name->tenant));
    int64_t kept_ns = limits->values.adhoc_retention_period_ns;

    /* By the store's clock as well: that of the querier that took the upload may have been late. */
    if (fg_adhoc_has_expired(name, kept_ns, sweeping->wall_ns / FG_MS_NS) &&
        sweeping->wall_ns >= fg_time_add(entry->modified_wall_ns, kept_ns))
        add_expired(sweeping, entry);
    sweeping->n_adhoc = sweeping->n_expired;
    fg_limits_unref(limits);
}

static enum fg_code look_at(struct sweeping *sweeping, const struct fg_bucket_entry *entry,
                            struct fg_err *err)
{
    int64_t wall_ns = sweeping->wall_ns;
    int64_t orphan_from_ns =
        fg_time_add(entry->modified_wall_ns, sweeping->config->orphan_after_ns);
    const struct fg_blocks *blocks = NULL;
    struct fg_query_counts_name counts;
    struct fg_adhoc_name adhoc;
    struct fg_name name;

    if (fg_name_parse_adhoc(fg_cstr(entry->name), &adhoc)) {
        look_at_adhoc(sweeping, &adhoc, entry);
        return FG_OK;
    }
    if (fg_name_parse_query_counts(fg_cstr(entry->name), &counts)) {
        /* Documents have the counts an hour after they were complete; a compactor that was off for
         * a month may still add them up. */
        if (wall_ns >= fg_time_add(fg_usage_day_start_ns(counts.day), QUERY_COUNTS_KEPT_NS) &&
            wall_ns >= fg_time_add(entry->modified_wall_ns, QUERY_COUNTS_KEPT_NS))
            add_expired(sweeping, entry);
        return FG_OK;
    }
    /* Names that are not ours parse to nothing and stay: the bucket may be shared with other
     * programs. */
    if (wall_ns < orphan_from_ns || !fg_name_parse(fg_cstr(entry->name), &name))
        return FG_OK;
    if (name.kind == FG_NAME_IS_BLOCK) {
        if (know_tenant(sweeping, &name, err) != FG_OK)
            return err->code;
        if (sweeping->tenant_lost)
            return FG_OK;
        blocks = &sweeping->blocks->blocks;
    }
    sweeping->n_unlisted += cmp_gc_is_unlisted(sweeping->config, &name, entry->modified_wall_ns,
                                               wall_ns, &sweeping->l0->l0);
    fg_assert(sweeping->n_names < FG_BUCKET_PAGE_MAX); /* one for each entry of the page at most */
    if (cmp_gc_is_orphan(sweeping->config, &name, entry->modified_wall_ns, wall_ns,
                         &sweeping->l0->l0, blocks))
        sweeping->names[sweeping->n_names++] = entry->name;
    return FG_OK;
}

/* Manifests are read after the page was listed, so an object that entered meanwhile is no orphan.
 */
static enum fg_code sweep_page(void *arg, const struct fg_bucket_request *page, bool *ret_end,
                               struct fg_err *err)
{
    struct sweeping *sweeping = arg;

    (void)ret_end;
    sweeping->n_names = sweeping->n_expired = sweeping->n_adhoc = 0;
    sweeping->tenant_read = false;
    if (cmp_env_read_manifest(sweeping->env, FG_LIT(""), &sweeping->l0, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < page->n_entries; i++)
        if (look_at(sweeping, &page->entries[i], err) != FG_OK)
            return err->code;
    if (sweeping->n_expired > 0) {
        if (delete_all(sweeping->env, sweeping->expired, sweeping->n_expired, err) != FG_OK)
            return err->code;
        fg_metric_add(sweeping->env->metrics, COMPACTOR_ADHOC, sweeping->n_adhoc);
    }
    if (sweeping->n_names == 0)
        return FG_OK;
    fg_log_info("deleting orphaned objects that no manifest lists",
                fg_lu("objects", sweeping->n_names), fg_ls("first", sweeping->names[0]));
    fg_metric_add(sweeping->env->metrics, COMPACTOR_ORPHANS, sweeping->n_names);
    return delete_all(sweeping->env, sweeping->names, sweeping->n_names, err);
}

static enum fg_code sweep(struct sweeping *sweeping, const char *prefix, struct fg_err *err)
{
    return each_page(sweeping->env, prefix, sweep_page, sweeping, err);
}

/* Incomplete uploads are in no list, and cost as much as objects. */
static enum fg_code abort_uploads(struct cmp_env *env, const struct cmp_gc_config *config,
                                  struct fg_err *err)
{
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_CLEAN_UP,
        .older_than_ns = config->orphan_after_ns,
        .deadline_mono_ns = cmp_env_deadline(env, ENV_UPLOAD_TIMEOUT_NS),
    };
    enum fg_code code = cmp_env_call(env, &request);

    if (code != FG_OK)
        *err = request.err;
    else
        fg_metric_add(env->metrics, COMPACTOR_UPLOADS, request.size_bytes);
    fg_bucket_clear(&request);
    return code;
}

enum fg_code cmp_gc_sweep_orphans(struct cmp_env *env, const struct cmp_gc_config *config,
                                  struct fg_tenants *tenants, struct fg_err *err)
{
    struct sweeping *sweeping = fg_new(struct sweeping);
    enum fg_code code;

    sweeping->env = env;
    sweeping->config = config;
    sweeping->tenants = tenants;
    sweeping->wall_ns = fg_wall_ns(env->clock);
    code = sweep(sweeping, FG_NAME_SEGMENTS, err);
    /* Set only if all segments were listed: a part of them would look like a recovery. */
    if (code == FG_OK)
        fg_metric_set(env->metrics, COMPACTOR_UNLISTED, sweeping->n_unlisted);
    if (code == FG_OK)
        code = sweep(sweeping, FG_NAME_TENANTS, err);
    if (code == FG_OK)
        code = sweep(sweeping, FG_NAME_QUERY_COUNTS, err);
    if (code == FG_OK)
        code = abort_uploads(env, config, err);
    fg_manifest_unref(sweeping->l0);
    fg_manifest_unref(sweeping->blocks);
    free(sweeping);
    return code;
}

/* ---- all of a tenant ---- */

struct erased {
    struct cmp_env *env;
    struct fg_slice tenant;
    const char *except; /* the name of an object that stays */
    struct fg_manifest *l0;
    uint64_t count; /* of objects that were deleted */
    struct cmp_erasure_shared *shared;
};

static enum fg_code erase_page(void *arg, const struct fg_bucket_request *page, bool *ret_end,
                               struct fg_err *err)
{
    const char *names[FG_BUCKET_PAGE_MAX];
    struct erased *erased = arg;
    uint32_t n = 0;

    (void)ret_end;
    for (size_t i = 0; i < page->n_entries; i++)
        if (strcmp(page->entries[i].name, erased->except) != 0)
            names[n++] = page->entries[i].name;
    erased->count += n;
    return delete_all(erased->env, names, n, err);
}

/* Says of a segment that no manifest lists if it has parts of the tenant, and of others. Neither if
 * it is damaged: `flamegrid bucket verify` reports that. */
static enum fg_code look_into_segment(struct erased *erased, const struct fg_bucket_entry *entry,
                                      bool *ret_has, bool *ret_others, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct cmp_fetch_place place = {.name = entry->name, .bytes = entry->size_bytes};
    struct fg_block_directory directory = {.n_parts = 0};
    struct fg_buf tail;
    enum fg_code code;

    *ret_has = *ret_others = false;
    if (place.bytes < FG_BLOCK_TRAILER_BYTES)
        return FG_OK;
    code = cmp_fetch_range(
        erased->env, place.name,
        (struct fg_block_range){place.bytes - FG_BLOCK_TRAILER_BYTES, FG_BLOCK_TRAILER_BYTES},
        &tail, err);
    if (code == FG_OK)
        code = fg_block_directory_offset(fg_buf_slice(&tail), place.bytes, &place.directory_offset,
                                         err);
    fg_buf_done(&tail);
    place.directory_bytes = place.bytes - place.directory_offset;
    if (code == FG_OK)
        code = cmp_fetch_directory(erased->env, &place, arena, &directory, err);
    for (uint32_t i = 0; code == FG_OK && i < directory.n_parts; i++) {
        bool own = fg_slice_eq(directory.parts[i].tenant, erased->tenant);

        *ret_has |= own;
        *ret_others |= !own;
    }
    return fg_damage_is(code) || code == FG_E_NOT_FOUND ? FG_OK : code;
}

/* The name of a segment does not tell its tenants. Garbage is deleted without reading it: a later
 * sweep would do so anyway. Of segments that may still be committed, those of this tenant alone are
 * deleted. Shared ones are left to cmp_erasure_settle(): one may be on its way, or after a restore
 * the only copy of the others' profiles. The manifest is read after the page was listed, so
 * a segment that entered meanwhile is known, and a number that is asked later was asked after the
 * segment was there. */
static enum fg_code erase_segments(void *arg, const struct fg_bucket_request *page, bool *ret_end,
                                   struct fg_err *err)
{
    const char *names[FG_BUCKET_PAGE_MAX];
    struct erased *erased = arg;
    struct cmp_erasure_shared *shared = erased->shared;
    uint32_t n = 0;

    (void)ret_end;
    if (cmp_env_read_manifest(erased->env, FG_LIT(""), &erased->l0, err) != FG_OK)
        return err->code;
    shared->awaits = FG_MAX(shared->awaits, erased->l0->l0.asked + 1);
    for (size_t i = 0; i < page->n_entries; i++) {
        const struct fg_l0 *l0 = &erased->l0->l0;
        struct fg_name name;
        bool has = false, others = false, garbage;

        if (!fg_name_parse(fg_cstr(page->entries[i].name), &name) ||
            name.kind != FG_NAME_IS_SEGMENT || fg_l0_knows(l0, &name.segment))
            continue;
        garbage = cmp_gc_is_garbage(l0, &name.segment);
        if (!garbage && look_into_segment(erased, &page->entries[i], &has, &others, err) != FG_OK)
            return err->code;
        if (garbage || (has && !others))
            names[n++] = page->entries[i].name;
        else if (has && shared->n < ERASURE_SHARED_MAX)
            shared->segments[shared->n++] =
                (struct cmp_gc_unlisted){name.segment, page->entries[i].modified_wall_ns};
    }
    erased->count += n;
    return delete_all(erased->env, names, n, err);
}

enum fg_code cmp_gc_sweep_tenant(struct cmp_env *env, struct fg_slice tenant, uint64_t *ret_count,
                                 struct cmp_erasure_shared *ret_shared, struct fg_err *err)
{
    char manifest[FG_NAME_MAX_BYTES], below[FG_NAME_MAX_BYTES], usage[FG_NAME_MAX_BYTES];
    char kept[sizeof FG_KEPT_PREFIX + FG_NAME_MAX_BYTES];
    struct erased erased = {.env = env, .tenant = tenant, .except = manifest, .shared = ret_shared};
    enum fg_code code;

    *ret_shared = (struct cmp_erasure_shared){.n = 0};
    if (fg_name_blocks(manifest, tenant, err) != FG_OK ||
        fg_name_tenant_all(below, tenant, err) != FG_OK ||
        fg_name_usage_all(usage, tenant, "", err) != FG_OK)
        return err->code;
    (void)snprintf(kept, sizeof kept, FG_KEPT_PREFIX "%s", below);
    code = each_page(env, below, erase_page, &erased, err);
    if (code == FG_OK)
        code = each_page(env, usage, erase_page, &erased, err);
    if (code == FG_OK)
        code = each_page(env, kept, erase_page, &erased, err);
    if (code == FG_OK)
        code = each_page(env, FG_NAME_SEGMENTS, erase_segments, &erased, err);
    fg_manifest_unref(erased.l0);
    *ret_count = erased.count;
    return code;
}

enum fg_code cmp_gc_delete_unlisted(struct cmp_env *env, const struct cmp_gc_unlisted *segments,
                                    uint32_t count, struct fg_err *err)
{
    char texts[ERASURE_SHARED_MAX][FG_NAME_MAX_BYTES];
    const char *names[ERASURE_SHARED_MAX];

    fg_assert(count <= ERASURE_SHARED_MAX);
    for (uint32_t i = 0; i < count; i++) {
        fg_name_segment(texts[i], &segments[i].id);
        names[i] = texts[i];
    }
    if (delete_all(env, names, count, err) != FG_OK)
        return err->code;
    fg_metric_add(env->metrics, COMPACTOR_ORPHANS, count);
    return FG_OK;
}

/* ---- the audit ---- */

/* Names of the audit sort by time, so what has expired is at the start of the list. *ret_end: what
 * follows has not. An object with an old name that was stored lately is of a process whose clock
 * was late: it stays for its time, and holds up nothing. */
static uint32_t find_expired_audit(const struct fg_bucket_request *page, int64_t horizon_ms,
                                   const char *names[FG_BUCKET_PAGE_MAX], bool *ret_end)
{
    uint32_t n = 0;

    *ret_end = false;
    for (size_t i = 0; i < page->n_entries && !*ret_end; i++) {
        const struct fg_bucket_entry *entry = &page->entries[i];
        struct fg_audit_name name;

        if (!fg_audit_read_name(fg_cstr(entry->name), &name))
            continue;
        *ret_end = name.hour_ms >= horizon_ms;
        if (!*ret_end && entry->modified_wall_ns / FG_MS_NS < horizon_ms)
            names[n++] = entry->name;
    }
    return n;
}

static enum fg_code delete_audit(struct cmp_env *env, struct fg_audit *audit, int64_t horizon_ms,
                                 const char *const *names, uint32_t n, struct fg_err *err)
{
    const struct fg_audit_event event = {.kind = FG_AUDIT_RETENTION,
                                         .who = FG_LIT("the compactor"),
                                         .detail = FG_LIT("audit.retention"),
                                         .to_ms = horizon_ms,
                                         .count = n};

    if (fg_audit_record(audit, &event, err) != FG_OK || delete_all(env, names, n, err) != FG_OK)
        return err->code;
    fg_log_info("deleted expired objects of the audit", fg_lu("objects", n),
                fg_ls("first", names[0]));
    return FG_OK;
}

/* A sweep of the audit. */
struct sweeping_audit {
    struct cmp_env *env;
    struct fg_audit *audit;
    int64_t horizon_ms;
};

static enum fg_code sweep_audit_page(void *arg, const struct fg_bucket_request *page, bool *ret_end,
                                     struct fg_err *err)
{
    struct sweeping_audit *sweeping = arg;
    const char *names[FG_BUCKET_PAGE_MAX];
    uint32_t n = find_expired_audit(page, sweeping->horizon_ms, names, ret_end);

    return n == 0
               ? FG_OK
               : delete_audit(sweeping->env, sweeping->audit, sweeping->horizon_ms, names, n, err);
}

enum fg_code cmp_gc_sweep_audit(struct cmp_env *env, struct fg_audit *audit, struct fg_err *err)
{
    int64_t retention_ns = audit == NULL ? 0 : fg_audit_retention_ns(audit);
    struct sweeping_audit sweeping = {.env = env, .audit = audit};

    if (retention_ns == 0)
        return FG_OK;
    sweeping.horizon_ms = fg_audit_hour_ms((fg_wall_ns(env->clock) - retention_ns) / FG_MS_NS);
    return each_page(env, FG_AUDIT_PREFIX, sweep_audit_page, &sweeping, err);
}
