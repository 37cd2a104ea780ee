/*
 * What one owner lacks of what another one has: which groups differ, which ids are lacking, and
 * when all was asked. The decisions of repair.h, without calls, store and clock, which are behind
 * repair_links: straight-line code, since it runs in a thread of its own.
 *
 *   groups()   page after page: sums of what the other one has in no segment
 *     ids()      of a group whose sum is not ours: what it has, but the youngest
 *       take()     what of it we have not, some hundred at a time
 *
 * Thread: the caller's.
 */
#ifndef FG_INGESTER_REPAIR_CORE_H
#define FG_INGESTER_REPAIR_CORE_H

#include "common/base/arena.h"
#include "ingester/repair/group.h"

enum { REPAIR_IDS_MAX = 256 /* that are taken at a time */ };

/* A group of the other one. */
struct ing_repair_group {
    struct fg_slice tenant;
    uint16_t shard;
    uint32_t window;
    struct ing_group_sum sum;
};

struct ing_repair_page {
    struct ing_repair_group *groups;
    size_t n;
    bool more; /* behind the last of these */
};

/* Where in a group of the other one that is which is to be taken, at the earliest: in its own
 * words, which it said with an answer before. So it need not read what lies before that again. */
struct ing_repair_place {
    uint8_t bytes[HEAD_PROFILE_KEY_BYTES];
    size_t len; /* 0: it said nothing */
};

/* All may take their time and fail, but for owns() and own_sum(). */
struct ing_repair_links {
    void *arg;
    /* after NULL: from the start. The page is in the arena. */
    enum fg_code (*groups)(void *arg, const struct ing_repair_group *after, struct fg_arena *arena,
                           struct ing_repair_page *ret_page, struct fg_err *err);
    /* Adds the ids of what the other one has of the group, in the order in which they are kept. */
    enum fg_code (*ids)(void *arg, const struct ing_repair_group *group, struct ing_group_ids *out,
                        struct fg_err *err);
    /* Fetches and pushes some of these, at least one; *n are left, in front, at the place or behind
     * it. */
    enum fg_code (*take)(void *arg, const struct ing_repair_group *group, struct fg_id *ids,
                         size_t *n, struct ing_repair_place *place, struct fg_err *err);
    bool (*owns)(void *arg, uint16_t shard);
    /* What we have of it: in no segment; at all. */
    struct ing_group_sum (*own_sum)(void *arg, const struct ing_repair_group *group);
    enum fg_code (*own_ids)(void *arg, const struct ing_repair_group *group,
                            struct ing_group_ids *out, struct fg_err *err);
};

/* Fails with what a link fails with. */
enum fg_code ing_repair_core_pass(const struct ing_repair_links *links,
                                  struct fg_err *err) fg_must_check;

#endif
