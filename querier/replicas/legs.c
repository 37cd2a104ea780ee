#include "querier/replicas/legs.h"

#include "common/net/rpc/peers.h"
#include "querier/replicas/metrics.h"

enum { FETCH_IDS_MAX = 65536 /* in one call: proto/inner.proto */ };

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the query needs more memory than a query may use");
}

bool qry_legs_unite(enum fg_rpc_method method)
{
    return method == FG_RPC_SERIES || method == FG_RPC_STATS;
}

/* ---- one call ---- */

static size_t map_bytes(const struct qry_reading *reading)
{
    return ((size_t)reading->last - reading->first) / 8 + 1;
}

static ProtobufCBinaryData as_binary(struct fg_slice bytes)
{
    return (ProtobufCBinaryData){bytes.len, (uint8_t *)(uintptr_t)bytes.ptr};
}

/* What a replica is asked of its shards. */
static void fill_shards(const struct qry_reading *reading, const struct qry_reading_leg *leg,
                        Fg__Inner__Shards *shards)
{
    fg__inner__shards__init(shards);
    shards->first = reading->first;
    shards->ids_since_ns = reading->ids.since_ns;
    shards->ids_of = reading->ids.of;
    shards->n_ids_of = reading->ids.n_of;
    if (leg->n_ids > 0) {
        shards->n_ids_of = 0;
        shards->data = as_binary(leg->data.bits);
    } else if (reading->method == FG_RPC_SERIES) {
        shards->data = as_binary(leg->sums.bits);
    } else {
        shards->data = as_binary(leg->data.bits);
        shards->sums = as_binary(leg->sums.bits);
    }
}

/* Failing to send is a failure of the member, as an answer would be. */
static void send_to(struct qry_reading *reading, struct qry_reading_leg *leg, const char *address,
                    struct fg_slice head)
{
    struct qry_question *question = reading->question;
    struct fg_peer *peer = question->querier->ingester;
    struct fg_peers *peers = question->querier->peers;

    leg->sent_mono_ns = fg_mono_ns(fg_clock_real());
    if (address != NULL && fg_peers_get(peers, address, &peer, &leg->err) != FG_OK)
        return;
    leg->call =
        qry_calls_send(reading->calls, peer, reading->method, head, question->deadline_mono_ns);
    if (address != NULL)
        fg_peers_put(peers, peer); /* the call keeps it */
}

static struct qry_reading_leg *new_leg(struct qry_reading *reading, uint32_t member)
{
    struct qry_reading_leg *leg = fg_arena_new(reading->arena, struct qry_reading_leg, 1);

    if (leg == NULL)
        return NULL;
    leg->member = member;
    leg->data.first = leg->sums.first = reading->first;
    leg->next = reading->legs;
    reading->legs = leg;
    return leg;
}

static enum fg_code send_leg(struct qry_reading *reading, struct qry_reading_leg *leg,
                             ProtobufCBinaryData only_ids, struct fg_err *err)
{
    const struct fg_ring_member *member = &reading->question->ring->ring.members[leg->member];
    struct qry_heads_leg head = {.lenient = reading->lenient,
                                 .tenant = &reading->about,
                                 .store = &member->store,
                                 .only_ids = only_ids};
    const char *address = fg_arena_text(reading->arena, member->address);
    Fg__Inner__Shards shards;
    struct fg_slice bytes;

    fill_shards(reading, leg, &shards);
    head.shards = &shards;
    if (address == NULL)
        return too_large(err);
    if (qry_heads_pack(reading->head, &head, reading->arena, &bytes, err) != FG_OK)
        return err->code;
    send_to(reading, leg, address, bytes);
    return FG_OK;
}

/* ---- who is asked for what ---- */

/* Maps of each member of the ring; NULL: it has none. */
struct plan {
    uint8_t **data, **sums;
};

static bool plan_init(const struct qry_reading *reading, struct plan *plan)
{
    size_t n = reading->question->ring->ring.n_members;

    plan->data = fg_arena_new(reading->arena, uint8_t *, n);
    plan->sums = fg_arena_new(reading->arena, uint8_t *, n);
    return plan->data != NULL && plan->sums != NULL;
}

static bool plan_set(const struct qry_reading *reading, uint8_t **map, uint16_t shard)
{
    size_t bit = (size_t)shard - reading->first;

    if (*map == NULL)
        *map = fg_arena_new(reading->arena, uint8_t, map_bytes(reading));
    if (*map == NULL)
        return false;
    (*map)[bit / 8] = (uint8_t)((*map)[bit / 8] | 1u << bit % 8);
    return true;
}

static struct fg_slice map_slice(const struct qry_reading *reading, const uint8_t *map)
{
    return fg_bytes(map, map == NULL ? 0 : map_bytes(reading));
}

/* A call to each member that has a map. */
static enum fg_code send_plan(struct qry_reading *reading, const struct plan *plan,
                              struct qry_reading_leg *instead_of, struct fg_err *err)
{
    for (uint32_t m = 0; m < reading->question->ring->ring.n_members; m++) {
        struct qry_reading_leg *leg;

        if (plan->data[m] == NULL && plan->sums[m] == NULL)
            continue;
        leg = new_leg(reading, m);
        if (leg == NULL)
            return too_large(err);
        leg->data.bits = map_slice(reading, plan->data[m]);
        leg->sums.bits = map_slice(reading, plan->sums[m]);
        leg->instead_of = instead_of;
        if (send_leg(reading, leg, (ProtobufCBinaryData){0}, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* Those that were asked and did not fail. */
static void find_living(const struct qry_reading *reading, uint64_t living[FG_RING_READS_WORDS])
{
    for (unsigned i = 0; i < FG_RING_READS_WORDS; i++)
        living[i] = reading->reads.asked[i] & ~reading->reads.failed[i];
}

/* Of each shard somebody's data, and sums of all who take part if they are several. */
static bool plan_shard(const struct qry_reading *reading, const struct plan *plan,
                       const uint64_t *among, uint16_t shard)
{
    bool unite = qry_legs_unite(reading->method);
    struct qry_roles roles;

    qry_roles_of(reading->question->ring, shard, among, &roles);
    if (roles.n > 0 && !unite && !plan_set(reading, &plan->data[roles.members[0]], shard))
        return false;
    for (unsigned i = 0; i < roles.n && (unite || roles.n > 1); i++)
        if (!plan_set(reading, &plan->sums[roles.members[i]], shard))
            return false;
    return true;
}

/* ---- the first ones ---- */

static void avoid_all(struct qry_reading *reading, const uint64_t *bits)
{
    for (uint32_t m = 0; m < reading->question->ring->ring.n_members; m++)
        if (fg_bits_has(bits, m))
            fg_ring_reads_avoid(&reading->reads, m);
}

static void init_reads(struct qry_reading *reading)
{
    struct fg_ring_reads *reads = &reading->reads;
    uint64_t revision;
    uint16_t shard;

    fg_ring_reads_init(reads, reading->question->ring, reading->first, reading->last);
    avoid_all(reading, reading->down);
    if (reading->needs_slow)
        return;
    avoid_all(reading, reading->slow);
    if (!fg_ring_reads_is_hopeless(reads, &shard, &revision))
        return;
    reading->needs_slow = true;
    fg_ring_reads_init(reads, reading->question->ring, reading->first, reading->last);
    avoid_all(reading, reading->down);
}

/* Those whose last calls failed count as slow: they are asked only if it takes them. true: some
 * are. */
static bool find_bad(struct qry_reading *reading, const uint32_t *members, uint32_t n)
{
    struct fg_peers *peers = reading->question->querier->peers;
    bool found = false;

    for (uint32_t i = 0; i < n; i++) {
        struct fg_slice address = reading->question->ring->ring.members[members[i]].address;
        const char *url = fg_arena_text(reading->arena, address);
        struct fg_peer *peer;
        struct fg_err unused;

        if (url == NULL || fg_peers_get(peers, url, &peer, &unused) != FG_OK)
            continue;
        if (fg_peer_is_bad(peer, fg_mono_ns(fg_clock_real()))) {
            fg_bits_set(reading->slow, members[i]);
            found = true;
        }
        fg_peers_put(peers, peer);
    }
    return found;
}

static void choose_members(struct qry_reading *reading)
{
    uint32_t members[FG_RING_MEMBERS_MAX], n;

    do {
        init_reads(reading);
        n = fg_ring_reads_ask(&reading->reads, reading->turn, members);
    } while (!reading->needs_slow && find_bad(reading, members, n));
}

static enum fg_code ask_one(struct qry_reading *reading, struct fg_err *err)
{
    struct qry_reading_leg *leg = new_leg(reading, FG_RING_NO_MEMBER);
    struct fg_slice bytes;

    if (leg == NULL)
        return too_large(err);
    if (qry_heads_pack(
            reading->head,
            &(struct qry_heads_leg){.tenant = &reading->about, .lenient = reading->lenient},
            reading->arena, &bytes, err) != FG_OK)
        return err->code;
    send_to(reading, leg, NULL, bytes);
    return FG_OK;
}

enum fg_code qry_legs_ask(struct qry_reading *reading, struct fg_err *err)
{
    uint64_t living[FG_RING_READS_WORDS];
    struct plan plan;

    if (reading->question->ring == NULL)
        return reading->question->querier->ingester == NULL ? FG_OK : ask_one(reading, err);
    choose_members(reading);
    find_living(reading, living);
    if (!plan_init(reading, &plan))
        return too_large(err);
    for (uint32_t shard = reading->first; shard <= reading->last; shard++)
        if (!plan_shard(reading, &plan, living, (uint16_t)shard))
            return too_large(err);
    return send_plan(reading, &plan, NULL, err);
}

/* ---- stand-ins ---- */

/* Who may stand in: who is well; and else who is only late. Nobody who was asked for it before. */
struct stand_ins {
    uint64_t well[FG_RING_READS_WORDS], any[FG_RING_READS_WORDS];
};

static void find_stand_ins(const struct qry_reading *reading, const struct qry_reading_leg *leg,
                           struct stand_ins *ret_stand_ins)
{
    struct stand_ins found;

    find_living(reading, found.well);
    for (unsigned i = 0; i < FG_RING_READS_WORDS; i++)
        found.any[i] = reading->reads.asked[i] & ~reading->down[i];
    for (; leg != NULL; leg = leg->instead_of) {
        fg_bits_clear(found.well, leg->member);
        fg_bits_clear(found.any, leg->member);
    }
    *ret_stand_ins = found;
}

static bool replace_shard(struct qry_reading *reading, struct qry_reading_leg *leg,
                          const struct stand_ins *stand_ins, const struct plan *plan,
                          uint16_t shard)
{
    struct qry_roles roles;

    qry_roles_of(reading->question->ring, shard, stand_ins->well, &roles);
    if (roles.n == 0)
        qry_roles_of(reading->question->ring, shard, stand_ins->any, &roles);
    leg->uncovered = leg->uncovered || roles.n == 0;
    return roles.n == 0 || (plan_set(reading, &plan->data[roles.members[0]], shard) &&
                            plan_set(reading, &plan->sums[roles.members[0]], shard));
}

/* Others give the data that this one was to give. */
static enum fg_code replace(struct qry_reading *reading, struct qry_reading_leg *leg,
                            struct fg_err *err)
{
    struct stand_ins stand_ins;
    struct plan plan;

    leg->replaced = true;
    if (leg->data.bits.len == 0)
        return FG_OK;
    fg_metric_add(reading->question->querier->replicas_metrics, REPLICAS_REPLACED, 1);
    if (!plan_init(reading, &plan))
        return too_large(err);
    find_stand_ins(reading, leg, &stand_ins);
    for (uint32_t shard = reading->first; shard <= reading->last; shard++)
        if (qry_shard_map_has(&leg->data, (uint16_t)shard) &&
            !replace_shard(reading, leg, &stand_ins, &plan, (uint16_t)shard))
            return too_large(err);
    return send_plan(reading, &plan, leg, err);
}

/* Those who were not asked before give sums of all that they own. */
static enum fg_code ask_more(struct qry_reading *reading, const uint32_t *members, uint32_t n,
                             struct fg_err *err)
{
    uint64_t added[FG_RING_READS_WORDS] = {0};
    struct plan plan;

    for (uint32_t i = 0; i < n; i++)
        fg_bits_set(added, members[i]);
    if (!plan_init(reading, &plan))
        return too_large(err);
    for (uint32_t shard = reading->first; shard <= reading->last; shard++) {
        struct qry_roles roles;

        qry_roles_of(reading->question->ring, (uint16_t)shard, added, &roles);
        for (unsigned i = 0; i < roles.n; i++)
            if (!plan_set(reading, &plan.sums[roles.members[i]], (uint16_t)shard))
                return too_large(err);
    }
    return send_plan(reading, &plan, NULL, err);
}

enum fg_code qry_legs_stand_in(struct qry_reading *reading, struct fg_err *err)
{
    uint32_t members[FG_RING_MEMBERS_MAX];
    uint32_t n = fg_ring_reads_ask(&reading->reads, reading->turn, members);
    struct qry_reading_leg *first = reading->legs; /* new ones stand before it */

    for (struct qry_reading_leg *leg = first; leg != NULL; leg = leg->next)
        if ((leg->state == LEG_FAILED || leg->state == LEG_LATE) && !leg->replaced &&
            replace(reading, leg, err) != FG_OK)
            return err->code;
    return n == 0 ? FG_OK : ask_more(reading, members, n, err);
}

/* ---- profiles by their ids ---- */

/* missing[0 .. n) are all of one answer. */
static enum fg_code fetch_from(struct qry_reading *reading, uint32_t member,
                               const struct qry_compare_missing *missing, uint32_t n,
                               struct fg_err *err)
{
    uint8_t *ids = fg_arena_alloc(reading->arena, (size_t)n * FG_ID_BYTES), *map = NULL;
    struct qry_reading_leg *leg = new_leg(reading, member);

    if (ids == NULL || leg == NULL)
        return too_large(err);
    for (uint32_t i = 0; i < n; i++) {
        fg_id_put(ids + (size_t)i * FG_ID_BYTES, missing[i].id);
        if (!plan_set(reading, &map, missing[i].shard))
            return too_large(err);
    }
    leg->n_ids = n;
    leg->data.bits = map_slice(reading, map);
    return send_leg(reading, leg, (ProtobufCBinaryData){(size_t)n * FG_ID_BYTES, ids}, err);
}

enum fg_code qry_legs_fetch(struct qry_reading *reading, struct qry_reading_leg *const *legs,
                            const struct qry_compare_result *result, struct fg_err *err)
{
    const struct qry_compare_missing *missing = result->missing;

    for (uint32_t i = 0, end; i < result->n_missing; i = end) {
        for (end = i + 1; end < result->n_missing && end - i < FETCH_IDS_MAX &&
                          missing[end].from == missing[i].from;)
            end++;
        if (fetch_from(reading, legs[missing[i].from]->member, missing + i, end - i, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* ---- what came of it ---- */

/* Is the data there that it was to give, from itself or from its stand-ins? */
static bool is_taken(const struct qry_reading *reading, const struct qry_reading_leg *leg)
{
    if (leg->state == LEG_ANSWERED || leg->data.bits.len == 0)
        return true;
    if (!leg->replaced || leg->uncovered)
        return false;
    for (const struct qry_reading_leg *other = reading->legs; other != NULL; other = other->next)
        if (other->instead_of == leg && !is_taken(reading, other))
            return false;
    return true;
}

bool qry_legs_are_enough(const struct qry_reading *reading)
{
    bool alone = reading->question->ring == NULL;

    for (const struct qry_reading_leg *leg = reading->legs; leg != NULL; leg = leg->next)
        if (alone ? leg->state != LEG_ANSWERED : leg->instead_of == NULL && !is_taken(reading, leg))
            return false;
    return alone || fg_ring_reads_is_enough(&reading->reads);
}

bool qry_legs_counts(const struct qry_reading_leg *leg)
{
    if (leg->state != LEG_ANSWERED)
        return false;
    for (leg = leg->instead_of; leg != NULL; leg = leg->instead_of)
        if (leg->state == LEG_ANSWERED)
            return false;
    return true;
}
