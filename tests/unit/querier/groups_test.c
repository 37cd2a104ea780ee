/* Tests sums by group: what ingesters send, lists that are summed up, and limits. */
#include "querier/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
    struct fg_arena *arena;
    struct fg_tree tree;
    struct qry_groups groups;
    struct fg_err err;
};

static void begin(struct fixture *f, size_t max_groups, uint64_t max_bytes)
{
    f->arena = fg_arena_create(1 << 20);
    fg_tree_init(&f->tree);
    qry_groups_init(&f->groups, &f->tree, f->arena, max_groups, max_bytes);
}

static void end(struct fixture *f)
{
    qry_groups_done(&f->groups);
    fg_tree_done(&f->tree);
    fg_arena_destroy(f->arena);
}

static uint32_t add_name(struct fg_tree *tree, uint32_t parent, const char *name)
{
    return fg_tree_child(tree, parent, fg_symbols_name_location(&tree->symbols, fg_cstr(name)));
}

/* A payload of two groups over main > work, of which "a" comes twice. last: node of the last value.
 */
static void put_payload(struct fg_buf *out, int64_t last)
{
    struct fg_tree tree;
    struct fg_buf encoded;

    fg_tree_init(&tree);
    fg_buf_init(&encoded, SIZE_MAX);
    (void)add_name(&tree, add_name(&tree, FG_TREE_ROOT, "main"), "work");
    fg_tree_encode(&tree, &encoded);
    fg_buf_lenbytes(out, fg_buf_slice(&encoded));
    fg_buf_varint(out, 3);
    for (int64_t i = 0; i < 3; i++) {
        fg_buf_lenbytes(out, fg_cstr(i == 1 ? "b" : "a"));
        fg_buf_varint(out, 2);
        fg_buf_zigzag(out, 1);
        fg_buf_zigzag(out, 10 + i);
        fg_buf_zigzag(out, i == 2 ? last - 1 : -1);
        fg_buf_zigzag(out, 100);
    }
    fg_buf_done(&encoded);
    fg_tree_done(&tree);
}

static int64_t sum_of(const struct fixture *f, size_t group, uint32_t node)
{
    int64_t *sums = calloc(f->tree.n_nodes + 1, sizeof *sums), sum;

    qry_group_sum(&f->groups.items[group], sums);
    sum = sums[node];
    free(sums);
    return sum;
}

static void groups_of_ingesters_are_added_up(void **state)
{
    struct fixture f;
    struct fg_buf payload;

    (void)state;
    begin(&f, 10, 1 << 20);
    fg_buf_init(&payload, SIZE_MAX);
    put_payload(&payload, 0);
    (void)add_name(&f.tree, FG_TREE_ROOT, "other"); /* numbers differ from those of the payload */
    for (int i = 0; i < 2; i++)
        assert_int_equal(qry_groups_take(&f.groups, fg_buf_slice(&payload), &f.err), FG_OK);
    assert_int_equal(f.groups.n, 2);
    assert_true(fg_slice_is(f.groups.items[0].name, "a"));
    assert_int_equal(f.tree.n_nodes, 3);
    assert_int_equal(sum_of(&f, 0, 1), 400);
    assert_int_equal(sum_of(&f, 0, 2), 2 * (10 + 12));
    assert_int_equal(sum_of(&f, 1, 2), 2 * 11);
    qry_groups_clear(&f.groups);
    assert_int_equal(f.groups.n, 0);
    assert_int_equal(f.tree.n_nodes, 3);
    fg_buf_done(&payload);
    end(&f);
}

static void a_damaged_payload_is_refused(void **state)
{
    struct fixture f;
    struct fg_buf payload;

    (void)state;
    fg_buf_init(&payload, SIZE_MAX);
    put_payload(&payload, 0);
    for (size_t len = 0; len < payload.len; len++) {
        begin(&f, 10, 1 << 20);
        assert_int_equal(qry_groups_take(&f.groups, fg_bytes(payload.ptr, len), &f.err),
                         FG_E_CORRUPT);
        end(&f);
    }
    for (int64_t last = -1; last <= 2; last += 3) {
        fg_buf_clear(&payload);
        put_payload(&payload, last);
        begin(&f, 10, 1 << 20);
        assert_int_equal(qry_groups_take(&f.groups, fg_buf_slice(&payload), &f.err), FG_E_CORRUPT);
        end(&f);
    }
    fg_buf_done(&payload);
}

static void lists_stay_as_short_as_there_are_nodes(void **state)
{
    struct fixture f;
    size_t group;

    (void)state;
    begin(&f, 10, 1 << 20);
    (void)add_name(&f.tree, add_name(&f.tree, FG_TREE_ROOT, "main"), "work");
    assert_int_equal(qry_groups_find(&f.groups, fg_cstr("a"), &group, &f.err), FG_OK);
    for (int64_t i = 0; i < 100000; i++) {
        assert_int_equal(qry_groups_add(&f.groups, group, (uint32_t)(i % 2), 3, &f.err), FG_OK);
        /* Values that cancel leave nothing behind that counts twice. */
        assert_int_equal(qry_groups_add(&f.groups, group, 1, i % 2 == 0 ? 5 : -5, &f.err), FG_OK);
    }
    assert_true(f.groups.items[0].cap < 1000);
    assert_int_equal(sum_of(&f, 0, 0), 150000);
    assert_int_equal(sum_of(&f, 0, 1), 150000);
    end(&f);
}

static void groups_and_bytes_are_bounded(void **state)
{
    struct fixture f;
    size_t group;
    char name[16];
    enum fg_code code = FG_OK;

    (void)state;
    begin(&f, 3, 1 << 20);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        code = qry_groups_find(&f.groups, fg_cstr(name), &group, &f.err);
        assert_int_equal(code, i < 3 ? FG_OK : FG_E_INVALID);
    }
    assert_int_equal(qry_groups_find(&f.groups, fg_cstr("1"), &group, &f.err), FG_OK);
    assert_int_equal(group, 1);
    end(&f);

    begin(&f, 3, 4096);
    assert_int_equal(qry_groups_find(&f.groups, fg_cstr("a"), &group, &f.err), FG_OK);
    code = FG_OK;
    for (int i = 0; i < 1000 && code == FG_OK; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        code = qry_groups_add(&f.groups, group, add_name(&f.tree, FG_TREE_ROOT, name), 1, &f.err);
    }
    assert_int_equal(code, FG_E_LIMIT);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_ingesters_are_added_up),
        cmocka_unit_test(a_damaged_payload_is_refused),
        cmocka_unit_test(lists_stay_as_short_as_there_are_nodes),
        cmocka_unit_test(groups_and_bytes_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
