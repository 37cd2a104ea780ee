/* Tests faults: lost objects, damaged bytes, peers that refuse, and deadlines. */
#include "common/net/http/impl.h"
#include "querier/querier.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/unit/querier/asker.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static bool is_honest(enum fg_code code)
{
    return code == FG_OK || code == FG_E_UNAVAILABLE;
}

/* Requests are lost and bytes change on the way: the query fails or its answer is right, and
 * queries work again when the faults stop. */
static void bucket_failures_fail_the_query_or_leave_it_correct(void **state)
{
    static const struct fg_bucket_faults faults[] = {
        {.seed = 1, .spoil_permille = 400}, /* spoilt bytes are read a second time */
        {.seed = 2, .lose_answer_permille = 60, .lose_request_permille = 60},
        {.seed = 3, .tear_permille = 100},
        {.seed = 4, .refuse_permille = 50, .spoil_permille = 200},
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

/* A manifest lists an object that is lost for good: answers must say so. */
static void lost_object_fails_the_query(void **state)
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
    assert_int_equal(asker_ask_all(&asker, true, &err), FG_E_UNAVAILABLE);
    assert_non_null(strstr(err.msg, FG_NAME_SEGMENTS));
    world_objects_free(&list);
    asker_done(&asker);
}

/* Intact objects under the names of others. */
static void swapped_objects_are_detected(void **state)
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
    assert_int_equal(asker_ask_all(&asker, true, &err), FG_E_UNAVAILABLE);
    assert_non_null(strstr(err.msg, write.name));
    fg_bucket_clear(&read);
    fg_bucket_clear(&write);
    world_objects_free(&list);
    asker_done(&asker);
}

/* Each byte of a sample over the whole object is damaged in turn: the query fails, or it did not
 * need the byte. */
static void damaged_bytes_are_detected(void **state)
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
        assert_true(is_honest(code));
        found += code != FG_OK;
        read.body.ptr[i] ^= 0x20;
        fg_bucket_clear(&write);
    }
    assert_true(found > read.body.len / 13 / 4);
    fg_bucket_clear(&read);
    world_objects_free(&list);
    asker_done(&asker);
}

/* ---- what cannot be read is left out ---- */

enum damage { ERASED, CUT, FLIPPED_EARLY, FLIPPED_LATE, DAMAGES };

static void put(struct asker *asker, const char *name, struct fg_slice bytes)
{
    struct fg_bucket_request write = {.verb = FG_BUCKET_PUT, .name = name, .content = bytes};

    assert_int_equal(fg_bucket_call(asker->world.bucket, &write), FG_OK);
    fg_bucket_clear(&write);
}

/* bytes: of the object; the damage goes into the bucket and not into these. */
static void spoil(struct asker *asker, const char *name, struct fg_slice bytes, enum damage damage)
{
    struct fg_buf spoilt;

    fg_buf_init(&spoilt, SIZE_MAX);
    fg_buf_put(&spoilt, bytes);
    if (damage == ERASED)
        world_erase(&asker->world, name);
    else if (damage == CUT)
        put(asker, name, fg_slice_sub(bytes, 0, bytes.len / 2));
    if (damage == FLIPPED_EARLY)
        spoilt.ptr[bytes.len / 10] ^= 4;
    else if (damage == FLIPPED_LATE)
        spoilt.ptr[bytes.len - bytes.len / 10] ^= 4;
    if (damage >= FLIPPED_EARLY)
        put(asker, name, fg_buf_slice(&spoilt));
    fg_buf_done(&spoilt);
}

static bool is_of_nodes(const struct qry_query *query, const char *name)
{
    for (size_t t = 0; t < query->tenants.n; t++) {
        const struct fg_blocks *blocks = qry_blocks_manifest(query, t);

        for (uint32_t i = 0; i < blocks->n_blocks; i++) {
            char of[FG_NAME_MAX_BYTES];
            struct fg_err err;

            assert_int_equal(fg_name_block(of, query->tenants.ids[t], blocks->blocks[i].id, &err),
                             FG_OK);
            if (strcmp(of, name) == 0)
                return blocks->blocks[i].derived && !blocks->blocks[i].rollup_only;
        }
    }
    return false;
}

static int64_t total_of(const struct fg_tree *tree)
{
    int64_t total = tree->root_self;

    for (uint32_t i = 0; i < tree->n_nodes; i++)
        total += tree->self[i];
    return total;
}

/* Queries the flame graph of everything with one damaged object: it is complete and exact, or it
 * names the object and has less. Returns whether it is complete. */
static bool ask_partly(struct asker *asker, const char *spoilt)
{
    static const struct qry_stack_filter all;
    struct qry_query *query = asker_begin(asker, 7);
    struct qry_selection selection = {
        .type_text = asker_types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct world_query asked = {.tenants = 7,
                                .selector = &selection.selector,
                                .type = selection.type_text,
                                .start_ns = INT64_MIN,
                                .end_ns = INT64_MAX};
    struct fg_tree found, want;
    struct fg_err err;
    bool complete;

    fg_tree_init(&found);
    fg_tree_init(&want);
    asker_must(qry_flamegraph_make(query, &selection, &all, 4096, false, &found, &err), &err);
    complete = !query->incomplete;
    world_select(&asker->world, &asked, &all, true, &want);
    found.root_self = want.root_self = 0;
    if (complete && !query->inexact) {
        assert_string_equal(asker_tree_text(&found, query->arena),
                            asker_tree_text(&want, query->arena));
    } else if (!complete) {
        fg_buf_append(&query->missing, "", 1);
        assert_non_null(strstr((const char *)query->missing.ptr, spoilt));
        assert_true(total_of(&found) < total_of(&want));
        assert_false(is_of_nodes(query, spoilt));
    }
    fg_tree_done(&found);
    fg_tree_done(&want);
    asker_end(query);
    return complete;
}

static void partial_query_skips_unreadable_objects(void **state)
{
    unsigned complete = 0, incomplete = 0;

    (void)state;
    for (uint64_t seed = 20; seed < 24; seed++) {
        struct asker asker = {.random = seed, .partial = true, .keeps_all = true};
        struct world_objects list = {.n = 0};
        struct fg_err err;

        asker_init(&asker, seed, 0, NULL);
        asker.world.rollups_permille = 700;
        world_settle(&asker.world);
        for (uint32_t t = 0; t < WORLD_TENANTS; t++)
            world_sum(&asker.world, t);
        qry_refresh(asker.querier);
        asker_must(asker_ask_all(&asker, true, &err), &err);
        world_objects_list(&asker.world, FG_NAME_SEGMENTS, &list);
        world_objects_list(&asker.world, FG_NAME_TENANTS, &list);
        for (size_t i = 0; i < list.n; i++) {
            struct fg_bucket_request read = {
                .verb = FG_BUCKET_GET, .name = list.names[i], .content_max_bytes = 1 << 22};

            if (strstr(list.names[i], "/manifest") != NULL)
                continue;
            assert_int_equal(fg_bucket_call(asker.world.bucket, &read), FG_OK);
            for (int damage = 0; damage < DAMAGES; damage++) {
                spoil(&asker, list.names[i], fg_buf_slice(&read.body), (enum damage)damage);
                if (ask_partly(&asker, list.names[i])) {
                    complete++;
                } else {
                    incomplete++;
                    asker.partial = false;
                    /* A query for lines needs other pages than a flame graph. */
                    if (asker_ask_all(&asker, true, &err) != FG_OK) {
                        assert_int_equal(err.code, FG_E_UNAVAILABLE);
                        assert_non_null(strstr(err.msg, list.names[i]));
                        assert_non_null(strstr(err.msg, "partial=true"));
                    }
                    asker.partial = true;
                }
            }
            put(&asker, list.names[i], fg_buf_slice(&read.body));
            assert_true(ask_partly(&asker, list.names[i]));
            fg_bucket_clear(&read);
        }
        world_objects_free(&list);
        asker_done(&asker);
    }
    assert_true(complete > 20);
    assert_true(incomplete > 20);
}

/* ---- the bucket is away ---- */

static enum fg_code ask_again(struct asker *asker, bool partial, struct fg_err *err)
{
    asker->partial = partial;
    return asker_ask_all(asker, true, err);
}

/* Answers come from older copies and state their age; they are current again when the bucket is
 * back. */
static void unavailable_bucket_is_answered_from_older_copies(void **state)
{
    const struct fg_bucket_faults away = {.seed = 1, .refuse_permille = 1000}, none = {.seed = 1};
    struct asker asker = {.random = 7, .keeps_all = true};
    struct fg_err err;

    (void)state;
    asker_init(&asker, 7, UINT64_C(64) << 20, &none);
    world_settle(&asker.world);
    asker_must(ask_again(&asker, false, &err), &err);
    fg_bucket_faulty_set(asker.faulty, &away);
    fg_clock_manual_advance(&asker.clock, FG_MINUTE_NS);
    world_push(&asker.world, 40); /* heads still receive profiles */
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ask_again(&asker, i == 1, &err), FG_E_UNAVAILABLE);
        assert_non_null(strstr(err.msg, "not complete: manifests of 6"));
        fg_clock_manual_advance(&asker.clock, FG_SECOND_NS);
    }
    fg_bucket_faulty_set(asker.faulty, &none);
    fg_clock_manual_advance(&asker.clock, 5 * FG_SECOND_NS);
    asker_must(ask_again(&asker, false, &err), &err);
    for (unsigned k = 0; k < 20; k++)
        asker_must(asker_check_any(&asker, true, &err), &err);
    asker_done(&asker);
}

/* Without a cached copy the query fails with 503, unless the heads have all that it needs. */
static void unavailable_bucket_without_cache_fails_the_query(void **state)
{
    const struct fg_bucket_faults away = {.seed = 1, .refuse_permille = 1000}, none = {.seed = 1};
    struct asker asker = {.random = 7, .keeps_all = true};
    struct fg_err err;

    (void)state;
    asker_init(&asker, 7, 0, &none);
    fg_bucket_faulty_set(asker.faulty, &away);
    assert_int_equal(ask_again(&asker, true, &err), FG_E_UNAVAILABLE);
    assert_null(strstr(err.msg, "not complete")); /* without any manifest there is no answer */
    fg_bucket_faulty_set(asker.faulty, &none);
    fg_clock_manual_advance(&asker.clock, 5 * FG_SECOND_NS);
    world_settle(&asker.world);
    asker_must(ask_again(&asker, false, &err), &err);
    fg_bucket_faulty_set(asker.faulty, &away);
    fg_clock_manual_advance(&asker.clock, FG_MINUTE_NS);
    assert_int_equal(ask_again(&asker, false, &err), FG_E_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "set partial=true"));
    assert_int_equal(ask_again(&asker, true, &err), FG_E_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "not complete: manifests of 60 s ago"));
    asker_done(&asker);
}

static void ingester_that_always_refuses_fails_the_query(void **state)
{
    struct asker asker = {.random = 5};
    struct fg_err err;

    (void)state;
    asker_init(&asker, 9, 0, NULL);
    world_settle(&asker.world);
    asker.world.peer_code = FG_E_PRECONDITION;
    assert_int_equal(asker_ask_all(&asker, true, &err), FG_E_UNAVAILABLE);
    assert_true(asker.world.calls > 3 && asker.world.calls < 30);
    asker.world.peer_code = FG_E_UNAVAILABLE; /* only the first refusal counts */
    asker.world.calls = 0;
    assert_int_equal(asker_ask_all(&asker, true, &err), FG_E_UNAVAILABLE);
    assert_int_equal(asker.world.calls, WORLD_TENANTS);
    asker_done(&asker);
}

static void deadline_and_disconnect_end_the_query(void **state)
{
    static const struct qry_stack_filter all;
    struct asker asker = {.random = 5};
    struct qry_selection selection = {
        .type_text = asker_types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct qry_query *query;
    struct fg_http_request gone = {.gone = true};
    struct fg_tree tree;
    struct fg_err err;

    (void)state;
    asker_init(&asker, 10, 0, NULL);
    world_settle(&asker.world);
    query = asker_begin(&asker, 1);
    fg_tree_init(&tree);
    query->deadline_mono_ns = fg_mono_ns(&asker.clock.clock);
    assert_int_equal(qry_collect_tree(query, &selection, &all, true, &tree, &err), FG_E_DEADLINE);
    query->deadline_mono_ns = INT64_MAX;
    query->req = &gone;
    assert_int_equal(qry_collect_tree(query, &selection, &all, true, &tree, &err), FG_E_CANCELED);
    fg_tree_done(&tree);
    asker_end(query);
    assert_int_equal(asker_cache(&asker).entries, 0);
    asker_done(&asker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bucket_failures_fail_the_query_or_leave_it_correct),
        cmocka_unit_test(lost_object_fails_the_query),
        cmocka_unit_test(swapped_objects_are_detected),
        cmocka_unit_test(damaged_bytes_are_detected),
        cmocka_unit_test(partial_query_skips_unreadable_objects),
        cmocka_unit_test(unavailable_bucket_is_answered_from_older_copies),
        cmocka_unit_test(unavailable_bucket_without_cache_fails_the_query),
        cmocka_unit_test(ingester_that_always_refuses_fails_the_query),
        cmocka_unit_test(deadline_and_disconnect_end_the_query),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
