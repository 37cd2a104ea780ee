/* Dictionaries: what is read back from chunks is what was numbered. */
#include "ingester/dict.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { STACKS_MAX = 300, DEPTH_MAX = 6, NAMES = 9 };

static uint64_t next_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random);
}

/* A batch on the wire whose stacks are words of a few letters; the id says which. */
struct wire {
    struct fg_wire_batch batch;
    struct fg_wire_stack stacks[STACKS_MAX];
    uint32_t locations[STACKS_MAX][DEPTH_MAX];
    uint32_t nodes[STACKS_MAX], n_undefined;
};

/* Stack number `what` has depth what % 6, and digits of `what` for names. */
static void wire_add(struct wire *wire, uint64_t what, bool define)
{
    uint32_t n = wire->batch.n_stacks++, depth = (uint32_t)(what % DEPTH_MAX);
    uint64_t digits = fg_mix64(what);

    wire->stacks[n] = (struct fg_wire_stack){.id = {fg_mix64(what + 77), what}, .depth = depth};
    if (!define)
        return;
    wire->stacks[n].locations = wire->locations[n];
    for (uint32_t i = 0; i < depth; i++, digits /= NAMES) {
        char name[4] = {(char)('a' + digits % NAMES), '\0'};

        wire->locations[n][i] = fg_symbols_name_location(&wire->batch.symbols, fg_cstr(name));
    }
}

static void wire_start(struct wire *wire)
{
    memset(wire, 0, sizeof *wire);
    fg_symbols_init(&wire->batch.symbols);
    wire->batch.stacks = wire->stacks;
}

static void resolve(struct dict *dict, struct wire *wire)
{
    wire->n_undefined = dict_resolve(dict, &wire->batch, wire->nodes);
}

static void write_chunk(struct dict *dict, struct fg_store *store)
{
    struct fg_store_batch batch;
    struct fg_err err;

    fg_store_batch_init(&batch);
    dict_put_chunk(dict, &batch);
    if (batch.count > 0)
        assert_int_equal(fg_store_write(store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
}

static struct dict *take(struct dict_table *table, uint32_t service, uint32_t generation)
{
    struct dict *dict;
    struct fg_err err;

    assert_int_equal(dict_ref(table, service, generation, &dict, &err), FG_OK);
    return dict;
}

/* The names on the way from the node up to the root, leaf first. */
static void assert_path(struct dict *dict, uint32_t node, uint64_t what)
{
    const struct fg_tree *tree = dict_read_lock(dict);
    uint32_t depth = (uint32_t)(what % DEPTH_MAX);
    uint64_t digits = fg_mix64(what);

    assert_true(node <= tree->n_nodes);
    for (uint32_t i = 0; i < depth; i++, digits /= NAMES) {
        const struct fg_location *location;
        struct fg_slice name;

        assert_int_not_equal(node, 0);
        location = &tree->symbols.locations[tree->locations[node - 1]];
        name = fg_symbols_text(
            &tree->symbols,
            tree->symbols.functions[tree->symbols.lines[location->first_line].function].name);
        assert_int_equal(name.ptr[0], 'a' + digits % NAMES);
        node = tree->parents[node - 1] == FG_TREE_ROOT ? 0 : tree->parents[node - 1] + 1;
    }
    assert_int_equal(node, 0);
    dict_read_unlock(dict);
}

static void chunks_give_the_same_numbers(void **state)
{
    static struct wire wire;

    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
        struct dict_table *table = dict_table_create(store, 1 << 30), *again;
        struct dict *dict = take(table, 5, 3), *read;
        uint32_t nodes[STACKS_MAX];
        uint64_t random = seed;

        memset(nodes, 0xff, sizeof nodes);
        for (int chunk = 0; chunk < 6; chunk++) {
            wire_start(&wire);
            for (uint64_t i = 0; i < next_random(&random) % 60; i++) {
                uint64_t what = next_random(&random) % STACKS_MAX;

                wire_add(&wire, what, nodes[what] == UINT32_MAX || i % 2 == 0);
            }
            resolve(dict, &wire);
            assert_int_equal(wire.n_undefined, 0);
            for (uint32_t i = 0; i < wire.batch.n_stacks; i++) {
                uint64_t what = wire.stacks[i].id.hi;

                if (nodes[what] == UINT32_MAX)
                    nodes[what] = wire.nodes[i];
                assert_int_equal(nodes[what], wire.nodes[i]);
                assert_path(dict, wire.nodes[i], what);
            }
            fg_symbols_done(&wire.batch.symbols);
            write_chunk(dict, store);
        }
        dict_unref(table, dict);

        again = dict_table_create(store, 1 << 30);
        read = take(again, 5, 3);
        wire_start(&wire);
        for (uint64_t what = 0; what < STACKS_MAX; what++)
            if (nodes[what] != UINT32_MAX)
                wire_add(&wire, what, false);
        resolve(read, &wire);
        assert_int_equal(wire.n_undefined, 0);
        for (uint32_t i = 0; i < wire.batch.n_stacks; i++) {
            assert_int_equal(wire.nodes[i], nodes[wire.stacks[i].id.hi]);
            assert_path(read, wire.nodes[i], wire.stacks[i].id.hi);
        }
        fg_symbols_done(&wire.batch.symbols);
        dict_unref(again, read);
        dict_table_destroy(again);
        dict_table_destroy(table);
        fg_store_close(store);
    }
}

static void nobody_numbers_what_is_not_defined(void **state)
{
    static struct wire wire;
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct dict_table *table = dict_table_create(store, 1 << 30);
    struct dict *dict = take(table, 1, 0);
    struct fg_store_batch batch;

    (void)state;
    wire_start(&wire);
    wire_add(&wire, 11, true);
    wire_add(&wire, 12, false);
    wire_add(&wire, 6, false); /* not even the empty stack */
    resolve(dict, &wire);
    assert_int_equal(wire.n_undefined, 2);
    assert_int_equal(dict_read_lock(dict)->n_nodes, 0);
    dict_read_unlock(dict);
    fg_store_batch_init(&batch);
    dict_put_chunk(dict, &batch);
    assert_int_equal(batch.count, 0);
    fg_store_batch_done(&batch);
    fg_symbols_done(&wire.batch.symbols);

    wire_start(&wire);
    wire_add(&wire, 6, true);
    resolve(dict, &wire);
    assert_int_equal(wire.n_undefined, 0);
    assert_int_equal(wire.nodes[0], 0);
    fg_symbols_done(&wire.batch.symbols);
    dict_unref(table, dict);
    dict_table_destroy(table);
    fg_store_close(store);
}

/* Writes one stack into a generation. */
static void put_generation(struct fg_store *store, uint32_t service, uint32_t generation)
{
    static struct wire wire;
    struct dict_table *table = dict_table_create(store, 1 << 30);
    struct dict *dict = take(table, service, generation);

    wire_start(&wire);
    wire_add(&wire, 1, true);
    resolve(dict, &wire);
    write_chunk(dict, store);
    fg_symbols_done(&wire.batch.symbols);
    dict_unref(table, dict);
    dict_table_destroy(table);
}

static void list_one(uint32_t service, uint32_t generation, void *arg)
{
    fg_buf_printf(arg, "%u.%u ", service, generation);
}

static void they_are_listed_and_deleted(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct dict_table *table = dict_table_create(store, 1 << 30);
    struct fg_store_batch batch;
    struct fg_buf list;
    struct dict *dict;
    struct fg_err err;
    bool stored;

    (void)state;
    fg_buf_init(&list, SIZE_MAX);
    assert_int_equal(dict_each(store, list_one, &list, &err), FG_OK);
    assert_int_equal(list.len, 0);
    put_generation(store, 4, 1);
    put_generation(store, 4, 300);
    put_generation(store, 5, 8);
    assert_int_equal(dict_each(store, list_one, &list, &err), FG_OK);
    assert_true(fg_slice_is(fg_buf_slice(&list), "4.1 4.300 5.8 "));
    assert_int_equal(dict_stored(store, 4, 300, &stored, &err), FG_OK);
    assert_true(stored);
    assert_int_equal(dict_stored(store, 4, 2, &stored, &err), FG_OK);
    assert_false(stored);

    fg_store_batch_init(&batch);
    dict = take(table, 4, 300);
    assert_true(dict_in_use(table, 4, 300));
    assert_false(dict_delete(table, 4, 300, &batch));
    dict_unref(table, dict);
    assert_false(dict_in_use(table, 4, 300));
    assert_true(dict_delete(table, 4, 300, &batch));
    assert_int_equal(fg_store_write(store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
    assert_int_equal(dict_table_bytes(table), 0);
    fg_buf_clear(&list);
    assert_int_equal(dict_each(store, list_one, &list, &err), FG_OK);
    assert_true(fg_slice_is(fg_buf_slice(&list), "4.1 5.8 "));
    fg_buf_done(&list);
    dict_table_destroy(table);
    fg_store_close(store);
}

static void dictionaries_not_in_use_are_forgotten(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct dict_table *table;
    struct dict *held;

    (void)state;
    for (uint32_t service = 0; service < 50; service++)
        put_generation(store, service, 0);
    table = dict_table_create(store, 1);
    held = take(table, 0, 0);
    for (uint32_t service = 1; service < 50; service++)
        dict_unref(table, take(table, service, 0));
    assert_ptr_equal(take(table, 0, 0), held); /* in use, so it stayed */
    dict_unref(table, held);
    dict_unref(table, held);
    dict_unref(table, take(table, 49, 0));
    assert_true(dict_table_bytes(table) < 100000);
    dict_table_destroy(table);
    fg_store_close(store);
}

/* Damaged chunks, and chunks out of their order, are errors. */
static void damaged_chunks_are_corrupt(void **state)
{
    struct fg_store *good = fg_store_memory(HEAD_FAMILIES);
    struct fg_store_iter *iter;
    uint64_t random = 8;
    size_t corrupt = 0;

    (void)state;
    put_generation(good, 1, 0);
    iter = fg_store_iter_create(good, HEAD_DICT, FG_LIT(""), FG_LIT(""));
    assert_true(iter->valid);
    for (int i = 0; i < 2000; i++) {
        struct fg_store *bad = fg_store_memory(HEAD_FAMILIES);
        struct dict_table *table = dict_table_create(bad, 1 << 30);
        struct fg_store_batch batch;
        struct dict *dict;
        struct fg_err err;
        struct fg_buf value;

        fg_buf_init(&value, SIZE_MAX);
        fg_buf_put(&value, iter->value);
        if (i % 2 == 0)
            value.len = next_random(&random) % value.len;
        else
            value.ptr[next_random(&random) % value.len] = (uint8_t)next_random(&random);
        fg_store_batch_init(&batch);
        fg_store_put(&batch, HEAD_DICT, iter->key, fg_buf_slice(&value));
        assert_int_equal(fg_store_write(bad, &batch, &err), FG_OK);
        fg_store_batch_done(&batch);
        if (dict_ref(table, 1, 0, &dict, &err) == FG_OK) {
            dict_unref(table, dict);
        } else {
            assert_int_equal(err.code, FG_E_CORRUPT);
            corrupt++;
        }
        fg_buf_done(&value);
        dict_table_destroy(table);
        fg_store_close(bad);
    }
    assert_true(corrupt >= 1000);
    fg_store_iter_destroy(iter);
    fg_store_close(good);
}

static void a_store_that_fails_is_reported(void **state)
{
    struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
    struct fg_store_faulty faulty;
    struct dict_table *table;
    struct dict *dict;
    struct fg_err err;

    (void)state;
    fg_store_faulty_init(&faulty, inner);
    faulty.fail_reads = true;
    table = dict_table_create(&faulty.store, 1 << 30);
    assert_int_equal(dict_ref(table, 1, 0, &dict, &err), FG_E_UNAVAILABLE);
    assert_int_equal(dict_each(&faulty.store, list_one, NULL, &err), FG_E_UNAVAILABLE);
    faulty.fail_reads = false;
    dict_unref(table, take(table, 1, 0));
    dict_table_destroy(table);
    fg_store_close(inner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_give_the_same_numbers),
        cmocka_unit_test(nobody_numbers_what_is_not_defined),
        cmocka_unit_test(they_are_listed_and_deleted),
        cmocka_unit_test(dictionaries_not_in_use_are_forgotten),
        cmocka_unit_test(damaged_chunks_are_corrupt),
        cmocka_unit_test(a_store_that_fails_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
