/*
 * All that scrapes need, for tests: a loop with a client, workers, a distributor, and an ingester
 * that is none but adds up what it is given and can be told to fail.
 */
#ifndef FG_TESTS_UNIT_DISTRIBUTOR_SCRAPE_ROOM_H
#define FG_TESTS_UNIT_DISTRIBUTOR_SCRAPE_ROOM_H

#include "distributor/scrape/scrape_pool.h"

#include <pthread.h>
#include <semaphore.h>

enum { ROOM_SUMS_MAX = 64, ROOM_IDS_MAX = 4096 };

struct room_sum {
    char type[64]; /* memory:alloc_space */
    int64_t sum;
};

struct room_ingester {
    struct fg_peer peer;
    pthread_mutex_t lock; /* of all below */
    struct room_sum sums[ROOM_SUMS_MAX];
    size_t n_sums;
    struct fg_id ids[ROOM_IDS_MAX];
    size_t n_ids, n_pushes;
    char labels[512]; /* of the last profile that was stored */
    int64_t duration_ns;
    /* So many pushes fail: without being stored, stored all the same, refused for good; or the
     * definitions of their stacks are lacking. */
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

/* interval_ns: of scrapes. running_max: places. */
struct room *room_create(int64_t interval_ns, unsigned running_max);

/* Ends what is scraped, and everything. */
void room_destroy(struct room *room);

/* A group of targets in YAML. */
void room_update(struct room *room, const char *group, const char *yaml);

/* What is scraped: "host:1{a=\"b\"} host:2{...}", by group and address; dropped ones follow with
 * their reasons. */
void room_write_targets(struct room *room, struct fg_buf *out);

/* Waits until that is so. */
void room_wait_targets(struct room *room, const char *want);

/* Until the counter or gauge is at least that. */
void room_wait_metric(struct room *room, unsigned metric, uint64_t least);

/* The sum of what was stored of a type ("memory:alloc_space"). */
int64_t room_sum(struct room *room, const char *type);

#endif
