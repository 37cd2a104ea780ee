#include "ingester/dict_functions.h"

enum { WHAT_FUNCTIONS, WHAT_NAMES };

struct ing_functions_table {
    struct ing_dict_table *dicts;
    /* By service and generation struct ing_dict_functions, by service the names that its
     * dictionaries have had. */
    struct fg_cache *cache;
};

static struct fg_cache_key functions_key(uint32_t service, uint32_t generation)
{
    return (struct fg_cache_key){.object = {service, generation}, .what = WHAT_FUNCTIONS};
}

struct ing_functions_table *ing_functions_table_create(struct ing_dict_table *dicts,
                                                       uint64_t memory_max_bytes)
{
    struct ing_functions_table *table = fg_new(struct ing_functions_table);

    table->dicts = dicts;
    table->cache = fg_cache_create(memory_max_bytes, fg_clock_real());
    return table;
}

void ing_functions_table_destroy(struct ing_functions_table *table)
{
    if (table == NULL)
        return;
    fg_cache_destroy(table->cache);
    free(table);
}

uint64_t ing_functions_table_bytes(struct ing_functions_table *table)
{
    return fg_cache_stats(table->cache).bytes;
}

const struct ing_dict_functions *ing_functions_of(const struct fg_cache_entry *entry)
{
    return fg_cache_value(entry);
}

/* ---- making them ---- */

static void functions_destroy(void *value)
{
    struct ing_dict_functions *functions = value;

    fg_function_tree_done(&functions->tree);
    fg_crown_names_unref(functions->names);
    free(functions);
}

static void names_destroy(void *value)
{
    fg_crown_names_unref(value);
}

/* Returns the names of the service with these, which are taken over, and keeps them for the next of
 * its dictionaries: they all have nearly the same, which would be most of their memory. Sets
 * *ret_numbers as fg_crown_names_unite() does. */
static struct fg_crown_names *share_names(struct ing_functions_table *table, uint32_t service,
                                          struct fg_crown_names *names, uint32_t **ret_numbers)
{
    const struct fg_cache_key key = {.object = {service, 0}, .what = WHAT_NAMES};
    enum fg_cache_state state;
    bool mine;
    struct fg_cache_entry *entry = fg_cache_open(table->cache, &key, 0, &state, &mine);
    struct fg_crown_names *both = names;
    uint32_t *known = NULL;

    *ret_numbers = NULL;
    if (state == FG_CACHE_READY) {
        both = fg_crown_names_unite(fg_cache_value(entry), names, &known, ret_numbers);
        fg_crown_names_unref(names);
        free(known);
    }
    if (state == FG_CACHE_READY && both != fg_cache_value(entry)) {
        fg_cache_drop(table->cache, &key);
        fg_cache_unref(entry);
        entry = fg_cache_open(table->cache, &key, 0, &state, &mine);
    }
    if (mine)
        fg_cache_fill(entry, fg_crown_names_ref(both), fg_crown_names_bytes(both), names_destroy);
    fg_cache_unref(entry);
    return both;
}

static struct ing_dict_functions *functions_create(struct ing_functions_table *table,
                                                   struct ing_dict *dict, uint32_t service)
{
    struct ing_dict_functions *functions = fg_new(struct ing_dict_functions);
    struct ing_dict_view view;
    uint32_t *numbers;

    ing_dict_view_begin(dict, &view);
    fg_function_tree_init_stacks(&functions->tree, &view.tree, true);
    ing_dict_view_end(dict, &view);
    functions->names =
        share_names(table, service, fg_crown_names_create(&functions->tree), &numbers);
    /* The tree's own numbers of names become those of the shared ones, which ascend as well. */
    for (uint32_t i = 0; numbers != NULL && i < functions->tree.n_nodes; i++)
        functions->tree.functions[i] = numbers[functions->tree.functions[i]];
    fg_function_tree_drop_names(&functions->tree);
    free(numbers);
    return functions;
}

static enum fg_code fill_entry(struct ing_functions_table *table, uint32_t service,
                               uint32_t generation, struct fg_cache_entry *entry,
                               struct fg_err *err)
{
    struct ing_dict_functions *functions;
    struct ing_dict *dict;

    if (ing_dict_ref(table->dicts, service, generation, &dict, err) != FG_OK) {
        fg_cache_fail(entry);
        return err->code;
    }
    functions = functions_create(table, dict, service);
    ing_dict_unref(table->dicts, dict);
    fg_cache_fill(entry, functions,
                  /* Names are counted by their own entry. */
                  sizeof *functions + fg_function_tree_bytes(&functions->tree), functions_destroy);
    return FG_OK;
}

/* An entry that this thread has made, or another. */
struct functions_opened {
    struct fg_cache_entry *entry; /* NULL: another thread has failed to make it */
    bool is_new;                  /* this thread has made it now */
};

static enum fg_code open_entry(struct ing_functions_table *table, uint32_t service,
                               uint32_t generation, int64_t timeout_ns,
                               struct functions_opened *ret_opened, struct fg_err *err)
{
    const struct fg_cache_key key = functions_key(service, generation);
    struct functions_opened opened = {0};
    enum fg_cache_state state;
    enum fg_code code = FG_OK;

    opened.entry = fg_cache_open(table->cache, &key, 0, &state, &opened.is_new);
    if (opened.is_new)
        code = fill_entry(table, service, generation, opened.entry, err);
    else if (state == FG_CACHE_LOADING)
        state = fg_cache_wait(opened.entry, timeout_ns);
    if (!opened.is_new && state == FG_CACHE_LOADING)
        code = fg_fail(err, FG_E_DEADLINE, "dictionary %u.%u: reading it takes too long", service,
                       generation);
    if (code != FG_OK || (!opened.is_new && state == FG_CACHE_FAILED))
        fg_cache_unref(fg_take(opened.entry));
    if (code == FG_OK)
        *ret_opened = opened;
    return code;
}

enum fg_code ing_functions_open(struct ing_functions_table *table, uint32_t service,
                                uint32_t generation, uint32_t least_nodes, int64_t timeout_ns,
                                struct fg_cache_entry **ret_entry, struct fg_err *err)
{
    const struct fg_cache_key key = functions_key(service, generation);

    /* Ends when this thread has made them at the latest: then the dictionary has all nodes that a
     * record may name, since they are published before the record is written. */
    for (;;) {
        struct functions_opened opened;

        if (open_entry(table, service, generation, timeout_ns, &opened, err) != FG_OK)
            return err->code;
        if (opened.entry == NULL)
            continue; /* it is ours to make now, and to say why it cannot be */
        if (ing_functions_of(opened.entry)->tree.n_from >= least_nodes) {
            *ret_entry = opened.entry;
            return FG_OK;
        }
        fg_cache_unref(opened.entry);
        if (opened.is_new)
            return fg_fail(err, FG_E_CORRUPT, "dictionary %u.%u has no node %u", service,
                           generation, least_nodes);
        fg_cache_drop(table->cache, &key);
    }
}
