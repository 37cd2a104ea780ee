/* Two heads with the same profiles, without a ring: each finds what the other has committed, and no
 * profile is committed twice, though more arrive during the comparison. */
#include "common/cluster/manifest/name.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/bucket_gate.h"
#include "tests/lib/committed.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PROFILES = 8, GROUPS = 2 };

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;
static const char cpu[] = "cpu:nanoseconds";
static const char searches[] = "\nflamegrid_ingester_late_searches_total ";

struct fixture {
    struct fg_bucket *bucket;
    struct bucket_gate gate; /* before b's bucket */
    struct fg_store *stores[2];
    struct fg_store_faulty faulty; /* before b's store */
    struct head a, b;
    struct fg_buf lines;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->bucket = fg_bucket_memory();
    bucket_gate_init(&f->gate, f->bucket);
    for (size_t i = 0; i < 2; i++)
        f->stores[i] = fg_store_memory(HEAD_FAMILIES);
    head_open_evicting(&f->a, f->stores[0], f->bucket, 1000 * FG_HOUR_NS);
    fg_store_faulty_init(&f->faulty, f->stores[1]);
    head_open_evicting(&f->b, &f->faulty.store, &f->gate.bucket, 1000 * FG_HOUR_NS);
    fg_buf_init(&f->lines, SIZE_MAX);
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
    bucket_gate_done(&f->gate);
    fg_bucket_close(f->bucket);
    fg_buf_done(&f->lines);
    free(f);
    return 0;
}

/* n is its bit in what the answers say. Even and odd ones are two groups. */
static void push_of(struct head *head, const char *tenant, unsigned n)
{
    const struct head_sample sample = {"a", {1, 1 << n}, 0};
    const struct head_profile profile = {
        .tenant = tenant,
        .service = "shop",
        .time_ns = start_ns + (int64_t)(n % GROUPS) * FG_HOUR_NS + n,
        .samples = &sample,
        .n_samples = 1,
    };
    struct head_pushed pushed = head_push(head, &profile, true);

    assert_int_equal(pushed.code, FG_OK);
}

static void push(struct head *head, unsigned n)
{
    push_of(head, "tenant", n);
}

/* The value of a counter. */
static uint64_t counted(struct head *head, const char *metric)
{
    uint64_t value = 0;
    struct fg_buf text;
    size_t at;

    fg_buf_init(&text, SIZE_MAX);
    fg_registry_write(head->registry, &text);
    at = fg_slice_search(fg_buf_slice(&text), metric);
    assert_int_not_equal(at, SIZE_MAX);
    for (at += strlen(metric); at < text.len && text.ptr[at] != '\n'; at++)
        value = text.ptr[at] == ' ' ? 0 : value * 10 + (uint64_t)(text.ptr[at] - '0');
    fg_buf_done(&text);
    return value;
}

static void flush(struct head *head)
{
    struct fg_err err;

    if (ing_flush(head->ingester, fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS, &err) != FG_OK)
        fail_msg("%s", err.msg);
}

/* Bits of what the head shows to a reader of that generation. */
static unsigned shown(struct fixture *f, struct head *head, uint64_t generation)
{
    const struct head_query query = {.tenant = "tenant",
                                     .type = cpu,
                                     .start_ns = INT64_MIN,
                                     .end_ns = INT64_MAX,
                                     .generation = generation};
    unsigned bits = 0;

    assert_int_equal(head_select(head, &query, &f->lines), FG_OK);
    for (size_t i = 2; i < f->lines.len && f->lines.ptr[i] != '\n'; i++) /* behind "a " */
        bits = bits * 10 + (unsigned)(f->lines.ptr[i] - '0');
    return bits;
}

static struct committed read_bucket(struct fixture *f)
{
    return committed_read(f->bucket, "tenant", cpu, &f->lines);
}

/* b has read the manifest, onto which it has committed: until then no group is known to be new. */
static void let_follow(struct fixture *f)
{
    push_of(&f->b, "other", 0);
    flush(&f->b);
}

struct thread {
    pthread_t id;
    struct fixture *f;
    uint64_t generation; /* 0: flushes */
    unsigned shown;
};

static void *run(void *arg)
{
    struct thread *thread = arg;

    if (thread->generation == 0)
        flush(&thread->f->b);
    else
        thread->shown = shown(thread->f, &thread->f->b, thread->generation);
    return NULL;
}

static void start(struct thread *thread)
{
    assert_int_equal(pthread_create(&thread->id, NULL, run, thread), 0);
}

static void finish(struct thread *thread)
{
    assert_int_equal(pthread_join(thread->id, NULL), 0);
}

/* While b reads what a has committed more of that arrives at b. */
static void profiles_that_arrive_during_a_compare_are_found(void **state)
{
    struct fixture *f = *state;
    struct thread reader = {.f = f};

    let_follow(f);
    for (unsigned n = 0; n < 6; n++)
        push(&f->a, n);
    push(&f->b, 0);
    push(&f->b, 1);
    push(&f->b, 6);
    flush(&f->a);
    reader.generation = read_bucket(f).generation;
    bucket_gate_shut(&f->gate, FG_BUCKET_GET, FG_NAME_SEGMENTS);
    start(&reader);
    bucket_gate_await(&f->gate);
    push(&f->b, 2);
    push(&f->b, 3);
    push(&f->b, 7);
    bucket_gate_open(&f->gate);
    finish(&reader);
    assert_int_equal(reader.shown, 0300);
    /* What it still lacks of the segment it looks for. */
    push(&f->b, 4);
    push(&f->b, 5);
    assert_int_equal(shown(f, &f->b, reader.generation), 0300);
    flush(&f->b);
    assert_int_equal(read_bucket(f).n_profiles, PROFILES + 1); /* and the other tenant's */
}

/* While b builds a segment of a chunk, a commits some of it, and some of the next chunk. */
static void profiles_missing_in_the_bucket_stay_in_the_head(void **state)
{
    struct fixture *f = *state;
    struct thread flusher = {.f = f};
    uint64_t generation;

    push(&f->b, 0);
    push(&f->b, 2);
    assert_int_equal(shown(f, &f->b, 0), 5);
    bucket_gate_shut(&f->gate, FG_BUCKET_PUT, FG_NAME_SEGMENTS);
    start(&flusher);
    bucket_gate_await(&f->gate);
    push(&f->b, 4);
    push(&f->b, 6);
    push(&f->a, 0);
    push(&f->a, 4);
    flush(&f->a);
    generation = read_bucket(f).generation;
    bucket_gate_open(&f->gate);
    assert_int_equal(shown(f, &f->b, generation), 0104);
    finish(&flusher);
    flush(&f->b);
    assert_int_equal(read_bucket(f).n_profiles, 4);
    generation = read_bucket(f).generation;
    assert_int_equal(shown(f, &f->b, generation), 0);
    push(&f->b, 2); /* known still */
    assert_int_equal(shown(f, &f->b, generation), 0);
}

/* b has three profiles of which a has committed two; what b writes when it finds that is done and
 * reported as failed. The reader waits for it. */
static void begin_failing_compare(struct fixture *f, struct thread *reader)
{
    let_follow(f);
    push(&f->a, 0);
    push(&f->a, 2);
    push(&f->b, 0);
    push(&f->b, 2);
    push(&f->b, 6);
    flush(&f->a);
    reader->generation = read_bucket(f).generation;
    bucket_gate_shut(&f->gate, FG_BUCKET_GET, FG_NAME_SEGMENTS);
    start(reader);
    bucket_gate_await(&f->gate);
    f->faulty.writes = 0;
    f->faulty.fail_late = true;
    f->faulty.fail_at = 1;
    bucket_gate_open(&f->gate);
}

/* What the write has moved is moved back before b compares again. */
static void failed_write_that_reached_the_disk_hides_no_profile(void **state)
{
    struct fixture *f = *state;
    struct thread reader = {.f = f};

    begin_failing_compare(f, &reader);
    finish(&reader);
    assert_true(f->faulty.writes > 1);
    assert_int_equal(reader.shown, 0100);
    flush(&f->b);
    assert_int_equal(read_bucket(f).n_profiles, 3 + 1); /* and the other tenant's */
}

/* Until it is moved back no answer says that it is complete. */
static void profiles_of_a_failed_move_are_not_answered(void **state)
{
    const struct head_query query = {
        .tenant = "tenant", .type = cpu, .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    const struct timespec pause = {.tv_nsec = FG_MS_NS};
    struct fixture *f = *state;
    struct thread reader = {.f = f};

    f->faulty.fail_full = true;
    begin_failing_compare(f, &reader);
    for (unsigned i = 0; i < 30000 && !atomic_load(&f->faulty.full); i++)
        (void)nanosleep(&pause, NULL);
    assert_true(atomic_load(&f->faulty.full));
    assert_int_equal(head_select(&f->b, &query, &f->lines), FG_E_CORRUPT);
    atomic_store(&f->faulty.full, false);
    finish(&reader);
    assert_int_equal(reader.shown, 0100);
    assert_int_equal(shown(f, &f->b, 0), 0105);
}

/* ---- comparisons that do not fit into one batch ---- */

enum {
    MANY = 40, /* profiles of b, in two groups */
    PIECE_BYTES = 400,
    /* What a piece may have: as much again for what is moved at once, and a profile. */
    BATCH_BYTES = 3 * PIECE_BYTES,
};

/* Its value is n + 1, so a sum tells which are missing or there twice, as good as. */
static struct head_pushed push_one_of_many(struct head *head, unsigned n)
{
    const struct head_sample sample = {"a", {1, n + 1}, 0};
    const struct head_profile profile = {
        .tenant = "tenant",
        .service = "shop",
        .time_ns = start_ns + (int64_t)(n % GROUPS) * FG_HOUR_NS + n,
        .samples = &sample,
        .n_samples = 1,
    };

    return head_push(head, &profile, true);
}

static void push_many(struct head *head, bool (*has)(unsigned n))
{
    for (unsigned n = 0; n < MANY; n++)
        if (has == NULL || has(n))
            assert_int_equal(push_one_of_many(head, n).code, FG_OK);
}

/* What a has of it: one profile of each group, half, or all but one. */
static bool is_first(unsigned n)
{
    return n < GROUPS;
}
static bool is_of_half(unsigned n)
{
    return n / GROUPS % 2 == 0;
}
static bool is_not_first(unsigned n)
{
    return n >= GROUPS;
}

static unsigned sum_of_many(bool (*has)(unsigned n))
{
    unsigned sum = 0;

    for (unsigned n = 0; n < MANY; n++)
        sum += has == NULL || has(n) ? n + 1 : 0;
    return sum;
}

/* a has committed some of what b has, and b is about to compare. */
static void begin_large_compare(struct fixture *f, bool (*has)(unsigned n), struct thread *reader)
{
    let_follow(f);
    push_many(&f->a, has);
    push_many(&f->b, NULL);
    flush(&f->a);
    reader->generation = read_bucket(f).generation;
    bucket_gate_shut(&f->gate, FG_BUCKET_GET, FG_NAME_SEGMENTS);
    start(reader);
    bucket_gate_await(&f->gate);
    f->faulty.writes = 0;
    f->faulty.max_bytes = BATCH_BYTES;
}

static void expect_all_committed_once(struct fixture *f, struct head *head)
{
    struct committed committed;

    f->faulty.max_bytes = 0;
    f->faulty.fail_at = 0;
    flush(head);
    committed = read_bucket(f);
    assert_int_equal(committed.n_profiles, MANY + 1); /* and the other tenant's */
    assert_int_equal(shown(f, head, committed.generation), 0);
    for (unsigned n = 0; n < MANY; n++) /* known, here or there */
        assert_int_equal(push_one_of_many(head, n).duplicates, 1);
}

static int set_up_small_pieces(void **state)
{
    int result;

    head_compare_piece_bytes = PIECE_BYTES;
    result = set_up(state);
    head_compare_piece_bytes = 0;
    return result;
}

static bool (*const shares[])(unsigned n) = {is_first, is_of_half, is_not_first, NULL};

/* The fixture in *state is the first; the others are made here. */
static struct fixture *another(void **state)
{
    assert_int_equal(tear_down(state), 0);
    assert_int_equal(set_up_small_pieces(state), 0);
    return *state;
}

static void compare_of_more_than_a_batch_takes_several(void **state)
{
    for (size_t i = 0; i < FG_COUNT(shares); i++) {
        struct fixture *f = another(state);
        struct thread reader = {.f = f};

        begin_large_compare(f, shares[i], &reader);
        f->faulty.fail_at = UINT64_MAX; /* it only counts */
        bucket_gate_open(&f->gate);
        finish(&reader);
        print_message("  share %zu: %llu writes\n", i, (unsigned long long)f->faulty.writes);
        assert_int_equal(reader.shown, sum_of_many(NULL) - sum_of_many(shares[i]));
        assert_int_equal(shown(f, &f->b, 0), sum_of_many(NULL));
        expect_all_committed_once(f, &f->b);
    }
}

/* Whichever write of a piece fails, with or without effect, the next comparison ends it. */
static void failed_piece_leaves_every_profile_once(void **state)
{
    bool failed = true;

    for (unsigned k = 1; failed; k++)
        for (unsigned late = 0; late < 2; late++) {
            struct fixture *f = another(state);
            struct thread reader = {.f = f};

            begin_large_compare(f, is_of_half, &reader);
            f->faulty.fail_at = k;
            f->faulty.fail_late = late > 0;
            bucket_gate_open(&f->gate);
            finish(&reader);
            failed = f->faulty.writes >= k;
            assert_int_equal(reader.shown, sum_of_many(NULL) - sum_of_many(is_of_half));
            assert_int_equal(shown(f, &f->b, 0), sum_of_many(NULL));
            expect_all_committed_once(f, &f->b);
            assert_true(failed || k > 5); /* there were some */
        }
}

/* Returns what b's disk has after so many writes of a comparison. */
static struct fg_store *crash_after(struct fixture *f, unsigned writes, bool *ret_crashed)
{
    const struct timespec pause = {.tv_nsec = FG_MS_NS};
    struct thread reader = {.f = f};
    struct fg_store *image;

    begin_large_compare(f, is_of_half, &reader);
    f->faulty.fail_at = writes;
    f->faulty.fail_late = f->faulty.fail_full = true;
    bucket_gate_open(&f->gate);
    /* Fewer writes end the comparison, and then nothing is ever full. */
    for (unsigned i = 0; i < 2000 && !atomic_load(&f->faulty.full); i++)
        (void)nanosleep(&pause, NULL);
    *ret_crashed = atomic_load(&f->faulty.full);
    image = fg_store_memory_copy(f->stores[1], HEAD_FAMILIES);
    f->faulty.fail_full = false;
    atomic_store(&f->faulty.full, false);
    finish(&reader);
    return image;
}

static void crash_between_pieces_leaves_every_profile_once(void **state)
{
    bool crashed = true;

    for (unsigned k = 1; crashed; k++) {
        struct fixture *f = another(state);
        struct fg_store *image = crash_after(f, k, &crashed);

        head_close(&f->b);
        fg_store_close(f->stores[1]);
        f->stores[1] = image;
        fg_store_faulty_init(&f->faulty, image);
        head_compare_piece_bytes = PIECE_BYTES;
        head_open_evicting(&f->b, &f->faulty.store, &f->gate.bucket, 1000 * FG_HOUR_NS);
        head_compare_piece_bytes = 0;
        f->faulty.max_bytes = BATCH_BYTES;
        assert_int_equal(shown(f, &f->b, read_bucket(f).generation),
                         sum_of_many(NULL) - sum_of_many(is_of_half));
        expect_all_committed_once(f, &f->b);
        assert_true(crashed || k > 5);
    }
}

/* ---- lookups ---- */

/* Ordinary data needs no lookup while nothing of its group is missing, whichever head commits. */
static void complete_groups_need_no_lookup(void **state)
{
    struct fixture *f = *state;
    uint64_t generation, reads;

    let_follow(f);
    push(&f->a, 0);
    push(&f->b, 0);
    push(&f->b, 2);
    flush(&f->a);
    generation = read_bucket(f).generation;
    assert_int_equal(shown(f, &f->b, generation), 4);
    reads = counted(&f->b, searches);
    push(&f->b, 4);
    assert_int_equal(counted(&f->b, searches), reads);
    push(&f->a, 2);
    push(&f->a, 6);
    flush(&f->a);
    generation = read_bucket(f).generation;
    assert_int_equal(shown(f, &f->b, generation), 020);
    push(&f->b, 6); /* that one is missing */
    assert_int_equal(counted(&f->b, searches), reads + 1);
    assert_int_equal(shown(f, &f->b, generation), 020);
}

int main(void)
{
#define TEST(f)       cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define SMALL_TEST(f) cmocka_unit_test_setup_teardown(f, set_up_small_pieces, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(profiles_that_arrive_during_a_compare_are_found),
        TEST(profiles_missing_in_the_bucket_stay_in_the_head),
        TEST(failed_write_that_reached_the_disk_hides_no_profile),
        TEST(profiles_of_a_failed_move_are_not_answered),
        TEST(complete_groups_need_no_lookup),
        SMALL_TEST(compare_of_more_than_a_batch_takes_several),
        SMALL_TEST(failed_piece_leaves_every_profile_once),
        SMALL_TEST(crash_between_pieces_leaves_every_profile_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
