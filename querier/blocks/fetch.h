/*
 * Gets cached objects for a query (directories, indexes, trees, pages, rollups): from the cache in
 * memory, from the disk cache, or from the bucket by as few requests as possible, since neighbours
 * share one. Visits run while requests are under way, so that network and CPU work at the same
 * time. Bytes that are under way, or wait for their visit, are bounded by querier.fetch_max_bytes.
 *
 * Thread: the query's. Visits come on it, in the order of the phases. A visit may put tasks into
 * the snapshot's task group; qry_fetch_all() waits for these, too. The task group also parses what
 * was fetched.
 */
#ifndef FG_QUERIER_BLOCKS_FETCH_H
#define FG_QUERIER_BLOCKS_FETCH_H

#include "common/runtime/task_group.h"
#include "common/storage/cache/cache.h"
#include "querier/blocks/part.h"
#include "querier/query.h"

enum { FETCH_PHASES = 2 };

struct qry_fetch;
struct qry_fetch_item;
struct qry_load;

/* A type of cached object (cached_objects.h). */
struct qry_cached_type {
    uint32_t what;  /* its number in keys of the cache */
    bool is_rollup; /* of rollups: nothing is lost without it (lost.h) */
    bool with_tail; /* is fetched with all that follows it, if the object has a tail */
    /*
     * Checks the bytes and makes what is kept of them. *ret_bytes: its size in memory. Any thread,
     * others make other objects meanwhile.
     */
    enum fg_code (*make)(const struct qry_fetch_item *item, struct fg_slice bytes, size_t max_bytes,
                         void **ret_value, size_t *ret_bytes, struct fg_err *err);
    void (*destroy)(void *value);
};

/* A cached object that is wanted. */
struct qry_fetch_item {
    const struct qry_cached_type *type;
    const struct qry_object *object;
    struct fg_block_range range;
    struct qry_part *part;      /* NULL: of the object as a whole */
    uint32_t kind, number;      /* of a page: section, page; of a rollup: what, row */
    bool single;                /* rollups of single series */
    const struct fg_keys *keys; /* of a head: those of its parts */
    unsigned phase;             /* all items of earlier phases are visited first */

    /* fetch.c's own, except that visits may use the entry. */
    struct fg_cache_entry *entry;
    struct qry_fetch_item *next;
    struct fg_task task;     /* makes it */
    struct qry_fetch *fetch; /* which it is of */
    struct fg_slice bytes;   /* what it is made of: in the load, in the object's tail, or... */
    struct fg_buf read;      /* ...what the disk had */
    struct qry_load *load;   /* NULL: no request of this query brought it */
    bool of_disk;
    bool again; /* a cache had damaged bytes: the bucket itself is asked */
};

struct qry_fetch_list {
    struct qry_fetch_item *items;
    uint32_t n, cap;
};

/* Adds an item to a list, in the arena. FG_E_LIMIT. */
enum fg_code qry_fetch_add(struct qry_fetch_list *list, struct fg_arena *arena,
                           const struct qry_fetch_item *item, struct fg_err *err) fg_must_check;

/* Called once for each item. The entry is released afterwards, unless the visit keeps it with
 * fg_cache_ref(). */
typedef enum fg_code (*qry_fetch_visit)(void *arg, const struct qry_fetch_item *item,
                                        struct fg_err *err);

/* Gets and visits all items. Sorts the list, which must not be used afterwards. Errors: those of
 * blocks.h. */
enum fg_code qry_fetch_all(struct qry_query *query, struct qry_fetch_list *list,
                           qry_fetch_visit visit, void *arg, struct fg_err *err) fg_must_check;

/* Puts the name of the item before the error's text. If the item is damaged, the query's next
 * attempt skips it (lost.h). Any thread. */
enum fg_code qry_fetch_fail(const struct qry_fetch_item *item, struct fg_err *err);

#endif
