/*
 * From pushes to segments in a bucket and out of the head, through a whole ingester: each profile
 * is in exactly one of the two for every reader, whatever fails on the way.
 */
#include "common/cluster/manifest/name.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/committed.h"
#include "tests/lib/head_run.h"
#include "tests/lib/made_keys.h"
#include "tests/lib/store_doubles.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROFILES = 24, ANY = UINT32_MAX };

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;
static const int64_t forever_ns = 1000 * FG_HOUR_NS;
static const char cpu[] = "cpu:nanoseconds";

struct fixture {
    struct fg_store *store;
    struct fg_bucket *bucket;
    struct head head;
    struct fg_buf all, head_lines, block_lines;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->store = fg_store_memory(HEAD_FAMILIES);
    f->bucket = fg_bucket_memory();
    fg_buf_init(&f->all, SIZE_MAX);
    fg_buf_init(&f->head_lines, SIZE_MAX);
    fg_buf_init(&f->block_lines, SIZE_MAX);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_buf_done(&f->all);
    fg_buf_done(&f->head_lines);
    fg_buf_done(&f->block_lines);
    fg_bucket_close(f->bucket);
    fg_store_close(f->store);
    free(f);
    return 0;
}

/* Services, zones, windows and spans change; stacks come again and new. */
static struct head_profile profile_of(unsigned n)
{
    static const char *const stacks[] = {"a;b", "a;c", "a", "d;e;f", "", "a;b;g"};
    static struct head_sample samples[PROFILES][3];

    samples[n][0] = (struct head_sample){stacks[n % 6], {1, 10 + n}, 0};
    samples[n][1] = (struct head_sample){stacks[(n * n + 1) % 6], {n % 3 != 0, n % 5}, 0};
    samples[n][2] = (struct head_sample){stacks[(n + 3) % 6], {2, 7}, n % 4};
    return (struct head_profile){
        .tenant = "tenant",
        .service = n % 3 == 0 ? "shop" : "archive",
        .zone = n % 2 == 0 ? "n" : "s",
        .time_ns = start_ns + (int64_t)(n % 5) * 7 * FG_MINUTE_NS + n,
        .duration_ns = 10 * FG_SECOND_NS,
        .samples = samples[n],
        .n_samples = 3,
    };
}

static const struct head_query everything = {
    .tenant = "tenant", .type = cpu, .start_ns = INT64_MIN, .end_ns = INT64_MAX};

static void push(struct fixture *f, unsigned from, unsigned to, uint32_t duplicates)
{
    uint32_t found = 0;

    for (unsigned n = from; n < to; n++) {
        const struct head_profile profile = profile_of(n);
        struct head_pushed pushed = head_push(&f->head, &profile, true);

        assert_int_equal(pushed.code, FG_OK);
        assert_int_equal(pushed.stored + pushed.duplicates, 1);
        found += pushed.duplicates;
    }
    if (duplicates != ANY)
        assert_int_equal(found, duplicates);
}

static void flush(struct fixture *f)
{
    struct fg_err err;

    if (ing_flush(f->head.ingester, fg_mono_ns(fg_clock_real()) + 60 * FG_SECOND_NS, &err) != FG_OK)
        fail_msg("%s", err.msg);
}

static void select_head(struct fixture *f, uint64_t generation, struct fg_buf *out)
{
    struct head_query query = everything;

    query.generation = generation;
    assert_int_equal(head_select(&f->head, &query, out), FG_OK);
}

static void assert_same(const struct fg_buf *a, const struct fg_buf *b)
{
    if (!fg_slice_eq(fg_buf_slice(a), fg_buf_slice(b)))
        fail_msg("%.*s---\n%.*s", FG_S(fg_buf_slice(a)), FG_S(fg_buf_slice(b)));
}

/* The expected answer, from a head that never commits. */
static void expect_all(struct fixture *f, unsigned n)
{
    struct fixture other = {.store = fg_store_memory(HEAD_FAMILIES)};

    head_open(&other.head, other.store);
    push(&other, 0, n, 0);
    select_head(&other, 0, &f->all);
    head_close(&other.head);
    fg_store_close(other.store);
}

static void pushed_profiles_are_in_segments(void **state)
{
    struct fixture *f = *state;
    struct committed committed;

    expect_all(f, PROFILES);
    head_open_evicting(&f->head, f->store, f->bucket, forever_ns);
    push(f, 0, PROFILES, 0);
    flush(f);
    committed = committed_read(f->bucket, "tenant", cpu, &f->block_lines);
    assert_int_equal(committed.n_segments, 1);
    assert_int_equal(committed.n_profiles, PROFILES);
    assert_int_equal(committed.n_nodes, 0);
    assert_same(&f->block_lines, &f->all);
    /* A reader that does not know of the segment finds all in the head, one that does nothing. */
    select_head(f, committed.generation - 1, &f->head_lines);
    assert_same(&f->head_lines, &f->all);
    select_head(f, committed.generation, &f->head_lines);
    assert_int_equal(f->head_lines.len, 0);
    assert_int_equal(head_stats(&f->head, "tenant").profiles, PROFILES);
    head_close(&f->head);
}

/* Profiles of two series of a service, each with the same few stacks. */
static void push_large(struct fixture *f, unsigned count)
{
    enum { STACKS = 80 };
    static char stacks[STACKS][32];
    static struct head_sample samples[STACKS];

    for (unsigned i = 0; i < STACKS; i++) {
        (void)snprintf(stacks[i], sizeof stacks[i], "main;f%u;g%u", i / 7, i);
        samples[i] = (struct head_sample){stacks[i], {1, 10 + i}, 0};
    }
    samples[0].stack = ""; /* has no name */
    for (unsigned n = 0; n < count; n++) {
        const struct head_profile profile = {.tenant = "tenant",
                                             .service = "large",
                                             .zone = n % 2 == 0 ? "n" : "s",
                                             .time_ns = start_ns + (int64_t)n * 100000000,
                                             .duration_ns = 10 * FG_SECOND_NS,
                                             .samples = samples,
                                             .n_samples = STACKS};

        for (unsigned i = 0; i < STACKS; i++) /* of equal profiles little is stored */
            samples[i].values[1] = n * i * 7919 % 1009;
        assert_int_equal(head_push(&f->head, &profile, n == 0).stored, 1);
    }
}

/* committed_read() checks the sum. */
static void large_service_gets_a_rollup(void **state)
{
    enum { LARGE = 1400 };
    struct fixture *f = *state;
    struct committed committed;

    head_open_evicting(&f->head, f->store, f->bucket, forever_ns);
    push(f, 0, PROFILES, 0);
    push_large(f, LARGE);
    flush(f);
    committed = committed_read(f->bucket, "tenant", cpu, &f->block_lines);
    assert_int_equal(committed.n_profiles, PROFILES + LARGE);
    assert_int_equal(committed.n_nodes, HEAD_TYPES);
    head_close(&f->head);
}

static void later_profiles_go_into_the_next_segment(void **state)
{
    struct fixture *f = *state;
    struct committed committed;

    expect_all(f, PROFILES);
    head_open_evicting(&f->head, f->store, f->bucket, forever_ns);
    push(f, 0, PROFILES / 2, 0);
    flush(f);
    push(f, PROFILES / 2, PROFILES, 0);
    committed = committed_read(f->bucket, "tenant", cpu, &f->block_lines);
    assert_int_equal(committed.n_profiles, PROFILES / 2);
    select_head(f, committed.generation, &f->head_lines);
    assert_true(f->head_lines.len > 0);
    flush(f);
    committed = committed_read(f->bucket, "tenant", cpu, &f->block_lines);
    assert_int_equal(committed.n_segments, 2);
    assert_int_equal(committed.n_profiles, PROFILES);
    assert_same(&f->block_lines, &f->all);
    /* All pushes again: nothing is new, nothing is committed twice. */
    push(f, 0, PROFILES, PROFILES);
    flush(f);
    committed = committed_read(f->bucket, "tenant", cpu, &f->block_lines);
    assert_int_equal(committed.n_profiles, PROFILES);
    head_close(&f->head);
}

static bool has_profiles(struct fg_store *store)
{
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(store, HEAD_PROFILES, FG_LIT(""), FG_LIT(""));

    return iter->valid;
}

/* Waits until the head has evicted everything. */
static void wait_for_nothing(struct fixture *f)
{
    for (int i = 0; has_profiles(f->store); i++) {
        assert_true(i < 6000);
        (void)usleep(10000);
    }
}

static void evicted_profiles_are_found_in_segments(void **state)
{
    struct fixture *f = *state;
    struct head_query old = everything;
    struct committed committed;

    expect_all(f, PROFILES);
    head_open_evicting(&f->head, f->store, f->bucket, 0);
    push(f, 0, PROFILES, 0);
    flush(f);
    wait_for_nothing(f);
    committed = committed_read(f->bucket, "tenant", cpu, &f->block_lines);
    assert_same(&f->block_lines, &f->all);
    select_head(f, committed.generation, &f->head_lines);
    assert_int_equal(f->head_lines.len, 0);
    old.generation = committed.generation - 1;
    assert_int_equal(head_select(&f->head, &old, &f->head_lines), FG_E_PRECONDITION);
    /* An agent that repeats everything. */
    push(f, 0, PROFILES, PROFILES);
    assert_false(has_profiles(f->store));
    head_close(&f->head);
}

enum { AHEAD = 6 }; /* more than the head has workers for queries */

struct ahead {
    struct head *head;
    uint64_t generation;
    pthread_t thread;
    enum fg_code code;
};

static void *ask_ahead(void *arg)
{
    struct ahead *ahead = arg;
    struct head_query query = everything;
    struct fg_buf out;

    query.generation = ahead->generation;
    fg_buf_init(&out, SIZE_MAX);
    ahead->code = head_select(ahead->head, &query, &out);
    fg_buf_done(&out);
    return NULL;
}

/* Queries that say they have seen a manifest that there is not. They end after it was read again,
 * and hold no worker until then. */
static void query_with_a_nonexistent_generation_is_refused(void **state)
{
    struct fixture *f = *state;
    struct ahead ahead[AHEAD];
    struct committed committed;
    int64_t begin_ns;

    head_open_evicting(&f->head, f->store, f->bucket, forever_ns);
    push(f, 0, PROFILES, 0);
    flush(f);
    committed = committed_read(f->bucket, "tenant", cpu, &f->block_lines);
    begin_ns = fg_mono_ns(fg_clock_real());
    for (unsigned i = 0; i < AHEAD; i++) {
        ahead[i] = (struct ahead){.head = &f->head,
                                  .generation = i == 0 ? UINT64_MAX : committed.generation + i};
        assert_int_equal(pthread_create(&ahead[i].thread, NULL, ask_ahead, &ahead[i]), 0);
    }
    select_head(f, committed.generation, &f->head_lines);
    for (unsigned i = 0; i < AHEAD; i++) {
        assert_int_equal(pthread_join(ahead[i].thread, NULL), 0);
        assert_int_equal(ahead[i].code, FG_E_UNAVAILABLE);
    }
    assert_true(fg_mono_ns(fg_clock_real()) - begin_ns < 5 * FG_SECOND_NS);
    select_head(f, committed.generation, &f->head_lines);
    head_close(&f->head);
}

static void restart_resumes_commits(void **state)
{
    struct fixture *f = *state;
    struct committed committed;

    expect_all(f, PROFILES);
    for (unsigned n = 0; n < PROFILES; n += 4) {
        head_open_evicting(&f->head, f->store, f->bucket, n % 8 == 0 ? forever_ns : 0);
        push(f, n, n + 4, 0);
        push(f, 0, n + 4, n + 4);
        if (n % 3 != 0)
            flush(f);
        push(f, 0, n + 4, n + 4);
        head_close(&f->head);
    }
    head_open_evicting(&f->head, f->store, f->bucket, forever_ns);
    flush(f);
    committed = committed_read(f->bucket, "tenant", cpu, &f->block_lines);
    assert_int_equal(committed.n_profiles, PROFILES);
    assert_same(&f->block_lines, &f->all);
    head_close(&f->head);
}

/* A disk from a backup: the head thinks it has committed nothing. */
static void older_head_is_compared_with_the_bucket(void **state)
{
    struct fixture *f = *state;
    struct committed committed;

    expect_all(f, PROFILES);
    head_open_evicting(&f->head, f->store, f->bucket, forever_ns);
    push(f, 0, PROFILES / 2, 0);
    flush(f);
    head_close(&f->head);

    struct fg_store *other = fg_store_memory(HEAD_FAMILIES);
    head_open_evicting(&f->head, other, f->bucket, forever_ns);
    push(f, 0, PROFILES, ANY); /* before it has read the manifest it takes all of them */
    flush(f);
    committed = committed_read(f->bucket, "tenant", cpu, &f->block_lines);
    assert_int_equal(committed.n_profiles, PROFILES);
    assert_same(&f->block_lines, &f->all);
    head_close(&f->head);
    fg_store_close(other);
}

/* The k-th request fails, or its answer is lost: in the end each profile is committed once. */
static void commit_survives_faults_of_the_bucket(void **state)
{
    struct fixture *f = *state;

    expect_all(f, PROFILES);
    for (uint64_t k = 1; k <= 12; k++) {
        for (int late = 0; late < 2; late++) {
            struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
            struct fg_bucket *memory = fg_bucket_memory();
            struct fg_bucket_faulty *faulty =
                fg_bucket_faulty_create(memory, &(struct fg_bucket_faults){.seed = k});
            struct committed committed;

            fg_bucket_faulty_fail(faulty, k, late == 1);
            head_open_evicting(&f->head, store, fg_bucket_faulty_bucket(faulty), 0);
            push(f, 0, PROFILES / 2, 0);
            flush(f);
            push(f, 0, PROFILES, ANY); /* what cannot be looked for is taken, and compared later */
            flush(f);
            head_close(&f->head);
            committed = committed_read(memory, "tenant", cpu, &f->block_lines);
            assert_int_equal(committed.n_profiles, PROFILES);
            assert_same(&f->block_lines, &f->all);
            fg_bucket_close(fg_bucket_faulty_bucket(faulty));
            fg_bucket_close(memory);
            fg_store_close(store);
        }
    }
}

/* A store that takes objects and refuses the manifest: an ingester that tried without a pause would
 * read and write it thousands of times a second, and look at nothing that it is asked meanwhile. */
static void a_manifest_that_is_refused_is_tried_with_pauses(void **state)
{
    enum { REQUESTS_ENOUGH = 60, TRIED_S = 4 };
    struct fixture *f = *state;
    struct fg_bucket_faulty *faulty =
        fg_bucket_faulty_create(f->bucket, &(struct fg_bucket_faults){0});
    struct committed committed;
    struct fg_err err;
    uint64_t before;

    expect_all(f, PROFILES);
    head_open_evicting(&f->head, f->store, fg_bucket_faulty_bucket(faulty), 0);
    push(f, 0, PROFILES / 2, 0);
    flush(f);
    fg_bucket_faulty_set(faulty, &(struct fg_bucket_faults){.refused_put = FG_NAME_L0});
    push(f, PROFILES / 2, PROFILES, 0);
    before = fg_bucket_faulty_count(faulty);
    assert_int_not_equal(
        ing_flush(f->head.ingester, fg_mono_ns(fg_clock_real()) + TRIED_S * FG_SECOND_NS, &err),
        FG_OK);
    assert_in_range(fg_bucket_faulty_count(faulty) - before, 1, REQUESTS_ENOUGH);
    fg_bucket_faulty_set(faulty, &(struct fg_bucket_faults){0});
    flush(f);
    head_close(&f->head);
    committed = committed_read(f->bucket, "tenant", cpu, &f->block_lines);
    assert_int_equal(committed.n_profiles, PROFILES);
    assert_same(&f->block_lines, &f->all);
    fg_bucket_close(fg_bucket_faulty_bucket(faulty));
}

static bool has_condition(struct fixture *f, const char *text)
{
    struct fg_buf page;
    bool found;

    fg_buf_init(&page, SIZE_MAX);
    fg_conditions_write(f->head.conditions, &page);
    fg_buf_putc(&page, '\0');
    found = strstr((const char *)page.ptr, text) != NULL;
    fg_buf_done(&page);
    return found;
}

static bool manifest_has(struct fixture *f, const char *tenant)
{
    struct fg_manifest *manifest = committed_manifest(f->bucket);
    bool found = false;

    for (uint32_t i = 0; i < manifest->l0.n_tenants; i++)
        found |= fg_slice_is(manifest->l0.tenants[i].name, tenant);
    fg_manifest_unref(manifest);
    return found;
}

/* The key of one tenant cannot be had: the others are committed, and it stays in the head, counted
 * once, until there is a key. */
static void tenant_without_a_key_does_not_stop_the_others(void **state)
{
    struct fixture *f = *state;
    struct head_profile profile = profile_of(0);
    int64_t deadline_ns = fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS;
    struct committed committed;
    struct made_keys keys;
    struct fg_err err;

    made_keys_init(&keys, 0); /* what is written stays plain */
    keys.away = profile.tenant = "keyless";
    f->bucket->keys = &keys.keys;
    expect_all(f, PROFILES);
    head_open_evicting(&f->head, f->store, f->bucket, forever_ns);
    assert_int_equal(head_push(&f->head, &profile, true).stored, 1);
    push(f, 0, PROFILES, 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ing_flush(f->head.ingester, deadline_ns, &err), FG_E_UNAVAILABLE);
        committed = committed_read(f->bucket, "tenant", cpu, &f->block_lines);
        assert_int_equal(committed.n_segments, 1);
        assert_int_equal(committed.n_profiles, PROFILES);
        assert_same(&f->block_lines, &f->all);
        assert_false(manifest_has(f, "keyless"));
        assert_int_equal(head_stats_at(&f->head, "keyless", committed.generation).profiles, 1);
        assert_true(has_condition(f, "last reason: tenant keyless: what encrypts the key is away"));
        assert_false(has_condition(f, "head_chunks_set_aside"));
        assert_false(has_condition(f, "commit_failing"));
        if (round == 0) { /* also after a restart */
            head_close(&f->head);
            head_open_evicting(&f->head, f->store, f->bucket, forever_ns);
        }
    }
    assert_int_equal(head_push(&f->head, &profile, true).duplicates, 1);
    keys.away = NULL;
    flush(f);
    committed = committed_read(f->bucket, "keyless", cpu, &f->block_lines);
    assert_int_equal(committed.n_segments, 2);
    assert_int_equal(committed.n_profiles, PROFILES + 1);
    assert_true(manifest_has(f, "keyless"));
    assert_int_equal(head_stats_at(&f->head, "keyless", committed.generation).profiles, 0);
    assert_false(has_condition(f, "head_without_keys"));
    head_close(&f->head);
    f->bucket->keys = NULL;
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(pushed_profiles_are_in_segments),
        TEST(large_service_gets_a_rollup),
        TEST(later_profiles_go_into_the_next_segment),
        TEST(evicted_profiles_are_found_in_segments),
        TEST(query_with_a_nonexistent_generation_is_refused),
        TEST(restart_resumes_commits),
        TEST(older_head_is_compared_with_the_bucket),
        TEST(commit_survives_faults_of_the_bucket),
        TEST(a_manifest_that_is_refused_is_tried_with_pauses),
        TEST(tenant_without_a_key_does_not_stop_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
