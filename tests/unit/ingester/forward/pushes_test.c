/* Forwarding through a whole ingester: a push that was answered OK is in the queue exactly once,
 * and its chunk stays until the sender has reported it. */
#include "ingester/head_mode.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/committed.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PUSHES = 8, ARENA_MAX_BYTES = 8 << 20 };

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;

static bool wants_tenant(void *arg, struct fg_slice tenant)
{
    (void)arg;
    return fg_slice_is(tenant, "tenant");
}

static struct ing_outbox_target targets[] = {
    {.name = "central", .wants = wants_tenant, .queue_max_bytes = UINT64_C(1) << 40},
};
static const struct ing_forward forward = {targets, FG_COUNT(targets)};

static struct head_profile profile_of(unsigned n, const char *tenant)
{
    static const struct head_sample samples[] = {{"a;b", {1, 10}, 0}, {"a;c", {2, 20}, 0}};

    return (struct head_profile){
        .tenant = tenant,
        .service = n % 2 == 0 ? "shop" : "archive",
        .time_ns = start_ns + (int64_t)n * FG_SECOND_NS,
        .samples = samples,
        .n_samples = FG_COUNT(samples),
    };
}

static struct head_pushed push(struct head *head, unsigned n, const char *tenant)
{
    struct head_profile profile = profile_of(n, tenant);

    return head_push(head, &profile, true);
}

static uint64_t pending(struct head *head)
{
    return ing_outbox_numbers(ing_outbox(head->ingester), 0).pending_profiles;
}

/* Takes everything and reports it as done; seen[n] counts how often the n-th push came. */
static void drain(struct head *head, unsigned seen[PUSHES])
{
    struct ing_outbox *outbox = ing_outbox(head->ingester);
    struct ing_outbox_span span;
    struct fg_err err;

    while (ing_outbox_take(outbox, 0, OUTBOX_FRESH, &span)) {
        fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
        struct ing_outbox_item *items;
        size_t n;

        assert_int_equal(ing_outbox_read(outbox, &span, arena, &items, &n, &err), FG_OK);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(items[i].outcome, OUTBOX_AGAIN);
            assert_true(items[i].record.len > 0);
            seen[(items[i].entry.key.time_ns - start_ns) / FG_SECOND_NS]++;
            items[i].outcome = OUTBOX_DONE;
        }
        ing_outbox_report(outbox, &span, items, n);
    }
}

static void pushes_of_wanted_tenants_are_forwarded_once(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct fg_bucket *bucket = fg_bucket_memory();
    unsigned seen[PUSHES] = {0};
    struct head head;

    (void)state;
    head_open_forwarding(&head, store, bucket, FG_MINUTE_NS, &forward);
    for (unsigned round = 0; round < 2; round++)
        for (unsigned n = 0; n < PUSHES; n++) {
            assert_int_equal(push(&head, n, "tenant").duplicates, round);
            assert_int_equal(push(&head, n, "other").duplicates, round);
        }
    assert_int_equal(pending(&head), PUSHES);
    head_close(&head);
    head_open_forwarding(&head, store, bucket, FG_MINUTE_NS, &forward);
    drain(&head, seen);
    head_close(&head);
    head_open_forwarding(&head, store, bucket, FG_MINUTE_NS, &forward);
    drain(&head, seen);
    for (unsigned n = 0; n < PUSHES; n++)
        assert_int_equal(seen[n], 1);
    head_close(&head);
    /* Without targets what is left goes, and the next start has none. */
    head_open_forwarding(&head, store, bucket, FG_MINUTE_NS, NULL);
    assert_null(ing_outbox(head.ingester));
    head_close(&head);
    fg_bucket_close(bucket);
    fg_store_close(store);
}

/* late: the write was done all the same. A push that failed is not forwarded unless it is repeated,
 * and then once. */
static void a_write_fails(bool late)
{
    for (uint64_t k = 1, failed = 1; failed > 0; k++) {
        struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
        struct fg_bucket *bucket = fg_bucket_memory();
        bool stored[PUSHES] = {false};
        unsigned seen[PUSHES] = {0};
        struct fg_store_faulty faulty;
        struct head head;

        print_message("  write %llu\n", (unsigned long long)k);
        failed = 0;
        fg_store_faulty_init(&faulty, inner);
        faulty.fail_late = late;
        head_open_forwarding(&head, &faulty.store, bucket, FG_MINUTE_NS, &forward);
        faulty.writes = 0;
        faulty.fail_at = k;
        for (unsigned n = 0; n < PUSHES; n++) {
            stored[n] = push(&head, n, "tenant").code == FG_OK;
            failed += !stored[n];
        }
        assert_true(failed <= 1);
        assert_int_equal(pending(&head), PUSHES - failed);
        head_close(&head);
        head_open_forwarding(&head, inner, bucket, FG_MINUTE_NS, &forward);
        assert_int_equal(pending(&head), PUSHES - failed);
        for (unsigned n = 0; n < PUSHES; n++)
            assert_int_equal(push(&head, n, "tenant").duplicates, stored[n]);
        drain(&head, seen);
        for (unsigned n = 0; n < PUSHES; n++)
            assert_int_equal(seen[n], 1);
        head_close(&head);
        fg_bucket_close(bucket);
        fg_store_close(inner);
    }
}

static void push_whose_write_fails_is_not_forwarded(void **state)
{
    (void)state;
    a_write_fails(false);
}

static void push_whose_write_is_done_but_reported_failed_is_not_forwarded(void **state)
{
    (void)state;
    a_write_fails(true);
}

static void full_queue_refuses_pushes_of_its_tenants_only(void **state)
{
    struct ing_outbox_target small = targets[0];
    const struct ing_forward to_small = {&small, 1};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct fg_bucket *bucket = fg_bucket_memory();
    unsigned seen[PUSHES] = {0};
    struct head_pushed pushed;
    struct head head;

    (void)state;
    small.queue_max_bytes = 1;
    small.when_full = OUTBOX_REFUSE;
    head_open_forwarding(&head, store, bucket, FG_MINUTE_NS, &to_small);
    assert_int_equal(push(&head, 0, "tenant").code, FG_OK);
    pushed = push(&head, 1, "tenant");
    assert_int_equal(pushed.code, FG_E_LIMIT);
    assert_int_equal(pushed.limit_of, FG_LIMIT_OF_TENANT);
    assert_int_equal(push(&head, 1, "other").code, FG_OK);
    drain(&head, seen);
    while (push(&head, 1, "tenant").code != FG_OK) /* once the report is written */
        continue;
    assert_int_equal(pending(&head), 1);
    head_close(&head);
    fg_bucket_close(bucket);
    fg_store_close(store);
}

/* ---- eviction ---- */

/* Returns how many chunks were evicted. */
static uint64_t count_evicted(struct head *head)
{
    static const char name[] = "flamegrid_ingester_head_chunks_evicted_total ";
    struct fg_slice text;
    struct fg_buf out;
    uint64_t count = 0;
    size_t at;

    fg_buf_init(&out, SIZE_MAX);
    fg_registry_write(head->registry, &out);
    text = fg_buf_slice(&out);
    while ((at = fg_slice_search(text, name)) != SIZE_MAX) {
        text = fg_slice_sub(text, at + strlen(name), SIZE_MAX);
        for (count = 0; text.len > 0 && text.ptr[0] >= '0' && text.ptr[0] <= '9';
             text = fg_slice_sub(text, 1, SIZE_MAX))
            count = count * 10 + (text.ptr[0] - '0');
    }
    fg_buf_done(&out);
    return count;
}

static void wait_for_evicted(struct head *head, uint64_t count)
{
    const struct timespec pause = {.tv_nsec = 20 * FG_MS_NS};

    while (count_evicted(head) < count)
        (void)nanosleep(&pause, NULL);
}

static void flush(struct head *head)
{
    struct fg_err err;

    assert_int_equal(
        ing_flush(head->ingester, fg_mono_ns(fg_clock_real()) + 60 * FG_SECOND_NS, &err), FG_OK);
}

static uint64_t count_profiles(struct fg_store *store)
{
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(store, HEAD_PROFILES, FG_LIT(""), FG_LIT(""));
    uint64_t n = 0;

    for (; iter->valid; fg_store_iter_next(iter))
        n++;
    return n;
}

static void committed_profiles_stay_until_they_are_reported(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct fg_bucket *bucket = fg_bucket_memory();
    unsigned seen[PUSHES] = {0};
    struct head head;

    (void)state;
    head_open_forwarding(&head, store, bucket, 0, &forward);
    for (unsigned n = 0; n < PUSHES; n++)
        assert_int_equal(push(&head, n, "tenant").code, FG_OK);
    /* The chunks of the other tenant, of two services, go. */
    assert_int_equal(push(&head, 0, "other").code, FG_OK);
    assert_int_equal(push(&head, 1, "other").code, FG_OK);
    flush(&head);
    wait_for_evicted(&head, 2);
    assert_int_equal(count_profiles(store), PUSHES);
    head_close(&head);
    /* A restart knows what it must keep. */
    head_open_forwarding(&head, store, bucket, 0, &forward);
    assert_int_equal(push(&head, 2, "other").code, FG_OK);
    flush(&head);
    wait_for_evicted(&head, 1);
    assert_int_equal(count_profiles(store), PUSHES);
    drain(&head, seen);
    wait_for_evicted(&head, 3);
    assert_int_equal(count_profiles(store), 0);
    for (unsigned n = 0; n < PUSHES; n++)
        assert_int_equal(seen[n], 1);
    head_close(&head);
    fg_bucket_close(bucket);
    fg_store_close(store);
}

/* The head is read after the end of a target as before it. */
static void profiles_of_a_removed_target_leave_the_head(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct fg_bucket *bucket = fg_bucket_memory();
    struct head head;

    (void)state;
    head_open_forwarding(&head, store, bucket, 0, &forward);
    for (unsigned n = 0; n < PUSHES; n++)
        assert_int_equal(push(&head, n, "tenant").code, FG_OK);
    flush(&head);
    head_close(&head);
    assert_int_equal(count_profiles(store), PUSHES);
    head_open_forwarding(&head, store, bucket, 0, NULL);
    wait_for_evicted(&head, 2);
    assert_int_equal(count_profiles(store), 0);
    head_close(&head);
    fg_bucket_close(bucket);
    fg_store_close(store);
}

/* ---- an agent: a head without a bucket ---- */

static void profiles_leave_an_agents_head_once_they_are_sent(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    unsigned seen[PUSHES] = {0};
    struct head head;

    (void)state;
    head_open_forwarding(&head, store, NULL, 0, &forward);
    for (unsigned n = 0; n < PUSHES; n++)
        assert_int_equal(push(&head, n, "tenant").code, FG_OK);
    /* Nobody wants these: they go first. */
    assert_int_equal(push(&head, 0, "other").code, FG_OK);
    assert_int_equal(push(&head, 1, "other").code, FG_OK);
    flush(&head);
    wait_for_evicted(&head, 2);
    assert_int_equal(count_profiles(store), PUSHES);
    /* Old ones are new again: there is no bucket that could have them. */
    assert_int_equal(push(&head, 0, "tenant").duplicates, 1);
    head_close(&head);
    head_open_forwarding(&head, store, NULL, 0, &forward);
    assert_int_equal(pending(&head), PUSHES);
    drain(&head, seen);
    wait_for_evicted(&head, 2);
    assert_int_equal(count_profiles(store), 0);
    for (unsigned n = 0; n < PUSHES; n++)
        assert_int_equal(seen[n], 1);
    head_close(&head);
    fg_store_close(store);
}

/* Returns how ing_create() would judge a start as an agent or a server. */
static enum fg_code set_mode(struct fg_store *store, bool agent, struct fg_err *err)
{
    const struct ing_catalog_bounds bounds = {1 << 20, 0};
    struct ing_damage damage = {0};
    struct ing_head_chunks *chunks;
    struct ing_catalog *catalog;
    enum fg_code code;

    assert_int_equal(ing_catalog_open(store, &bounds, &damage, &catalog, err), FG_OK);
    assert_int_equal(ing_head_chunks_open(store, catalog, 1 << 20, &damage, &chunks, err), FG_OK);
    code = ing_head_mode_set(store, chunks, agent, err);
    ing_head_chunks_close(chunks);
    ing_catalog_close(catalog);
    return code;
}

static void head_of_a_server_becomes_an_agents_only_when_all_is_committed(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct fg_bucket *bucket = fg_bucket_memory();
    struct fg_err err;
    struct head head;

    (void)state;
    head_open_on(&head, store, bucket);
    assert_int_equal(push(&head, 0, "tenant").code, FG_OK);
    head_close(&head);
    assert_int_equal(set_mode(store, true, &err), FG_E_PRECONDITION);
    assert_non_null(strstr(err.msg, "1 profiles that are in no block yet"));
    assert_non_null(strstr(err.msg, "/ingester/flush"));
    assert_int_equal(set_mode(store, false, &err), FG_OK);
    head_open_on(&head, store, bucket);
    flush(&head);
    head_close(&head);
    assert_int_equal(set_mode(store, true, &err), FG_OK);
    /* From then on it is an agent's, whatever it has. */
    head_open_forwarding(&head, store, NULL, 0, &forward);
    assert_int_equal(push(&head, 1, "tenant").code, FG_OK);
    head_close(&head);
    assert_int_equal(set_mode(store, true, &err), FG_OK);
    fg_bucket_close(bucket);
    fg_store_close(store);
}

/* PUSHES / 2 were committed by a server, and were not sent: they are not committed again. */
static void what_an_agent_still_has_goes_into_segments_of_a_server(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct fg_bucket *bucket = fg_bucket_memory();
    struct committed committed;
    unsigned seen[PUSHES] = {0};
    struct fg_buf lines;
    struct head head;

    (void)state;
    head_open_forwarding(&head, store, bucket, 0, &forward);
    for (unsigned n = 0; n < PUSHES / 2; n++)
        assert_int_equal(push(&head, n, "tenant").code, FG_OK);
    flush(&head);
    head_close(&head);
    head_open_forwarding(&head, store, NULL, 0, &forward);
    for (unsigned n = PUSHES / 2; n < PUSHES - 1; n++)
        assert_int_equal(push(&head, n, "tenant").code, FG_OK);
    flush(&head); /* these are committed for the agent, */
    assert_int_equal(push(&head, PUSHES - 1, "tenant").code, FG_OK);
    head_close(&head); /* ... and this one is still open */
    assert_int_equal(count_profiles(store), PUSHES);
    head_open_forwarding(&head, store, bucket, 0, &forward);
    assert_int_equal(pending(&head), PUSHES);
    flush(&head);
    fg_buf_init(&lines, SIZE_MAX);
    committed = committed_read(bucket, "tenant", "samples:count", &lines);
    assert_int_equal(committed.n_profiles, PUSHES);
    fg_buf_done(&lines);
    drain(&head, seen);
    for (unsigned n = 0; n < PUSHES; n++)
        assert_int_equal(seen[n], 1);
    head_close(&head);
    fg_bucket_close(bucket);
    fg_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_of_wanted_tenants_are_forwarded_once),
        cmocka_unit_test(push_whose_write_fails_is_not_forwarded),
        cmocka_unit_test(push_whose_write_is_done_but_reported_failed_is_not_forwarded),
        cmocka_unit_test(full_queue_refuses_pushes_of_its_tenants_only),
        cmocka_unit_test(committed_profiles_stay_until_they_are_reported),
        cmocka_unit_test(profiles_of_a_removed_target_leave_the_head),
        cmocka_unit_test(profiles_leave_an_agents_head_once_they_are_sent),
        cmocka_unit_test(head_of_a_server_becomes_an_agents_only_when_all_is_committed),
        cmocka_unit_test(what_an_agent_still_has_goes_into_segments_of_a_server),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
