/* Stacks by function: sums over them are those over the dictionaries, also of dictionaries that
 * grow, that were evicted, and of several generations that share their names. */
#include "common/model/flame.h"
#include "common/storage/rollup/crown_sum.h"
#include "ingester/dict_functions.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { DEPTH_MAX = 5, FUNCTIONS = 7, LINES = 3, STEPS = 6, STACKS_A_STEP = 20, SERVICE = 4 };

static uint64_t next_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random);
}

struct head {
    struct fg_store *store;
    struct ing_dict_table *dicts;
    struct ing_functions_table *functions;
};

static void head_init(struct head *head, uint64_t dicts_max_bytes, uint64_t functions_max_bytes)
{
    head->store = fg_store_memory(HEAD_FAMILIES);
    head->dicts = ing_dict_table_create(head->store, dicts_max_bytes);
    head->functions = ing_functions_table_create(head->dicts, functions_max_bytes);
}

static void head_done(struct head *head)
{
    ing_functions_table_destroy(head->functions);
    ing_dict_table_destroy(head->dicts);
    fg_store_close(head->store);
}

static struct ing_dict *take(struct head *head, uint32_t generation)
{
    struct ing_dict *dict;
    struct fg_err err;

    assert_int_equal(ing_dict_ref(head->dicts, SERVICE, generation, &dict, &err), FG_OK);
    return dict;
}

/* A location with a line of a function: several lines of one function are one node by function. */
static uint32_t add_location(struct fg_symbols *symbols, uint64_t random)
{
    char name[4] = {(char)('a' + random % FUNCTIONS), '\0'};
    struct fg_function function = {.name = fg_symbols_string(symbols, fg_cstr(name))};
    struct fg_line line = {fg_symbols_function(symbols, &function), (int64_t)(random / 16 % LINES)};
    struct fg_location location = {.mapping = FG_NO_MAPPING, .n_lines = 1};

    return fg_symbols_location(symbols, &location, &line);
}

/* Adds random stacks to a dictionary, and writes the chunk. */
static void grow(struct head *head, uint32_t generation, uint64_t *random)
{
    static struct fg_wire_stack stacks[STACKS_A_STEP];
    static uint32_t locations[STACKS_A_STEP][DEPTH_MAX], nodes[STACKS_A_STEP];
    struct fg_wire_batch batch = {.stacks = stacks, .n_stacks = STACKS_A_STEP};
    struct ing_dict *dict = take(head, generation);
    struct fg_store_batch out;
    struct fg_err err;

    fg_symbols_init(&batch.symbols);
    for (uint32_t i = 0; i < STACKS_A_STEP; i++) {
        uint64_t what = next_random(random);

        stacks[i] = (struct fg_wire_stack){.id = {what, generation},
                                           .depth = (uint32_t)(what % DEPTH_MAX),
                                           .locations = locations[i]};
        for (uint32_t k = 0; k < stacks[i].depth; k++)
            locations[i][k] = add_location(&batch.symbols, next_random(random));
    }
    assert_int_equal(ing_dict_resolve(dict, &batch, nodes), 0);
    fg_store_batch_init(&out);
    ing_dict_put_chunk(dict, &out);
    assert_int_equal(fg_store_write(head->store, &out, &err), FG_OK);
    fg_store_batch_done(&out);
    fg_symbols_done(&batch.symbols);
    ing_dict_unref(head->dicts, dict);
}

static uint32_t count_nodes(struct head *head, uint32_t generation)
{
    struct ing_dict *dict = take(head, generation);
    struct ing_dict_view view;

    ing_dict_view_begin(dict, &view);
    uint32_t n = view.tree.n_nodes;
    ing_dict_view_end(dict, &view);
    ing_dict_unref(head->dicts, dict);
    return n;
}

/* The names of all nodes with these values, the slow way. values[0]: of the empty stack. */
static void name_slowly(struct head *head, uint32_t generation, uint64_t *values,
                        struct fg_tree *into)
{
    struct ing_dict *dict = take(head, generation);
    struct ing_dict_view view;
    struct fg_tree tree;

    ing_dict_view_begin(dict, &view);
    tree = view.tree;
    tree.self = (int64_t *)(values + 1);
    tree.root_self = (int64_t)values[0];
    fg_tree_names(&tree, into);
    ing_dict_view_end(dict, &view);
    ing_dict_unref(head->dicts, dict);
}

static void assert_same(const struct fg_tree *have, const struct fg_tree *want)
{
    struct fg_buf left, right;

    fg_buf_init(&left, 1 << 20);
    fg_buf_init(&right, 1 << 20);
    fg_flame_write_tree(have, 0, &left);
    fg_flame_write_tree(want, 0, &right);
    assert_true(fg_slice_eq(fg_buf_slice(&left), fg_buf_slice(&right)));
    fg_buf_done(&left);
    fg_buf_done(&right);
}

/* Random values of a third of the nodes of each generation, added up both ways. */
static void check_sums(struct head *head, uint32_t n_generations, uint64_t *random)
{
    struct fg_crown_sum sum;
    struct fg_tree want;

    fg_tree_init(&want);
    fg_crown_sum_init(&sum);
    for (uint32_t g = 1; g <= n_generations; g++) {
        uint32_t n = count_nodes(head, g);
        uint64_t *values = fg_calloc((size_t)n + 1, sizeof *values);
        const struct ing_dict_functions *functions;
        struct fg_cache_entry *entry;
        struct fg_err err;

        for (uint32_t i = 0; i <= n; i++)
            values[i] = next_random(random) % 3 == 0 ? next_random(random) % 1000 : 0;
        assert_int_equal(ing_functions_open(head->functions, SERVICE, g, n, 0, &entry, &err),
                         FG_OK);
        functions = ing_functions_of(entry);
        assert_int_equal(functions->tree.n_from, n);
        fg_crown_sum_put(&sum, fg_crown_layer_of_sums(&functions->tree, functions->names,
                                                      values + 1, values[0]));
        fg_cache_unref(entry);
        name_slowly(head, g, values, &want);
        free(values);
    }
    fg_crown_sum_finish(&sum);
    assert_same(&sum.tree, &want);
    fg_crown_sum_done(&sum);
    fg_tree_done(&want);
}

static void sums_are_those_of_the_dictionaries(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t random = seed;
        struct head head;

        /* Dictionaries stay or are evicted at once, and so are their functions. */
        head_init(&head, seed % 2 == 0 ? 1 << 30 : 0, seed % 4 < 2 ? 1 << 30 : 0);
        for (uint32_t step = 1; step <= STEPS; step++) {
            uint32_t n_generations = 1 + step / 3;

            for (uint32_t g = 1; g <= n_generations; g++)
                grow(&head, g, &random);
            check_sums(&head, n_generations, &random);
        }
        assert_true(seed % 4 >= 2 || ing_functions_table_bytes(head.functions) > 0);
        assert_true(seed % 4 < 2 || ing_functions_table_bytes(head.functions) == 0);
        head_done(&head);
    }
}

static struct fg_cache_entry *open_ok(struct head *head, uint32_t generation, uint32_t least_nodes)
{
    struct fg_cache_entry *entry;
    struct fg_err err;

    assert_int_equal(
        ing_functions_open(head->functions, SERVICE, generation, least_nodes, 0, &entry, &err),
        FG_OK);
    return entry;
}

static void functions_are_made_anew_for_nodes_that_they_lack(void **state)
{
    struct fg_cache_entry *first, *same, *larger;
    uint64_t random = 3;
    struct head head;
    struct fg_err err;
    uint32_t n;

    (void)state;
    head_init(&head, 1 << 30, 1 << 30);
    grow(&head, 1, &random);
    n = count_nodes(&head, 1);
    first = open_ok(&head, 1, 0);
    grow(&head, 1, &random);
    assert_true(count_nodes(&head, 1) > n);
    same = open_ok(&head, 1, n);
    assert_ptr_equal(same, first);
    larger = open_ok(&head, 1, n + 1);
    assert_ptr_not_equal(larger, first);
    assert_int_equal(ing_functions_of(first)->tree.n_from, n); /* whoever reads it reads on */
    assert_int_equal(
        ing_functions_open(head.functions, SERVICE, 1, count_nodes(&head, 1) + 1, 0, &same, &err),
        FG_E_CORRUPT);
    fg_cache_unref(first);
    fg_cache_unref(first); /* `same` was it */
    fg_cache_unref(larger);
    head_done(&head);
}

static void generations_share_their_names(void **state)
{
    struct fg_cache_entry *entries[3];
    uint64_t random = 5;
    struct head head;

    (void)state;
    head_init(&head, 1 << 30, 1 << 30);
    /* The first has all functions, as will the others. */
    for (unsigned step = 0; step < STEPS; step++)
        grow(&head, 1, &random);
    for (uint32_t g = 2; g <= 3; g++)
        grow(&head, g, &random);
    for (uint32_t i = 0; i < FG_COUNT(entries); i++)
        entries[i] = open_ok(&head, i + 1, 0);
    for (uint32_t i = 1; i < FG_COUNT(entries); i++)
        assert_ptr_equal(ing_functions_of(entries[i])->names, ing_functions_of(entries[0])->names);
    for (uint32_t i = 0; i < FG_COUNT(entries); i++)
        fg_cache_unref(entries[i]);
    head_done(&head);
}

static void damage_of_the_dictionary_is_an_error(void **state)
{
    struct fg_cache_entry *entry = NULL;
    struct fg_store_batch batch;
    uint64_t random = 9;
    struct head head;
    struct fg_err err;

    (void)state;
    head_init(&head, 0, 1 << 30);
    grow(&head, 1, &random);
    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_DICT, FG_LIT("\0\0\0\4\0\0\0\1\0\0\0\1"), FG_LIT("\xff"));
    assert_int_equal(fg_store_write(head.store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
    grow(&head, 2, &random);         /* evicts the first, for which there is no room */
    for (unsigned i = 0; i < 2; i++) /* it is not kept, and asked for again */
        assert_int_equal(ing_functions_open(head.functions, SERVICE, 1, 0, 0, &entry, &err),
                         FG_E_CORRUPT);
    assert_null(entry);
    entry = open_ok(&head, 2, 0);
    fg_cache_unref(entry);
    head_done(&head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_the_dictionaries),
        cmocka_unit_test(functions_are_made_anew_for_nodes_that_they_lack),
        cmocka_unit_test(generations_share_their_names),
        cmocka_unit_test(damage_of_the_dictionary_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
