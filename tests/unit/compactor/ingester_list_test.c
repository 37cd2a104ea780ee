/* Which stores there are, read from a bucket. */
#include "compactor/ingester_list.h"
#include "tests/lib/bucket_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fixture {
    struct fg_bucket *bucket;
    struct cmp_env env;
    struct cmp_ingester_list list;
    const struct cmp_ingesters *known;
    struct fg_err err;
};

static void open_fixture(struct fixture *f, const struct cmp_local_store *own)
{
    *f = (struct fixture){.bucket = fg_bucket_memory()};
    f->env = (struct cmp_env){.bucket = f->bucket, .clock = fg_clock_real()};
    cmp_ingester_list_init(&f->list, own);
}

static void close_fixture(struct fixture *f)
{
    cmp_ingester_list_done(&f->list);
    fg_bucket_close(f->bucket);
}

static void put(struct fixture *f, struct fg_slice bytes)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = FG_RING_NAME, .content = bytes};

    assert_int_equal(fg_bucket_call(f->bucket, &put), FG_OK);
    fg_bucket_clear(&put);
}

/* A ring of so many members. */
static void put_ring(struct fixture *f, uint32_t n)
{
    static const char *const names[] = {"a", "b", "c"};
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = fg_ring_none();
    struct fg_buf bytes;
    bool changed;

    for (uint32_t i = 0; i < n; i++) {
        const struct fg_ring_change join = {.kind = FG_RING_JOIN,
                                            .name = fg_cstr(names[i]),
                                            .address = FG_LIT("tcp://x:1"),
                                            .store = {i, 9},
                                            .replicas = 1};

        assert_int_equal(fg_ring_apply(&ring, &join, arena, &ring, &changed, &f->err), FG_OK);
    }
    fg_buf_init(&bytes, FG_RING_MAX_BYTES);
    assert_int_equal(fg_ring_encode(&ring, &bytes, &f->err), FG_OK);
    put(f, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

static enum fg_code get(struct fixture *f)
{
    return cmp_ingester_list_get(&f->list, &f->env, &f->known, &f->err);
}

/* What was read holds until it is said to be old. */
static void the_list_follows_the_ring(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, NULL);
    assert_int_equal(get(&f), FG_OK);
    assert_false(f.known->known);
    put_ring(&f, 2);
    assert_int_equal(get(&f), FG_OK);
    assert_false(f.known->known);
    for (int i = 0; i < 2; i++) { /* the second time it is unchanged */
        cmp_ingester_list_age(&f.list);
        assert_int_equal(get(&f), FG_OK);
        assert_true(f.known->known);
        assert_int_equal(f.known->n, 2);
        assert_true(fg_slice_is(f.known->items[1].name, "b"));
    }
    put_ring(&f, 3);
    cmp_ingester_list_age(&f.list);
    assert_int_equal(get(&f), FG_OK);
    assert_int_equal(f.known->n, 3);
    put(&f, FG_LIT("no ring"));
    cmp_ingester_list_age(&f.list);
    assert_int_equal(get(&f), FG_E_CORRUPT);
    close_fixture(&f);
}

static void the_list_is_this_process_on_a_single_server(void **state)
{
    struct cmp_local_store own = {.known = false};
    struct fixture f;

    (void)state;
    open_fixture(&f, &own);
    put_ring(&f, 2); /* nobody asks for it */
    assert_int_equal(get(&f), FG_OK);
    assert_false(f.known->known);
    own.id = (struct fg_id){4, 4};
    atomic_store(&own.known, true);
    assert_int_equal(get(&f), FG_OK);
    assert_true(f.known->known);
    assert_int_equal(f.known->n, 1);
    assert_true(fg_id_eq(f.known->items[0].id, own.id));
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_follows_the_ring),
        cmocka_unit_test(the_list_is_this_process_on_a_single_server),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
