/* Dictionaries: what is read back from chunks is what was numbered. */
#include "ingester/dict.h"
#include "tests/lib/store_doubles.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

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

static void resolve(struct ing_dict *dict, struct wire *wire)
{
    wire->n_undefined = ing_dict_resolve(dict, &wire->batch, wire->nodes);
}

static void write_chunk(struct ing_dict *dict, struct fg_store *store)
{
    struct fg_store_batch batch;
    struct fg_err err;

    fg_store_batch_init(&batch);
    ing_dict_put_chunk(dict, &batch);
    if (batch.count > 0)
        assert_int_equal(fg_store_write(store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
}

static struct ing_dict *take(struct ing_dict_table *table, uint32_t service, uint32_t generation)
{
    struct ing_dict *dict;
    struct fg_err err;

    assert_int_equal(ing_dict_ref(table, service, generation, &dict, &err), FG_OK);
    return dict;
}

/* The names on the way from the node up to the root, leaf first. */
static void assert_path(struct ing_dict *dict, uint32_t node, uint64_t what)
{
    struct ing_dict_view view;
    const struct fg_tree *tree = &view.tree;
    uint32_t depth = (uint32_t)(what % DEPTH_MAX);
    uint64_t digits = fg_mix64(what);

    ing_dict_view_begin(dict, &view);
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
    ing_dict_view_end(dict, &view);
}

static void chunks_give_the_same_numbers(void **state)
{
    static struct wire wire;

    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
        struct ing_dict_table *table = ing_dict_table_create(store, 1 << 30), *again;
        struct ing_dict *dict = take(table, 5, 3), *read;
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
        ing_dict_unref(table, dict);

        again = ing_dict_table_create(store, 1 << 30);
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
        ing_dict_unref(again, read);
        ing_dict_table_destroy(again);
        ing_dict_table_destroy(table);
        fg_store_close(store);
    }
}

static void undefined_stacks_get_no_number(void **state)
{
    static struct wire wire;
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_dict_table *table = ing_dict_table_create(store, 1 << 30);
    struct ing_dict *dict = take(table, 1, 0);
    struct fg_store_batch batch;
    struct ing_dict_view view;

    (void)state;
    wire_start(&wire);
    wire_add(&wire, 11, true);
    wire_add(&wire, 12, false);
    wire_add(&wire, 6, false); /* not even the empty stack */
    resolve(dict, &wire);
    assert_int_equal(wire.n_undefined, 2);
    ing_dict_view_begin(dict, &view);
    assert_int_equal(view.tree.n_nodes, 0);
    ing_dict_view_end(dict, &view);
    fg_store_batch_init(&batch);
    ing_dict_put_chunk(dict, &batch);
    assert_int_equal(batch.count, 0);
    fg_store_batch_done(&batch);
    fg_symbols_done(&wire.batch.symbols);

    wire_start(&wire);
    wire_add(&wire, 6, true);
    resolve(dict, &wire);
    assert_int_equal(wire.n_undefined, 0);
    assert_int_equal(wire.nodes[0], 0);
    fg_symbols_done(&wire.batch.symbols);
    ing_dict_unref(table, dict);
    ing_dict_table_destroy(table);
    fg_store_close(store);
}

/* Writes one stack into a generation. */
static void put_generation(struct fg_store *store, uint32_t service, uint32_t generation)
{
    static struct wire wire;
    struct ing_dict_table *table = ing_dict_table_create(store, 1 << 30);
    struct ing_dict *dict = take(table, service, generation);

    wire_start(&wire);
    wire_add(&wire, 1, true);
    resolve(dict, &wire);
    write_chunk(dict, store);
    fg_symbols_done(&wire.batch.symbols);
    ing_dict_unref(table, dict);
    ing_dict_table_destroy(table);
}

static void list_one(uint32_t service, uint32_t generation, void *arg)
{
    fg_buf_printf(arg, "%u.%u ", service, generation);
}

static void dictionaries_are_listed_and_deleted(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_dict_table *table = ing_dict_table_create(store, 1 << 30);
    struct fg_store_batch batch;
    struct fg_buf list;
    struct ing_dict *dict;
    struct fg_err err;
    bool stored;

    (void)state;
    fg_buf_init(&list, SIZE_MAX);
    assert_int_equal(ing_dict_each(store, list_one, &list, &err), FG_OK);
    assert_int_equal(list.len, 0);
    put_generation(store, 4, 1);
    put_generation(store, 4, 300);
    put_generation(store, 5, 8);
    assert_int_equal(ing_dict_each(store, list_one, &list, &err), FG_OK);
    assert_true(fg_slice_is(fg_buf_slice(&list), "4.1 4.300 5.8 "));
    assert_int_equal(ing_dict_stored(store, 4, 300, &stored, &err), FG_OK);
    assert_true(stored);
    assert_int_equal(ing_dict_stored(store, 4, 2, &stored, &err), FG_OK);
    assert_false(stored);

    /* Keys that no dictionary has do not stop or repeat the list. */
    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_DICT, FG_LIT("\0\0\0\4\0\0\0\1\xff\xff\xff\xff"), FG_LIT("x"));
    fg_store_put(&batch, HEAD_DICT, FG_LIT("\0\0\0\4\1"), FG_LIT("x"));
    fg_store_put(&batch, HEAD_DICT, FG_LIT("\0\0\0\6\xff\xff\xff\xff\0\0\0\0"), FG_LIT("x"));
    fg_store_put(&batch, HEAD_DICT, FG_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
                 FG_LIT("x"));
    assert_int_equal(fg_store_write(store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
    fg_buf_clear(&list);
    assert_int_equal(ing_dict_each(store, list_one, &list, &err), FG_OK);
    assert_true(
        fg_slice_is(fg_buf_slice(&list), "4.1 4.300 5.8 6.4294967295 4294967295.4294967295 "));
    fg_store_batch_init(&batch);
    fg_store_delete_range(&batch, HEAD_DICT, FG_LIT("\0\0\0\6"),
                          FG_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0"));
    assert_int_equal(fg_store_write(store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);

    fg_store_batch_init(&batch);
    dict = take(table, 4, 300);
    assert_true(ing_dict_in_use(table, 4, 300));
    assert_false(ing_dict_delete(table, 4, 300, &batch));
    ing_dict_unref(table, dict);
    assert_false(ing_dict_in_use(table, 4, 300));
    assert_true(ing_dict_delete(table, 4, 300, &batch));
    assert_int_equal(fg_store_write(store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
    assert_int_equal(ing_dict_table_bytes(table), 0);
    fg_buf_clear(&list);
    assert_int_equal(ing_dict_each(store, list_one, &list, &err), FG_OK);
    assert_true(fg_slice_is(fg_buf_slice(&list), "4.1 5.8 "));
    fg_buf_done(&list);
    ing_dict_table_destroy(table);
    fg_store_close(store);
}

static void dictionaries_not_in_use_are_evicted(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_dict_table *table;
    struct ing_dict *held;

    (void)state;
    for (uint32_t service = 0; service < 50; service++)
        put_generation(store, service, 0);
    table = ing_dict_table_create(store, 1);
    held = take(table, 0, 0);
    for (uint32_t service = 1; service < 50; service++)
        ing_dict_unref(table, take(table, service, 0));
    assert_ptr_equal(take(table, 0, 0), held); /* in use, so it stayed */
    ing_dict_unref(table, held);
    ing_dict_unref(table, held);
    ing_dict_unref(table, take(table, 49, 0));
    assert_true(ing_dict_table_bytes(table) < 100000);
    ing_dict_table_destroy(table);
    fg_store_close(store);
}

/* Puts a dictionary of so many batches of stacks, of a few hundred kilobytes. */
static void put_large(struct ing_dict_table *table, struct fg_store *store, uint32_t service,
                      uint64_t batches)
{
    struct ing_dict *dict = take(table, service, 0);
    struct wire wire;

    for (uint64_t n = 0; n < batches; n++) {
        wire_start(&wire);
        for (uint64_t i = 0; i < STACKS_MAX; i++)
            wire_add(&wire, n * STACKS_MAX + i, true);
        resolve(dict, &wire);
        assert_int_equal(wire.n_undefined, 0);
        fg_symbols_done(&wire.batch.symbols);
    }
    write_chunk(dict, store);
    ing_dict_unref(table, dict);
}

/* Reads the four dictionaries of the test below, and keeps a reference to the last one. */
static struct ing_dict *read_four(struct ing_dict_table *table)
{
    for (uint32_t service = 0; service < 3; service++)
        ing_dict_unref(table, take(table, service, 0));
    return take(table, 3, 0);
}

/* A dictionary ends only if there is too little memory for those that are in use. */
static void unused_dictionaries_leave_before_one_is_outgrown(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_dict_table *table = ing_dict_table_create(store, 1 << 30);
    struct ing_dict *dict;
    uint64_t bytes;

    (void)state;
    for (uint32_t service = 0; service < 4; service++)
        put_large(table, store, service, service < 3 ? 40 : 80); /* the last one is the largest */
    ing_dict_table_destroy(table);
    table = ing_dict_table_create(store, 1 << 30);
    ing_dict_unref(table, read_four(table));
    bytes = ing_dict_table_bytes(table);
    ing_dict_table_destroy(table);
    table = ing_dict_table_create(store, bytes);
    dict = read_four(table);
    assert_int_equal(ing_dict_table_bytes(table), bytes);
    assert_true(ing_dict_outgrown(table, dict)); /* all were used a moment ago */
    assert_int_equal(ing_dict_table_bytes(table), bytes);
    for (unsigned i = 0; i < 200; i++)
        ing_dict_unref(table, take(table, 3, 0));
    assert_false(ing_dict_outgrown(table, dict));
    assert_true(ing_dict_table_bytes(table) < bytes);
    assert_true(ing_dict_table_bytes(table) > bytes / 2); /* not more than needed */
    ing_dict_unref(table, dict);
    ing_dict_table_destroy(table);
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
        struct ing_dict_table *table = ing_dict_table_create(bad, 1 << 30);
        struct fg_store_batch batch;
        struct ing_dict *dict;
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
        if (ing_dict_ref(table, 1, 0, &dict, &err) == FG_OK) {
            ing_dict_unref(table, dict);
        } else {
            assert_int_equal(err.code, FG_E_CORRUPT);
            corrupt++;
        }
        fg_buf_done(&value);
        ing_dict_table_destroy(table);
        fg_store_close(bad);
    }
    assert_true(corrupt >= 1000);
    fg_store_iter_destroy(iter);
    fg_store_close(good);
}

static void store_failure_is_returned(void **state)
{
    struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
    struct fg_store_faulty faulty;
    struct ing_dict_table *table;
    struct ing_dict *dict;
    struct fg_err err;

    (void)state;
    fg_store_faulty_init(&faulty, inner);
    faulty.fail_reads = true;
    table = ing_dict_table_create(&faulty.store, 1 << 30);
    assert_int_equal(ing_dict_ref(table, 1, 0, &dict, &err), FG_E_UNAVAILABLE);
    assert_int_equal(ing_dict_each(&faulty.store, list_one, NULL, &err), FG_E_UNAVAILABLE);
    faulty.fail_reads = false;
    ing_dict_unref(table, take(table, 1, 0));
    ing_dict_table_destroy(table);
    fg_store_close(inner);
}

/* ---- readers and the writer ---- */

enum { MANY_STACKS = 6000, ADDED_AT_A_TIME = 100, READERS = 3, WAIT_S = 60 };

/* A stack of one name that no other stack has. */
static void add_unique(struct ing_dict *dict, uint32_t from, uint32_t to)
{
    struct fg_wire_stack stacks[ADDED_AT_A_TIME];
    uint32_t locations[ADDED_AT_A_TIME], nodes[ADDED_AT_A_TIME];
    struct fg_wire_batch batch = {.stacks = stacks};

    fg_assert(to - from <= ADDED_AT_A_TIME);
    fg_symbols_init(&batch.symbols);
    for (uint32_t i = from; i < to; i++) {
        uint32_t n = batch.n_stacks++;
        char name[32];

        (void)snprintf(name, sizeof name, "function number %u", i);
        locations[n] = fg_symbols_name_location(&batch.symbols, fg_cstr(name));
        stacks[n] =
            (struct fg_wire_stack){.id = {fg_mix64(i), i}, .depth = 1, .locations = &locations[n]};
    }
    fg_assert(ing_dict_resolve(dict, &batch, nodes) == 0);
    fg_symbols_done(&batch.symbols);
}

/* What add_unique() added, in its order. */
static void assert_unique(const struct ing_dict_view *view, uint32_t least)
{
    const struct fg_symbols *symbols = &view->tree.symbols;

    fg_assert(view->n_stacks >= least && view->tree.n_nodes == view->n_stacks);
    for (uint32_t i = 0; i < view->n_stacks; i++) {
        struct fg_slice text;
        char name[32];

        (void)snprintf(name, sizeof name, "function number %u", i);
        text = fg_tree_name(&view->tree, i);
        fg_assert(fg_slice_is(text, name));
        fg_assert(view->tree.parents[i] == FG_TREE_ROOT);
        fg_assert(view->stacks[i].node == i + 1 && view->stacks[i].id.hi == i);
    }
    fg_assert(symbols->n_locations == view->n_stacks);
}

static void *add_many(void *arg)
{
    for (uint32_t i = 0; i < MANY_STACKS; i += ADDED_AT_A_TIME)
        add_unique(arg, i, i + ADDED_AT_A_TIME);
    return NULL;
}

static void join_in_time(pthread_t thread)
{
    struct timespec until;

    assert_int_equal(clock_gettime(CLOCK_REALTIME, &until), 0);
    until.tv_sec += WAIT_S;
    assert_int_equal(pthread_timedjoin_np(thread, NULL, &until), 0);
}

/* A query that stays in its merge for ever holds up no push, and a push changes nothing in it. */
static void merging_reader_does_not_block_the_writer(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_dict_table *table = ing_dict_table_create(store, 1 << 30);
    struct ing_dict *dict = take(table, 1, 0);
    struct ing_dict_view before, after;
    uint64_t bytes;
    pthread_t writer;

    (void)state;
    add_unique(dict, 0, ADDED_AT_A_TIME);
    ing_dict_view_begin(dict, &before);
    assert_int_equal(pthread_create(&writer, NULL, add_many, dict), 0); /* the first are there */
    join_in_time(writer);
    assert_int_equal(before.n_stacks, ADDED_AT_A_TIME);
    assert_unique(&before, ADDED_AT_A_TIME);
    ing_dict_view_begin(dict, &after);
    assert_int_equal(after.n_stacks, MANY_STACKS);
    assert_unique(&after, MANY_STACKS);

    /* Arrays that only views use count as memory until the last view has ended. */
    ing_dict_unref(table, take(table, 1, 0));
    bytes = ing_dict_table_bytes(table);
    ing_dict_view_end(dict, &before);
    ing_dict_view_end(dict, &after);
    ing_dict_unref(table, dict);
    assert_true(ing_dict_table_bytes(table) < bytes);
    ing_dict_table_destroy(table);
    fg_store_close(store);
}

struct reading {
    struct ing_dict *dict;
    atomic_bool *end;
};

static void *read_on(void *arg)
{
    const struct reading *reading = arg;
    uint32_t least = 0;
    bool last = false;

    while (!last) {
        struct ing_dict_view view;

        last = atomic_load(reading->end);
        ing_dict_view_begin(reading->dict, &view);
        assert_unique(&view, last ? MANY_STACKS : least);
        least = view.n_stacks;
        ing_dict_view_end(reading->dict, &view);
    }
    return NULL;
}

/* Each view is what the dictionary was at one moment, while the arrays grow. */
static void views_are_consistent_while_stacks_are_added(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_dict_table *table = ing_dict_table_create(store, 1 << 30);
    struct ing_dict *dict = take(table, 1, 0);
    atomic_bool end = false;
    struct reading reading = {dict, &end};
    pthread_t readers[READERS];

    (void)state;
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_on, &reading), 0);
    (void)add_many(dict);
    atomic_store(&end, true);
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    ing_dict_unref(table, dict);
    ing_dict_table_destroy(table);
    fg_store_close(store);
}

/* A store whose iterators over the dictionary of service 1 wait at a gate. */
struct gated_store {
    struct fg_store store;
    struct fg_store_ops ops;
    struct fg_store *inner;
    sem_t arrived, gate;
    atomic_uint iters; /* of that dictionary */
};

static struct fg_store_iter *gated_iter(struct fg_store *store, unsigned family,
                                        struct fg_slice from, struct fg_slice to)
{
    struct gated_store *gated = fg_container(store, struct gated_store, store);

    if (from.len > 3 && from.ptr[3] == 1) {
        (void)atomic_fetch_add(&gated->iters, 1);
        fg_assert(sem_post(&gated->arrived) == 0);
        fg_assert(sem_wait(&gated->gate) == 0);
    }
    return fg_store_iter_create(gated->inner, family, from, to);
}

struct taking {
    struct ing_dict_table *table;
    struct ing_dict *dict;
};

static void *take_gated(void *arg)
{
    struct taking *taking = arg;

    taking->dict = take(taking->table, 1, 0);
    return NULL;
}

static void *take_other(void *arg)
{
    struct taking *taking = arg;

    taking->dict = take(taking->table, 2, 0);
    return NULL;
}

/* An old dictionary that a query asks for is read by one thread; pushes of others go on. */
static void loading_a_dictionary_blocks_no_other(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct gated_store gated = {.inner = store, .ops = *store->ops};
    struct taking first, second, other;
    pthread_t threads[3];

    (void)state;
    put_generation(store, 1, 0);
    put_generation(store, 2, 0);
    gated.ops.iter = gated_iter;
    gated.store.ops = &gated.ops;
    assert_int_equal(sem_init(&gated.arrived, 0, 0), 0);
    assert_int_equal(sem_init(&gated.gate, 0, 0), 0);
    first.table = second.table = other.table = ing_dict_table_create(&gated.store, 1 << 30);
    assert_int_equal(pthread_create(&threads[0], NULL, take_gated, &first), 0);
    assert_int_equal(sem_wait(&gated.arrived), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, take_other, &other), 0);
    join_in_time(threads[1]);
    assert_true(ing_dict_in_use(first.table, 1, 0)); /* so it cannot be deleted meanwhile */
    assert_int_equal(pthread_create(&threads[2], NULL, take_gated, &second), 0);
    assert_int_equal(sem_post(&gated.gate), 0);
    join_in_time(threads[0]);
    join_in_time(threads[2]);
    assert_ptr_equal(first.dict, second.dict);
    assert_int_equal(atomic_load(&gated.iters), 1);
    ing_dict_unref(first.table, first.dict);
    ing_dict_unref(first.table, second.dict);
    ing_dict_unref(first.table, other.dict);
    ing_dict_table_destroy(first.table);
    assert_int_equal(sem_destroy(&gated.arrived), 0);
    assert_int_equal(sem_destroy(&gated.gate), 0);
    fg_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_give_the_same_numbers),
        cmocka_unit_test(undefined_stacks_get_no_number),
        cmocka_unit_test(dictionaries_are_listed_and_deleted),
        cmocka_unit_test(dictionaries_not_in_use_are_evicted),
        cmocka_unit_test(unused_dictionaries_leave_before_one_is_outgrown),
        cmocka_unit_test(damaged_chunks_are_corrupt),
        cmocka_unit_test(store_failure_is_returned),
        cmocka_unit_test(merging_reader_does_not_block_the_writer),
        cmocka_unit_test(views_are_consistent_while_stacks_are_added),
        cmocka_unit_test(loading_a_dictionary_blocks_no_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
