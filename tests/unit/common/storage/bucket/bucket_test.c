/*
 * One suite for every bucket: what is written once here holds for memory, a directory, and the
 * faulty one that passes on. With FG_TEST_S3 ("http://host:port"; key, secret and bucket are all
 * "flamegrid") it runs against that server instead: tests/bucket/run starts one.
 */
#include "common/storage/bucket/bucket.h"
#include "common/storage/bucket/directory.h"
#include "common/storage/bucket/s3.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/remove_tree.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { WRITERS = 8, ROUNDS = 20, FILE_BYTES = 11 * 1024 * 1024 + 17 };

struct fixture {
    struct fg_bucket *bucket;         /* under test */
    struct fg_bucket *inner;          /* of faulty */
    struct fg_bucket_request request; /* the last one */
    char dir[64];
};

/* --- the buckets --- */

static struct fg_bucket *open_directory(const struct fixture *f)
{
    const struct fg_bucket_directory_config config = {
        .path = f->dir, .threads = 4, .queue_max = 1000};
    struct fg_bucket *bucket = NULL;
    struct fg_err err;

    if (fg_bucket_directory_open(&config, &bucket, &err) != FG_OK)
        fail_msg("%s", err.msg);
    return bucket;
}

static struct fixture *make(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    (void)snprintf(f->dir, sizeof f->dir, "/tmp/flamegrid-test.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    *state = f;
    return f;
}

static int set_up_memory(void **state)
{
    make(state)->bucket = fg_bucket_memory();
    return 0;
}

static int set_up_directory(void **state)
{
    struct fixture *f = make(state);

    f->bucket = open_directory(f);
    return 0;
}

static int set_up_faulty(void **state)
{
    struct fixture *f = make(state);

    f->inner = fg_bucket_memory();
    f->bucket = fg_bucket_faulty_bucket(
        fg_bucket_faulty_create(f->inner, &(struct fg_bucket_faults){.seed = 1}));
    return 0;
}

static int set_up_s3(void **state)
{
    struct fixture *f = make(state);
    struct fg_err err;
    const struct fg_bucket_s3_config config = {
        .endpoint = getenv("FG_TEST_S3"), /* NOLINT(concurrency-mt-unsafe): one thread yet */
        .region = "us-east-1",
        .bucket = "flamegrid",
        .prefix = f->dir + strlen("/tmp/"), /* of every test its own */
        .path_style = true,
        .keys.access_key = "flamegrid",
        .keys.secret_key = "flamegrid",
        .connect_timeout_ns = FG_SECOND_NS,
        .timeout_ns = 10 * FG_SECOND_NS,
        .tries_max = 4,
        .backoff_ns = 20 * FG_MS_NS,
        .requests_max = 16,
        .waiting_max = 1000,
        .part_bytes = 5 * 1024 * 1024,
        .parts_at_once = 3,
    };

    if (fg_bucket_s3_open(&config, &f->bucket, &err) != FG_OK)
        fail_msg("%s", err.msg);
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_bucket_clear(&f->request);
    fg_bucket_close(f->bucket);
    fg_bucket_close(f->inner);
    (void)remove_tree(f->dir);
    free(f);
    return 0;
}

/* --- words the tests are written in --- */

static struct fg_bucket_request *ask(struct fixture *f, const struct fg_bucket_request *request,
                                     enum fg_code wanted)
{
    fg_bucket_clear(&f->request);
    f->request = *request;
    if (fg_bucket_call(f->bucket, &f->request) != wanted)
        fail_msg("%s %s: %s, not %s: %s", request->name, fg_code_name(f->request.code),
                 f->request.err.msg, fg_code_name(wanted), request->name);
    if (wanted != FG_OK)
        assert_true(f->request.err.code == wanted && f->request.err.msg[0] != '\0');
    return &f->request;
}

static struct fg_bucket_etag put(struct fixture *f, const char *name, const char *content)
{
    return ask(f,
               &(struct fg_bucket_request){
                   .verb = FG_BUCKET_PUT, .name = name, .content = fg_cstr(content)},
               FG_OK)
        ->etag;
}

static enum fg_code put_if(struct fixture *f, const char *name, const char *content,
                           enum fg_bucket_condition condition, const struct fg_bucket_etag *etag,
                           enum fg_code wanted)
{
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_PUT, .name = name, .content = fg_cstr(content), .condition = condition};

    if (etag != NULL)
        request.if_etag = *etag;
    return ask(f, &request, wanted)->code;
}

static void delete (struct fixture *f, const char *name)
{
    (void)ask(f, &(struct fg_bucket_request){.verb = FG_BUCKET_DELETE, .name = name}, FG_OK);
}

/* content NULL: it is not there. */
static void expect(struct fixture *f, const char *name, const char *content)
{
    const struct fg_bucket_request *got =
        ask(f,
            &(struct fg_bucket_request){
                .verb = FG_BUCKET_GET, .name = name, .content_max_bytes = 1 << 20},
            content == NULL ? FG_E_NOT_FOUND : FG_OK);
    struct fg_bucket_etag etag = got->etag;

    if (content != NULL) {
        assert_true(fg_slice_is(fg_buf_slice(&got->body), content));
        assert_int_equal(got->size_bytes, strlen(content));
    }
    got = ask(f, &(struct fg_bucket_request){.verb = FG_BUCKET_HEAD, .name = name},
              content == NULL ? FG_E_NOT_FOUND : FG_OK);
    if (content != NULL) {
        assert_int_equal(got->size_bytes, strlen(content));
        assert_string_equal(got->etag.text, etag.text);
        assert_true(got->modified_wall_ns > 0);
    }
}

/* Pages of page_max, joined: "a b/ c". */
static void expect_list(struct fixture *f, const char *prefix, bool by_folder, unsigned page_max,
                        const char *wanted)
{
    char after[FG_BUCKET_NAME_MAX_BYTES + 200] = "";
    struct fg_buf out;
    size_t pages = 0;

    fg_buf_init(&out, 1 << 20);
    for (;;) {
        const struct fg_bucket_request *page =
            ask(f,
                &(struct fg_bucket_request){.verb = FG_BUCKET_LIST,
                                            .name = prefix,
                                            .by_folder = by_folder,
                                            .page_max = page_max,
                                            .after = after[0] == '\0' ? NULL : after},
                FG_OK);

        assert_true(page_max == 0 || page->n_entries <= page_max);
        for (size_t i = 0; i < page->n_entries; i++) {
            assert_int_equal(page->entries[i].folder,
                             fg_slice_ends(fg_cstr(page->entries[i].name), "/"));
            assert_true(page->entries[i].folder || page->entries[i].modified_wall_ns > 0);
            fg_buf_printf(&out, "%s%s", out.len == 0 ? "" : " ", page->entries[i].name);
        }
        assert_true(++pages < 100);
        if (page->next == NULL)
            break;
        (void)snprintf(after, sizeof after, "%s", page->next);
    }
    fg_buf_putc(&out, '\0');
    assert_string_equal((char *)out.ptr, wanted);
    fg_buf_done(&out);
}

/* --- reading and writing --- */

static void gets_what_was_put(void **state)
{
    struct fixture *f = *state;

    expect(f, "a", NULL);
    expect(f, "a/b", NULL);
    struct fg_bucket_etag first = put(f, "b/c", "one");
    expect(f, "b/c", "one");
    expect(f, "b", NULL); /* a folder */
    expect(f, "b/c/d", NULL);
    struct fg_bucket_etag second = put(f, "b/c", "two");
    assert_string_not_equal(first.text, second.text);
    expect(f, "b/c", "two");
    put(f, "empty", "");
    expect(f, "empty", "");
}

static void keeps_odd_names_apart(void **state)
{
    static const char *const names[] = {
        "a b",     "a+b",  "a%2Fb", "a%20b",     "a~b",     "a'(b)*!", "ä/ö",     "日本/語",
        ".hidden", "a..b", "...",   "a&b=c?d#e", "a\"b<c>", "a\\b",    "x=1;y=2", "@/:,$",
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(names); i++)
        put(f, names[i], names[i]);
    for (size_t i = 0; i < FG_COUNT(names); i++)
        expect(f, names[i], names[i]);
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        expect_list(f, names[i], false, 0, names[i]);
        delete (f, names[i]);
        expect(f, names[i], NULL);
    }
    expect_list(f, "", false, 0, "");
}

static void refuses_bad_names(void **state)
{
    static const char *const names[] = {
        "",     "/",      "/a",  "a/",   "a//b",  ".",     "..",
        "../a", "a/../b", "a/.", "a\nb", "a\x7f", "a\xff", "\xc0\xaf",
    };
    struct fixture *f = *state;
    char longest[FG_BUCKET_SEGMENT_MAX_BYTES + 2];

    for (size_t i = 0; i < FG_COUNT(names); i++) {
        (void)ask(f, &(struct fg_bucket_request){.verb = FG_BUCKET_PUT, .name = names[i]},
                  FG_E_INVALID);
        (void)ask(f, &(struct fg_bucket_request){.verb = FG_BUCKET_GET, .name = names[i]},
                  FG_E_INVALID);
        (void)ask(f, &(struct fg_bucket_request){.verb = FG_BUCKET_DELETE, .name = names[i]},
                  FG_E_INVALID);
    }
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    (void)ask(f, &(struct fg_bucket_request){.verb = FG_BUCKET_PUT, .name = longest}, FG_E_INVALID);
    put(f, longest + 1, "as long as a segment may be");
    expect(f, longest + 1, "as long as a segment may be");
    (void)ask(f, &(struct fg_bucket_request){.verb = FG_BUCKET_LIST, .name = "../"}, FG_E_INVALID);
    (void)ask(f, &(struct fg_bucket_request){.verb = FG_BUCKET_LIST, .name = "/"}, FG_E_INVALID);
}

static void keeps_any_bytes(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[4096];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 ^ i >> 8);
    (void)ask(f,
              &(struct fg_bucket_request){
                  .verb = FG_BUCKET_PUT, .name = "bytes", .content = fg_bytes(bytes, sizeof bytes)},
              FG_OK);
    const struct fg_bucket_request *got =
        ask(f,
            &(struct fg_bucket_request){
                .verb = FG_BUCKET_GET, .name = "bytes", .content_max_bytes = sizeof bytes},
            FG_OK);
    assert_true(fg_slice_eq(fg_buf_slice(&got->body), fg_bytes(bytes, sizeof bytes)));
}

static void expect_range(struct fixture *f, uint64_t offset, uint64_t length, const char *wanted)
{
    const struct fg_bucket_request *got = ask(f,
                                              &(struct fg_bucket_request){.verb = FG_BUCKET_GET,
                                                                          .name = "a",
                                                                          .offset = offset,
                                                                          .length = length,
                                                                          .content_max_bytes = 10},
                                              wanted == NULL ? FG_E_INVALID : FG_OK);

    if (wanted != NULL) {
        assert_true(fg_slice_is(fg_buf_slice(&got->body), wanted));
        assert_int_equal(got->size_bytes, 10);
        assert_true(got->etag.text[0] != '\0');
    }
}

static void gets_ranges(void **state)
{
    struct fixture *f = *state;

    put(f, "a", "0123456789");
    expect_range(f, 0, 0, "0123456789");
    expect_range(f, 0, 1, "0");
    expect_range(f, 3, 4, "3456");
    expect_range(f, 3, 0, "3456789");
    expect_range(f, 9, 1, "9");
    expect_range(f, 8, 100, "89");
    expect_range(f, 0, 100, "0123456789");
    expect_range(f, 10, 1, NULL);
    expect_range(f, 1000, 0, NULL);
    expect_range(f, UINT64_C(1) << 62, UINT64_C(1) << 62, NULL);
}

static void says_what_is_too_large(void **state)
{
    struct fixture *f = *state;

    put(f, "a", "0123456789");
    (void)ask(
        f, &(struct fg_bucket_request){.verb = FG_BUCKET_GET, .name = "a", .content_max_bytes = 9},
        FG_E_TOO_LARGE);
    assert_int_equal(f->request.body.len, 0);
    (void)ask(f,
              &(struct fg_bucket_request){
                  .verb = FG_BUCKET_GET, .name = "a", .offset = 1, .content_max_bytes = 9},
              FG_OK);
    put(f, "empty", "");
    (void)ask(f, &(struct fg_bucket_request){.verb = FG_BUCKET_GET, .name = "empty"}, FG_OK);
}

static void write_file(const char *path, size_t len)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    for (size_t i = 0; i < len; i++)
        (void)fputc((int)(i % 251), file);
    assert_int_equal(fclose(file), 0);
}

static void puts_files(void **state)
{
    struct fixture *f = *state;
    char path[100];
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_PUT, .name = "file/big", .path = path, .condition = FG_BUCKET_IF_ABSENT};

    (void)snprintf(path, sizeof path, "%s/local", f->dir);
    (void)ask(f, &request, FG_E_INVALID); /* there is no such file */
    expect(f, "file/big", NULL);
    write_file(path, FILE_BYTES);
    (void)ask(f, &request, FG_OK);
    assert_int_equal(f->request.size_bytes, FILE_BYTES);
    (void)ask(f, &request, FG_E_PRECONDITION);
    const struct fg_bucket_request *got =
        ask(f,
            &(struct fg_bucket_request){
                .verb = FG_BUCKET_GET, .name = "file/big", .content_max_bytes = FILE_BYTES},
            FG_OK);
    assert_int_equal(got->body.len, FILE_BYTES);
    for (size_t i = 0; i < FILE_BYTES; i++)
        if (got->body.ptr[i] != i % 251)
            fail_msg("byte %zu", i);
    write_file(path, 0);
    request.name = "file/empty";
    (void)ask(f, &request, FG_OK);
    expect(f, "file/empty", "");
    (void)unlink(path);
}

/* --- conditions --- */

static void puts_if_absent(void **state)
{
    struct fixture *f = *state;

    (void)put_if(f, "x/a", "one", FG_BUCKET_IF_ABSENT, NULL, FG_OK);
    (void)put_if(f, "x/a", "two", FG_BUCKET_IF_ABSENT, NULL, FG_E_PRECONDITION);
    assert_false(f->request.unsure);
    expect(f, "x/a", "one");
    delete (f, "x/a");
    (void)put_if(f, "x/a", "three", FG_BUCKET_IF_ABSENT, NULL, FG_OK);
    expect(f, "x/a", "three");
}

static void puts_if_match(void **state)
{
    const struct fg_bucket_etag bogus = {"0123456789abcdef0123456789abcdef"};
    struct fixture *f = *state;

    (void)put_if(f, "a", "x", FG_BUCKET_IF_MATCH, &bogus, FG_E_PRECONDITION);
    expect(f, "a", NULL);
    struct fg_bucket_etag one = put(f, "a", "one");
    (void)put_if(f, "a", "two", FG_BUCKET_IF_MATCH, &one, FG_OK);
    struct fg_bucket_etag two = f->request.etag;
    (void)put_if(f, "a", "three", FG_BUCKET_IF_MATCH, &one, FG_E_PRECONDITION);
    (void)put_if(f, "a", "three", FG_BUCKET_IF_MATCH, &bogus, FG_E_PRECONDITION);
    expect(f, "a", "two");
    (void)put_if(f, "a", "three", FG_BUCKET_IF_MATCH, &two, FG_OK);
    expect(f, "a", "three");
    delete (f, "a");
    (void)put_if(f, "a", "four", FG_BUCKET_IF_MATCH, &two, FG_E_PRECONDITION);
}

static void refuses_a_condition_without_etag(void **state)
{
    struct fixture *f = *state;

    (void)put_if(f, "a", "x", FG_BUCKET_IF_MATCH, NULL, FG_E_INVALID);
    (void)put_if(f, "a", "x", FG_BUCKET_IF_MATCH, &(struct fg_bucket_etag){"a\r\nb"}, FG_E_INVALID);
    (void)put_if(f, "a", "x", FG_BUCKET_IF_CHANGED, &(struct fg_bucket_etag){"a"}, FG_E_INVALID);
    expect(f, "a", NULL);
}

static void gets_if(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .name = "a",
                                    .content_max_bytes = 10,
                                    .condition = FG_BUCKET_IF_CHANGED};

    struct fg_bucket_etag one = put(f, "a", "one");
    get.if_etag = one;
    (void)ask(f, &get, FG_OK);
    assert_true(f->request.unchanged && f->request.body.len == 0);
    assert_string_equal(f->request.etag.text, one.text);
    get.condition = FG_BUCKET_IF_MATCH;
    (void)ask(f, &get, FG_OK);
    assert_true(fg_slice_is(fg_buf_slice(&f->request.body), "one"));
    put(f, "a", "two");
    (void)ask(f, &get, FG_E_PRECONDITION);
    get.condition = FG_BUCKET_IF_CHANGED;
    (void)ask(f, &get, FG_OK);
    assert_true(!f->request.unchanged && fg_slice_is(fg_buf_slice(&f->request.body), "two"));
    delete (f, "a");
    (void)ask(f, &get, FG_E_NOT_FOUND);
    get.condition = FG_BUCKET_IF_MATCH;
    (void)ask(f, &get, FG_E_NOT_FOUND);
}

static void deletes(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_DELETE, .name = "b/a", .condition = FG_BUCKET_IF_MATCH};

    delete (f, "nothing/here");
    put(f, "b/c/a", "one");
    put(f, "b/b", "two");
    delete (f, "b/c/a");
    expect(f, "b/c/a", NULL);
    expect(f, "b/b", "two");
    request.if_etag = put(f, "b/a", "one");
    struct fg_bucket_etag two = put(f, "b/a", "two");
    (void)ask(f, &request, FG_E_PRECONDITION);
    expect(f, "b/a", "two");
    request.if_etag = two;
    (void)ask(f, &request, FG_OK);
    expect(f, "b/a", NULL);
    (void)ask(f, &request, FG_OK); /* once more */
}

/* --- lists --- */

static void put_tree(struct fixture *f)
{
    static const char *const names[] = {"b/c/d", "a",  "b/a",   "b-c",
                                        "b/c/e", "c0", "b/c-d", "b/d/x"};

    for (size_t i = 0; i < FG_COUNT(names); i++)
        put(f, names[i], names[i]);
}

static void lists(void **state)
{
    struct fixture *f = *state;

    expect_list(f, "", false, 0, "");
    expect_list(f, "none/", false, 0, "");
    put_tree(f);
    for (unsigned page_max = 0; page_max < 5; page_max++) {
        expect_list(f, "", false, page_max, "a b-c b/a b/c-d b/c/d b/c/e b/d/x c0");
        expect_list(f, "b", false, page_max, "b-c b/a b/c-d b/c/d b/c/e b/d/x");
        expect_list(f, "b/", false, page_max, "b/a b/c-d b/c/d b/c/e b/d/x");
        expect_list(f, "b/c", false, page_max, "b/c-d b/c/d b/c/e");
        expect_list(f, "b/c/d", false, page_max, "b/c/d");
        expect_list(f, "b/c/d/", false, page_max, "");
    }
}

static void lists_by_folder(void **state)
{
    struct fixture *f = *state;

    put_tree(f);
    for (unsigned page_max = 0; page_max < 5; page_max++) {
        expect_list(f, "", true, page_max, "a b-c b/ c0");
        expect_list(f, "b", true, page_max, "b-c b/");
        expect_list(f, "b/", true, page_max, "b/a b/c-d b/c/ b/d/");
        expect_list(f, "b/c", true, page_max, "b/c-d b/c/");
        expect_list(f, "b/c/", true, page_max, "b/c/d b/c/e");
        expect_list(f, "c", true, page_max, "c0");
    }
}

static void forgets_empty_folders(void **state)
{
    struct fixture *f = *state;

    put(f, "a/b/c", "x");
    put(f, "a/d", "x");
    delete (f, "a/b/c");
    expect_list(f, "", true, 0, "a/");
    expect_list(f, "a/", true, 0, "a/d");
    delete (f, "a/d");
    expect_list(f, "", true, 0, "");
    put(f, "a", "an object where a folder was");
    expect(f, "a", "an object where a folder was");
}

static bool count_two(const struct fg_bucket_entry *entry, void *arg)
{
    size_t *count = arg;

    assert_int_equal(entry->size_bytes, 1);
    return ++*count < 2;
}

static bool count_all(const struct fg_bucket_entry *entry, void *arg)
{
    (void)entry;
    ++*(size_t *)arg;
    return true;
}

static void gives_each(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;
    char name[32];
    size_t count = 0;

    for (unsigned i = 0; i < 10; i++) {
        (void)snprintf(name, sizeof name, "many/%03u", i);
        put(f, name, "x");
    }
    assert_int_equal(fg_bucket_each(f->bucket, "many/", false, 0, count_two, &count, &err), FG_OK);
    assert_int_equal(count, 2);
    count = 0;
    assert_int_equal(fg_bucket_each(f->bucket, "many/", false, 0, count_all, &count, &err), FG_OK);
    assert_int_equal(count, 10);
    assert_int_equal(fg_bucket_each(f->bucket, "..//", false, 0, count_all, &count, &err),
                     FG_E_INVALID);
}

/* --- many at a time --- */

struct ends {
    _Atomic unsigned count;
};

static void count_end(void *arg)
{
    struct ends *ends = arg;

    atomic_fetch_add(&ends->count, 1);
}

static void a_wave(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_bucket_wave) *wave = fg_bucket_wave_create();
    struct fg_bucket_request requests[40] = {0};
    struct fg_bucket_request *ended;
    char names[40][16];
    struct fg_err err;
    struct ends ends = {0};
    unsigned seen = 0;

    fg_bucket_wave_on_end(wave, count_end, &ends);
    assert_null(fg_bucket_wave_poll(wave));
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(names[i], sizeof names[i], "w/%u", i);
        requests[i] = (struct fg_bucket_request){
            .verb = FG_BUCKET_PUT, .name = names[i], .content = fg_cstr(names[i])};
        fg_bucket_wave_send(wave, f->bucket, &requests[i]);
    }
    assert_int_equal(fg_bucket_wave_wait(wave, &err), FG_OK);
    assert_int_equal(atomic_load(&ends.count), 40);
    while ((ended = fg_bucket_wave_poll(wave)) != NULL)
        assert_int_equal(ended->code, FG_OK);
    for (unsigned i = 0; i < 40; i++) {
        requests[i] = (struct fg_bucket_request){
            .verb = FG_BUCKET_GET, .name = names[i], .content_max_bytes = 16};
        fg_bucket_wave_send(wave, f->bucket, &requests[i]);
    }
    while ((ended = fg_bucket_wave_next(wave)) != NULL) {
        assert_true(fg_slice_is(fg_buf_slice(&ended->body), ended->name));
        fg_bucket_clear(ended);
        seen++;
    }
    assert_int_equal(seen, 40);
    requests[0].name = "none";
    fg_bucket_wave_send(wave, f->bucket, &requests[0]);
    assert_int_equal(fg_bucket_wave_wait(wave, &err), FG_E_NOT_FOUND);
    fg_bucket_wave_cancel(wave);
    fg_bucket_wave_send(wave, f->bucket, &requests[1]);
    assert_int_equal(fg_bucket_wave_wait(wave, &err), FG_E_NOT_FOUND); /* the first that failed */
    assert_int_equal(requests[1].code, FG_E_CANCELED);
    assert_int_equal(atomic_load(&ends.count), 82);
}

struct writer {
    struct fixture *f;
    pthread_t thread;
    unsigned nr, won;
};

static void *race_absent(void *arg)
{
    struct writer *writer = arg;
    char name[32], content[32];

    (void)snprintf(content, sizeof content, "writer %u", writer->nr);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct fg_bucket_request request = {.verb = FG_BUCKET_PUT,
                                            .name = name,
                                            .content = fg_cstr(content),
                                            .condition = FG_BUCKET_IF_ABSENT};

        (void)snprintf(name, sizeof name, "race/%u", i);
        if (fg_bucket_call(writer->f->bucket, &request) == FG_OK)
            writer->won++;
        else if (request.code != FG_E_PRECONDITION)
            fail_msg("%s", request.err.msg);
        fg_bucket_clear(&request);
    }
    return NULL;
}

/* Adds one to the number that the object holds, ROUNDS times. */
static void *race_match(void *arg)
{
    struct writer *writer = arg;

    while (writer->won < ROUNDS) {
        struct fg_bucket_request get = {
            .verb = FG_BUCKET_GET, .name = "count", .content_max_bytes = 32};
        struct fg_bucket_request set = {
            .verb = FG_BUCKET_PUT, .name = "count", .condition = FG_BUCKET_IF_MATCH};
        char content[32];

        assert_int_equal(fg_bucket_call(writer->f->bucket, &get), FG_OK);
        fg_buf_putc(&get.body, '\0');
        (void)snprintf(content, sizeof content, "%lu",
                       strtoul((const char *)get.body.ptr, NULL, 10) + 1);
        set.content = fg_cstr(content);
        set.if_etag = get.etag;
        if (fg_bucket_call(writer->f->bucket, &set) == FG_OK)
            writer->won++;
        else if (set.code != FG_E_PRECONDITION)
            fail_msg("%s", set.err.msg);
        fg_bucket_clear(&get);
        fg_bucket_clear(&set);
    }
    return NULL;
}

static unsigned run_writers(struct fixture *f, void *(*run)(void *arg))
{
    struct writer writers[WRITERS] = {0};
    unsigned won = 0;

    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i].f = f;
        writers[i].nr = i;
        assert_int_equal(pthread_create(&writers[i].thread, NULL, run, &writers[i]), 0);
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
        won += writers[i].won;
    }
    return won;
}

static void one_winner_if_absent(void **state)
{
    assert_int_equal(run_writers(*state, race_absent), ROUNDS);
}

static void no_lost_update_if_match(void **state)
{
    struct fixture *f = *state;
    char wanted[32];

    put(f, "count", "0");
    (void)run_writers(f, race_match);
    (void)snprintf(wanted, sizeof wanted, "%d", WRITERS * ROUNDS);
    expect(f, "count", wanted);
}

static void ends_what_comes_too_late(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_PUT, .name = "late", .deadline_mono_ns = 1};

    if (fg_bucket_call(f->bucket, &request) == FG_OK)
        return; /* in memory there is no time */
    assert_int_equal(request.code, FG_E_DEADLINE);
    expect(f, "late", NULL);
}

static void is_proven(void **state)
{
    struct fixture *f = *state;
    /* A server that is known not to keep them all: moto. */
    const char *refused = getenv("FG_TEST_S3_REFUSED"); /* NOLINT(concurrency-mt-unsafe) */
    struct fg_err err;

    put(f, "other", "x");
    if (refused != NULL) {
        assert_int_equal(fg_bucket_startup_check(f->bucket, 0, &err), FG_E_UNIMPLEMENTED);
        assert_non_null(strstr(err.msg, refused));
    } else if (fg_bucket_startup_check(f->bucket, 0, &err) != FG_OK) {
        fail_msg("%s", err.msg);
    }
    expect_list(f, "", false, 0, "other"); /* it has cleaned up */
}

static void tidies(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_request request = {.verb = FG_BUCKET_CLEAN_UP};

    assert_int_equal(fg_bucket_call(f->bucket, &request), FG_OK);
    assert_int_equal(request.size_bytes, 0);
}

#define TEST(test, kind)                                                                           \
    {                                                                                              \
#test " (" #kind ")", test, set_up_##kind, tear_down, NULL                                 \
    }
#define SUITE(kind)                                                                                \
    TEST(gets_what_was_put, kind), TEST(keeps_odd_names_apart, kind),                              \
        TEST(refuses_bad_names, kind), TEST(keeps_any_bytes, kind), TEST(gets_ranges, kind),       \
        TEST(says_what_is_too_large, kind), TEST(puts_files, kind), TEST(puts_if_absent, kind),    \
        TEST(puts_if_match, kind), TEST(refuses_a_condition_without_etag, kind),                   \
        TEST(gets_if, kind), TEST(deletes, kind), TEST(lists, kind), TEST(lists_by_folder, kind),  \
        TEST(forgets_empty_folders, kind), TEST(gives_each, kind), TEST(a_wave, kind),             \
        TEST(one_winner_if_absent, kind), TEST(no_lost_update_if_match, kind),                     \
        TEST(ends_what_comes_too_late, kind), TEST(is_proven, kind), TEST(tidies, kind)

int main(void)
{
    const struct CMUnitTest tests[] = {SUITE(memory), SUITE(directory), SUITE(faulty)};
    const struct CMUnitTest s3[] = {SUITE(s3)};

    if (getenv("FG_TEST_S3") != NULL) /* NOLINT(concurrency-mt-unsafe): one thread yet */
        return cmocka_run_group_tests_name("s3", s3, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
