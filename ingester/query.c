/*
 * A query runs on any worker of the QUERY lane, under one guard of the catalog. It chooses series
 * first, then chunks and an iterator in one moment (choose_chunks()), and then reads through that
 * iterator alone: so it sees the head as it was at that moment, and no lock is held while it reads.
 *
 * A query whose snapshot is newer than the manifest that the head follows gives its worker back,
 * and begins again from the start once the head has caught up (fence-gen).
 */
#include "ingester/query.h"

#include "common/base/time.h"

enum {
    QUERY_HEAD_MAX_BYTES = 8 << 20, /* deletions, ids and groups at their most are 5 MB */
};

/* ---- jobs ---- */

struct query_job {
    struct fg_job job;
    struct fg_flow flow; /* of its tenant */
    struct ing_query query;
    struct ing_segments_waiter waiter; /* between two runs */
    enum fg_code (*kind)(struct ing_query *query, struct fg_err *err);
};

/* Charges the flow for what was read since the last time. */
static void charge(struct ing_query *query)
{
    struct query_job *job = fg_container(query, struct query_job, query);

    fg_work_charge(query->context->work, FG_LANE_QUERY, &job->job, query->bytes - query->charged);
    query->charged = query->bytes;
}

enum fg_code ing_query_check_wanted(struct ing_query *query, struct fg_err *err)
{
    charge(query);
    if (fg_rpc_is_abandoned(query->req))
        return fg_fail(err, FG_E_CANCELED, "the caller has disconnected");
    if (fg_rpc_deadline_mono_ns(query->req) <= fg_mono_ns(fg_clock_real()))
        return fg_fail(err, FG_E_DEADLINE, "query took too long: %llu profiles read",
                       (unsigned long long)query->keys);
    return FG_OK;
}

/* Resets a query to its state before a run. */
static void query_init(struct ing_query *query, struct ing_query_context *context,
                       struct fg_rpc_request *req)
{
    *query = (struct ing_query){.context = context, .req = req};
    fg_buf_init(&query->head, FG_RPC_MESSAGE_MAX_BYTES / 2);
    fg_buf_init(&query->payload, FG_RPC_REPLY_MAX_BYTES);
}

static void query_done(struct ing_query *query)
{
    fg_buf_done(&query->head);
    fg_buf_done(&query->payload);
    fg_arena_destroy(fg_take(query->arena));
}

static enum fg_code run_query(struct fg_job *base, struct fg_err *err)
{
    struct query_job *job = fg_container(base, struct query_job, job);
    struct ing_catalog *catalog = job->query.context->catalog;
    enum fg_code code;
    unsigned entered;

    job->query.arena = fg_arena_create(job->query.context->memory_max_bytes);
    if (ing_query_check_wanted(&job->query, err) != FG_OK)
        return err->code;
    if (fg_rpc_head(job->query.req).len > QUERY_HEAD_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "query of %zu bytes, at most %d",
                       fg_rpc_head(job->query.req).len, QUERY_HEAD_MAX_BYTES);
    /* Until the reply is complete, since matches point to series. */
    entered = ing_catalog_enter(catalog);
    code = job->kind(&job->query, err);
    ing_catalog_leave(catalog, entered);
    charge(&job->query);
    return code;
}

static void refuse(struct query_job *job, const struct fg_err *err)
{
    fg_rpc_reply_error(job->query.req, err);
    query_done(&job->query);
    free(job);
}

static void submit(struct query_job *job)
{
    struct fg_err err;

    if (fg_work_submit_flow(job->query.context->work, FG_LANE_QUERY, &job->flow, &job->job) ==
        FG_SUBMIT_QUEUED)
        return;
    (void)fg_fail(&err, FG_E_LIMIT,
                  "too many queries of the tenant are waiting on the ingester "
                  "(ingester.query_queue_max)");
    refuse(job, &err);
}

static void caught_up(struct ing_segments_waiter *waiter, const struct fg_err *err)
{
    struct query_job *job = fg_container(waiter, struct query_job, waiter);

    if (err->code == FG_OK)
        submit(job);
    else
        refuse(job, err);
}

/* No worker waits for the manifest: the query begins again after it was read. */
static void wait_for_manifest(struct query_job *job)
{
    struct ing_query_context *context = job->query.context;
    struct fg_rpc_request *req = job->query.req;
    struct fg_err err;

    /* Everything that the query has read is dropped: chunks may change before it begins again. */
    job->waiter = (struct ing_segments_waiter){.generation = job->query.generation,
                                               .deadline_mono_ns = fg_rpc_deadline_mono_ns(req),
                                               .on_end = caught_up};
    query_done(&job->query);
    query_init(&job->query, context, req);
    if (ing_segments_wait(context->segments, &job->waiter, &err) != FG_OK)
        refuse(job, &err);
}

static void done(struct fg_job *base)
{
    struct query_job *job = fg_container(base, struct query_job, job);
    struct ing_query *query = &job->query;
    struct fg_err full;

    if (job->job.code == FG_E_ABORTED && query->behind) {
        wait_for_manifest(job); /* from here the job is not ours */
        return;
    }
    if (job->job.code == FG_OK && (query->head.full || query->payload.full)) {
        (void)fg_fail(&full, FG_E_LIMIT, "the response exceeds %u bytes", FG_RPC_REPLY_MAX_BYTES);
        fg_rpc_reply_error(query->req, &full);
    } else if (job->job.code == FG_OK) {
        fg_rpc_reply_take(query->req, fg_buf_slice(&query->head), &query->payload);
    } else {
        fg_rpc_reply_error(query->req, &job->job.err);
    }
    query_done(query);
    free(job);
}

void ing_query_submit(struct fg_rpc_request *req, struct ing_query_context *context,
                      struct fg_slice tenant,
                      enum fg_code (*kind)(struct ing_query *query, struct fg_err *err))
{
    struct query_job *job = fg_new(struct query_job);

    job->job.run = run_query;
    job->job.done = done;
    job->kind = kind;
    job->flow.id = fg_hash64_table(tenant);
    query_init(&job->query, context, req);
    submit(job);
}

/* Finds field 1 of a message, which is where the heads of queries have the tenant or the selection,
 * and a selection has the tenant. It comes first, so a large head is not read for it here. Returns
 * an empty slice if it is not there: the query's kind refuses such a head, or knows no tenant of
 * that name. */
static struct fg_slice first_field(struct fg_slice message)
{
    struct fg_cur cur = fg_cur(message);
    struct fg_slice field = {0};

    if (fg_cur_more(&cur) && fg_cur_varint(&cur) == FG_PB_TAG(1, FG_PB_LEN))
        field = fg_cur_lenbytes(&cur);
    return cur.bad ? (struct fg_slice){0} : field;
}

static void submit_selection(struct fg_rpc_request *req, struct ing_query_context *context,
                             enum fg_code (*kind)(struct ing_query *query, struct fg_err *err))
{
    ing_query_submit(req, context, first_field(first_field(fg_rpc_head(req))), kind);
}

void ing_query_handle_select(struct fg_rpc_request *req, void *context)
{
    submit_selection(req, context, ing_query_select);
}

void ing_query_handle_series(struct fg_rpc_request *req, void *context)
{
    submit_selection(req, context, ing_query_series);
}

void ing_query_handle_points(struct fg_rpc_request *req, void *context)
{
    submit_selection(req, context, ing_query_points);
}

void ing_query_handle_rows(struct fg_rpc_request *req, void *context)
{
    submit_selection(req, context, ing_query_rows);
}

void ing_query_handle_stats(struct fg_rpc_request *req, void *context)
{
    ing_query_submit(req, context, first_field(fg_rpc_head(req)), ing_query_stats);
}

/* ---- scope ---- */

static enum fg_match_op match_op(Fg__Inner__MatchOp op)
{
    switch (op) {
    case FG__INNER__MATCH_OP__NE:
        return FG_MATCH_NE;
    case FG__INNER__MATCH_OP__RE:
        return FG_MATCH_RE;
    case FG__INNER__MATCH_OP__NRE:
        return FG_MATCH_NRE;
    default:
        return FG_MATCH_EQ;
    }
}

static enum fg_code read_matchers(Fg__Inner__Matcher *const *matchers, size_t n,
                                  struct fg_arena *arena, struct fg_selector *selector,
                                  struct fg_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (fg_selector_add(selector, arena, match_op(matchers[i]->op), fg_cstr(matchers[i]->name),
                            fg_cstr(matchers[i]->value), err) != FG_OK)
            return err->code;
    return FG_OK;
}

static enum fg_code read_selector(const Fg__Inner__Selection *selection, const char *profile_type,
                                  struct fg_arena *arena, struct fg_selector *selector,
                                  struct fg_err *err)
{
    if (read_matchers(selection->matchers, selection->n_matchers, arena, selector, err) != FG_OK)
        return err->code;
    if (profile_type == NULL || profile_type[0] == '\0')
        return FG_OK;
    return fg_selector_add(selector, arena, FG_MATCH_EQ, FG_LIT(FG_LABEL_PROFILE_TYPE),
                           fg_cstr(profile_type), err);
}

static enum fg_code read_deletion(const Fg__Inner__Deletion *from, struct fg_arena *arena,
                                  struct fg_deletions *deletions, struct fg_err *err)
{
    struct fg_deletion deletion = {.start_ns = from->start_ns, .end_ns = from->end_ns};
    enum fg_code code =
        read_matchers(from->matchers, from->n_matchers, arena, &deletion.selector, err);

    if (code == FG_OK)
        code = fg_deletions_add(deletions, &deletion, arena, err);
    if (code != FG_OK)
        fg_selector_done(&deletion.selector);
    return code;
}

/* Call fg_deletions_done() in any case. */
static enum fg_code read_deletions(const Fg__Inner__Selection *selection, struct fg_arena *arena,
                                   struct fg_deletions *deletions, struct fg_err *err)
{
    for (size_t i = 0; i < selection->n_deletions; i++)
        if (read_deletion(selection->deletions[i], arena, deletions, err) != FG_OK)
            return fg_wrap(err, "deletion %zu", i);
    return FG_OK;
}

/* Finds the time that deletions leave of each match, and drops matches without any. */
static enum fg_code leave_out(struct ing_query *query, const struct fg_deletions *deletions,
                              struct ing_query_scope *scope, struct fg_err *err)
{
    struct fg_leaving leaving;
    size_t kept = 0;

    fg_leaving_init(&leaving, deletions, (struct fg_time_span){scope->start_ns, scope->end_ns},
                    query->arena);
    scope->left = fg_arena_new(query->arena, struct fg_left, scope->n_matches);
    if (scope->left == NULL)
        return fg_fail(err, FG_E_LIMIT, "query needs too much memory: %zu series",
                       scope->n_matches);
    for (size_t i = 0; i < scope->n_matches; i++) {
        const struct ing_catalog_match match = scope->matches[i];
        int64_t least_ns, greatest_ns; /* of the series' profiles */

        if (fg_leaving_of(&leaving, &match.series->labels, &scope->left[kept], err) != FG_OK)
            return err->code;
        least_ns = atomic_load(&match.series->least_ns);
        greatest_ns = atomic_load(&match.series->greatest_ns);
        if (fg_left_clip(&scope->left[kept], &least_ns, &greatest_ns))
            scope->matches[kept++] = match;
    }
    scope->n_matches = kept;
    return fg_leaving_of(&leaving, NULL, &scope->every, err);
}

static struct fg_store_iter *make_iter(const struct ing_query *query,
                                       const struct ing_query_scope *scope)
{
    struct fg_store_iter *iter;
    struct fg_buf from, to;

    fg_buf_init(&from, 64);
    fg_buf_init(&to, 64);
    fg_buf_be32(&from, ing_catalog_tenant_number(scope->tenant));
    fg_buf_be32(&to, ing_catalog_tenant_number(scope->tenant) + 1);
    iter = fg_store_iter_create(query->context->store, HEAD_PROFILES, fg_buf_slice(&from),
                                fg_buf_slice(&to));
    fg_buf_done(&from);
    fg_buf_done(&to);
    return iter;
}

static bool is_wanted(const struct ing_query_shards *shards, uint16_t shard)
{
    return ing_query_shards_data(shards, shard) || ing_query_shards_sums(shards, shard);
}

/* Returns true if one of the matching series is in the shard. */
static bool has_series_in(const struct ing_query_scope *scope, uint16_t shard)
{
    for (size_t i = 0; i < scope->n_matches; i++)
        if (scope->matches[i].series->shard == shard)
            return true;
    return false;
}

/* Returns why a chunk cannot be in an answer; NULL: it can. */
static const char *why_unsure(const struct ing_head_chunk *chunk)
{
    if (chunk->in_doubt)
        return "a failed write may have moved profiles of this time range in the head; it is "
               "undone when the disk accepts writes";
    if (chunk->state == CHUNK_UNCHECKED)
        return "late profiles of this time range cannot be checked for duplicates: the bucket does "
               "not respond, or an object that may contain them is damaged";
    return NULL;
}

/* Removes chunks that may be incomplete, or whose profiles may also be in the bucket. */
static enum fg_code leave_unsure(struct ing_query *query, struct ing_query_scope *scope,
                                 struct fg_err *err)
{
    size_t kept = 0;

    for (size_t i = 0; i < scope->n_chunks; i++) {
        const struct ing_head_chunk *chunk = &scope->chunks[i];
        const char *why = why_unsure(chunk);

        if (why == NULL || query->lists)
            scope->chunks[kept++] = *chunk;
        /* None of its profiles can match, so the answer is complete without it. */
        else if (!has_series_in(scope, chunk->key.group.shard))
            continue;
        else if (!query->lenient)
            return fg_fail(err, FG_E_CORRUPT, "%s", why);
        else
            (void)snprintf(query->lacks, sizeof query->lacks, "%s", why);
    }
    scope->n_chunks = kept;
    return FG_OK;
}

/* Drops matches in shards that the query does not ask for. */
static void keep_shards(struct ing_query *query, struct ing_query_scope *scope)
{
    size_t matches = 0, chunks = 0;

    for (size_t i = 0; i < scope->n_matches; i++) {
        uint16_t shard = scope->matches[i].series->shard;

        if (!is_wanted(&scope->shards, shard))
            continue;
        scope->left[matches] = scope->left[i];
        scope->matches[matches++] = scope->matches[i];
        query->series += ing_query_shards_data(&scope->shards, shard);
    }
    for (size_t i = 0; i < scope->n_chunks; i++)
        if (is_wanted(&scope->shards, scope->chunks[i].key.group.shard))
            scope->chunks[chunks++] = scope->chunks[i];
    scope->n_matches = matches;
    scope->n_chunks = chunks;
}

/* Chooses the chunks and makes the iterator in one moment, in which no chunk changes its state. */
static enum fg_code choose_chunks(struct ing_query *query, uint64_t generation,
                                  struct ing_query_scope *scope, struct fg_err *err)
{
    struct ing_segments *segments = query->context->segments;
    enum fg_code code;

    /* The read lock that this takes keeps the committer out, so choose and make the iterator, and
     * nothing else. */
    code = ing_segments_fence(segments, generation, err);
    query->behind = code == FG_E_ABORTED;
    query->generation = generation;
    if (code != FG_OK)
        return code;
    code = ing_head_chunks_select(query->context->chunks,
                                  &(struct ing_head_chunks_filter){
                                      .tenant = ing_catalog_tenant_number(scope->tenant),
                                      .start_ns = scope->start_ns,
                                      .end_ns = scope->end_ns,
                                      .generation = generation,
                                  },
                                  query->arena, &scope->chunks, &scope->n_chunks, err);
    /* Inside the fence: profiles that a COMPARE moves later are still where these chunks say. */
    if (code == FG_OK && scope->n_chunks > 0)
        scope->iter = make_iter(query, scope);
    ing_segments_unfence(segments);
    return code;
}

void ing_query_scope_done(struct ing_query_scope *scope)
{
    fg_store_iter_destroy(fg_take(scope->iter));
}

static enum fg_code is_wanted_still(void *query, struct fg_err *err)
{
    return ing_query_check_wanted(query, err);
}

static enum fg_code choose_series(struct ing_query *query, const Fg__Inner__Selection *selection,
                                  const char *profile_type, struct ing_query_scope *scope,
                                  struct fg_err *err)
{
    struct fg_selector selector = {0};
    struct fg_deletions deletions = {0};
    enum fg_code code = read_selector(selection, profile_type, query->arena, &selector, err);

    selector.wanted = is_wanted_still;
    selector.wanted_arg = query;
    if (code == FG_OK)
        code = read_deletions(selection, query->arena, &deletions, err);
    if (code == FG_OK)
        code = ing_catalog_select(
            query->context->catalog, scope->tenant,
            &(struct ing_catalog_filter){&selector, scope->start_ns, scope->end_ns}, query->arena,
            &scope->matches, &scope->n_matches, err);
    if (code == FG_OK)
        code = leave_out(query, &deletions, scope, err);
    fg_deletions_done(&deletions);
    fg_selector_done(&selector);
    return code;
}

/* Returns true if a chunk that was set aside, since its tenant has lost its name, may be one that
 * the query asks for. */
static bool may_lack_chunks(const struct ing_query *query, const Fg__Inner__Selection *selection,
                            const struct ing_query_scope *scope)
{
    size_t n;
    const struct ing_head_chunk *chunks = ing_head_chunks_nameless(query->context->chunks, &n);

    for (size_t i = 0; i < n; i++)
        if (chunks[i].least_ns <= scope->end_ns && chunks[i].greatest_ns >= scope->start_ns &&
            is_wanted(&scope->shards, chunks[i].key.group.shard) &&
            (chunks[i].state != CHUNK_COMMITTED || chunks[i].generation > selection->generation) &&
            ing_catalog_may_have_been(query->context->catalog, scope->tenant,
                                      fg_cstr(selection->tenant), chunks[i].key.group.tenant))
            return true;
    return false;
}

/* Some of the tenant's profiles may be lost; it is unknown of which series. */
static enum fg_code check_whole(struct ing_query *query, const Fg__Inner__Selection *selection,
                                const struct ing_query_scope *scope, struct fg_err *err)
{
    const char *why = NULL;

    if (scope->tenant != NULL && ing_catalog_tenant_lacks(scope->tenant))
        why = "profiles in the head refer to lost definitions";
    else if (may_lack_chunks(query, selection, scope))
        why = "profiles in the head are of a tenant whose record is lost, which may be this one";
    if (why == NULL)
        return FG_OK;
    if (!query->lenient)
        return fg_fail(err, FG_E_CORRUPT, "%s", why);
    (void)snprintf(query->lacks, sizeof query->lacks, "%s", why);
    return FG_OK;
}

enum fg_code ing_query_scope(struct ing_query *query, const Fg__Inner__Selection *selection,
                             const char *profile_type, int64_t start_ns, int64_t end_ns,
                             struct ing_query_scope *ret_scope, struct fg_err *err)
{
    struct ing_query_scope scope = {.start_ns = start_ns, .end_ns = end_ns};
    enum fg_code code;

    if (selection == NULL)
        return fg_fail(err, FG_E_INVALID, "query without a selection");
    /* A single server names no store in its calls. */
    if (selection->store.len > 0 &&
        (selection->store.len != FG_ID_BYTES ||
         !fg_id_eq(fg_id_get(selection->store.data), query->context->store_id)))
        return fg_fail(err, FG_E_PRECONDITION,
                       "the request is for another store than the one of this ingester");
    if (ing_query_shards_read(selection->shards, query->arena, &scope.shards, err) != FG_OK ||
        ing_query_ids_read(selection->only_ids, query->arena, &scope.ids, err) != FG_OK)
        return err->code;
    /* A tenant that is unknown here has nothing in the head, whatever the snapshot, so it needs no
     * fence; except what check_whole() finds. */
    scope.tenant = ing_catalog_find_tenant(query->context->catalog, fg_cstr(selection->tenant));
    query->lenient = selection->lenient;
    fg_rpc_let_cancel(query->req, selection->cancel_key);
    if (ing_query_check_wanted(query, err) != FG_OK ||
        check_whole(query, selection, &scope, err) != FG_OK)
        return err->code;
    code = choose_series(query, selection, profile_type, &scope, err);
    if (code == FG_OK && scope.tenant != NULL)
        code = choose_chunks(query, selection->generation, &scope, err);
    if (code == FG_OK) {
        /* Shards first: chunks that the query does not ask for must not make it fail. */
        keep_shards(query, &scope);
        code = leave_unsure(query, &scope, err);
    }
    if (code != FG_OK)
        ing_query_scope_done(&scope);
    *ret_scope = scope;
    return code;
}

/* ---- scanning ---- */

struct scan {
    struct ing_query *query;
    const struct ing_query_scope *scope;
    query_visit visit;
    query_takes takes;
    void *arg;
    struct ing_query_sums *sums;
    bool counted; /* the sums are complete */
    struct fg_store_iter *iter;
    struct fg_buf key;
    bool begun;         /* the iterator is where this scan has put it */
    bool data, summing; /* what is asked of the current chunk */
    bool taken;         /* the data of the current series is */
};

/* A record that was cut has its totals, or is read whole. */
static enum fg_code read_record(struct fg_store_iter *iter, struct ing_record *ret_record,
                                struct fg_err *err)
{
    if (iter->cut > 0 && ing_record_open_front(iter->value, ret_record))
        return FG_OK;
    fg_store_iter_whole(iter);
    if (!iter->valid) {
        *err = iter->err;
        return err->code;
    }
    return ing_record_open(iter->value, ret_record, err);
}

static enum fg_code visit_data(struct scan *scan, const struct ing_catalog_match *matches, size_t n,
                               const struct ing_head_profile_key *key, struct fg_err *err)
{
    struct ing_query *query = scan->query;
    struct ing_record record;

    query->profiles++;
    query->bytes += scan->iter->key.len + scan->iter->value.len + scan->iter->cut;
    if (read_record(scan->iter, &record, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < n; i++)
        if (scan->visit(scan->arg, &matches[i], key, &record, err) != FG_OK)
            return err->code;
    return FG_OK;
}

static enum fg_code visit_record(struct scan *scan, const struct ing_catalog_match *matches,
                                 size_t n, const struct ing_head_profile_key *key,
                                 struct fg_err *err)
{
    struct ing_query *query = scan->query;

    if (++query->keys % CHECK_WANTED_EVERY == 0 && ing_query_check_wanted(query, err) != FG_OK)
        return err->code;
    /* Before the record is opened: asking for a few ids of a group reads keys. */
    if (!ing_query_ids_have(&scan->scope->ids, key->id))
        return FG_OK;
    if (scan->taken && visit_data(scan, matches, n, key, err) != FG_OK) {
        if (err->code != FG_E_CORRUPT || !query->lenient)
            return err->code;
        if (query->unreadable++ == 0)
            memcpy(query->why_unreadable, err->msg, sizeof query->why_unreadable);
        /* It is in no sum, so that another replica supplies it. */
        if (scan->summing && scan->counted)
            return ing_query_sums_remove(scan->sums, &key->chunk.group, key->time_ns, key->id, err);
        return FG_OK;
    }
    /* After the data was read without an error, so a sum never counts what the data lacks. */
    if (scan->summing && !scan->counted)
        return ing_query_sums_add(scan->sums, key->time_ns, key->id, err);
    return FG_OK;
}

/* Moves past what cannot be read behind the last profile, if the answer may lack it, and notes that
 * it does: nobody knows of which series that was. last: NULL, it is behind what was sought. Returns
 * false if the scan ends here. */
static bool pass_damage(struct scan *scan, const struct ing_head_profile_key *last)
{
    struct ing_query *query = scan->query;
    struct fg_store_iter *iter = scan->iter;

    if (!query->lenient || iter->err.code != FG_E_CORRUPT)
        return false;
    (void)snprintf(query->lacks, sizeof query->lacks, "profiles in the head cannot be read: %.100s",
                   iter->err.msg);
    if (last != NULL) {
        fg_buf_clear(&scan->key);
        ing_head_put_profile_key(&scan->key, last);
    }
    return fg_store_iter_pass(iter, fg_buf_slice(&scan->key)) && iter->valid;
}

/* Scans a span of time of one series in a chunk. All n matches are of that series. */
static enum fg_code scan_span(struct scan *scan, const struct ing_head_chunk_key *chunk,
                              const struct ing_catalog_match *matches, size_t n,
                              struct fg_time_span span, struct fg_err *err)
{
    uint32_t series = matches[0].series->number;
    struct ing_head_profile_key key;
    bool any = false;

    fg_buf_clear(&scan->key);
    ing_head_put_series_seek(&scan->key, chunk, series, span.start_ns);
    /* A scan only moves forward: if it is at or behind the goal, nothing lies between. */
    if (!scan->begun || !scan->iter->valid ||
        fg_slice_cmp(scan->iter->key, fg_buf_slice(&scan->key)) < 0)
        fg_store_iter_seek(scan->iter, fg_buf_slice(&scan->key));
    scan->begun = true;
    for (; scan->iter->valid || pass_damage(scan, any ? &key : NULL);
         fg_store_iter_next(scan->iter)) {
        if (!ing_head_get_profile_key(scan->iter->key, &key))
            return fg_fail(err, FG_E_CORRUPT, "head: key of %zu bytes", scan->iter->key.len);
        any = true;
        if (key.series != series || !ing_head_same_chunk(&key.chunk, chunk) ||
            key.time_ns > span.end_ns)
            break;
        if (visit_record(scan, matches, n, &key, err) != FG_OK)
            return err->code;
    }
    if (scan->iter->err.code != FG_OK) {
        *err = scan->iter->err;
        return fg_wrap(err, "head");
    }
    return FG_OK;
}

/* Scans the matches [from, to) of the scope, which are all of one series. */
static enum fg_code scan_series(struct scan *scan, const struct ing_head_chunk *chunk, size_t from,
                                size_t to, struct fg_err *err)
{
    const struct fg_left *left = &scan->scope->left[from];

    for (uint32_t i = 0; i < left->count; i++)
        if (left->spans[i].start_ns <= chunk->greatest_ns &&
            left->spans[i].end_ns >= chunk->least_ns &&
            scan_span(scan, &chunk->key, scan->scope->matches + from, to - from, left->spans[i],
                      err) != FG_OK)
            return err->code;
    return FG_OK;
}

static enum fg_code scan_chunk(struct scan *scan, const struct ing_head_chunk *chunk, size_t from,
                               size_t to, struct fg_err *err)
{
    const struct ing_catalog_match *matches = scan->scope->matches;
    uint16_t shard = chunk->key.group.shard;

    scan->data = ing_query_shards_data(&scan->scope->shards, shard);
    scan->summing = ing_query_shards_sums(&scan->scope->shards, shard);
    if (scan->summing && !scan->counted &&
        ing_query_sums_group(scan->sums, &chunk->key.group, err) != FG_OK)
        return err->code;
    for (size_t i = from, next; i < to; i = next) {
        for (next = i + 1; next < to && matches[next].series == matches[i].series;)
            next++;
        scan->taken = scan->data && (scan->takes == NULL || scan->takes(scan->arg, &matches[i]));
        if ((scan->taken || (scan->summing && !scan->counted)) &&
            scan_series(scan, chunk, i, next, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* Chunks and matches are both sorted by shard: walk them side by side. */
static enum fg_code scan_chunks(struct scan *scan, struct fg_err *err)
{
    const struct ing_query_scope *scope = scan->scope;
    size_t from = 0;

    for (size_t r = 0; r < scope->n_chunks; r++) {
        uint16_t shard = scope->chunks[r].key.group.shard;
        size_t to;

        while (from < scope->n_matches && scope->matches[from].series->shard < shard)
            from++;
        for (to = from; to < scope->n_matches && scope->matches[to].series->shard == shard;)
            to++;
        if (to > from && scan_chunk(scan, &scope->chunks[r], from, to, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code run_scan(struct scan *scan, struct fg_err *err)
{
    const struct ing_query_scope *scope = scan->scope;
    enum fg_code code = FG_OK;

    scan->iter = scope->iter;
    fg_buf_init(&scan->key, 64);
    if (scope->n_matches > 0 && scope->n_chunks > 0) {
        if (scan->query->fronts)
            fg_store_iter_prefer_fronts(scan->iter);
        code = scan_chunks(scan, err);
    }
    fg_buf_done(&scan->key);
    return code;
}

enum fg_code ing_query_scan(struct ing_query *query, const struct ing_query_scope *scope,
                            query_visit visit, query_takes takes, void *arg,
                            struct ing_query_sums *sums, struct fg_err *err)
{
    struct scan scan = {
        .query = query, .scope = scope, .visit = visit, .takes = takes, .arg = arg, .sums = sums};

    return run_scan(&scan, err) == FG_OK ? ing_query_sums_finish(sums, err) : err->code;
}

enum fg_code ing_query_scan_rest(struct ing_query *query, const struct ing_query_scope *scope,
                                 query_visit visit, query_takes takes, void *arg,
                                 struct ing_query_sums *sums, struct fg_err *err)
{
    struct scan scan = {.query = query,
                        .scope = scope,
                        .visit = visit,
                        .takes = takes,
                        .arg = arg,
                        .sums = sums,
                        .counted = true};

    return run_scan(&scan, err);
}

void ing_query_stats_fill(struct ing_query *query, Fg__Inner__Stats *stats)
{
    fg__inner__stats__init(stats);
    stats->profiles = query->profiles;
    stats->bytes = query->bytes;
    stats->series = query->series;
    if (query->unreadable > 0)
        (void)snprintf(query->lacks, sizeof query->lacks,
                       "%llu profiles in the head cannot be read: %.100s",
                       (unsigned long long)query->unreadable, query->why_unreadable);
    stats->lacks = query->lacks;
}

void ing_query_put_reply(struct ing_query *query, const ProtobufCMessage *reply)
{
    /* One byte more: a message of zeros has no bytes, and NULL + 0 is undefined. */
    if (fg_buf_reserve(&query->head, protobuf_c_message_get_packed_size(reply) + 1))
        query->head.len += protobuf_c_message_pack(reply, query->head.ptr + query->head.len);
}
