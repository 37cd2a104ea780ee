/* A dictionary's chunk is read or corrupt; what is read can be walked. */
#include "ingester/dict.h"
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
        ing_dict_unref(table, dict);
    } else {
        fg_assert(err.code == FG_E_CORRUPT);
    }
    fg_store_batch_done(&batch);
    ing_dict_table_destroy(table);
    fg_store_close(store);
    return 0;
}
