/*
 * The core of repair: finds which groups of another owner differ, which ids this head lacks, and
 * fetches them. It decides for repair.h without calls, store and clock, which are behind
 * ing_repair_links. It is straight-line code, since it runs on a thread of its own; the simulator
 * runs it on a fiber.
 *
 *   groups()   page after page: sums of what the other owner has in no segment
 *     ids()      of a group whose sum differs from ours: all but the youngest
 *       take()     the profiles that we lack, some hundred at a time
 *
 * Thread: the caller's.
 */
#ifndef FG_INGESTER_REPAIR_CORE_H
#define FG_INGESTER_REPAIR_CORE_H

#include "common/base/arena.h"
#include "ingester/repair/group.h"

enum { REPAIR_IDS_MAX = 256 /* in one call of take() */ };

/* A group of the other owner. */
struct ing_repair_group {
    struct fg_slice tenant;
    uint16_t shard;
    uint32_t window;
    struct ing_group_sum sum;
};

struct ing_repair_page {
    struct ing_repair_group *groups;
    size_t n;
    bool more; /* there are groups behind the last of these */
};

/* A position in a group of the other owner, in its own encoding, as of its last answer: it need not
 * read again what is before that position. */
struct ing_repair_place {
    uint8_t bytes[HEAD_PROFILE_KEY_BYTES];
    size_t len; /* 0: the beginning */
};

/* The world as the core sees it. All functions that return a code may wait and fail. */
struct ing_repair_links {
    void *arg;
    /* Lists groups behind `after` (NULL: from the start). The page is in the arena. */
    enum fg_code (*groups)(void *arg, const struct ing_repair_group *after, struct fg_arena *arena,
                           struct ing_repair_page *ret_page, struct fg_err *err);
    /* Adds the ids that the other owner has of the group, in the order of its store. */
    enum fg_code (*ids)(void *arg, const struct ing_repair_group *group, struct ing_group_ids *out,
                        struct fg_err *err);
    /* Fetches and pushes at least one of the profiles. Leaves the ids of the others in front, *n of
     * them, all at the place or behind it. */
    enum fg_code (*take)(void *arg, const struct ing_repair_group *group, struct fg_id *ids,
                         size_t *n, struct ing_repair_place *place, struct fg_err *err);
    /* Returns true if this ingester owns the shard. */
    bool (*owns)(void *arg, uint16_t shard);
    /* Returns the sum of what this head has of the group in no segment. */
    struct ing_group_sum (*own_sum)(void *arg, const struct ing_repair_group *group);
    /* Adds all ids that this head has of the group. */
    enum fg_code (*own_ids)(void *arg, const struct ing_repair_group *group,
                            struct ing_group_ids *out, struct fg_err *err);
    /* Takes note of a group that failed and is left to the next pass. May wait. */
    void (*group_failed)(void *arg, const struct ing_repair_group *group);
};

/*
 * Runs one pass over all groups of the other owner. A group that fails is left to the next pass;
 * the pass goes on with the group behind it, and at its end fails with the first of these errors.
 * FG_E_UNAVAILABLE, FG_E_DEADLINE, FG_E_CANCELED, FG_E_PRECONDITION, FG_E_ABORTED, FG_E_NO_SPACE,
 * and any error of groups(), end the pass at once.
 */
enum fg_code ing_repair_core_pass(const struct ing_repair_links *links,
                                  struct fg_err *err) fg_must_check;

#endif
