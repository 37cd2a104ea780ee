/* Counts of queries on their way to the bucket: nothing is lost while the bucket is away or the
 * process starts again, and nothing counts twice. */
#include "common/base/envelope.h"
#include "common/cluster/manifest/name.h"
#include "common/runtime/log.h"
#include "querier/usage_counts.h"
#include "tests/lib/bucket_doubles.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { TODAY = 20784 };

/* A bucket that can be away, and answers of whose puts can be lost. */
struct away {
    struct fg_bucket bucket;
    struct fg_bucket *inner;
    bool away, loses_answers;
};

static void away_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct away *away = fg_container(bucket, struct away, bucket);

    if (away->loses_answers && request->verb == FG_BUCKET_PUT) {
        struct fg_bucket_request put = {.verb = FG_BUCKET_PUT,
                                        .name = request->name,
                                        .content = request->content,
                                        .condition = request->condition};

        (void)fg_bucket_call(away->inner, &put);
        fg_bucket_clear(&put);
    }
    if (!away->away && !(away->loses_answers && request->verb == FG_BUCKET_PUT)) {
        fg_bucket_send(away->inner, request);
        return;
    }
    request->code = fg_fail(&request->err, FG_E_UNAVAILABLE, "the bucket is away");
    request->done(request);
}

static void away_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    (void)bucket;
    (void)request;
}

static const struct fg_bucket_ops away_ops = {away_send, away_cancel, NULL};

struct fixture {
    struct away away;
    struct fg_clock_manual clock;
    struct fg_registry *registry;
    struct qry_usage_counts_config config;
    struct qry_usage_counts *counts;
    char spool[64];
};

static void start(struct fixture *f)
{
    struct fg_err err;

    if (qry_usage_counts_create(&f->config, &f->counts, &err) != FG_OK)
        fail_msg("%s", err.msg);
}

static void open_it(struct fixture *f, bool spools)
{
    *f = (struct fixture){.away = {.bucket = {.ops = &away_ops}, .inner = fg_bucket_memory()}};
    fg_clock_manual_init(&f->clock, (int64_t)TODAY * FG_USAGE_DAY_NS + FG_HOUR_NS);
    f->registry = fg_registry_create();
    (void)snprintf(f->spool, sizeof f->spool, "/tmp/usage_counts_test_XXXXXX");
    assert_non_null(mkdtemp(f->spool));
    /* Its ticker does not tick within a test: what is tested happens at the end, or at the start
     * of the next process. */
    f->config = (struct qry_usage_counts_config){.bucket = &f->away.bucket,
                                                 .clock = &f->clock.clock,
                                                 .registry = f->registry,
                                                 .spool = spools ? f->spool : NULL,
                                                 .interval_ns = FG_HOUR_NS};
    start(f);
}

static void stop(struct fixture *f)
{
    qry_usage_counts_destroy(f->counts);
    f->counts = NULL;
}

static uint64_t files_in(const char *path)
{
    DIR *folder = opendir(path);
    uint64_t n = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        n++;
    (void)closedir(folder);
    return n - 2; /* . and .. */
}

static void close_it(struct fixture *f)
{
    stop(f);
    assert_int_equal(rmdir(f->spool), 0);
    fg_registry_destroy(f->registry);
    fg_bucket_close(f->away.inner);
}

static void ask(struct fixture *f, const char *tenant)
{
    qry_usage_counts_add(f->counts, fg_cstr(tenant), &(struct fg_usage_queries){1, 2, 3, 4});
}

struct summing {
    struct fixture *f;
    struct fg_query_counts counts;
    struct fg_arena *arena;
    int32_t day;
};

static bool sum_object(const struct fg_bucket_entry *entry, void *arg)
{
    struct summing *summing = arg;
    struct fg_bucket_request get = {
        .verb = FG_BUCKET_GET, .name = entry->name, .content_max_bytes = SIZE_MAX};
    struct fg_query_counts_name name;
    struct fg_err err;

    assert_true(fg_name_parse_query_counts(fg_cstr(entry->name), &name));
    summing->day = name.day;
    assert_int_equal(fg_bucket_call(summing->f->away.inner, &get), FG_OK);
    assert_int_equal(fg_query_counts_add_encoded(&summing->counts, fg_buf_slice(&get.body),
                                                 summing->arena, &err),
                     FG_OK);
    fg_bucket_clear(&get);
    return true;
}

/* Returns how many queries of the tenant the bucket has, and under which day. */
static uint64_t in_bucket(struct fixture *f, const char *tenant, int32_t *ret_day)
{
    struct summing summing = {.f = f, .arena = fg_arena_create(1 << 20), .day = -1};
    const struct fg_query_count *found;
    struct fg_err err;
    uint64_t n;

    assert_int_equal(
        fg_bucket_each(f->away.inner, FG_NAME_QUERY_COUNTS, false, 0, sum_object, &summing, &err),
        FG_OK);
    found = fg_query_counts_find(&summing.counts, fg_cstr(tenant));
    n = found == NULL ? 0 : found->queries.queries;
    *ret_day = summing.day;
    fg_arena_destroy(summing.arena);
    return n;
}

static void a_stop_writes_what_was_counted(void **state)
{
    int32_t day;

    for (int spools = 0; spools < 2; spools++) {
        struct fixture f;

        (void)state;
        open_it(&f, spools == 1);
        ask(&f, "acme");
        ask(&f, "zoo");
        ask(&f, "acme");
        stop(&f);
        assert_int_equal(in_bucket(&f, "acme", &day), 2);
        assert_int_equal(day, TODAY);
        assert_int_equal(in_bucket(&f, "zoo", &day), 1);
        assert_int_equal(files_in(f.spool), 0);
        close_it(&f);
    }
}

static void nothing_is_lost_while_the_bucket_is_away(void **state)
{
    struct fixture f;
    int32_t day;

    (void)state;
    open_it(&f, true);
    for (int run = 0; run < 3; run++) {
        ask(&f, "acme");
        f.away.away = true;
        stop(&f);
        assert_int_equal(files_in(f.spool), run + 1);
        start(&f);
    }
    assert_int_equal(in_bucket(&f, "acme", &day), 0);
    f.away.away = false;
    f.config.interval_ns = FG_MS_NS; /* its ticker comes at once */
    stop(&f);
    start(&f);
    for (int i = 0; i < 10000 && files_in(f.spool) > 0; i++)
        usleep(1000);
    assert_int_equal(in_bucket(&f, "acme", &day), 3);
    assert_int_equal(day, TODAY);
    close_it(&f);
}

/* It was written under its first day, whose sums may be in documents by now: not again under
 * another one. */
static void a_lost_answer_counts_once(void **state)
{
    struct fixture f;
    int32_t day;

    (void)state;
    open_it(&f, true);
    ask(&f, "acme");
    f.away.loses_answers = true;
    stop(&f);
    assert_int_equal(files_in(f.spool), 1);
    f.away.loses_answers = false;
    fg_clock_manual_advance(&f.clock, 2 * FG_USAGE_DAY_NS);
    f.config.interval_ns = FG_MS_NS;
    start(&f);
    for (int i = 0; i < 10000 && files_in(f.spool) > 0; i++)
        usleep(1000);
    assert_int_equal(in_bucket(&f, "acme", &day), 1);
    assert_int_equal(day, TODAY);
    close_it(&f);
}

static void late_counts_are_of_another_day(void **state)
{
    struct fixture f;
    int32_t day;

    (void)state;
    open_it(&f, true);
    ask(&f, "acme");
    f.away.away = true;
    stop(&f);
    f.away.away = false;
    fg_clock_manual_advance(&f.clock, FG_USAGE_DAY_NS); /* 01:00: the day is closed */
    f.config.interval_ns = FG_MS_NS;
    start(&f);
    for (int i = 0; i < 10000 && files_in(f.spool) > 0; i++)
        usleep(1000);
    assert_int_equal(in_bucket(&f, "acme", &day), 1);
    assert_int_equal(day, TODAY + 1);
    close_it(&f);
}

static void put_file(const char *path, struct fg_slice bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0 && write(fd, bytes.ptr, bytes.len) == (ssize_t)bytes.len && close(fd) == 0);
}

/* Left by a crash, or by somebody. */
static void damaged_files_are_no_obstacle(void **state)
{
    static const char *const names[] = {
        "usage+queries+2026-11-27+0000000000000001-0000000000000001", "something.else"};
    struct fixture f;
    char path[256];
    int32_t day;

    (void)state;
    open_it(&f, true);
    stop(&f);
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", f.spool, names[i]);
        put_file(path, FG_LIT("FGUQ"));
    }
    f.config.interval_ns = FG_MS_NS;
    start(&f);
    ask(&f, "acme");
    for (int i = 0; i < 10000 && files_in(f.spool) > 1; i++)
        usleep(1000);
    stop(&f);
    assert_int_equal(in_bucket(&f, "acme", &day), 1);
    assert_int_equal(files_in(f.spool), 1); /* what is not ours stays */
    assert_int_equal(unlink(path), 0);
    close_it(&f);
}

/* Left by a newer version, of another format or with more in it, before somebody went back to this
 * one. */
static void files_of_newer_versions_are_kept(void **state)
{
    static const char *const names[] = {
        "usage+queries+2026-11-27+0000000000000001-0000000000000001",
        "usage+queries+2026-11-27+0000000000000001-0000000000000002"};
    static const struct fg_envelope newer = {"newer counts", "FGUQ", 200, SIZE_MAX};
    struct fixture f;
    char path[256];
    struct fg_err err;
    int32_t day;

    (void)state;
    open_it(&f, true);
    stop(&f);
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        struct fg_buf bytes;

        fg_buf_init(&bytes, SIZE_MAX);
        fg_envelope_begin(&newer, &bytes);
        for (size_t k = 0; k < i * FG_QUERY_COUNTS_MAX_BYTES + 10; k++)
            fg_buf_putc(&bytes, 7);
        assert_int_equal(fg_envelope_end(&newer, &bytes, 0, &err), FG_OK);
        (void)snprintf(path, sizeof path, "%s/%s", f.spool, names[i]);
        put_file(path, fg_buf_slice(&bytes));
        fg_buf_done(&bytes);
    }
    /* Once this one is gone, all have been looked at. */
    (void)snprintf(path, sizeof path, "%s/%.*s3", f.spool, (int)strlen(names[0]) - 1, names[0]);
    put_file(path, FG_LIT("FGUQ"));
    f.config.interval_ns = FG_MS_NS;
    start(&f);
    ask(&f, "acme");
    for (int i = 0; i < 10000 && files_in(f.spool) > FG_COUNT(names); i++)
        usleep(1000);
    stop(&f);
    assert_int_equal(in_bucket(&f, "acme", &day), 1); /* they are no obstacle either */
    assert_int_equal(files_in(f.spool), FG_COUNT(names));
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", f.spool, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    close_it(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_writes_what_was_counted),
        cmocka_unit_test(nothing_is_lost_while_the_bucket_is_away),
        cmocka_unit_test(a_lost_answer_counts_once),
        cmocka_unit_test(late_counts_are_of_another_day),
        cmocka_unit_test(damaged_files_are_no_obstacle),
        cmocka_unit_test(files_of_newer_versions_are_kept),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
