/* What goes wrong: objects that are gone, bytes that are spoilt, peers that refuse, and deadlines.
 */
#include "common/net/http/impl.h"
#include "tests/unit/querier/asker.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static bool is_honest(enum fg_code code)
{
    return code == FG_OK || code == FG_E_CORRUPT || code == FG_E_UNAVAILABLE;
}

/* Requests that are lost and bytes that change on the way: an error or the right answer, and all
 * is well once they stop. */
static void a_bucket_that_fails(void **state)
{
    static const struct fg_bucket_faults faults[] = {
        {.seed = 1, .spoil_permille = 100},
        {.seed = 2, .lose_answer_permille = 60, .lose_request_permille = 60},
        {.seed = 3, .tear_permille = 100},
        {.seed = 4, .refuse_permille = 50, .spoil_permille = 50},
    };
    const struct fg_bucket_faults none = {0};
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(faults); i++) {
        struct asker asker = {.random = i};
        unsigned failed = 0;

        asker_init(&asker, 11 + i, UINT64_C(1) << 20, &faults[i]);
        world_settle(&asker.world);
        for (unsigned k = 0; k < 300; k++) {
            enum fg_code code = asker_check_any(&asker, true, &err);

            assert_true(is_honest(code));
            failed += code != FG_OK;
            fg_clock_manual_advance(&asker.clock, FG_MINUTE_NS);
        }
        assert_true(failed > 5);
        fg_bucket_faulty_set(asker.faulty, &none);
        for (unsigned k = 0; k < 100; k++)
            asker_must(asker_check_any(&asker, true, &err), &err);
        asker_done(&asker);
    }
}

/* A manifest lists what is not there, and goes on doing so: the data is lost, and is said to be. */
static void an_object_that_is_lost(void **state)
{
    struct asker asker = {.random = 5};
    struct world_objects list = {.n = 0};
    struct fg_err err;

    (void)state;
    asker_init(&asker, 5, 0, NULL);
    world_settle(&asker.world);
    asker_must(asker_ask_all(&asker, true, &err), &err);
    world_objects_list(&asker.world, FG_NAME_SEGMENTS, &list);
    for (size_t i = 0; i < list.n; i++)
        world_erase(&asker.world, list.names[i]);
    assert_int_equal(asker_ask_all(&asker, true, &err), FG_E_CORRUPT);
    assert_non_null(strstr(err.msg, FG_NAME_SEGMENTS));
    world_objects_free(&list);
    asker_done(&asker);
}

/* Whole objects, but not those that the manifest means. */
static void objects_that_were_swapped(void **state)
{
    struct asker asker = {.random = 5};
    struct world_objects list = {.n = 0};
    struct fg_bucket_request read = {.verb = FG_BUCKET_GET, .content_max_bytes = 1 << 20};
    struct fg_bucket_request write = {.verb = FG_BUCKET_PUT};
    struct fg_err err;

    (void)state;
    asker_init(&asker, 6, 0, NULL);
    world_settle(&asker.world);
    world_objects_list(&asker.world, FG_NAME_SEGMENTS, &list);
    assert_true(list.n > 2);
    read.name = list.names[list.n - 1];
    assert_int_equal(fg_bucket_call(asker.world.bucket, &read), FG_OK);
    write.name = list.names[list.n - 2];
    write.content = fg_buf_slice(&read.body);
    assert_int_equal(fg_bucket_call(asker.world.bucket, &write), FG_OK);
    assert_int_equal(asker_ask_all(&asker, true, &err), FG_E_CORRUPT);
    assert_non_null(strstr(err.msg, write.name));
    fg_bucket_clear(&read);
    fg_bucket_clear(&write);
    world_objects_free(&list);
    asker_done(&asker);
}

/* Bytes all over an object, spoilt one at a time: an error, or the byte was not needed. */
static void bytes_that_are_spoilt(void **state)
{
    struct asker asker = {.random = 5};
    struct world_objects list = {.n = 0};
    struct fg_bucket_request read = {.verb = FG_BUCKET_GET, .content_max_bytes = 1 << 20};
    unsigned found = 0;
    struct fg_err err;

    (void)state;
    asker_init(&asker, 8, 0, NULL);
    world_push(&asker.world, 40);
    world_commit(&asker.world, 1000);
    world_objects_list(&asker.world, FG_NAME_SEGMENTS, &list);
    assert_int_equal(list.n, 1);
    read.name = list.names[0];
    assert_int_equal(fg_bucket_call(asker.world.bucket, &read), FG_OK);
    for (size_t i = 0; i < read.body.len; i += 13) {
        struct fg_bucket_request write = {
            .verb = FG_BUCKET_PUT, .name = read.name, .content = fg_buf_slice(&read.body)};
        enum fg_code code = FG_OK;

        read.body.ptr[i] ^= 0x20;
        assert_int_equal(fg_bucket_call(asker.world.bucket, &write), FG_OK);
        for (unsigned k = 0; k < 4 && code == FG_OK; k++)
            code = asker_check_any(&asker, true, &err);
        assert_true(code == FG_OK || code == FG_E_CORRUPT);
        found += code != FG_OK;
        read.body.ptr[i] ^= 0x20;
        fg_bucket_clear(&write);
    }
    assert_true(found > read.body.len / 13 / 4);
    fg_bucket_clear(&read);
    world_objects_free(&list);
    asker_done(&asker);
}

static void a_peer_that_always_refuses(void **state)
{
    struct asker asker = {.random = 5};
    struct fg_err err;

    (void)state;
    asker_init(&asker, 9, 0, NULL);
    world_settle(&asker.world);
    asker.world.peer_code = FG_E_PRECONDITION;
    assert_int_equal(asker_ask_all(&asker, true, &err), FG_E_UNAVAILABLE);
    assert_true(asker.world.calls > 3 && asker.world.calls < 30);
    asker.world.peer_code = FG_E_UNAVAILABLE; /* of all else it is the first that counts */
    asker.world.calls = 0;
    assert_int_equal(asker_ask_all(&asker, true, &err), FG_E_UNAVAILABLE);
    assert_int_equal(asker.world.calls, WORLD_TENANTS);
    asker_done(&asker);
}

static void deadlines_and_clients_that_leave(void **state)
{
    static const struct stacks all;
    struct asker asker = {.random = 5};
    struct selection selection = {
        .type_text = asker_types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct question *question;
    struct fg_http_request gone = {.gone = true};
    struct fg_tree tree;
    struct fg_err err;

    (void)state;
    asker_init(&asker, 10, 0, NULL);
    world_settle(&asker.world);
    question = asker_begin(&asker, 1);
    fg_tree_init(&tree);
    question->deadline_mono_ns = fg_mono_ns(&asker.clock.clock);
    assert_int_equal(plan_tree(question, &selection, &all, true, &tree, &err), FG_E_DEADLINE);
    question->deadline_mono_ns = INT64_MAX;
    question->req = &gone;
    assert_int_equal(plan_tree(question, &selection, &all, true, &tree, &err), FG_E_CANCELED);
    fg_tree_done(&tree);
    asker_end(question);
    assert_int_equal(asker_cache(&asker).entries, 0);
    asker_done(&asker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_that_fails),
        cmocka_unit_test(an_object_that_is_lost),
        cmocka_unit_test(objects_that_were_swapped),
        cmocka_unit_test(bytes_that_are_spoilt),
        cmocka_unit_test(a_peer_that_always_refuses),
        cmocka_unit_test(deadlines_and_clients_that_leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
