#include "querier/fanout.h"

#include "common/base/str.h"
#include "common/net/pbjson.h"
#include "querier/blocks/blocks.h"
#include "querier/deletions.h"
#include "querier/progress.h"

enum {
    SNAPSHOTS_MAX = 4 /* of a fan-out: a second one is rare, so a fourth means a fault */
};

enum fg_code qry_fanout_selection(struct qry_query *query, const struct qry_selection *from,
                                  Fg__Inner__Selection *ret_selection, struct fg_err *err)
{
    /* Reads from blocks have the same selector. */
    if (query->restriction != NULL && !from->restricted)
        return fg_fail(err, FG_E_INTERNAL,
                       "the selection is not restricted to what the caller may see");
    fg__inner__selection__init(ret_selection);
    ret_selection->start_ns = from->start_ns;
    ret_selection->end_ns = from->end_ns;
    return qry_heads_matchers(query->arena, &from->selector, &ret_selection->n_matchers,
                              &ret_selection->matchers, err);
}

struct qry_replicas_head qry_fanout_head(const ProtobufCMessage *message,
                                         Fg__Inner__Selection *selection,
                                         const struct qry_selection *from, int64_t start_ns)
{
    return (struct qry_replicas_head){.message = message,
                                      .tenant = &selection->tenant,
                                      .n_deletions = &selection->n_deletions,
                                      .deletions = &selection->deletions,
                                      .store = &selection->store,
                                      .shards = &selection->shards,
                                      .only_ids = &selection->only_ids,
                                      .lenient = &selection->lenient,
                                      .cancel_key = &selection->cancel_key,
                                      .start_ns = start_ns,
                                      .end_ns = selection->end_ns,
                                      .selector = &from->selector};
}

char **qry_fanout_texts(struct qry_query *query, const char *const *from, size_t n)
{
    char **copies = fg_arena_new(query->arena, char *, n);

    for (size_t i = 0; i < n && copies != NULL; i++) {
        copies[i] = fg_arena_text(query->arena, fg_cstr(from[i]));
        if (copies[i] == NULL)
            return NULL;
    }
    return copies;
}

enum fg_code qry_fanout_count(struct qry_query *query, const Fg__Inner__Stats *stats,
                              struct fg_err *err)
{
    if (stats == NULL)
        return FG_OK;
    query->profiles += stats->profiles;
    query->bytes += stats->bytes;
    query->series += stats->series;
    if (stats->lacks[0] != '\0')
        qry_query_lacks(query, fg_cstr(stats->lacks));
    /* Afterwards: only the ingester knows what it had to read. */
    return qry_query_charge(query, stats->bytes, err);
}

/* --- SELECT --- */

enum fg_code qry_fanout_select_head(struct qry_query *query, const struct qry_selection *from,
                                    const struct qry_stack_filter *stacks, bool names_only,
                                    Fg__Inner__Selection *selection,
                                    Fg__Inner__SelectHead *ret_head, struct fg_err *err)
{
    Fg__Inner__SelectHead head;

    fg__inner__select_head__init(&head);
    if (qry_fanout_selection(query, from, selection, err) != FG_OK)
        return err->code;
    head.selection = selection;
    head.profile_type = fg_arena_text(query->arena, fg_cstr(from->type_text));
    head.names_only = names_only;
    head.call_site = qry_fanout_texts(query, stacks->call_site, stacks->n_call_site);
    if (head.profile_type == NULL || head.call_site == NULL)
        return qry_query_too_large(err);
    head.n_call_site = stacks->n_call_site;
    head.spans = stacks->spans;
    head.n_spans = stacks->n_spans;
    head.traces = stacks->traces;
    head.n_traces = stacks->n_traces;
    head.profile_ids = stacks->profile_ids;
    head.n_profile_ids = stacks->n_profile_ids;
    *ret_head = head;
    return FG_OK;
}

enum fg_code qry_fanout_take_select(struct qry_query *query, const struct fg_call *call,
                                    const Fg__Inner__SelectReply **ret_reply, struct fg_err *err)
{
    ProtobufCMessage *head;

    if (fg_pb_read(call->reply_head, &fg__inner__select_reply__descriptor, query->arena, &head,
                   err) != FG_OK)
        return fg_wrap(err, "response of an ingester");
    if (qry_fanout_count(query, ((Fg__Inner__SelectReply *)head)->stats, err) != FG_OK)
        return err->code;
    *ret_reply = (const Fg__Inner__SelectReply *)head;
    return FG_OK;
}

enum fg_code qry_fanout_take_tree(struct qry_query *query, const struct fg_call *call,
                                  struct fg_tree *into, struct fg_err *err)
{
    const Fg__Inner__SelectReply *reply;

    if (qry_fanout_take_select(query, call, &reply, err) != FG_OK)
        return err->code;
    if (call->reply_payload.len == 0)
        return FG_OK;
    return fg_tree_decode(into, call->reply_payload, err);
}

/* --- fan-outs --- */

/* Runs the fan-out once on the query's snapshot. Calls to ingesters are sent first, so that they
 * answer while blocks are read. */
static enum fg_code attempt(struct qry_query *query, struct qry_fanout *fanout, bool last_try,
                            struct fg_err *err)
{
    struct qry_replica_reads *reads;

    /* Ingesters leave out what they committed at or before it: that is in the snapshot (fence-gen).
     */
    *fanout->generation = qry_blocks_generation(query);
    if (qry_replicas_ask(query, fanout->method, &fanout->head, last_try, &reads, err) != FG_OK)
        return err->code;
    qry_progress_stage(query, QRY_STAGE_BLOCKS);
    if (fanout->read(query, fanout, err) != FG_OK) {
        qry_replicas_drop(reads);
        return err->code;
    }
    qry_progress_stage(query, QRY_STAGE_INGESTERS);
    if (qry_replicas_take(query, reads, fanout->take, fanout->into, err) != FG_OK)
        return err->code;
    qry_progress_stage(query, QRY_STAGE_ANSWER);
    return FG_OK;
}

static bool is_too_old(const struct qry_query *query, enum fg_code code)
{
    return query->querier->blocks != NULL && (code == FG_E_PRECONDITION || code == FG_E_NOT_FOUND);
}

/* Takes the ring, then the snapshot, then its deletions. The ring is first because it names the
 * least generation (as-drained): a snapshot that is older than the ring could lack what a member
 * committed before it left. */
static enum fg_code take_snapshot(struct qry_query *query, bool fresh, struct fg_err *err)
{
    if (qry_replicas_begin(query, fresh, err) != FG_OK ||
        qry_blocks_begin(query, fresh, err) != FG_OK)
        return err->code;
    if ((query->deletions == NULL || fresh) && qry_deletions_take(query, err) != FG_OK)
        return err->code;
    fg_assert(query->deletions != NULL);
    fg_assert((query->ring == NULL) == (query->querier->ring == NULL));
    fg_assert((query->snapshot == NULL) == (query->querier->blocks == NULL));
    return FG_OK;
}

/* What operators gave up is in no response, and a response that may need it says so. */
static void tell_lost(struct qry_query *query, const struct qry_replicas_head *head)
{
    for (size_t t = 0; t < query->tenants.n; t++) {
        const struct fg_blocks *blocks = qry_blocks_manifest(query, t);

        for (uint32_t i = 0; blocks != NULL && i < blocks->n_lost; i++) {
            const struct fg_blocks_lost *lost = &blocks->lost[i];
            struct fg_buf why;

            if (lost->t_min_ns > head->end_ns || lost->t_max_ns < head->start_ns)
                continue;
            /* selector NULL: every series. */
            if (lost->service.len > 0 && head->selector != NULL &&
                !fg_selector_may_match_service(head->selector, lost->service))
                continue;
            fg_buf_init(&why, MISSING_MAX_BYTES);
            fg_buf_printf(&why, "%.*s: ", FG_S(lost->object));
            if (lost->service.len > 0)
                fg_buf_printf(&why, "service %.*s: ", FG_S(lost->service));
            fg_buf_printf(&why, "abandoned, %llu profiles", (unsigned long long)lost->profiles);
            qry_query_lacks(query, fg_buf_slice(&why));
            fg_buf_done(&why);
        }
    }
}

enum fg_code qry_fanout_begin(struct qry_query *query, struct fg_err *err)
{
    return take_snapshot(query, false, err);
}

void qry_fanout_end(struct qry_query *query)
{
    qry_deletions_drop(query);
    qry_blocks_end(query);
    qry_blocks_forget(query);
    qry_replicas_end(query);
    fg_assert(query->deletions == NULL && query->snapshot == NULL && query->lost == NULL &&
              query->ring == NULL);
}

/* What an attempt adds to; the next one starts from the same numbers. */
struct fanout_tally {
    uint64_t profiles, series, planned_bytes;
    size_t missing;
    bool incomplete;
};

static struct fanout_tally tally_of(const struct qry_query *query)
{
    return (struct fanout_tally){query->profiles, query->series, query->planned_bytes,
                                 query->missing.len, query->incomplete};
}

static void take_back(struct qry_query *query, const struct fanout_tally *to)
{
    query->profiles = to->profiles;
    query->series = to->series;
    /* Of max_query_bytes only: the tenant has been charged for what it made us read. */
    query->planned_bytes = to->planned_bytes;
    fg_assert(query->missing.len >= to->missing);
    query->missing.len = to->missing;
    query->incomplete = to->incomplete;
}

enum fg_code qry_fanout_run(struct qry_query *query, struct qry_fanout *fanout, struct fg_err *err)
{
    const struct fanout_tally before = tally_of(query);
    struct fanout_tally begun;
    unsigned snapshots = 1;

    /* qry_fanout_selection() has seen to it that a selector is restricted. */
    if (query->restriction != NULL && fanout->head.selector == NULL)
        return fg_fail(err, FG_E_INTERNAL, "the answer is about more than the caller may see");
    if (take_snapshot(query, false, err) != FG_OK)
        return err->code;
    begun = tally_of(query);
    while (attempt(query, fanout, snapshots == SNAPSHOTS_MAX, err) != FG_OK) {
        /* First the cheaper repetition. It ends: each time something more is left out, up to a
         * limit. */
        if (qry_blocks_leave_out(query, snapshots > 1, err)) {
            /* Repeat it on the same snapshot, without what could not be read. */
            take_back(query, &begun);
        } else if (snapshots < SNAPSHOTS_MAX && is_too_old(query, err->code) &&
                   !(query->stale && query->fresh)) {
            /* Repeat it on a fresh snapshot. There is none if the bucket could not be read when
             * this one was to be fresh. */
            snapshots++;
            take_back(query, &before);
            if (take_snapshot(query, true, err) != FG_OK)
                return err->code;
            begun = tally_of(query);
        } else {
            /* Turns the error into the client's: that fresh snapshots did not help is not its
             * fault, and a retry may succeed. */
            if (query->querier->blocks == NULL && err->code == FG_E_PRECONDITION)
                err->code = FG_E_UNAVAILABLE;
            if (!is_too_old(query, err->code))
                return err->code;
            err->code = err->code == FG_E_NOT_FOUND ? FG_E_CORRUPT : FG_E_UNAVAILABLE;
            return fg_wrap(err, "after %d snapshots", SNAPSHOTS_MAX);
        }
        /* What the failed attempt has added may be incomplete, or of the old snapshot. */
        fanout->restart(fanout);
    }
    /* Of the snapshot that the response was made from. */
    tell_lost(query, &fanout->head);
    return FG_OK;
}
