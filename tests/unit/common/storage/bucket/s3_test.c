/* S3 when things go wrong: lost answers, refusals, cut bodies, stores that pass over conditions,
 * keys that end. The store is tests/lib/fake_s3.h; the suite every bucket passes is bucket_test.c.
 */
#include "common/storage/bucket/s3.h"
#include "tests/lib/fake_s3.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { PART_BYTES = 1024 };

struct fixture {
    struct fake_s3 *store;
    struct fg_bucket *bucket;
    struct fg_registry *registry;
    struct fg_bucket_request request; /* the last one */
    char token_file[64], endpoint[64], sts[80];
};

/* ---- the bucket ---- */

static struct fg_bucket_s3_config plain(struct fixture *f)
{
    return (struct fg_bucket_s3_config){
        .endpoint = f->endpoint,
        .region = "us-east-1",
        .bucket = "flamegrid",
        .prefix = "p",
        .path_style = true,
        .keys.access_key = "key",
        .keys.secret_key = "secret",
        .connect_timeout_ns = 2 * FG_SECOND_NS,
        .timeout_ns = 10 * FG_SECOND_NS,
        .tries_max = 3,
        .backoff_ns = FG_MS_NS,
        .requests_max = 8,
        .waiting_max = 100,
        .part_bytes = PART_BYTES,
        .parts_at_once = 2,
        .registry = f->registry,
    };
}

static void open_bucket(struct fixture *f, const struct fg_bucket_s3_config *config)
{
    struct fg_err err;

    fg_bucket_close(f->bucket);
    f->bucket = NULL;
    if (fg_bucket_s3_open(config, &f->bucket, &err) != FG_OK)
        fail_msg("%s", err.msg);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    int fd;

    f->store = fake_s3_start();
    f->registry = fg_registry_create();
    (void)snprintf(f->endpoint, sizeof f->endpoint, "http://127.0.0.1:%u", fake_s3_port(f->store));
    (void)snprintf(f->sts, sizeof f->sts, "%s/", f->endpoint);
    (void)snprintf(f->token_file, sizeof f->token_file, "/tmp/flamegrid-test.XXXXXX");
    fd = mkstemp(f->token_file);
    assert_true(fd >= 0 && write(fd, "good.token\n", 11) == 11);
    (void)close(fd);
    const struct fg_bucket_s3_config config = plain(f);
    open_bucket(f, &config);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_bucket_clear(&f->request);
    fg_bucket_close(f->bucket);
    fake_s3_stop(f->store);
    fg_registry_destroy(f->registry);
    (void)unlink(f->token_file);
    free(f);
    return 0;
}

/* ---- words the tests are written in ---- */

static struct fg_bucket_request *ask(struct fixture *f, const struct fg_bucket_request *request,
                                     enum fg_code wanted)
{
    fg_bucket_clear(&f->request);
    f->request = *request;
    if (fg_bucket_call(f->bucket, &f->request) != wanted)
        fail_msg("%s: %s, not %s", f->request.err.msg, fg_code_name(f->request.code),
                 fg_code_name(wanted));
    return &f->request;
}

/* parts: in parts, else in one piece. */
static struct fg_bucket_request *put(struct fixture *f, const char *content, bool parts,
                                     enum fg_bucket_condition condition, const char *etag,
                                     enum fg_code wanted)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT,
                                        .name = "a",
                                        .content = fg_cstr(content),
                                        .in_parts = parts,
                                        .condition = condition};

    if (etag != NULL)
        (void)snprintf(request.if_etag.text, sizeof request.if_etag.text, "%s", etag);
    return ask(f, &request, wanted);
}

static struct fg_bucket_request *put_if_absent(struct fixture *f, bool parts, enum fg_code wanted)
{
    return put(f, "mine", parts, FG_BUCKET_IF_ABSENT, NULL, wanted);
}

static struct fg_bucket_request *get(struct fixture *f, enum fg_code wanted)
{
    return ask(f,
               &(struct fg_bucket_request){
                   .verb = FG_BUCKET_GET, .name = "a", .content_max_bytes = 100000},
               wanted);
}

/* content NULL: it is not there. */
static void expect_stored(struct fixture *f, const char *content)
{
    struct fg_buf out;

    fg_buf_init(&out, SIZE_MAX);
    assert_int_equal(fake_s3_get(f->store, "p/a", &out), content != NULL);
    if (content != NULL)
        assert_true(fg_slice_is(fg_buf_slice(&out), content));
    fg_buf_done(&out);
}

/* What is left over is aborted after the request has ended. */
static void expect_no_uploads(struct fixture *f)
{
    while (fake_s3_uploads(f->store) > 0)
        (void)usleep(1000);
}

/* What makes the object, of either way to put. */
static const char *last_call(bool parts)
{
    return parts ? "?uploadId=" : "PUT /flamegrid/p/a ";
}

static void expect_metric(struct fixture *f, const char *line)
{
    struct fg_buf text;

    fg_buf_init(&text, 1 << 20);
    fg_registry_write(f->registry, &text);
    fg_buf_putc(&text, '\0');
    if (strstr((const char *)text.ptr, line) == NULL)
        fail_msg("no %s in %s", line, (const char *)text.ptr);
    fg_buf_done(&text);
}

/* ---- lost answers: the heart of it ---- */

static void a_lost_answer_is_no_refusal(void **state)
{
    static const enum fake_fault faults[] = {FAULT_LOSE, FAULT_500_DONE, FAULT_CUT};
    struct fixture *f = *state;

    for (size_t i = 0; i < 2 * FG_COUNT(faults); i++) {
        bool parts = i % 2 == 1;
        struct fg_bucket_request delete = {.verb = FG_BUCKET_DELETE, .name = "a"};

        if (faults[i / 2] == FAULT_CUT && !parts)
            continue; /* it has no body */
        (void)ask(f, &delete, FG_OK);
        fake_s3_fail(f->store, last_call(parts), faults[i / 2], 1);
        /* The second try hears 412, or that there is no such upload: it is ours. */
        const struct fg_bucket_request *done = put_if_absent(f, parts, FG_OK);
        assert_true(done->etag.text[0] != '\0' && done->size_bytes == 4 && !done->unsure);
        char etag[FG_BUCKET_ETAG_BYTES];
        (void)snprintf(etag, sizeof etag, "%s", done->etag.text);
        expect_stored(f, "mine");
        assert_string_equal(get(f, FG_OK)->etag.text, etag);
        fake_s3_fail(f->store, last_call(parts), faults[i / 2], 1);
        (void)put(f, parts ? "next parts" : "next", parts, FG_BUCKET_IF_MATCH, etag, FG_OK);
        expect_no_uploads(f);
    }
}

/* Done, lost, and then another came: nobody can tell, so nobody says that it was not done. */
static void a_lost_answer_to_a_replaced_object_is_unsure(void **state)
{
    static const enum fake_fault faults[] = {FAULT_LOSE_REPLACED, FAULT_LOSE_DELETED};
    struct fixture *f = *state;

    for (size_t i = 0; i < 2 * FG_COUNT(faults); i++) {
        bool parts = i % 2 == 1;

        fake_s3_put(f->store, "p/a", "before");
        char etag[FG_BUCKET_ETAG_BYTES];
        (void)snprintf(etag, sizeof etag, "%s", get(f, FG_OK)->etag.text);
        fake_s3_fail(f->store, last_call(parts), faults[i / 2], 1);
        const struct fg_bucket_request *lost =
            put(f, "mine", parts, FG_BUCKET_IF_MATCH, etag, FG_E_UNAVAILABLE);
        assert_true(lost->unsure);
        expect_no_uploads(f);
    }
}

static void a_refusal_is_certain(void **state)
{
    struct fixture *f = *state;

    fake_s3_put(f->store, "p/a", "another's");
    for (unsigned parts = 0; parts < 2; parts++) {
        assert_false(put_if_absent(f, parts, FG_E_PRECONDITION)->unsure);
        assert_false(put(f, "x", parts, FG_BUCKET_IF_MATCH, "stale", FG_E_PRECONDITION)->unsure);
        /* Tries that certainly did nothing do not make it less certain. */
        fake_s3_fail(f->store, last_call(parts), FAULT_503, 1);
        assert_false(put_if_absent(f, parts, FG_E_PRECONDITION)->unsure);
        expect_no_uploads(f);
    }
    expect_stored(f, "another's");
}

/* The request did not arrive, but who sent it cannot know: the second try says so. */
static void after_a_reset_the_next_try_counts(void **state)
{
    struct fixture *f = *state;

    for (unsigned parts = 0; parts < 2; parts++) {
        struct fg_bucket_request delete = {.verb = FG_BUCKET_DELETE, .name = "a"};

        fake_s3_fail(f->store, last_call(parts), FAULT_RESET, 1);
        (void)put_if_absent(f, parts, FG_OK);
        expect_stored(f, "mine");
        (void)ask(f, &delete, FG_OK);
        /* A stranger's object, and an answer lost before: unsure. */
        fake_s3_put(f->store, "p/a", "another's");
        fake_s3_fail(f->store, last_call(parts), FAULT_RESET, 1);
        assert_true(put_if_absent(f, parts, FG_E_UNAVAILABLE)->unsure);
        (void)ask(f, &delete, FG_OK);
    }
}

static void all_answers_lost(void **state)
{
    struct fixture *f = *state;

    /* Done, and found by looking once all tries were used up. */
    fake_s3_fail(f->store, "PUT /", FAULT_500_DONE, 3);
    (void)put_if_absent(f, false, FG_OK);
    expect_stored(f, "mine");
    /* Not done: nobody knows whether it is still on its way. */
    fake_s3_fail(f->store, "PUT /", FAULT_502, 3);
    assert_true(put(f, "x", false, FG_BUCKET_ALWAYS, NULL, FG_E_UNAVAILABLE)->unsure);
    expect_stored(f, "mine");
}

static void nothing_sent_is_not_unsure(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_s3_config config = plain(f);

    config.endpoint = "http://127.0.0.1:1"; /* nobody listens */
    open_bucket(f, &config);
    assert_false(put_if_absent(f, false, FG_E_UNAVAILABLE)->unsure);
    assert_false(put_if_absent(f, true, FG_E_UNAVAILABLE)->unsure);
}

/* A kept connection that has died: libcurl would send again by itself, and hear 412 of its own. */
static void conditional_puts_go_over_new_connections(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 5; i++) {
        struct fg_bucket_request delete = {.verb = FG_BUCKET_DELETE, .name = "a"};

        (void)get(f, FG_E_NOT_FOUND); /* a connection that is kept */
        fake_s3_fail(f->store, "PUT /", FAULT_LOSE_REPLACED, 1);
        assert_true(put_if_absent(f, false, FG_E_UNAVAILABLE)->unsure);
        (void)ask(f, &delete, FG_OK);
    }
}

static void deletes_that_are_lost(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_request delete = {
        .verb = FG_BUCKET_DELETE, .name = "a", .condition = FG_BUCKET_IF_MATCH};

    fake_s3_put(f->store, "p/a", "one");
    delete.if_etag = get(f, FG_OK)->etag;
    fake_s3_fail(f->store, "DELETE /", FAULT_LOSE, 1);
    (void)ask(f, &delete, FG_OK);
    fake_s3_put(f->store, "p/a", "one");
    fake_s3_fail(f->store, "DELETE /", FAULT_LOSE_REPLACED, 1);
    assert_true(ask(f, &delete, FG_E_UNAVAILABLE)->unsure);
    assert_false(ask(f, &delete, FG_E_PRECONDITION)->unsure);
}

/* Its own clock's, whatever ours says; and of an object that has not changed as well. */
static void gets_say_when(void **state)
{
    const int64_t store_s = 1709210106; /* what the store answers: 29 February 2024, 12:35:06 UTC */
    struct fixture *f = *state;
    struct fg_bucket_request again = {.verb = FG_BUCKET_GET,
                                      .name = "a",
                                      .content_max_bytes = 100,
                                      .condition = FG_BUCKET_IF_CHANGED};

    fake_s3_put(f->store, "p/a", "one");
    again.if_etag = get(f, FG_OK)->etag;
    assert_int_equal(f->request.answered_wall_ns, store_s * FG_SECOND_NS);
    assert_true(ask(f, &again, FG_OK)->unchanged);
    assert_int_equal(f->request.answered_wall_ns, store_s * FG_SECOND_NS);
}

/* ---- tries ---- */

static void tries_again(void **state)
{
    static const enum fake_fault faults[] = {FAULT_502,      FAULT_503,   FAULT_409,
                                             FAULT_500_DONE, FAULT_RESET, FAULT_LOSE};
    struct fixture *f = *state;

    fake_s3_put(f->store, "p/a", "content");
    for (size_t i = 0; i < FG_COUNT(faults); i++) {
        fake_s3_fail(f->store, "GET /flamegrid/p/a", faults[i], 2);
        assert_true(fg_slice_is(fg_buf_slice(&get(f, FG_OK)->body), "content"));
        if (faults[i] != FAULT_500_DONE)
            continue;
        /* Up to here, as libcurl has a try of its own after what breaks a kept connection. */
        expect_metric(f, "\nflamegrid_bucket_retries_total 8\n");
        expect_metric(f, "\nflamegrid_bucket_store_requests_total{class=\"B\"} 12\n");
        expect_metric(f, "\nflamegrid_bucket_requests_total{op=\"get\"} 4\n");
    }
    expect_metric(f, "\nflamegrid_bucket_errors_total{op=\"get\"} 0\n");
    fake_s3_fail(f->store, "GET /flamegrid/p/a", FAULT_503, 3);
    assert_non_null(strstr(get(f, FG_E_UNAVAILABLE)->err.msg, "get a: http://127.0.0.1"));
    assert_non_null(strstr(f->request.err.msg, "503 SlowDown: as the test wants"));
    expect_metric(f, "\nflamegrid_bucket_errors_total{op=\"get\"} 1\n");
}

static void does_not_try_again_what_is_final(void **state)
{
    struct fixture *f = *state;

    (void)get(f, FG_E_NOT_FOUND);
    fake_s3_fail(f->store, "GET /flamegrid/p/a", FAULT_403, 1);
    (void)get(f, FG_E_DENIED);
    fake_s3_fail(f->store, "GET /flamegrid/p/a", FAULT_EXPIRED, 1);
    (void)get(f, FG_E_DENIED); /* keys that are given once do not get better */
    assert_int_equal(fake_s3_count(f->store, "GET /"), 3);
    fake_s3_fail(f->store, "PUT /", FAULT_FULL, 1);
    assert_false(put_if_absent(f, false, FG_E_NO_SPACE)->unsure);
    assert_int_equal(fake_s3_count(f->store, "PUT /"), 1);
}

/* A store in trouble: first the saved tries are used up, then each request is one. */
static void has_a_budget_of_tries(void **state)
{
    struct fixture *f = *state;
    int64_t begun_ns = fg_mono_ns(fg_clock_real()), took_s;
    unsigned asked;

    fake_s3_fail(f->store, "HEAD /", FAULT_503, 1000);
    for (unsigned i = 0; i < 150; i++) {
        struct fg_bucket_request head = {.verb = FG_BUCKET_HEAD, .name = "a"};

        (void)ask(f, &head, FG_E_UNAVAILABLE);
    }
    asked = fake_s3_count(f->store, "HEAD /");
    took_s = (fg_mono_ns(fg_clock_real()) - begun_ns) / FG_SECOND_NS + 1;
    /* 150, 100 saved up, two a second, and a tenth for each answer. */
    assert_in_range(asked, 250, 250 + 2 * took_s + 30);
}

static void keeps_deadlines(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_s3_config config = plain(f);
    int64_t now_ns = fg_mono_ns(fg_clock_real());
    struct fg_bucket_request request = {.verb = FG_BUCKET_GET,
                                        .name = "a",
                                        .content_max_bytes = 10,
                                        .deadline_mono_ns = now_ns + 50 * FG_MS_NS};

    config.timeout_ns = FG_SECOND_NS / 2;
    open_bucket(f, &config);
    fake_s3_fail(f->store, " /flamegrid/p/a", FAULT_SILENT, 100);
    (void)ask(f, &request, FG_E_DEADLINE);
    request.verb = FG_BUCKET_PUT;
    request.deadline_mono_ns = fg_mono_ns(fg_clock_real()) + 50 * FG_MS_NS;
    assert_true(ask(f, &request, FG_E_DEADLINE)->unsure);
    (void)ask(f, &request, FG_E_DEADLINE); /* it has passed already */
    assert_false(f->request.unsure);
    /* A try has its own: here the second one would have been answered, and the third one is. */
    request.deadline_mono_ns = 0;
    (void)ask(f, &request, FG_E_UNAVAILABLE);
    assert_true(fg_mono_ns(fg_clock_real()) - now_ns > FG_SECOND_NS);
}

static void can_be_cancelled(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_bucket_wave) *wave = fg_bucket_wave_create();
    struct fg_bucket_request requests[4] = {
        {.verb = FG_BUCKET_GET, .name = "a", .content_max_bytes = 10},
        {.verb = FG_BUCKET_HEAD, .name = "a"},
        {.verb = FG_BUCKET_PUT, .name = "a"},
        {.verb = FG_BUCKET_LIST, .name = ""},
    };

    fake_s3_fail(f->store, " /flamegrid", FAULT_SILENT, 100);
    for (size_t i = 0; i < FG_COUNT(requests); i++)
        fg_bucket_wave_send(wave, f->bucket, &requests[i]);
    while (fake_s3_count(f->store, " /flamegrid") < FG_COUNT(requests))
        (void)usleep(1000);
    fg_bucket_wave_cancel(wave);
    while (fg_bucket_wave_next(wave) != NULL)
        continue;
    for (size_t i = 0; i < FG_COUNT(requests); i++)
        assert_int_equal(requests[i].code, FG_E_CANCELED);
    assert_true(requests[2].unsure);
}

static void refuses_more_than_may_wait(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_bucket_wave) *wave = fg_bucket_wave_create();
    struct fg_bucket_request requests[150] = {0};
    unsigned refused = 0, ended;

    fake_s3_fail(f->store, "GET /", FAULT_SILENT, 1000);
    for (size_t i = 0; i < FG_COUNT(requests); i++) {
        requests[i] = (struct fg_bucket_request){.verb = FG_BUCKET_GET, .name = "a"};
        fg_bucket_wave_send(wave, f->bucket, &requests[i]);
    }
    for (; refused < 150 - 108; refused++)
        assert_int_equal(fg_bucket_wave_next(wave)->code, FG_E_LIMIT);
    fg_bucket_wave_cancel(wave);
    for (ended = 0; fg_bucket_wave_next(wave) != NULL; ended++)
        continue;
    assert_int_equal(ended, 108);
}

/* ---- answers that are none ---- */

static void notices_what_is_cut_short(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_request range = {
        .verb = FG_BUCKET_GET, .name = "a", .offset = 2, .length = 3, .content_max_bytes = 3};

    fake_s3_put(f->store, "p/a", "0123456789");
    fake_s3_fail(f->store, "GET /flamegrid/p/a", FAULT_CUT, 1);
    assert_true(fg_slice_is(fg_buf_slice(&get(f, FG_OK)->body), "0123456789"));
    fake_s3_fail(f->store, "GET /flamegrid/p/a", FAULT_CUT, 3);
    assert_int_equal(get(f, FG_E_UNAVAILABLE)->body.len, 0);
    fake_s3_fail(f->store, "GET /flamegrid/p/a", FAULT_OTHER_RANGE, 1);
    assert_int_equal(ask(f, &range, FG_E_CORRUPT)->body.len, 0);
    fake_s3_fail(f->store, "GET /flamegrid/p/a", FAULT_NO_ETAG, 1);
    (void)get(f, FG_E_CORRUPT);
    fake_s3_set(f->store, &(struct fake_s3_rules){.no_ranges = true});
    (void)ask(f, &range, FG_E_UNIMPLEMENTED);
    range.content_max_bytes = 100;
    (void)ask(f, &range, FG_E_UNIMPLEMENTED);
}

static void notices_junk(void **state)
{
    struct fixture *f = *state;

    fake_s3_fail(f->store, "GET /flamegrid?", FAULT_JUNK, 1);
    (void)ask(f, &(struct fg_bucket_request){.verb = FG_BUCKET_LIST, .name = ""}, FG_E_CORRUPT);
    fake_s3_fail(f->store, "?uploads=", FAULT_JUNK, 1);
    assert_false(put_if_absent(f, true, FG_E_CORRUPT)->unsure);
    /* Completed, and the answer says nothing: it is looked at. */
    fake_s3_fail(f->store, "POST /flamegrid/p/a?uploadId=", FAULT_JUNK, 1);
    (void)put_if_absent(f, true, FG_OK);
    expect_stored(f, "mine");
    fake_s3_fail(f->store, "PUT /", FAULT_NO_ETAG, 1);
    (void)put(f, "next", false, FG_BUCKET_ALWAYS, NULL, FG_OK);
    assert_string_equal(f->request.etag.text, get(f, FG_OK)->etag.text);
}

/* ---- uploads in parts ---- */

static char *letters(size_t n)
{
    char *text = fg_malloc(n + 1);

    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + i % 23);
    text[n] = '\0';
    return text;
}

static void uploads_in_parts(void **state)
{
    static const size_t sizes[] = {0, 1, PART_BYTES, PART_BYTES + 1, 10 * PART_BYTES + 7};
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(sizes); i++) {
        char *text = letters(sizes[i]);
        FILE *file = fopen(f->token_file, "we");

        assert_true(file != NULL && fwrite(text, 1, sizes[i], file) == sizes[i]);
        assert_int_equal(fclose(file), 0);
        (void)ask(f,
                  &(struct fg_bucket_request){
                      .verb = FG_BUCKET_PUT, .name = "a", .path = f->token_file, .in_parts = true},
                  FG_OK);
        assert_int_equal(f->request.size_bytes, sizes[i]);
        expect_stored(f, text);
        (void)put(f, text, true, FG_BUCKET_ALWAYS, NULL, FG_OK);
        expect_stored(f, text);
        free(text);
    }
    expect_no_uploads(f);
}

static void parts_are_tried_again(void **state)
{
    static const enum fake_fault faults[] = {FAULT_RESET, FAULT_LOSE, FAULT_503, FAULT_500_DONE};
    struct fixture *f = *state;
    char *text = letters(5 * PART_BYTES);

    for (size_t i = 0; i < FG_COUNT(faults); i++) {
        fake_s3_fail(f->store, "partNumber=3", faults[i], 2);
        (void)put(f, text, false, FG_BUCKET_ALWAYS, NULL, FG_OK);
        expect_stored(f, text);
    }
    free(text);
}

static void failed_uploads_are_aborted(void **state)
{
    struct fixture *f = *state;
    char *text = letters(5 * PART_BYTES);

    fake_s3_fail(f->store, "partNumber=3", FAULT_403, 1);
    assert_false(put(f, text, false, FG_BUCKET_ALWAYS, NULL, FG_E_DENIED)->unsure);
    fake_s3_fail(f->store, "partNumber=2", FAULT_502, 3);
    assert_false(put(f, text, false, FG_BUCKET_ALWAYS, NULL, FG_E_UNAVAILABLE)->unsure);
    fake_s3_fail(f->store, "POST /flamegrid/p/a?uploadId=", FAULT_200_ERROR, 3);
    assert_true(put(f, text, false, FG_BUCKET_ALWAYS, NULL, FG_E_UNAVAILABLE)->unsure);
    fg_bucket_close(f->bucket); /* which waits for what is done afterwards */
    f->bucket = NULL;
    assert_int_equal(fake_s3_uploads(f->store), 0);
    expect_stored(f, NULL);
    free(text);
}

static void a_200_may_be_an_error(void **state)
{
    struct fixture *f = *state;

    fake_s3_fail(f->store, "POST /flamegrid/p/a?uploadId=", FAULT_200_ERROR, 2);
    (void)put_if_absent(f, true, FG_OK);
    expect_stored(f, "mine");
}

/* The store gave the upload up, or wants it from its start: the whole of it once more. */
static void begins_an_upload_anew(void **state)
{
    struct fixture *f = *state;

    fake_s3_fail(f->store, "POST /flamegrid/p/a?uploadId=", FAULT_200_NO_UPLOAD, 1);
    fake_s3_fail(f->store, "POST /flamegrid/p/a?uploadId=", FAULT_409, 3);
    (void)put_if_absent(f, true, FG_OK);
    expect_stored(f, "mine");
    assert_int_equal(fake_s3_count(f->store, "?uploads="), 3);
    expect_no_uploads(f);
    /* Not when it may have been completed: it would be refused, and that would look certain. */
    fake_s3_fail(f->store, "POST /flamegrid/p/a?uploadId=", FAULT_LOSE_DELETED, 1);
    assert_true(put(f, "x", true, FG_BUCKET_ALWAYS, NULL, FG_E_UNAVAILABLE)->unsure);
}

static void tidies_stale_uploads(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_request tidy = {.verb = FG_BUCKET_CLEAN_UP};

    fake_s3_fail(f->store, "PUT /", FAULT_403, 2);
    fake_s3_fail(f->store, "DELETE /", FAULT_403, 2);
    (void)put_if_absent(f, true, FG_E_DENIED);
    (void)put_if_absent(f, true, FG_E_DENIED);
    while (fake_s3_count(f->store, "DELETE /") < 2)
        (void)usleep(1000);
    assert_int_equal(fake_s3_uploads(f->store), 2);
    assert_int_equal(ask(f, &tidy, FG_OK)->size_bytes, 0); /* somebody may be at it */
    fake_s3_age_uploads(f->store, 25 * FG_HOUR_NS);
    assert_int_equal(ask(f, &tidy, FG_OK)->size_bytes, 2);
    assert_int_equal(fake_s3_uploads(f->store), 0);
}

/* A machine whose clock is days ahead must not abort uploads of others that have just begun. */
static void ages_of_uploads_are_by_the_clock_of_the_store(void **state)
{
    static const int64_t offsets_ns[] = {-48 * FG_HOUR_NS, 48 * FG_HOUR_NS};
    struct fixture *f = *state;
    struct fg_bucket_request tidy = {.verb = FG_BUCKET_CLEAN_UP};

    for (unsigned i = 0; i < FG_COUNT(offsets_ns); i++) {
        struct fake_s3_rules rules = {.role_ns = FG_HOUR_NS, .ahead_ns = offsets_ns[i]};

        fake_s3_set(f->store, &rules);
        fake_s3_fail(f->store, "PUT /", FAULT_403, 1);
        fake_s3_fail(f->store, "DELETE /", FAULT_403, 1);
        (void)put_if_absent(f, true, FG_E_DENIED);
        while (fake_s3_count(f->store, "DELETE /") < 2 * i + 1)
            (void)usleep(1000);
        assert_int_equal(ask(f, &tidy, FG_OK)->size_bytes, 0);
        fake_s3_age_uploads(f->store, 25 * FG_HOUR_NS);
        assert_int_equal(ask(f, &tidy, FG_OK)->size_bytes, 1);
        assert_int_equal(fake_s3_uploads(f->store), 0);
    }
}

/* ---- the proof ---- */

static void proves_a_good_store(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    if (fg_bucket_startup_check(f->bucket, 0, &err) != FG_OK)
        fail_msg("%s", err.msg);
    (void)ask(f, &(struct fg_bucket_request){.verb = FG_BUCKET_LIST, .name = ""}, FG_OK);
    assert_int_equal(f->request.n_entries, 0);
}

static void disproves_others(void **state)
{
    static const struct {
        struct fake_s3_rules rules;
        const char *says;
    } cases[] = {
        {{.no_if_none_match = true},
         "a put if absent (If-None-Match: *) of an existing object succeeded although its "
         "condition failed"},
        {{.no_if_match = true},
         "a put if match (If-Match) of a stale etag succeeded although its condition failed"},
        {{.no_multipart_conditions = true},
         "a multipart put if absent (If-None-Match: *) of an existing object succeeded although "
         "its condition failed"},
        {{.no_metadata = true}, "a head did not return the metadata"},
        {{.no_ranges = true}, "a get of a range"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_err err;

        fake_s3_set(f->store, &cases[i].rules);
        assert_int_equal(fg_bucket_startup_check(f->bucket, 0, &err), FG_E_UNIMPLEMENTED);
        if (strstr(err.msg, cases[i].says) == NULL)
            fail_msg("%s", err.msg);
        (void)ask(f, &(struct fg_bucket_request){.verb = FG_BUCKET_LIST, .name = "proof/"}, FG_OK);
        assert_int_equal(f->request.n_entries, 0);
    }
}

static void cannot_prove_what_it_cannot_reach(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    fake_s3_fail(f->store, "PUT /", FAULT_403, 1);
    assert_int_equal(fg_bucket_startup_check(f->bucket, 0, &err), FG_E_DENIED);
    assert_non_null(strstr(err.msg, "a put if absent of a new name: put proof/"));
}

static void knows_stores_without_conditional_deletes(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_request delete = {.verb = FG_BUCKET_DELETE,
                                       .name = "a",
                                       .condition = FG_BUCKET_IF_MATCH,
                                       .if_etag = {"stale"}};
    struct fg_err err;

    fake_s3_set(f->store, &(struct fake_s3_rules){.no_delete_conditions = true});
    assert_int_equal(fg_bucket_startup_check(f->bucket, 0, &err), FG_OK);
    fake_s3_put(f->store, "p/a", "x");
    (void)ask(f, &delete, FG_E_UNIMPLEMENTED);
    expect_stored(f, "x");
}

/* ---- keys ---- */

static struct fg_bucket_s3_config with_role(struct fixture *f)
{
    struct fg_bucket_s3_config config = plain(f);

    config.keys.access_key = config.keys.secret_key = NULL;
    config.keys.role_arn = "arn:aws:iam::1:role/r";
    config.keys.role_session_name = "test";
    config.keys.web_identity_token_file = f->token_file;
    config.keys.sts_endpoint = f->sts;
    return config;
}

static void takes_keys_of_a_role(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_s3_config config = with_role(f);

    fake_s3_set(f->store, &(struct fake_s3_rules){.wants_role = true, .role_ns = FG_HOUR_NS});
    open_bucket(f, &config);
    (void)put_if_absent(f, false, FG_OK);
    (void)get(f, FG_OK);
    assert_int_equal(fake_s3_count(f->store, "POST / "), 1);
    assert_true(fake_s3_saw(f->store, "x-amz-security-token: token1\r\n"));
    /* They ended early: new ones, and once more. */
    fake_s3_fail(f->store, "GET /", FAULT_EXPIRED, 1);
    (void)get(f, FG_OK);
    assert_int_equal(fake_s3_count(f->store, "POST / "), 2);
    assert_true(fake_s3_saw(f->store, "x-amz-security-token: token2\r\n"));
}

/* Nobody gets to hear of it when they end. */
static void renews_keys_in_time(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_s3_config config = with_role(f);

    fake_s3_set(f->store,
                &(struct fake_s3_rules){.wants_role = true, .role_ns = 13 * FG_SECOND_NS});
    open_bucket(f, &config);
    (void)put_if_absent(f, false, FG_OK);
    fake_s3_set(f->store, &(struct fake_s3_rules){.wants_role = true, .role_ns = FG_HOUR_NS});
    while (fake_s3_count(f->store, "POST / ") < 2) {
        (void)ask(f, &(struct fg_bucket_request){.verb = FG_BUCKET_HEAD, .name = "a"}, FG_OK);
        (void)usleep(20000);
    }
    (void)get(f, FG_OK);
}

static void says_why_there_are_no_keys(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_s3_config config = with_role(f);

    fake_s3_set(f->store, &(struct fake_s3_rules){.sts_fails = true});
    open_bucket(f, &config);
    const struct fg_bucket_request *failed = get(f, FG_E_DENIED);
    assert_non_null(strstr(failed->err.msg, "InvalidIdentityToken"));
    assert_non_null(strstr(failed->err.msg, "arn:aws:iam::1:role/r"));
    fake_s3_set(f->store, &(struct fake_s3_rules){.role_ns = FG_SECOND_NS});
    assert_non_null(strstr(get(f, FG_E_DENIED)->err.msg, "are already expired"));
    config.keys.web_identity_token_file = "/nowhere/token";
    open_bucket(f, &config);
    assert_non_null(strstr(get(f, FG_E_INVALID)->err.msg, "/nowhere/token"));
}

static void reads_keys_from_files(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_s3_config config = plain(f);
    struct fg_bucket *none;
    struct fg_err err;

    config.keys.access_key = config.keys.secret_key = NULL;
    config.keys.access_key_file = config.keys.secret_key_file = f->token_file;
    open_bucket(f, &config);
    (void)put_if_absent(f, false, FG_OK);
    assert_true(fake_s3_saw(f->store, "Credential=good.token/"));
    config.keys.secret_key_file = "/nowhere/key";
    assert_int_equal(fg_bucket_s3_open(&config, &none, &err), FG_E_INVALID);
    assert_non_null(strstr(err.msg, "/nowhere/key"));
}

/* ---- configuration ---- */

static void refuses_bad_configurations(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_s3_config configs[8];
    static const char *const says[] = {"no keys",  "not a valid bucket name", "no region",
                                       "https://", "host and port",           "prefix",
                                       "tries",    "not a valid bucket name"};

    for (size_t i = 0; i < FG_COUNT(configs); i++)
        configs[i] = plain(f);
    configs[0].keys.secret_key = "";
    configs[1].bucket = "a/b";
    configs[2].region = NULL;
    configs[3].endpoint = "127.0.0.1:9000";
    configs[4].endpoint = "http://user@host";
    configs[5].prefix = "/a";
    configs[6].tries_max = 0;
    configs[7].bucket = NULL;
    for (size_t i = 0; i < FG_COUNT(configs); i++) {
        struct fg_bucket *none;
        struct fg_err err;

        assert_int_equal(fg_bucket_s3_open(&configs[i], &none, &err), FG_E_INVALID);
        if (strstr(err.msg, says[i]) == NULL)
            fail_msg("%s", err.msg);
    }
}

static void sends_what_is_configured(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_s3_config config = plain(f);

    config.sse = FG_BUCKET_S3_SSE_KMS;
    config.kms_key_id = "key/1";
    config.storage_class = "STANDARD_IA";
    config.keys.session_token = "session";
    open_bucket(f, &config);
    (void)put_if_absent(f, false, FG_OK);
    assert_true(fake_s3_saw(f->store, "x-amz-server-side-encryption: aws:kms\r\n"));
    assert_true(fake_s3_saw(f->store, "x-amz-server-side-encryption-aws-kms-key-id: key/1\r\n"));
    assert_true(fake_s3_saw(f->store, "x-amz-storage-class: STANDARD_IA\r\n"));
    assert_true(fake_s3_saw(f->store, "x-amz-security-token: session\r\n"));
    assert_true(fake_s3_saw(f->store, "content-md5: "));
    assert_true(fake_s3_saw(f->store, "SignedHeaders=content-md5;host;if-none-match;"));
    config.sse = FG_BUCKET_S3_SSE_S3;
    open_bucket(f, &config);
    (void)put(f, "x", true, FG_BUCKET_ALWAYS, NULL, FG_OK);
    assert_true(fake_s3_saw(f->store, "x-amz-server-side-encryption: AES256\r\n"));
    assert_false(fake_s3_saw(f->store, "Expect:"));
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lost_answer_is_no_refusal),
        TEST(a_lost_answer_to_a_replaced_object_is_unsure),
        TEST(a_refusal_is_certain),
        TEST(after_a_reset_the_next_try_counts),
        TEST(all_answers_lost),
        TEST(nothing_sent_is_not_unsure),
        TEST(conditional_puts_go_over_new_connections),
        TEST(deletes_that_are_lost),
        TEST(gets_say_when),
        TEST(tries_again),
        TEST(does_not_try_again_what_is_final),
        TEST(has_a_budget_of_tries),
        TEST(keeps_deadlines),
        TEST(can_be_cancelled),
        TEST(refuses_more_than_may_wait),
        TEST(notices_what_is_cut_short),
        TEST(notices_junk),
        TEST(uploads_in_parts),
        TEST(parts_are_tried_again),
        TEST(failed_uploads_are_aborted),
        TEST(a_200_may_be_an_error),
        TEST(begins_an_upload_anew),
        TEST(tidies_stale_uploads),
        TEST(ages_of_uploads_are_by_the_clock_of_the_store),
        TEST(proves_a_good_store),
        TEST(disproves_others),
        TEST(cannot_prove_what_it_cannot_reach),
        TEST(knows_stores_without_conditional_deletes),
        TEST(takes_keys_of_a_role),
        TEST(renews_keys_in_time),
        TEST(says_why_there_are_no_keys),
        TEST(reads_keys_from_files),
        TEST(refuses_bad_configurations),
        TEST(sends_what_is_configured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
