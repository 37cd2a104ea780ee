/*
 * The store on RocksDB 7.8, by its C interface.
 *
 * Durability. A batch is one record of the write-ahead log, and with `sync` RocksDB returns after
 * the log's fdatasync. There is one log for all families, so a batch over several is atomic too.
 *
 * Recovery. After kill -9 or a power cut the only thing that can be torn is the last record of the
 * last log: it was never acknowledged, and everything acknowledged is in front of it. We cut it off
 * ourselves (mark.h), and let RocksDB refuse a log with anything else wrong ("absolute
 * consistency"). Its other modes drop what they cannot read without a word: a record that rotted or
 * that the disk does not give, and all behind it. They also take a torn end for damage when they
 * meet it again after a recovery that did not get to its end ("SST file is ahead of WALs").
 *
 * Loss. What a mark says was there has to be there: a MANIFEST or log that was cut short, a log
 * that is missing, an older CURRENT are FG_E_CORRUPT, and the files stay as they are.
 *
 * After a failed write RocksDB refuses further ones but goes on reading, so the database stays
 * open. It recovers from a full disk by itself, some seconds after there is room for a write
 * buffer. For other errors there is DB::Resume(), which 7.8 does not have in C, and which refuses
 * most of them. So fg_store_heal() opens the database again, in steps that never make readers wait:
 *
 *   1. The failing opening changes nothing of the folder any more. Next to it the database is
 *      opened read-only, and readers move over.
 *   2. When the last iterator of the failing opening has ended, it is closed: RocksDB allows one
 *      read-write opening of a folder at a time. Read-only ones take no lock.
 *   3. The database is opened read-write, and readers move over.
 *
 * fg_store_open() begins with step 3, and with a read-only opening if the disk takes no writes
 * because it is full or read-only; then fg_store_heal() tries step 3 again.
 */
#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/runtime/log.h"
#include "common/runtime/rwlock.h"
#include "common/runtime/thread.h"
#include "common/storage/store/aside.h"
#include "common/storage/store/batch.h"
#include "common/storage/store/mark.h"
#include "common/storage/store/rocksdb_log.h"
#include "common/storage/store/unread.h"

#include <errno.h>
#include <fcntl.h>
#include <rocksdb/c.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BLOOM_BITS_PER_KEY = 10, /* one absent key in a hundred costs a block read */
    FLUSHES = 1,             /* at once, of all databases of the process, and ... */
    COMPACTIONS = 1,         /* the rest of the CPU is the service's */
    WRITE_BUFFERS = 3,       /* per family: one filling, two being written out */
    INFO_LOG_WARN = 2,       /* InfoLogLevel::WARN_LEVEL */
    ZSTD_WINDOW_BITS = -14,  /* RocksDB's default: let the library choose */
    ZSTD_LEVEL = 1,          /* values are small and live for an hour */
    FORMAT_VERSION = 5,      /* block tables; RocksDB 6.6 and later */
    DIR_MODE = 0750,
    MANIFEST_MAX_BYTES = 8 * 1024 * 1024, /* it is read through at each start */
    /* Of a table, until the disk begins to write them: the sync of a push waits for what a file
     * system has not written yet of other files, which for a whole table takes 30 ms. */
    SYNC_BYTES = 1024 * 1024,
    MARK_EVERY_MS = 1000,    /* of writes: so much at the end of a log may be lost unnoticed */
    BLOCK_BYTES = 16 * 1024, /* 16 values or more compress together; lz4 opens it in 10 us */
};

/* One opening of the database. */
struct opening {
    rocksdb_t *db;
    rocksdb_column_family_handle_t *families[FG_STORE_FAMILIES_MAX];
    bool read_only;
    bool quiet;           /* nothing of the folder is changed by it any more */
    atomic_uint users;    /* reads and iterators; none come once it was replaced */
    struct opening *next; /* of those that were replaced */
};

struct rocks {
    struct fg_store store;
    atomic_bool damaged; /* a compaction met an unreadable table; compactions are off */
    char *dir;
    struct fg_unread *unread; /* says which errors of reads are damage; NULL: none */
    int dir_fd; /* holds the folder's lock: a read-only opening takes none of RocksDB's */
    char *names[FG_STORE_FAMILIES_MAX];
    unsigned n_families, filtered_family;

    struct fg_rwlock lock;   /* of the next line */
    struct opening *current; /* what is read from; the committer replaces it */

    rocksdb_options_t *options;
    rocksdb_cache_t *cache;
    rocksdb_readoptions_t *read_options;

    /* The committer's. */
    rocksdb_writeoptions_t *write_options;
    rocksdb_writebatch_t *batch; /* keeps its memory from write to write */
    struct opening *replaced;    /* until their users have gone */
    bool failing;                /* a write failed, and the database was not opened again since */
    uint64_t acknowledged;       /* sequence number of the last write that was; 0: not yet */
    struct fg_marker *marker;
    int64_t marked_mono_ns; /* when the last mark was tried */
    bool marking_failed;    /* it could not be written, which was logged */
    struct fg_err why;      /* current is read-only: what the opening for writing said */
};

struct rocks_iter {
    struct fg_store_iter iter;
    struct rocks *rocks;
    struct opening *opening;
    rocksdb_iterator_t *it;
    rocksdb_readoptions_t *read_options;
    struct fg_slice from, to; /* RocksDB keeps pointing to the upper bound: it is in bytes below */
    struct fg_buf before;     /* the key before the last step */
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

static bool says(const char *text, const char *const *phrases, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(text, phrases[i]) != NULL)
            return true;
    return false;
}

/* RocksDB's errors arrive as text alone, "IO error: No space left on device: …". */
static enum fg_code code_of(const char *text)
{
    static const char *const full[] = {"No space left on device", "Disk quota exceeded"};

    if (fg_slice_starts(fg_cstr(text), "Corruption"))
        return FG_E_CORRUPT;
    return says(text, full, FG_COUNT(full)) ? FG_E_NO_SPACE : FG_E_UNAVAILABLE;
}

/* Returns true if the disk refused a write but its data can be read. */
static bool is_of_a_disk(const struct fg_err *err)
{
    static const char *const faults[] = {"Input/output error", "Read-only file system"};

    return err->code == FG_E_NO_SPACE ||
           (err->code == FG_E_UNAVAILABLE && says(err->msg, faults, FG_COUNT(faults)));
}

/* Takes errptr. */
static enum fg_code fail_rocks(struct fg_err *err, char *errptr, const char *what)
{
    (void)fg_fail(err, code_of(errptr), "%s: %s", what, errptr);
    rocksdb_free(errptr);
    return err->code;
}

/* Takes errptr. What waiting does not help against is not FG_E_UNAVAILABLE: a store that has other
 * families, or belongs to another user. */
static enum fg_code fail_opening(struct fg_err *err, char *errptr, const char *dir)
{
    static const char *const lasting[] = {"Invalid argument", "Permission denied"};

    if (fail_rocks(err, errptr, dir) == FG_E_UNAVAILABLE &&
        says(err->msg, lasting, FG_COUNT(lasting)))
        err->code = FG_E_INTERNAL;
    return err->code;
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

static void on_line(const char *text)
{
    fg_log_warn("RocksDB warning", fg_ls("text", text));
}

static rocksdb_options_t *make_options(const struct fg_store_config *config, rocksdb_cache_t *cache)
{
    rocksdb_options_t *options = rocksdb_options_create();

    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_create_missing_column_families(options, 1);
    rocksdb_options_set_paranoid_checks(options, 1);
    rocksdb_options_set_wal_recovery_mode(options, rocksdb_absolute_consistency_recovery);
    rocksdb_options_set_max_manifest_file_size(options, MANIFEST_MAX_BYTES);
    rocksdb_options_set_max_total_wal_size(options, config->wal_max_bytes);
    rocksdb_options_set_write_buffer_size(options, (size_t)config->write_buffer_bytes);
    rocksdb_options_set_max_write_buffer_number(options, WRITE_BUFFERS);
    rocksdb_options_set_max_background_jobs(options, FLUSHES + COMPACTIONS);
    rocksdb_options_set_bytes_per_sync(options, SYNC_BYTES);
    set_tables(options, cache);

    rocksdb_logger_t *logger = fg_rocksdb_logger_create(on_line);

    rocksdb_options_set_info_log(options, logger);
    fg_rocksdb_logger_destroy(logger);
    rocksdb_options_set_info_log_level(options, INFO_LOG_WARN);
    rocksdb_options_set_stats_dump_period_sec(options, 0);
    rocksdb_options_set_stats_persist_period_sec(options, 0);
    return options;
}

/*
 * Makes the options of the family whose memtables get a filter. It is for this family alone: a
 * write that begins a new log makes memtables of all families, and waits until their filters are
 * cleared. With 0.005 of the memtable's size, a profile of 250 bytes has ten bits of it.
 */
static rocksdb_options_t *make_filtered_options(rocksdb_options_t *options)
{
    rocksdb_options_t *filtered = rocksdb_options_create_copy(options);
    char *errptr = NULL;

    /* A filter over whole keys is an option without a setter in C. */
    rocksdb_get_options_from_string(
        filtered, "memtable_whole_key_filtering=true;memtable_prefix_bloom_size_ratio=0.005",
        filtered, &errptr);
    fg_assert(errptr == NULL); /* a constant; a later RocksDB that lost it is to be noticed */
    return filtered;
}

/* --- threads of RocksDB --- */

static void set_thread_numbers(void *arg)
{
    rocksdb_env_t *env = arg;

    fg_thread_lower_priority();
    rocksdb_env_set_high_priority_background_threads(env, FLUSHES);
    rocksdb_env_set_background_threads(env, COMPACTIONS);
}

/*
 * Starts RocksDB's threads with a lower priority, so that a flush does not hold up pushes. They are
 * of the process: the first store starts them, and they never end. RocksDB's own setter of the
 * priority gives them nearly nothing (niceness 19), and then writes wait for a flush that waits for
 * queries. But threads inherit the priority of the one that sets their number.
 */
static enum fg_code start_threads(struct fg_err *err)
{
    rocksdb_env_t *env = rocksdb_create_default_env();
    struct fg_thread starter;
    enum fg_code code;

    fg_thread_init(&starter);
    code = fg_thread_start(&starter, "rocksdb", set_thread_numbers, env, err);
    fg_thread_join(&starter);
    fg_thread_done(&starter);
    rocksdb_env_destroy(env);
    return code;
}

/* --- openings --- */

static enum fg_code open_db(const struct rocks *rocks, bool read_only, struct opening **ret_opening,
                            struct fg_err *err)
{
    const rocksdb_options_t *options[FG_STORE_FAMILIES_MAX];
    const char *names[FG_STORE_FAMILIES_MAX];
    rocksdb_options_t *filtered = make_filtered_options(rocks->options);
    struct opening *opening = fg_new(struct opening);
    char *errptr = NULL;

    for (unsigned i = 0; i < rocks->n_families; i++) {
        options[i] = i == rocks->filtered_family ? filtered : rocks->options;
        names[i] = rocks->names[i];
    }
    opening->read_only = read_only;
    opening->db =
        read_only
            ? rocksdb_open_for_read_only_column_families(rocks->options, rocks->dir,
                                                         (int)rocks->n_families, names, options,
                                                         opening->families, 0, &errptr)
            : rocksdb_open_column_families(rocks->options, rocks->dir, (int)rocks->n_families,
                                           names, options, opening->families, &errptr);
    rocksdb_options_destroy(filtered);
    if (errptr != NULL) { /* the result is undefined then */
        free(opening);
        return fail_opening(err, errptr, rocks->dir);
    }
    *ret_opening = opening;
    return FG_OK;
}

/* The order is RocksDB's: iterators are gone, then family handles, then the database. */
static void close_db(const struct rocks *rocks, struct opening *opening)
{
    fg_assert(atomic_load(&opening->users) == 0);
    for (unsigned i = 0; i < rocks->n_families; i++)
        rocksdb_column_family_handle_destroy(opening->families[i]);
    rocksdb_close(opening->db);
    free(opening);
}

/* Returns a reference to the opening that readers use now. */
static struct opening *use(struct rocks *rocks)
{
    struct opening *opening;

    fg_rwlock_read(&rocks->lock);
    opening = rocks->current;
    atomic_fetch_add(&opening->users, 1);
    fg_rwlock_unlock(&rocks->lock);
    return opening;
}

static void let_go(struct opening *opening)
{
    atomic_fetch_sub(&opening->users, 1);
}

/* Readers that come now find `fresh`. */
static void replace(struct rocks *rocks, struct opening *fresh)
{
    struct opening *before = rocks->current;

    fg_rwlock_write(&rocks->lock); /* use() counts under it, so the count is final */
    rocks->current = fresh;
    fg_rwlock_unlock(&rocks->lock);
    before->next = rocks->replaced;
    rocks->replaced = before;
}

/* Closes replaced openings without readers. Returns false if a writable one still has readers. */
static bool reap(struct rocks *rocks)
{
    struct opening **link = &rocks->replaced;
    bool closed = true;

    while (*link != NULL) {
        struct opening *opening = *link;

        /* Nobody can begin to use an opening that was replaced, so 0 is final. */
        if (atomic_load(&opening->users) > 0) {
            closed &= opening->read_only;
            link = &opening->next;
            continue;
        }
        *link = opening->next;
        close_db(rocks, opening);
    }
    return closed;
}

/* ---- marks ---- */

/* Writes a mark. No write is under way, so all of the log is synced. */
static void note_mark(struct rocks *rocks)
{
    struct fg_err err;
    bool failed = fg_marker_note(rocks->marker, &err) != FG_OK;

    rocks->marked_mono_ns = fg_mono_ns(fg_clock_real());
    /* Logged once: on a full disk the attempt is made every second. */
    if (failed && !rocks->marking_failed)
        fg_log_warn("head store could not record its state, damage may go undetected",
                    fg_ls("err", err.msg));
    rocks->marking_failed = failed;
}

/* Checks the folder before RocksDB sees it, which would begin a new store or cut a log without a
 * word. Both may fail to read what they need. `acknowledged` tells which records at a torn end
 * nobody was told about. */
static enum fg_code open_checked(struct rocks *rocks, bool read_only, struct opening **ret_opening,
                                 struct fg_err *err)
{
    return fg_mark_check(rocks->dir, rocks->acknowledged, err) == FG_OK &&
                   open_db(rocks, read_only, ret_opening, err) == FG_OK
               ? FG_OK
               : fg_unread_judge(rocks->unread, err);
}

/* Writes the memtables to tables, so that the next start has no log to read, which takes
 * seconds. */
static void flush_db(struct rocks *rocks)
{
    rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();

    rocksdb_flushoptions_set_wait(options, 1);
    for (unsigned i = 0; i < rocks->n_families; i++) {
        char *errptr = NULL;

        rocksdb_flush_cf(rocks->current->db, options, rocks->current->families[i], &errptr);
        rocksdb_free(errptr); /* then it is in the log still */
    }
    rocksdb_flushoptions_destroy(options);
}

static void rocks_free(struct rocks *rocks)
{
    rocksdb_writebatch_destroy(rocks->batch);
    rocksdb_writeoptions_destroy(rocks->write_options);
    rocksdb_readoptions_destroy(rocks->read_options);
    rocksdb_options_destroy(rocks->options);
    rocksdb_cache_destroy(rocks->cache);
    fg_rwlock_done(&rocks->lock);
    for (unsigned i = 0; i < rocks->n_families; i++)
        free(rocks->names[i]);
    fg_marker_destroy(rocks->marker);
    free(rocks->dir);
    if (rocks->dir_fd >= 0)
        (void)close(rocks->dir_fd);
    free(rocks);
}

static void rocks_close(struct fg_store *store)
{
    struct rocks *rocks = rocks_of(store);

    /* Not after a failed write: a flush would end the log behind a torn record, and the next
     * start could not tell it from damage. */
    if (!rocks->current->read_only && !rocks->failing) {
        flush_db(rocks);
        note_mark(rocks);
    }
    close_db(rocks, rocks->current);
    (void)reap(rocks);
    fg_assert(rocks->replaced == NULL);
    rocks_free(rocks);
}

/* --- write --- */

static void fill(struct rocks *rocks, const struct fg_store_batch *batch)
{
    struct fg_cur cur = fg_cur(fg_buf_slice(&batch->ops));

    rocksdb_writebatch_clear(rocks->batch);
    while (fg_cur_more(&cur)) {
        struct fg_store_op op = fg_store_batch_read(&cur, rocks->n_families);
        rocksdb_column_family_handle_t *family = rocks->current->families[op.family];

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

static enum fg_code rocks_write(struct fg_store *store, struct fg_store_batch *batch,
                                struct fg_err *err)
{
    struct rocks *rocks = rocks_of(store);
    char *errptr = NULL;

    (void)reap(rocks);
    if (fg_store_batch_check(batch, err) != FG_OK)
        return err->code;
    if (batch->count == 0)
        return FG_OK;
    /* RocksDB may have recovered by itself from what failed. But then there is a torn record in a
     * log that was gone on from, and that is for the end of the last one only. */
    if (rocks->failing || rocks->current->read_only) {
        *err = rocks->why;
        return fg_wrap(err, "store is read-only");
    }
    fill(rocks, batch); /* each time: it holds the ids of the families of this opening */
    rocksdb_write(rocks->current->db, rocks->write_options, rocks->batch, &errptr);
    if (errptr != NULL) {
        rocks->failing = true;
        (void)fail_rocks(err, errptr, "write");
        (void)fg_unread_judge(rocks->unread, err); /* a merge reads */
        rocks->why = *err;
        return err->code;
    }
    /* Only after a write that succeeded: what is beyond this number may be cut off at the next
     * opening. */
    rocks->acknowledged = rocksdb_get_latest_sequence_number(rocks->current->db);
    if (fg_mono_ns(fg_clock_real()) - rocks->marked_mono_ns >= MARK_EVERY_MS * FG_MS_NS)
        note_mark(rocks);
    return FG_OK;
}

/*
 * Stops all changes of the folder, so that the second database finds all files that the MANIFEST
 * names: a flush that ends just now would delete a log between reading the one and the other.
 * Reads go on.
 */
static void make_quiet(struct opening *opening)
{
    char *errptr = NULL;

    if (opening->quiet)
        return;
    opening->quiet = true;
    rocksdb_disable_file_deletions(opening->db, &errptr);
    rocksdb_free(errptr); /* it has none of its own */
    rocksdb_cancel_all_background_work(opening->db, 1);
}

/*
 * A table that cannot be read stops all writes when RocksDB comes to merge it, and would again
 * after each opening. Without merging writes go on; they are not slowed down then for the number of
 * tables.
 */
static void stop_merging(struct rocks *rocks)
{
    if (atomic_exchange(&rocks->damaged, true))
        return;
    rocksdb_options_set_disable_auto_compactions(rocks->options, 1);
    fg_log_error("head store damaged, compaction disabled: it grows until it is replaced",
                 fg_ls("folder", rocks->dir), fg_ls("err", rocks->why.msg));
}

static enum fg_code rocks_heal(struct fg_store *store, struct fg_err *err)
{
    struct rocks *rocks = rocks_of(store);
    bool closed = reap(rocks);
    struct opening *fresh = NULL;

    if (!rocks->current->read_only && !rocks->failing)
        return FG_OK;
    if (rocks->why.code == FG_E_CORRUPT)
        stop_merging(rocks);
    if (!rocks->current->read_only) {
        make_quiet(rocks->current);
        if (open_checked(rocks, true, &fresh, err) != FG_OK)
            return fg_wrap(err, "reopening read-only");
        replace(rocks, fresh);
        closed = reap(rocks);
    }
    if (!closed)
        return fg_fail(err, FG_E_UNAVAILABLE,
                       "reopening waits for queries that still read the store");
    if (open_checked(rocks, false, &fresh, err) != FG_OK) {
        rocks->why = *err;
        return fg_wrap(err, "reopening");
    }
    fg_assert(fresh != NULL);
    replace(rocks, fresh);
    rocks->failing = false;
    rocks->acknowledged = rocksdb_get_latest_sequence_number(fresh->db);
    note_mark(rocks);
    (void)reap(rocks);
    return FG_OK;
}

/* --- read --- */

/* *ret_value is NULL when the key is not there; else the caller destroys it, and then lets go of
 * the opening. */
static enum fg_code get_pinned(const struct rocks *rocks, const struct opening *opening,
                               unsigned family, struct fg_slice key,
                               rocksdb_pinnableslice_t **ret_value, struct fg_err *err)
{
    rocksdb_pinnableslice_t *value;
    char *errptr = NULL;

    fg_assert(family < rocks->n_families);
    value = rocksdb_get_pinned_cf(opening->db, rocks->read_options, opening->families[family],
                                  chars(key), key.len, &errptr);
    if (errptr != NULL) {
        (void)fail_rocks(err, errptr, "read");
        return fg_unread_judge(rocks->unread, err);
    }
    *ret_value = value;
    return FG_OK;
}

static enum fg_code rocks_get(struct fg_store *store, unsigned family, struct fg_slice key,
                              struct fg_buf *out, bool *ret_found, struct fg_err *err)
{
    struct rocks *rocks = rocks_of(store);
    struct opening *opening = use(rocks);
    rocksdb_pinnableslice_t *value = NULL;
    enum fg_code code = get_pinned(rocks, opening, family, key, &value, err);

    if (value != NULL) {
        size_t len = 0;
        const char *bytes = rocksdb_pinnableslice_value(value, &len);

        fg_buf_append(out, bytes, len);
        rocksdb_pinnableslice_destroy(value);
    }
    let_go(opening);
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
    struct opening *opening = use(rocks);
    rocksdb_pinnableslice_t *value = NULL;
    enum fg_code code = get_pinned(rocks, opening, family, key, &value, err);

    if (value != NULL)
        rocksdb_pinnableslice_destroy(value);
    let_go(opening);
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
static void set_position(struct rocks_iter *it)
{
    size_t len = 0;
    const char *bytes;
    char *errptr = NULL;

    it->iter.valid = rocksdb_iter_valid(it->it) != 0;
    it->iter.err.code = FG_OK; /* without its text, which is larger than most values */
    if (it->iter.valid) {
        bytes = rocksdb_iter_key(it->it, &len);
        it->iter.key = fg_bytes(bytes, len);
        bytes = rocksdb_iter_value(it->it, &len);
        it->iter.value = fg_bytes(bytes, len);
        return;
    }
    rocksdb_iter_get_error(it->it, &errptr); /* the end, or an error? */
    if (errptr != NULL) {
        (void)fail_rocks(&it->iter.err, errptr, "iterate");
        (void)fg_unread_judge(it->rocks->unread, &it->iter.err);
    }
}

static void seek(struct rocks_iter *it, struct fg_slice key)
{
    static const char last[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";

    /* After a block that could not be read RocksDB 7.8 takes the block before that for it, and
     * gives its error again. Behind all keys it forgets both. */
    if (it->iter.err.code != FG_OK)
        rocksdb_iter_seek(it->it, last, sizeof last - 1);
    rocksdb_iter_seek(it->it, chars(key), key.len);
    set_position(it);
}

static void rocks_iter_seek(struct fg_store_iter *iter, struct fg_slice key)
{
    struct rocks_iter *it = iter_of(iter);

    if (fg_slice_cmp(key, it->from) < 0)
        key = it->from; /* RocksDB has the upper bound only */
    seek(it, key);
}

static void rocks_iter_next(struct fg_store_iter *iter)
{
    struct rocks_iter *it = iter_of(iter);

    fg_assert(iter->valid);
    fg_buf_clear(&it->before);
    fg_buf_put(&it->before, iter->key);
    rocksdb_iter_next(it->it);
    set_position(it);
    if (iter->err.code == FG_OK)
        return;
    /* If the damaged block was deleted (a range), only a seek does without it: a step reads the
     * block before it finds that nothing of it counts. Likewise if the disk does not give it, even
     * before that counts as damage. */
    fg_buf_putc(&it->before, 0);
    seek(it, fg_buf_slice(&it->before));
}

static void rocks_iter_destroy(struct fg_store_iter *iter)
{
    struct rocks_iter *it = iter_of(iter);

    rocksdb_iter_destroy(it->it);
    rocksdb_readoptions_destroy(it->read_options);
    let_go(it->opening);
    fg_buf_done(&it->before);
    free(it);
}

static struct rocks_iter *iter_alloc(struct fg_slice from, struct fg_slice to)
{
    static const struct fg_store_iter_ops ops = {
        .seek = rocks_iter_seek, .next = rocks_iter_next, .destroy = rocks_iter_destroy};
    struct rocks_iter *it = fg_calloc(1, sizeof *it + from.len + to.len);

    it->iter.ops = &ops;
    if (from.len > 0)
        memcpy(it->bytes, from.ptr, from.len);
    if (to.len > 0)
        memcpy(it->bytes + from.len, to.ptr, to.len);
    it->from = fg_bytes(it->bytes, from.len);
    it->to = fg_bytes(it->bytes + from.len, to.len);
    fg_buf_init(&it->before, SIZE_MAX);
    return it;
}

/* An iterator reads the database as it was when it was made: RocksDB takes the sequence number
 * then. */
static struct fg_store_iter *rocks_iter_create(struct fg_store *store, unsigned family,
                                               struct fg_slice from, struct fg_slice to)
{
    struct rocks *rocks = rocks_of(store);
    struct rocks_iter *it = iter_alloc(from, to);

    fg_assert(family < rocks->n_families);
    it->rocks = rocks;
    it->opening = use(rocks);
    it->read_options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_total_order_seek(it->read_options, 1);
    if (it->to.len > 0)
        rocksdb_readoptions_set_iterate_upper_bound(it->read_options, chars(it->to), it->to.len);
    it->it = rocksdb_create_iterator_cf(it->opening->db, it->read_options,
                                        it->opening->families[family]);
    rocks_iter_seek(&it->iter, it->from);
    return &it->iter;
}

/* --- sizes --- */

/* Sums a property over all families. */
static uint64_t sum_property(const struct rocks *rocks, const struct opening *opening,
                             const char *name)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < rocks->n_families; i++) {
        uint64_t value = 0;

        if (rocksdb_property_int_cf(opening->db, opening->families[i], name, &value) == 0)
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
    struct opening *opening = use(rocks);
    uint64_t bytes = sum_property(rocks, opening, "rocksdb.total-sst-files-size") +
                     sum_property(rocks, opening, "rocksdb.cur-size-all-mem-tables");

    let_go(opening);
    return bytes;
}

static uint64_t rocks_memory_bytes(struct fg_store *store)
{
    struct rocks *rocks = rocks_of(store);
    struct opening *opening = use(rocks);
    uint64_t bytes = rocksdb_cache_get_usage(rocks->cache) +
                     sum_property(rocks, opening, "rocksdb.size-all-mem-tables") +
                     sum_property(rocks, opening, "rocksdb.estimate-table-readers-mem");

    let_go(opening);
    return bytes;
}

/* --- create --- */

static struct rocks *rocks_alloc(const char *dir, const char *const *families, unsigned n_families,
                                 const struct fg_store_config *config)
{
    struct rocks *rocks = fg_new(struct rocks);

    rocks->dir = fg_strdup(dir);
    rocks->unread = config->unread;
    rocks->dir_fd = -1;
    rocks->n_families = n_families;
    rocks->filtered_family = config->filtered_family;
    for (unsigned i = 0; i < n_families; i++)
        rocks->names[i] = fg_strdup(families[i]);
    fg_rwlock_init(&rocks->lock);
    rocks->cache = rocksdb_cache_create_lru((size_t)config->cache_bytes);
    rocks->options = make_options(config, rocks->cache);
    rocks->marker = fg_marker_create(dir);
    rocks->read_options = rocksdb_readoptions_create();
    rocks->write_options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(rocks->write_options, config->sync);
    rocks->batch = rocksdb_writebatch_create();
    return rocks;
}

static bool rocks_is_damaged(struct fg_store *store)
{
    return atomic_load(&rocks_of(store)->damaged);
}

/* Two processes on one folder would each say that they have made something durable. A file system
 * without locks on folders leaves it to RocksDB's own, which those who only read do not take. */
static enum fg_code lock_dir(struct rocks *rocks, struct fg_err *err)
{
    if (mkdir(rocks->dir, DIR_MODE) != 0 && errno != EEXIST)
        return fg_fail_errno(err, errno, "%s", rocks->dir);
    rocks->dir_fd = open(rocks->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (rocks->dir_fd < 0) {
        bool is_of_disk = errno == EIO;

        (void)fg_fail_errno(err, errno, "%s", rocks->dir);
        return err->code = is_of_disk ? FG_E_UNAVAILABLE : err->code;
    }
    if (flock(rocks->dir_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return fg_fail(err, FG_E_PRECONDITION, "%s is in use by another process", rocks->dir);
    return FG_OK;
}

/* Opens the database for writing, or read-only if the disk takes no writes. */
static enum fg_code open_first(struct rocks *rocks, struct fg_err *err)
{
    struct fg_err later;

    if (open_checked(rocks, false, &rocks->current, err) == FG_OK)
        return FG_OK;
    if (!is_of_a_disk(err) || open_checked(rocks, true, &rocks->current, &later) != FG_OK)
        return err->code;
    rocks->why = *err;
    return FG_OK;
}

/* Reads the first family through, while an operator can still be asked what is to become of the
 * store. Closes the database if it cannot be read. */
static enum fg_code read_first_family(struct rocks *rocks, struct fg_err *err)
{
    struct fg_store_iter *iter =
        rocks_iter_create(&rocks->store, 0, fg_bytes(NULL, 0), fg_bytes(NULL, 0));
    enum fg_code code;

    while (iter->valid)
        fg_store_iter_next(iter);
    code = iter->err.code;
    if (code != FG_OK)
        *err = iter->err;
    fg_store_iter_destroy(iter);
    if (code == FG_OK)
        return FG_OK;
    close_db(rocks, fg_take(rocks->current));
    return fg_wrap(err, "%s", rocks->names[0]);
}

/* An operator decides what happens to a damaged store. The setting names one damage by its number,
 * so a setting that was left in place does not accept the next one. */
static enum fg_code accept_loss(struct rocks *rocks, const struct fg_store_config *config,
                                struct fg_err *err)
{
    uint32_t number = (uint32_t)fg_hash64(fg_cstr(err->msg));
    char text[16];

    (void)snprintf(text, sizeof text, "%08x", number);
    if (!fg_slice_is(fg_cstr(config->accept_loss), text)) {
        struct fg_err damage = *err;

        return fg_fail(err, FG_E_CORRUPT,
                       "%s; nothing was changed. Acknowledged profiles are lost. Restore the "
                       "directory, or set %s to %s to set it aside and start with an empty store",
                       damage.msg, config->accept_loss_setting, text);
    }
    fg_log_error("damaged head store set aside as accept_loss allows, creating an empty one",
                 fg_ls("folder", rocks->dir), fg_ls("err", err->msg));
    if (fg_aside_move(rocks->dir, err) != FG_OK)
        return err->code;
    fg_unread_forget(rocks->unread);
    return open_first(rocks, err);
}

/* Leaves spare families out if the store has none of them. RocksDB opens a store only with all of
 * its families. It creates those that are missing, which a disk that takes no writes would not let
 * it.
 */
static void leave_out_spare(struct rocks *rocks, unsigned n_spare)
{
    char *errptr = NULL, **found;
    size_t n_found = 0;
    bool has = false;

    fg_assert(n_spare < rocks->n_families);
    if (n_spare == 0)
        return;
    /* An error says that there is no store yet, or that it is damaged, which the opening will tell.
     */
    found = rocksdb_list_column_families(rocks->options, rocks->dir, &n_found, &errptr);
    rocksdb_free(errptr);
    for (size_t i = 0; i < n_found; i++)
        for (unsigned k = rocks->n_families - n_spare; k < rocks->n_families; k++)
            has |= strcmp(found[i], rocks->names[k]) == 0;
    if (found != NULL)
        rocksdb_list_column_families_destroy(found, n_found);
    for (; !has && n_spare > 0; n_spare--)
        free(rocks->names[--rocks->n_families]);
}

static enum fg_code open_dir(struct rocks *rocks, const struct fg_store_config *config,
                             struct fg_err *err)
{
    if (lock_dir(rocks, err) != FG_OK || fg_aside_finish(rocks->dir, err) != FG_OK)
        return err->code;
    leave_out_spare(rocks, config->spare_families);
    if (open_first(rocks, err) == FG_OK && read_first_family(rocks, err) == FG_OK)
        return FG_OK;
    return err->code == FG_E_CORRUPT && config->accept_loss != NULL
               ? accept_loss(rocks, config, err)
               : err->code;
}

enum fg_code fg_store_open(const char *dir, const char *const *families, unsigned n_families,
                           const struct fg_store_config *config, struct fg_store **ret_store,
                           struct fg_err *err)
{
    static const struct fg_store_ops ops = {
        rocks_write,      rocks_heal,         rocks_get,   rocks_contains,   rocks_iter_create,
        rocks_disk_bytes, rocks_memory_bytes, rocks_close, rocks_is_damaged,
    };
    struct rocks *rocks;

    fg_assert(n_families > 0 && n_families <= FG_STORE_FAMILIES_MAX);
    fg_assert(strcmp(families[0], "default") == 0);
    if (start_threads(err) != FG_OK)
        return fg_wrap(err, "store");
    rocks = rocks_alloc(dir, families, n_families, config);
    rocks->store.ops = &ops;
    if (open_dir(rocks, config, err) != FG_OK) {
        rocks_free(rocks);
        return fg_wrap(err, "store");
    }
    rocks->acknowledged = rocksdb_get_latest_sequence_number(rocks->current->db);
    if (!rocks->current->read_only)
        note_mark(rocks);
    *ret_store = &rocks->store;
    return FG_OK;
}
