/* Repair between whole ingesters in a ring of two. */
#include "proto/inner.pb-c.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROFILES = 40 };

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;
static const char cpu[] = "cpu:nanoseconds", samples_type[] = "samples:count";

struct fixture {
    struct fg_bucket *bucket;
    struct fg_store *stores[2];
    struct head a, b;
    struct fg_buf ours, theirs;
};

static int64_t soon(void)
{
    return fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS;
}

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static void join(struct head *head)
{
    struct fg_err err;

    must(fg_ring_watch_start(head->watch, &err), &err);
    must(fg_ring_watch_wait_member(head->watch, FG_RING_MEMBER_ACTIVE, soon(), &err), &err);
}

/* Until the ring has nothing that is to be drained. */
static void settle(struct head *head)
{
    for (int tries = 0;; tries++) {
        struct fg_ring_view *view;
        uint32_t there;
        struct fg_err err;

        must(fg_ring_watch_fresh(head->watch, soon(), &view, &err), &err);
        there = view->ring.n_revisions;
        fg_ring_view_unref(view);
        if (there == 1)
            return;
        assert_true(tries < 6000);
        (void)usleep(10000);
    }
}

/* Again, and from now on it repairs. */
static void reopen_b(struct fixture *f)
{
    head_open_repairing(&f->b, f->stores[1], f->bucket, "repair-b", 2);
    join(&f->b);
}

/* A ring of both, drained. */
static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->bucket = fg_bucket_memory();
    for (size_t i = 0; i < 2; i++)
        f->stores[i] = fg_store_memory(HEAD_FAMILIES);
    fg_buf_init(&f->ours, SIZE_MAX);
    fg_buf_init(&f->theirs, SIZE_MAX);
    head_open_seated(&f->a, f->stores[0], f->bucket, "repair-a", 2);
    head_open_seated(&f->b, f->stores[1], f->bucket, "repair-b", 2);
    join(&f->a);
    join(&f->b);
    settle(&f->a);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    head_close(&f->a);
    head_close(&f->b);
    for (size_t i = 0; i < 2; i++)
        fg_store_close(f->stores[i]);
    fg_bucket_close(f->bucket);
    fg_buf_done(&f->ours);
    fg_buf_done(&f->theirs);
    free(f);
    return 0;
}

/* Tenants, services, zones, windows and spans change; stacks come again and new. */
static struct head_profile profile_of(unsigned n)
{
    static const char *const stacks[] = {"a;b", "a;c", "a", "d;e;f", "", "a;b;g"};
    static struct head_sample samples[PROFILES][2];

    samples[n][0] = (struct head_sample){stacks[n % 6], {1, 10 + n}, 0};
    samples[n][1] = (struct head_sample){stacks[(n + 3) % 6], {2, n % 5}, n % 4};
    return (struct head_profile){
        .tenant = n % 7 == 6 ? "other" : "tenant",
        .service = n % 3 == 0 ? "shop" : "archive",
        .zone = n % 2 == 0 ? "n" : "s",
        .time_ns = start_ns + (int64_t)(n % 5) * 7 * FG_MINUTE_NS + n,
        .duration_ns = n,
        .samples = samples[n],
        .n_samples = 2,
    };
}

static void push(struct head *head, unsigned from, unsigned to)
{
    for (unsigned n = from; n < to; n++) {
        const struct head_profile profile = profile_of(n);

        assert_int_equal(head_push(head, &profile, true).stored, 1);
    }
}

static uint64_t count(struct head *head)
{
    return head_stats(head, "tenant").profiles + head_stats(head, "other").profiles;
}

static void wait_for(struct head *head, uint64_t n)
{
    for (int tries = 0; count(head) != n; tries++) {
        assert_true(tries < 6000);
        (void)usleep(10000);
    }
}

static void assert_same(struct fixture *f, const char *tenant, const char *type, uint64_t span)
{
    struct head_query query = {.tenant = tenant,
                               .type = type,
                               .start_ns = INT64_MIN,
                               .end_ns = INT64_MAX,
                               .n_spans = span != 0,
                               .spans = {span}};

    assert_int_equal(head_select(&f->a, &query, &f->ours), FG_OK);
    assert_int_equal(head_select(&f->b, &query, &f->theirs), FG_OK);
    assert_true(f->ours.len > 0);
    if (!fg_slice_eq(fg_buf_slice(&f->ours), fg_buf_slice(&f->theirs)))
        fail_msg("%.*s---\n%.*s", FG_S(fg_buf_slice(&f->ours)), FG_S(fg_buf_slice(&f->theirs)));
}

static void member_fetches_what_it_missed_while_down(void **state)
{
    struct fixture *f = *state;

    push(&f->a, 0, 10);
    push(&f->b, 0, 8);
    head_close(&f->b);
    push(&f->a, 10, PROFILES);
    reopen_b(f);
    wait_for(&f->b, PROFILES);
    assert_same(f, "tenant", cpu, 0);
    assert_same(f, "tenant", samples_type, 0);
    assert_same(f, "tenant", cpu, 2);
    assert_same(f, "other", cpu, 0);
    /* The same profiles, by their ids: whoever sends them again finds them. */
    for (unsigned n = 0; n < PROFILES; n++) {
        const struct head_profile profile = profile_of(n);

        assert_int_equal(head_push(&f->b, &profile, true).duplicates, 1);
    }
}

/* An answer that has no room for all says what it left. */
static void large_profiles_are_fetched_in_several_answers(void **state)
{
    enum { SAMPLES = 30000, COUNT = 12 };
    struct fixture *f = *state;
    struct head_sample *samples = fg_calloc(SAMPLES, sizeof *samples);
    char(*stacks)[16] = fg_calloc(SAMPLES, sizeof *stacks);

    for (unsigned i = 0; i < SAMPLES; i++) {
        (void)snprintf(stacks[i], sizeof stacks[i], "a;s%u", i);
        samples[i] = (struct head_sample){stacks[i], {INT64_C(1) << 40 | i * 7919, 1}, 0};
    }
    head_close(&f->b);
    for (unsigned n = 0; n < COUNT; n++) {
        const struct head_profile profile = {.tenant = "tenant",
                                             .service = "shop",
                                             .time_ns = start_ns + n,
                                             .samples = samples,
                                             .n_samples = SAMPLES};

        assert_int_equal(head_push(&f->a, &profile, true).stored, 1);
    }
    reopen_b(f);
    wait_for(&f->b, COUNT);
    assert_same(f, "tenant", cpu, 0);
    free(samples);
    free(stacks);
}

/* A tenant that has as many series here as it may have: its profiles are refused in each pass. The
 * other tenant's are behind them. */
static void tenant_at_its_limit_does_not_keep_others_from_repair(void **state)
{
    const struct head_sample sample = {"a;b", {1, 1}, 0};
    struct head_profile profile = {
        .tenant = "tenant", .time_ns = start_ns, .samples = &sample, .n_samples = 1};
    struct fixture *f = *state;
    char service[16];

    profile.service = service;
    for (unsigned n = 0; n < HEAD_SERIES_MAX; n++) {
        (void)snprintf(service, sizeof service, "service-%u", n);
        assert_int_equal(head_push(&f->b, &profile, true).stored, 1);
    }
    head_close(&f->b);
    (void)snprintf(service, sizeof service, "one more");
    assert_int_equal(head_push(&f->a, &profile, true).stored, 1);
    profile.tenant = "other";
    assert_int_equal(head_push(&f->a, &profile, true).stored, 1);
    reopen_b(f);
    wait_for(&f->b, HEAD_SERIES_MAX + 1);
    assert_int_equal(head_stats(&f->b, "other").profiles, 1);
    assert_int_equal(head_stats(&f->b, "tenant").profiles, HEAD_SERIES_MAX);
}

static enum fg_code call(struct head *head, enum fg_rpc_method method,
                         const ProtobufCMessage *message, struct fg_call *ret_call)
{
    uint8_t bytes[512];

    fg_assert(protobuf_c_message_get_packed_size(message) <= sizeof bytes);
    *ret_call = (struct fg_call){
        .method = method,
        .head = fg_bytes(bytes, protobuf_c_message_pack(message, bytes)),
        .deadline_mono_ns = soon(),
    };
    return fg_peer_call(head->peer, ret_call);
}

static void groups_are_answered_to_owners_by_the_named_store_only(void **state)
{
    Fg__Inner__GroupsHead groups;
    Fg__Inner__FetchHead fetch;
    Fg__Inner__Group group = FG__INNER__GROUP__INIT;
    uint8_t a[FG_ID_BYTES], stranger[FG_ID_BYTES] = {1};
    Fg__Inner__GroupsReply *reply;
    struct fixture *f = *state;
    struct fg_call answer;

    fg__inner__groups_head__init(&groups);
    fg__inner__fetch_head__init(&fetch);
    push(&f->a, 0, PROFILES);
    fg_id_put(a, f->a.store_id);
    groups.store = (ProtobufCBinaryData){sizeof a, a};
    groups.asker = (ProtobufCBinaryData){sizeof stranger, stranger};
    assert_int_equal(call(&f->a, FG_RPC_GROUPS, &groups.base, &answer), FG_OK);
    reply = fg__inner__groups_reply__unpack(NULL, answer.reply_head.len, answer.reply_head.ptr);
    assert_int_equal(reply->n_groups, 0);
    fg__inner__groups_reply__free_unpacked(reply, NULL);
    fg_call_done(f->a.peer, &answer);
    assert_int_equal(call(&f->b, FG_RPC_GROUPS, &groups.base, &answer), FG_E_PRECONDITION);
    fg_call_done(f->b.peer, &answer);

    fetch.store = groups.store;
    assert_int_equal(call(&f->a, FG_RPC_FETCH, &fetch.base, &answer), FG_E_INVALID);
    fg_call_done(f->a.peer, &answer);
    fetch.group = &group;
    fetch.tenant = (char[]){"nobody"};
    assert_int_equal(call(&f->a, FG_RPC_FETCH, &fetch.base, &answer), FG_OK);
    assert_int_equal(answer.reply_payload.len, 0);
    fg_call_done(f->a.peer, &answer);
    fetch.ids = (ProtobufCBinaryData){3, a};
    assert_int_equal(call(&f->a, FG_RPC_FETCH, &fetch.base, &answer), FG_E_INVALID);
    fg_call_done(f->a.peer, &answer);
    fetch.store = (ProtobufCBinaryData){sizeof stranger, stranger};
    assert_int_equal(call(&f->a, FG_RPC_FETCH, &fetch.base, &answer), FG_E_PRECONDITION);
    fg_call_done(f->a.peer, &answer);
}

/* The only one that both own. */
static void find_group(struct fixture *f, Fg__Inner__Group *group)
{
    uint8_t a[FG_ID_BYTES], b[FG_ID_BYTES];
    Fg__Inner__GroupsReply *reply;
    Fg__Inner__GroupsHead groups;
    struct fg_call answer;

    fg__inner__groups_head__init(&groups);
    fg_id_put(a, f->a.store_id);
    fg_id_put(b, f->b.store_id);
    groups.store = (ProtobufCBinaryData){sizeof a, a};
    groups.asker = (ProtobufCBinaryData){sizeof b, b};
    assert_int_equal(call(&f->a, FG_RPC_GROUPS, &groups.base, &answer), FG_OK);
    reply = fg__inner__groups_reply__unpack(NULL, answer.reply_head.len, answer.reply_head.ptr);
    fg_call_done(f->a.peer, &answer);
    assert_int_equal(reply->n_groups, 1);
    group->shard = reply->groups[0]->sum->shard;
    group->window = reply->groups[0]->sum->window;
    fg__inner__groups_reply__free_unpacked(reply, NULL);
}

/* A request with the position of the last answer is answered from behind it. */
static void answers_continue_at_the_last_position(void **state)
{
    Fg__Inner__Group group = FG__INNER__GROUP__INIT;
    Fg__Inner__FetchHead fetch;
    Fg__Inner__FetchReply *reply, *rest;
    struct fixture *f = *state;
    uint8_t a[FG_ID_BYTES];
    struct fg_call ids, answer;
    size_t one_bytes;
    const struct head_profile profile = profile_of(0), later = profile_of(30); /* of one series */

    fg__inner__fetch_head__init(&fetch);
    fg_id_put(a, f->a.store_id);
    assert_int_equal(head_push(&f->a, &profile, true).stored, 1);
    assert_int_equal(head_push(&f->a, &later, true).stored, 1);
    fetch.store = (ProtobufCBinaryData){sizeof a, a};
    fetch.tenant = (char[]){"tenant"};
    fetch.group = &group;
    fetch.before_ns = INT64_MAX;
    find_group(f, &group);
    assert_int_equal(call(&f->a, FG_RPC_FETCH, &fetch.base, &ids), FG_OK);
    assert_int_equal(ids.reply_payload.len, 2 * FG_ID_BYTES);

    fetch.ids = (ProtobufCBinaryData){FG_ID_BYTES, (uint8_t *)(uintptr_t)ids.reply_payload.ptr};
    fetch.ids.data += FG_ID_BYTES; /* the second one */
    assert_int_equal(call(&f->a, FG_RPC_FETCH, &fetch.base, &answer), FG_OK);
    reply = fg__inner__fetch_reply__unpack(NULL, answer.reply_head.len, answer.reply_head.ptr);
    one_bytes = answer.reply_payload.len;
    fg_call_done(f->a.peer, &answer);
    assert_int_equal(reply->n_items, 1);
    assert_int_equal(reply->left.len, 0);

    fetch.place = reply->next;
    fetch.ids = (ProtobufCBinaryData){2 * FG_ID_BYTES, fetch.ids.data - FG_ID_BYTES};
    assert_int_equal(call(&f->a, FG_RPC_FETCH, &fetch.base, &answer), FG_OK);
    rest = fg__inner__fetch_reply__unpack(NULL, answer.reply_head.len, answer.reply_head.ptr);
    assert_int_equal(answer.reply_payload.len, one_bytes); /* the first one is before it */
    fg_call_done(f->a.peer, &answer);
    assert_int_equal(rest->n_items, 1);
    fg__inner__fetch_reply__free_unpacked(rest, NULL);

    fetch.place.len--;
    assert_int_equal(call(&f->a, FG_RPC_FETCH, &fetch.base, &answer), FG_E_INVALID);
    fg_call_done(f->a.peer, &answer);
    fetch.place.len++;
    group.window++;
    assert_int_equal(call(&f->a, FG_RPC_FETCH, &fetch.base, &answer), FG_E_INVALID);
    fg_call_done(f->a.peer, &answer);
    fg_call_done(f->a.peer, &ids);
    fg__inner__fetch_reply__free_unpacked(reply, NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(member_fetches_what_it_missed_while_down),
        TEST(large_profiles_are_fetched_in_several_answers),
        TEST(tenant_at_its_limit_does_not_keep_others_from_repair),
        TEST(groups_are_answered_to_owners_by_the_named_store_only),
        TEST(answers_continue_at_the_last_position),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
