/*
 * Two levels of locks. The table's lock guards the list of dictionaries, their references and
 * states. Each dictionary has a lock of its own for what readers copy (`published`, views). Order:
 * table, then dictionary (dict_memory()). Neither is held while a dictionary is read from the store
 * or a tree is merged.
 *
 * All else in a dictionary belongs to one thread: at first to the one that reads it from the store,
 * and then, for the newest generation, to the one that holds the lock of its service (push.h).
 */
#include "ingester/dict.h"

#include "common/base/bits.h"

#include <pthread.h>

enum dict_state { DICT_READING, DICT_READY, DICT_FAILED };

struct ing_dict {
    uint32_t service, generation;
    /* Under the table's lock. */
    uint32_t refs;
    enum dict_state state;
    struct fg_err err;     /* of reading it, once that has failed */
    uint64_t used_at;      /* the table's tick when it was last taken */
    uint64_t bytes;        /* as counted by the table */
    struct ing_dict *next; /* in its bucket */

    /* Used under the lock of its service, or by the thread that reads the dictionary from the
     * store. */
    struct fg_tree tree;
    struct fg_map stack_map; /* fg_id_table(id) -> number of the stack */
    struct ing_dict_stack *stacks;
    uint32_t n_stacks, cap_stacks;
    bool is_indexed;             /* stacks, nodes and symbols are in their maps */
    struct fg_outgrown outgrown; /* outgrown since the last publish(): views still point to it */
    /* What the chunks on disk contain. */
    struct fg_symbols_mark mark;
    uint32_t n_nodes_put, n_stacks_put, seq;

    pthread_mutex_t lock; /* of the rest; held to copy words only */
    struct ing_dict_view published;
    uint64_t published_bytes; /* of memory, without `old` */
    uint32_t n_views;
    struct fg_outgrown old; /* outgrown arrays that some of these views may point to */
};

enum { TABLE_BUCKETS = 1024 }; /* hundreds of services are in use at a time */

struct ing_dict_table {
    pthread_mutex_t lock;    /* of all below; not held while a dictionary is read from disk */
    pthread_cond_t was_read; /* a dictionary was read, or failed to be */
    struct fg_store *store;
    struct ing_dict *buckets[TABLE_BUCKETS];
    uint64_t tick, memory_max_bytes;
    /* Changed under the lock. Atomic, so that a scrape does not wait for the lock: shrink() walks
     * the whole table under it. */
    _Atomic uint64_t bytes;
    uint64_t count; /* of dictionaries in memory */
};

/* ---- one dictionary ---- */

/* Makes what was added visible to new views. The writer's. */
static void publish(struct ing_dict *dict)
{
    struct fg_outgrown unused = {0};
    struct ing_dict_view view = {dict->tree, dict->stacks, dict->n_stacks};

    /* Readers get arrays and counts only. Maps may be rebuilt in place by the worker, so no reader
     * may see them. */
    view.tree.self = NULL;
    view.tree.map = (struct fg_map){0};
    view.tree.symbols.string_map = (struct fg_map){0};
    view.tree.symbols.function_map = (struct fg_map){0};
    view.tree.symbols.mapping_map = (struct fg_map){0};
    view.tree.symbols.location_map = (struct fg_map){0};
    view.tree.symbols.outgrown = NULL;
    (void)pthread_mutex_lock(&dict->lock);
    dict->published = view;
    dict->published_bytes = sizeof *dict + fg_tree_bytes(&dict->tree) +
                            fg_map_bytes(&dict->stack_map) +
                            dict->cap_stacks * sizeof *dict->stacks;
    /* The new addresses are published in the same critical section: a view that begins later cannot
     * point to the old arrays. */
    fg_outgrown_move(&dict->old, &dict->outgrown);
    if (dict->n_views == 0)
        fg_outgrown_move(&unused, &dict->old);
    (void)pthread_mutex_unlock(&dict->lock);
    /* Without the lock, since freeing large arrays takes a while. */
    fg_outgrown_free(&unused);
}

static struct ing_dict *dict_create(uint32_t service, uint32_t generation)
{
    struct ing_dict *dict = fg_new(struct ing_dict);

    dict->service = service;
    dict->generation = generation;
    (void)pthread_mutex_init(&dict->lock, NULL);
    fg_tree_init(&dict->tree);
    dict->tree.symbols.outgrown = &dict->outgrown;
    fg_symbols_unindex(&dict->tree.symbols);
    dict->mark = FG_SYMBOLS_START;
    publish(dict);
    return dict;
}

static void dict_free(struct ing_dict *dict)
{
    fg_assert(dict->n_views == 0);
    fg_tree_done(&dict->tree);
    fg_map_done(&dict->stack_map);
    free(dict->stacks);
    fg_outgrown_free(&dict->outgrown);
    fg_outgrown_free(&dict->old);
    (void)pthread_mutex_destroy(&dict->lock);
    free(dict);
}

static uint64_t dict_memory(struct ing_dict *dict)
{
    uint64_t bytes;

    (void)pthread_mutex_lock(&dict->lock);
    bytes = dict->published_bytes + dict->old.bytes;
    (void)pthread_mutex_unlock(&dict->lock);
    return bytes;
}

/* Node + 1 of the stack, or UINT32_MAX. */
static uint32_t find_stack(const struct ing_dict *dict, struct fg_id id)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&dict->stack_map, fg_id_table(id), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&dict->stack_map, &walk))
        if (fg_id_eq(dict->stacks[i].id, id))
            return dict->stacks[i].node;
    return UINT32_MAX;
}

static void append_stack(struct ing_dict *dict, struct fg_id id, uint32_t node)
{
    if (dict->n_stacks == dict->cap_stacks) {
        dict->cap_stacks = FG_MAX(256, dict->cap_stacks * 2);
        dict->stacks =
            fg_outgrow(&dict->outgrown, dict->stacks, dict->n_stacks * sizeof *dict->stacks,
                       dict->cap_stacks * sizeof *dict->stacks);
    }
    dict->stacks[dict->n_stacks++] = (struct ing_dict_stack){id, node};
}

/* Puts everything into its map, before the first look-up. A dictionary that was read from the store
 * is mostly one of an old generation, which nobody adds to: maps would be half of its memory and of
 * the time that reading takes. */
static void make_index(struct ing_dict *dict)
{
    if (dict->is_indexed)
        return;
    dict->is_indexed = true;
    fg_symbols_index(&dict->tree.symbols);
    fg_tree_index(&dict->tree);
    fg_map_reserve(&dict->stack_map, dict->n_stacks);
    for (uint32_t i = 0; i < dict->n_stacks; i++)
        fg_map_add(&dict->stack_map, fg_id_table(dict->stacks[i].id), i);
    publish(dict); /* for its memory */
}

/* Each stack costs two cache misses, its slot and what the slot names: start both early. */
static void prefetch(const struct ing_dict *dict, const struct fg_wire_batch *batch, uint32_t i)
{
    /* Far enough that a read of memory, about 100 ns, ends in time. A stack is found by its slot,
     * so that has to be there first. */
    enum { SLOT_AHEAD = 16, STACK_AHEAD = 8 };
    struct fg_map_walk walk;
    uint32_t stack;

    if (i + SLOT_AHEAD < batch->n_stacks)
        fg_map_prefetch(&dict->stack_map, fg_id_table(batch->stacks[i + SLOT_AHEAD].id));
    if (i + STACK_AHEAD >= batch->n_stacks)
        return;
    stack = fg_map_first(&dict->stack_map, fg_id_table(batch->stacks[i + STACK_AHEAD].id), &walk);
    if (stack != FG_MAP_NONE)
        __builtin_prefetch(&dict->stacks[stack]);
}

uint32_t ing_dict_resolve(struct ing_dict *dict, const struct fg_wire_batch *batch, uint32_t *nodes)
{
    uint32_t n_new = 0, n_undefined = 0;
    struct fg_symbols_import import;

    make_index(dict);
    for (uint32_t i = 0; i < batch->n_stacks; i++) {
        prefetch(dict, batch, i);
        nodes[i] = find_stack(dict, batch->stacks[i].id);
        n_new += nodes[i] == UINT32_MAX;
        n_undefined += nodes[i] == UINT32_MAX && batch->stacks[i].locations == NULL;
    }
    /* All or nothing: a dictionary that has taken half of a batch would have stacks that no record
     * on disk brings along. */
    if (n_new == 0 || n_undefined > 0)
        return n_undefined;
    fg_symbols_import_init(&import, &dict->tree.symbols, &batch->symbols);
    for (uint32_t i = 0; i < batch->n_stacks; i++) {
        const struct fg_wire_stack *stack = &batch->stacks[i];
        uint32_t node = FG_TREE_ROOT;

        if (nodes[i] != UINT32_MAX)
            continue;
        for (uint32_t d = stack->depth; d > 0; d--)
            node = fg_tree_child(&dict->tree, node,
                                 fg_symbols_import_location(&import, stack->locations[d - 1]));
        nodes[i] = node == FG_TREE_ROOT ? 0 : node + 1;
        fg_map_add(&dict->stack_map, fg_id_table(stack->id), dict->n_stacks);
        append_stack(dict, stack->id, nodes[i]);
    }
    fg_symbols_import_done(&import);
    /* Before the push is committed: a query that reads its records needs these stacks. */
    publish(dict);
    return 0;
}

void ing_dict_view_begin(struct ing_dict *dict, struct ing_dict_view *ret_view)
{
    (void)pthread_mutex_lock(&dict->lock);
    dict->n_views++;
    *ret_view = dict->published;
    (void)pthread_mutex_unlock(&dict->lock);
}

void ing_dict_view_end(struct ing_dict *dict, struct ing_dict_view *view)
{
    struct fg_outgrown unused = {0};

    (void)pthread_mutex_lock(&dict->lock);
    fg_assert(dict->n_views > 0);
    if (--dict->n_views == 0)
        fg_outgrown_move(&unused, &dict->old);
    (void)pthread_mutex_unlock(&dict->lock);
    fg_outgrown_free(&unused);
    *view = (struct ing_dict_view){0};
}

bool ing_dict_view_ids(const struct ing_dict_view *view, const uint64_t *marks,
                       const uint32_t *ranks, uint32_t n, struct fg_id *ids)
{
    uint32_t found = 0;

    for (uint32_t i = 0; found < n && i < view->n_stacks; i++) {
        uint32_t node = view->stacks[i].node;

        if (!fg_bits_has(marks, node))
            continue;
        ids[fg_bits_rank(marks, ranks, node)] = view->stacks[i].id;
        found++;
    }
    return found == n;
}

/* ---- chunks ---- */

static void put_chunk_key(struct fg_buf *out, uint32_t service, uint32_t generation, uint32_t seq)
{
    fg_buf_be32(out, service);
    fg_buf_be32(out, generation);
    fg_buf_be32(out, seq);
}

static void encode_chunk(const struct ing_dict *dict, struct fg_buf *out)
{
    const struct fg_tree *tree = &dict->tree;

    fg_symbols_encode_since(&tree->symbols, dict->mark, out);
    fg_buf_varint(out, dict->n_nodes_put);
    fg_buf_varint(out, tree->n_nodes - dict->n_nodes_put);
    for (uint32_t i = dict->n_nodes_put; i < tree->n_nodes; i++) {
        fg_buf_varint(out, tree->parents[i] == FG_TREE_ROOT ? 0 : i - tree->parents[i]);
        fg_buf_varint(out, tree->locations[i]);
    }
    fg_buf_varint(out, dict->n_stacks - dict->n_stacks_put);
    for (uint32_t i = dict->n_stacks_put; i < dict->n_stacks; i++) {
        fg_buf_le64(out, dict->stacks[i].id.lo);
        fg_buf_le64(out, dict->stacks[i].id.hi);
        fg_buf_varint(out, dict->stacks[i].node);
    }
}

void ing_dict_put_chunk(struct ing_dict *dict, struct fg_store_batch *out)
{
    struct fg_buf key, value;

    if (dict->n_stacks == dict->n_stacks_put)
        return;
    fg_buf_init(&key, SIZE_MAX);
    fg_buf_init(&value, SIZE_MAX);
    put_chunk_key(&key, dict->service, dict->generation, dict->seq);
    encode_chunk(dict, &value);
    fg_store_put(out, HEAD_DICT, fg_buf_slice(&key), fg_buf_slice(&value));
    fg_buf_done(&key);
    fg_buf_done(&value);
    /* Counted as put before the batch is written. If the write fails, the generation ends, so
     * nothing depends on the chunk. */
    dict->mark = fg_symbols_mark(&dict->tree.symbols);
    dict->n_nodes_put = dict->tree.n_nodes;
    dict->n_stacks_put = dict->n_stacks;
    dict->seq++;
}

void ing_dict_put_mark(uint32_t service, uint32_t generation, struct fg_store_batch *out)
{
    struct fg_buf key;

    fg_buf_init(&key, 64);
    put_chunk_key(&key, service, generation, 0);
    fg_store_put(out, HEAD_DICT, fg_buf_slice(&key), FG_LIT(""));
    fg_buf_done(&key);
}

static bool decode_nodes(struct ing_dict *dict, struct fg_cur *cur)
{
    struct fg_tree *tree = &dict->tree;
    uint64_t first = fg_cur_varint(cur);
    uint64_t count = fg_cur_count(cur, 2);

    /* A chunk before this one is missing: numbers would shift. */
    if (first != tree->n_nodes)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t up = fg_cur_varint(cur);
        uint64_t location = fg_cur_varint(cur);
        uint32_t number = tree->n_nodes;

        if (cur->bad || up > number || location >= tree->symbols.n_locations)
            return false;
        (void)fg_tree_append(tree, up == 0 ? FG_TREE_ROOT : number - (uint32_t)up,
                             (uint32_t)location);
    }
    return true;
}

static bool decode_stacks(struct ing_dict *dict, struct fg_cur *cur)
{
    uint64_t count = fg_cur_count(cur, FG_ID_BYTES + 1);

    for (uint64_t i = 0; i < count; i++) {
        struct fg_id id;
        uint64_t node;

        id.lo = fg_cur_le64(cur);
        id.hi = fg_cur_le64(cur);
        node = fg_cur_varint(cur);
        if (cur->bad || node > dict->tree.n_nodes)
            return false;
        append_stack(dict, id, (uint32_t)node);
    }
    return fg_cur_end(cur);
}

static enum fg_code decode_chunk(struct ing_dict *dict, struct fg_slice in, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);

    if (fg_symbols_decode(&dict->tree.symbols, &cur, err) != FG_OK)
        return err->code;
    if (!decode_nodes(dict, &cur) || !decode_stacks(dict, &cur))
        return fg_fail(err, FG_E_CORRUPT, "stacks cannot be read");
    return FG_OK;
}

static enum fg_code load(struct ing_dict *dict, struct fg_store *store, struct fg_err *err)
{
    struct fg_buf from, to;
    struct fg_store_iter *iter;
    enum fg_code code = FG_OK;

    fg_buf_init(&from, 64);
    fg_buf_init(&to, 64);
    put_chunk_key(&from, dict->service, dict->generation, 0);
    put_chunk_key(&to, dict->service, dict->generation + 1, 0);
    iter = fg_store_iter_create(store, HEAD_DICT, fg_buf_slice(&from), fg_buf_slice(&to));
    for (; code == FG_OK && iter->valid; fg_store_iter_next(iter)) {
        code = decode_chunk(dict, iter->value, err);
        dict->seq++;
    }
    if (code == FG_OK && iter->err.code != FG_OK) {
        *err = iter->err;
        code = err->code;
    }
    fg_store_iter_destroy(iter);
    fg_buf_done(&from);
    fg_buf_done(&to);
    dict->mark = fg_symbols_mark(&dict->tree.symbols);
    dict->n_nodes_put = dict->tree.n_nodes;
    dict->n_stacks_put = dict->n_stacks;
    publish(dict);
    return code == FG_OK ? FG_OK
                         : fg_wrap(err, "dictionary %u.%u", dict->service, dict->generation);
}

enum fg_code ing_dict_each(struct fg_store *store,
                           void (*each)(uint32_t service, uint32_t generation, void *arg),
                           void *arg, struct fg_err *err)
{
    fg_auto(fg_store_iter) *iter = fg_store_iter_create(store, HEAD_DICT, FG_LIT(""), FG_LIT(""));
    bool more = iter->valid;
    struct fg_buf next;

    fg_buf_init(&next, 64);
    while (more) {
        struct fg_cur cur = fg_cur(iter->key);
        uint32_t service = fg_cur_be32(&cur), generation = fg_cur_be32(&cur);

        (void)fg_cur_be32(&cur);
        if (!fg_cur_end(&cur)) { /* damage: no dictionary has it */
            fg_store_iter_next(iter);
            more = iter->valid;
            continue;
        }
        each(service, generation, arg);
        /* Skips its chunks: there may be many. */
        fg_buf_clear(&next);
        fg_buf_be32(&next, service);
        fg_buf_be32(&next, generation);
        more = ing_head_next_prefix(&next);
        if (more) {
            fg_store_iter_seek(iter, fg_buf_slice(&next));
            more = iter->valid;
        }
    }
    fg_buf_done(&next);
    if (iter->err.code == FG_OK)
        return FG_OK;
    *err = iter->err;
    return fg_wrap(err, "dictionaries");
}

enum fg_code ing_dict_stored(struct fg_store *store, uint32_t service, uint32_t generation,
                             bool *ret_stored, struct fg_err *err)
{
    struct fg_buf key;
    enum fg_code code;

    fg_buf_init(&key, 64);
    put_chunk_key(&key, service, generation, 0);
    code = fg_store_contains(store, HEAD_DICT, fg_buf_slice(&key), ret_stored, err);
    fg_buf_done(&key);
    return code;
}

enum fg_code ing_dict_next_stored(struct fg_store *store, uint32_t service, uint32_t least,
                                  bool *ret_stored, uint32_t *ret_generation, struct fg_err *err)
{
    struct fg_store_iter *iter;
    struct fg_buf from, to;
    struct fg_cur cur;
    enum fg_code code;

    fg_buf_init(&from, 64);
    fg_buf_init(&to, 64);
    put_chunk_key(&from, service, least, 0);
    put_chunk_key(&to, service, UINT32_MAX, UINT32_MAX);
    iter = fg_store_iter_create(store, HEAD_DICT, fg_buf_slice(&from), fg_buf_slice(&to));
    code = iter->err.code;
    if (code != FG_OK) {
        *err = iter->err;
    } else {
        cur = fg_cur(iter->valid ? fg_slice_sub(iter->key, 4, iter->key.len) : FG_LIT(""));
        *ret_generation = fg_cur_be32(&cur);
        *ret_stored = !cur.bad;
    }
    fg_store_iter_destroy(iter);
    fg_buf_done(&from);
    fg_buf_done(&to);
    return code;
}

/* ---- the table ---- */

struct ing_dict_table *ing_dict_table_create(struct fg_store *store, uint64_t memory_max_bytes)
{
    struct ing_dict_table *table = fg_new(struct ing_dict_table);

    (void)pthread_mutex_init(&table->lock, NULL);
    (void)pthread_cond_init(&table->was_read, NULL);
    table->store = store;
    table->memory_max_bytes = memory_max_bytes;
    return table;
}

void ing_dict_table_destroy(struct ing_dict_table *table)
{
    if (table == NULL)
        return;
    for (size_t b = 0; b < TABLE_BUCKETS; b++) {
        struct ing_dict *dict = table->buckets[b];

        while (dict != NULL) {
            struct ing_dict *next = dict->next;

            /* Pushes, queries and builds have ended. */
            fg_assert(dict->refs == 0);
            dict_free(dict);
            dict = next;
        }
    }
    (void)pthread_cond_destroy(&table->was_read);
    (void)pthread_mutex_destroy(&table->lock);
    free(table);
}

uint64_t ing_dict_table_bytes(struct ing_dict_table *table)
{
    return atomic_load(&table->bytes);
}

static struct ing_dict **bucket(struct ing_dict_table *table, uint32_t service)
{
    return &table->buckets[service %
                           TABLE_BUCKETS]; /* numbers of services ascend, so this spreads */
}

static struct ing_dict *find_dict(struct ing_dict_table *table, uint32_t service,
                                  uint32_t generation)
{
    struct ing_dict *dict = *bucket(table, service);

    while (dict != NULL && (dict->service != service || dict->generation != generation))
        dict = dict->next;
    return dict;
}

static void take_out(struct ing_dict_table *table, struct ing_dict *dict)
{
    struct ing_dict **link = bucket(table, dict->service);

    while (*link != dict)
        link = &(*link)->next;
    *link = dict->next;
    table->bytes -= dict->bytes;
    table->count--;
}

static void evict(struct ing_dict_table *table, struct ing_dict *dict)
{
    take_out(table, dict);
    dict_free(dict);
}

bool ing_dict_in_use(struct ing_dict_table *table, uint32_t service, uint32_t generation)
{
    const struct ing_dict *dict;
    bool in_use;

    (void)pthread_mutex_lock(&table->lock);
    dict = find_dict(table, service, generation);
    in_use = dict != NULL && dict->refs > 0;
    (void)pthread_mutex_unlock(&table->lock);
    return in_use;
}

static void put_deletes(uint32_t service, uint32_t generation, struct fg_store_batch *out)
{
    struct fg_buf from, to;

    fg_buf_init(&from, 64);
    fg_buf_init(&to, 64);
    put_chunk_key(&from, service, generation, 0);
    put_chunk_key(&to, service, generation + 1, 0);
    fg_store_delete_range(out, HEAD_DICT, fg_buf_slice(&from), fg_buf_slice(&to));
    fg_buf_done(&from);
    fg_buf_done(&to);
}

bool ing_dict_delete(struct ing_dict_table *table, uint32_t service, uint32_t generation,
                     struct fg_store_batch *out)
{
    struct ing_dict *dict;
    bool in_use;

    (void)pthread_mutex_lock(&table->lock);
    dict = find_dict(table, service, generation);
    in_use = dict != NULL && dict->refs > 0;
    /* Out of the table in the same critical section: nobody can take a reference to what is about
     * to be deleted from the store. */
    if (dict != NULL && !in_use)
        evict(table, dict);
    (void)pthread_mutex_unlock(&table->lock);
    if (!in_use)
        put_deletes(service, generation, out);
    return !in_use;
}

/* Evicts the least recently used, as long as there is more than bytes_max and others were used at
 * least idle_min times since. A push with chunks on their way to the store holds a reference. */
static void shrink(struct ing_dict_table *table, uint64_t bytes_max, uint64_t idle_min)
{
    while (table->bytes > bytes_max) {
        struct ing_dict *oldest = NULL;

        /* A walk over all of them for each eviction: rare, and there are some hundreds. */
        for (size_t b = 0; b < TABLE_BUCKETS; b++)
            for (struct ing_dict *dict = table->buckets[b]; dict != NULL; dict = dict->next)
                if (dict->refs == 0 && (oldest == NULL || dict->used_at < oldest->used_at))
                    oldest = dict;
        if (oldest == NULL || table->tick - oldest->used_at < idle_min)
            return;
        evict(table, oldest);
    }
}

/* Adds a dictionary to the table and reads it. Called under the table's lock, and releases it
 * meanwhile: reading a large dictionary takes long, and pushes of other services need the table. */
static struct ing_dict *read_in(struct ing_dict_table *table, uint32_t service, uint32_t generation)
{
    struct ing_dict *dict = dict_create(service, generation);
    enum fg_code code;

    /* Listed as DICT_READING before the lock is released: others who need it wait instead of
     * reading it twice. */
    dict->refs = 1;
    dict->next = *bucket(table, service);
    *bucket(table, service) = dict;
    table->count++;
    (void)pthread_mutex_unlock(&table->lock);
    /* Nobody else touches the fields of the dictionary while it is DICT_READING. */
    code = load(dict, table->store, &dict->err);
    (void)pthread_mutex_lock(&table->lock);
    dict->state = code == FG_OK ? DICT_READY : DICT_FAILED;
    if (code == FG_OK) {
        dict->bytes = dict_memory(dict);
        table->bytes += dict->bytes;
    } else {
        take_out(table, dict); /* later callers try again; those who wait get the error */
    }
    (void)pthread_cond_broadcast(&table->was_read);
    return dict;
}

enum fg_code ing_dict_ref(struct ing_dict_table *table, uint32_t service, uint32_t generation,
                          struct ing_dict **ret_dict, struct fg_err *err)
{
    enum fg_code code = FG_OK;
    struct ing_dict *dict;

    (void)pthread_mutex_lock(&table->lock);
    dict = find_dict(table, service, generation);
    if (dict == NULL) {
        dict = read_in(table, service, generation);
    } else {
        /* The reference before the wait: a dictionary that fails is freed by the last who has
         * waited for it. */
        dict->refs++;
        while (dict->state == DICT_READING)
            (void)pthread_cond_wait(&table->was_read, &table->lock);
    }
    if (dict->state == DICT_FAILED) {
        *err = dict->err;
        code = err->code;
        if (--dict->refs == 0)
            dict_free(dict);
    } else {
        /* After the reference is counted, so that shrink() cannot evict this one. */
        dict->used_at = ++table->tick;
        shrink(table, table->memory_max_bytes, 0);
    }
    (void)pthread_mutex_unlock(&table->lock);
    if (code == FG_OK)
        *ret_dict = dict;
    return code;
}

void ing_dict_unref(struct ing_dict_table *table, struct ing_dict *dict)
{
    if (dict == NULL)
        return;
    (void)pthread_mutex_lock(&table->lock);
    fg_assert(dict->refs > 0);
    dict->refs--;
    /* A push may have grown it: count it again. */
    table->bytes -= dict->bytes;
    dict->bytes = dict_memory(dict);
    table->bytes += dict->bytes;
    (void)pthread_mutex_unlock(&table->lock);
}

bool ing_dict_outgrown(struct ing_dict_table *table, const struct ing_dict *dict)
{
    /* Memory counts as short at three quarters, since a large dictionary grows on while its pushes
     * end. With few dictionaries a share is a quarter of the memory. Small ones are kept: a new
     * generation costs all definitions again. */
    enum { SHARES_MIN = 4, KEEP_MIN_BYTES = 256 * 1024, IDLE_TURNS = 16 };
    uint64_t enough;
    bool outgrown;

    (void)pthread_mutex_lock(&table->lock);
    enough = table->memory_max_bytes / 4 * 3;
    outgrown = table->bytes > enough && dict->bytes > KEEP_MIN_BYTES &&
               dict->bytes > table->memory_max_bytes / FG_MAX(table->count, SHARES_MIN);
    /* Dictionaries that nobody has used for long go first: after a cut the memory has two
     * generations of each service, of which only queries read the old ones. If the new ones ended
     * for their sake, senders would define all stacks over and over again. */
    if (outgrown) {
        shrink(table, enough, (uint64_t)IDLE_TURNS * table->count);
        outgrown = table->bytes > enough;
    }
    (void)pthread_mutex_unlock(&table->lock);
    return outgrown;
}
