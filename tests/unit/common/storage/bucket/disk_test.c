/* A directory bucket on a disk that is full or broken for a while. */
#include "common/storage/bucket/directory.h"
#include "tests/lib/faulty_disk.h"
#include "tests/lib/remove_tree.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { LARGE_BYTES = 3 * 1024 * 1024, DEADLINE_S = 60 };

static const char full_disk[] = "write,create,mkdir,truncate,space ENOSPC\n";

static char dir[64];
static uint8_t *large;

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/fg_bucket_disk_XXXXXX");
    if (mkdtemp(dir) == NULL)
        return 1;
    faulty_disk_set(dir);
    large = fg_calloc(1, LARGE_BYTES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    faulty_disk_rules("");
    free(large);
    return remove_tree(dir);
}

/* ---- words ---- */

static enum fg_code try_open(uint64_t reserve_bytes, struct fg_bucket **ret_bucket,
                             struct fg_err *err)
{
    return fg_bucket_directory_open(
        &(struct fg_bucket_directory_config){
            .path = dir, .threads = 2, .queue_max = 100, .reserve_bytes = reserve_bytes},
        ret_bucket, err);
}

static struct fg_bucket *open_bucket(uint64_t reserve_bytes)
{
    struct fg_bucket *bucket = NULL;
    struct fg_err err;

    if (try_open(reserve_bytes, &bucket, &err) != FG_OK)
        fail_msg("%s", err.msg);
    return bucket;
}

static enum fg_code put(struct fg_bucket *bucket, const char *name, struct fg_slice content,
                        struct fg_err *err)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT, .name = name, .content = content};
    enum fg_code code = fg_bucket_call(bucket, &request);

    if (code != FG_OK)
        *err = request.err;
    return code;
}

static enum fg_code get(struct fg_bucket *bucket, const char *name, size_t *ret_len)
{
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_GET, .name = name, .content_max_bytes = LARGE_BYTES};
    enum fg_code code = fg_bucket_call(bucket, &request);

    *ret_len = request.body.len;
    fg_bucket_clear(&request);
    return code;
}

static enum fg_code drop(struct fg_bucket *bucket, const char *name)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_DELETE, .name = name};

    return fg_bucket_call(bucket, &request);
}

static void expect(struct fg_bucket *bucket, const char *name, size_t len)
{
    size_t found;

    assert_int_equal(get(bucket, name, &found), FG_OK);
    assert_int_equal(found, len);
}

static unsigned n_temps(void)
{
    char path[128];
    const struct dirent *entry;
    unsigned n = 0;
    DIR *folder;

    (void)snprintf(path, sizeof path, "%s/tmp", dir);
    folder = opendir(path);
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL)
        n += entry->d_name[0] != '.';
    (void)closedir(folder);
    return n;
}

/* ---- full ---- */

static void a_full_disk_refuses_reads_and_deletes(void **state)
{
    struct fg_bucket *bucket = open_bucket(0);
    struct fg_err err;
    size_t len;

    (void)state;
    assert_int_equal(put(bucket, "a/b", FG_LIT("first"), &err), FG_OK);
    assert_int_equal(put(bucket, "a/c", fg_bytes(large, LARGE_BYTES), &err), FG_OK);
    faulty_disk_rules(full_disk);
    assert_int_equal(put(bucket, "a/b", FG_LIT("second"), &err), FG_E_NO_SPACE);
    assert_int_equal(put(bucket, "new/b", FG_LIT("second"), &err), FG_E_NO_SPACE);
    assert_int_equal(put(bucket, "a/d", fg_bytes(large, LARGE_BYTES), &err), FG_E_NO_SPACE);
    expect(bucket, "a/b", 5);
    expect(bucket, "a/c", LARGE_BYTES);
    assert_int_equal(get(bucket, "a/d", &len), FG_E_NOT_FOUND);
    assert_int_equal(n_temps(), 0);
    assert_int_equal(drop(bucket, "a/c"), FG_OK);
    faulty_disk_rules("");
    assert_int_equal(put(bucket, "a/b", FG_LIT("second"), &err), FG_OK);
    expect(bucket, "a/b", 6);
    fg_bucket_close(bucket);
}

/* Nothing can be proven on it, and all that is there can be read, under any name. */
static void a_start_on_a_full_disk_can_be_read(void **state)
{
    struct fg_bucket *bucket = open_bucket(0);
    char name[16];
    struct fg_err err;
    size_t len;

    (void)state;
    assert_int_equal(put(bucket, "a/b", FG_LIT("first"), &err), FG_OK);
    fg_bucket_close(bucket);
    faulty_disk_rules(full_disk);
    bucket = open_bucket(0);
    assert_int_equal(fg_bucket_startup_check(
                         bucket, fg_mono_ns(fg_clock_real()) + DEADLINE_S * FG_SECOND_NS, &err),
                     FG_OK);
    expect(bucket, "a/b", 5);
    for (unsigned i = 0; i < 200; i++) { /* locks are by hash */
        (void)snprintf(name, sizeof name, "a/%u", i);
        assert_int_equal(get(bucket, name, &len), FG_E_NOT_FOUND);
    }
    fg_bucket_close(bucket);
}

/* What is large leaves half of the reserve free; manifests may use it. */
static void large_objects_leave_the_reserve_free(void **state)
{
    struct fg_bucket *bucket = open_bucket(UINT64_C(1) << 60);
    struct fg_err err;

    (void)state;
    assert_int_equal(put(bucket, "a/large", fg_bytes(large, LARGE_BYTES), &err), FG_E_NO_SPACE);
    assert_non_null(strstr(err.msg, "are reserved"));
    assert_int_equal(n_temps(), 0);
    assert_int_equal(put(bucket, "a/small", FG_LIT("manifest"), &err), FG_OK);
    expect(bucket, "a/small", 8);
    fg_bucket_close(bucket);
}

/* ---- broken ---- */

/* Each call of a put fails in turn: the object is as it was or as it was to be, and whole. */
static void a_put_that_fails_is_whole_or_not_there(void **state)
{
    static const char *const faults[] = {"EIO", "ENOSPC"};
    static const char old[] = "older", new[] = "newer and longer";
    struct fg_bucket *bucket = open_bucket(0);
    struct fg_err err;

    (void)state;
    for (size_t fault = 0; fault < FG_COUNT(faults); fault++) {
        bool hit = true;

        for (unsigned call = 1; hit; call++) {
            unsigned long before;
            char rules[64];
            size_t len;
            enum fg_code code;

            assert_int_equal(put(bucket, "a/b", fg_cstr(old), &err), FG_OK);
            before = faulty_disk_hits();
            (void)snprintf(rules, sizeof rules, "any %s from=%u count=1\n", faults[fault], call);
            faulty_disk_rules(rules);
            code = put(bucket, "a/b", fg_cstr(new), &err);
            hit = faulty_disk_hits() > before;
            faulty_disk_rules("");
            assert_int_equal(get(bucket, "a/b", &len), FG_OK);
            assert_true(len == sizeof new - 1 || (len == sizeof old - 1 && code != FG_OK));
            assert_true(hit || code == FG_OK);
        }
    }
    fg_bucket_close(bucket);
    bucket = open_bucket(0); /* what could not be removed is, now */
    assert_int_equal(n_temps(), 0);
    fg_bucket_close(bucket);
}

/* Objects that are not in a list count as deleted. */
static void a_list_that_fails_is_no_shorter_list(void **state)
{
    struct fg_bucket_request list = {.verb = FG_BUCKET_LIST, .name = ""};
    struct fg_bucket *bucket = open_bucket(0);
    struct fg_err err;
    bool hit = true;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        char name[] = {'a', '/', (char)('a' + i), '/', 'b', '\0'};

        assert_int_equal(put(bucket, name, FG_LIT("x"), &err), FG_OK);
    }
    for (unsigned call = 1; hit; call++) {
        unsigned long before = faulty_disk_hits();
        char rules[64];

        (void)snprintf(rules, sizeof rules, "open,list EIO from=%u count=1\n", call);
        faulty_disk_rules(rules);
        (void)fg_bucket_call(bucket, &list);
        hit = faulty_disk_hits() > before;
        faulty_disk_rules("");
        assert_int_equal(list.code, hit ? FG_E_UNAVAILABLE : FG_OK);
        assert_true(hit || list.n_entries == 3);
        fg_bucket_clear(&list);
    }
    fg_bucket_close(bucket);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_full_disk_refuses_reads_and_deletes), TEST(a_start_on_a_full_disk_can_be_read),
        TEST(large_objects_leave_the_reserve_free),  TEST(a_put_that_fails_is_whole_or_not_there),
        TEST(a_list_that_fails_is_no_shorter_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
