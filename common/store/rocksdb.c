/*
 * The store on RocksDB 7.8, by its C interface.
 *
 * Durability. A batch is one record of the write-ahead log, and with `sync` RocksDB returns after
 * the log's fdatasync. There is one log for all families, so a batch over several is atomic too.
 *
 * Recovery stops at the first record that is not whole (point in time, RocksDB's default). After
 * kill -9 or a power cut the only thing that can be torn is the last record, or its pages written
 * out of order: it was never acknowledged, and everything acknowledged is in front of it. The
 * stricter modes do not keep more, they refuse to open: "absolute" for a torn tail (which every
 * crash may leave), "tolerate tail" for a tail whose length arrived on disk before its bytes. The
 * price: rot in the middle of the log loses what follows it. The log is some hundred MiB of the
 * newest data, and replicas have it.
 *
 * After a failed write RocksDB refuses further ones. From a full disk it recovers by itself once
 * there is room; for other errors there is DB::Resume(), which 7.8 has not in C. So when a write
 * keeps failing, the committer closes the database and opens it again. Readers wait for that; it
 * does not happen while iterators are open, because RocksDB asserts on those, and is tried again
 * with a later write.
 */
#include "common/base/time.h"
#include "common/store/batch.h"

#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>

enum {
    BLOOM_BITS_PER_KEY = 10, /* one absent key in a hundred costs a block read */
    BACKGROUND_JOBS = 2,     /* one flush, one compaction: the rest of the CPU is the service's */
    WRITE_BUFFERS = 3,       /* per family: one filling, two being written out */
    INFO_LOGS_KEPT = 3,      /* RocksDB's own LOG files */
    INFO_LOG_MAX_BYTES = 1024 * 1024, /* each of them */
    INFO_LOG_WARN = 2,                /* InfoLogLevel::WARN_LEVEL */
    ZSTD_WINDOW_BITS = -14,           /* RocksDB's default: let the library choose */
    ZSTD_LEVEL = 1,                   /* values are small and live for an hour */
    FORMAT_VERSION = 5,               /* block tables; RocksDB 6.6 and later */
    BLOCK_BYTES = 16 * 1024, /* 16 values or more compress together; lz4 opens it in 10 us */
    REOPEN_AFTER_MS = 1000,  /* of failing writes; RocksDB's own recovery had its chance */
};

struct rocks {
    struct fg_store store;
    char *dir;
    char *names[FG_STORE_FAMILIES_MAX];
    unsigned n_families;

    pthread_rwlock_t lock; /* write: the database is closed and opened; read: it is used */
    rocksdb_t *db;         /* NULL: reopening failed */
    rocksdb_column_family_handle_t *families[FG_STORE_FAMILIES_MAX];
    atomic_uint iters;
    _Atomic uint64_t disk_bytes, memory_bytes; /* last known */

    rocksdb_options_t *options;
    rocksdb_cache_t *cache;
    rocksdb_readoptions_t *read_options;

    /* The committer's. */
    rocksdb_writeoptions_t *write_options;
    rocksdb_writebatch_t *batch; /* keeps its memory from write to write */
    int64_t failing_mono_ns;     /* since when writes fail, or the last reopening; 0: they do not */
};

struct rocks_iter {
    struct fg_store_iter iter;
    struct rocks *rocks;
    rocksdb_iterator_t *it;
    rocksdb_readoptions_t *read_options;
    struct fg_slice from, to; /* RocksDB keeps pointing to the upper bound: it is in bytes below */
    uint8_t bytes[];
};

static struct rocks *rocks_of(struct fg_store *store)
{
    return fg_container(store, struct rocks, store);
}

static const char *chars(struct fg_slice bytes)
{
    return bytes.len == 0 ? "" : (const char *)bytes.ptr;
}

/* Takes errptr. RocksDB's errors arrive as text alone, "IO error: No space left on device: …". */
static enum fg_code fail_rocks(struct fg_err *err, char *errptr, const char *what)
{
    enum fg_code code =
        fg_slice_starts(fg_cstr(errptr), "Corruption") ? FG_E_CORRUPT : FG_E_UNAVAILABLE;

    (void)fg_fail(err, code, "%s: %s", what, errptr);
    rocksdb_free(errptr);
    return code;
}

static enum fg_code fail_closed(struct fg_err *err)
{
    return fg_fail(err, FG_E_UNAVAILABLE, "store could not be opened again after an error");
}

/* --- options --- */

static rocksdb_block_based_table_options_t *table_options(rocksdb_cache_t *cache)
{
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();

    rocksdb_block_based_options_set_block_cache(table, cache);
    rocksdb_block_based_options_set_block_size(table, BLOCK_BYTES);
    rocksdb_block_based_options_set_format_version(table, FORMAT_VERSION);
    /* The table owns the filter policy from here on; not so the cache, which is shared. */
    rocksdb_block_based_options_set_filter_policy(
        table, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS_PER_KEY));
    /* Filters and indexes count against the cache, else memory grows with the data; they are
     * evicted last, and those of the newest files, which every contains() asks, never. */
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(table, 1);
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
    return table;
}

static void set_tables(rocksdb_options_t *options, rocksdb_cache_t *cache)
{
    rocksdb_block_based_table_options_t *table = table_options(cache);

    rocksdb_options_set_block_based_table_factory(options, table);
    rocksdb_block_based_options_destroy(table);
    rocksdb_options_set_compression(options, rocksdb_lz4_compression);
    rocksdb_options_set_bottommost_compression(options, rocksdb_zstd_compression);
    rocksdb_options_set_bottommost_compression_options(options, ZSTD_WINDOW_BITS, ZSTD_LEVEL, 0, 0,
                                                       1);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
}

static void set_info_log(rocksdb_options_t *options)
{
    rocksdb_options_set_info_log_level(options, INFO_LOG_WARN);
    rocksdb_options_set_keep_log_file_num(options, INFO_LOGS_KEPT);
    rocksdb_options_set_max_log_file_size(options, INFO_LOG_MAX_BYTES);
    rocksdb_options_set_stats_dump_period_sec(options, 0);
    rocksdb_options_set_stats_persist_period_sec(options, 0);
}

/*
 * Most keys that contains() is asked for are new, and the newest keys are in the memtable, where an
 * absent key costs a search of its list. A filter over whole keys is an option without a setter in
 * C.
 */
static void set_memtable_filter(rocksdb_options_t *options)
{
    char *errptr = NULL;

    rocksdb_get_options_from_string(
        options, "memtable_whole_key_filtering=true;memtable_prefix_bloom_size_ratio=0.02", options,
        &errptr);
    fg_assert(errptr == NULL); /* a constant; a later RocksDB that lost it is to be noticed */
}

static rocksdb_options_t *make_options(const struct fg_store_config *config, rocksdb_cache_t *cache)
{
    rocksdb_options_t *options = rocksdb_options_create();

    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_create_missing_column_families(options, 1);
    rocksdb_options_set_paranoid_checks(options, 1);
    rocksdb_options_set_wal_recovery_mode(options, rocksdb_point_in_time_recovery);
    rocksdb_options_set_max_total_wal_size(options, config->wal_max_bytes);
    rocksdb_options_set_write_buffer_size(options, (size_t)config->write_buffer_bytes);
    rocksdb_options_set_max_write_buffer_number(options, WRITE_BUFFERS);
    rocksdb_options_set_max_background_jobs(options, BACKGROUND_JOBS);
    set_tables(options, cache);
    set_info_log(options);
    set_memtable_filter(options);
    return options;
}

/* --- open and close --- */

static enum fg_code open_db(struct rocks *rocks, struct fg_err *err)
{
    const rocksdb_options_t *options[FG_STORE_FAMILIES_MAX];
    const char *names[FG_STORE_FAMILIES_MAX];
    char *errptr = NULL;

    for (unsigned i = 0; i < rocks->n_families; i++) {
        options[i] = rocks->options;
        names[i] = rocks->names[i];
    }
    rocks->db = rocksdb_open_column_families(rocks->options, rocks->dir, (int)rocks->n_families,
                                             names, options, rocks->families, &errptr);
    if (errptr == NULL)
        return FG_OK;
    rocks->db = NULL; /* what came back beside an error means nothing */
    return fail_rocks(err, errptr, rocks->dir);
}

/* So that the next start has no log to read again, which takes seconds. */
static void flush_db(struct rocks *rocks)
{
    rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();

    rocksdb_flushoptions_set_wait(options, 1);
    for (unsigned i = 0; i < rocks->n_families; i++) {
        char *errptr = NULL;

        rocksdb_flush_cf(rocks->db, options, rocks->families[i], &errptr);
        rocksdb_free(errptr); /* then it is in the log still */
    }
    rocksdb_flushoptions_destroy(options);
}

/* The order is RocksDB's: iterators are gone, then family handles, then the database. */
static void close_db(struct rocks *rocks)
{
    fg_assert(atomic_load(&rocks->iters) == 0);
    if (rocks->db == NULL)
        return;
    for (unsigned i = 0; i < rocks->n_families; i++)
        rocksdb_column_family_handle_destroy(rocks->families[i]);
    rocksdb_close(rocks->db);
    rocks->db = NULL;
}

static void rocks_free(struct rocks *rocks)
{
    rocksdb_writebatch_destroy(rocks->batch);
    rocksdb_writeoptions_destroy(rocks->write_options);
    rocksdb_readoptions_destroy(rocks->read_options);
    rocksdb_options_destroy(rocks->options);
    rocksdb_cache_destroy(rocks->cache);
    pthread_rwlock_destroy(&rocks->lock);
    for (unsigned i = 0; i < rocks->n_families; i++)
        free(rocks->names[i]);
    free(rocks->dir);
    free(rocks);
}

static void rocks_close(struct fg_store *store)
{
    struct rocks *rocks = rocks_of(store);

    if (rocks->db != NULL && rocks->failing_mono_ns == 0)
        flush_db(rocks);
    close_db(rocks);
    rocks_free(rocks);
}

/* --- write --- */

static void fill(struct rocks *rocks, const struct fg_store_batch *batch)
{
    struct fg_cur cur = fg_cur(fg_buf_slice(&batch->ops));

    rocksdb_writebatch_clear(rocks->batch);
    while (fg_cur_more(&cur)) {
        struct fg_store_op op = fg_store_batch_read(&cur, rocks->n_families);
        rocksdb_column_family_handle_t *family = rocks->families[op.family];

        switch (op.kind) {
        case FG_STORE_PUT:
            rocksdb_writebatch_put_cf(rocks->batch, family, chars(op.key), op.key.len,
                                      chars(op.value), op.value.len);
            break;
        case FG_STORE_DELETE:
            rocksdb_writebatch_delete_cf(rocks->batch, family, chars(op.key), op.key.len);
            break;
        case FG_STORE_DELETE_RANGE:
            rocksdb_writebatch_delete_range_cf(rocks->batch, family, chars(op.key), op.key.len,
                                               chars(op.value), op.value.len);
            break;
        }
    }
}

static enum fg_code write_once(struct rocks *rocks, const struct fg_store_batch *batch,
                               struct fg_err *err)
{
    char *errptr = NULL;

    if (rocks->db == NULL)
        return fail_closed(err);
    fill(rocks, batch); /* each time: it holds the ids of the families of this opening */
    rocksdb_write(rocks->db, rocks->write_options, rocks->batch, &errptr);
    if (errptr != NULL)
        return fail_rocks(err, errptr, "write");
    rocks->failing_mono_ns = 0;
    return FG_OK;
}

/* false: not now, somebody reads with an iterator. */
static bool reopen(struct rocks *rocks, struct fg_err *err)
{
    bool opened = false;

    pthread_rwlock_wrlock(&rocks->lock); /* iterators are made under the read lock */
    if (atomic_load(&rocks->iters) == 0) {
        close_db(rocks);
        opened = open_db(rocks, err) == FG_OK;
    }
    pthread_rwlock_unlock(&rocks->lock);
    return opened;
}

static enum fg_code rocks_write(struct fg_store *store, struct fg_store_batch *batch,
                                struct fg_err *err)
{
    struct rocks *rocks = rocks_of(store);

    if (fg_store_batch_check(batch, err) != FG_OK)
        return err->code;
    if (write_once(rocks, batch, err) == FG_OK)
        return FG_OK;

    int64_t now_mono_ns = fg_mono_ns(fg_clock_real());
    if (rocks->failing_mono_ns == 0)
        rocks->failing_mono_ns = now_mono_ns;
    if (now_mono_ns - rocks->failing_mono_ns < REOPEN_AFTER_MS * FG_MS_NS)
        return err->code;
    rocks->failing_mono_ns = now_mono_ns;
    return reopen(rocks, err) ? write_once(rocks, batch, err) : err->code;
}

/* --- read --- */

/* *ret_value is NULL when the key is not there; else the caller destroys it, under the read lock.
 */
static enum fg_code get_pinned(struct rocks *rocks, unsigned family, struct fg_slice key,
                               rocksdb_pinnableslice_t **ret_value, struct fg_err *err)
{
    rocksdb_pinnableslice_t *value;
    char *errptr = NULL;

    fg_assert(family < rocks->n_families);
    if (rocks->db == NULL)
        return fail_closed(err);
    value = rocksdb_get_pinned_cf(rocks->db, rocks->read_options, rocks->families[family],
                                  chars(key), key.len, &errptr);
    if (errptr != NULL)
        return fail_rocks(err, errptr, "read");
    *ret_value = value;
    return FG_OK;
}

static enum fg_code rocks_get(struct fg_store *store, unsigned family, struct fg_slice key,
                              struct fg_buf *out, bool *ret_found, struct fg_err *err)
{
    struct rocks *rocks = rocks_of(store);
    rocksdb_pinnableslice_t *value = NULL;
    enum fg_code code;

    pthread_rwlock_rdlock(&rocks->lock);
    code = get_pinned(rocks, family, key, &value, err);
    if (value != NULL) {
        size_t len = 0;
        const char *bytes = rocksdb_pinnableslice_value(value, &len);

        fg_buf_append(out, bytes, len);
        rocksdb_pinnableslice_destroy(value);
    }
    pthread_rwlock_unlock(&rocks->lock);
    if (code == FG_OK && out->full)
        return fg_fail(err, FG_E_LIMIT, "value does not fit %zu bytes", out->max_bytes);
    if (code == FG_OK)
        *ret_found = value != NULL;
    return code;
}

static enum fg_code rocks_contains(struct fg_store *store, unsigned family, struct fg_slice key,
                                   bool *ret_found, struct fg_err *err)
{
    struct rocks *rocks = rocks_of(store);
    rocksdb_pinnableslice_t *value = NULL;
    enum fg_code code;

    pthread_rwlock_rdlock(&rocks->lock);
    code = get_pinned(rocks, family, key, &value, err);
    if (value != NULL)
        rocksdb_pinnableslice_destroy(value);
    pthread_rwlock_unlock(&rocks->lock);
    if (code == FG_OK)
        *ret_found = value != NULL;
    return code;
}

/* --- iterators --- */

static struct rocks_iter *iter_of(struct fg_store_iter *iter)
{
    return fg_container(iter, struct rocks_iter, iter);
}

/* Says where the iterator stands, after each move. */
static void look(struct rocks_iter *it)
{
    size_t len = 0;
    const char *bytes;
    char *errptr = NULL;

    it->iter.valid = rocksdb_iter_valid(it->it) != 0;
    if (it->iter.valid) {
        bytes = rocksdb_iter_key(it->it, &len);
        it->iter.key = fg_bytes(bytes, len);
        bytes = rocksdb_iter_value(it->it, &len);
        it->iter.value = fg_bytes(bytes, len);
        return;
    }
    rocksdb_iter_get_error(it->it, &errptr); /* the end, or an error? */
    if (errptr != NULL)
        (void)fail_rocks(&it->iter.err, errptr, "iterate");
}

static void rocks_iter_seek(struct fg_store_iter *iter, struct fg_slice key)
{
    struct rocks_iter *it = iter_of(iter);

    if (it->it == NULL)
        return;
    if (fg_slice_cmp(key, it->from) < 0)
        key = it->from; /* RocksDB has the upper bound only */
    rocksdb_iter_seek(it->it, chars(key), key.len);
    look(it);
}

static void rocks_iter_next(struct fg_store_iter *iter)
{
    struct rocks_iter *it = iter_of(iter);

    fg_assert(iter->valid);
    rocksdb_iter_next(it->it);
    look(it);
}

static void rocks_iter_destroy(struct fg_store_iter *iter)
{
    struct rocks_iter *it = iter_of(iter);

    if (it->it != NULL) {
        rocksdb_iter_destroy(it->it);
        atomic_fetch_sub(&it->rocks->iters, 1);
    }
    if (it->read_options != NULL)
        rocksdb_readoptions_destroy(it->read_options);
    free(it);
}

static struct rocks_iter *iter_alloc(struct rocks *rocks, struct fg_slice from, struct fg_slice to)
{
    static const struct fg_store_iter_ops ops = {rocks_iter_seek, rocks_iter_next,
                                                 rocks_iter_destroy};
    struct rocks_iter *it = fg_calloc(1, sizeof *it + from.len + to.len);

    it->iter.ops = &ops;
    it->rocks = rocks;
    if (from.len > 0)
        memcpy(it->bytes, from.ptr, from.len);
    if (to.len > 0)
        memcpy(it->bytes + from.len, to.ptr, to.len);
    it->from = fg_bytes(it->bytes, from.len);
    it->to = fg_bytes(it->bytes + from.len, to.len);
    return it;
}

/* An iterator reads the database as it was when it was made: RocksDB takes the sequence number
 * then. */
static void iter_open(struct rocks_iter *it, unsigned family)
{
    struct rocks *rocks = it->rocks;

    it->read_options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_total_order_seek(it->read_options, 1);
    if (it->to.len > 0)
        rocksdb_readoptions_set_iterate_upper_bound(it->read_options, chars(it->to), it->to.len);
    it->it = rocksdb_create_iterator_cf(rocks->db, it->read_options, rocks->families[family]);
    atomic_fetch_add(&rocks->iters, 1);
}

static struct fg_store_iter *rocks_iter_create(struct fg_store *store, unsigned family,
                                               struct fg_slice from, struct fg_slice to)
{
    struct rocks *rocks = rocks_of(store);
    struct rocks_iter *it = iter_alloc(rocks, from, to);

    fg_assert(family < rocks->n_families);
    pthread_rwlock_rdlock(&rocks->lock);
    if (rocks->db != NULL)
        iter_open(it, family);
    else
        (void)fail_closed(&it->iter.err);
    pthread_rwlock_unlock(&rocks->lock);
    rocks_iter_seek(&it->iter, it->from);
    return &it->iter;
}

/* --- sizes --- */

/* Of all families together. */
static uint64_t sum_property(struct rocks *rocks, const char *name)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < rocks->n_families; i++) {
        uint64_t value = 0;

        if (rocksdb_property_int_cf(rocks->db, rocks->families[i], name, &value) == 0)
            sum += value;
    }
    return sum;
}

/* The log has no property; it holds what the memtables hold, so their size stands in for it. While
 * the database is being reopened, which may take long on a slow disk, this returns the last known
 * size. */
static uint64_t rocks_disk_bytes(struct fg_store *store)
{
    struct rocks *rocks = rocks_of(store);

    if (pthread_rwlock_tryrdlock(&rocks->lock) != 0)
        return atomic_load(&rocks->disk_bytes);
    atomic_store(&rocks->disk_bytes,
                 rocks->db == NULL ? 0
                                   : sum_property(rocks, "rocksdb.total-sst-files-size") +
                                         sum_property(rocks, "rocksdb.cur-size-all-mem-tables"));
    pthread_rwlock_unlock(&rocks->lock);
    return atomic_load(&rocks->disk_bytes);
}

static uint64_t rocks_memory_bytes(struct fg_store *store)
{
    struct rocks *rocks = rocks_of(store);

    if (pthread_rwlock_tryrdlock(&rocks->lock) != 0)
        return atomic_load(&rocks->memory_bytes);
    atomic_store(&rocks->memory_bytes,
                 rocksdb_cache_get_usage(rocks->cache) +
                     (rocks->db == NULL
                          ? 0
                          : sum_property(rocks, "rocksdb.size-all-mem-tables") +
                                sum_property(rocks, "rocksdb.estimate-table-readers-mem")));
    pthread_rwlock_unlock(&rocks->lock);
    return atomic_load(&rocks->memory_bytes);
}

/* --- create --- */

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;

    return memcpy(fg_malloc(size), text, size);
}

/* Reopening waits for the readers of now, not for all that come: glibc's default would starve it.
 */
static void init_lock(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attr;

    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(lock, &attr);
    pthread_rwlockattr_destroy(&attr);
}

static struct rocks *rocks_alloc(const char *dir, const char *const *families, unsigned n_families,
                                 const struct fg_store_config *config)
{
    struct rocks *rocks = fg_new(struct rocks);

    rocks->dir = copy_text(dir);
    rocks->n_families = n_families;
    for (unsigned i = 0; i < n_families; i++)
        rocks->names[i] = copy_text(families[i]);
    init_lock(&rocks->lock);
    rocks->cache = rocksdb_cache_create_lru((size_t)config->cache_bytes);
    rocks->options = make_options(config, rocks->cache);
    rocks->read_options = rocksdb_readoptions_create();
    rocks->write_options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(rocks->write_options, config->sync);
    rocks->batch = rocksdb_writebatch_create();
    return rocks;
}

enum fg_code fg_store_open(const char *dir, const char *const *families, unsigned n_families,
                           const struct fg_store_config *config, struct fg_store **ret_store,
                           struct fg_err *err)
{
    static const struct fg_store_ops ops = {
        rocks_write,      rocks_get,          rocks_contains, rocks_iter_create,
        rocks_disk_bytes, rocks_memory_bytes, rocks_close,
    };
    struct rocks *rocks;

    fg_assert(n_families > 0 && n_families <= FG_STORE_FAMILIES_MAX);
    fg_assert(strcmp(families[0], "default") == 0);
    rocks = rocks_alloc(dir, families, n_families, config);
    rocks->store.ops = &ops;
    if (open_db(rocks, err) != FG_OK) {
        rocks_free(rocks);
        return fg_wrap(err, "store");
    }
    *ret_store = &rocks->store;
    return FG_OK;
}
