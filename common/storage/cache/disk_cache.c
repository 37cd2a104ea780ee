/*
 * The index is a hash table in memory. An entry has the hash of its key, its file and its offset
 * there. A read compares the key in the file, so two keys with the same hash do no harm; only one
 * of them is kept.
 *
 * Files are ordered by age, and the last one is written to. To evict a file, the ticker takes it
 * out of the list, copies its used entries to the newest file, and removes it. Reads under way keep
 * it open.
 *
 * One lock protects the index, references to files and the queue. Files are read without it. Only
 * the ticker uses the list of files and writes.
 */
#include "common/storage/cache/disk_cache.h"

#include "common/base/crc32c.h"
#include "common/base/time.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    PATH_MAX_BYTES = 4096,         /* PATH_MAX of Linux */
    NAME_MAX_BYTES = 64,           /* of a file in the folder */
    FILES_WANTED = 64,             /* what goes at a time is a 64th of all */
    ENTRY_LEAST_BYTES = 16 * 1024, /* on average, so that the index has an end */
    ENTRIES_MIN = 1024,
    ENTRIES_MAX = 1024 * 1024,          /* bounds the memory of the index */
    QUEUE_MAX_BYTES = 32 * 1024 * 1024, /* as much as one question has under way */
    NONE = 0,                           /* no entry; entries[0] is not used */
};

/* Pause of writes after the disk was full or failed. */
static const int64_t REST_NS = 10 * FG_SECOND_NS;

/* Period of the check whether the disk is low on space. */
static const int64_t LOOK_NS = FG_SECOND_NS;

#define DISK_METRICS(M)                                                                            \
    M(COUNTER, DISK_HITS, "flamegrid_disk_cache_hits_total",                                       \
      "Lookups that the disk cache answered")                                                      \
    M(COUNTER, DISK_MISSES, "flamegrid_disk_cache_misses_total",                                   \
      "Lookups that missed the disk cache")                                                        \
    M(COUNTER, DISK_EVICTED, "flamegrid_disk_cache_evicted_total",                                 \
      "Objects evicted from the disk cache to make room")                                          \
    M(COUNTER, DISK_GIVEN_UP, "flamegrid_disk_cache_given_up_bytes_total",                         \
      "Bytes evicted from the disk cache because the disk was low on space")                       \
    M(COUNTER, DISK_KEPT, "flamegrid_disk_cache_kept_total",                                       \
      "Recently used objects rewritten when their file was evicted")                               \
    M(COUNTER, DISK_DROPPED, "flamegrid_disk_cache_dropped_total",                                 \
      "Objects not written because the disk was slow, full or faulty")                             \
    M(COUNTER, DISK_FAULTS, "flamegrid_disk_cache_faults_total",                                   \
      "Corrupt reads and failed writes of the disk cache")                                         \
    M(GAUGE, DISK_BYTES, "flamegrid_disk_cache_bytes", "Size of the files of the disk cache")      \
    M(GAUGE, DISK_ENTRIES, "flamegrid_disk_cache_entries", "Objects in the disk cache")            \
    M(GAUGE, DISK_QUEUED, "flamegrid_disk_cache_queued_bytes",                                     \
      "Bytes queued for writing to the disk cache")
FG_METRICS_ENUM(disk_metric, DISK_METRICS)
FG_METRICS_TABLE(disk_metrics, DISK_METRICS)

struct disk_cache_entry {
    uint64_t hash;
    uint64_t at; /* in the file */
    struct fg_disk_file *file;
    uint64_t len;
    uint32_t chain;   /* next of the same bucket */
    uint32_t in_file; /* next of the same file, or of those that are free */
    bool used;        /* since it was written */
    bool found;       /* in a bucket */
};

/* A queued write. */
struct wish {
    struct fg_disk_key key;
    struct wish *next;
    uint8_t bytes[];
};

struct fg_disk_cache {
    char path[PATH_MAX_BYTES];
    int lock_fd; /* of the folder: one process at a time */
    uint64_t wanted_bytes, free_min_bytes;
    const struct fg_disk *disk; /* NULL: it is not watched */
    struct fg_metrics *metrics;
    struct fg_ticker *ticker;

    /* Only the ticker uses these. */
    struct fg_disk_file *files[DISK_FILES_MAX + 1]; /* oldest first; one more during an eviction */
    unsigned n_files;
    uint64_t max_bytes; /* wanted_bytes, or what the disk has room for; only grows */
    uint64_t number;    /* of the last file that was created or tried */
    bool resting;
    int64_t rest_mono_ns; /* until then nothing is written */

    pthread_mutex_t lock; /* of all below, of entries and of references to files */
    pthread_cond_t changed;
    uint64_t file_max_bytes; /* only the ticker changes it, which reads it without the lock */
    struct disk_cache_entry *entries;
    uint32_t n_entries, entries_max, free; /* entries[n_entries] was never used */
    uint32_t *buckets, mask;
    uint64_t n_found; /* entries in buckets */
    uint64_t bytes;   /* of the files */
    struct wish *first, *last;
    uint64_t queue_bytes; /* of what is asked for and not written */
    bool scanned, stopping;
};

static void lock(struct fg_disk_cache *cache)
{
    (void)pthread_mutex_lock(&cache->lock);
}

static void unlock(struct fg_disk_cache *cache)
{
    (void)pthread_mutex_unlock(&cache->lock);
}

static void count(struct fg_disk_cache *cache, unsigned metric)
{
    fg_metric_add(cache->metrics, metric, 1);
}

/* ---- the index (locked) ---- */

/* Only object.lo: ids are hashes themselves, so half of one is as good as all of it. */
static uint64_t hash_of(const struct fg_disk_key *key)
{
    return fg_mix64(fg_mix64(key->object.lo ^ fg_mix64(key->offset)) + key->len);
}

static uint32_t find(const struct fg_disk_cache *cache, uint64_t hash)
{
    uint32_t number = cache->buckets[hash & cache->mask];

    /* Hashes are compared and not keys, which are in the file; fg_disk_file_read() compares
     * them. */
    while (number != NONE && cache->entries[number].hash != hash)
        number = cache->entries[number].chain;
    return number;
}

/* Removes an entry from the table. It stays in the list of its file until that is evicted. */
static void hide(struct fg_disk_cache *cache, uint32_t number)
{
    struct disk_cache_entry *entry = &cache->entries[number];
    uint32_t *link = &cache->buckets[entry->hash & cache->mask];

    if (!entry->found)
        return;
    while (*link != number)
        link = &cache->entries[*link].chain;
    *link = entry->chain;
    entry->found = false;
    fg_assert(cache->n_found > 0);
    cache->n_found--;
}

static bool has_room(const struct fg_disk_cache *cache)
{
    return cache->free != NONE || cache->n_entries < cache->entries_max;
}

static void place(struct fg_disk_cache *cache, uint32_t number, struct fg_disk_file *file,
                  uint64_t at)
{
    struct disk_cache_entry *entry = &cache->entries[number];

    entry->file = file;
    entry->at = at;
    entry->used = false;
    entry->in_file = file->first;
    file->first = number;
}

/* There is room. */
static void add_entry(struct fg_disk_cache *cache, struct fg_disk_file *file, uint64_t at,
                      const struct fg_disk_key *key)
{
    uint32_t number = cache->free;
    struct disk_cache_entry *entry;

    if (number == NONE)
        number = cache->n_entries++;
    else
        cache->free = cache->entries[number].in_file;
    entry = &cache->entries[number];
    *entry = (struct disk_cache_entry){.hash = hash_of(key), .len = key->len, .found = true};
    entry->chain = cache->buckets[entry->hash & cache->mask];
    cache->buckets[entry->hash & cache->mask] = number;
    cache->n_found++;
    place(cache, number, file, at);
}

/* ---- eviction (ticker) ---- */

static uint64_t bytes_of_files(const struct fg_disk_cache *cache)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < cache->n_files; i++)
        bytes += cache->files[i]->bytes;
    return bytes;
}

/* The ticker changes `bytes` of files without the lock; all others read only this copy. */
static void publish(struct fg_disk_cache *cache)
{
    lock(cache);
    cache->bytes = bytes_of_files(cache);
    unlock(cache);
}

static void release(struct fg_disk_cache *cache, struct fg_disk_file *file)
{
    bool last;

    lock(cache);
    fg_assert(file->refs > 0);
    last = --file->refs == 0;
    unlock(cache);
    if (last)
        fg_disk_file_close(file);
}

static struct fg_disk_file *newest(const struct fg_disk_cache *cache)
{
    return cache->n_files == 0 ? NULL : cache->files[cache->n_files - 1];
}

/* Evicts an entry of the file `from`, or copies it to the newest file if it was used. Its key is
 * only in the file: in memory it would take half of the entry. */
static void retire_entry(struct fg_disk_cache *cache, const struct fg_disk_file *from,
                         uint32_t number, bool keep, struct fg_buf *content)
{
    struct disk_cache_entry *entry = &cache->entries[number];
    struct fg_disk_file *to = newest(cache);
    uint64_t at = to == NULL ? 0 : to->bytes;
    struct fg_disk_entry head;
    bool copied;

    /* Readers change only `used` and `found` of an entry; its file and its place are the
     * ticker's, which may read them without the lock. */
    fg_assert(entry->file == from && to != from);
    lock(cache);
    /* Copies fill at most half of the newest file, so that new entries have room. */
    copied = keep && entry->found && entry->used && to != NULL &&
             at + DISK_ENTRY_BYTES + entry->len <= cache->file_max_bytes / 2;
    unlock(cache);
    /* Without the lock, as it reads and writes the disk: only the ticker moves entries. */
    copied = copied && fg_disk_file_next(from, &(uint64_t){entry->at}, &head) &&
             fg_disk_file_read(from, entry->at, &head.key, content) &&
             fg_disk_file_append(to, &head, fg_buf_slice(content));
    lock(cache);
    if (copied && entry->found) { /* it may have been dropped meanwhile */
        place(cache, number, to, at);
        count(cache, DISK_KEPT);
    } else {
        /* A hidden entry was dropped before, and is not counted again. */
        if (entry->found)
            count(cache, DISK_EVICTED);
        hide(cache, number);
        entry->in_file = cache->free;
        cache->free = number;
    }
    unlock(cache);
}

/* Deletes the oldest file. keep: first copies the entries that were used since they were written to
 * the newest file, until that is full. */
static void retire_oldest(struct fg_disk_cache *cache, bool keep)
{
    struct fg_disk_file *oldest = cache->files[0];
    struct fg_buf content;
    uint32_t next;

    fg_assert(cache->n_files > 0);
    fg_buf_init(&content, SIZE_MAX);
    /* First out of the list, then copies: newest() must not be the file that is evicted. */
    cache->n_files--;
    memmove(cache->files, cache->files + 1, cache->n_files * sizeof(struct fg_disk_file *));
    for (uint32_t number = oldest->first; number != NONE; number = next) {
        next = cache->entries[number].in_file;
        retire_entry(cache, oldest, number, keep, &content);
    }
    fg_buf_done(&content);
    /* The name goes now; the bytes stay until the last read under way has released the file. */
    fg_disk_file_remove(cache->path, oldest);
    release(cache, oldest);
    publish(cache);
}

/* ---- how much room there is (ticker) ---- */

static uint64_t free_bytes(const struct fg_disk_cache *cache)
{
    struct statvfs disk;

    /* f_bavail: what root alone may use is not room for us. A failure counts as a full disk. */
    return statvfs(cache->path, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : 0;
}

static void set_max(struct fg_disk_cache *cache, uint64_t max_bytes)
{
    cache->max_bytes = FG_MIN(max_bytes, cache->wanted_bytes);
    lock(cache);
    cache->file_max_bytes = cache->max_bytes / FILES_WANTED;
    unlock(cache);
}

/* Lets a cache that began on a disk with little free space grow when there is more. */
static void look_for_room(struct fg_disk_cache *cache)
{
    uint64_t room;

    if (cache->max_bytes == cache->wanted_bytes)
        return;
    /* Half of what others leave. Half of what is free, on top of our files, would be more each
     * time. */
    room = FG_MIN((bytes_of_files(cache) + free_bytes(cache)) / 2, cache->wanted_bytes);
    /* In steps, because each is a line of the log. */
    if (room < cache->wanted_bytes && room <= cache->max_bytes + cache->max_bytes / 8)
        return;
    fg_log_info("disk cache may grow, more of the disk is free", fg_ls("folder", cache->path),
                fg_lu("from_bytes", cache->max_bytes), fg_lu("max_bytes", room));
    set_max(cache, room);
}

/* ---- a new file (ticker) ---- */

/* Returns whether there is room for one more file and for the copies of an evicted one. */
static bool fits(struct fg_disk_cache *cache)
{
    bool room;

    lock(cache);
    room = has_room(cache);
    unlock(cache);
    return room && cache->n_files <= DISK_FILES_MAX &&
           bytes_of_files(cache) + 2 * cache->file_max_bytes <= cache->max_bytes &&
           free_bytes(cache) >= cache->free_min_bytes + cache->file_max_bytes;
}

/* Creates an empty file and evicts others until it fits. Returns false if the disk does not allow
 * it. */
static bool begin_file(struct fg_disk_cache *cache)
{
    /* The new file is created before others are evicted: their used entries are copied to it. */
    struct fg_disk_file *file = fg_disk_file_create(cache->path, ++cache->number);

    if (file == NULL)
        return false;
    fg_assert(cache->n_files <= DISK_FILES_MAX);
    file->refs = 1;
    cache->files[cache->n_files++] = file;
    while (!fits(cache)) {
        bool last = cache->n_files == 1;

        retire_oldest(cache, true); /* evicts the new one itself if nothing else helps */
        if (last)
            return false;
    }
    return true;
}

/* ---- writing (ticker) ---- */

static void pause_writes(struct fg_disk_cache *cache)
{
    count(cache, DISK_FAULTS);
    if (!cache->resting)
        fg_log_warn("disk cache write failed, cache writes disabled for 10 s",
                    fg_ls("folder", cache->path));
    cache->resting = true;
    cache->rest_mono_ns = fg_mono_ns(fg_clock_real()) + REST_NS;
}

static bool write_entry(struct fg_disk_cache *cache, const struct fg_disk_key *key,
                        struct fg_slice content)
{
    const struct fg_disk_entry entry = {*key, fg_crc32c(content)};
    uint64_t at;
    bool room;

    if (cache->resting && fg_mono_ns(fg_clock_real()) < cache->rest_mono_ns)
        return false;
    if (fg_disk_state(cache->disk) != FG_DISK_OK)
        return false;
    lock(cache);
    room = has_room(cache);
    unlock(cache);
    /* An index that is full needs a new file as well: making one evicts entries. */
    if ((newest(cache) == NULL || !room ||
         newest(cache)->bytes + DISK_ENTRY_BYTES + content.len > cache->file_max_bytes) &&
        !begin_file(cache)) {
        pause_writes(cache);
        return false;
    }
    at = newest(cache)->bytes;
    if (!fg_disk_file_append(newest(cache), &entry, content)) {
        pause_writes(cache);
        return false;
    }
    /* Added to the index only now: a reader that finds an entry finds all of its bytes. */
    cache->resting = false;
    lock(cache);
    add_entry(cache, newest(cache), at, key);
    cache->bytes += DISK_ENTRY_BYTES + content.len;
    unlock(cache);
    return true;
}

/* ---- the ticker ---- */

/* The latest write of a key counts. Files are scanned from the newest to the oldest and each
 * from its start, so an entry of the same file is replaced and one of another file is kept. */
static bool add_scanned(struct fg_disk_cache *cache, struct fg_disk_file *file, uint64_t at,
                        const struct fg_disk_key *key)
{
    uint32_t number;
    bool more;

    lock(cache);
    more = !cache->stopping && has_room(cache);
    number = find(cache, hash_of(key));
    if (more && (number == NONE || cache->entries[number].file == file)) {
        if (number != NONE)
            hide(cache, number);
        add_entry(cache, file, at, key);
    }
    unlock(cache);
    return more;
}

/* Scans a file. *ret_end: end of its last entry. Returns false if the index is full or the cache
 * closes. */
static bool scan_file(struct fg_disk_cache *cache, struct fg_disk_file *file, uint64_t *ret_end)
{
    struct fg_disk_entry entry;
    uint64_t at = 0;

    for (;;) {
        *ret_end = at;
        if (!fg_disk_file_next(file, &at, &entry))
            return true;
        if (!add_scanned(cache, file, *ret_end, &entry.key))
            return false;
    }
}

/* Scans all files, the newest first, since its entries are the most likely to be used. Truncates
 * what a crash left at its end. */
static void scan(struct fg_disk_cache *cache)
{
    uint64_t end;

    /* The limit may be lower than in the last run. The index is empty yet, so nothing is copied. */
    while (cache->n_files > 0 &&
           bytes_of_files(cache) + 2 * cache->file_max_bytes > cache->max_bytes)
        retire_oldest(cache, true);
    for (unsigned i = cache->n_files; i > 0; i--) {
        if (!scan_file(cache, cache->files[i - 1], &end))
            break;
        if (i == cache->n_files)
            /* Only the newest file is written to, so only its end can be torn or is appended to. */
            fg_disk_file_cut(cache->files[i - 1], end);
    }
    publish(cache);
    lock(cache);
    cache->scanned = true;
    (void)pthread_cond_broadcast(&cache->changed);
    unlock(cache);
}

/* Gives up space if the disk is low on it. Copies nothing, as that would take space again. */
static void give_way(struct fg_disk_cache *cache)
{
    while (cache->n_files > 0 && fg_disk_lacks(cache->disk) > 0) {
        fg_metric_add(cache->metrics, DISK_GIVEN_UP, cache->files[0]->bytes);
        retire_oldest(cache, false);
    }
}

static struct wish *take_wish(struct fg_disk_cache *cache)
{
    struct wish *wish;

    lock(cache);
    /* Stays in queue_bytes until it was written: that bounds the memory, not the list. */
    wish = cache->first;
    if (wish != NULL)
        cache->first = wish->next;
    if (cache->first == NULL)
        cache->last = NULL;
    unlock(cache);
    return wish;
}

static void end_wish(struct fg_disk_cache *cache, struct wish *wish)
{
    lock(cache);
    fg_assert(cache->queue_bytes >= DISK_ENTRY_BYTES + wish->key.len);
    cache->queue_bytes -= DISK_ENTRY_BYTES + wish->key.len;
    (void)pthread_cond_broadcast(&cache->changed);
    unlock(cache);
    free(wish);
}

static void write_queued(struct fg_disk_cache *cache)
{
    struct wish *wish;

    while ((wish = take_wish(cache)) != NULL) {
        bool there;

        lock(cache);
        there = find(cache, hash_of(&wish->key)) != NONE;
        unlock(cache);
        if (!there && !write_entry(cache, &wish->key, fg_bytes(wish->bytes, (size_t)wish->key.len)))
            count(cache, DISK_DROPPED);
        end_wish(cache, wish);
        give_way(cache); /* a long queue must not keep the disk full */
    }
}

/* Runs once a second, and as soon as something is queued. The first call scans. */
static void tick(void *arg)
{
    struct fg_disk_cache *cache = arg;

    if (!cache->scanned) /* only this thread sets it */
        scan(cache);
    give_way(cache);
    look_for_room(cache);
    write_queued(cache);
}

/* ---- open and close ---- */

static void on_scrape(void *arg)
{
    struct fg_disk_cache *cache = arg;
    struct fg_disk_cache_stats stats = fg_disk_cache_stats(cache);

    fg_metric_set(cache->metrics, DISK_BYTES, (int64_t)stats.bytes);
    fg_metric_set(cache->metrics, DISK_ENTRIES, (int64_t)stats.entries);
    fg_metric_set(cache->metrics, DISK_QUEUED, (int64_t)stats.queued_bytes);
}

static enum fg_code lock_folder(struct fg_disk_cache *cache, struct fg_err *err)
{
    char path[PATH_MAX_BYTES + sizeof "/LOCK"];

    if (mkdir(cache->path, 0750) != 0 && errno != EEXIST)
        return fg_fail_errno(err, errno, "disk cache %s", cache->path);
    (void)snprintf(path, sizeof path, "%s/LOCK", cache->path);
    cache->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (cache->lock_fd < 0)
        return fg_fail_errno(err, errno, "disk cache %s", path);
    if (flock(cache->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return fg_fail(err, FG_E_UNAVAILABLE, "disk cache %s is in use by another process",
                       cache->path);
    return FG_OK;
}

/* Allocates the index for wanted_bytes, which the cache may reach later. The system gives it memory
 * only as it is used. */
static void make_index(struct fg_disk_cache *cache)
{
    uint64_t least = cache->wanted_bytes / ENTRY_LEAST_BYTES;
    uint32_t buckets = 1;

    cache->entries_max = (uint32_t)FG_MIN(FG_MAX(least, ENTRIES_MIN), ENTRIES_MAX);
    while (buckets < cache->entries_max)
        buckets *= 2;
    cache->mask = buckets - 1;
    cache->buckets = fg_calloc(buckets, sizeof *cache->buckets);
    cache->entries = fg_calloc(cache->entries_max, sizeof *cache->entries);
    cache->n_entries = 1; /* 0 is NONE */
}

static enum fg_code open_files(struct fg_disk_cache *cache,
                               const struct fg_disk_cache_config *config, struct fg_err *err)
{
    if (strlen(config->path) + NAME_MAX_BYTES >= sizeof cache->path)
        return fg_fail(err, FG_E_INVALID, "disk cache: the path is too long");
    (void)snprintf(cache->path, sizeof cache->path, "%s", config->path);
    if (lock_folder(cache, err) != FG_OK ||
        fg_disk_files_open(cache->path, cache->files, &cache->n_files, err) != FG_OK)
        return err->code;
    for (unsigned i = 0; i < cache->n_files; i++)
        cache->files[i]->refs = 1;
    cache->number = newest(cache) == NULL ? 0 : newest(cache)->number;

    /* Limits the size to half of the free space, as other programs use the disk as well. */
    uint64_t half_free = free_bytes(cache) / 2;

    cache->free_min_bytes = config->free_min_bytes;
    cache->disk = config->disk;
    /* Bytes of the files of the last run are not free, but they are ours. */
    cache->wanted_bytes = config->max_bytes;
    set_max(cache, bytes_of_files(cache) + half_free);
    cache->bytes = bytes_of_files(cache);
    if (cache->max_bytes < cache->wanted_bytes)
        fg_log_warn("disk cache limited, little of the disk is free", fg_ls("folder", cache->path),
                    fg_lu("max_bytes", cache->max_bytes),
                    fg_lu("wanted_bytes", cache->wanted_bytes));
    return FG_OK;
}

static void destroy(struct fg_disk_cache *cache)
{
    for (unsigned i = 0; i < cache->n_files; i++)
        fg_disk_file_close(cache->files[i]);
    if (cache->lock_fd >= 0)
        (void)close(cache->lock_fd);
    free(cache->entries);
    free(cache->buckets);
    (void)pthread_cond_destroy(&cache->changed);
    (void)pthread_mutex_destroy(&cache->lock);
    free(cache);
}

enum fg_code fg_disk_cache_open(const struct fg_disk_cache_config *config,
                                struct fg_disk_cache **ret_cache, struct fg_err *err)
{
    struct fg_disk_cache *cache;

    if (config->max_bytes < FG_DISK_CACHE_MIN_BYTES)
        return fg_fail(err, FG_E_INVALID, "disk cache: %llu bytes are too few; the minimum is %d",
                       (unsigned long long)config->max_bytes, FG_DISK_CACHE_MIN_BYTES);
    cache = fg_new(struct fg_disk_cache);
    cache->lock_fd = -1;
    (void)pthread_mutex_init(&cache->lock, NULL);
    (void)pthread_cond_init(&cache->changed, NULL);
    if (open_files(cache, config, err) != FG_OK) {
        destroy(cache);
        return err->code;
    }
    make_index(cache);
    cache->metrics = fg_metrics_register(config->registry, disk_metrics, FG_COUNT(disk_metrics));
    if (fg_ticker_create(&(struct fg_ticker_config){"disk-cache", LOOK_NS, tick, cache},
                         &cache->ticker, err) != FG_OK) {
        destroy(cache);
        return err->code;
    }
    fg_ticker_wake(cache->ticker); /* the scan starts now */
    fg_registry_on_scrape(config->registry, on_scrape, cache);
    *ret_cache = cache;
    return FG_OK;
}

void fg_disk_cache_close(struct fg_disk_cache *cache)
{
    if (cache == NULL)
        return;
    lock(cache);
    cache->stopping = true;
    unlock(cache);
    /* Outside the lock: the ticker may be in a tick that takes it. */
    fg_ticker_destroy(cache->ticker);
    write_queued(cache); /* what was put after the last tick; the thread is gone */
    destroy(cache);
}

/* ---- use (any thread) ---- */

/* Returns the file of a key with a reference, or NULL. */
static struct fg_disk_file *look_up(struct fg_disk_cache *cache, const struct fg_disk_key *key,
                                    uint64_t *ret_at)
{
    struct fg_disk_file *file = NULL;
    uint32_t number;

    lock(cache);
    number = find(cache, hash_of(key));
    if (number != NONE) {
        cache->entries[number].used = true;
        *ret_at = cache->entries[number].at;
        file = cache->entries[number].file;
        /* Taken with the lock held, so the ticker cannot close the file between this and the
         * read. */
        file->refs++;
    }
    unlock(cache);
    return file;
}

bool fg_disk_cache_get(struct fg_disk_cache *cache, const struct fg_disk_key *key,
                       struct fg_buf *into)
{
    uint64_t at;
    struct fg_disk_file *file = look_up(cache, key, &at);
    bool good = file != NULL && fg_disk_file_read(file, at, key, into);

    count(cache, good ? DISK_HITS : DISK_MISSES);
    if (file != NULL)
        release(cache, file);
    /* Damaged, or another key with the same hash. If it was the latter, the other key loses its
     * entry, which is a miss later and nothing worse. */
    if (file != NULL && !good)
        fg_disk_cache_drop(cache, key);
    return good;
}

void fg_disk_cache_drop(struct fg_disk_cache *cache, const struct fg_disk_key *key)
{
    uint32_t number;

    count(cache, DISK_FAULTS);
    lock(cache);
    number = find(cache, hash_of(key));
    if (number != NONE)
        hide(cache, number);
    unlock(cache);
}

/* Reserves room in the queue. */
static bool reserve(struct fg_disk_cache *cache, uint64_t len)
{
    uint64_t bytes = DISK_ENTRY_BYTES + len;
    bool room;

    lock(cache);
    /* A full queue drops the write: the disk is slower than what is read, and queries must not
     * wait for it. */
    room = !cache->stopping && bytes <= QUEUE_MAX_BYTES - cache->queue_bytes &&
           bytes <= cache->file_max_bytes;
    if (room)
        cache->queue_bytes += bytes;
    unlock(cache);
    return room;
}

void fg_disk_cache_put(struct fg_disk_cache *cache, const struct fg_disk_key *key,
                       struct fg_slice bytes)
{
    struct wish *wish;

    fg_assert(bytes.len == key->len);
    if (!reserve(cache, key->len)) {
        count(cache, DISK_DROPPED);
        return;
    }
    /* The copy is made between two short sections, without the lock: it may be megabytes. */
    wish = fg_malloc(sizeof *wish + bytes.len);
    wish->key = *key;
    wish->next = NULL;
    if (bytes.len > 0)
        memcpy(wish->bytes, bytes.ptr, bytes.len);
    lock(cache);
    if (cache->last != NULL)
        cache->last->next = wish;
    else
        cache->first = wish;
    cache->last = wish;
    unlock(cache);
    fg_ticker_wake(cache->ticker);
}

void fg_disk_cache_settle(struct fg_disk_cache *cache)
{
    lock(cache);
    while (!cache->scanned || cache->queue_bytes > 0)
        (void)pthread_cond_wait(&cache->changed, &cache->lock);
    unlock(cache);
}

struct fg_disk_cache_stats fg_disk_cache_stats(struct fg_disk_cache *cache)
{
    struct fg_disk_cache_stats stats;

    lock(cache);
    stats = (struct fg_disk_cache_stats){
        .bytes = cache->bytes, .entries = cache->n_found, .queued_bytes = cache->queue_bytes};
    unlock(cache);
    stats.hits = fg_metric_get(cache->metrics, DISK_HITS);
    stats.misses = fg_metric_get(cache->metrics, DISK_MISSES);
    stats.evicted = fg_metric_get(cache->metrics, DISK_EVICTED);
    stats.kept = fg_metric_get(cache->metrics, DISK_KEPT);
    stats.dropped = fg_metric_get(cache->metrics, DISK_DROPPED);
    stats.faults = fg_metric_get(cache->metrics, DISK_FAULTS);
    return stats;
}
