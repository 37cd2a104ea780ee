/* Provides all that scrapes need in tests: a loop with a client, workers, a distributor, and a
 * stand-in for the ingester that adds up what it receives and can be told to fail. */
#ifndef FG_TESTS_UNIT_DISTRIBUTOR_SCRAPE_ROOM_H
#define FG_TESTS_UNIT_DISTRIBUTOR_SCRAPE_ROOM_H

#include "distributor/scrape/scrape_pool.h"
#include "tests/lib/push_ring.h"

#include <pthread.h>
#include <semaphore.h>

enum { ROOM_SUMS_MAX = 64, ROOM_IDS_MAX = 4096 };

struct room_sum {
    char type[64]; /* memory:alloc_space */
    int64_t sum;
};

struct room_ingester {
    struct fg_peer peer;
    pthread_mutex_t lock; /* guards all below */
    struct room_sum sums[ROOM_SUMS_MAX];
    size_t n_sums;
    struct fg_id ids[ROOM_IDS_MAX];
    size_t n_ids, n_pushes;
    char labels[512]; /* of the last profile that was stored */
    int64_t duration_ns;
    /* Numbers of pushes that fail: not stored, stored but not answered, refused for good, or
     * lacking the definitions of their stacks. */
    unsigned lost, stored_and_lost, refused, lacking;
};

struct room {
    struct fg_loop *loop;
    struct fg_work *work;
    struct fg_registry *registry;
    struct fg_metrics *metrics;
    struct fg_budget bodies;
    struct fg_limit_settings limits;
    struct dist_settings settings;
    struct fg_tenants *tenants;
    struct room_ingester ingester;
    struct distributor *distributor;
    struct dist_profile_kinds kinds;
    struct dist_scrape_context context;
    struct dist_scrape_pool *targets;
    sem_t gone;
};

/* interval_ns: between scrapes. running_max: slots. */
struct room *room_create(int64_t interval_ns, unsigned running_max);

/* Does the same with the ingesters of a ring, which is borrowed: room->ingester has what at least
 * one of them has stored. */
struct room *room_create_in_ring(int64_t interval_ns, unsigned running_max, struct push_ring *ring);

/* Stops all scrapes and frees everything. */
void room_destroy(struct room *room);

/* Scrapes a group of targets in YAML. */
void room_update(struct room *room, const char *group, const char *yaml);

/* Writes the current targets: "host:1{a="b"} host:2{...}", by group and address; dropped ones
 * follow with their reasons. */
void room_write_targets(struct room *room, struct fg_buf *out);

/* Waits until the targets are these. */
void room_wait_targets(struct room *room, const char *want);

/* Waits until the counter or gauge is at least that. */
void room_wait_metric(struct room *room, unsigned metric, uint64_t least);

/* Returns the sum of all stored values of a type ("memory:alloc_space"). */
int64_t room_sum(struct room *room, const char *type);

#endif
