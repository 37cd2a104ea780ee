/*
 * The committer is the thread that writes the head. It collects pushes and hands them over in
 * groups, so that many pushes share one fsync (group_commit.h); while one group is being written
 * the next collects. Between two groups it runs visits: other changes of the head.
 *
 *   ing_committer_submit()  ---> agents' items -----\
 *                           ---> forwarded items ----> committer's thread: commit(items), visits
 *   ing_committer_post()    ---> visits ------------/
 *
 * Agents wait for the answer to each push, and servers that catch up for none in particular. So a
 * group has the agents' items first, and while agents push at most some 64 KiB of what is
 * forwarded; that takes at most half of the room for items that wait. Items of one service are
 * handed over in the order of their submission, visits run in the order of their posts.
 *
 * A group gathers for a moment (delay_ns) before it is written. An agent's item that came while a
 * group with forwarded ones was written has waited already: that counts, unless forwarded items of
 * its service wait before it.
 */
#ifndef FG_INGESTER_COMMITTER_H
#define FG_INGESTER_COMMITTER_H

#include "common/base/time.h"
#include "common/runtime/metrics.h"
#include "ingester/commit_item.h"

struct ing_committer;

struct ing_committer_config {
    /* Writes the items and calls done() of each. The committer's thread. */
    void (*commit)(void *arg, struct ing_commit_item *items);
    /* Runs after each group and the visits behind it. The committer's thread. */
    void (*after)(void *arg);
    void *arg;
    uint64_t queue_max_bytes;     /* of items that wait; then there is no room for more */
    int64_t delay_ns;             /* how long a first item waits for others; 0: not at all */
    struct fg_clock *clock;       /* borrowed; says how long an item has waited */
    struct fg_registry *registry; /* borrowed */
};

/* Starts the thread. FG_E_LIMIT: no more threads. */
enum fg_code ing_committer_create(const struct ing_committer_config *config,
                                  struct ing_committer **ret_committer,
                                  struct fg_err *err) fg_must_check;

/* Commits what is queued, runs the posted visits, and ends the thread. Nothing is submitted or
 * posted any more. Accepts NULL. */
void ing_committer_destroy(struct ing_committer *committer);

/*
 * Returns whether there is room for an item, a forwarded one or an agent's. Ask before the stacks
 * of its push get numbers: a push that is refused later would spoil them for all others of its
 * service. Forwarded items have half of the room, and empty queues take any item. Any thread.
 */
bool ing_committer_has_room(struct ing_committer *committer, bool forwarded) fg_must_check;

/* Queues an item, which has a service, also if the room has been taken meanwhile: so the queues may
 * exceed queue_max_bytes by an item for each thread that submits. Any thread. */
void ing_committer_submit(struct ing_committer *committer, struct ing_commit_item *item);

/* Something else that has to happen where the head is written. */
struct ing_committer_visit {
    struct ing_committer_visit *next;
    void (*run)(struct ing_committer_visit *visit); /* may free it; pushes wait meanwhile */
};

/* Queues a visit, which the committer's thread runs between two groups. The visit is the
 * committer's until run() is called. Any thread. */
void ing_committer_post(struct ing_committer *committer, struct ing_committer_visit *visit);

#endif
