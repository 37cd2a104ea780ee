/*
 * A cache of immutable data that was read from objects: parsed directories, indexes and trees, and
 * pages. All queries share it. Its size in bytes is bounded.
 *
 * Entries belong to owners, such as tenants, so that one cannot evict all that the others use: the
 * cache evicts the least recently used entry of the owner that has the most bytes. So an owner that
 * has less than its share loses nothing to the others, and one that is alone uses all of it.
 * Entries that were not used for FG_CACHE_STALE_NS go first, whoever owns them. An entry belongs to
 * the owner that made it, even if others use it as well. Owners are told apart by FG_CACHE_OWNERS
 * numbers, however many there are; those whose ids give the same one count as one.
 *
 * Referenced entries are not freed. They may exceed the bound, and are freed then with their last
 * reference. The first caller that opens an entry makes it; other callers wait for that instead of
 * reading the object again:
 *
 *               open                fill
 *   (nothing) --------> LOADING ------------> READY
 *                          |  fail
 *                          +----------------> FAILED   (removed; callers that waited open it again)
 *
 * Thread: any. Start to make all entries of your own before you wait for others, or two threads may
 * wait for each other.
 */
#ifndef FG_COMMON_STORAGE_CACHE_CACHE_H
#define FG_COMMON_STORAGE_CACHE_CACHE_H

#include "common/base/hash.h"
#include "common/base/time.h"

enum { FG_CACHE_OWNERS = 1024 };              /* a power of two: a tree is over them */
#define FG_CACHE_STALE_NS (10 * FG_MINUTE_NS) /* a page that is open refreshes more often */

struct fg_cache;

/* Identifies an entry: some data of an object or of a part of it. */
struct fg_cache_key {
    struct fg_id object; /* hash of its name */
    uint32_t what;       /* kind of data, chosen by the caller */
    uint32_t part, number;
};

enum fg_cache_state { FG_CACHE_LOADING, FG_CACHE_READY, FG_CACHE_FAILED };

/* A reference to an entry, which has a value once it is READY. */
struct fg_cache_entry;

/* Creates an empty cache. max_bytes 0: keeps referenced entries only. The clock is borrowed. Never
 * fails. */
struct fg_cache *fg_cache_create(uint64_t max_bytes, struct fg_clock *clock);
/* Frees the cache, of which no entry is referenced. Accepts NULL. */
void fg_cache_destroy(struct fg_cache *cache);

/*
 * Finds or adds an entry and returns a reference. *ret_state READY: it has a value. LOADING: a
 * caller makes it. If *ret_mine is set, that is this caller, which has to call fill() or fail().
 * owner: any number; of an entry that is added.
 */
struct fg_cache_entry *fg_cache_open(struct fg_cache *cache, const struct fg_cache_key *key,
                                     uint64_t owner, enum fg_cache_state *ret_state,
                                     bool *ret_mine);

/* Gives the value of an entry to the cache. destroy() is called without a lock, on any thread. */
void fg_cache_fill(struct fg_cache_entry *entry, void *value, size_t bytes,
                   void (*destroy)(void *value));
/* Lets the other entries of the owner of a READY entry be evicted before it, as long as its spared
 * ones have at most half of its bytes: for what is small and was made of much. */
void fg_cache_spare(struct fg_cache_entry *entry);
/* Ends the loading of an entry that could not be made. */
void fg_cache_fail(struct fg_cache_entry *entry);

/* Waits until the entry is not LOADING, or until the timeout. Returns its state. */
enum fg_cache_state fg_cache_wait(struct fg_cache_entry *entry, int64_t timeout_ns);

/* Removes the READY entry of the key, so that the next fg_cache_open() makes it again. References
 * to the old entry stay valid. */
void fg_cache_drop(struct fg_cache *cache, const struct fg_cache_key *key);

/* Returns the value of a READY entry. */
void *fg_cache_value(const struct fg_cache_entry *entry);
/* Adds a reference and returns the entry. */
struct fg_cache_entry *fg_cache_ref(struct fg_cache_entry *entry);
/* Removes a reference. Accepts NULL. */
void fg_cache_unref(struct fg_cache_entry *entry);

struct fg_cache_stats {
    uint64_t bytes, entries; /* referenced or not */
};
/* Returns the current size. */
struct fg_cache_stats fg_cache_stats(struct fg_cache *cache);

#endif
