/*
 * Whole ingesters with seats in a ring: what they take, that they have committed what they say is
 * drained, that they leave with nothing left, and that two which hold the same commit it once.
 */
#include "common/cluster/ring/object.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/committed.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { MEMBERS = 2, PROFILES = 12 };

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;
static const char cpu[] = "cpu:nanoseconds";
static const char *const names[MEMBERS] = {"a", "b"};

struct fixture {
    struct fg_bucket *bucket;
    struct fg_store *stores[MEMBERS];
    struct head heads[MEMBERS];
    struct fg_buf lines;
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

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->bucket = fg_bucket_memory();
    for (size_t i = 0; i < MEMBERS; i++)
        f->stores[i] = fg_store_memory(HEAD_FAMILIES);
    fg_buf_init(&f->lines, SIZE_MAX);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < MEMBERS; i++)
        fg_store_close(f->stores[i]);
    fg_bucket_close(f->bucket);
    fg_buf_done(&f->lines);
    free(f);
    return 0;
}

static void open_member(struct fixture *f, size_t i)
{
    head_open_seated(&f->heads[i], f->stores[i], f->bucket, names[i], MEMBERS);
}

static void join(struct fixture *f, size_t i)
{
    struct fg_err err;

    must(fg_ring_watch_start(f->heads[i].watch, &err), &err);
    must(fg_ring_watch_wait_member(f->heads[i].watch, FG_RING_MEMBER_ACTIVE, soon(), &err), &err);
}

/* Until the ring has so many revisions that are not drained, the newest among them. */
static void wait_for_revisions(struct fixture *f, size_t i, uint32_t n)
{
    for (int tries = 0;; tries++) {
        struct fg_ring_view *view;
        uint32_t there;
        struct fg_err err;

        must(fg_ring_watch_fresh(f->heads[i].watch, soon(), &view, &err), &err);
        there = view->ring.n_revisions;
        fg_ring_view_unref(view);
        if (there == n)
            return;
        assert_true(tries < 6000);
        (void)usleep(10000);
    }
}

static struct head_profile profile_of(unsigned n)
{
    static struct head_sample samples[PROFILES];

    samples[n] = (struct head_sample){n % 2 == 0 ? "a;b" : "a;c", {1, 10 + n}, 0};
    return (struct head_profile){
        .tenant = "tenant",
        .service = n % 3 == 0 ? "shop" : "archive",
        .time_ns = start_ns + (int64_t)(n % 3) * 11 * FG_MINUTE_NS + n,
        .samples = &samples[n],
        .n_samples = 1,
    };
}

static void push(struct fixture *f, size_t i, unsigned from, unsigned to)
{
    for (unsigned n = from; n < to; n++) {
        const struct head_profile profile = profile_of(n);
        struct head_pushed pushed = head_push(&f->heads[i], &profile, true);

        assert_int_equal(pushed.code, FG_OK);
        assert_int_equal(pushed.stored, 1);
        assert_int_equal(pushed.revision, fg_ring_watch_revision(f->heads[i].watch));
    }
}

static struct head_pushed push_under(struct fixture *f, uint64_t revision, struct fg_slice store)
{
    const struct head_profile profile = profile_of(0);
    struct head_pushed pushed;
    struct head_call call;
    struct fg_buf batch;

    fg_buf_init(&batch, SIZE_MAX);
    (void)head_encode(&profile, true, 1, &batch);
    head_call_push_under(&call, &profile, fg_buf_slice(&batch), revision, store);
    (void)fg_peer_call(f->heads[0].peer, &call.call);
    pushed = head_call_done(f->heads[0].peer, &call);
    fg_buf_done(&batch);
    return pushed;
}

static void pushes_are_admitted_by_ring_revision(void **state)
{
    uint8_t own[FG_ID_BYTES], other[FG_ID_BYTES] = {1};
    struct fg_slice store = fg_bytes(own, sizeof own);
    struct fixture *f = *state;

    open_member(f, 0);
    fg_id_put(own, f->heads[0].store_id);
    assert_int_equal(push_under(f, 1, store).code, FG_E_UNAVAILABLE); /* no seat yet */
    join(f, 0);
    assert_int_equal(fg_ring_watch_revision(f->heads[0].watch), 1);
    assert_int_equal(push_under(f, 0, store).code, FG_E_PRECONDITION);
    assert_int_equal(push_under(f, 0, store).revision, 1);
    assert_int_equal(push_under(f, 2, store).code, FG_E_ABORTED);
    assert_int_equal(push_under(f, 1, fg_bytes(other, sizeof other)).code, FG_E_PRECONDITION);
    assert_int_equal(push_under(f, 1, fg_bytes(own, 3)).code, FG_E_PRECONDITION);
    assert_int_equal(push_under(f, 1, FG_LIT("")).code, FG_E_PRECONDITION);
    assert_int_equal(head_stats(&f->heads[0], "tenant").profiles, 0);
    assert_int_equal(push_under(f, 1, store).stored, 1);
    assert_int_equal(push_under(f, 0, store).code, FG_E_PRECONDITION); /* though it is there */
    head_close(&f->heads[0]);
}

static void single_ingester_accepts_calls_that_name_its_store(void **state)
{
    uint8_t own[FG_ID_BYTES], other[FG_ID_BYTES] = {1};
    struct fixture *f = *state;

    head_open_on(&f->heads[0], f->stores[0], f->bucket);
    fg_id_put(own, f->heads[0].store_id);
    assert_int_equal(push_under(f, 7, fg_bytes(other, sizeof other)).code, FG_E_PRECONDITION);
    assert_int_equal(push_under(f, 7, fg_bytes(own, sizeof own)).stored, 1);
    assert_int_equal(push_under(f, 0, FG_LIT("")).duplicates, 1);
    head_close(&f->heads[0]);
}

/* When the older revision is gone, all that came under it is committed. */
static void drained_is_reported_after_the_commit(void **state)
{
    struct fixture *f = *state;
    struct committed committed;

    open_member(f, 0);
    join(f, 0);
    push(f, 0, 0, PROFILES);
    open_member(f, 1);
    join(f, 1);
    wait_for_revisions(f, 0, 1);
    committed = committed_read(f->bucket, "tenant", cpu, &f->lines);
    assert_int_equal(committed.n_profiles, PROFILES);
    assert_int_equal(fg_ring_watch_revision(f->heads[0].watch), 2);
    assert_int_equal(push_under(f, 1, FG_LIT("")).code, FG_E_PRECONDITION);
    head_close(&f->heads[0]);
    head_close(&f->heads[1]);
}

/* What has lost the name of its tenant is on this disk only: readers have to go on asking. */
static void member_with_nameless_chunks_does_not_drain(void **state)
{
    struct fixture *f = *state;
    struct fg_store_batch batch;
    struct fg_err err;

    open_member(f, 0);
    join(f, 0);
    push(f, 0, 0, PROFILES);
    head_close(&f->heads[0]);
    fg_store_batch_init(&batch);
    fg_store_delete(&batch, HEAD_META, FG_LIT("ttenant"));
    must(fg_store_write(f->stores[0], &batch, &err), &err);
    fg_store_batch_done(&batch);
    open_member(f, 0);
    join(f, 0);
    open_member(f, 1);
    join(f, 1);
    for (int i = 0; i < 20; i++) { /* the reads tell it of the revision, which it has to drain */
        wait_for_revisions(f, 0, 2);
        (void)usleep(50000);
    }
    head_close(&f->heads[0]);
    head_close(&f->heads[1]);
}

static void leaving_member_commits_everything(void **state)
{
    struct fixture *f = *state;
    struct committed committed;
    struct fg_err err;

    for (size_t i = 0; i < MEMBERS; i++) {
        open_member(f, i);
        join(f, i);
    }
    wait_for_revisions(f, 0, 1);
    push(f, 0, 0, PROFILES);
    fg_ring_watch_leave(f->heads[0].watch);
    must(fg_ring_watch_wait_member(f->heads[0].watch, FG_RING_MEMBER_LEFT, soon(), &err), &err);
    committed = committed_read(f->bucket, "tenant", cpu, &f->lines);
    assert_int_equal(committed.n_profiles, PROFILES);
    head_close(&f->heads[0]);
    wait_for_revisions(f, 1, 1);
    head_close(&f->heads[1]);
}

/* A restart keeps the seat, and makes no revision; an empty disk makes one. */
static void restart_keeps_the_membership(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 2; i++) {
        open_member(f, 0);
        join(f, 0);
        assert_int_equal(fg_ring_watch_revision(f->heads[0].watch), 1);
        push(f, 0, i == 0 ? 0 : PROFILES / 2, i == 0 ? PROFILES / 2 : PROFILES);
        assert_int_equal(head_stats(&f->heads[0], "tenant").profiles,
                         i == 0 ? PROFILES / 2 : PROFILES);
        head_close(&f->heads[0]);
    }
    fg_store_close(f->stores[0]);
    f->stores[0] = fg_store_memory(HEAD_FAMILIES);
    open_member(f, 0);
    join(f, 0);
    assert_int_equal(fg_ring_watch_revision(f->heads[0].watch), 2);
    head_close(&f->heads[0]);
}

static bool has_profiles(struct fg_store *store)
{
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(store, HEAD_PROFILES, FG_LIT(""), FG_LIT(""));

    return iter->valid;
}

/* One commits; the other finds it so, shows it no more, and evicts its own. */
static void profile_of_two_members_is_committed_once(void **state)
{
    struct head_query query = {
        .tenant = "tenant", .type = cpu, .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct fixture *f = *state;
    struct committed committed;
    struct fg_err err;

    for (size_t i = 0; i < MEMBERS; i++) {
        open_member(f, i);
        join(f, i);
    }
    wait_for_revisions(f, 0, 1);
    push(f, 0, 0, PROFILES - 1);
    push(f, 1, 1, PROFILES);
    must(ing_flush(f->heads[0].ingester, soon(), &err), &err);
    committed = committed_read(f->bucket, "tenant", cpu, &f->lines);
    assert_int_equal(committed.n_profiles, PROFILES - 1);
    query.generation = committed.generation;
    assert_int_equal(head_select(&f->heads[1], &query, &f->lines), FG_OK);
    assert_true(
        fg_slice_is(fg_buf_slice(&f->lines), "a;c 21\n")); /* the last one, which it alone has */
    must(ing_flush(f->heads[1].ingester, soon(), &err), &err);
    committed = committed_read(f->bucket, "tenant", cpu, &f->lines);
    assert_int_equal(committed.n_segments, 2);
    assert_int_equal(committed.n_profiles, PROFILES);
    for (size_t i = 0; i < MEMBERS; i++) {
        for (int tries = 0; has_profiles(f->stores[i]); tries++) {
            assert_true(tries < 6000);
            (void)usleep(10000);
        }
        head_close(&f->heads[i]);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(pushes_are_admitted_by_ring_revision),
        TEST(single_ingester_accepts_calls_that_name_its_store),
        TEST(drained_is_reported_after_the_commit),
        TEST(member_with_nameless_chunks_does_not_drain),
        TEST(leaving_member_commits_everything),
        TEST(restart_keeps_the_membership),
        TEST(profile_of_two_members_is_committed_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
