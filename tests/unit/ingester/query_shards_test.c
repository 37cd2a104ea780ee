/* Answers of one of several replicas: data of some shards, sums of some, ids of some groups and
 * times, against a list of all profiles. Each profile has a stack of its own, so the data tells
 * which profiles it is made of. */
#include "common/model/flame.h"
#include "ingester/ingester.h"
#include "ingester/query_shards.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PROFILES = 96, SERVICES = 8, GROUPS_MAX = 2 * PROFILES, CHUNKS = 200 };

static const int64_t start_ns = INT64_C(1700000400) * FG_SECOND_NS; /* on a border of windows */
static const int64_t end_ns = INT64_C(1700002200) * FG_SECOND_NS;

struct known {
    struct fg_id id;
    int64_t time_ns;
    uint16_t shard; /* as the head says */
    uint32_t window;
    uint64_t service;
    bool unreadable; /* its record */
};

struct world {
    struct fg_store *store;
    struct head head;
    struct known profiles[PROFILES];
    uint64_t random;
};

static uint64_t draw(struct world *world, uint64_t below)
{
    world->random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(world->random) % below;
}

/* ---- asking ---- */

/* A question and its answer. */
struct asking {
    Fg__Inner__Shards shards;
    Fg__Inner__Selection selection;
    uint8_t data[QUERY_MAP_MAX_BYTES], sums[QUERY_MAP_MAX_BYTES];
    struct fg_call call;
    uint8_t *head;
    struct fg_buf text;
};

static void asking_init(struct asking *asking)
{
    static char tenant[] = "tenant";

    *asking = (struct asking){.head = NULL};
    fg__inner__shards__init(&asking->shards);
    fg__inner__selection__init(&asking->selection);
    asking->selection.tenant = tenant;
    asking->selection.start_ns = start_ns;
    asking->selection.end_ns = end_ns;
    asking->selection.shards = &asking->shards;
    asking->shards.data.data = asking->data;
    asking->shards.sums.data = asking->sums;
    asking->shards.ids_since_ns = INT64_MAX;
    fg_buf_init(&asking->text, SIZE_MAX);
}

static void asking_done(struct world *world, struct asking *asking)
{
    fg_call_done(world->head.peer, &asking->call);
    fg_buf_done(&asking->text);
    free(asking->head);
}

static enum fg_code ask(struct world *world, struct asking *asking, enum fg_rpc_method method,
                        const ProtobufCMessage *message)
{
    asking->head = fg_malloc(protobuf_c_message_get_packed_size(message) + 1);
    asking->call = (struct fg_call){
        .method = method,
        .head = fg_bytes(asking->head, protobuf_c_message_pack(message, asking->head)),
        .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS,
    };
    return fg_peer_call(world->head.peer, &asking->call);
}

static enum fg_code ask_select(struct world *world, struct asking *asking)
{
    static char type[] = "process_cpu:samples:count::";
    Fg__Inner__SelectHead message;

    fg__inner__select_head__init(&message);
    message.selection = &asking->selection;
    message.profile_type = type;
    return ask(world, asking, FG_RPC_SELECT, &message.base);
}

static Fg__Inner__SelectReply *select_reply(const struct asking *asking)
{
    Fg__Inner__SelectReply *reply = fg__inner__select_reply__unpack(
        NULL, asking->call.reply_head.len, asking->call.reply_head.ptr);

    assert_non_null(reply);
    return reply;
}

/* "p7 1": how often each profile is in the data. */
static void count_profiles(struct asking *asking, unsigned counts[PROFILES])
{
    struct fg_tree tree;
    struct fg_err err;
    const char *at;

    memset(counts, 0, PROFILES * sizeof *counts);
    fg_tree_init(&tree);
    assert_int_equal(fg_tree_decode(&tree, asking->call.reply_payload, &err), FG_OK);
    fg_flame_write_folded(&tree, &asking->text);
    fg_tree_done(&tree);
    fg_buf_append(&asking->text, "", 1);
    for (at = (const char *)asking->text.ptr; *at != '\0'; at = strchr(at, '\n') + 1) {
        char *after;
        unsigned long profile = strtoul(at + 1, &after, 10);

        assert_int_equal(*at, 'p');
        assert_true(profile < PROFILES);
        counts[profile] = (unsigned)strtoul(after, NULL, 10);
    }
}

/* ---- the world ---- */

static void push(struct world *world, unsigned number)
{
    char stack[16], service[16], zone[16];
    const struct head_sample sample = {stack, {1, 10}, 0};
    struct head_profile profile = {
        .tenant = "tenant",
        .service = service,
        .zone = zone,
        .time_ns = start_ns + (int64_t)draw(world, 1800) * FG_SECOND_NS,
        .samples = &sample,
        .n_samples = 1,
    };
    struct fg_buf batch;

    (void)snprintf(stack, sizeof stack, "p%u", number);
    world->profiles[number].service = draw(world, SERVICES);
    (void)snprintf(service, sizeof service, "s%llu",
                   (unsigned long long)world->profiles[number].service);
    (void)snprintf(zone, sizeof zone, "z%llu", (unsigned long long)draw(world, 4));
    fg_buf_init(&batch, SIZE_MAX);
    world->profiles[number].time_ns = profile.time_ns;
    world->profiles[number].id = head_encode(&profile, true, 1, &batch);
    assert_int_equal(head_push_bytes(&world->head, &profile, fg_buf_slice(&batch)).stored, 1);
    fg_buf_done(&batch);
}

static struct known *find(struct world *world, struct fg_id id)
{
    for (unsigned i = 0; i < PROFILES; i++)
        if (fg_id_eq(world->profiles[i].id, id))
            return &world->profiles[i];
    fail_msg("an id that nobody sent");
    return NULL;
}

/* Where everything is: all by their ids, each once, ascending within its group. */
static void locate(struct world *world)
{
    struct asking asking;
    Fg__Inner__SelectReply *reply;
    size_t n = 0;

    asking_init(&asking);
    memset(asking.sums, 0xff, sizeof asking.sums);
    asking.shards.sums.len = sizeof asking.sums;
    asking.shards.ids_since_ns = INT64_MIN;
    assert_int_equal(ask_select(world, &asking), FG_OK);
    reply = select_reply(&asking);
    for (size_t g = 0; g < reply->n_sums; g++) {
        const Fg__Inner__GroupSum *sum = reply->sums[g];

        assert_int_equal(sum->count, 0);
        assert_int_equal(sum->digest.len, 0);
        for (size_t i = 0; i < sum->ids.len; i += FG_ID_BYTES, n++) {
            struct fg_id id = fg_id_get(sum->ids.data + i);
            struct known *known = find(world, id);

            assert_true(i == 0 || fg_id_cmp(fg_id_get(sum->ids.data + i - FG_ID_BYTES), id) < 0);
            assert_int_equal(sum->window, ing_head_window(known->time_ns, 0));
            known->shard = (uint16_t)sum->shard;
            known->window = sum->window;
        }
    }
    assert_int_equal(n, PROFILES);
    assert_int_equal(reply->stats->profiles, 0); /* nothing was read for data */
    fg__inner__select_reply__free_unpacked(reply, NULL);
    asking_done(world, &asking);
}

static int setup(void **state)
{
    struct world *world = fg_new(struct world);

    world->store = fg_store_memory(HEAD_FAMILIES);
    head_open(&world->head, world->store);
    for (unsigned i = 0; i < PROFILES; i++)
        push(world, i);
    locate(world);
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;

    head_close(&world->head);
    fg_store_close(world->store);
    free(world);
    return 0;
}

/* ---- data and sums ---- */

static void set(uint8_t *map, unsigned bit)
{
    map[bit / 8] = (uint8_t)(map[bit / 8] | 1u << bit % 8);
}

static bool is_set(ProtobufCBinaryData map, uint32_t first, unsigned shard)
{
    return shard >= first && (shard - first) / 8 < map.len &&
           (map.data[(shard - first) / 8] >> (shard - first) % 8 & 1) != 0;
}

/* Each shard that there is in one of the maps, or both, or none. */
static void draw_maps(struct world *world, struct asking *asking)
{
    uint32_t first = (uint32_t)draw(world, 3) * 1000;

    asking->shards.first = first;
    asking->shards.data.len = asking->shards.sums.len = (65536 - first) / 8;
    for (unsigned i = 0; i < PROFILES; i++) {
        unsigned shard = world->profiles[i].shard;

        if (shard >= first && draw(world, 4) == 0)
            set(asking->data, shard - first);
        if (shard >= first && draw(world, 4) == 0)
            set(asking->sums, shard - first);
    }
    asking->shards.ids_since_ns = start_ns + (int64_t)draw(world, 2400) * FG_SECOND_NS;
    if (draw(world, 3) == 0)
        asking->selection.end_ns = start_ns + (int64_t)draw(world, 1800) * FG_SECOND_NS;
}

static bool is_selected(const struct asking *asking, const struct known *known)
{
    return known->time_ns >= asking->selection.start_ns &&
           known->time_ns <= asking->selection.end_ns;
}

/* A record that cannot be read counts only where nothing of it has to be. */
static bool is_counted(const struct asking *asking, const struct known *known)
{
    return is_selected(asking, known) &&
           !(known->unreadable && is_set(asking->shards.data, asking->shards.first, known->shard));
}

static bool is_by_id(const struct asking *asking, const struct known *known)
{
    for (size_t i = 0; i < asking->shards.n_ids_of; i++)
        if (asking->shards.ids_of[i]->shard == known->shard &&
            asking->shards.ids_of[i]->window == known->window)
            return true;
    return known->time_ns >= asking->shards.ids_since_ns;
}

/* Takes out of the sum what is in it; then nothing is left. */
static void expect_sum(struct world *world, const struct asking *asking,
                       const Fg__Inner__GroupSum *sum)
{
    struct fg_id digest = sum->digest.len == 0 ? (struct fg_id){0} : fg_id_get(sum->digest.data);
    uint64_t count = sum->count;
    size_t n_ids = sum->ids.len / FG_ID_BYTES;

    assert_true(is_set(asking->shards.sums, asking->shards.first, sum->shard));
    for (unsigned i = 0; i < PROFILES; i++) {
        const struct known *known = &world->profiles[i];
        bool found = false;

        if (known->shard != sum->shard || known->window != sum->window ||
            !is_counted(asking, known))
            continue;
        for (size_t at = 0; at < sum->ids.len; at += FG_ID_BYTES)
            found |= fg_id_eq(fg_id_get(sum->ids.data + at), known->id);
        assert_int_equal(found, is_by_id(asking, known));
        if (found) {
            n_ids--;
        } else {
            digest = fg_id_sub(digest, known->id);
            count--;
        }
    }
    assert_int_equal(count, 0);
    assert_int_equal(n_ids, 0);
    assert_true(fg_id_is_zero(digest));
}

static uint64_t size_of(const Fg__Inner__GroupSum *sum)
{
    return sum->count + sum->ids.len / FG_ID_BYTES;
}

static void expect_sums(struct world *world, const struct asking *asking,
                        Fg__Inner__GroupSum **sums, size_t n)
{
    uint64_t summed = 0, selected = 0;

    for (size_t i = 0; i < n; i++) {
        assert_true(
            i == 0 || sums[i - 1]->shard < sums[i]->shard ||
            (sums[i - 1]->shard == sums[i]->shard && sums[i - 1]->window < sums[i]->window));
        expect_sum(world, asking, sums[i]);
        summed += size_of(sums[i]);
    }
    for (unsigned i = 0; i < PROFILES; i++)
        selected += is_counted(asking, &world->profiles[i]) &&
                    is_set(asking->shards.sums, asking->shards.first, world->profiles[i].shard);
    assert_int_equal(summed, selected);
}

static void data_and_sums_are_of_the_shards_asked_for(void **state)
{
    struct world *world = *state;

    for (unsigned chunk = 0; chunk < CHUNKS; chunk++) {
        Fg__Inner__Group groups[4], *pointers[4];
        Fg__Inner__SelectReply *reply;
        unsigned counts[PROFILES];
        struct asking asking;
        uint64_t read = 0;

        asking_init(&asking);
        draw_maps(world, &asking);
        asking.shards.ids_of = pointers;
        for (; asking.shards.n_ids_of < draw(world, 5); asking.shards.n_ids_of++) {
            const struct known *known = &world->profiles[draw(world, PROFILES)];

            pointers[asking.shards.n_ids_of] = &groups[asking.shards.n_ids_of];
            fg__inner__group__init(pointers[asking.shards.n_ids_of]);
            pointers[asking.shards.n_ids_of]->shard = known->shard;
            pointers[asking.shards.n_ids_of]->window = known->window;
        }
        assert_int_equal(ask_select(world, &asking), FG_OK);
        reply = select_reply(&asking);
        expect_sums(world, &asking, reply->sums, reply->n_sums);
        count_profiles(&asking, counts);
        for (unsigned i = 0; i < PROFILES; i++) {
            const struct known *known = &world->profiles[i];
            bool wanted = is_selected(&asking, known) &&
                          is_set(asking.shards.data, asking.shards.first, known->shard);

            assert_int_equal(counts[i], wanted);
            read += wanted;
        }
        assert_int_equal(reply->stats->profiles, read);
        fg__inner__select_reply__free_unpacked(reply, NULL);
        asking_done(world, &asking);
    }
}

/* ---- what cannot be read ---- */

/* Damages all records of one service and some of others: at the front, or behind it. */
static void spoil_some(struct world *world)
{
    struct fg_store_iter *iter =
        fg_store_iter_create(world->store, HEAD_PROFILES, FG_LIT(""), FG_LIT(""));
    struct ing_head_profile_key key;
    struct fg_store_batch batch;
    struct known *known;
    struct fg_err err;

    fg_store_batch_init(&batch);
    for (; iter->valid; fg_store_iter_next(iter)) {
        assert_true(ing_head_get_profile_key(iter->key, &key));
        known = find(world, key.id);
        if (known->service != 0 && draw(world, 6) > 0)
            continue;
        known->unreadable = true;
        fg_store_put(&batch, HEAD_PROFILES, iter->key,
                     fg_slice_sub(iter->value, 0, draw(world, 2) * iter->value.len / 2));
    }
    fg_store_iter_destroy(iter);
    assert_int_equal(fg_store_write(world->store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
}

/* Asks a lenient query. The data has each readable profile that is wanted once, `lacks` says how
 * many unreadable ones are wanted, and no sum counts one of these. */
static void expect_what_can_be_read(struct world *world)
{
    Fg__Inner__SelectReply *reply;
    unsigned counts[PROFILES], lacking = 0;
    struct asking asking;
    char lacks[64] = "";

    asking_init(&asking);
    draw_maps(world, &asking);
    asking.selection.lenient = true;
    assert_int_equal(ask_select(world, &asking), FG_OK);
    reply = select_reply(&asking);
    expect_sums(world, &asking, reply->sums, reply->n_sums);
    count_profiles(&asking, counts);
    for (unsigned i = 0; i < PROFILES; i++) {
        const struct known *known = &world->profiles[i];
        bool wanted = is_selected(&asking, known) &&
                      is_set(asking.shards.data, asking.shards.first, known->shard);

        assert_int_equal(counts[i], wanted && !known->unreadable);
        lacking += wanted && known->unreadable;
    }
    if (lacking > 0)
        (void)snprintf(lacks, sizeof lacks, "%u profiles in the head cannot be read: ", lacking);
    assert_int_equal(strncmp(reply->stats->lacks, lacks, lacking > 0 ? strlen(lacks) : 1), 0);
    fg__inner__select_reply__free_unpacked(reply, NULL);
    asking_done(world, &asking);
}

/* In one pass, and in passes with room for one service each. */
static void lenient_answers_leave_out_what_cannot_be_read(void **state)
{
    struct world *world = *state;

    spoil_some(world);
    for (unsigned chunk = 0; chunk < CHUNKS; chunk++)
        expect_what_can_be_read(world);
    head_close(&world->head);
    head_query_pass_bytes = 1;
    head_open(&world->head, world->store);
    head_query_pass_bytes = 0;
    for (unsigned chunk = 0; chunk < CHUNKS; chunk++)
        expect_what_can_be_read(world);
}

static void only_profiles_with_the_ids_are_answered(void **state)
{
    struct world *world = *state;
    uint8_t ids[4 * FG_ID_BYTES];
    unsigned counts[PROFILES];
    struct asking asking;

    asking_init(&asking);
    asking.selection.shards = NULL;
    fg_id_put(ids, world->profiles[70].id);
    fg_id_put(ids + FG_ID_BYTES, world->profiles[3].id);
    fg_id_put(ids + 2 * FG_ID_BYTES, (struct fg_id){1, 2}); /* nobody has it */
    fg_id_put(ids + 3 * FG_ID_BYTES, world->profiles[3].id);
    asking.selection.only_ids = (ProtobufCBinaryData){sizeof ids, ids};
    assert_int_equal(ask_select(world, &asking), FG_OK);
    count_profiles(&asking, counts);
    for (unsigned i = 0; i < PROFILES; i++)
        assert_int_equal(counts[i], i == 3 || i == 70);
    asking_done(world, &asking);
}

/* ---- the other kinds ---- */

static void points_have_the_sums_of_what_they_read(void **state)
{
    static char type[] = "process_cpu:samples:count::";
    struct world *world = *state;

    for (unsigned chunk = 0; chunk < CHUNKS / 4; chunk++) {
        Fg__Inner__PointsHead message;
        Fg__Inner__PointsReply *reply;
        struct asking asking;

        fg__inner__points_head__init(&message);
        asking_init(&asking);
        draw_maps(world, &asking);
        asking.selection.start_ns += FG_MINUTE_NS;
        asking.selection.end_ns += FG_MINUTE_NS;
        message.selection = &asking.selection;
        message.profile_type = type;
        message.step_ns = FG_MINUTE_NS;
        assert_int_equal(ask(world, &asking, FG_RPC_POINTS, &message.base), FG_OK);
        asking.selection.start_ns += 1 - FG_MINUTE_NS; /* what the first point is made of */
        reply = fg__inner__points_reply__unpack(NULL, asking.call.reply_head.len,
                                                asking.call.reply_head.ptr);
        assert_non_null(reply);
        expect_sums(world, &asking, reply->sums, reply->n_sums);
        fg__inner__points_reply__free_unpacked(reply, NULL);
        asking_done(world, &asking);
    }
}

static void rows_have_the_sums_of_what_they_read(void **state)
{
    static char type[] = "process_cpu:samples:count::";
    struct world *world = *state;

    for (unsigned chunk = 0; chunk < CHUNKS / 4; chunk++) {
        Fg__Inner__RowsHead message;
        Fg__Inner__RowsReply *reply;
        struct asking asking;

        fg__inner__rows_head__init(&message);
        asking_init(&asking);
        draw_maps(world, &asking);
        message.selection = &asking.selection;
        message.profile_type = type;
        message.newest = chunk % 2; /* what is left out of the answer is in its sums */
        assert_int_equal(ask(world, &asking, FG_RPC_ROWS, &message.base), FG_OK);
        reply = fg__inner__rows_reply__unpack(NULL, asking.call.reply_head.len,
                                              asking.call.reply_head.ptr);
        assert_non_null(reply);
        expect_sums(world, &asking, reply->sums, reply->n_sums);
        fg__inner__rows_reply__free_unpacked(reply, NULL);
        asking_done(world, &asking);
    }
}

static void stats_have_sums_of_whole_groups(void **state)
{
    static char tenant[] = "tenant";
    struct world *world = *state;
    Fg__Inner__StatsHead message;
    Fg__Inner__StatsReply *reply;
    struct asking asking;

    fg__inner__stats_head__init(&message);
    asking_init(&asking);
    set(asking.sums, world->profiles[0].shard);
    asking.shards.sums.len = sizeof asking.sums;
    asking.shards.ids_since_ns = INT64_MIN; /* of no effect here */
    message.tenant = tenant;
    message.shards = &asking.shards;
    assert_int_equal(ask(world, &asking, FG_RPC_STATS, &message.base), FG_OK);
    asking.shards.ids_since_ns = INT64_MAX;
    reply = fg__inner__stats_reply__unpack(NULL, asking.call.reply_head.len,
                                           asking.call.reply_head.ptr);
    assert_non_null(reply);
    expect_sums(world, &asking, reply->sums, reply->n_sums);
    assert_true(reply->profiles > 0 && reply->profiles < PROFILES);
    fg__inner__stats_reply__free_unpacked(reply, NULL);
    asking_done(world, &asking);
}

static void series_are_of_the_shards_asked_for(void **state)
{
    struct world *world = *state;
    Fg__Inner__SeriesHead message;
    Fg__Inner__SeriesReply *reply;
    struct asking asking;

    fg__inner__series_head__init(&message);
    asking_init(&asking);
    set(asking.data, world->profiles[0].shard);
    memset(asking.sums, 0xff, sizeof asking.sums); /* of no effect here */
    asking.shards.data.len = asking.shards.sums.len = sizeof asking.data;
    message.selection = &asking.selection;
    assert_int_equal(ask(world, &asking, FG_RPC_SERIES, &message.base), FG_OK);
    reply = fg__inner__series_reply__unpack(NULL, asking.call.reply_head.len,
                                            asking.call.reply_head.ptr);
    assert_non_null(reply);
    /* Two types each, of the up to four zones of a service. */
    assert_true(reply->stats->series >= 2 && reply->stats->series <= 8);
    struct fg_cur cur = fg_cur(asking.call.reply_payload);
    assert_int_equal(fg_cur_varint(&cur), reply->stats->series);
    fg__inner__series_reply__free_unpacked(reply, NULL);
    asking_done(world, &asking);
}

/* ---- what is refused ---- */

static void expect_refused(struct world *world, struct asking *asking, enum fg_code code,
                           const char *text)
{
    assert_int_equal(ask_select(world, asking), code);
    assert_string_equal(asking->call.err.msg, text);
    fg_call_done(world->head.peer, &asking->call);
    free(asking->head);
    asking->head = NULL;
}

static void call_for_another_store_is_refused(void **state)
{
    struct world *world = *state;
    uint8_t store[FG_ID_BYTES] = {1};
    struct asking asking;

    asking_init(&asking);
    asking.selection.store = (ProtobufCBinaryData){sizeof store, store};
    asking.shards.first = 1u << 20; /* not even looked at */
    expect_refused(world, &asking, FG_E_PRECONDITION,
                   "the request is for another store than the one of this ingester");
    asking.selection.store.len = 5;
    expect_refused(world, &asking, FG_E_PRECONDITION,
                   "the request is for another store than the one of this ingester");
    fg_buf_done(&asking.text);
}

static void malformed_requests_are_refused(void **state)
{
    static uint8_t large[QUERY_MAP_MAX_BYTES + 1];
    Fg__Inner__Group group, *groups[QUERY_GROUPS_MAX + 1];
    struct world *world = *state;
    struct asking asking;

    asking_init(&asking);
    asking.shards.first = 65536;
    expect_refused(world, &asking, FG_E_INVALID,
                   "shards: the first is 65536, the last there is 65535");
    asking.shards.first = 65530;
    asking.data[0] = 1 << 6;
    asking.shards.data.len = 1;
    expect_refused(world, &asking, FG_E_INVALID, "shards: data has shard 65536, the last is 65535");
    asking.shards.data.len = 0;
    asking.shards.sums = (ProtobufCBinaryData){sizeof large, large};
    expect_refused(world, &asking, FG_E_INVALID, "shards: sums has 8193 bytes, at most 8192");
    asking.shards.sums.len = 0;

    fg__inner__group__init(&group);
    for (size_t i = 0; i < FG_COUNT(groups); i++)
        groups[i] = &group;
    asking.shards.ids_of = groups;
    asking.shards.n_ids_of = FG_COUNT(groups);
    expect_refused(world, &asking, FG_E_INVALID, "shards: ids of 65537 groups, at most 65536");
    asking.shards.n_ids_of = 1;
    group.shard = 65536;
    expect_refused(world, &asking, FG_E_INVALID, "shards: ids of shard 65536, the last is 65535");
    asking.shards.n_ids_of = 0;

    asking.selection.only_ids = (ProtobufCBinaryData){17, large};
    expect_refused(world, &asking, FG_E_INVALID, "ids of profiles: 17 bytes, not a multiple of 16");
    asking.selection.only_ids.len = (QUERY_IDS_MAX + 1) * FG_ID_BYTES;
    asking.selection.only_ids.data = fg_calloc(QUERY_IDS_MAX + 1, FG_ID_BYTES);
    expect_refused(world, &asking, FG_E_INVALID, "ids of profiles: 65537, at most 65536");
    asking.selection.only_ids.len = 9 << 20;
    free(asking.selection.only_ids.data);
    asking.selection.only_ids.data = fg_calloc(9, 1 << 20);
    assert_int_equal(ask_select(world, &asking), FG_E_INVALID);
    free(asking.selection.only_ids.data);
    asking_done(world, &asking);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_and_sums_are_of_the_shards_asked_for),
        cmocka_unit_test(only_profiles_with_the_ids_are_answered),
        cmocka_unit_test(points_have_the_sums_of_what_they_read),
        cmocka_unit_test(rows_have_the_sums_of_what_they_read),
        cmocka_unit_test(stats_have_sums_of_whole_groups),
        cmocka_unit_test(series_are_of_the_shards_asked_for),
        cmocka_unit_test(call_for_another_store_is_refused),
        cmocka_unit_test(malformed_requests_are_refused),
        cmocka_unit_test_setup_teardown(lenient_answers_leave_out_what_cannot_be_read, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
