/*
 * The store in memory: per family a sorted array of pointers to entries. Entries never change and
 * are counted, so that an iterator is a copy of the pointers of its range, and what it sees stays
 * as it was. Simple rather than fast: an insertion moves the tail of the array.
 */
#include "common/storage/store/batch.h"
#include "tests/lib/store_doubles.h"

#include <pthread.h>

struct memory_entry {
    unsigned refs; /* under the store's lock */
    size_t key_len, value_len;
    uint8_t bytes[]; /* key, value */
};

struct family {
    struct memory_entry **entries; /* by key */
    size_t n, cap;
};

struct memory_store {
    struct fg_store store;
    pthread_mutex_t lock;
    struct family families[FG_STORE_FAMILIES_MAX];
    unsigned n_families;
    uint64_t bytes;
};

struct memory_iter {
    struct fg_store_iter iter;
    struct memory_store *memory;
    size_t n, at;
    struct memory_entry *entries[];
};

static struct memory_store *memory_of(struct fg_store *store)
{
    return fg_container(store, struct memory_store, store);
}

static struct fg_slice key_of(const struct memory_entry *entry)
{
    return fg_bytes(entry->bytes, entry->key_len);
}

static struct fg_slice value_of(const struct memory_entry *entry)
{
    return fg_bytes(entry->bytes + entry->key_len, entry->value_len);
}

static struct memory_entry *entry_create(struct fg_slice key, struct fg_slice value)
{
    struct memory_entry *entry = fg_malloc(sizeof *entry + key.len + value.len);

    *entry = (struct memory_entry){.refs = 1, .key_len = key.len, .value_len = value.len};
    if (key.len > 0)
        memcpy(entry->bytes, key.ptr, key.len);
    if (value.len > 0)
        memcpy(entry->bytes + key.len, value.ptr, value.len);
    return entry;
}

static void entry_unref(struct memory_store *memory, struct memory_entry *entry)
{
    if (--entry->refs > 0)
        return;
    memory->bytes -= entry->key_len + entry->value_len;
    free(entry);
}

/* Where key is, or would be, among n entries. */
static size_t position(struct memory_entry *const *entries, size_t n, struct fg_slice key)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (fg_slice_cmp(key_of(entries[middle]), key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct family *family, size_t at, struct fg_slice key)
{
    return at < family->n && fg_slice_eq(key_of(family->entries[at]), key);
}

static void put(struct memory_store *memory, struct family *family, struct memory_entry *entry)
{
    size_t at = position(family->entries, family->n, key_of(entry));

    memory->bytes += entry->key_len + entry->value_len;
    if (is_at(family, at, key_of(entry))) {
        entry_unref(memory, family->entries[at]);
        family->entries[at] = entry;
        return;
    }
    if (family->n == family->cap) {
        family->cap = FG_MAX(2 * family->cap, (size_t)64);
        family->entries = fg_realloc(family->entries, family->cap * sizeof(struct memory_entry *));
    }
    memmove(family->entries + at + 1, family->entries + at,
            (family->n - at) * sizeof(struct memory_entry *));
    family->entries[at] = entry;
    family->n++;
}

static void remove_span(struct memory_store *memory, struct family *family, size_t from, size_t to)
{
    if (from >= to)
        return;
    for (size_t i = from; i < to; i++)
        entry_unref(memory, family->entries[i]);
    memmove(family->entries + from, family->entries + to,
            (family->n - to) * sizeof(struct memory_entry *));
    family->n -= to - from;
}

static void apply(struct memory_store *memory, const struct fg_store_op *op)
{
    struct family *family = &memory->families[op->family];
    size_t at = position(family->entries, family->n, op->key);

    switch (op->kind) {
    case FG_STORE_PUT:
        put(memory, family, entry_create(op->key, op->value));
        break;
    case FG_STORE_DELETE:
        if (is_at(family, at, op->key))
            remove_span(memory, family, at, at + 1);
        break;
    case FG_STORE_DELETE_RANGE:
        remove_span(memory, family, at, position(family->entries, family->n, op->value));
        break;
    }
}

static enum fg_code memory_write(struct fg_store *store, struct fg_store_batch *batch,
                                 struct fg_err *err)
{
    struct memory_store *memory = memory_of(store);
    struct fg_cur cur = fg_cur(fg_buf_slice(&batch->ops));

    if (fg_store_batch_check(batch, err) != FG_OK)
        return err->code;
    pthread_mutex_lock(&memory->lock);
    while (fg_cur_more(&cur)) {
        struct fg_store_op op = fg_store_batch_read(&cur, memory->n_families);

        apply(memory, &op);
    }
    pthread_mutex_unlock(&memory->lock);
    return FG_OK;
}

/* Appends the value when out is not NULL. */
static bool find(struct memory_store *memory, unsigned family_nr, struct fg_slice key,
                 struct fg_buf *out)
{
    struct family *family = &memory->families[family_nr];
    bool found;

    fg_assert(family_nr < memory->n_families);
    pthread_mutex_lock(&memory->lock);
    size_t at = position(family->entries, family->n, key);
    found = is_at(family, at, key);
    if (found && out != NULL)
        fg_buf_put(out, value_of(family->entries[at]));
    pthread_mutex_unlock(&memory->lock);
    return found;
}

static enum fg_code memory_heal(struct fg_store *store, struct fg_err *err)
{
    (void)store, (void)err;
    return FG_OK;
}

static enum fg_code memory_get(struct fg_store *store, unsigned family, struct fg_slice key,
                               struct fg_buf *out, bool *ret_found, struct fg_err *err)
{
    bool found = find(memory_of(store), family, key, out);

    if (out->full)
        return fg_fail(err, FG_E_LIMIT, "value does not fit %zu bytes", out->max_bytes);
    *ret_found = found;
    return FG_OK;
}

static enum fg_code memory_contains(struct fg_store *store, unsigned family, struct fg_slice key,
                                    bool *ret_found, struct fg_err *err)
{
    (void)err;
    *ret_found = find(memory_of(store), family, key, NULL);
    return FG_OK;
}

/* --- iterators --- */

static struct memory_iter *iter_of(struct fg_store_iter *iter)
{
    return fg_container(iter, struct memory_iter, iter);
}

static void stand_at(struct memory_iter *it, size_t at)
{
    it->at = at;
    it->iter.valid = at < it->n;
    if (it->iter.valid) {
        it->iter.key = key_of(it->entries[at]);
        it->iter.value = value_of(it->entries[at]);
    }
}

static void memory_iter_seek(struct fg_store_iter *iter, struct fg_slice key)
{
    struct memory_iter *it = iter_of(iter);

    stand_at(it, position(it->entries, it->n, key));
}

static void memory_iter_next(struct fg_store_iter *iter)
{
    struct memory_iter *it = iter_of(iter);

    fg_assert(iter->valid);
    stand_at(it, it->at + 1);
}

static void memory_iter_destroy(struct fg_store_iter *iter)
{
    struct memory_iter *it = iter_of(iter);

    pthread_mutex_lock(&it->memory->lock);
    for (size_t i = 0; i < it->n; i++)
        entry_unref(it->memory, it->entries[i]);
    pthread_mutex_unlock(&it->memory->lock);
    free(it);
}

static struct memory_iter *copy_span(struct memory_store *memory, const struct family *family,
                                     size_t from, size_t to)
{
    size_t n = to > from ? to - from : 0;
    struct memory_iter *it = fg_calloc(1, sizeof *it + n * sizeof(struct memory_entry *));

    it->memory = memory;
    it->n = n;
    for (size_t i = 0; i < n; i++) {
        it->entries[i] = family->entries[from + i];
        it->entries[i]->refs++;
    }
    return it;
}

static struct fg_store_iter *memory_iter_create(struct fg_store *store, unsigned family_nr,
                                                struct fg_slice from, struct fg_slice to)
{
    static const struct fg_store_iter_ops ops = {
        .seek = memory_iter_seek, .next = memory_iter_next, .destroy = memory_iter_destroy};
    struct memory_store *memory = memory_of(store);
    struct family *family = &memory->families[family_nr];

    fg_assert(family_nr < memory->n_families);
    pthread_mutex_lock(&memory->lock);
    struct memory_iter *it =
        copy_span(memory, family, position(family->entries, family->n, from),
                  to.len == 0 ? family->n : position(family->entries, family->n, to));
    pthread_mutex_unlock(&memory->lock);
    it->iter.ops = &ops;
    stand_at(it, 0);
    return &it->iter;
}

/* --- the rest --- */

static uint64_t memory_disk_bytes(struct fg_store *store)
{
    (void)store;
    return 0;
}

static uint64_t memory_memory_bytes(struct fg_store *store)
{
    struct memory_store *memory = memory_of(store);

    pthread_mutex_lock(&memory->lock);
    uint64_t bytes = memory->bytes;
    pthread_mutex_unlock(&memory->lock);
    return bytes;
}

static void memory_close(struct fg_store *store)
{
    struct memory_store *memory = memory_of(store);

    for (unsigned i = 0; i < memory->n_families; i++) {
        remove_span(memory, &memory->families[i], 0, memory->families[i].n);
        free(memory->families[i].entries);
    }
    fg_assert(memory->bytes == 0); /* else an iterator is still open */
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

struct fg_store *fg_store_memory(unsigned n_families)
{
    static const struct fg_store_ops ops = {
        memory_write,        memory_heal,        memory_get,
        memory_contains,     memory_iter_create, memory_disk_bytes,
        memory_memory_bytes, memory_close,       NULL,
    };
    struct memory_store *memory = fg_new(struct memory_store);

    fg_assert(n_families > 0 && n_families <= FG_STORE_FAMILIES_MAX);
    memory->store.ops = &ops;
    memory->n_families = n_families;
    pthread_mutex_init(&memory->lock, NULL);
    return &memory->store;
}

struct fg_store *fg_store_memory_copy(struct fg_store *of, unsigned n_families)
{
    struct fg_store *copy = fg_store_memory(n_families);
    struct fg_store_batch batch;
    struct fg_err err;

    fg_store_batch_init(&batch);
    for (unsigned family = 0; family < n_families; family++) {
        fg_auto(fg_store_iter) *iter = fg_store_iter_create(of, family, FG_LIT(""), FG_LIT(""));

        for (; iter->valid; fg_store_iter_next(iter))
            fg_store_put(&batch, family, iter->key, iter->value);
        fg_assert(iter->err.code == FG_OK);
    }
    fg_assert(fg_store_write(copy, &batch, &err) == FG_OK);
    fg_store_batch_done(&batch);
    return copy;
}
