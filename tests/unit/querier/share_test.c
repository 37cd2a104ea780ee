/* Tests queriers that share their reads: they get the bytes of the bucket, and each page is read
 * from the bucket once. */
#include "common/base/str.h"
#include "common/cluster/manifest/name.h"
#include "common/storage/seal/keys.h"
#include "proto/inner.pb-c.h"
#include "querier/share/share.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/bucket_hold.h"
#include "tests/lib/remove_tree.h"
#include "tests/lib/rpc_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { QUERIERS = 3, OBJECTS = 12, PAGE = 64 * 1024, OBJECT_MAX_BYTES = 5 * PAGE };

struct querier {
    struct qry_share *share;
    struct fg_rpc_server *server;
    struct fg_disk_cache *disk;
    char url[RPC_RUN_URL_BYTES];
};

struct fixture {
    struct fg_bucket *memory;
    struct fg_bucket_faulty *faulty; /* counts */
    struct bucket_hold hold;
    struct fg_bucket *bucket; /* of the queriers: the hold, over the faulty one, over memory */
    struct qry_share_settings settings;
    char addresses[QUERIERS * RPC_RUN_URL_BYTES];
    struct querier queriers[QUERIERS];
    char names[OBJECTS][FG_NAME_MAX_BYTES];
    struct fg_buf contents[OBJECTS];
    struct fg_registry *registry;
    uint64_t random;
    struct fg_err err;
};

static uint64_t draw(struct fixture *f, uint64_t below)
{
    f->random += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    return fg_mix64(f->random) % below;
}

static void put_object(struct fixture *f, size_t i, size_t len)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = f->names[i]};

    assert_int_equal(fg_name_block(f->names[i], FG_LIT("acme"), (struct fg_id){i + 1, 7}, &f->err),
                     FG_OK);
    fg_buf_init(&f->contents[i], SIZE_MAX);
    while (f->contents[i].len < len)
        fg_buf_putc(&f->contents[i], (uint8_t)draw(f, 256));
    put.content = fg_buf_slice(&f->contents[i]);
    assert_int_equal(fg_bucket_call(f->memory, &put), FG_OK);
    fg_bucket_clear(&put);
}

static void start_server(struct fixture *f, struct querier *querier)
{
    querier->server = fg_rpc_server_create(NULL, 8);
    qry_share_serve(querier->share, querier->server);
    assert_int_equal(fg_rpc_server_start(querier->server, querier->url, &f->err), FG_OK);
}

static void start(struct fixture *f, struct querier *querier, const char *disk)
{
    const struct fg_disk_cache_config disk_config = {
        .path = disk, .max_bytes = 64 << 20, .registry = f->registry};

    if (disk != NULL)
        assert_int_equal(fg_disk_cache_open(&disk_config, &querier->disk, &f->err), FG_OK);
    if (qry_share_create(&(struct qry_share_config){.settings = &f->settings,
                                                    .bucket = f->bucket,
                                                    .disk = querier->disk,
                                                    .registry = f->registry,
                                                    .clock = fg_clock_real()},
                         &querier->share, &f->err) != FG_OK)
        fail_msg("%s", f->err.msg);
    start_server(f, querier);
}

static void stop(struct querier *querier)
{
    if (querier->server != NULL)
        fg_rpc_server_stop(querier->server);
    qry_share_destroy(querier->share);
    fg_rpc_server_destroy(querier->server);
    fg_disk_cache_close(querier->disk);
    querier->share = NULL;
    querier->server = NULL;
    querier->disk = NULL;
}

static struct fg_bucket_request get(const char *name, uint64_t offset, uint64_t length)
{
    return (struct fg_bucket_request){.verb = FG_BUCKET_GET,
                                      .name = name,
                                      .offset = offset,
                                      .length = length,
                                      .content_max_bytes = length};
}

/* Reads a range that begins in the object, through a querier. */
static void check_range(struct fixture *f, size_t querier, size_t object, uint64_t offset,
                        uint64_t length)
{
    struct fg_bucket_request request = get(f->names[object], offset, length);
    struct fg_slice right = fg_slice_sub(fg_buf_slice(&f->contents[object]), offset, length);

    if (fg_bucket_call(qry_share_bucket(f->queriers[querier].share), &request) != FG_OK)
        fail_msg("%s", request.err.msg);
    assert_true(fg_slice_eq(fg_buf_slice(&request.body), right));
    fg_bucket_clear(&request);
}

static void check_any(struct fixture *f, size_t querier)
{
    size_t object = (size_t)draw(f, OBJECTS);
    uint64_t len = f->contents[object].len, offset = draw(f, len);
    uint64_t length = 1 + draw(f, draw(f, 2) == 0 ? 300 : 4 * PAGE);

    check_range(f, querier, object, offset, FG_MIN(length, len - offset));
}

/* Waits until all queriers are connected: a call before the connection may fail and costs a
 * request. The first page of each object is in the cache afterwards. */
static void connect_all(struct fixture *f)
{
    uint64_t before;

    do {
        before = fg_bucket_faulty_count(f->faulty);
        for (size_t i = 0; i < OBJECTS; i++)
            for (size_t q = 0; q < QUERIERS; q++)
                check_range(f, q, i, 0, 1);
    } while (fg_bucket_faulty_count(f->faulty) != before);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    size_t at = 0;

    f->random = 20;
    f->registry = fg_registry_create();
    f->memory = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->memory, &(struct fg_bucket_faults){0});
    bucket_hold_init(&f->hold, fg_bucket_faulty_bucket(f->faulty));
    f->bucket = &f->hold.bucket;
    for (size_t i = 0; i < OBJECTS; i++)
        put_object(f, i, i == 0 ? (size_t)2 * PAGE : 1 + draw(f, OBJECT_MAX_BYTES));
    for (size_t i = 0; i < QUERIERS; i++) {
        rpc_run_url("tcp", f->queriers[i].url);
        at += (size_t)snprintf(f->addresses + at, sizeof f->addresses - at, "%s%s",
                               i == 0 ? "" : ", ", f->queriers[i].url);
    }
    f->settings = (struct qry_share_settings){.queriers = f->addresses,
                                              .cache_max_bytes = 64 << 20,
                                              .requests_max = 16,
                                              .resolve_interval_ns = FG_HOUR_NS,
                                              .timeout_ns = FG_MINUTE_NS};
    for (size_t i = 0; i < QUERIERS; i++)
        start(f, &f->queriers[i], NULL);
    connect_all(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < QUERIERS; i++)
        stop(&f->queriers[i]);
    for (size_t i = 0; i < OBJECTS; i++)
        fg_buf_done(&f->contents[i]);
    bucket_hold_done(&f->hold);
    fg_bucket_close(fg_bucket_faulty_bucket(f->faulty));
    fg_bucket_close(f->memory);
    fg_registry_destroy(f->registry);
    free(f);
    return 0;
}

/* For any range and any querier the bytes are right, and each page is read from the bucket once. */
static void shared_ranges_have_the_right_bytes(void **state)
{
    struct fixture *f = *state;
    uint64_t pages = 0, before;

    before = fg_bucket_faulty_count(f->faulty);
    for (int i = 0; i < 600; i++)
        check_any(f, (size_t)draw(f, QUERIERS));
    for (size_t i = 0; i < OBJECTS; i++)
        pages += (f->contents[i].len - 1) / PAGE; /* all but the first page */
    assert_in_range(fg_bucket_faulty_count(f->faulty) - before, 1, pages);
}

static void range_beyond_the_end_is_cut(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < OBJECTS; i++)
        for (size_t q = 0; q < QUERIERS; q++) {
            uint64_t offset = draw(f, f->contents[i].len);

            check_range(f, q, i, offset, 7 * PAGE);
            check_range(f, q, i, offset, 2 * PAGE);
        }
}

static void each_page_is_read_from_the_bucket_once(void **state)
{
    struct fixture *f = *state;
    uint64_t before;

    before = fg_bucket_faulty_count(f->faulty);
    for (size_t i = 0; i < OBJECTS; i++)
        check_range(f, i % QUERIERS, i, 0, f->contents[i].len);
    assert_in_range(fg_bucket_faulty_count(f->faulty) - before, 1, OBJECTS);
    before = fg_bucket_faulty_count(f->faulty);
    for (int i = 0; i < 200; i++)
        check_any(f, (size_t)draw(f, QUERIERS));
    assert_int_equal(fg_bucket_faulty_count(f->faulty), before);
}

static void errors_of_the_bucket_pass_through(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket *bucket = qry_share_bucket(f->queriers[0].share);
    char name[FG_NAME_MAX_BYTES];

    for (uint64_t i = 0; i < 8; i++) { /* objects of every share */
        struct fg_bucket_request request;

        assert_int_equal(fg_name_block(name, FG_LIT("acme"), (struct fg_id){i, 99}, &f->err),
                         FG_OK);
        request = get(name, 0, 10);
        assert_int_equal(fg_bucket_call(bucket, &request), FG_E_NOT_FOUND);
        assert_non_null(strstr(request.err.msg, name));
        fg_bucket_clear(&request);
    }
    for (size_t i = 0; i < OBJECTS; i++) {
        struct fg_bucket_request request = get(f->names[i], f->contents[i].len, 10);

        assert_int_equal(fg_bucket_call(bucket, &request), FG_E_INVALID);
        fg_bucket_clear(&request);
    }
}

/* Objects that change, and objects not read in ranges, are not cached. */
static void other_requests_pass_through(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket *bucket = qry_share_bucket(f->queriers[1].share);
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = FG_NAME_L0};
    struct fg_bucket_request read = get(FG_NAME_L0, 0, 10);
    struct fg_bucket_request list = {.verb = FG_BUCKET_LIST, .name = FG_NAME_TENANTS};

    for (int i = 0; i < 3; i++) {
        char text[2] = {(char)('a' + i), '\0'};

        put.content = fg_cstr(text);
        assert_int_equal(fg_bucket_call(bucket, &put), FG_OK);
        fg_bucket_clear(&put);
        assert_int_equal(fg_bucket_call(bucket, &read), FG_OK);
        assert_true(fg_slice_is(fg_buf_slice(&read.body), text));
        fg_bucket_clear(&read);
    }
    assert_int_equal(fg_bucket_call(bucket, &list), FG_OK);
    assert_int_equal(list.n_entries, OBJECTS);
    fg_bucket_clear(&list);
    read = get(f->names[0], 0, 0);
    read.content_max_bytes = SIZE_MAX;
    assert_int_equal(fg_bucket_call(bucket, &read), FG_OK);
    assert_int_equal(read.body.len, f->contents[0].len);
    fg_bucket_clear(&read);
}

/* The keys, the list of damaged objects and all else that is attached to the bucket, also after the
 * share was created. */
static void attached_fields_are_those_of_the_bucket(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket *bucket = qry_share_bucket(f->queriers[1].share);
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = FG_NAME_L0};
    struct fg_bucket_request delete = {
        .verb = FG_BUCKET_DELETE, .name = FG_NAME_L0, .condition = FG_BUCKET_IF_MATCH};
    const struct fg_keys keys = {0};

    f->memory->keys = &keys;
    f->memory->plain_deletes = true;
    assert_ptr_equal(fg_bucket_base(bucket), f->memory);
    assert_ptr_equal(fg_bucket_base(bucket)->keys, &keys);
    assert_int_equal(fg_bucket_call(bucket, &put), FG_OK);
    delete.if_etag = put.etag;
    assert_int_equal(fg_bucket_call(bucket, &delete), FG_E_UNIMPLEMENTED);
    fg_bucket_clear(&put);
    fg_bucket_clear(&delete);
}

/* Sends a read that the bucket does not answer, through a querier, and cancels it. Returns true if
 * the request to the bucket was cancelled as well. */
static bool is_cancelled_in_the_bucket(struct fixture *f, size_t querier, size_t object)
{
    fg_auto(fg_bucket_wave) *wave = fg_bucket_wave_create();
    struct fg_bucket_request request = get(f->names[object], 0, 1);
    bool cancelled;

    request.fresh = true; /* its page is cached */
    bucket_hold_next(&f->hold, FG_BUCKET_GET, f->names[object]);
    fg_bucket_wave_send(wave, qry_share_bucket(f->queriers[querier].share), &request);
    bucket_hold_await(&f->hold);
    fg_bucket_wave_cancel(wave);
    /* The bucket has not answered yet. */
    assert_ptr_equal(fg_bucket_wave_next_within(wave, FG_MINUTE_NS / 2), &request);
    assert_int_equal(request.code, FG_E_CANCELED);
    cancelled = bucket_hold_end(&f->hold, FG_E_CANCELED);
    fg_bucket_clear(&request);
    check_range(f, querier, object, 0, 1); /* or three failed calls in a row make the owner bad */
    return cancelled;
}

/* A query that is abandoned does not wait for the bucket, nor for the owner, and asks nobody else
 * afterwards. */
static void cancelled_reads_end_at_once(void **state)
{
    struct fixture *f = *state;
    uint64_t before = fg_bucket_faulty_count(f->faulty);
    unsigned n = 0;

    for (size_t q = 0; q < QUERIERS; q++)
        for (size_t i = 0; i < OBJECTS; i++)
            n += is_cancelled_in_the_bucket(f, q, i);
    assert_int_equal(n, OBJECTS); /* by the owner of each */
    for (size_t i = 0; i < QUERIERS; i++)
        stop(&f->queriers[i]); /* waits for calls to owners */
    assert_int_equal(fg_bucket_faulty_count(f->faulty) - before, QUERIERS * OBJECTS);
}

/* A querier that is down costs requests but no answer; another one takes over its share. */
static void one_absent_member_does_not_fail_reads(void **state)
{
    struct fixture *f = *state;
    uint64_t before;

    for (int i = 0; i < 50; i++)
        check_any(f, (size_t)draw(f, QUERIERS));
    stop(&f->queriers[2]);
    for (int i = 0; i < 200; i++)
        check_any(f, (size_t)draw(f, QUERIERS - 1));
    for (size_t i = 0; i < OBJECTS; i++)
        for (size_t q = 0; q < 2; q++)
            check_range(f, q, i, 0, f->contents[i].len);
    before = fg_bucket_faulty_count(f->faulty);
    for (int i = 0; i < 200; i++)
        check_any(f, (size_t)draw(f, QUERIERS - 1));
    /* A few calls test whether the querier is back. */
    assert_in_range(fg_bucket_faulty_count(f->faulty) - before, 0, 20);
}

/* If the bucket fails, the read fails, and nothing wrong is cached. */
static void failed_reads_are_not_cached(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_request request;
    unsigned failed = 0;

    fg_bucket_faulty_set(f->faulty, &(struct fg_bucket_faults){.seed = 3, .refuse_permille = 500});
    for (size_t i = 0; i < OBJECTS; i++) {
        request = get(f->names[i], 0, f->contents[i].len);
        failed += fg_bucket_call(qry_share_bucket(f->queriers[0].share), &request) != FG_OK;
        fg_bucket_clear(&request);
    }
    assert_in_range(failed, 1, OBJECTS);
    fg_bucket_faulty_set(f->faulty, &(struct fg_bucket_faults){0});
    for (int i = 0; i < 100; i++)
        check_any(f, (size_t)draw(f, QUERIERS));
}

/* After a restart the pages of the first run are on the disk. */
static void pages_survive_on_disk(void **state)
{
    struct fixture *f = *state;
    char folder[] = "/tmp/share_test_XXXXXX";
    uint64_t before = 0;

    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < QUERIERS; i++)
        stop(&f->queriers[i]);
    (void)snprintf(f->addresses, sizeof f->addresses, "%s", f->queriers[0].url);
    for (int round = 0; round < 2; round++) {
        start(f, &f->queriers[0], folder);
        fg_disk_cache_settle(f->queriers[0].disk);
        before = fg_bucket_faulty_count(f->faulty);
        for (size_t i = 0; i < OBJECTS; i++)
            check_range(f, 0, i, 0, f->contents[i].len);
        fg_disk_cache_settle(f->queriers[0].disk);
        stop(&f->queriers[0]);
    }
    assert_int_equal(fg_bucket_faulty_count(f->faulty), before);
    (void)remove_tree(folder);
}

/* Replaces the object by its content without the last bytes. */
static void cut_object(struct fixture *f, size_t i, size_t by)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = f->names[i]};

    put.content = fg_slice_sub(fg_buf_slice(&f->contents[i]), 0, f->contents[i].len - by);
    assert_int_equal(fg_bucket_call(f->memory, &put), FG_OK);
    fg_bucket_clear(&put);
}

static uint64_t read_bytes(struct fixture *f, size_t querier, size_t object, bool fresh)
{
    struct fg_bucket_request request = get(f->names[object], 0, OBJECT_MAX_BYTES);
    uint64_t len;

    request.fresh = fresh;
    assert_int_equal(fg_bucket_call(qry_share_bucket(f->queriers[querier].share), &request), FG_OK);
    len = request.body.len;
    fg_bucket_clear(&request);
    return len;
}

/* An object is truncated, read and restored. All queriers keep the pages of the truncated object
 * until somebody asks for fresh ones; from then on all queriers get the fresh ones. */
static void damaged_pages_are_read_again(void **state)
{
    struct fixture *f = *state;
    char folder[] = "/tmp/share_test_XXXXXX";

    assert_non_null(mkdtemp(folder));
    for (size_t i = 1; i < OBJECTS; i++) { /* the first page of each object is cached */
        uint64_t whole = f->contents[i].len;

        cut_object(f, i, 1);
        assert_int_equal(read_bytes(f, i % QUERIERS, i, true), whole - 1);
        cut_object(f, i, 0);
        for (size_t q = 0; q < QUERIERS; q++)
            assert_int_equal(read_bytes(f, q, i, false), whole - 1);
        assert_int_equal(read_bytes(f, (i + 1) % QUERIERS, i, true), whole);
        for (size_t q = 0; q < QUERIERS; q++)
            assert_int_equal(read_bytes(f, q, i, false), whole);
    }
    /* The same holds for the disk and after a restart. */
    for (size_t i = 0; i < QUERIERS; i++)
        stop(&f->queriers[i]);
    (void)snprintf(f->addresses, sizeof f->addresses, "%s", f->queriers[0].url);
    cut_object(f, 0, 1);
    for (int round = 0; round < 2; round++) {
        start(f, &f->queriers[0], folder);
        fg_disk_cache_settle(f->queriers[0].disk);
        assert_int_equal(read_bytes(f, 0, 0, false), f->contents[0].len - 1);
        cut_object(f, 0, 0);
        if (round == 1)
            assert_int_equal(read_bytes(f, 0, 0, true), f->contents[0].len);
        fg_disk_cache_settle(f->queriers[0].disk);
        stop(&f->queriers[0]);
    }
    start(f, &f->queriers[0], folder);
    fg_disk_cache_settle(f->queriers[0].disk);
    assert_int_equal(read_bytes(f, 0, 0, false), f->contents[0].len);
    stop(&f->queriers[0]);
    (void)remove_tree(folder);
}

static enum fg_code ask_read(struct fixture *f, const char *name, uint64_t offset, uint64_t length)
{
    struct fg_peer *peer = fg_peer_direct(f->queriers[0].server);
    struct fg_call call = rpc_run_call(FG_RPC_READ, FG_MINUTE_NS);
    char text[FG_NAME_MAX_BYTES];
    Fg__Inner__ReadHead head;
    uint8_t bytes[1024];
    enum fg_code code;

    fg__inner__read_head__init(&head);
    (void)snprintf(text, sizeof text, "%s", name);
    head.name = text;
    head.offset = offset;
    head.length = length;
    call.head = fg_bytes(bytes, fg__inner__read_head__pack(&head, bytes));
    code = fg_peer_call(peer, &call);
    fg_call_done(peer, &call);
    fg_peer_destroy(peer);
    return code;
}

/* Malformed and foreign requests. */
static void only_ranges_of_blocks_are_served(void **state)
{
    struct fixture *f = *state;
    const char *block = f->names[1];

    assert_int_equal(ask_read(f, block, 0, 10), FG_OK);
    assert_int_equal(ask_read(f, block, 0, 0), FG_E_INVALID);
    assert_int_equal(ask_read(f, block, 0, UINT64_MAX), FG_E_INVALID);
    assert_int_equal(ask_read(f, block, UINT64_MAX, 10), FG_E_INVALID);
    assert_int_equal(ask_read(f, block, INT64_MAX, 10), FG_E_INVALID);
    assert_int_equal(ask_read(f, FG_NAME_L0, 0, 10), FG_E_INVALID);
    assert_int_equal(ask_read(f, "tenants/acme/manifest", 0, 10), FG_E_INVALID);
    assert_int_equal(ask_read(f, "../../etc/passwd", 0, 10), FG_E_INVALID);
    assert_int_equal(ask_read(f, "", 0, 10), FG_E_INVALID);
}

static void malformed_addresses_are_refused(void **state)
{
    static const char *const wrong[] = {
        "127.0.0.1:1",        "tcp://127.0.0.1",      "tcp://127.0.0.1:0",
        "tcp://:1",           "udp://host:1",         "tcp://host:70000",
        "tcp://127.0.0.1:1,", "tcp://a:1,,tcp://b:1", "tcp://127.0.0.1:x"};
    struct fixture *f = *state;
    struct qry_share *share;

    for (size_t i = 0; i < FG_COUNT(wrong); i++) {
        struct qry_share_settings settings = f->settings;
        char text[64];

        (void)snprintf(text, sizeof text, "%s", wrong[i]);
        settings.queriers = text;
        if (qry_share_create(&(struct qry_share_config){.settings = &settings,
                                                        .bucket = f->bucket,
                                                        .registry = f->registry,
                                                        .clock = fg_clock_real()},
                             &share, &f->err) != FG_E_INVALID)
            fail_msg("%s is taken", wrong[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shared_ranges_have_the_right_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(range_beyond_the_end_is_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_page_is_read_from_the_bucket_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(errors_of_the_bucket_pass_through, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_requests_pass_through, set_up, tear_down),
        cmocka_unit_test_setup_teardown(attached_fields_are_those_of_the_bucket, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancelled_reads_end_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_absent_member_does_not_fail_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failed_reads_are_not_cached, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_survive_on_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_pages_are_read_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_ranges_of_blocks_are_served, set_up, tear_down),
        cmocka_unit_test_setup_teardown(malformed_addresses_are_refused, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
