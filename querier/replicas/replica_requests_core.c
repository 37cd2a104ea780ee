#include "querier/replicas/replica_requests_core.h"

#include "querier/query.h"
#include "querier/replicas/roles.h"

enum { FETCH_IDS_MAX = 65536 /* in one call: proto/inner.proto */ };

bool qry_replica_requests_unite(enum fg_rpc_method method)
{
    return method == FG_RPC_SERIES || method == FG_RPC_STATS;
}

static struct qry_replica_request *add_request(struct qry_replica_requests *requests,
                                               uint32_t member)
{
    struct qry_replica_request *request =
        fg_arena_new(requests->arena, struct qry_replica_request, 1);

    if (request == NULL)
        return NULL;
    request->member = member;
    request->data.first = request->sums.first = requests->first;
    request->next = requests->items;
    requests->items = request;
    return request;
}

/* ---- maps of shards ---- */

/* Maps of each member of the ring; NULL: it has none. */
struct plan {
    uint8_t **data, **sums;
};

static size_t map_bytes(const struct qry_replica_requests *requests)
{
    return ((size_t)requests->last - requests->first) / 8 + 1;
}

static struct fg_slice map_slice(const struct qry_replica_requests *requests, const uint8_t *map)
{
    return fg_bytes(map, map == NULL ? 0 : map_bytes(requests));
}

static bool plan_init(const struct qry_replica_requests *requests, struct plan *plan)
{
    size_t n = requests->view->ring.n_members;

    plan->data = fg_arena_new(requests->arena, uint8_t *, n);
    plan->sums = fg_arena_new(requests->arena, uint8_t *, n);
    return plan->data != NULL && plan->sums != NULL;
}

static bool plan_set(const struct qry_replica_requests *requests, uint8_t **map, uint16_t shard)
{
    size_t bit = (size_t)shard - requests->first;

    fg_assert(shard >= requests->first && shard <= requests->last);
    if (*map == NULL)
        *map = fg_arena_new(requests->arena, uint8_t, map_bytes(requests));
    if (*map == NULL)
        return false;
    (*map)[bit / 8] = (uint8_t)((*map)[bit / 8] | 1u << bit % 8);
    return true;
}

/* Adds a request to each member that has a map. */
static enum fg_code add_plan(struct qry_replica_requests *requests, const struct plan *plan,
                             struct qry_replica_request *failover_of, struct fg_err *err)
{
    for (uint32_t m = 0; m < requests->view->ring.n_members; m++) {
        struct qry_replica_request *request;

        if (plan->data[m] == NULL && plan->sums[m] == NULL)
            continue;
        request = add_request(requests, m);
        if (request == NULL)
            return qry_query_too_large(err);
        request->data.bits = map_slice(requests, plan->data[m]);
        request->sums.bits = map_slice(requests, plan->sums[m]);
        request->failover_of = failover_of;
    }
    return FG_OK;
}

/* ---- the requests of an attempt ---- */

static void avoid_all(struct qry_replica_requests *requests, const uint64_t *bits)
{
    for (uint32_t m = 0; m < requests->view->ring.n_members; m++)
        if (fg_bits_has(bits, m))
            fg_ring_reads_avoid(&requests->reads, m);
}

static void init_reads(struct qry_replica_requests *requests)
{
    struct fg_ring_reads *reads = &requests->reads;
    uint64_t revision;
    uint16_t shard;

    fg_ring_reads_init(reads, requests->view, requests->first, requests->last);
    avoid_all(requests, requests->down);
    if (requests->needs_slow)
        return;
    avoid_all(requests, requests->slow);
    if (!fg_ring_reads_is_hopeless(reads, &shard, &revision))
        return;
    /* A quorum without slow members is impossible: wait for them rather than fail. */
    requests->needs_slow = true;
    fg_ring_reads_init(reads, requests->view, requests->first, requests->last);
    avoid_all(requests, requests->down);
}

/* Chooses the members of the quorum. Members whose last calls failed count as slow. Only chosen
 * members are looked at, since each look costs a peer: if one is bad, it is marked and the choice
 * is made again. It ends, because each round marks a member. */
static void choose_members(struct qry_replica_requests *requests)
{
    uint32_t members[FG_RING_MEMBERS_MAX], n;
    bool again = true;

    while (again) {
        init_reads(requests);
        n = fg_ring_reads_ask(&requests->reads, requests->round_robin, members);
        again = false;
        for (uint32_t i = 0; i < n && !requests->needs_slow; i++)
            if (requests->is_bad(requests->arg, members[i])) {
                fg_bits_set(requests->slow, members[i]);
                again = true;
            }
    }
}

/* Finds the members that were asked and did not fail. */
static void find_living(const struct qry_replica_requests *requests,
                        uint64_t living[FG_RING_READS_WORDS])
{
    for (unsigned i = 0; i < FG_RING_READS_WORDS; i++)
        living[i] = requests->reads.asked[i] & ~requests->reads.failed[i];
}

/* Plans one member's data of a shard, and sums of all that take part if there are several. */
static bool plan_shard(const struct qry_replica_requests *requests, const struct plan *plan,
                       const uint64_t *among, uint16_t shard)
{
    bool unite = qry_replica_requests_unite(requests->method);
    struct qry_roles roles;

    qry_roles_of(requests->view, shard, among, &roles);
    if (roles.n > 0 && !unite && !plan_set(requests, &plan->data[roles.members[0]], shard))
        return false;
    /* A single owner has nobody to be compared with, so it need not give sums. */
    for (unsigned i = 0; i < roles.n && (unite || roles.n > 1); i++)
        if (!plan_set(requests, &plan->sums[roles.members[i]], shard))
            return false;
    return true;
}

enum fg_code qry_replica_requests_plan(struct qry_replica_requests *requests, struct fg_err *err)
{
    uint64_t living[FG_RING_READS_WORDS];
    struct plan plan;

    requests->items = NULL;
    if (requests->view == NULL)
        return requests->has_ingester && add_request(requests, FG_RING_NO_MEMBER) == NULL
                   ? qry_query_too_large(err)
                   : FG_OK;
    choose_members(requests);
    find_living(requests, living);
    if (!plan_init(requests, &plan))
        return qry_query_too_large(err);
    for (uint32_t shard = requests->first; shard <= requests->last; shard++)
        if (!plan_shard(requests, &plan, living, (uint16_t)shard))
            return qry_query_too_large(err);
    return add_plan(requests, &plan, NULL, err);
}

/* ---- failover ---- */

/* Members that may give the data of a request: those that are well or, if there are none, those
 * that are only late. No member that was asked for this data before. */
struct candidates {
    uint64_t well[FG_RING_READS_WORDS], any[FG_RING_READS_WORDS];
};

static void find_candidates(const struct qry_replica_requests *requests,
                            const struct qry_replica_request *request,
                            struct candidates *ret_candidates)
{
    struct candidates found;

    find_living(requests, found.well);
    for (unsigned i = 0; i < FG_RING_READS_WORDS; i++)
        found.any[i] = requests->reads.asked[i] & ~requests->down[i];
    /* All that were asked for this data, through the chain of failovers. */
    for (; request != NULL; request = request->failover_of) {
        fg_bits_clear(found.well, request->member);
        fg_bits_clear(found.any, request->member);
    }
    *ret_candidates = found;
}

/* Plans requests for the data of one that failed or is late. */
static enum fg_code replace(struct qry_replica_requests *requests,
                            struct qry_replica_request *request, struct fg_err *err)
{
    struct candidates candidates;
    struct plan plan;

    if (!plan_init(requests, &plan))
        return qry_query_too_large(err);
    find_candidates(requests, request, &candidates);
    for (uint32_t shard = requests->first; shard <= requests->last; shard++) {
        struct qry_roles roles;

        if (!qry_shard_map_has(&request->data, (uint16_t)shard))
            continue;
        qry_roles_of(requests->view, (uint16_t)shard, candidates.well, &roles);
        if (roles.n == 0)
            qry_roles_of(requests->view, (uint16_t)shard, candidates.any, &roles);
        if (roles.n == 0)
            request->uncovered = true;
        /* Sums, too: of the same moment as the data, they say what it is made of. */
        else if (!plan_set(requests, &plan.data[roles.members[0]], (uint16_t)shard) ||
                 !plan_set(requests, &plan.sums[roles.members[0]], (uint16_t)shard))
            return qry_query_too_large(err);
    }
    return add_plan(requests, &plan, request, err);
}

/* Plans requests to members that were not asked before: sums of everything they own. */
static enum fg_code ask_more(struct qry_replica_requests *requests, const uint32_t *members,
                             uint32_t n, struct fg_err *err)
{
    uint64_t added[FG_RING_READS_WORDS] = {0};
    struct plan plan;

    for (uint32_t i = 0; i < n; i++)
        fg_bits_set(added, members[i]);
    if (!plan_init(requests, &plan))
        return qry_query_too_large(err);
    for (uint32_t shard = requests->first; shard <= requests->last; shard++) {
        struct qry_roles roles;

        qry_roles_of(requests->view, (uint16_t)shard, added, &roles);
        for (unsigned i = 0; i < roles.n; i++)
            if (!plan_set(requests, &plan.sums[roles.members[i]], (uint16_t)shard))
                return qry_query_too_large(err);
    }
    return add_plan(requests, &plan, NULL, err);
}

/* Lets slow members that were left out be asked, once the quorum cannot be had without them: one
 * that was late before will probably answer sooner than one that is late now. */
static void admit_slow(struct qry_replica_requests *requests)
{
    uint64_t left_out[FG_RING_READS_WORDS], any = 0, revision;
    uint16_t shard;

    for (unsigned i = 0; i < FG_RING_READS_WORDS; i++) {
        left_out[i] = requests->slow[i] & ~requests->down[i];
        any |= left_out[i];
    }
    if (requests->needs_slow || any == 0 ||
        !fg_ring_reads_is_hopeless(&requests->reads, &shard, &revision))
        return;
    for (uint32_t m = 0; m < requests->view->ring.n_members; m++)
        if (fg_bits_has(left_out, m)) {
            fg_ring_reads_admit(&requests->reads, m);
            fg_bits_clear(requests->slow, m);
        }
}

enum fg_code qry_replica_requests_fail_over(struct qry_replica_requests *requests,
                                            unsigned *ret_replaced, struct fg_err *err)
{
    uint32_t members[FG_RING_MEMBERS_MAX], n;
    unsigned replaced = 0;

    admit_slow(requests);
    n = fg_ring_reads_ask(&requests->reads, requests->round_robin, members);
    /* New requests come before items, so the loop does not meet them. */
    for (struct qry_replica_request *request = requests->items; request != NULL;
         request = request->next) {
        if ((request->state != REQUEST_FAILED && request->state != REQUEST_LATE) ||
            request->failed_over)
            continue;
        request->failed_over = true;
        if (request->data.bits.len == 0)
            continue;
        replaced++;
        if (replace(requests, request, err) != FG_OK)
            return err->code;
    }
    *ret_replaced = replaced;
    return n == 0 ? FG_OK : ask_more(requests, members, n, err);
}

/* ---- profiles by their ids ---- */

enum fg_code qry_replica_requests_fetch(struct qry_replica_requests *requests,
                                        struct qry_replica_request *const *answers,
                                        const struct qry_replica_compare_result *result,
                                        struct fg_err *err)
{
    const struct qry_replica_compare_missing *missing = result->missing;

    for (uint32_t i = 0, end; i < result->n_missing; i = end) {
        struct qry_replica_request *request;
        uint8_t *ids, *map = NULL;

        /* The missing profiles are sorted by holder: one request for each, or several if there are
         * many. */
        for (end = i + 1; end < result->n_missing && end - i < FETCH_IDS_MAX &&
                          missing[end].from == missing[i].from;)
            end++;
        ids = fg_arena_alloc(requests->arena, (size_t)(end - i) * FG_ID_BYTES);
        request = add_request(requests, answers[missing[i].from]->member);
        if (ids == NULL || request == NULL)
            return qry_query_too_large(err);
        for (uint32_t k = i; k < end; k++) {
            fg_id_put(ids + (size_t)(k - i) * FG_ID_BYTES, missing[k].id);
            if (!plan_set(requests, &map, missing[k].shard))
                return qry_query_too_large(err);
        }
        request->n_ids = end - i;
        request->ids = fg_bytes(ids, (size_t)(end - i) * FG_ID_BYTES);
        request->data.bits = map_slice(requests, map);
    }
    return FG_OK;
}

/* ---- results ---- */

/* Returns true if the data it was to give is there, from itself or from its failover replicas. */
static bool has_data(const struct qry_replica_requests *requests,
                     const struct qry_replica_request *request)
{
    if (request->state == REQUEST_ANSWERED || request->data.bits.len == 0)
        return true;
    if (!request->failed_over || request->uncovered)
        return false;
    for (const struct qry_replica_request *other = requests->items; other != NULL;
         other = other->next)
        if (other->failover_of == request && !has_data(requests, other))
            return false;
    return true;
}

bool qry_replica_requests_are_enough(const struct qry_replica_requests *requests)
{
    for (const struct qry_replica_request *request = requests->items; request != NULL;
         request = request->next)
        if (requests->view == NULL ? request->state != REQUEST_ANSWERED
                                   : request->failover_of == NULL && !has_data(requests, request))
            return false;
    return requests->view == NULL || fg_ring_reads_is_enough(&requests->reads);
}

bool qry_replica_request_counts(const struct qry_replica_request *request)
{
    if (request->state != REQUEST_ANSWERED)
        return false;
    for (request = request->failover_of; request != NULL; request = request->failover_of)
        if (request->state == REQUEST_ANSWERED)
            return false;
    return true;
}
