#include "common/cluster/usage/document.h"
#include "common/cluster/usage/documents.h"
#include "tests/lib/bucket_doubles.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

enum { DAY = 20784 };

struct fixture {
    struct fg_arena *arena;
    struct fg_bucket *bucket;
    struct fg_usage_documents documents;
};

static void open_it(struct fixture *f)
{
    f->arena = fg_arena_create(SIZE_MAX / 2);
    f->bucket = fg_bucket_memory();
    f->documents = (struct fg_usage_documents){
        .bucket = f->bucket, .clock = fg_clock_real(), .timeout_ns = FG_MINUTE_NS};
}

static void close_it(struct fixture *f)
{
    fg_bucket_close(f->bucket);
    fg_arena_destroy(f->arena);
}

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

/* Writes the version of a day that adds so many profiles of "shop" to the one before. */
static struct fg_usage_document put(struct fixture *f, int32_t day, uint64_t version, uint64_t n,
                                    const struct fg_usage_document *before)
{
    const struct fg_usage_row row = {FG_LIT("shop"), n, {n, n, n, n}, 1};
    struct fg_usage_day more = {.day = day};
    struct fg_usage_document document;
    struct fg_err err;

    assert_true(fg_usage_day_add_row(&more, &row, f->arena));
    must(fg_usage_document_next(before, FG_LIT(".acme"), version, &more, f->arena, &document, &err),
         &err);
    must(fg_usage_documents_write(&f->documents, &document, &err), &err);
    must(fg_usage_documents_write(&f->documents, &document, &err), &err); /* again is no error */
    return document;
}

static void the_newest_version_has_all(void **state)
{
    struct fixture f;
    struct fg_usage_document first, second, read;
    struct fg_usage_newest *newest;
    struct fg_err err;
    uint32_t n;

    (void)state;
    open_it(&f);
    first = put(&f, DAY, 1000, 5, NULL);
    second = put(&f, DAY, 2000, 7, &first);
    (void)put(&f, DAY + 1, 2000, 1, NULL);
    (void)put(&f, DAY + 400, 3000, 1, NULL);
    assert_int_equal(second.revision, 2);
    must(fg_usage_documents_list(&f.documents, FG_LIT(".acme"), DAY, DAY + 399, UINT64_MAX, f.arena,
                                 &newest, &n, &err),
         &err);
    assert_int_equal(n, 2);
    assert_int_equal(newest[0].day, DAY);
    assert_int_equal(newest[0].version, 2000);
    must(fg_usage_documents_read(&f.documents, FG_LIT(".acme"), DAY, 2000, f.arena, &read, &err),
         &err);
    assert_int_equal(read.before, 1000);
    assert_int_equal(read.sums.rows[0].profiles, 12);
    must(fg_usage_documents_list(&f.documents, FG_LIT(".acme"), DAY, DAY, 2000, f.arena, &newest,
                                 &n, &err),
         &err);
    assert_int_equal(n, 1); /* below a version that is being written */
    assert_int_equal(newest[0].version, 1000);
    must(fg_usage_documents_list(&f.documents, FG_LIT("acme"), 0, DAY, UINT64_MAX, f.arena, &newest,
                                 &n, &err),
         &err);
    assert_int_equal(n, 0); /* another tenant */
    close_it(&f);
}

/* Corrections that bring a full ledger of other services each, again and again. */
static void documents_are_bounded_and_lose_nothing(void **state)
{
    enum { SERVICES = 80, CORRECTIONS = 8, NAME_BYTES = 50000 }; /* names of 32 MB */
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_usage_document document, next;
    char name[NAME_BYTES + 1];
    struct fg_usage_row total;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    memset(name, 'x', sizeof name);
    fg_buf_init(&bytes, FG_USAGE_DOCUMENT_MAX_BYTES);
    for (uint64_t version = 1; version <= CORRECTIONS; version++) {
        struct fg_usage_day more = {.day = DAY};

        for (uint64_t i = 0; i < SERVICES; i++) {
            (void)snprintf(name, sizeof name, "%02u/%u", (unsigned)i, (unsigned)version);
            name[strlen(name)] = 'x';
            const struct fg_usage_row row = {
                fg_bytes(i == 0 ? "first" : name, i == 0 ? 5 : NAME_BYTES), 1, {1, 1, 1, 1}, 1};

            assert_true(fg_usage_day_add_row(&more, &row, arena));
        }
        must(fg_usage_document_next(version == 1 ? NULL : &document, FG_LIT("acme"), version, &more,
                                    arena, &next, &err),
             &err);
        document = next;
        fg_buf_clear(&bytes);
        must(fg_usage_document_encode(&document, &bytes, &err), &err);
        must(fg_usage_document_decode(fg_buf_slice(&bytes), FG_LIT("acme"), DAY, version, arena,
                                      &next, &err),
             &err);
    }
    total = fg_usage_day_total(&document.sums);
    assert_int_equal(total.profiles, SERVICES * CORRECTIONS);
    assert_int_equal(total.usage.raw_bytes, SERVICES * CORRECTIONS);
    assert_true(document.sums.rows[0].service.len == 0 && document.sums.rows[0].profiles > 0);
    assert_in_range(fg_usage_day_bytes(&document.sums), FG_USAGE_DOCUMENT_ROWS_MAX_BYTES / 2,
                    FG_USAGE_DOCUMENT_ROWS_MAX_BYTES + FG_USAGE_ROW_BYTES);
    for (uint32_t i = 0; i < document.sums.n_rows; i++)
        if (fg_slice_is(document.sums.rows[i].service, "first")) /* also when it is full */
            assert_int_equal(document.sums.rows[i].profiles, CORRECTIONS);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

/* Answers only once FG_USAGE_READS_MAX requests are under way, or the last ones. */
struct holding {
    struct fg_bucket bucket;
    struct fg_bucket *inner;
    struct fg_bucket_request *held[FG_USAGE_READS_MAX];
    uint32_t n_held, left;
};

static void holding_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct holding *holding = fg_container(bucket, struct holding, bucket);

    assert_true(holding->n_held < FG_USAGE_READS_MAX && holding->left > 0);
    holding->held[holding->n_held++] = request;
    holding->left--;
    if (holding->n_held < FG_USAGE_READS_MAX && holding->left > 0)
        return;
    for (; holding->n_held > 0; holding->n_held--) /* the last one first */
        fg_bucket_send(holding->inner, holding->held[holding->n_held - 1]);
}

static const struct fg_bucket_ops holding_ops = {.send = holding_send};

/* Answers on other threads, later, and notes how many requests are under way at most. */
struct slow {
    struct fg_bucket bucket;
    struct fg_bucket *inner;
    atomic_uint under_way;
    unsigned most;
};

static void *answer_later(void *arg)
{
    struct fg_bucket_request *request = arg;
    struct slow *slow = fg_container(request->bucket, struct slow, bucket);

    (void)usleep(200);
    atomic_fetch_sub(&slow->under_way, 1);
    fg_bucket_send(slow->inner, request);
    return NULL;
}

static void slow_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct slow *slow = fg_container(bucket, struct slow, bucket);
    unsigned under_way = atomic_fetch_add(&slow->under_way, 1) + 1;
    pthread_t thread;

    slow->most = FG_MAX(slow->most, under_way);
    assert_int_equal(pthread_create(&thread, NULL, answer_later, request), 0);
    assert_int_equal(pthread_detach(thread), 0);
}

static const struct fg_bucket_ops slow_ops = {.send = slow_send};

static enum fg_code check_some(void *arg, struct fg_err *err)
{
    uint32_t *left = arg;

    return (*left)-- == 0 ? fg_fail(err, FG_E_CANCELED, "enough") : FG_OK;
}

static void documents_are_read_in_waves(void **state)
{
    enum { DAYS = 100 };
    struct fixture f;
    struct fg_usage_newest *newest;
    struct fg_usage_reading readings[DAYS];
    uint32_t n, checks = UINT32_MAX;
    struct fg_err err;

    (void)state;
    open_it(&f);
    for (int32_t i = 0; i < DAYS; i++)
        (void)put(&f, DAY + i, 1000 + (uint64_t)i, (uint64_t)i + 1, NULL);
    must(fg_usage_documents_list(&f.documents, FG_LIT(".acme"), DAY, DAY + DAYS, UINT64_MAX,
                                 f.arena, &newest, &n, &err),
         &err);
    assert_int_equal(n, DAYS);
    for (uint32_t i = 0; i < DAYS; i++) {
        assert_true(newest[i].size_bytes > 0);
        readings[i] = (struct fg_usage_reading){.tenant = FG_LIT(".acme"), .newest = newest[i]};
    }
    struct holding holding = {.bucket.ops = &holding_ops, .inner = f.bucket, .left = DAYS};
    f.documents.bucket = &holding.bucket;
    must(fg_usage_documents_read_all(&f.documents, readings, DAYS, f.arena, check_some, &checks,
                                     &err),
         &err);
    for (uint32_t i = 0; i < DAYS; i++) {
        assert_int_equal(readings[i].document.sums.day, DAY + (int32_t)i);
        assert_int_equal(readings[i].document.sums.rows[0].profiles, i + 1);
    }

    f.documents.bucket = f.bucket;
    checks = 20;
    assert_int_equal(fg_usage_documents_read_all(&f.documents, readings, DAYS, f.arena, check_some,
                                                 &checks, &err),
                     FG_E_CANCELED);
    checks = UINT32_MAX;
    readings[50].newest.version++; /* there is none */
    assert_int_equal(fg_usage_documents_read_all(&f.documents, readings, DAYS, f.arena, check_some,
                                                 &checks, &err),
                     FG_E_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/0000001051"));
    /* Large ones are read one at a time. */
    readings[50].newest.version--;
    for (uint32_t i = 0; i < DAYS; i++)
        readings[i].newest.size_bytes = FG_USAGE_READS_MAX_BYTES;
    struct slow slow = {.bucket.ops = &slow_ops, .inner = f.bucket};
    f.documents.bucket = &slow.bucket;
    must(fg_usage_documents_read_all(&f.documents, readings, DAYS, f.arena, check_some, &checks,
                                     &err),
         &err);
    assert_int_equal(slow.most, 1);
    close_it(&f);
}

static void a_document_is_that_of_its_name(void **state)
{
    struct fixture f;
    struct fg_usage_document first, read;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    open_it(&f);
    first = put(&f, DAY, 1000, 5, NULL);
    fg_buf_init(&bytes, FG_USAGE_DOCUMENT_MAX_BYTES);
    must(fg_usage_document_encode(&first, &bytes, &err), &err);
    must(fg_usage_document_decode(fg_buf_slice(&bytes), FG_LIT(".acme"), DAY, 1000, f.arena, &read,
                                  &err),
         &err);
    assert_int_equal(fg_usage_document_decode(fg_buf_slice(&bytes), FG_LIT("zoo"), DAY, 1000,
                                              f.arena, &read, &err),
                     FG_E_CORRUPT);
    assert_int_equal(fg_usage_document_decode(fg_buf_slice(&bytes), FG_LIT(".acme"), DAY + 1, 1000,
                                              f.arena, &read, &err),
                     FG_E_CORRUPT);
    assert_int_equal(fg_usage_document_decode(fg_buf_slice(&bytes), FG_LIT(".acme"), DAY, 1001,
                                              f.arena, &read, &err),
                     FG_E_CORRUPT);
    for (size_t at = 0; at < bytes.len; at++) {
        bytes.ptr[at] ^= 1;
        assert_int_not_equal(fg_usage_document_decode(fg_buf_slice(&bytes), FG_LIT(".acme"), DAY,
                                                      1000, f.arena, &read, &err),
                             FG_OK);
        bytes.ptr[at] ^= 1;
    }
    assert_int_equal(
        fg_usage_documents_read(&f.documents, FG_LIT(".acme"), DAY, 999, f.arena, &read, &err),
        FG_E_NOT_FOUND);
    fg_buf_done(&bytes);
    close_it(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_version_has_all),
        cmocka_unit_test(documents_are_bounded_and_lose_nothing),
        cmocka_unit_test(documents_are_read_in_waves),
        cmocka_unit_test(a_document_is_that_of_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
