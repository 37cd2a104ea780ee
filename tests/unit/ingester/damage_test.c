/*
 * A head with a record missing or damaged: it starts, serves and commits what it can, takes new
 * profiles, and says what it cannot read.
 */
#include "common/cluster/manifest/name.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/committed.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;
static const int64_t forever_ns = 1000 * FG_HOUR_NS;
static const char cpu[] = "cpu:nanoseconds";

struct fixture {
    struct fg_store *store;
    struct fg_store_faulty faulty; /* passes on to it */
    struct fg_buf damaged;         /* the key where it is damaged */
    struct fg_bucket *bucket;
    struct head head;
    bool is_open;
    struct fg_buf text;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->store = fg_store_memory(HEAD_FAMILIES);
    fg_store_faulty_init(&f->faulty, f->store);
    f->bucket = fg_bucket_memory();
    fg_buf_init(&f->damaged, SIZE_MAX);
    fg_buf_init(&f->text, SIZE_MAX);
    *state = f;
    return 0;
}

static void open_head(struct fixture *f)
{
    head_open_evicting(&f->head, &f->faulty.store, f->bucket, forever_ns);
    f->is_open = true;
}

static void close_head(struct fixture *f)
{
    head_close(&f->head);
    f->is_open = false;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    if (f->is_open)
        close_head(f);
    fg_buf_done(&f->text);
    fg_buf_done(&f->damaged);
    fg_bucket_close(f->bucket);
    fg_store_close(f->store);
    free(f);
    return 0;
}

/* ---- profiles ---- */

static const struct head_sample shop_sample[] = {{"shop;buy", {1, 10}, 0}};
static const struct head_sample store_sample[] = {{"archive;put", {1, 100}, 0}};

static struct head_profile profile_of(const char *tenant, bool shop, const char *zone,
                                      int64_t at_ns)
{
    return (struct head_profile){.tenant = tenant,
                                 .service = shop ? "shop" : "archive",
                                 .zone = zone,
                                 .time_ns = start_ns + at_ns,
                                 .duration_ns = 10 * FG_SECOND_NS,
                                 .samples = shop ? shop_sample : store_sample,
                                 .n_samples = 1};
}

static enum fg_code push(struct fixture *f, const char *tenant, bool shop, const char *zone,
                         int64_t at_ns)
{
    const struct head_profile profile = profile_of(tenant, shop, zone, at_ns);

    return head_push(&f->head, &profile, true).code;
}

/* Tenant a: shop 3 * 10 in zone n and 10 in zone s, archive 100. Tenant b: shop 10. */
static void push_all(struct fixture *f)
{
    for (int64_t i = 0; i < 3; i++)
        assert_int_equal(push(f, "a", true, "n", i), FG_OK);
    assert_int_equal(push(f, "a", true, "s", 0), FG_OK);
    assert_int_equal(push(f, "a", false, "n", 0), FG_OK);
    assert_int_equal(push(f, "b", true, "n", 0), FG_OK);
}

/* ---- what is told ---- */

static enum fg_code ask(struct fixture *f, const char *tenant, bool lenient)
{
    const struct head_query query = {
        .tenant = tenant,
        .type = cpu,
        .start_ns = INT64_MIN,
        .end_ns = INT64_MAX,
        .generation = committed_read(f->bucket, tenant, cpu, &f->text).generation,
        .lenient = lenient};

    return head_select(&f->head, &query, &f->text);
}

static enum fg_code ask_between(struct fixture *f, const char *tenant, int64_t from_ns,
                                int64_t to_ns)
{
    const struct head_query query = {
        .tenant = tenant,
        .type = cpu,
        .start_ns = from_ns,
        .end_ns = to_ns,
        .generation = committed_read(f->bucket, tenant, cpu, &f->text).generation};

    return head_select(&f->head, &query, &f->text);
}

static void assert_text(struct fixture *f, const char *want)
{
    if (!fg_slice_is(fg_buf_slice(&f->text), want))
        fail_msg("%.*s instead of %s", FG_S(fg_buf_slice(&f->text)), want);
}

/* The head alone says so much. */
static void assert_head(struct fixture *f, const char *tenant, const char *want)
{
    assert_int_equal(ask(f, tenant, false), FG_OK);
    assert_false(f->head.lacks);
    assert_text(f, want);
}

/* The head cannot say all; leniently it says so much. */
static void assert_lacking(struct fixture *f, const char *tenant, const char *want)
{
    assert_int_equal(ask(f, tenant, false), FG_E_CORRUPT);
    assert_int_equal(ask(f, tenant, true), FG_OK);
    assert_true(f->head.lacks);
    assert_text(f, want);
}

static enum fg_code flush(struct fixture *f)
{
    struct fg_err err;

    return ing_flush(f->head.ingester, fg_mono_ns(fg_clock_real()) + 60 * FG_SECOND_NS, &err);
}

/* What GET /ready would list. */
static void assert_conditions(struct fixture *f, const char *first, const char *second)
{
    const char *wanted[] = {first, second};

    fg_buf_clear(&f->text);
    fg_conditions_write(f->head.conditions, &f->text);
    fg_buf_putc(&f->text, '\0');
    for (size_t i = 0; i < FG_COUNT(wanted); i++)
        if (wanted[i] != NULL && strstr((const char *)f->text.ptr, wanted[i]) == NULL)
            fail_msg("no %s in %s", wanted[i], (const char *)f->text.ptr);
    if (first == NULL)
        assert_string_equal((const char *)f->text.ptr, "");
}

static void commit_readable(struct fixture *f)
{
    struct fg_err err;

    if (ing_salvage(f->head.ingester, fg_mono_ns(fg_clock_real()) + 60 * FG_SECOND_NS, &err) !=
        FG_OK)
        fail_msg("%s", err.msg);
}

static void salvage(struct fixture *f)
{
    commit_readable(f);
    assert_conditions(f, NULL, NULL);
}

static void assert_committed(struct fixture *f, const char *tenant, const char *want)
{
    (void)committed_read(f->bucket, tenant, cpu, &f->text);
    assert_text(f, want);
}

/* ---- damage ---- */

static void write_batch(struct fixture *f, struct fg_store_batch *batch)
{
    struct fg_err err;

    assert_int_equal(fg_store_write(f->store, batch, &err), FG_OK);
    fg_store_batch_done(batch);
}

/* Deletes the n-th record of the family whose key begins so. */
static void lose(struct fixture *f, unsigned family, struct fg_slice prefix, unsigned n)
{
    struct fg_store_iter *iter = fg_store_iter_create(f->store, family, prefix, FG_LIT(""));
    struct fg_store_batch batch;

    for (; n > 0; n--)
        fg_store_iter_next(iter);
    assert_true(iter->valid && fg_slice_eq(fg_slice_sub(iter->key, 0, prefix.len), prefix));
    fg_store_batch_init(&batch);
    fg_store_delete(&batch, family, iter->key);
    write_batch(f, &batch);
    fg_store_iter_destroy(iter);
}

/* The n-th record of the family gets a value that is none. */
static void spoil(struct fixture *f, unsigned family, unsigned n)
{
    struct fg_store_iter *iter = fg_store_iter_create(f->store, family, FG_LIT(""), FG_LIT(""));
    struct fg_store_batch batch;

    for (; n > 0; n--)
        fg_store_iter_next(iter);
    assert_true(iter->valid);
    fg_store_batch_init(&batch);
    fg_store_put(&batch, family, iter->key, FG_LIT("\xff"));
    write_batch(f, &batch);
    fg_store_iter_destroy(iter);
}

/* The block with the n-th record of the family, which is all that is in it, cannot be read. */
static void rot(struct fixture *f, unsigned family, unsigned n)
{
    struct fg_store_iter *iter = fg_store_iter_create(f->store, family, FG_LIT(""), FG_LIT(""));

    for (; n > 0; n--)
        fg_store_iter_next(iter);
    assert_true(iter->valid);
    fg_buf_clear(&f->damaged);
    fg_buf_put(&f->damaged, iter->key);
    f->faulty.damaged = fg_buf_slice(&f->damaged);
    fg_store_iter_destroy(iter);
}

static void fill(struct fixture *f)
{
    open_head(f);
    push_all(f);
    close_head(f);
}

/* A late profile of a new tenant while the bucket is unreachable: its series gets a number and is
 * retired. */
static void start_survives_a_tenant_whose_push_failed(void **state)
{
    struct fixture *f = *state;
    struct fg_store_batch batch;

    fill(f);
    fg_store_batch_init(&batch); /* what sweeping wrote then */
    fg_store_put(&batch, HEAD_META, FG_LIT("n\0\0\0\2"), FG_LIT("\1"));
    write_batch(f, &batch);
    open_head(f);
    assert_conditions(f, NULL, NULL); /* nothing is lost */
    assert_head(f, "a", "archive;put 100\nshop;buy 40\n");
    assert_int_equal(push(f, "c", true, "n", 0), FG_OK);
    assert_int_equal(flush(f), FG_OK);
    assert_committed(f, "a", "archive;put 100\nshop;buy 40\n");
    assert_committed(f, "c", "shop;buy 10\n");
    close_head(f);
    open_head(f); /* the number of the new one is not that of the gap */
    assert_conditions(f, NULL, NULL);
}

static void profiles_without_tenant_record_are_kept_and_not_served(void **state)
{
    struct fixture *f = *state;

    fill(f);
    lose(f, HEAD_META, FG_LIT("ta"), 0);
    open_head(f);
    assert_conditions(f, "head_damaged: ", "tenant 0 is not known");
    assert_head(f, "b", "shop;buy 10\n"); /* its own record is older than what is without a name */
    assert_lacking(f, "a", "");
    assert_int_equal(push(f, "a", true, "n", 7), FG_OK); /* a new one of that name */
    assert_lacking(f, "a", "shop;buy 10\n");
    assert_int_equal(push(f, "c", true, "n", 7), FG_OK);
    assert_head(f, "c", "shop;buy 10\n"); /* by its shards it cannot be the lost one */
    assert_head(f, "never seen", "");
    assert_int_equal(flush(f), FG_OK);
    assert_committed(f, "a", "shop;buy 10\n");
    assert_committed(f, "b", "shop;buy 10\n");
    close_head(f);

    /* The name is found again, by hand: all is there. */
    {
        struct fg_store_batch batch;

        fg_store_batch_init(&batch);
        fg_store_put(&batch, HEAD_META, FG_LIT("told"), FG_LIT("\0"));
        write_batch(f, &batch);
    }
    open_head(f);
    assert_head(f, "old", "archive;put 100\nshop;buy 40\n");
    assert_head(f, "a", "");
}

/* The chunk records are lost, too: the keys of the profiles tell of them. */
static void tenant_and_chunks_without_records_are_lacking(void **state)
{
    struct fixture *f = *state;

    fill(f);
    lose(f, HEAD_META, FG_LIT("ta"), 0);
    lose(f, HEAD_CHUNKS, FG_LIT("\0\0\0\0"), 0);
    lose(f, HEAD_CHUNKS, FG_LIT("\0\0\0\0"), 0);
    lose(f, HEAD_CHUNKS, FG_LIT("\0\0\0\0"), 0);
    open_head(f);
    assert_conditions(f, "head_damaged: ", "tenant 0 is not known");
    assert_lacking(f, "a", "");
    assert_head(f, "b", "shop;buy 10\n");
    assert_int_equal(ask_between(f, "a", INT64_MIN, start_ns - 48 * FG_HOUR_NS), FG_OK);
    assert_int_equal(ask_between(f, "a", start_ns + FG_HOUR_NS, INT64_MAX), FG_OK);
    assert_int_equal(ask_between(f, "a", start_ns, start_ns), FG_E_CORRUPT);
}

static void missing_service_is_rebuilt(void **state)
{
    struct fixture *f = *state;

    fill(f);
    lose(f, HEAD_META, FG_LIT("s\0\0\0\0shop"), 0);
    open_head(f);
    assert_conditions(f, NULL, NULL);
    assert_head(f, "a", "archive;put 100\nshop;buy 40\n");
    assert_int_equal(push(f, "a", true, "n", 5), FG_OK);
    assert_int_equal(flush(f), FG_OK);
    assert_committed(f, "a", "archive;put 100\nshop;buy 50\n");
    close_head(f);
    open_head(f);
    assert_conditions(f, NULL, NULL);
}

/* A series that cannot be read: its profiles can neither be named nor forgotten. */
static void profiles_of_a_lost_series_are_not_evicted(void **state)
{
    struct fixture *f = *state;

    for (int damaged = 0; damaged < 2; damaged++) {
        print_message("  %s\n", damaged ? "cannot be read" : "is missing");
        fill(f);
        if (damaged)
            spoil(f, HEAD_SERIES, 0);
        else
            lose(f, HEAD_SERIES, FG_LIT("\0\0\0\0\0\0\0\0"), 0); /* a, shop, n */
        open_head(f);
        if (damaged) {
            assert_conditions(f, "head_damaged: ", "series 0 of tenant a");
            assert_lacking(f, "a", "archive;put 100\nshop;buy 10\n");
        }
        assert_head(f, "b", "shop;buy 10\n");
        assert_int_equal(flush(f), FG_E_CORRUPT); /* all but that */
        assert_conditions(
            f, "head_chunks_set_aside: ", "3 profiles are of series that the head does not know");
        assert_lacking(f, "a", ""); /* all else is committed */
        assert_committed(f, "a", "archive;put 100\nshop;buy 10\n");
        assert_committed(f, "b", "shop;buy 10\n");
        /* The same after a restart; new profiles of the series are taken. */
        close_head(f);
        open_head(f);
        assert_int_equal(push(f, "a", true, "n", 50), FG_OK);
        assert_int_equal(flush(f), FG_E_CORRUPT);
        assert_committed(f, "a", "archive;put 100\nshop;buy 20\n");
        close_head(f);
        open_head(f);
        if (!damaged) {
            salvage(f); /* the three are given up */
            assert_committed(f, "a", "archive;put 100\nshop;buy 20\n");
            assert_head(f, "a", "");
        }
        (void)tear_down(state);
        (void)set_up(state);
        f = *state;
    }
}

/* A salvage gives up the profiles of lost series: answers lack nothing then, also without a
 * restart. */
static void answers_are_complete_after_a_salvage(void **state)
{
    struct fixture *f = *state;

    fill(f);
    lose(f, HEAD_SERIES, FG_LIT("\0\0\0\0\0\0\0\0"), 0); /* a, shop, n */
    open_head(f);
    assert_int_equal(flush(f), FG_E_CORRUPT);
    assert_lacking(f, "a", "");
    salvage(f);
    assert_committed(f, "a", "archive;put 100\nshop;buy 10\n");
    assert_head(f, "a", "");
}

static void missing_head_chunk_is_rebuilt(void **state)
{
    struct fixture *f = *state;

    fill(f);
    lose(f, HEAD_CHUNKS, FG_LIT("\0\0\0\0"), 0);
    lose(f, HEAD_CHUNKS, FG_LIT("\0\0\0\0"), 0);
    open_head(f);
    assert_conditions(f, NULL, NULL);
    assert_head(f, "a", "archive;put 100\nshop;buy 40\n");
    assert_int_equal(push(f, "a", true, "n", 0), FG_OK); /* which is there */
    assert_head(f, "a", "archive;put 100\nshop;buy 40\n");
    assert_int_equal(flush(f), FG_OK);
    assert_committed(f, "a", "archive;put 100\nshop;buy 40\n");
}

static void missing_number_of_the_last_cut_is_restored(void **state)
{
    struct fixture *f = *state;

    open_head(f);
    push_all(f);
    assert_int_equal(flush(f), FG_OK);
    assert_int_equal(push(f, "a", true, "e", 0), FG_OK);
    close_head(f);
    lose(f, HEAD_META, FG_LIT("cut"), 0);
    open_head(f);
    assert_conditions(f, NULL, NULL);
    assert_int_equal(flush(f), FG_OK); /* with a number that is not taken */
    assert_committed(f, "a", "archive;put 100\nshop;buy 50\n");
}

static void lost_dictionary_loses_only_profiles_that_name_it(void **state)
{
    struct fixture *f = *state;

    for (int damaged = 0; damaged < 2; damaged++) {
        print_message("  %s\n", damaged ? "cannot be read" : "is missing");
        fill(f);
        if (damaged)
            spoil(f, HEAD_DICT, 0); /* that of a's shop */
        else
            lose(f, HEAD_DICT, FG_LIT(""), 0);
        open_head(f);
        assert_lacking(f, "a", "archive;put 100\n");
        assert_head(f, "b", "shop;buy 10\n");
        assert_int_equal(push(f, "a", true, "n", 50), FG_OK); /* in a new dictionary */
        assert_lacking(f, "a", "archive;put 100\nshop;buy 10\n");
        assert_int_equal(flush(f), FG_E_CORRUPT);
        assert_conditions(f, "head_chunks_set_aside: ", "tenant a, service shop: series {");
        assert_committed(f, "b", "shop;buy 10\n");
        assert_committed(f, "a", "archive;put 100\n");
        salvage(f); /* what was pushed since is in the same chunk, and can be read */
        assert_committed(f, "a", "archive;put 100\nshop;buy 10\n");
        assert_head(f, "a", "");
        (void)tear_down(state);
        (void)set_up(state);
        f = *state;
    }
}

/* ---- blocks of tables that cannot be read ---- */

static void rotten_series_cost_their_profiles(void **state)
{
    /* Of tenant a: shop in n, shop in s, archive; of b: shop. */
    static const struct {
        const char *a, *a_later, *b;
    } left[] = {
        {"archive;put 100\nshop;buy 10\n", "archive;put 100\nshop;buy 30\n", "shop;buy 10\n"},
        {"archive;put 100\nshop;buy 30\n", "archive;put 100\nshop;buy 50\n", "shop;buy 10\n"},
        {"shop;buy 40\n", "shop;buy 60\n", "shop;buy 10\n"},
        {"archive;put 100\nshop;buy 40\n", "archive;put 100\nshop;buy 60\n", ""},
    };
    struct fixture *f = *state;

    for (unsigned n = 0; n < FG_COUNT(left); n++) {
        print_message("  series %u\n", n);
        fill(f);
        rot(f, HEAD_SERIES, n);
        open_head(f);
        assert_conditions(f, "head_damaged: ", "series between ");
        assert_lacking(f, n < 3 ? "a" : "b", n < 3 ? left[n].a : left[n].b);
        if (n < 2)
            assert_head(f, "b", left[n].b);
        if (n == 3)
            assert_text(f, left[n].b);
        /* New series get numbers that no lost one has had: its profiles are not theirs. */
        assert_int_equal(push(f, "a", true, "x", 50), FG_OK);
        close_head(f);
        open_head(f);
        assert_int_equal(push(f, "a", true, "y", 50), FG_OK);
        assert_int_equal(flush(f), FG_E_CORRUPT);
        assert_committed(f, "a", left[n].a_later);
        assert_committed(f, "b", left[n].b);
        (void)tear_down(state);
        (void)set_up(state);
        f = *state;
    }
}

static void rotten_dictionary_costs_profiles_that_name_it(void **state)
{
    struct fixture *f = *state;

    fill(f);
    rot(f, HEAD_DICT, 0); /* that of a's shop */
    open_head(f);
    assert_conditions(f, "head_damaged: ", "dict between ");
    assert_lacking(f, "a", "archive;put 100\n");
    assert_head(f, "b", "shop;buy 10\n");
    assert_int_equal(push(f, "a", true, "n", 50), FG_OK); /* in a new dictionary */
    assert_lacking(f, "a", "archive;put 100\nshop;buy 10\n");
    close_head(f);
    open_head(f);
    assert_conditions(f, NULL, NULL); /* it is gone */
    assert_lacking(f, "a", "archive;put 100\nshop;buy 10\n");
    assert_int_equal(flush(f), FG_E_CORRUPT);
    salvage(f);
    assert_committed(f, "a", "archive;put 100\nshop;buy 10\n");
    assert_committed(f, "b", "shop;buy 10\n");
}

static void rotten_head_chunk_is_rebuilt(void **state)
{
    struct fixture *f = *state;

    for (unsigned n = 0; n < 3; n++) {
        fill(f);
        rot(f, HEAD_CHUNKS, n);
        open_head(f);
        assert_conditions(f, "head_damaged: ", "rounds between ");
        assert_head(f, "a", "archive;put 100\nshop;buy 40\n");
        assert_head(f, "b", "shop;buy 10\n");
        assert_int_equal(flush(f), FG_OK);
        assert_committed(f, "a", "archive;put 100\nshop;buy 40\n");
        assert_committed(f, "b", "shop;buy 10\n");
        (void)tear_down(state);
        (void)set_up(state);
        f = *state;
    }
}

static uint64_t count_given_up(const struct head *head)
{
    static const char name[] = "\nflamegrid_ingester_profiles_given_up_total ";
    struct fg_buf text;
    const char *at;
    uint64_t count;

    fg_buf_init(&text, SIZE_MAX);
    fg_registry_write(head->registry, &text);
    fg_buf_putc(&text, '\0');
    at = strstr((const char *)text.ptr, name);
    assert_non_null(at);
    count = strtoull(at + sizeof name - 1, NULL, 10);
    fg_buf_done(&text);
    return count;
}

/* Wherever it is, also at the beginning of a chunk, where a start looks: the rest is served to
 * those who may take less, and a salvage commits it. */
static void rotten_profile_costs_itself(void **state)
{
    static const unsigned places[] = {0, 1, 5};
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(places); i++) {
        struct ing_head_profile_key key;
        const char *tenant, *left;

        print_message("  profile %u\n", places[i]);
        fill(f);
        rot(f, HEAD_PROFILES, places[i]);
        assert_true(ing_head_get_profile_key(f->faulty.damaged, &key));
        tenant = key.chunk.group.tenant == 0 ? "a" : "b";
        left = key.chunk.group.tenant == 1 ? ""
               : key.series == 2           ? "shop;buy 40\n"
                                           : "archive;put 100\nshop;buy 30\n";
        open_head(f);
        assert_lacking(f, tenant, left);
        assert_int_equal(flush(f), FG_E_CORRUPT);
        assert_conditions(f, "head_chunks_set_aside: ", "damaged block");
        commit_readable(f);
        assert_committed(f, tenant, left);
        assert_int_equal(count_given_up(&f->head), 1);
        (void)tear_down(state);
        (void)set_up(state);
        f = *state;
    }
}

/* However often the segment of a salvage has to be built: its profiles are given up once. */
static void given_up_profiles_are_counted_once(void **state)
{
    struct fixture *f = *state;

    for (uint64_t k = 1; k <= 3; k += 2) { /* the upload fails; the swap */
        struct fg_bucket_faulty *faulty =
            fg_bucket_faulty_create(f->bucket, &(struct fg_bucket_faults){.seed = k});

        fill(f);
        lose(f, HEAD_DICT, FG_LIT(""), 0);
        head_open_evicting(&f->head, f->store, fg_bucket_faulty_bucket(faulty), forever_ns);
        assert_int_equal(push(f, "a", true, "n", 50), FG_OK); /* can be read, in the same chunk */
        assert_int_equal(flush(f), FG_E_CORRUPT);
        assert_int_equal(count_given_up(&f->head), 0);
        fg_bucket_faulty_fail(faulty, k, false);
        salvage(f);
        assert_int_equal(count_given_up(&f->head), 4);
        head_close(&f->head);
        fg_bucket_close(fg_bucket_faulty_bucket(faulty));
        (void)tear_down(state);
        (void)set_up(state);
        f = *state;
    }
}

/* A series in two shards, since the tenant's spread became wider: one series of the segment. */
static void series_in_two_shards_becomes_one_in_the_segment(void **state)
{
    struct fixture *f = *state;
    struct head_profile profile = profile_of("a", true, "n", 0);

    open_head(f);
    for (int i = 0; i < 6; i++) { /* before and after, by turns in time */
        profile.narrow = i % 2 == 0;
        profile.time_ns = start_ns + i;
        assert_int_equal(head_push(&f->head, &profile, true).stored, 1);
    }
    assert_head(f, "a", "shop;buy 60\n");
    assert_int_equal(flush(f), FG_OK);
    assert_committed(f, "a", "shop;buy 60\n");
    assert_conditions(f, NULL, NULL);
}

static void delete_object(struct fixture *f, const char *name)
{
    struct fg_bucket_request remove = {.verb = FG_BUCKET_DELETE, .name = name};

    assert_int_equal(fg_bucket_call(f->bucket, &remove), FG_OK);
    fg_bucket_clear(&remove);
}

static bool is_there(struct fixture *f, const char *name)
{
    struct fg_bucket_request head = {.verb = FG_BUCKET_HEAD, .name = name};
    bool there = fg_bucket_call(f->bucket, &head) == FG_OK;

    fg_bucket_clear(&head);
    return there;
}

/* Where the L0 manifest is lost none is made that begins again: it would hide the segments.
 * Profiles are taken as before. */
static void lost_l0_manifest_is_not_recreated(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    fill(f);
    open_head(f);
    assert_int_equal(flush(f), FG_OK);
    close_head(f);
    delete_object(f, FG_NAME_L0);
    for (int segments = 1; segments >= 0; segments--) {
        open_head(f);
        assert_int_equal(push(f, "a", true, "n", 60 + segments), FG_OK);
        assert_int_equal(
            ing_flush(f->head.ingester, fg_mono_ns(fg_clock_real()) + 2 * FG_SECOND_NS, &err),
            FG_E_DEADLINE);
        assert_conditions(f, "commit_failing: ", "manifests/l0 is lost: generation 1 was known");
        assert_false(is_there(f, FG_NAME_L0));
        close_head(f);
        /* Without the segments the store still knows that there was one. */
        fg_bucket_close(f->bucket);
        f->bucket = fg_bucket_memory();
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(start_survives_a_tenant_whose_push_failed),
        TEST(profiles_without_tenant_record_are_kept_and_not_served),
        TEST(tenant_and_chunks_without_records_are_lacking),
        TEST(missing_service_is_rebuilt),
        TEST(profiles_of_a_lost_series_are_not_evicted),
        TEST(answers_are_complete_after_a_salvage),
        TEST(missing_head_chunk_is_rebuilt),
        TEST(missing_number_of_the_last_cut_is_restored),
        TEST(lost_dictionary_loses_only_profiles_that_name_it),
        TEST(rotten_series_cost_their_profiles),
        TEST(rotten_dictionary_costs_profiles_that_name_it),
        TEST(rotten_head_chunk_is_rebuilt),
        TEST(rotten_profile_costs_itself),
        TEST(given_up_profiles_are_counted_once),
        TEST(series_in_two_shards_becomes_one_in_the_segment),
        TEST(lost_l0_manifest_is_not_recreated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
