/*
 * The thread is no ticker (common/runtime/ticker.h): it has no period, but a queue whose items it
 * must answer before it ends, and it wakes early when enough of them have gathered.
 */
#include "ingester/committer.h"

#include "common/runtime/thread.h"

#include <stdlib.h>

enum {
    GROUP_ITEMS_ENOUGH = 64, /* worth an fsync: the group waits for no more */
    GROUP_ITEMS_MAX = 4096,  /* all items of a group are answered together: keep that prompt */
    GROUP_BYTES_MAX = 8 * 1024 * 1024,
    /* Of forwarded items in a group, while agents push: an agent whose push comes when the write
     * has begun waits for all of it, and so many take two milliseconds with the sync. */
    FORWARDED_BYTES_ENOUGH = 64 * 1024,
    /* So many groups without an item of an agent, some seconds, and none is expected. */
    QUIET_GROUPS = 1000,
};

enum { OF_AGENTS, OF_SERVERS, QUEUES };

/* clang-format off */
#define COMMITTER_METRICS(M)                                                                       \
    M(GAUGE, COMMITTER_QUEUED, "flamegrid_ingester_commit_queue_items", "Pushes that wait for the committer")
/* clang-format on */
FG_METRICS_ENUM(committer_metric, COMMITTER_METRICS)
FG_METRICS_TABLE(committer_metrics, COMMITTER_METRICS)

struct commit_queue {
    struct ing_commit_item *first, *last;
    uint64_t bytes, items;
    int64_t since_mono_ns; /* when an item came to it that was empty */
};

struct ing_committer {
    struct ing_committer_config config;
    struct fg_metrics *metrics;
    struct fg_thread thread; /* its lock is of all below, and not held while something is written */
    struct commit_queue queues[QUEUES];
    unsigned quiet;     /* groups since the last one with an item of an agent, up to QUIET_GROUPS */
    bool had_forwarded; /* the last group had forwarded items */
    struct ing_committer_visit *first_visit, *last_visit;
};

/* ---- queues; locked ---- */

static uint64_t queued_items(const struct ing_committer *committer)
{
    return committer->queues[OF_AGENTS].items + committer->queues[OF_SERVERS].items;
}

static uint64_t queued_bytes(const struct ing_committer *committer)
{
    return committer->queues[OF_AGENTS].bytes + committer->queues[OF_SERVERS].bytes;
}

static bool is_forwarded(const struct ing_commit_item *item)
{
    return item->via.n > 0;
}

/* An agent's item does not overtake items of its service: it may use what they define. Nor does a
 * forwarded one, which waits in its queue for those of agents (take_items()). */
static unsigned queue_of(const struct ing_commit_item *item)
{
    return is_forwarded(item) || item->service->items_of_servers > 0 ? OF_SERVERS : OF_AGENTS;
}

/* Returns the count of the items that the service has in a queue. */
static uint32_t *items_of(struct ing_catalog_service *service, unsigned of)
{
    return of == OF_SERVERS ? &service->items_of_servers : &service->items_of_agents;
}

/* After each change. */
static void check_queues(const struct ing_committer *committer)
{
    for (unsigned i = 0; i < QUEUES; i++) {
        const struct commit_queue *queue = &committer->queues[i];

        fg_assert((queue->first == NULL) == (queue->items == 0));
        fg_assert((queue->first == NULL) == (queue->bytes == 0));
        fg_assert((queue->first == NULL) == (queue->last == NULL));
    }
    fg_assert((committer->first_visit == NULL) == (committer->last_visit == NULL));
}

/* ---- the thread ---- */

/* Waits up to the delay for more items to share the fsync. If an agent's item has waited while a
 * group with forwarded ones was written, that counts: it has waited because of a server that
 * catches up. After agents' groups the whole delay is better: it is what makes groups large, and
 * without it a busy ingester takes a few profiles in a hundred less. Locked. */
static void gather(struct ing_committer *committer)
{
    const struct commit_queue *agents = &committer->queues[OF_AGENTS];
    struct fg_clock *clock = committer->config.clock;
    int64_t since_ns =
        agents->items > 0 && committer->had_forwarded ? agents->since_mono_ns : fg_mono_ns(clock);
    int64_t until_ns = fg_time_add(since_ns, committer->config.delay_ns);

    /* A visit ends the gathering: the thread that posted it waits for its answer. */
    while (!committer->thread.stop && committer->first_visit == NULL &&
           queued_items(committer) > 0 && queued_items(committer) < GROUP_ITEMS_ENOUGH &&
           fg_mono_ns(clock) < until_ns)
        if (!fg_thread_sleep(&committer->thread, until_ns))
            return;
}

/* Moves items of a queue to the end of a group until it has `max_bytes` of them. Locked. */
static void take_items(struct ing_committer *committer, unsigned of, uint64_t max_bytes, size_t *n,
                       struct ing_commit_item ***tail)
{
    struct commit_queue *queue = &committer->queues[of];
    uint64_t taken = 0;

    while (queue->first != NULL && *n < GROUP_ITEMS_MAX && taken < max_bytes) {
        struct ing_commit_item *item = queue->first;
        uint64_t bytes = ing_commit_item_bytes(item);

        if (of == OF_SERVERS && item->service->items_of_agents > 0)
            break;
        fg_assert(queue->bytes >= bytes);
        taken += bytes;
        queue->bytes -= bytes;
        queue->items--;
        queue->first = item->next;
        --*items_of(item->service, of);
        item->next = NULL;
        **tail = item;
        *tail = &item->next;
        ++*n;
    }
    if (queue->first == NULL)
        queue->last = NULL;
}

/* Takes a group off the queues: what agents push, and then some of what is forwarded. Locked. */
static struct ing_commit_item *take_group(struct ing_committer *committer)
{
    struct ing_commit_item *items = NULL, **tail = &items;
    size_t n = 0, n_agents;

    take_items(committer, OF_AGENTS, GROUP_BYTES_MAX, &n, &tail);
    n_agents = n;
    committer->quiet +=
        n == 0 && committer->queues[OF_SERVERS].items > 0 && committer->quiet < QUIET_GROUPS;
    take_items(committer, OF_SERVERS,
               committer->quiet < QUIET_GROUPS ? FORWARDED_BYTES_ENOUGH : GROUP_BYTES_MAX, &n,
               &tail);
    committer->had_forwarded = n > n_agents;
    return items;
}

static void commit_until_stopped(void *arg)
{
    struct ing_committer *committer = arg;
    struct ing_commit_item *items;
    struct ing_committer_visit *visits;

    for (;;) {
        fg_thread_lock(&committer->thread);
        while (queued_items(committer) == 0 && committer->first_visit == NULL &&
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

bool ing_committer_has_room(struct ing_committer *committer, bool forwarded)
{
    uint64_t max_bytes = committer->config.queue_max_bytes, queued, of_servers;

    fg_thread_lock(&committer->thread);
    queued = queued_bytes(committer);
    of_servers = committer->queues[OF_SERVERS].bytes;
    fg_thread_unlock(&committer->thread);
    return queued < max_bytes && (!forwarded || 2 * of_servers < max_bytes);
}

/* Locked. */
static void append(struct ing_committer *committer, struct ing_commit_item *item, uint64_t bytes)
{
    unsigned of = queue_of(item);
    struct commit_queue *queue = &committer->queues[of];

    item->next = NULL;
    if (queue->last == NULL) {
        queue->first = item;
        queue->since_mono_ns = fg_mono_ns(committer->config.clock);
    } else {
        queue->last->next = item;
    }
    queue->last = item;
    queue->bytes += bytes;
    queue->items++;
    ++*items_of(item->service, of);
    if (!is_forwarded(item))
        committer->quiet = 0;
    check_queues(committer);
    /* The thread finds the items in between when it wakes; each wake-up costs as much as a record.
     */
    if (queued_items(committer) == 1 || queued_items(committer) == GROUP_ITEMS_ENOUGH)
        fg_thread_wake(&committer->thread);
}

void ing_committer_submit(struct ing_committer *committer, struct ing_commit_item *item)
{
    /* Counted once more when it is taken off the queue: until then nobody changes the item. */
    uint64_t bytes = ing_commit_item_bytes(item);

    fg_thread_lock(&committer->thread);
    append(committer, item, bytes);
    fg_thread_unlock(&committer->thread);
}

/* ---- start and end ---- */

static void on_scrape(void *arg)
{
    struct ing_committer *committer = arg;

    fg_thread_lock(&committer->thread);
    fg_metric_set(committer->metrics, COMMITTER_QUEUED, (int64_t)queued_items(committer));
    fg_thread_unlock(&committer->thread);
}

enum fg_code ing_committer_create(const struct ing_committer_config *config,
                                  struct ing_committer **ret_committer, struct fg_err *err)
{
    struct ing_committer *committer = fg_new(struct ing_committer);

    committer->config = *config;
    committer->quiet = QUIET_GROUPS;
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
    fg_assert(queued_items(committer) == 0 &&
              committer->first_visit == NULL); /* all are answered */
    fg_thread_done(&committer->thread);
    free(committer);
}
