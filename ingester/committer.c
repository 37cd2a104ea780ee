/*
 * The thread is no ticker (common/runtime/ticker.h): it has no period, but a queue whose items it
 * must answer before it ends, and it wakes early when enough of them have gathered.
 */
#include "ingester/committer.h"

#include "common/base/time.h"
#include "common/runtime/thread.h"

#include <stdlib.h>

enum {
    GROUP_ITEMS_ENOUGH = 64, /* worth an fsync: the group waits for no more */
    GROUP_ITEMS_MAX = 4096,  /* all items of a group are answered together: keep that prompt */
    GROUP_BYTES_MAX = 8 * 1024 * 1024,
};

/* clang-format off */
#define COMMITTER_METRICS(M)                                                                       \
    M(GAUGE, COMMITTER_QUEUED, "flamegrid_ingester_commit_queue_items", "Pushes that wait for the committer")
/* clang-format on */
FG_METRICS_ENUM(committer_metric, COMMITTER_METRICS)
FG_METRICS_TABLE(committer_metrics, COMMITTER_METRICS)

struct ing_committer {
    struct ing_committer_config config;
    struct fg_metrics *metrics;
    struct fg_thread thread; /* its lock is of all below, and not held while something is written */
    struct ing_commit_item *first, *last;
    uint64_t queued_bytes, queued_items;
    struct ing_committer_visit *first_visit, *last_visit;
};

/* After each change of the queues. Locked. */
static void check_queues(const struct ing_committer *committer)
{
    fg_assert((committer->first == NULL) == (committer->queued_items == 0));
    fg_assert((committer->first == NULL) == (committer->queued_bytes == 0));
    fg_assert((committer->first == NULL) == (committer->last == NULL));
    fg_assert((committer->first_visit == NULL) == (committer->last_visit == NULL));
}

/* ---- the thread ---- */

/* Waits up to the delay for more items to share the fsync. Locked. */
static void gather(struct ing_committer *committer)
{
    int64_t until_ns = fg_mono_ns(fg_clock_real()) + committer->config.delay_ns;

    if (committer->config.delay_ns <= 0)
        return;
    /* A visit ends the gathering: the thread that posted it waits for its answer. */
    while (!committer->thread.stop && committer->first_visit == NULL &&
           committer->queued_items > 0 && committer->queued_items < GROUP_ITEMS_ENOUGH)
        if (!fg_thread_sleep(&committer->thread, until_ns))
            return;
}

/* Takes a group off the queue. Locked. */
static struct ing_commit_item *take_group(struct ing_committer *committer)
{
    struct ing_commit_item *items = committer->first, *end = NULL;
    uint64_t bytes = 0;

    for (size_t n = 0; committer->first != NULL && n < GROUP_ITEMS_MAX && bytes < GROUP_BYTES_MAX;
         n++) {
        end = committer->first;
        bytes += ing_commit_item_bytes(end);
        committer->first = end->next;
        committer->queued_items--;
    }
    fg_assert(committer->queued_bytes >= bytes);
    committer->queued_bytes -= bytes;
    if (end != NULL)
        end->next = NULL;
    if (committer->first == NULL)
        committer->last = NULL;
    return items;
}

static void commit_until_stopped(void *arg)
{
    struct ing_committer *committer = arg;
    struct ing_commit_item *items;
    struct ing_committer_visit *visits;

    for (;;) {
        fg_thread_lock(&committer->thread);
        while (committer->first == NULL && committer->first_visit == NULL &&
               !committer->thread.stop)
            (void)fg_thread_sleep(&committer->thread, INT64_MAX);
        gather(committer);
        /* Items and visits of one moment. What is left in the queue comes after these visits, so a
         * visit may find pushes waiting that were submitted before it; none of them is answered
         * yet. */
        items = take_group(committer);
        visits = committer->first_visit;
        committer->first_visit = committer->last_visit = NULL;
        check_queues(committer);
        fg_thread_unlock(&committer->thread);
        if (items == NULL && visits == NULL) /* told to stop, and everything is answered */
            return;
        if (items != NULL)
            committer->config.commit(committer->config.arg, items);
        while (visits != NULL) {
            struct ing_committer_visit *visit = visits;

            visits = visit->next; /* commit_until_stopped() may free it */
            visit->run(visit);
        }
        /* Also after visits alone: intake.c posts an empty one to have the store healed. */
        committer->config.after(committer->config.arg);
    }
}

/* ---- any thread ---- */

void ing_committer_post(struct ing_committer *committer, struct ing_committer_visit *visit)
{
    visit->next = NULL;
    fg_thread_lock(&committer->thread);
    if (committer->last_visit == NULL)
        committer->first_visit = visit;
    else
        committer->last_visit->next = visit;
    committer->last_visit = visit;
    check_queues(committer);
    fg_thread_wake(&committer->thread);
    fg_thread_unlock(&committer->thread);
}

bool ing_committer_submit(struct ing_committer *committer, struct ing_commit_item *item)
{
    /* Counted once more when it is taken off the queue: until then nobody changes the item. */
    uint64_t bytes = ing_commit_item_bytes(item);
    bool fits;

    item->next = NULL;
    fg_thread_lock(&committer->thread);
    /* An empty queue takes any item: one that is larger than the limit must get in, too. */
    fits = committer->queued_bytes == 0 ||
           committer->queued_bytes + bytes <= committer->config.queue_max_bytes;
    if (fits) {
        if (committer->last == NULL)
            committer->first = item;
        else
            committer->last->next = item;
        committer->last = item;
        committer->queued_bytes += bytes;
        committer->queued_items++;
        check_queues(committer);
        /* The thread finds the items in between when it wakes; each wake-up costs as much as a
         * record. */
        if (committer->queued_items == 1 || committer->queued_items == GROUP_ITEMS_ENOUGH)
            fg_thread_wake(&committer->thread);
    }
    fg_thread_unlock(&committer->thread);
    return fits;
}

/* ---- start and end ---- */

static void on_scrape(void *arg)
{
    struct ing_committer *committer = arg;

    fg_thread_lock(&committer->thread);
    fg_metric_set(committer->metrics, COMMITTER_QUEUED, (int64_t)committer->queued_items);
    fg_thread_unlock(&committer->thread);
}

enum fg_code ing_committer_create(const struct ing_committer_config *config,
                                  struct ing_committer **ret_committer, struct fg_err *err)
{
    struct ing_committer *committer = fg_new(struct ing_committer);

    committer->config = *config;
    fg_thread_init(&committer->thread);
    if (fg_thread_start(&committer->thread, "committer", commit_until_stopped, committer, err) !=
        FG_OK) {
        fg_thread_done(&committer->thread);
        free(committer);
        return err->code;
    }
    committer->metrics =
        fg_metrics_register(config->registry, committer_metrics, FG_COUNT(committer_metrics));
    fg_registry_on_scrape(config->registry, on_scrape, committer);
    *ret_committer = committer;
    return FG_OK;
}

void ing_committer_destroy(struct ing_committer *committer)
{
    if (committer == NULL)
        return;
    fg_registry_off_scrape(committer->config.registry, committer);
    /* Workers and segments have ended, so nothing is submitted or posted behind this. */
    fg_thread_stop(&committer->thread);
    check_queues(committer);
    fg_assert(committer->first == NULL && committer->first_visit == NULL); /* all are answered */
    fg_thread_done(&committer->thread);
    free(committer);
}
