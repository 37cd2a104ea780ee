/*
 * What heads hold of a tenant: of each shard the data of one, sums of the others, and what these
 * have besides. Who gives what, what differs, and what is to be fetched is decided by production
 * (common/cluster/ring/reads_core, querier/replicas), and so is what a head says
 * (ingester/query_shards). Calls are made one after another, so that much happens between them; who
 * fails is left out when all is asked anew.
 */
#include "querier/replicas/ids.h"
#include "querier/replicas/roles.h"
#include "tests/sim/world.h"

enum { ATTEMPTS_MAX = 8, MAP_BYTES = SHARDS / 8 + 1 };

struct qry_asked {
    uint32_t member;
    uint8_t data[MAP_BYTES], sums[MAP_BYTES];
    struct head_answer answer;
};

struct replicas {
    struct world *world;
    const struct fg_ring_view *view;
    uint32_t tenant;
    uint64_t generation;
    uint64_t *least;
    struct fg_arena *arena;
    struct qry_ids_wanted ids;
    uint64_t down[FG_RING_READS_WORDS]; /* bits by member */

    /* Of this attempt. */
    struct qry_asked *asked;
    uint32_t n_asked;
};

static struct fg_slice map_of(const uint8_t bits[MAP_BYTES])
{
    return fg_bytes(bits, MAP_BYTES);
}

static ProtobufCBinaryData as_binary(struct fg_slice bytes)
{
    return (ProtobufCBinaryData){bytes.len, (uint8_t *)(uintptr_t)bytes.ptr}; /* only read */
}

static void set_bit(uint8_t map[MAP_BYTES], uint32_t bit)
{
    map[bit / 8] = (uint8_t)(map[bit / 8] | 1u << bit % 8);
}

/* ---- calls ---- */

/* HEAD_UNAVAILABLE too where another store has its name: it would answer with nothing. */
static enum head_read call(struct replicas *replicas, const struct qry_asked *asked,
                           struct fg_slice only_ids, struct head_answer *answer)
{
    const struct fg_ring_member *member = &replicas->view->ring.members[asked->member];
    struct head *head = find_head(replicas->world, member->name);
    struct head_question question = {.tenant = replicas->tenant,
                                     .generation = replicas->generation,
                                     .only_ids = as_binary(only_ids)};

    fg__inner__shards__init(&question.shards);
    question.shards.ids_since_ns = replicas->ids.since_ns;
    question.shards.data = as_binary(map_of(asked->data));
    if (only_ids.len == 0) {
        question.shards.sums = as_binary(map_of(asked->sums));
        question.shards.ids_of = replicas->ids.of;
        question.shards.n_ids_of = replicas->ids.n_of;
    }
    return head != NULL && fg_id_eq(head_identity(head)->store, member->store)
               ? head_read(head, &question, replicas->arena, answer, replicas->least)
               : HEAD_UNAVAILABLE;
}

/* ---- who is asked for what ---- */

static struct qry_asked *find_asked(struct replicas *replicas, uint32_t member)
{
    for (uint32_t i = 0; i < replicas->n_asked; i++)
        if (replicas->asked[i].member == member)
            return &replicas->asked[i];
    return NULL;
}

static void plan(struct replicas *replicas, const struct fg_ring_reads *reads)
{
    uint64_t living[FG_RING_READS_WORDS];

    for (unsigned i = 0; i < FG_RING_READS_WORDS; i++)
        living[i] = reads->asked[i] & ~reads->failed[i];
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        struct qry_roles roles;

        qry_roles_of(replicas->view, (uint16_t)shard, living, &roles);
        for (unsigned i = 0; i < roles.n; i++) {
            struct qry_asked *asked = find_asked(replicas, roles.members[i]);

            if (i == 0)
                set_bit(asked->data, shard);
            if (roles.n > 1)
                set_bit(asked->sums, shard);
        }
    }
}

/* HEAD_UNAVAILABLE: so many are down that it cannot be enough. */
static enum head_read choose(struct replicas *replicas)
{
    uint32_t members[FG_RING_MEMBERS_MAX];
    struct fg_ring_reads reads;

    fg_ring_reads_init(&reads, replicas->view, 0, SHARDS - 1);
    for (uint32_t m = 0; m < replicas->view->ring.n_members; m++)
        if ((replicas->down[m / 64] >> m % 64 & 1) != 0)
            fg_ring_reads_avoid(&reads, m);
    replicas->n_asked = fg_ring_reads_ask(&reads, (uint32_t)draw(replicas->world, 1000), members);
    replicas->asked = fg_arena_new(replicas->arena, struct qry_asked, replicas->n_asked);
    for (uint32_t i = 0; i < replicas->n_asked; i++) {
        replicas->asked[i].member = members[i];
        fg_ring_reads_heard(&reads, members[i]);
    }
    plan(replicas, &reads);
    return fg_ring_reads_is_enough(&reads) ? HEAD_ANSWERED : HEAD_UNAVAILABLE;
}

/* ---- an attempt ---- */

/* Without this one, all anew. */
static enum head_read without(struct replicas *replicas, uint32_t member, bool *again)
{
    replicas->down[member / 64] |= UINT64_C(1) << member % 64;
    *again = true;
    return HEAD_UNAVAILABLE;
}

static enum head_read ask_all(struct replicas *replicas, bool *again)
{
    for (uint32_t i = 0; i < replicas->n_asked; i++) {
        struct qry_asked *asked = &replicas->asked[i];
        enum head_read got = call(replicas, asked, FG_LIT(""), &asked->answer);

        if (got == HEAD_UNAVAILABLE)
            return without(replicas, asked->member, again);
        if (got == HEAD_STALE)
            return HEAD_STALE;
    }
    return HEAD_ANSWERED;
}

/* What differs and what is missing. (sums-of-ids) */
static struct qry_compare_result compare(struct replicas *replicas)
{
    struct qry_compare_answer *answers =
        fg_arena_new(replicas->arena, struct qry_compare_answer, replicas->n_asked);
    struct qry_compare_result result;
    struct fg_err err;

    for (uint32_t i = 0; i < replicas->n_asked; i++) {
        const struct qry_asked *asked = &replicas->asked[i];
        const struct qry_shard_map summed = {0, map_of(asked->sums)};

        fg_assert(qry_compare_read(asked->answer.sums, asked->answer.n_sums, &summed,
                                   replicas->arena, &answers[i], &err) == FG_OK);
        answers[i].data = (struct qry_shard_map){0, map_of(asked->data)};
        for (size_t k = 0; !keeps(replicas->world, CLUSTER_RULE_SUMS_OF_IDS) && k < answers[i].n;
             k++)
            answers[i].sums[k].digest = (struct fg_id){0};
    }
    fg_assert(qry_compare_answers(answers, replicas->n_asked, replicas->arena, &result, &err) ==
              FG_OK);
    return result;
}

/* missing[0 .. n) of one head. */
static enum head_read fetch_some(struct replicas *replicas,
                                 const struct qry_compare_missing *missing, uint32_t n,
                                 struct items *out, bool *again)
{
    struct qry_asked fetch = {.member = replicas->asked[missing->from].member};
    uint8_t *ids = fg_arena_alloc(replicas->arena, (size_t)n * FG_ID_BYTES);
    struct head_answer answer = {0};
    enum head_read got;

    for (uint32_t i = 0; i < n; i++) {
        fg_id_put(ids + (size_t)i * FG_ID_BYTES, missing[i].id);
        set_bit(fetch.data, missing[i].shard);
    }
    got = call(replicas, &fetch, fg_bytes(ids, (size_t)n * FG_ID_BYTES), &answer);
    if (got == HEAD_ANSWERED) {
        if (answer.data.n != n)
            found_fault(replicas->world, "a head gives %u of %u profiles that it has",
                        answer.data.n, n);
        items_append(out, items_bytes(&answer.data));
        replicas->world->fetched += n;
    }
    items_done(&answer.data);
    return got == HEAD_UNAVAILABLE ? without(replicas, fetch.member, again) : got;
}

static enum head_read fetch(struct replicas *replicas, const struct qry_compare_result *result,
                            struct items *out, bool *again)
{
    enum head_read got = HEAD_ANSWERED;

    for (uint32_t i = 0, end; i < result->n_missing && got == HEAD_ANSWERED; i = end) {
        for (end = i + 1;
             end < result->n_missing && result->missing[end].from == result->missing[i].from;)
            end++;
        got = fetch_some(replicas, result->missing + i, end - i, out, again);
    }
    return got;
}

static enum head_read take(struct replicas *replicas, struct items *out, bool *again)
{
    struct qry_compare_result result = compare(replicas);
    struct fg_err err;

    if (result.n_differ > 0) {
        replicas->world->differed += result.n_differ;
        fg_assert(qry_ids_wanted_add(&replicas->ids, &result, replicas->arena, &err) == FG_OK);
        *again = true;
        return HEAD_UNAVAILABLE;
    }
    for (uint32_t i = 0; i < replicas->n_asked; i++)
        items_append(out, items_bytes(&replicas->asked[i].answer.data));
    return fetch(replicas, &result, out, again);
}

static enum head_read attempt(struct replicas *replicas, struct items *out, bool *again)
{
    enum head_read got = choose(replicas);

    *again = false;
    out->n = 0;
    if (got == HEAD_ANSWERED)
        got = ask_all(replicas, again);
    if (got == HEAD_ANSWERED)
        got = take(replicas, out, again);
    for (uint32_t i = 0; i < replicas->n_asked; i++)
        items_done(&replicas->asked[i].answer.data);
    return got;
}

enum head_read ask_heads(struct world *world, const struct fg_ring_view *view, uint32_t tenant,
                         uint64_t generation, struct items *out, uint64_t *ret_least)
{
    struct replicas replicas = {.world = world,
                                .view = view,
                                .tenant = tenant,
                                .generation = generation,
                                .least = ret_least,
                                .arena = fg_arena_create(SIZE_MAX)};
    enum head_read got = HEAD_UNAVAILABLE;
    bool again = true;

    qry_ids_wanted_init(&replicas.ids, world_wall_ns(world));
    for (int i = 0; i < ATTEMPTS_MAX && again; i++)
        got = attempt(&replicas, out, &again);
    fg_arena_destroy(replicas.arena);
    return got;
}
