/* A dictionary's chunk is read or corrupt; what is read can be walked, named and added to. */
#include "ingester/dict.h"
#include "ingester/dict_functions.h"
#include "tests/lib/store_doubles.h"

static void walk(struct ing_dict *dict)
{
    struct ing_dict_view view;
    const struct fg_tree *tree = &view.tree;

    ing_dict_view_begin(dict, &view);
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        fg_assert(tree->parents[i] == FG_TREE_ROOT || tree->parents[i] < i);
        fg_assert(tree->locations[i] < tree->symbols.n_locations);
    }
    ing_dict_view_end(dict, &view);
}

static void name(struct ing_dict_table *table)
{
    struct ing_functions_table *functions = ing_functions_table_create(table, 0);
    const struct ing_dict_functions *named;
    struct fg_cache_entry *entry;
    struct fg_err err;
    uint64_t *sums;

    fg_assert(ing_functions_open(functions, 1, 0, 0, 0, &entry, &err) == FG_OK);
    named = ing_functions_of(entry);
    sums = fg_calloc((size_t)named->tree.n_from + 1, sizeof *sums);
    memset(sums, 1, named->tree.n_from * sizeof *sums);
    fg_crown_layer_destroy(fg_crown_layer_of_sums(&named->tree, named->names, sums, 1));
    free(sums);
    fg_cache_unref(entry);
    ing_functions_table_destroy(functions);
}

/* Looks stacks up, for which all that was read goes into maps, and defines one. */
static void add(struct ing_dict *dict)
{
    uint32_t locations[1], nodes[1];
    struct fg_wire_stack stack = {.id = {1, 2}, .depth = 1, .locations = locations};
    struct fg_wire_batch batch = {.stacks = &stack, .n_stacks = 1};

    fg_symbols_init(&batch.symbols);
    locations[0] = fg_symbols_name_location(&batch.symbols, FG_LIT("main"));
    fg_assert(ing_dict_resolve(dict, &batch, nodes) == 0);
    fg_symbols_done(&batch.symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Service 1, generation 0, the first chunk. */
    static const uint8_t key[12] = {0, 0, 0, 1};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_dict_table *table = ing_dict_table_create(store, 1 << 20);
    struct fg_store_batch batch;
    struct ing_dict *dict;
    struct fg_err err;

    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_DICT, fg_bytes(key, sizeof key), fg_bytes(data, size));
    fg_assert(fg_store_write(store, &batch, &err) == FG_OK);
    if (ing_dict_ref(table, 1, 0, &dict, &err) == FG_OK) {
        walk(dict);
        name(table);
        add(dict);
        walk(dict);
        ing_dict_unref(table, dict);
    } else {
        fg_assert(err.code == FG_E_CORRUPT);
    }
    fg_store_batch_done(&batch);
    ing_dict_table_destroy(table);
    fg_store_close(store);
    return 0;
}
