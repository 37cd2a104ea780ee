/*
 * What was read from objects once and does not change: directories, indexes and trees as they were
 * parsed, pages as they came. Shared by all questions, bounded in bytes; the longest unused go
 * first.
 *
 * An entry that somebody holds is not freed: what is held may exceed the bound, and is then gone as
 * soon as it is let go. Who opens an entry first makes it; others that want it meanwhile wait for
 * that instead of reading it again:
 *
 *               open                fill
 *   (nothing) --------> LOADING ------------> READY
 *                          |  fail
 *                          +----------------> FAILED   (not found any more; who waited opens again)
 *
 * Thread: any. Nobody waits in wait() while entries that it has to make itself are LOADING and not
 * on their way: so two that wait for each other's entries both go on.
 */
#ifndef FG_COMMON_STORAGE_CACHE_CACHE_H
#define FG_COMMON_STORAGE_CACHE_CACHE_H

#include "common/base/hash.h"

struct fg_cache;

/* What it is: a thing of an object, of one of its parts. */
struct fg_cache_key {
    struct fg_id object; /* hash of its name */
    uint32_t what;       /* the caller's number */
    uint32_t part, number;
};

enum fg_cache_state { FG_CACHE_LOADING, FG_CACHE_READY, FG_CACHE_FAILED };

/* A reference. The value is there once READY. */
struct fg_cache_entry;

/* Never fails. max_bytes 0: nothing stays that nobody holds. */
struct fg_cache *fg_cache_create(uint64_t max_bytes);
void fg_cache_destroy(struct fg_cache *cache); /* nothing is held; NULL is fine */

/*
 * Finds or adds. *ret_state READY: it is there. LOADING: somebody makes it. With *ret_mine set it
 * is the caller who has to, and to end that with fill() or fail().
 */
struct fg_cache_entry *fg_cache_open(struct fg_cache *cache, const struct fg_cache_key *key,
                                     enum fg_cache_state *ret_state, bool *ret_mine);

/* The value is the cache's now; destroy() is called without a lock, on any thread. */
void fg_cache_fill(struct fg_cache_entry *entry, void *value, size_t bytes,
                   void (*destroy)(void *value));
/* It could not be made. */
void fg_cache_fail(struct fg_cache_entry *entry);

/* Waits until it is not LOADING any more, or for so long. */
enum fg_cache_state fg_cache_wait(struct fg_cache_entry *entry, int64_t timeout_ns);

/* Removes the READY entry of the key. The next fg_cache_open() of the key has to make it again;
 * callers that hold the old entry keep it. */
void fg_cache_drop(struct fg_cache *cache, const struct fg_cache_key *key);

void *fg_cache_value(const struct fg_cache_entry *entry); /* READY */
struct fg_cache_entry *fg_cache_ref(struct fg_cache_entry *entry);
void fg_cache_unref(struct fg_cache_entry *entry); /* NULL is fine */

struct fg_cache_stats {
    uint64_t bytes, entries; /* held or not */
};
struct fg_cache_stats fg_cache_stats(struct fg_cache *cache);

#endif
